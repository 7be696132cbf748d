"""A certificate authority of one server's own, and the kubeconfig that trusts it.

What enters is an address, what leaves are an SSL context for the server, the authority's
certificate, and kubeconfig text. Needs `trustme`, imported only when TLS is asked for.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from pathlib import Path

from pyinformer.apimachinery import InvalidArgumentError

_CLUSTER = "pyinformer-testing"


def server_context(*names: str) -> tuple[ssl.SSLContext, bytes]:
    """Issue a certificate for these names.

    Returns:
        The server's SSL context, and the authority's certificate as PEM.

    Raises:
        InvalidArgumentError: the package that issues is not installed; says how to get it.
    """
    try:
        import trustme
    except ImportError as error:
        reason = "a certificate needs the package trustme: pip install 'pyinformer[testing]'"
        raise InvalidArgumentError("tls", reason) from error
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context, authority.cert_pem.bytes()


def write_private(path: Path, text: str) -> Path:
    """Put a text into a file that only its owner can read, also where another file was before.

    The file is written beside the path and then takes its place, so a link there is replaced and
    not followed, and no reader sees half of the text.

    Returns:
        The path.
    """
    handle, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with open(handle, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is open already
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
        ca_pem: the authority to trust; None for plain HTTP.
        token: the bearer token; None for none.
    """
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
