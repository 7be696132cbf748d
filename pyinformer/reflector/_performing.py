"""What a reflector is made of, and how it performs what its machine commands.

A command enters; how it ended leaves, and is an error only where the loop cannot go on. This waits
and decides nothing: what follows is the machine's, what an event may do the guard's.
"""

from __future__ import annotations

from collections import deque
from contextlib import AsyncExitStack
from copy import copy
from typing import TYPE_CHECKING, Generic, Literal, cast

import anyio

from pyinformer._clock import wall_time
from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
    APIStatusError,
    ForbiddenError,
    InformerError,
    InternalError,
    InvalidObjectError,
    Journal,
    ObjectCodec,
    Transform,
    TransportError,
    V,
    View,
    check_view,
)
from pyinformer.metrics import NO_METRICS, Metrics
from pyinformer.reflector._admission import Admission
from pyinformer.reflector._conformance import is_built_in
from pyinformer.reflector._guard import Guard
from pyinformer.reflector._lineage import Lineage, Member
from pyinformer.reflector._liveness import Liveness
from pyinformer.reflector._loader import Loader
from pyinformer.reflector._machine import ReflectorMachine
from pyinformer.reflector._options import ReflectorOptions
from pyinformer.reflector._outage import Ending
from pyinformer.reflector._presence import AbsencePolicy, Finding, Presence, ask_discovery
from pyinformer.reflector._quarantine import Quarantine
from pyinformer.reflector._state import (
    Command,
    Discover,
    Discovered,
    Halt,
    Input,
    Load,
    Loaded,
    LoadFailed,
    LoadMode,
    LoadRecord,
    ProofFailed,
    Prove,
    Proved,
    ReflectorState,
    Sleep,
    Verdict,
    Verified,
    Verify,
    Watch,
    WatchEnded,
    WatchFailed,
    Woke,
)
from pyinformer.reflector._watch_list_memory import WatchListMemory
from pyinformer.reflector._watching import Watching
from pyinformer.tasks import error_text, trace_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.reflector._sink import Sink
    from pyinformer.transport import ListWatch

_log = get_logger("pyinformer.reflector")

_GIVEN_UP_SECONDS = 600.0  # a cache that is stuck is loud, and looks for a way out now and then
_SELDOM_SECONDS = 600.0  # one who makes unreadable objects must not have everything listed often
_UNIDENTIFIED = "an object cannot be identified"
_LOADS_KEPT = 32  # each explains how the objects of its versions came

_CUT_OFF_ATTEMPTS = 3  # after some three seconds: a server that restarts is heard of, a blip is not


