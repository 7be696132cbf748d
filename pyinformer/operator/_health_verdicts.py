"""Problems of informers and controllers, read from their status records.

There are findings for two questions: would a restart help (alive?), and are the caches reliable
(ready?). An unreachable server is not a reason to restart: a new process would not reach it either.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias, final

from pyinformer.cache.informer import FactoryStatus, InformerStatus, NamespaceStatus
from pyinformer.cache.reflector import ReflectorState
from pyinformer.controller import ControllerGroupStatus, ControllerStatus, EngagedClusterStatus
from pyinformer.fleet import FleetClusterStatus, FleetStatus
from pyinformer.leaderelection import LeaderElectionStatus
from pyinformer.objects import check_seconds
from pyinformer.operator._health_debounce import Finding
from pyinformer.sharding import SharingStatus
from pyinformer.telemetry import WatchdogStatistics

Status: TypeAlias = (
    FactoryStatus
    | InformerStatus
    | ControllerStatus
    | ControllerGroupStatus
    | LeaderElectionStatus
    | SharingStatus
    | FleetStatus
)

RECOVERY_SECONDS: Final = 10.0
"""Ready, or alive, again only when a problem has been gone for this long, against flapping."""
_WEDGED_SECONDS: Final = 900.0
"""Not alive if a cache reports that it watches, but was not confirmed as current for this long, and
for `stale_seconds`: a hang that a restart ends. A quiet resource is confirmed within four minutes,
and a restart takes long enough to be sure first. While its watch brings something, or the server
answers with an error what would confirm it, the process works."""
_STUCK_SECONDS: Final = 60.0
"""Not alive if all workers of a controller have been stuck for this long: a clean-up takes less."""

_WITHOUT_OWNER_SECONDS: Final = 60.0
"""Longer than it takes the others to replace a replica that has crashed."""

_OLD_SECONDS: Final = 300.0
"""A quiet cache is proven within four minutes: of an older one the cluster is away."""
_STARTING_SECONDS: Final = 60.0
"""A cluster that was engaged and answers has synced by then, but for very large ones."""

_NOT_FOLLOWING: Final = frozenset(
    {
        ReflectorState.WAITING,
        ReflectorState.FORBIDDEN,
        ReflectorState.PROVING,
        ReflectorState.LOADING,  # between two of the others
    }
)


class HasStatus(Protocol):
    """A SharedInformerFactory, SharedInformer, Controller, ControllerGroup or LeaderElector."""

    @abstractmethod
    def status(self) -> Status:
        """Return the state; from any thread."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HealthVerdict:
    """The answer to one question, true if it is yes: `if health.ready(): ...`."""

    is_ok: bool
    reasons: tuple[str, ...]
    """Why not: a line for each, with names and numbers, never the content of an object."""
    notes: tuple[str, ...]
    """Problems that do not count, or not yet."""

    def __bool__(self) -> bool:
        return self.is_ok


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class HealthOptions:
    """How old a cache may be.

    The default tolerates reconnects, rolling updates of the server and expired histories.

    Raises:
        InvalidArgumentError: the number is invalid.
    """

    stale_seconds: float | None = 300.0
    """Not ready if a cache was last confirmed as current longer ago than this. A quiet resource
    that is probed is confirmed within four minutes, and a server restarts in less; without a watch
    nothing confirms a cache but a complete list. The same if an informer has waited, been forbidden
    or proven the server's history for so long, whatever the age. None for never."""

    def __post_init__(self) -> None:
        if self.stale_seconds is not None:
            check_seconds("stale_seconds", self.stale_seconds, is_positive=True)


def ready_findings(status: Status, options: HealthOptions) -> Iterator[Finding]:
    """Return why the caches and controllers are not reliable."""
    informers = informers_of(status)
    left = [informer for informer in informers if not _is_closed(informer)]
    if informers and not left:  # one closed informer of several is not a problem
        yield Finding("closed", f"closed: {', '.join(one.informer for one in informers)}")
    for informer in left:
        yield from _unready_informer(informer, options)
        if informer.lineage is not None and informer.lineage.is_flapping:
            reason = informer.lineage.last_reason
            what = "the server's history changes again and again: two clusters at one address?"
            yield Finding(f"flapping {informer.informer}", f"{informer.informer}: {what} {reason}")
    for controller in controllers_of(status):
        if not (controller.has_synced and controller.is_running):
            yield Finding(f"idle {controller.name}", f"controller {controller.name} is not running")


