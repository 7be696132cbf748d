"""TLS for the replay server: an authority and a certificate of its own, for one run.

HTTP/1.1 is all that is offered, as to clients that do not use HTTP/2: what is measured is
the same protocol with and without TLS.
"""

from __future__ import annotations

import ssl
from pathlib import Path


def server_context(ca_file: Path) -> ssl.SSLContext:
    """Make a certificate for 127.0.0.1 and localhost.

    Args:
        ca_file: where the authority is written for clients, as PEM.
    """
    import trustme

    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(str(ca_file))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    context.set_alpn_protocols(["http/1.1"])
    return context