class Performing(Generic[V]):
    """Performs the commands of one reflector; the arguments are the Reflector's."""

    def __init__(
        self,
        list_watch: ListWatch,
        sink: Sink[V],
        *,
        projection: type[V] | None = None,
        strip_managed_fields: bool = True,
        compact: bool = False,
        transform: Transform | None = None,
        options: ReflectorOptions | None = None,
        absent: AbsencePolicy = "wait",
        watch_list_memory: WatchListMemory | None = None,
        lineage: Lineage | None = None,
        admission: Admission | None = None,
        journal: Journal | None = None,
        metrics: Metrics = NO_METRICS,
        on_change: Callable[[], None] | None = None,
        on_suspicion: Callable[[str], None] | None = None,
        on_large: Callable[[], None] | None = None,
    ) -> None:
        if projection is not None:
            check_view(cast("type[View]", projection))
        resource = list_watch.resource
        self.list_watch: ListWatch = list_watch
        """What is followed."""
        self.journal: Journal = journal or Journal()
        """What happened lately, in words."""
        self._sink = sink
        self._options = options or ReflectorOptions()
        self._on_change = on_change
        self._on_suspicion = on_suspicion
        self._now: Callable[[], float] = float  # the loop's, once it runs
        self._guard = guard = Guard(metrics=metrics, resource=str(resource))
        self._quarantine: Quarantine[V] = Quarantine(
            str(resource), sink.get, lambda: guard.count("undecodable", "kept")
        )
        self._codec: ObjectCodec[V] = ObjectCodec(
            resource,
            view=projection,
            strip_managed_fields=strip_managed_fields,
            compact=compact,
            transform=transform,
            metadata_only=list_watch.metadata_only,
            on_problem=self._quarantine.notice,
            on_large=on_large,
        )
        if self._options.order != "auto":
            guard.use_order(self._options.order)
        self._machine = ReflectorMachine(
            rng=self._options.rng,
            watch_list=watch_list_memory or WatchListMemory(),
            use_watch_list=self._options.use_watch_list,
            on_suspicion=self._suspect,
            relax=self._relax,
        )
        self._presence = Presence(str(resource), absent)
        self._admission = admission or Admission()
        self._lineage = lineage or Lineage(attempt=self._admission.attempt)
        self._liveness = Liveness()
        self._noted = ReflectorState.NEW
        self._noted_reason = ""
        self._is_cut_off = False
        self._is_in_line = False
        self._interruptible: anyio.CancelScope | None = None
        self._generation = 0
        self._suspected_at = float("-inf")
        self._loads: deque[LoadRecord] = deque(maxlen=_LOADS_KEPT)
        self._load_before = self._load_reason = ""
        self._load_epoch = 0
        self._loader = Loader(
            list_watch,
            self._codec,
            guard,
            sink,
            self._options,
            note=self.journal.note,
            on_skipped=self._skipped_item,
        )
        self._watching: Watching[V] = Watching(
            list_watch,
            self._codec,
            guard,
            sink,
            options=self._options,
            admission=self._admission,
            liveness=self._liveness,
            journal=self.journal,
            on_connected=self._connected,
            on_progress=self._progressed,
            on_skipped=self._skipped_event,
        )

    def _relax(self, order: Literal["per_object", "opaque"]) -> bool:
        """Compare versions less strictly, if the resource may be an aggregated API's."""
        allowed = self._options.order == "auto" and not is_built_in(self._codec.resource.group)
        if order == "per_object":
            allowed = allowed and self._guard.sees_no_order()
        if allowed:
            self.journal.note(f"resource versions are compared by the order {order} from now on")
            self._guard.use_order(order)
        elif order == "per_object" and not self._machine.breaks_order:  # it will be, from now on
            self._guard.ignores_old_bookmarks = True
            self.journal.note("the server breaks the order of resource versions")
            _log.error(
                "%s: the server breaks the order of resource versions, even after a complete list."
                " What is cached is served on and compared with the server now and then; changes"
                " may come late. Is an aggregated API server or a proxy at fault? If its versions"
                " cannot be ordered, say so by ReflectorOptions(order=...)",
                self._codec.resource,
            )
        return allowed

    def _skipped_event(self, error: InvalidObjectError) -> None:
        """Report an object of a watch that cannot be identified, once in ten minutes."""
        if self._suspect_seldom(_UNIDENTIFIED):
            facts = self._facts(error)
            _log.error(
                "%(resource)s: an object in a watch cannot be identified and is skipped; what is"
                " cached will be compared with the server. Further ones are only counted",
                facts,
                extra=facts,
            )

    def _skipped_item(self) -> None:
        """Have the cache compared after a list with an object that cannot be identified."""
        self._suspect_seldom(_UNIDENTIFIED)

    def _suspect_seldom(self, reason: str) -> bool:
        now = self._now()
        if now - self._suspected_at < _SELDOM_SECONDS:
            return False
        self._suspected_at = now
        self._suspect(reason)
        return True

    def _suspect(self, reason: str) -> None:
        self.journal.note(f"what is cached is in doubt: {reason}")
        if self._on_suspicion is not None:
            self._on_suspicion(reason)

    def _connected(self) -> None:
        self._machine.connected()
        self._changed()

    def _progressed(self) -> None:
        self._machine.progressed()
        self._changed()

    def liveness(self) -> Liveness:
        """Return what it heard last, and when; a copy."""
        facts = copy(self._liveness)
        facts.observed_resource_version = self._guard.position
        proven = (facts.last_event_at, facts.last_bookmark_at, facts.last_proof_at)
        facts.last_proof_at = max((at for at in proven if at is not None), default=None)
        return facts

    def _changed(self) -> None:
        self._tell_if_cut_off()
        machine = self._machine
        if machine.state is not self._noted:
            self._noted = machine.state
            is_news = machine.reason and machine.reason != self._noted_reason
            why = f": {machine.reason}" if is_news else ""
            self._noted_reason = machine.reason
            self.journal.note(f"{machine.state.value} at {self._guard.position or 'nothing'}{why}")
        if self._on_change is not None:
            self._on_change()

    def _tell_if_cut_off(self) -> None:
        """Say once that it cannot follow, and once that it can again; status() tells the rest."""
        machine, resource = self._machine, self._codec.resource
        is_told = self._is_cut_off or machine.state is ReflectorState.ABSENT  # by presence
        is_told = is_told or (self._presence.is_absent and self._presence.policy == "optional")
        # Whoever listens hears of this state at once, and says so; twice would be once too often.
        is_told = is_told or (
            isinstance(machine.last_error, ForbiddenError) and self._on_change is not None
        )
        if not is_told and machine.attempts >= _CUT_OFF_ATTEMPTS:
            self._is_cut_off = True
            _log.warning(
                "%s cannot be followed, %d attempts failed: %s; it goes on trying",
                resource,
                machine.attempts,
                machine.told_error or machine.reason,
            )
        elif self._is_cut_off and not machine.attempts:
            self._is_cut_off = False
            _log.info("%s is followed again", resource)

    def _interrupt(self) -> None:
        if self._interruptible is not None:
            self._interruptible.cancel()

    async def _perform(self, command: Command) -> Input:
        match command:
            case Load(LoadMode.WATCH_LIST):
                return await self._watch_list()
            case Load(mode):
                return await self._list(mode)
            case Watch():
                return await self._watch()
            case Sleep(seconds, ended_by):
                return await self._sleep(seconds, ended_by)
            case Prove():
                return await self._prove()
            case Verify(key):
                return await self._verify(key)
            case Discover():
                return await self._discover()
            case Halt(error):
                facts = self._facts(error)
                text = "the reflector of %(resource)s gave up for ten minutes: %(error)s"
                _log.error(text, facts, extra=facts)
                return await self._sleep(_GIVEN_UP_SECONDS)
        raise InternalError(f"a reflector cannot perform {command!r}")

    async def _sleep(self, seconds: float, ended_by: Ending = Ending.NOTHING) -> Input:
        by, outage = Ending.NOTHING, self._admission.outage
        with anyio.CancelScope() as self._interruptible:
            by = await outage.wait(self.list_watch.connection, seconds, ended_by=ended_by)
        return Woke(by)

    async def _list(self, mode: LoadMode) -> Input:
        self._is_in_line = True
        try:
            async with self._admission.listing(self._codec.resource.group) as slot:
                self._machine.load_begins()  # it may have waited long for its turn
                self._begin_load()
                self._loader.on_progress = slot.progress
                await self._loader.learn_kind()
                await self._loader.load_list(mode)
        except Exception as error:  # noqa: BLE001 - the loop goes on, whatever a load ran into
            return LoadFailed(mode, self._named(error), self._loader.pages)
        self._loaded(mode)
        return Loaded(mode)

    async def _watch_list(self) -> Input:
        opened = loaded = False
        self._is_in_line = True
        try:
            async with (
                AsyncExitStack() as stack,
                self._admission.listing(self._codec.resource.group) as slot,
            ):
                self._begin_load()
                self._loader.on_progress = slot.progress
                await self._loader.learn_kind()
                body = await stack.enter_async_context(self._watching.open(initial=True))
                opened = True
                found = await self._loader.load_initial_events(body)
                slot.release()
                loaded = True
                if found is None:  # a list took its place, and is ahead of this stream
                    self._loaded(LoadMode.PAGED)
                    return Loaded(LoadMode.PAGED)
                splitter, rest = found
                self._loaded(LoadMode.WATCH_LIST)
                self._machine.step(Loaded(LoadMode.WATCH_LIST), self._now())
                self._changed()
                if self._machine.demands_load:
                    return _INTERRUPTED
                with anyio.CancelScope() as self._interruptible:
                    return await self._watching.follow(stack.pop_all(), body, splitter, rest)
                return _INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the loop goes on
            if loaded:
                return WatchFailed(self._named(error), established=True)
            return LoadFailed(LoadMode.WATCH_LIST, self._named(error), established=opened)

    async def _watch(self) -> Input:
        if not self._guard.can_resume:
            return await self._poll()
        try:
            with anyio.CancelScope() as self._interruptible:
                return await self._watching.watch()
        except Exception as error:  # noqa: BLE001 - the loop goes on
            return WatchFailed(self._named(error), established=False)
        return _INTERRUPTED

    async def _poll(self) -> Input:
        """Wait and list again: there is no position from which a watch could go on."""
        self._machine.connected()
        self._changed()
        with anyio.CancelScope() as self._interruptible:
            await anyio.sleep(self._options.poll_seconds)
        self._machine.demand_load("the list has no version to watch from")
        return _INTERRUPTED

    def _begin_load(self) -> None:
        self._is_in_line = False
        self._interruptible = None
        self._generation = self._lineage.generation
        self._loader.distrust = self._machine.distrust
        self._load_before = self._guard.position
        self._load_epoch = self._guard.epoch
        self._load_reason = self._machine.reason if self._load_before else ""

    def _loaded(self, mode: LoadMode) -> None:
        self._presence.loaded()
        self._liveness.last_proof_at = self._now()
        self._quarantine.sweep()
        position = self._guard.position
        self.journal.note(f"loaded by {mode.value} at {position}")
        why, before = self._load_reason, self._load_before
        broke = self._loader.broke
        is_reset = bool(before) and (bool(broke) or self._guard.epoch != self._load_epoch)
        if broke:
            why = f"the server's history is another: {broke}"
        self._loads.append(LoadRecord(wall_time(), mode.value, why, before, position, is_reset))
        member = cast("Member", self)
        if broke and not self._lineage.has_told(member, self._generation):
            self._lineage.broke(f"{self._codec.resource}: {broke}", by=member)

    async def _prove(self) -> Input:
        machine, member = self._machine, cast("Member", self)
        lost_at = self._now() if machine.lost_at is None else machine.lost_at
        try:
            proof = await self._lineage.prove(lost_at, member, alone=machine.is_silent)
        except (TransportError, APIStatusError) as error:
            return ProofFailed(error)
        except Exception as error:  # noqa: BLE001 - the loop goes on
            self._named(error)
            return Proved(Verdict.UNDECIDED)
        self._guard.count("lineage_proofs", proof.verdict.name.lower(), label="verdict")
        if proof.verdict is Verdict.INTACT:
            self._look_at_outage()
        elif proof.verdict is Verdict.BROKEN:  # the lineage has told all of its members
            machine.distrust_reason = f"the server's history is another: {proof.reason}"
        else:
            self.journal.note(f"the server's history: {proof.verdict.value}: {proof.reason}")
        return Proved(proof.verdict)

    def _look_at_outage(self) -> None:
        """Take note that the history is intact, or load if the contact was lost for long."""
        now, proven_at = self._now(), self.liveness().last_proof_at
        away_seconds = 0.0 if proven_at is None else now - proven_at
        if away_seconds > self._options.relist_after_outage_seconds:
            self._machine.demand_load(f"there was no contact for {away_seconds:.0f} s")
        self._liveness.last_proof_at = now

    async def _verify(self, key: str) -> Input:
        try:
            await self._watching.verify(key)
        except Exception as error:  # noqa: BLE001 - the loop goes on
            return Verified(self._named(error))
        return Verified()

    async def _discover(self) -> Input:
        presence, asked_at = self._presence, self._now()
        presence.not_found()
        self._changed()
        try:
            finding = presence.answered(await ask_discovery(self.list_watch), asked_at)
            if finding is Finding.EMPTY:
                self.journal.note("discovery lacks the resource: what was cached is let go")
                await self._loader.take_absence()
            is_served, again = finding is Finding.SERVED, self._ask_again_seconds()
            return Discovered(is_served, again, tries_load=presence.tries_load)
        except Exception as error:  # noqa: BLE001 - the loop goes on
            self.journal.note(f"discovery would not tell: {self._named(error)}")
            again = self._ask_again_seconds()
            return Discovered(is_served=False, ask_again_seconds=again, tries_load=True)

    def _ask_again_seconds(self) -> float:
        spread = 1.0 + self._options.rng.uniform(0.0, 0.5)  # many may miss one definition
        return self._presence.ask_again_seconds * spread

    def _named(self, error: Exception) -> InformerError:
        """Return an error of ours as it is, and anything else as the bug that it is."""
        if isinstance(error, InformerError):
            return error
        facts = self._facts(error)
        shown = {**facts, "trace": trace_text(error)}
        _log.error("bug in the reflector of %(resource)s: %(error)s\n%(trace)s", shown, extra=facts)
        internal = InternalError(f"a reflector met {error_text(error)}")
        internal.__cause__ = error
        return internal

    def _facts(self, error: Exception) -> dict[str, str]:
        return {
            "resource": str(self._codec.resource),
            "position": self._guard.position,
            "error": str(error) if isinstance(error, InformerError) else error_text(error),
        }


_INTERRUPTED = WatchEnded(events=1, seconds=float("inf"))  # by us: nothing was wrong with it
