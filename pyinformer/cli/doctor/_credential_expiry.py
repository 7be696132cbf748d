"""Read what certificates and tokens say about their own expiry; nothing is verified here."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import final

import msgspec

from pyinformer.objects import decoder_of

_JWT_PARTS = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The public parts of a certificate that matter here."""

    subject: str
    begins_at: float
    """Unix time."""
    expires_at: float
    """Unix time."""


def certificate_of(encoded: bytes | None) -> Certificate | None:
    """Return what a certificate says.

    Args:
        encoded: the certificate as DER, or PEM with it in the first place; None for none.

    Returns:
        None if there is none, or it cannot be read.
    """
    if not encoded:
        return None
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    is_pem = b"-----BEGIN" in encoded
    read = x509.load_pem_x509_certificate if is_pem else x509.load_der_x509_certificate
    try:
        found = read(encoded)
        subject = found.subject.rfc4514_string()
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm):
        return None
    return Certificate(
        subject=subject,
        begins_at=found.not_valid_before_utc.timestamp(),
        expires_at=found.not_valid_after_utc.timestamp(),
    )


class _Claims(msgspec.Struct):
    exp: float | None = None


_decode = decoder_of(_Claims)


def token_expiry(authorization: str) -> float | None:
    """Return when the token of an Authorization header expires, in Unix seconds.

    Returns:
        None if it is not a JSON Web Token, or does not say.
    """
    scheme, _, token = authorization.partition(" ")
    parts = token.strip().split(".")
    if scheme.lower() != "bearer" or len(parts) != _JWT_PARTS:
        return None
    try:
        padded = parts[1] + "=" * (-len(parts[1]) % 4)
        return _decode(base64.urlsafe_b64decode(padded)).exp
    except (binascii.Error, ValueError, RecursionError):  # msgspec's errors are ValueErrors
        return None
