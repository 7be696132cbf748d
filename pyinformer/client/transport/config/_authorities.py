"""Trust the certificates of a PEM text, as Go does: one that cannot be read is left out.

A bundle is often put together by hand, or by a tool that appends: a block that was cut must not
keep a program from a server that one of the others has signed.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from collections.abc import Iterator
from typing import Final

# A block that was cut has no end line of its own: the next one begins at its own first line.
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----([^-]*)-----END CERTIFICATE-----")


class NoCertificateError(ValueError):
    """A text has no certificate that can be read."""


def load_authorities(context: ssl.SSLContext, pem: bytes) -> None:
    """Trust the certificates of a text; without any, the context trusts none.

    Args:
        context: settings that trust no certificate yet.
        pem: certificates in PEM; there may be remarks in any encoding around them.

    Raises:
        NoCertificateError: none of them can be read.

    Source:
        Go crypto/x509, CertPool.AppendCertsFromPEM.
    """
    found = 0
    for certificate in _certificates(pem):
        try:
            context.load_verify_locations(cadata=certificate)
        except (ssl.SSLError, ValueError):
            continue
        found += 1
    if not found:
        raise NoCertificateError


def _certificates(raw: bytes) -> Iterator[bytes]:
    """Yield the certificates of a PEM text in DER, as far as they are base64."""
    for block in _BLOCK.finditer(raw):
        try:
            yield base64.b64decode(b"".join(block[1].split()), validate=True)
        except binascii.Error:
            continue
