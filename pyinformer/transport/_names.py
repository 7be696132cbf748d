"""Looking up the name of a server, without ever waiting for those who look up another.

What enters is a host; what leaves are its addresses. The system looks names up in threads, and the
event loop has few of them for all: a name server that is silent would hold up every cluster. So
each connection looks up one name at a time, for all of its requests, in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType
    from aiohttp.abc import AbstractResolver

    _Addresses: TypeAlias = Sequence[AddrInfoType]


@final
class Names:
    """Looks up the names that one connection needs."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], asyncio.Future[_Addresses]] = {}

    async def addresses(self, host: str, port: int) -> _Addresses:
        """Look up a host, together with all who look it up at the same time.

        Args:
            host: a name or an address; an address is taken as it is.
            port: becomes a part of the addresses.

        Raises:
            OSError: nobody knows the name, or can be asked.

        Cancellation:
            Safe; the look-up goes on for others, and is left behind if there are none.
        """
        found = _numeric(host, port)
        if found:
            return found
        asked = host, port
        future = self._under_way.get(asked)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            _start(host, port, future)
            self._under_way[asked] = future
            future.add_done_callback(lambda _: self._under_way.pop(asked, None))
        await asyncio.wait((future,))  # does not cancel it: others may wait, too
        return future.result()

    def for_aiohttp(self) -> AbstractResolver:
        """Return what looks up names for the general HTTP library, by the same way."""
        from aiohttp.abc import AbstractResolver, ResolveResult

        names = self

        class Resolver(AbstractResolver):
            """The library's idea of addresses."""

            async def resolve(
                self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
            ) -> list[ResolveResult]:
                """Look up a host."""
                return [
                    ResolveResult(
                        hostname=host,
                        host=str(address[0]),
                        port=port,
                        family=one_family,
                        proto=protocol,
                        flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
                    )
                    for one_family, _, protocol, _, address in await names.addresses(host, port)
                    if family in {socket.AF_UNSPEC, one_family}
                ]

            async def close(self) -> None:
                """Keep nothing that needs closing."""

        return Resolver()


def _numeric(host: str, port: int) -> _Addresses:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


def _start(host: str, port: int, future: asyncio.Future[_Addresses]) -> None:
    """Begin to look up a host.

    Raises:
        OSError: the process has no more threads.
    """
    # A daemon: the system cannot be told to stop, and must not hold up the program's end.
    thread = threading.Thread(
        target=_look_up,
        args=(host, port, future),
        name=f"pyinformer looks up {host}",
        daemon=True,
    )
    try:
        thread.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, f"cannot look up {host}: {error}") from error


def _look_up(host: str, port: int, future: asyncio.Future[_Addresses]) -> None:
    """Look up a host, in a thread."""
    try:
        found: _Addresses | Exception = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        found = error
    except Exception as error:  # noqa: BLE001 - else nobody who waits would ever hear of it
        found = OSError(f"cannot look up {host}: {type(error).__name__}: {error}")
    with contextlib.suppress(RuntimeError):  # the loop has been closed, so nobody waits any more
        future.get_loop().call_soon_threadsafe(_settle, future, found)


def _settle(future: asyncio.Future[_Addresses], found: _Addresses | Exception) -> None:
    if future.done():
        return
    if isinstance(found, UnicodeError):  # a label that is empty, or longer than names can be
        found = socket.gaierror(socket.EAI_NONAME, f"no host name: {found}")
    if isinstance(found, Exception):
        future.set_exception(found)
        future.exception()  # whoever asked may have left
    else:
        future.set_result(found)