def live_findings(status: Status, options: HealthOptions) -> Iterator[Finding]:
    """Return the problems that a restart would solve."""
    if isinstance(status, LeaderElectionStatus) and status.is_overdue:
        does = "works" if status.shares else "leads"
        text = f"{does} without a renewal of the Lease {status.lease} for its whole duration"
        yield Finding(f"overdue {status.lease}", text)
    sharing = sharing_of(status)
    if sharing is not None and sharing.is_overdue:
        text = f"works without a renewal of its Lease {sharing.member} for its whole duration"
        yield Finding(f"overdue {sharing.member}", text)
    if isinstance(status, FleetStatus) and status.failure:
        yield Finding("fleet", f"the fleet: {status.failure}")
    if isinstance(status, ControllerGroupStatus) and status.failure:
        yield Finding("ended", status.failure)
    for informer in informers_of(status):
        yield from _dead_informer(informer, options)
    for controller in controllers_of(status):
        workers = controller.workers
        if workers and all(worker.is_stuck for worker in workers):
            yield Finding(
                f"stuck {controller.name}",
                f"controller {controller.name}: every worker ignores its cancellation:"
                f" {', '.join(controller.stuck)}",
                grace_seconds=_STUCK_SECONDS,
                recovery_seconds=RECOVERY_SECONDS,
            )


def notes_of(status: Status) -> Iterator[str]:
    """Return problems that people should look at, but that do not concern the process."""
    if isinstance(status, LeaderElectionStatus) and status.watch_refusal:
        yield f"the Lease {status.lease} may not be watched: {status.watch_refusal}"
    sharing = sharing_of(status)
    if sharing is not None:
        yield from _sharing_notes(sharing)
    if isinstance(status, FleetStatus):
        yield from (one.line() for one in status.clusters if _is_away(one))
        if status.waits_for:
            yield f"the names of the fleet: {status.waits_for}"
    for informer in informers_of(status):
        if informer.state is ReflectorState.ABSENT:
            yield f"{informer.informer}: is not served at present"
        if informer.reflector.breaks_order:
            yield f"{informer.informer}: the server breaks the order of resource versions"
    if isinstance(status, ControllerGroupStatus):
        yield from (f"controller {one}" for one in status.waiting)
        yield from (one.line() for one in status.engaged if _is_away(one))
    for controller in (*controllers_of(status), *engaged_controllers_of(status)):
        yield from _controller_notes(controller)


def _is_away(cluster: FleetClusterStatus | EngagedClusterStatus) -> bool:
    """Return whether a note is due: it concerns its own keys alone, and no restart helps."""
    is_late = cluster.state_seconds >= _STARTING_SECONDS
    return (
        cluster.state == "failed"
        or (cluster.state in {"opening", "starting"} and is_late)
        or (cluster.age_seconds is not None and cluster.age_seconds >= _OLD_SECONDS)
    )


def _controller_notes(controller: ControllerStatus) -> Iterator[str]:
    noops = controller.noop_writes
    if noops.is_storm:
        yield (
            f"controller {controller.name}: {noops.noop_ratio:.0%} of its newest writes changed"
            f" nothing; {noops.held} requests are held"
        )
    if controller.hot:
        yield f"controller {controller.name}: hot loops of {', '.join(controller.hot)}"
    if controller.stuck:
        stuck = ", ".join(controller.stuck)
        yield f"controller {controller.name}: reconciles ignoring cancellation: {stuck}"
    daemons = controller.daemons
    if daemons is not None and (daemons.ignoring or daemons.waiting):
        yield f"controller {controller.name}: {daemons.line()}"


def watchdog_of(status: Status) -> WatchdogStatistics | None:
    """Return the watchdog's statistics; None if the record has none."""
    if isinstance(status, FactoryStatus | ControllerGroupStatus):
        return status.watchdog
    return None


def informers_of(status: Status) -> tuple[InformerStatus, ...]:
    """Return the informers of a record."""
    if isinstance(status, FactoryStatus):
        return status.informers
    return (status,) if isinstance(status, InformerStatus) else ()


