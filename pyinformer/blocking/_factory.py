"""The blocking twin of SharedInformerFactory.

The same informer always has the same blocking twin, with the same Lister.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, final

from pyinformer._runtime.call_site import call_site, calling_from
from pyinformer.blocking._informer import BlockingInformer
from pyinformer.blocking._sync_proxy import (
    SyncProxy,
    direct,
    documented_as,
    on_loop,
    synchronous,
)
from pyinformer.cache.informer import InformerOptions, SharedInformer, SharedInformerFactory
from pyinformer.objects import V, check_type

if TYPE_CHECKING:
    from pyinformer.blocking._sync_proxy import LoopCalls


@final
class BlockingInformerFactory(SyncProxy[SharedInformerFactory]):
    """Creates and shares informers: one for each resource, scope and set of selectors.

    Made by `cluster.informer_factory()`; use it as a `with`, or by start() and close().

    Args:
        thread: runs its event loop.
        asynchronous: the factory on that loop.
    """

    def __init__(self, thread: LoopCalls, asynchronous: SharedInformerFactory) -> None:
        super().__init__(thread, asynchronous)
        self._proxies: dict[SharedInformer[Any], BlockingInformer[Any]] = {}
        self._listeners: list[Callable[[], None]] = []

    @documented_as(SharedInformerFactory.informer)
    def informer(
        self,
        api_version: str,
        plural: str,
        *,
        model: type[V] | None = None,
        private: bool = False,
        **options: Unpack[InformerOptions],
    ) -> BlockingInformer[V]:
        """Return the informer of a resource in a scope, and make it if there is none yet."""
        site = call_site()

        def make() -> SharedInformer[V]:
            with calling_from(site):  # on the loop: Ctrl-C in the calling thread could not undo it
                return self.asynchronous.informer(
                    api_version, plural, model=model, private=private, **options
                )

        return self._proxy_of(self._thread.do(make))

    def _proxy_of(self, informer: SharedInformer[Any]) -> BlockingInformer[Any]:
        return self._proxies.setdefault(informer, BlockingInformer(self._thread, informer))

    @property
    def informers(self) -> tuple[BlockingInformer[Any], ...]:
        """The informers that are not closed."""
        return tuple(self._proxy_of(informer) for informer in self.asynchronous.informers)

    @property
    def is_closed(self) -> bool:
        """Whether it is closed, or is being closed."""
        return self.asynchronous.is_closed

    start: Final = synchronous(SharedInformerFactory.start)
    """Start every informer; those that are requested later start at once."""

    wait_for_cache_sync: Final = synchronous(SharedInformerFactory.wait_for_cache_sync)
    """Wait until every cache has held everything at least once."""

    @documented_as(SharedInformerFactory.remove_informer)
    def remove_informer(self, informer: BlockingInformer[Any]) -> None:
        """Stop one informer and forget it; the next request makes a new one."""
        check_type("informer", informer, BlockingInformer)
        original = informer.asynchronous
        self._thread.call(lambda: self.asynchronous.remove_informer(original))
        self._proxies.pop(original, None)

    required_rbac: Final = on_loop(SharedInformerFactory.required_rbac)
    """Return the least rights that the informers so far need, as YAML for `kubectl apply`."""

    status: Final = direct(SharedInformerFactory.status)
    """Return the status of all informers: a frozen record without object content."""

    @documented_as(SharedInformerFactory.log_status_on_signal)
    def log_status_on_signal(self, signal_name: str = "SIGUSR1") -> Callable[[], None]:
        """Log `status()` as one block of text whenever the process gets a signal: `kill -USR1`."""
        stop_listening = self.asynchronous.log_status_on_signal(signal_name)
        self._listeners.append(stop_listening)
        return stop_listening

    @documented_as(SharedInformerFactory.aclose)
    def close(self) -> None:
        """Stop every informer: watches first, then handlers, all of them at the same time."""
        self._stop_listening()
        self._thread.close_on_exit(self.asynchronous, self.asynchronous.aclose)

    def _stop_listening(self) -> None:
        """Remove the signal handlers in this thread: the loop's thread may not."""
        while self._listeners:
            self._listeners.pop()()

    def __enter__(self) -> Self:
        self._thread.enter(self.asynchronous)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop_listening()
        self._thread.leave(self.asynchronous, exc_type, exc, traceback)

    def __repr__(self) -> str:
        return f"<BlockingInformerFactory with {len(self.asynchronous.informers)} informers>"
