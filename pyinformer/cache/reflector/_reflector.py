"""The reflector: it keeps a sink in step with one resource of a server.

The machine decides what the reflector does next, the guard what an event may do. The reflector
performs the machine's commands and reports how each ended. It ends by cancellation, or when its
connection has ended for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, final

import anyio
from anyio import TASK_STATUS_IGNORED

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import Turn, error_text, trace_text
from pyinformer.cache.reflector._age_proof import AgeProof
from pyinformer.cache.reflector._availability import (
    AbsencePolicy,
    Availability,
    DiscoveryOutcome,
    ask_all_servers,
    ask_discovery,
    with_other_versions,
)
from pyinformer.cache.reflector._followed_server import FollowedServer
from pyinformer.cache.reflector._initial_events import open_watch_list
from pyinformer.cache.reflector._loader import Loader
from pyinformer.cache.reflector._options import ReflectorOptions
from pyinformer.cache.reflector._outcome_labels import count_outcome
from pyinformer.cache.reflector._quarantine import Quarantine, StaleObject
from pyinformer.cache.reflector._reporting import (
    AuditRequests,
    RelistLog,
    RelistRecord,
    StateReporter,
    facts_of,
)
from pyinformer.cache.reflector._shard_parameter import ShardParameter
from pyinformer.cache.reflector._sink import keys_of
from pyinformer.cache.reflector._watch_loop import Liveness, WatchLoop
from pyinformer.cache.reflector.guard import Counts, Guard, GuardStatistics, OrderPolicy
from pyinformer.cache.reflector.lineage import (
    HistorySample,
    HistoryVerdict,
    history_samples,
    is_built_in,
    read_live,
)
from pyinformer.cache.reflector.machine import (
    ReflectorMachine,
    ReflectorState,
    steps,
)
from pyinformer.client.transport import ADDED, BOOKMARK, DELETED, MODIFIED, NetworkConnection
from pyinformer.errors import (
    APIStatusError,
    ConnectionEndedError,
    InformerError,
    InternalError,
    TransportError,
)
from pyinformer.objects import (
    DiagnosticJournal,
    KubeObject,
    ObjectCodec,
    Transform,
    V,
    VersionOrder,
    check_view_or_model,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anyio.abc import TaskStatus

    from pyinformer.cache.reflector._request_budget import ListingSlot
    from pyinformer.cache.reflector._sink import Sink
    from pyinformer.cache.reflector._tap import ReflectorTap
    from pyinformer.cache.reflector.machine import LoadCause
    from pyinformer.client.transport import ListWatch
    from pyinformer.objects import InternStatistics

_log = get_logger(__name__)

_GIVEN_UP_SECONDS = 600.0  # a reflector that gave up has logged it, and retries this rarely
# Without any contact for this time everything is listed, even if the watch could continue: a list
# finds changes of a restore that the proof of the history cannot find.
_RELIST_AFTER_SECONDS = 300.0
_RELIST_SPREAD_SECONDS = 2.0  # reflectors that relist because of one proof do not do so at once
_CONFIRM_POLL_SECONDS = 0.05
_INTERRUPTED, _POLLED = (  # by the reflector, not by a failure; the latter ends a wait
    steps.WatchEnded(events=1, seconds=float("inf")) for _ in range(2)
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorStatus:
    """The state of a reflector, and the counts of what it met."""

    state: ReflectorState
    reason: str
    """Why it is in this state; empty while all is well."""
    attempts: int
    """Failed attempts since the last success."""
    last_error: str | None
    loads: int
    """Complete lists and watch-lists so far."""
    guard: GuardStatistics
    takeovers: int = 0
    """How often a silent stream was replaced by a second one."""
    breaks_order: bool = False
    """The server breaks the order of resource versions even after a complete list."""
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """How loads, watches and requests ended, with the last detail, such as `loads:expired`,
    `watches_ended:silent` or `errors:410`."""


@final
class Reflector(Generic[V]):
    """Keeps a sink in step with one resource.

    Args:
        list_watch: the resource and the scope, and the connection to the server.
        sink: receives the objects and events: a store, a RealFIFO, a DeltaFIFO.
        view: the view to decode with each object.
        strip_managed_fields: leave `metadata.managedFields` out of what the sink receives.
        compact: keep bodies compressed; needs the extra `pyinformer[compact]`.
        transform: the user's change to each object.
        share_labels: keep one copy of the labels and the owner references that several objects
            have; False for a sink that keeps no objects.
        options: timeouts, page size and other settings of its requests. A function is called
            before each list and watch, and its result is used for it; `order` counts from the
            start.
        absent: what to do while the server does not serve the resource.
        server: what the reflectors of one connection know of its server together, and the limits
            that they share; None if it is the only one.
        journal: where rare events are written, in words.
        on_change: called after each change of state, on the loop.
        on_suspicion: called with the reason when the cache should be compared with the server.
        on_large: called for each object with a body of more than 16 KiB, before the sink has it.
        turn: ended when all events that arrived at once are in the sink.

    Source:
        client-go tools/cache/reflector.go.
    """

    def __init__(
        self,
        list_watch: ListWatch,
        sink: Sink[V],
        *,
        view: type[V] | None = None,
        strip_managed_fields: bool = True,
        compact: bool = False,
        transform: Transform | None = None,
        share_labels: bool = True,
        options: ReflectorOptions | Callable[[], ReflectorOptions] | None = None,
        absent: AbsencePolicy = "wait",
        server: FollowedServer | None = None,
        journal: DiagnosticJournal | None = None,
        on_change: Callable[[], None] | None = None,
        on_suspicion: Callable[[str], None] | None = None,
        on_large: Callable[[], None] | None = None,
        turn: Turn | None = None,
    ) -> None:
        if view is not None:
            check_view_or_model(view)
        resource, shown = list_watch.resource, list_watch.shown
        self.list_watch: ListWatch = list_watch
        """The resource and the scope that it follows."""
        self.journal: DiagnosticJournal = journal or DiagnosticJournal()
        """What happened lately, in sentences."""
        self._sink = sink
        self._read_options = options if callable(options) else None
        options = options() if callable(options) else options or ReflectorOptions()
        self._options = options
        self._now: Callable[[], float] = float  # the loop's, once it runs
        self._guard = guard = Guard(resource=shown)
        if options.order != "auto":
            guard.use_order(options.order)
        self._quarantine: Quarantine[V] = Quarantine(shown, sink, guard)
        self._codec: ObjectCodec[V] = ObjectCodec(
            resource,
            view=view,
            strip_managed_fields=strip_managed_fields,
            compact=compact,
            transform=transform,
            metadata_only=list_watch.metadata_only,
            share_labels=share_labels,
            on_problem=self._quarantine.record,
            on_large=on_large,
        )
        server = server or FollowedServer()
        may_relax = options.order == "auto" and not is_built_in(resource.group)
        audits = AuditRequests(shown, guard, self.journal, on_suspicion)
        self._machine = machine = ReflectorMachine(
            rng=options.rng,
            watch_list=server.watch_list_memory.of(resource),
            use_watch_list=options.use_watch_list,
            on_suspicion=audits.request,
            relax=OrderPolicy(guard, resource, self.journal, may_relax=may_relax).relax,
        )
        machine.configure(
            use_watch_list=options.use_watch_list, max_retry_seconds=options.max_retry_seconds
        )
        self._availability = Availability(shown, absent)
        self._request_budget = server.request_budget
        self._reporter = StateReporter(
            shown,
            machine,
            guard,
            self._availability,
            journal=self.journal,
            rights=self._request_budget.rights,
            on_change=on_change,
        )
        self._lineage = server.lineage
        self._relists = RelistLog(guard)
        self._age_proof = AgeProof()
        self._is_in_process = not isinstance(list_watch.connection, NetworkConnection)
        self._load_sent_at: float | None = None
        self._loader: Loader[V] = Loader(
            list_watch, self._codec, guard, sink, options, journal=self.journal, audits=audits
        )
        self._watch_loop: WatchLoop[V] = WatchLoop(
            list_watch,
            self._codec,
            guard,
            sink,
            options,
            request_budget=self._request_budget,
            machine=machine,
            reporter=self._reporter,
            audits=audits,
            journal=self.journal,
            age_proof=self._age_proof,
            trips=self._lineage.round_trips,
            turn=turn or Turn(),
        )
        self._counts, self._shard = Counts(), ShardParameter(list_watch)
        self.is_in_line: bool = False
        """Whether a load waits for its turn among the lists of the connection."""
        self.is_loading: bool = False
        """Whether a load has sent its first request and is not complete."""
        self._tap: ReflectorTap | None = None
        self._interruptible: anyio.CancelScope | None = None
        self._generation = 0

    @property
    def state(self) -> ReflectorState:
        """What it does now."""
        return self._machine.state

    @property
    def state_reason(self) -> str:
        """Why it is in its state, without what pending requests wait for; empty if all is well.

        A pending request for its path may be another reflector's.
        """
        availability = self._availability
        parts = (self._machine.reason, availability.hint)
        return availability.remedy or "; ".join(part for part in parts if part)

    @property
    def last_error(self) -> InformerError | None:
        """The error of the latest failed attempt; None since an attempt has succeeded."""
        return self._machine.last_error

    @property
    def position(self) -> str:
        """The resource version up to which every change is in the sink; empty at first."""
        return self._guard.position

    @property
    def is_ordered(self) -> bool:
        """Whether versions have one order and the position is of the server's current history."""
        return self._guard.order == "global" and not self._machine.distrust

    @property
    def version_order(self) -> VersionOrder:
        """Which of the resource's versions compare; the order may become weaker at any time."""
        return VersionOrder(self._guard.order)

    @property
    def epoch(self) -> int:
        """How often the server's history turned out not to be the one that was followed."""
        return self._guard.epoch

    @property
    def is_resetting(self) -> bool:
        """Whether the list that is applied now begins a new epoch: objects may go back in time."""
        return self._guard.is_resetting

    def has_tombstone(self, key: str, uid: str) -> bool:
        """Return whether a deletion of this object is remembered."""
        return self._guard.has_tombstone(key, uid)

    def last_good(self, key: str) -> StaleObject[V] | None:
        """Return the last readable state of an object whose cached state is unreadable.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Returns:
            None if the cached state is readable, or no readable state is remembered.
        """
        return self._quarantine.last_good(key)

    def quarantined(self) -> tuple[str, ...]:
        """Return the keys whose cached objects cannot be decoded as requested, at most 256."""
        return self._quarantine.keys()

    @property
    def fails_sync(self) -> bool:
        """Whether the first list will not come: not served though required, or no namespaces."""
        return self._availability.fails_sync

    def status(self) -> ReflectorStatus:
        """Return the state and the counts."""
        machine = self._machine
        return ReflectorStatus(
            state=machine.state,
            reason=self._reason(),
            attempts=machine.attempts,
            last_error=machine.error_text or None,
            loads=machine.loads,
            guard=self._guard.statistics(),
            takeovers=self._watch_loop.liveness.takeovers,
            breaks_order=machine.breaks_order,
            outcomes=self._counts.by_name(),
        )

    def _reason(self) -> str:
        """Return why it is in its state, and what it waits for; empty while all is well."""
        if self._availability.remedy:
            return self._availability.remedy
        if self.state is ReflectorState.WATCHING and not self.state_reason:
            return ""  # what is pending is a list that shows how old the cache is
        if self.is_in_line:
            waits = "waiting for its turn to list"
        else:
            waits = self.list_watch.describe_pending()
        return "; ".join(part for part in (self.state_reason, waits) if part)

    def liveness(self) -> Liveness:
        """Return when it last received events, bookmarks and proofs; a copy."""
        facts = copy(self._watch_loop.liveness)
        facts.observed_resource_version = self._guard.position
        facts.last_proof_at = self.last_proof_at
        return facts

    @property
    def is_provable(self) -> bool:
        """Whether a list can show how old the cache is; else only what arrives is known."""
        return self._guard.order == "global" and not self._age_proof.is_blind

    @property
    def last_proof_at(self) -> float | None:
        """The instant whose state, or a later one, is cached; None if none is known.

        Where lists are refused, or versions have no order, nothing shows it: what arrives counts.
        Of a server in the same process nothing is on its way.
        """
        age_proof = self._age_proof
        latest = age_proof.as_of(self._guard.position)
        if self._is_in_process or not self.is_provable:
            arrived_at = self._watch_loop.liveness.last_arrival_at
            if arrived_at is not None and (latest is None or arrived_at > latest):
                latest = arrived_at
        return latest

    def read_proof(self) -> float | None:
        """Return `last_proof_at` for a reader; it is renewed often for the next minutes.

        From any thread.
        """
        self._age_proof.read(self._now())
        return self.last_proof_at

    @property
    def proof_refused_at(self) -> float | None:
        """When the server last answered a request for a proof with an error; None if never."""
        return self._age_proof.refused_at

    def want_age(self, age_seconds: float) -> None:
        """Keep the age of what is cached below a limit for a minute; from any thread.

        Args:
            age_seconds: the limit; a long one changes nothing.
        """
        self._age_proof.want(age_seconds, self._now())

    async def confirm(self, timeout_seconds: float) -> bool | None:
        """Have it proven that what is cached is what the server has now.

        Args:
            timeout_seconds: how long it may take.

        Returns:
            True if it was proven, False if watches stand still, and everything is listed again;
            None if nothing shows it.

        Cancellation:
            Safe.
        """
        if self._is_in_process or self._guard.order != "global":
            return None
        asked_at, age_proof = self._now(), self._age_proof
        age_proof.ask(asked_at)

        def is_proven() -> bool:
            """Return whether the cache is as new as the question."""
            proven_at = age_proof.as_of(self._guard.position)
            return proven_at is not None and proven_at >= asked_at

        with anyio.move_on_after(timeout_seconds):
            # A notification would cost every event a call.
            while not is_proven() and age_proof.tried_at <= asked_at:  # noqa: ASYNC110
                await anyio.sleep(_CONFIRM_POLL_SECONDS)
        if age_proof.still_at > asked_at:
            return False
        return is_proven() or None

    def counts(self) -> dict[tuple[str, ...], int]:
        """Return what was counted so far, by name and details; from any thread.

        All details are from fixed vocabularies.
        """
        stream = self._watch_loop.totals()
        found = self._guard.counts.detailed() | self._counts.detailed()
        return found | {
            ("watch_events", ADDED): stream.added,
            ("watch_events", MODIFIED): stream.modified,
            ("watch_events", DELETED): stream.deleted,
            ("watch_events", BOOKMARK): stream.bookmarks,
            ("received_bytes",): stream.received_bytes + self._loader.received_bytes,
        }

    def interned(self) -> dict[str, InternStatistics]:
        """Return the tables of values that several objects share, by kind; from any thread."""
        return self._codec.statistics()

    def loads(self) -> tuple[RelistRecord, ...]:
        """Return the latest complete loads, the oldest first; from any thread."""
        return self._relists.records()

    @property
    def is_polled(self) -> bool:
        """Whether everything is listed from time to time, since no watch can be opened."""
        return self.state is ReflectorState.POLLING or not self._guard.can_resume

    @property
    def loaded_bytes(self) -> int:
        """How many bytes of lists have arrived."""
        return self._loader.received_bytes

    @property
    def loads_begun(self) -> int:
        """How many loads have sent their first request."""
        return self._relists.begun

    @property
    def last_complete_load(self) -> int:
        """Which of the loads that have begun was complete last, counted from 1; 0 if none was."""
        return self._relists.last_complete

    def tombstone_version(self, key: str) -> str:
        """Return the version of the latest remembered deletion under a key, or an empty text."""
        return self._guard.tombstone_version(key)

    def contents(self) -> list[KubeObject[V]]:
        """Return every object of the sink, in a list that belongs to the caller."""
        found = map(self._sink.get, keys_of(self._sink))
        return [one for one in found if one is not None]

    def use_tap(self, tap: ReflectorTap | None) -> None:
        """Report to a recorder from now on; None ends it."""
        self._tap = tap
        self._watch_loop.use_tap(tap)

    def request_relist(self, reason: str, *, cause: LoadCause = "request") -> None:
        """Load everything again as soon as possible; a watch or a pause ends for it.

        Args:
            reason: why, for people.
            cause: why, for counts.
        """
        if self._tap is not None:
            self._tap.on_relist_requested(reason, distrust=False)
        self.journal.note(f"everything will be listed again: {reason}")
        self._machine.request_relist(reason, cause=cause)
        self._interrupt()

    def request_proof(self, reason: str) -> None:
        """Prove as soon as possible that the server's history is the one that was followed.

        Args:
            reason: why, for people.
        """
        self.journal.note(f"the server's history will be proven: {reason}")
        self._machine.lost_at = self._now()
        self._interrupt()

    def on_history_broken(self, reason: str) -> None:
        """List again and trust nothing that is cached; called by the lineage."""
        if self._tap is not None:
            self._tap.on_relist_requested(reason, distrust=True)
        reason = f"the server's history is another: {reason}"
        self.journal.note(reason)
        self._reporter.known_reason = reason
        self._machine.request_relist(reason, distrust=True)
        spread = self._options.rng.uniform(0, _RELIST_SPREAD_SECONDS)
        asyncio.get_running_loop().call_later(spread, self._interrupt_for_relist)

    def _interrupt_for_relist(self) -> None:
        machine = self._machine
        # The reflector whose proof it was may have begun to list already.
        if machine.relist_requested and not machine.delays_relist:
            self._interrupt()

    async def history_samples(self) -> Sequence[HistorySample]:
        """Return the newest object and the newest deletion that it knows, for the proof.

        Cancellation:
            Safe.
        """
        return await history_samples(self._sink, self._guard)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """List and watch until cancelled.

        Raises:
            ConnectionEndedError: the connection will never work again.

        Cancellation:
            The usual way to end it; the connection is closed, the sink keeps what it has.
        """
        self._now = now = asyncio.get_running_loop().time
        leave = self._lineage.join(self)
        command = self._machine.start(now())
        task_status.started()
        try:
            while True:
                self._reporter.changed()
                happened = await self._perform(command)
                self._count(happened)
                if isinstance(happened, steps.LoadFailed | steps.WatchFailed):
                    self._shard.failed(happened.error, now())
                self._renew_options()
                command = self._machine.step(happened, now())
        finally:
            leave()
            self._machine.state = ReflectorState.STOPPED
            self._reporter.changed()

    def _count(self, happened: steps.Input) -> None:
        if happened is _INTERRUPTED:
            self._counts.add("watches_ended", "interrupted")
        elif happened is not _POLLED:
            count_outcome(self._counts, happened)

    def _renew_options(self) -> None:
        """Read the options again, for the next decision and the next request."""
        if self._read_options is None:
            return
        options = self._options = self._read_options()
        self._loader.options = self._watch_loop.options = options
        self._machine.configure(
            use_watch_list=options.use_watch_list, max_retry_seconds=options.max_retry_seconds
        )

    def _interrupt(self) -> None:
        if self._interruptible is not None:
            self._interruptible.cancel()

    async def _perform(self, command: steps.Command) -> steps.Input:
        match command:
            case steps.Load(steps.LoadMode.WATCH_LIST):
                return await self._watch_list()
            case steps.Load(mode):
                return await self._list(mode)
            case steps.Watch():
                return await self._watch()
            case steps.Sleep(seconds, wake_on):
                return await self._sleep(seconds, wake_on)
            case steps.Prove():
                return await self._prove()
            case steps.Verify(key):
                return await self._verify(key)
            case steps.Discover():
                return await self._discover()
            case steps.Halt(error):
                facts = self._facts(error)
                text = "the reflector of %(resource)s gave up for ten minutes: %(error)s"
                _log.error(text, facts, extra=facts)
                return await self._sleep(_GIVEN_UP_SECONDS)
        raise InternalError(f"a reflector cannot perform {command!r}")

    async def _sleep(
        self, seconds: float, wake_on: steps.WakeCause = steps.WakeCause.TIME
    ) -> steps.Input:
        by, budget = steps.WakeCause.TIME, self._request_budget
        with anyio.CancelScope() as self._interruptible:
            if wake_on is steps.WakeCause.RIGHTS:
                await budget.rights.wait(seconds)
            else:
                connection = self.list_watch.connection
                by = await budget.outage.wait(connection, seconds, wake_on=wake_on)
        return steps.Woke(by)

    def _listing(self) -> AbstractAsyncContextManager[ListingSlot]:
        is_first = not self._machine.loads and not self._machine.attempts
        return self._request_budget.listing(str(self.list_watch.resource), is_first=is_first)

    async def _list(self, mode: steps.LoadMode) -> steps.Input:
        self.is_in_line = True
        try:
            async with self._listing() as slot:
                self._machine.begin_load()  # it may have waited long for its turn
                self._begin_load()
                self._loader.on_progress = slot.progress
                await self._loader.learn_kind()
                await self._loader.load_list(mode)
        except Exception as error:  # noqa: BLE001 - the loop continues, whatever a load ran into
            self._end_load()
            return steps.LoadFailed(mode, self._as_informer_error(error), self._loader.pages)
        self._loaded(mode)
        return steps.Loaded(mode)

    async def _watch_list(self) -> steps.Input:
        opened = loaded = False
        self.is_in_line = True
        try:
            async with (
                AsyncExitStack() as stack,
                self._listing() as slot,
            ):
                if not self._machine.may_watch_list(self._now()):  # it waited for its turn
                    raise steps.WatchListUnspokenError(
                        f"watch-list {self.list_watch.resource}", "the server does not know any"
                    )
                self._begin_load()
                self._loader.on_progress = slot.progress
                await self._loader.learn_kind()
                body = await open_watch_list(
                    stack,
                    self._watch_loop.open(initial=True),
                    self.list_watch,
                )
                opened = True
                found = await self._loader.load_initial_events(body)
                slot.release()
                loaded = True
                if found is None:  # a list was loaded instead, and is ahead of this stream
                    self._loaded(steps.LoadMode.PAGED)
                    return steps.Loaded(steps.LoadMode.PAGED)
                splitter, rest = found
                self._loaded(steps.LoadMode.WATCH_LIST)
                self._machine.step(steps.Loaded(steps.LoadMode.WATCH_LIST), self._now())
                self._reporter.changed()
                if self._machine.relist_requested:
                    return _INTERRUPTED
                with anyio.CancelScope() as self._interruptible:
                    return await self._watch_loop.follow(stack.pop_all(), body, splitter, rest)
                return _INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the loop continues
            if loaded:
                return steps.WatchFailed(self._as_informer_error(error), established=True)
            self._end_load()
            failure = self._as_informer_error(error)
            self.journal.note(f"the watch-list failed: {failure}")
            return steps.LoadFailed(steps.LoadMode.WATCH_LIST, failure, established=opened)

    async def _watch(self) -> steps.Input:
        if not self._guard.can_resume:
            return await self._poll()
        try:
            due_at = self._machine.proof_due_at
            with anyio.CancelScope(deadline=due_at) as self._interruptible:
                return await self._watch_loop.watch()
        except Exception as error:  # noqa: BLE001 - the loop continues
            return steps.WatchFailed(self._as_informer_error(error), established=False)
        return _INTERRUPTED

    async def _poll(self) -> steps.Input:
        """Wait and list again: there is no position from which a watch could start."""
        self._machine.connected()
        self._reporter.changed()
        with anyio.CancelScope() as self._interruptible:
            await anyio.sleep(self._options.poll_seconds)
        self._machine.request_relist("the list has no version to watch from", cause="poll")
        return _POLLED

    def _end_load(self) -> None:
        self.is_loading = False
        if self._tap is not None:
            self._tap.on_load_ended()

    def _begin_load(self) -> None:
        self.is_in_line, self.is_loading = False, True
        self._interruptible = None
        self._shard.begin_load(self._now())
        self._generation = self._lineage.generation
        self._loader.distrust = self._machine.distrust
        is_any = self._options.consistency == "any" and not self._guard.position
        self._load_sent_at = None if is_any else self._now()
        self._relists.begin(self._machine.reason)

    def _loaded(self, mode: steps.LoadMode) -> None:
        self._end_load()
        self._shard.loaded()
        self._availability.loaded()
        self._age_proof.loaded(self._load_sent_at)
        self._watch_loop.liveness.last_contact_at = self._now()
        self._quarantine.sweep()
        self.journal.note(f"loaded by {mode.value} at {self._guard.position}")
        broke = self._loader.broke
        self._relists.finish(mode, broke)
        cause = "history" if broke else self._machine.load_cause or "request"
        self._counts.add("loads", mode.name.lower(), cause)
        if broke and not self._lineage.has_notified(self, self._generation):
            self._lineage.report_break(f"{self.list_watch.shown}: {broke}", by=self)

    async def _prove(self) -> steps.Input:
        machine = self._machine
        lost_at = self._now() if machine.lost_at is None else machine.lost_at
        try:
            proof = await self._lineage.prove(lost_at, self, alone=machine.proves_alone)
        except (TransportError, APIStatusError) as error:  # it is away, or overloaded
            self._list_after_outage()
            return steps.ProofFailed(error)
        except Exception as error:  # noqa: BLE001 - the loop continues
            self._as_informer_error(error)
            return steps.Proved(HistoryVerdict.UNDECIDED)
        # Without an answer the next watch may be opened unproven, and nothing would follow.
        if proof.verdict is HistoryVerdict.INTACT or proof.is_unanswered:
            self._list_after_outage()
        self._guard.counts.add("lineage_proofs", proof.verdict.name.lower())
        if proof.verdict is HistoryVerdict.BROKEN:  # the lineage has notified its members
            machine.distrust_reason = f"the server's history is another: {proof.reason}"
        elif proof.reason:
            self.journal.note(f"the server's history: {proof.verdict.value}: {proof.reason}")
        return steps.Proved(proof.verdict, await self._lists_work(proof.verdict))

    async def _lists_work(self, verdict: HistoryVerdict) -> bool:
        """Return whether a list is answered, where versions without an order prove nothing."""
        if verdict is not HistoryVerdict.UNDECIDED or self._guard.order == "global":
            return False
        try:
            await read_live(self.list_watch, own_connection=True, metadata_only=True)
        except InformerError as error:
            self.journal.note(f"a list was not answered: {error}")
            return False
        return True

    def _list_after_outage(self) -> None:
        """List everything before the next watch if the contact was lost for long."""
        facts = self._watch_loop.liveness
        known = (facts.last_contact_at, facts.last_arrival_at)
        contact_at = max((at for at in known if at is not None), default=None)
        away_seconds = 0.0 if contact_at is None else self._now() - contact_at
        if away_seconds > _RELIST_AFTER_SECONDS:
            reason = f"there was no contact for {away_seconds:.0f} s"
            self._machine.request_relist(reason, cause="outage")

    async def _verify(self, key: str) -> steps.Input:
        try:
            await self._watch_loop.verify(key)
        except Exception as error:  # noqa: BLE001 - the loop continues
            return steps.Verified(self._as_informer_error(error))
        return steps.Verified()

    async def _discover(self) -> steps.Input:
        availability, asked_at = self._availability, self._now()
        availability.not_found()
        self._reporter.changed()
        try:
            failures = self._request_budget.discovery
            answer = await ask_discovery(self.list_watch, failures=failures)
            if availability.deletes_objects(answer, asked_at):
                answer = await with_other_versions(self.list_watch, answer)
            if availability.deletes_objects(answer, asked_at):
                answer = await ask_all_servers(self.list_watch, answer)
            outcome = availability.answered(answer, asked_at)
            if outcome is DiscoveryOutcome.EMPTY:
                self.journal.note("discovery lacks the resource: the cache is emptied")
                await self._loader.apply_absence()
        except Exception as error:  # noqa: BLE001 - the loop continues
            failure = self._as_informer_error(error)
            self.journal.note(f"discovery failed: {failure}")
            availability.unanswered()
            return steps.DiscoveryFailed(failure)
        spread = 1.0 + self._options.rng.uniform(0.0, 0.5)  # many may miss one definition
        return steps.Discovered(
            outcome is DiscoveryOutcome.SERVED,
            availability.retry_seconds * spread,
            tries_load=availability.tries_load,
        )

    def _as_informer_error(self, error: Exception) -> InformerError:
        """Return an error of this library as it is, and any other one as the bug that it is.

        Raises:
            ConnectionEndedError: it is this one; no attempt can succeed.
        """
        if isinstance(error, ConnectionEndedError):
            raise error
        if isinstance(error, InformerError):
            return error
        facts = self._facts(error)
        shown = {**facts, "trace": trace_text(error)}
        _log.error("bug in the reflector of %(resource)s: %(error)s\n%(trace)s", shown, extra=facts)
        internal = InternalError(f"a reflector met {error_text(error)}")
        internal.__cause__ = error
        return internal

    def _facts(self, error: Exception) -> dict[str, str]:
        return facts_of(error, self.list_watch.shown, self._guard.position)
