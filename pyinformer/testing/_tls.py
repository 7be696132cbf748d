"""A certificate authority for one test server, and the kubeconfig that trusts it.

It needs `trustme`, which is imported only if TLS is requested.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path

from pyinformer.errors import InvalidArgumentError

_CLUSTER = "pyinformer-testing"
_ANYONE = "any"  # over TLS, kubectl asks at the terminal for a user name where there is no login


def server_context(
    *names: str, context: ssl.SSLContext | None = None
) -> tuple[ssl.SSLContext, bytes]:
    """Create a certificate authority and a server certificate for these names.

    Args:
        names: the host names and addresses of the certificate.
        context: the context that shows the certificate in later handshakes; None makes one.

    Returns:
        The server's SSL context, and the authority's certificate as PEM.

    Raises:
        InvalidArgumentError: `trustme` is not installed.
    """
    try:
        import trustme
    except ImportError as error:
        reason = "a certificate needs the package trustme: pip install 'pyinformer[testing]'"
        raise InvalidArgumentError("tls", reason) from error
    authority = trustme.CA()
    context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context, authority.cert_pem.bytes()


def write_private(path: Path, text: str) -> Path:
    """Write a text to a file that only its owner can read, replacing any file at the path.

    The text is written to a temporary file, which is then renamed: a link at the path is replaced,
    not followed, and no reader sees half of the text.

    Returns:
        The path.
    """
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - opens a file descriptor
            file.write(text)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    return path


def kubeconfig_text(url: str, *, ca_pem: bytes | None, token: str | None) -> str:
    """Return a kubeconfig as YAML text.

    Args:
        url: the server's URL.
        ca_pem: the CA certificate; None for plain HTTP.
        token: the bearer token; None for a server that accepts every client.
    """
    if token is None and ca_pem is not None:
        token = _ANYONE
    lines = [
        "apiVersion: v1",
        "kind: Config",
        f"current-context: {_CLUSTER}",
        "clusters:",
        f"- name: {_CLUSTER}",
        "  cluster:",
        f"    server: {url}",
    ]
    if ca_pem is not None:
        encoded = base64.b64encode(ca_pem).decode()
        lines.append(f"    certificate-authority-data: {encoded}")
    credentials = "{}" if token is None else f'{{token: "{token}"}}'
    lines += [
        "users:",
        "- name: tester",
        f"  user: {credentials}",
        "contexts:",
        f"- name: {_CLUSTER}",
        f"  context: {{cluster: {_CLUSTER}, user: tester, namespace: default}}",
    ]
    return "\n".join(lines) + "\n"
