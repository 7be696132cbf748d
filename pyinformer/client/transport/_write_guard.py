"""The guard of the writes that leave this process: may they leave now?

Leader election sets the context variable around the work of a term. It follows that work into tasks
and worker threads. Reads are not guarded, and neither are the requests for a Lease.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

from pyinformer.errors import FencedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class WriteGuard(Protocol):
    """Decides whether a write may leave; a term of leader election is one."""

    def check(self) -> None:
        """Do nothing if a write may leave now; from any thread.

        Raises:
            FencedError: it may not.
        """
        ...

    def on_end(self, cut_off: Callable[[], None]) -> Callable[[], None]:
        """Call a function when nothing may leave any more; from any thread.

        Args:
            cut_off: called once, in any thread; at once if nothing may leave already.

        Returns:
            A function that takes it back.
        """
        ...

    def record_write(self, resource: str, resource_version: str) -> None:
        """Record a write that was carried out.

        Args:
            resource: the resource, such as `deployments.v1.apps`.
            resource_version: of the object after it; empty if it is unknown.
        """
        ...

    def record_refusal(self, lease: str) -> None:
        """Record a write that was refused, or cut off, because nothing may leave.

        Args:
            lease: whose term refused it, as the FencedError names it.
        """
        ...


CURRENT_GUARD: Final = ContextVar[WriteGuard | None]("pyinformer write guard", default=None)


def check_guard() -> None:
    """Refuse a write of this context if none may leave now.

    Raises:
        FencedError: nothing may.
    """
    guard = CURRENT_GUARD.get()
    if guard is not None:
        try:
            guard.check()
        except FencedError as error:
            guard.record_refusal(error.lease)
            raise


@contextmanager
def unguarded() -> Iterator[None]:
    """Let the requests of a block leave, whatever the guard of this context says."""
    token = CURRENT_GUARD.set(None)
    try:
        yield
    finally:
        CURRENT_GUARD.reset(token)


def record_write(resource: str, resource_version: str) -> None:
    """Record a write with the guard of this context, if there is one.

    Args:
        resource: the resource, such as `deployments.v1.apps`.
        resource_version: of the object after it; empty if it is unknown.
    """
    guard = CURRENT_GUARD.get()
    if guard is not None:
        guard.record_write(resource, resource_version)
