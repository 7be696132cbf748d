"""What an informer tells of itself: how fresh it is, in what state, and why it shows what it shows.

The stations behind it enter; facts, sentences and frozen records leave. Nothing here changes
anything, nothing is kept for it, and all of it may be asked from any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from pyinformer.apimachinery import V
from pyinformer.informer._explain import Explainer, Explanation
from pyinformer.informer._state_changes import StateChange, StateChanges
from pyinformer.informer._status import InformerStatus
from pyinformer.reflector import ReflectorState

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.apimachinery import InformerError, Journal
    from pyinformer.cluster import Cluster
    from pyinformer.informer._audience import Audience
    from pyinformer.informer._distribution import Distribution
    from pyinformer.informer._freshness import Freshness
    from pyinformer.informer._lifetime import Lifetime
    from pyinformer.informer._scope import InformerSettings, Scope
    from pyinformer.reflector import Reflector
    from pyinformer.store import Indexer, Lister


class Insight(Generic[V]):
    """What can be asked of one resource that is followed; the stations are made by Following."""

    name: str
    scope: Scope
    settings: InformerSettings
    cluster: Cluster
    journal: Journal
    lister: Lister[V]
    _states: StateChanges
    _indexer: Indexer[V]
    _freshness: Freshness[V]
    _distribution: Distribution[V]
    _audience: Audience[V]
    _reflector: Reflector[V]
    _lifetime: Lifetime

    @property
    def has_synced(self) -> bool:
        """Whether the cache has held everything at least once."""
        return self._distribution.has_synced

    @property
    def is_running(self) -> bool:
        """Whether it was started, and neither closed nor broken since."""
        return self._lifetime.is_running

    @property
    def crash(self) -> InformerError | None:
        """What went wrong inside, which would be a bug of ours; None unless that happened."""
        return self._lifetime.crash

    @property
    def state(self) -> ReflectorState:
        """What it does at this moment; `status()` says why, `on_state_change` tells of changes."""
        return self._reflector.state

    def on_state_change(self, callback: Callable[[StateChange], object]) -> Callable[[], None]:
        """Call a function at each change of state, on the event loop; it must not block.

        Returns:
            A function that ends it.

        Raises:
            InvalidHandlerError: it cannot be called.
        """
        return self._states.add(callback)

    @property
    def observed_resource_version(self) -> str:
        """The version up to which every change is cached; empty before the first list."""
        return self._reflector.position

    @property
    def last_event_at(self) -> float | None:
        """When the last change arrived, on the event loop's clock; None if none did."""
        return self._reflector.liveness().last_event_at

    @property
    def last_bookmark_at(self) -> float | None:
        """When the last bookmark arrived, on the event loop's clock; None if none did."""
        return self._reflector.liveness().last_bookmark_at

    def age_seconds(self) -> float | None:
        """Return how long ago the cache was last proven to be what the server has; None if never.

        A change, a bookmark, a complete list and an intact history prove it. A quiet resource
        hears about once a minute from its server, so an age of two minutes is a sign of trouble.
        From any thread.
        """
        proven_at = self._reflector.liveness().last_proof_at
        return None if proven_at is None else self._lifetime.now() - proven_at

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; empty while it is followed."""
        if self.state is ReflectorState.WATCHING:
            return ""
        age = self.age_seconds()
        never = "taken as empty" if self.has_synced else "never synced"
        since = never if age is None else f"last proven {age:.0f} s ago"
        reason = self._reflector.status().reason
        return f"{self.state.value}, {since}{': ' if reason else ''}{reason}"

    def explain(self, key: str) -> Explanation:
        """Say in sentences why the cache shows what it shows of a key; costs only when asked.

        From the scope, the selectors and the state to how the object came and which handler has
        heard of it. Nothing is asked of the server, and no object's content is in the answer.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Raises:
            InvalidTypeError: the key is no text.
            InvalidArgumentError: it cannot be a key.
        """
        return self._explainer.explain(key)

    async def explain_live(self, key: str) -> Explanation:
        """Say the same as `explain`, and what the server has of the key now.

        That is one list of one object, and a GET if it is not in this informer's scope; what the
        server refuses is said.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Raises:
            InvalidTypeError: the key is no text.
            InvalidArgumentError: it cannot be a key.

        Cancellation:
            Safe.
        """
        return await self._explainer.explain_live(key)

    @property
    def _explainer(self) -> Explainer:
        now = self._lifetime.now()
        return Explainer(
            self,
            self._indexer,
            self._reflector,
            self._freshness.overlay,
            lambda key: self._audience.stories(key, now),
        )

    def status(self, *, with_journal: bool = False) -> InformerStatus:
        """Return how it is doing: a frozen record without object content; from any thread.

        Args:
            with_journal: add what happened to it lately.
        """
        life, facts = self._lifetime, self._reflector.liveness()
        ages = [
            None if at is None else life.now() - at
            for at in (facts.last_proof_at, facts.last_event_at, facts.last_bookmark_at)
        ]
        return InformerStatus(
            informer=self.name,
            has_synced=self.has_synced,
            objects=len(self._indexer),
            position=self._reflector.position,
            running_seconds=life.running_seconds,
            state=self.state,
            age_seconds=ages[0],
            last_event_seconds=ages[1],
            last_bookmark_seconds=ages[2],
            reflector=self._reflector.status(),
            indexes=self._indexer.indexes(),
            handlers=self._audience.status(life.now()),
            own_writes=self._freshness.overlay.statistics(),
            lineage=self.cluster.lineage.status(),
            journal=self.journal.entries() if with_journal else (),
            crash=None if life.crash is None else str(life.crash),
        )

    def reflector_state(self) -> tuple[str, str | None]:
        """Return the reflector's state and its last error; from any thread."""
        status = self._reflector.status()
        return status.state.value, status.last_error
