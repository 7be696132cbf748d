"""Look up the names of servers without one lookup ever waiting for another.

asyncio looks names up in a few threads that all loops share: a name server that does not answer
would delay every cluster. Here each connection looks up a name once for all its requests that need
it at the time, in a separate thread.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, final

from pyinformer._runtime.tasks import run_in_daemon

if TYPE_CHECKING:
    from aiohappyeyeballs import AddrInfoType
    from aiohttp.abc import AbstractResolver

    _Addresses: TypeAlias = Sequence[AddrInfoType]


@final
class Resolver:
    """Looks up the names that one connection needs.

    Args:
        on_lookup: called after each lookup with the name and how long it took; None for no call.
    """

    def __init__(self, on_lookup: Callable[[str, float], None] | None = None) -> None:
        self._on_lookup = on_lookup
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
        host = with_zone_index(host)
        found = _numeric(host, port)
        if found:
            return found
        key = host, port
        future = self._pending.get(key)
        if future is None:
            name = f"pyinformer looks up {host}"
            try:
                future = run_in_daemon(name, partial(_look_up, host, port))
            except RuntimeError as error:
                raise OSError(errno.EAGAIN, f"cannot look up {host}: {error}") from error
            self._pending[key] = future
            began = asyncio.get_running_loop().time()
            future.add_done_callback(lambda _: self._looked_up(key, began))
        await asyncio.wait((future,))  # does not cancel it: other callers may wait, too
        return future.result()

    def _looked_up(self, key: tuple[str, int], began: float) -> None:
        self._pending.pop(key, None)
        if self._on_lookup is not None:
            self._on_lookup(key[0], asyncio.get_running_loop().time() - began)

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


def with_zone_index(host: str) -> str:
    """Return an IPv6 address with the index of its zone in place of the name; others as they are.

    glibc reads names of interfaces in link-local addresses alone.
    """
    address, percent, zone = host.partition("%")
    if not percent or ":" not in address:
        return host
    try:
        return f"{address}%{socket.if_nametoindex(zone)}"
    except (OSError, ValueError):  # an index already, or no interface of this host
        return host


def _numeric(host: str, port: int) -> _Addresses:
    try:
        name = host.encode("ascii")  # given text, Python loads its tables of international names
        return socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []


def _look_up(host: str, port: int) -> _Addresses:
    """Look up a host, in a thread.

    Raises:
        OSError: the name is unknown, or the lookup failed.
    """
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that is empty, or too long
        raise socket.gaierror(socket.EAI_NONAME, f"not a host name: {error}") from error
    except OSError:
        raise
    except Exception as error:  # as an OSError the error reaches the caller as a TransportError
        text = f"cannot look up {host}: {type(error).__name__}: {error}"
        raise OSError(text) from error
