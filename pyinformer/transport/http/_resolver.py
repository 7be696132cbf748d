"""Look up the names of servers without one lookup ever waiting for another.

asyncio looks names up in a few threads that all loops share: a name server that does not answer
would delay every cluster. Here each connection looks up a name once for all its requests that need
it at the time, in a separate thread.
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
class Resolver:
    """Looks up the names that one connection needs."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int], asyncio.Future[_Addresses]] = {}

    async def addresses(self, host: str, port: int) -> _Addresses:
        """Look up a host, together with all callers that look it up at the same time.

        Args:
            host: a name or an address; an address needs no lookup.
            port: becomes a part of the addresses.

        Raises:
            OSError: the name is unknown, or the lookup failed.

        Cancellation:
            Safe; the lookup continues for other callers, and is abandoned if there are none.
        """
        found = _numeric(host, port)
        if found:
            return found
        key = host, port
        future = self._pending.get(key)
        if future is None:
            future = asyncio.get_running_loop().create_future()
            _start(host, port, future)
            self._pending[key] = future
            future.add_done_callback(lambda _: self._pending.pop(key, None))
        await asyncio.wait((future,))  # does not cancel it: other callers may wait, too
        return future.result()

    def for_aiohttp(self) -> AbstractResolver:
        """Return a resolver of aiohttp's that looks names up here."""
        from aiohttp.abc import AbstractResolver, ResolveResult

        resolver = self

        class _AiohttpResolver(AbstractResolver):
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
                    for one_family, _, protocol, _, address in await resolver.addresses(host, port)
                    if family in {socket.AF_UNSPEC, one_family}
                ]

            async def close(self) -> None:
                """Do nothing: there is nothing to close."""

        return _AiohttpResolver()


def _numeric(host: str, port: int) -> _Addresses:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


def _start(host: str, port: int, future: asyncio.Future[_Addresses]) -> None:
    """Begin to look up a host.

    Raises:
        OSError: the process cannot start another thread.
    """
    # A daemon: getaddrinfo() cannot be interrupted, and must not delay the program's end.
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
    except Exception as error:  # noqa: BLE001 - else the callers would wait forever
        found = OSError(f"cannot look up {host}: {type(error).__name__}: {error}")
    with contextlib.suppress(RuntimeError):  # the loop has been closed
        future.get_loop().call_soon_threadsafe(_settle, future, found)


def _settle(future: asyncio.Future[_Addresses], found: _Addresses | Exception) -> None:
    if future.done():
        return
    if isinstance(found, UnicodeError):  # a label that is empty, or too long
        found = socket.gaierror(socket.EAI_NONAME, f"not a host name: {found}")
    if isinstance(found, Exception):
        future.set_exception(found)
        future.exception()  # the caller may have left
    else:
        future.set_result(found)
