"""Certificates as cert-manager would bring them, and clients that verify a server."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import trustme

from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

HOST = "db.acme.svc"


def issue(
    authority: trustme.CA, *names: str, until: float | None = None, since: float | None = None
) -> trustme.LeafCert:
    """Return a certificate of an authority; the times are Unix seconds."""
    return authority.issue_cert(
        *(names or (HOST,)),
        not_after=None if until is None else datetime.fromtimestamp(until, UTC),
        not_before=None if since is None else datetime.fromtimestamp(since, UTC),
    )


def write(folder: Path, leaf: trustme.LeafCert, authority: trustme.CA | None = None) -> None:
    """Write a certificate to a folder, as a mounted Secret: the files are behind a link."""
    number = max((int(one.name[1:]) for one in folder.glob("v*")), default=0) + 1
    new = folder / f"v{number}"
    new.mkdir(parents=True)
    (new / "tls.crt").write_bytes(b"".join(one.bytes() for one in leaf.cert_chain_pems))
    (new / "tls.key").write_bytes(leaf.private_key_pem.bytes())
    if authority is not None:
        (new / "ca.crt").write_bytes(authority.cert_pem.bytes())
    swapped = folder / "swapped"
    swapped.symlink_to(new.name)
    swapped.replace(folder / "data")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"data/{name}")
    shutil.rmtree(folder / f"v{number - 1}", ignore_errors=True)


@asynccontextmanager
async def served(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve a line to each client over TLS; the value is the port.

    Clients must end before: asyncio leaks connections whose handshake is cut.
    """
    answering = set[asyncio.Task[None] | None]()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.add(asyncio.current_task())
        writer.write(b"hello\n")
        writer.close()
        with suppress(OSError, ssl.SSLError):  # the client refused the certificate
            await writer.wait_closed()
        answering.discard(asyncio.current_task())

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await until(lambda: not answering)


async def serial_of(
    port: int, bundle: str, *, host: str = HOST, client: trustme.LeafCert | None = None
) -> str:
    """Connect as the API server does; return the serial number of the certificate.

    Raises:
        ssl.SSLError: the certificate, or that of the client, is refused.
    """
    context = ssl.create_default_context(cadata=bundle)
    if client is not None:
        client.configure_cert(context)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname=host
    )
    try:
        line = await reader.readline()
        found = writer.get_extra_info("ssl_object").getpeercert()
    finally:
        writer.close()
        with suppress(OSError, ssl.SSLError):
            await writer.wait_closed()
    if line != b"hello\n":
        raise ssl.SSLError("the server has ended the connection")
    return str(found["serialNumber"])
