"""A client certificate that is held in memory, until TLS has taken it.

What enters is PEM text, from a kubeconfig or an exec plug-in; what leaves is a TLS context that
shows it. The library reads such things from files only: the one it is given can be read by nobody
else, lies in a folder that nobody else can enter, and is gone before anything is sent.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import final


@final
@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client certificate and its key, as PEM."""

    certificate: str
    """The certificate, and those between it and the authority."""

    key: str = field(repr=False)
    """Its private key, without a password."""

    def load_into(self, context: ssl.SSLContext) -> None:
        """Have TLS show this certificate.

        Raises:
            OSError: they are no certificate and no key, or no pair; the library's errors are such.
        """
        import tempfile  # loads much, for the few who show a certificate from memory

        with tempfile.TemporaryDirectory(prefix="pyinformer-") as folder:  # for its owner only
            path = Path(folder, "client.pem")
            path.touch(mode=0o600, exist_ok=False)
            path.write_text(f"{self.certificate}\n{self.key}\n", encoding="utf-8")
            # An encrypted key must not ask for its password on the terminal.
            context.load_cert_chain(path, password=lambda: "")
