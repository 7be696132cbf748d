"""Namespaces chosen by their labels: what is followed goes with the Namespace objects.

The informer of those Namespaces enters; the names of those that exist and match leave, first when
all of them are known, then at each change. Namespaces that match no more are no longer named; what
is known stays when the right to watch Namespaces is lost, and the state says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, final

from pyinformer.apimachinery import Deleted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from anyio.abc import TaskGroup

    from pyinformer.apimachinery import Event, InformerError, KubeObject
    from pyinformer.informer._distribution import Receiver
    from pyinformer.informer._status import InformerStatus, ScopeStatus
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
        informer: follows the Namespaces that match.
    """

    def __init__(self, informer: NamespaceInformer) -> None:
        self._informer = informer
        self._names: set[str] = set()
        self._is_complete = False
        self._want: Callable[[Iterable[str]], None] | None = None

    def begin_nowait(
        self,
        group: TaskGroup,
        want: Callable[[Iterable[str]], None],
        *,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        """Begin to tell.

        Args:
            group: where the informer of Namespaces starts.
            want: is told of all names whenever they change.
            on_crash: is told if that informer breaks.
        """
        informer = self._informer
        self._want = want
        informer.on_crash = lambda: on_crash(informer.crash or RuntimeError("no reason is known"))
        informer.attach_receiver(self)
        informer.start_nowait(group)

    async def aclose(self) -> None:
        """Stop to follow Namespaces.

        Cancellation:
            Takes effect when that has ended, which its grace bounds.
        """
        self._want = None
        await self._informer.aclose()

    @property
    def state(self) -> ReflectorState:
        """What is done at this moment to know the Namespaces."""
        return self._informer.state

    def age_seconds(self) -> float | None:
        """Return how long ago the choice was last proven; None if never."""
        return self._informer.age_seconds()

    def status(self) -> ScopeStatus:
        """Return how the choice is doing; from any thread."""
        return self._informer.status().scopes[0]

    def put_nowait(self, event: Event[Any]) -> None:
        """Take note that a Namespace has come to match, or does no more."""
        if isinstance(event, Deleted):
            self._names.discard(event.key)
        else:
            self._names.add(event.key)
        self._tell()

    def preload_nowait(self, objects: Collection[KubeObject[Any]]) -> None:
        """Take note of those that match from the beginning."""
        self._names.update(obj._key for obj in objects)

    def initial_list_complete_nowait(self) -> None:
        """Take note that all of them are known."""
        self._is_complete = True
        self._tell()

    def unheard_nowait(self, was: KubeObject[Any], now: KubeObject[Any] | None) -> None:
        """Do nothing: what was written here comes as an event, too."""

    def _tell(self) -> None:
        if self._is_complete and self._want is not None:
            self._want(self._names)
