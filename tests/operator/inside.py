"""What the tests of this folder read of an operator and its health server, each in one place.

No public name says it: a health server does not count its connections, and what `/readyz` answers
needs a socket, which no virtual time has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyinformer.operator import HealthServer, OperatorRun


class Connections(NamedTuple):
    """The connections of a health server; both collections change with them."""

    open: Collection[object]
    """Those that are open."""
    unread: Mapping[Any, bytes]
    """The answers that the kernel has not taken yet."""


def connections(server: HealthServer) -> Connections:
    """Return the connections of a server."""
    found = server._connections
    return Connections(found._open, found._unread)


def unready(run: OperatorRun) -> Sequence[str]:
    """Return what `/readyz` answers, a line for each problem."""
    return run._unready()
