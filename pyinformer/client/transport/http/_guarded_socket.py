"""A socket that checks the guard before each send, also of bytes that the loop has buffered.

An event loop buffers what a socket did not take, and sends it when the socket is writable again.
After a pause of the process it does so before a timer fires, so no timer can prevent it.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    import asyncio
    from _socket import _CMSGArg, _RetAddress
    from collections.abc import Callable, Iterable

    from _typeshed import ReadableBuffer

    from pyinformer.client.transport.http._last_write_check import Fence

_OPEN: Final = WeakValueDictionary[int, "GuardedSocket"]()  # asyncio does not hand out its sockets


@final
class GuardedSocket(socket.socket):
    """A socket of a connection, with the `fence` of the guarded write that it carries.

    asyncio's loops send by these methods. uvloop does not: it sends by the file descriptor.

    Args:
        family: the address family.
        kind: the type of the socket.
        protocol: the protocol.
        on_closed: called once, when the socket is closed or detached.
    """

    __slots__ = ("_on_closed", "fence")

    def __init__(
        self, family: int, kind: int, protocol: int, on_closed: Callable[[], None] | None = None
    ) -> None:
        self._on_closed = on_closed
        super().__init__(family, kind, protocol)
        self.fence: Fence | None = None
        _OPEN[self.fileno()] = self

    def close(self) -> None:
        """Close the socket; again does nothing."""
        super().close()
        self._report_end()

    def detach(self) -> int:
        """Return the file descriptor, which the caller closes; uvloop closes its sockets so."""
        number = super().detach()
        self._report_end()
        return number

    def _report_end(self) -> None:
        on_closed, self._on_closed = self._on_closed, None
        if on_closed is not None:
            on_closed()

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        """Send what may leave now.

        Raises:
            ConnectionAbortedError: nothing may.
        """
        if self.fence is not None:
            self.fence.before_send()
        return super().send(data, flags)

    def sendmsg(
        self,
        buffers: Iterable[ReadableBuffer],
        ancdata: Iterable[_CMSGArg] = (),
        flags: int = 0,
        address: _RetAddress | None = None,
        /,
    ) -> int:
        """Send what may leave now; asyncio does from Python 3.12 on.

        Raises:
            ConnectionAbortedError: nothing may.
        """
        if self.fence is not None:
            self.fence.before_send()
        return super().sendmsg(buffers, ancdata, flags, address)


def socket_of(transport: asyncio.BaseTransport | None) -> GuardedSocket | None:
    """Return the socket below a transport; None if it was not made here."""
    found = None if transport is None else transport.get_extra_info("socket")
    number = -1 if found is None else found.fileno()
    known = _OPEN.get(number)
    return known if known is not None and known.fileno() == number >= 0 else None
