"""Namespaces chosen by their labels: an informer of all Namespaces, of which some match.

All of them are followed, and the labels are compared here: a watch with the selector would report
a Namespace that was deleted and one whose labels changed by the same event. Of one that was
deleted, every object is gone. What is known stays when the right to watch Namespaces is lost, and
the state says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, final

from pyinformer.apimachinery import Deleted
from pyinformer.informer._mailbox import newest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from anyio.abc import TaskGroup

    from pyinformer.apimachinery import Event, InformerError, JSONObject, KubeObject, LabelSelector
    from pyinformer.informer._status import InformerStatus, NamespaceStatus
    from pyinformer.informer._store_sink import Receiver
    from pyinformer.reflector import ReflectorState


class NamespaceInformer(Protocol):
    """What is needed of the informer of Namespaces."""

    on_crash: Callable[[], None] | None

    @property
    def crash(self) -> InformerError | None:
        """What went wrong inside of it."""
        ...

    def attach_receiver(self, receiver: Receiver[Any]) -> None:
        """Tell a receiver of what exists, and of every change."""
        ...

    def start_nowait(self, group: TaskGroup) -> None:
        """Begin in a task of this group."""
        ...

    async def aclose(self) -> None:
        """Stop.

        Cancellation:
            Takes effect when it has ended.
        """
        ...

    @property
    def state(self) -> ReflectorState:
        """What it does."""
        ...

    def age_seconds(self) -> float | None:
        """Return how long ago it was proven."""
        ...

    def status(self) -> InformerStatus:
        """Return how it is doing."""
        ...


@final
class NamespaceSelection:
    """Tells an informer which namespaces to follow; a receiver of the informer of Namespaces.

    Args:
        informer: follows all Namespaces.
        selector: chooses among them.
    """

    def __init__(self, informer: NamespaceInformer, selector: LabelSelector) -> None:
        self._informer = informer
        self._matches = selector.matches
        self._names: set[str] = set()
        self._existing: set[str] = set()
        self._is_complete = False
        self._want: Callable[[Iterable[str]], None] | None = None
        self._on_gone: Callable[[str], None] | None = None

    def begin_nowait(
        self,
        group: TaskGroup,
        want: Callable[[Iterable[str]], None],
        *,
        on_gone: Callable[[str], None],
        on_crash: Callable[[BaseException], None],
    ) -> None:
        """Begin to tell.

        Args:
            group: where the informer of Namespaces starts.
            want: is told of all names whenever they change.
            on_gone: is called with the name of a Namespace that was deleted.
            on_crash: is told if that informer breaks.
        """
        informer = self._informer
        self._want = want
        self._on_gone = on_gone
        informer.on_crash = lambda: on_crash(informer.crash or RuntimeError("no reason is known"))
        informer.attach_receiver(self)
        informer.start_nowait(group)

    async def aclose(self) -> None:
        """Stop to follow Namespaces.

        Cancellation:
            Takes effect when that has ended, which its grace bounds.
        """
        self._want = self._on_gone = None
        await self._informer.aclose()

    @property
    def state(self) -> ReflectorState:
        """What is done at this moment to know the Namespaces."""
        return self._informer.state

    def age_seconds(self) -> float | None:
        """Return how long ago the choice was last proven; None if never."""
        return self._informer.age_seconds()

    def status(self) -> NamespaceStatus:
        """Return how the choice is doing; from any thread."""
        return self._informer.status().namespaces[0]

    def is_gone(self, name: str) -> bool:
        """Return whether a Namespace is known not to exist."""
        return self._is_complete and name not in self._existing

    def put_nowait(self, event: Event[Any]) -> None:
        """Record that a Namespace was created or deleted, or that its labels may have changed."""
        if isinstance(event, Deleted):
            self._existing.discard(event.key)
            self._choose(event.key, is_chosen=False)
            if self._on_gone is not None:
                self._on_gone(event.key)
        else:
            obj = newest(event)
            self._existing.add(obj._key)
            self._choose(obj._key, is_chosen=self._matches(obj.metadata.labels))

    def preload_nowait(self, objects: Collection[KubeObject[Any]]) -> None:
        """Record those that exist from the beginning."""
        self._existing.update(obj._key for obj in objects)
        self._names.update(obj._key for obj in objects if self._matches(obj.metadata.labels))

    def _choose(self, name: str, *, is_chosen: bool) -> None:
        if is_chosen == (name in self._names):
            return
        if is_chosen:
            self._names.add(name)
        else:
            self._names.remove(name)
        self._tell()

    def on_initial_list_complete(self) -> None:
        """Take note that all of them are known."""
        self._is_complete = True
        self._tell()

    def on_missed_state(self, was: KubeObject[Any], now: KubeObject[Any] | None) -> None:
        """Do nothing: what was written here comes as an event, too."""

    def _tell(self) -> None:
        if self._is_complete and self._want is not None:
            self._want(self._names)


def labels_only(obj: JSONObject) -> JSONObject:
    """Keep of a Namespace what chooses it: there may be many that are not chosen."""
    meta = obj["metadata"]
    kept = {
        name: meta[name] for name in ("name", "uid", "resourceVersion", "labels") if name in meta
    }
    return {**obj, "metadata": kept}
