"""Everything that one operator declares, and the caches of its runs.

A declaration that contradicts another one is refused when it is made, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

from pyinformer.cache.store import Indexer
from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.operator._builder import ControllerBuilder, options_of
from pyinformer.operator._declared_caches import declared_caches

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from pyinformer.cache.informer import SharedInformerFactory
    from pyinformer.cache.store import IndexFunction
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import GroupVersionResource, UidRange
    from pyinformer.operator._declared_caches import Declaration, DeclaredCache
    from pyinformer.operator._reconciler import Reconciler
    from pyinformer.operator._timers import Timer
    from pyinformer.telemetry.metrics import Metrics


class Run(Protocol):
    """A run, as registrations see it."""

    def check(self, caches: Sequence[DeclaredCache]) -> None:
        """Refuse a registration that this run cannot start.

        Raises:
            InvalidArgumentError: a cache is kept differently by this run.
            LifecycleError: it belongs to another event loop, or is being closed.
        """
        ...

    def add_nowait(self, reconciler: Reconciler) -> None:
        """Start a reconcile function that was registered meanwhile."""
        ...

    def has(self, reconciler: Reconciler) -> bool:
        """Return whether this run calls a function, or is about to."""
        ...

    async def wait_started(self, name: str) -> None:
        """Wait until a reconcile function that was registered meanwhile has started.

        Raises:
            InformerError: why it could not.

        Cancellation:
            Safe.
        """
        ...


@final
class Registrations:
    """What an operator declares: its reconcile functions, caches and indexes.

    Args:
        name: the operator's name, for errors.
        uid_range: which share of the objects, and of the timers, it has; None for all.
    """

    def __init__(self, name: str, uid_range: UidRange | None = None) -> None:
        self._name = name
        self._uid_range = uid_range
        self.reconcilers: dict[str, Reconciler] = {}
        """By name, in their order."""
        self.timers: dict[str, Timer] = {}
        """As `reconcilers`."""
        self.runs: tuple[Run, ...] = ()
        """The runs that have begun to start, and have not been closed."""
        self._followed: tuple[Declaration, ...] = ()
        self._indexes: dict[GroupVersionResource, dict[str, str | IndexFunction]] = {}
        self._builders: tuple[ControllerBuilder, ...] = ()

    def add(self, reconciler: Reconciler) -> None:
        """Register a reconcile function; runs start it.

        Raises:
            InvalidArgumentError: its name is taken, or it contradicts other declarations.
            LifecycleError: a run belongs to another event loop, or is being closed.
        """
        self._check_name(reconciler.name)
        self._check_ready_condition(reconciler)
        caches = self.caches(*reconciler.declarations)
        for run in self.runs:
            run.check(caches)
        self.reconcilers[reconciler.name] = reconciler
        for run in self.runs:
            run.add_nowait(reconciler)

    def add_timer(self, timer: Timer) -> None:
        """Register a function that is called at an interval.

        Raises:
            InvalidArgumentError: its name is taken.
            LifecycleError: the operator runs.
        """
        self._check_name(timer.name)
        self.refuse_if_running("every()")
        self.timers[timer.name] = timer

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all functions."""
        return (*self.reconcilers, *self.timers)

    @property
    def sync_timeout_seconds(self) -> float:
        """How long the function that waits longest for its caches waits for them."""
        options = options_of(self.reconcilers.values(), self.timers.values())
        return max(one.sync_timeout_seconds for one in options)

    def _check_name(self, name: str) -> None:
        if name in self.names:
            reason = f"{name!r} is registered already: give this one a name= of its own"
            raise InvalidArgumentError("name", reason)

    def _check_ready_condition(self, reconciler: Reconciler) -> None:
        """Refuse a second function with children that would write the condition of another."""
        for other in self.reconcilers.values():
            if other.scope == reconciler.scope and other.writes_ready and reconciler.writes_ready:
                reason = (
                    f"has a status with conditions, as that of {other.name!r}: both functions have"
                    " children, and would write the condition Ready of the same objects. Give one"
                    " of them a model without conditions, or another label_selector="
                )
                raise InvalidArgumentError("model", reason)

    async def wait_started(self, name: str) -> None:
        """Wait until every run has started a reconcile function.

        Raises:
            InformerError: why one of them could not.
            LifecycleError: the operator does not run.

        Cancellation:
            Safe.
        """
        if not self.runs:
            raise LifecycleError(f"{self._name} does not run: `async with app.running(cluster)`")
        for run in self.runs:
            await run.wait_started(name)

    def forget(self, reconciler: Reconciler) -> None:
        """Remove a reconcile function that a run could not start; its name can be used again.

        It stays if another run has it, on another cluster.
        """
        is_used = any(run.has(reconciler) for run in self.runs)
        if not is_used and self.reconcilers.get(reconciler.name) is reconciler:
            del self.reconcilers[reconciler.name]

    def follow(self, declaration: Declaration) -> None:
        """Register a cache that is only read.

        Raises:
            InvalidArgumentError: it contradicts other declarations.
            LifecycleError: the operator runs.
        """
        self.refuse_if_running("follow()")
        self.caches(declaration)
        self._followed = (*self._followed, declaration)

    def index(self, resource: GroupVersionResource, name: str, by: str | IndexFunction) -> None:
        """Register an index.

        Raises:
            InvalidArgumentError: its name is taken, or the path cannot be read.
            LifecycleError: the operator runs.
        """
        self.refuse_if_running("index()")
        indexes = self._indexes.get(resource, {})
        if name in indexes:
            reason = f"{resource} has an index {name!r} already: give this one another name"
            raise InvalidArgumentError("name", reason)
        Indexer[None](None).add_index(name, by)  # refuses it here, and not when it starts
        self._indexes[resource] = {**indexes, name: by}

    def caches(self, *further: Declaration) -> tuple[DeclaredCache, ...]:
        """Return all caches that were declared, and further ones.

        Raises:
            InvalidArgumentError: two declarations contradict each other.
        """
        reconciled = (one for each in self.reconcilers.values() for one in each.declarations)
        return declared_caches((*reconciled, *self._followed, *further), self._indexes)

    def builder(
        self,
        cluster: Cluster,
        factory: SharedInformerFactory,
        *,
        namespaces: AbstractSet[str] | None,
        metrics: Metrics,
    ) -> ControllerBuilder:
        """Return the builder of one run, with everything that is registered now."""
        found = (
            one
            for one in self._open_builders()
            if (one.cluster, one.factory, one.namespaces) == (cluster, factory, namespaces)
        )
        builder = next(found, None)
        if builder is None:
            builder = ControllerBuilder(
                self._name, cluster, factory, namespaces=namespaces, metrics=metrics
            )
        reconcilers = self.reconcilers.values()
        informers = builder.informers_for(self.caches(), factory, reconcilers)
        builder.include(reconcilers, informers)
        mine = self._uid_range
        builder.timers = tuple(
            one for one in self.timers.values() if mine is None or mine.has(one.name)
        )
        opened = (one for one in self._open_builders() if one is not builder)
        self._builders = (*opened, builder)
        return builder

    def builder_on(self, cluster: Cluster | str | None) -> ControllerBuilder:
        """Return the builder that has the caches of a cluster.

        Args:
            cluster: the cluster, its name, or None for the only one.

        Raises:
            InvalidArgumentError: no run, or more than one, is on such a cluster.
            LifecycleError: the operator does not run.
        """
        running = self._open_builders()
        if not running:
            reason = (
                "does not run, so it has no caches: read them inside `async with"
                " app.running(cluster)`, or after app.controllers(cluster, factory)"
            )
            raise LifecycleError(f"{self._name} {reason}")
        found = [
            one
            for one in running
            if cluster is None or cluster is one.cluster or cluster == one.cluster.name
        ]
        if len(found) == 1:
            return found[0]
        names = ", ".join(repr(one.cluster.name or one.cluster) for one in running)
        if found:
            reason = f"{self._name} runs {len(found)} times, on {names}: pass cluster=, or its name"
        else:
            reason = f"{self._name} does not run on {cluster!r}, but on {names}"
        raise InvalidArgumentError("cluster", reason)

    def forget_closed(self) -> None:
        """Release the caches of runs that have ended."""
        self._builders = self._open_builders()

    def _open_builders(self) -> tuple[ControllerBuilder, ...]:
        # Called in any thread, so it only reads: a thread could undo what the loop adds.
        return tuple(one for one in self._builders if not one.factory.is_closed)

    def refuse_if_running(self, call: str) -> None:
        """Refuse a declaration that a run could not take up.

        Args:
            call: what was called, for the error.

        Raises:
            LifecycleError: the operator runs.
        """
        if self._open_builders():
            reason = "runs already: declare timers, indexes, hooks and followed resources before"
            raise LifecycleError(f"{call}: {self._name} {reason}")