def controllers_of(status: Status) -> tuple[ControllerStatus, ...]:
    """Return the controllers of a record."""
    if isinstance(status, ControllerGroupStatus):
        return status.controllers
    return (status,) if isinstance(status, ControllerStatus) else ()


def sharing_of(status: Status) -> SharingStatus | None:
    """Return the share that a record has; None if it has none."""
    if isinstance(status, FleetStatus):
        return status.sharing
    return status if isinstance(status, SharingStatus) else None


def engaged_controllers_of(status: Status) -> tuple[ControllerStatus, ...]:
    """Return the controllers of the clusters that a group has engaged."""
    engaged = status.engaged if isinstance(status, ControllerGroupStatus) else ()
    return tuple(controller for one in engaged for controller in one.controllers)


def _sharing_notes(status: SharingStatus) -> Iterator[str]:
    if status.without_owner_seconds >= _WITHOUT_OWNER_SECONDS:
        yield (
            f"{status.without_owner} of {status.buckets} buckets of {status.table} have had no"
            f" owner for {status.without_owner_seconds:.0f} s: no replica reconciles their keys"
        )
    if status.last_error:
        yield f"sharing of {status.table}: {status.last_error}"


def _unready_informer(informer: InformerStatus, options: HealthOptions) -> Iterator[Finding]:
    name, state, age = informer.informer, informer.state, informer.age_seconds
    if informer.crash is not None:
        yield Finding(f"crash {name}", str(informer))
    elif not informer.has_synced:
        yield Finding(f"sync {name}", f"not synced: {informer}")
    elif state is ReflectorState.FAILED:
        yield Finding(f"end {name}", str(informer))
    elif state is ReflectorState.ABSENT or age is None or options.stale_seconds is None:
        return  # a resource that is not served has no events to miss
    elif age > options.stale_seconds and not _shows_no_age(informer, options.stale_seconds):
        text = f"stale: {informer}; last confirmed as current {age:.0f} s ago"
        yield Finding(f"stale {name}", text, recovery_seconds=RECOVERY_SECONDS)
    elif state in _NOT_FOLLOWING:  # whatever the age: what confirmed the cache may know no better
        yield Finding(
            f"stale {name}",
            f"not followed: {informer}",
            grace_seconds=options.stale_seconds,
            recovery_seconds=RECOVERY_SECONDS,
        )


def _dead_informer(informer: InformerStatus, options: HealthOptions) -> Iterator[Finding]:
    name, age = informer.informer, informer.age_seconds
    stale_seconds = math.inf if options.stale_seconds is None else options.stale_seconds
    limit = max(_WEDGED_SECONDS, stale_seconds)
    if informer.crash is not None:
        yield Finding(f"crash {name}", str(informer))
    elif informer.state is not ReflectorState.WATCHING or age is None:
        return  # it reports its problem, and retries
    elif age > limit and not (_shows_no_age(informer, limit) or _shows_life(informer, limit)):
        text = f"wedged: {name} watches, but was not confirmed as current for {age:.0f} s"
        yield Finding(f"wedged {name}", text, recovery_seconds=RECOVERY_SECONDS)


def _older_than(limit: float, informer: InformerStatus) -> list[NamespaceStatus]:
    return [one for one in informer.namespaces if (one.age_seconds or 0.0) > limit]


def _shows_no_age(informer: InformerStatus, limit: float) -> bool:
    """Return whether nothing can prove what is that old, and its watches are open.

    The last event of a quiet resource may be from yesterday. A watch that is silent for long is
    opened again, so its state shows whether the server still answers.
    """
    old = _older_than(limit, informer)
    is_open = all(one.state is ReflectorState.WATCHING for one in old)
    return bool(old) and is_open and not any(one.is_provable for one in old)


def _shows_life(informer: InformerStatus, limit: float) -> bool:
    """Return whether what is that old has had a change, a bookmark or a refused list since."""
    old = _older_than(limit, informer)
    signs = [(one.proof_refused_seconds, one.silent_seconds) for one in old]
    return bool(old) and all(
        any(seconds is not None and seconds <= limit for seconds in both) for both in signs
    )


def _is_closed(informer: InformerStatus) -> bool:
    return informer.state is ReflectorState.STOPPED and informer.crash is None
