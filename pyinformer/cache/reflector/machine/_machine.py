"""The state machine of a reflector: what it does next, without I/O and without a clock.

A broken connection resumes the watch at its position; only what proves that the position is useless
loads everything again. Every repetition passes the backoff, so no answer of a server makes a hot
loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.reflector.lineage import HistoryVerdict
from pyinformer.cache.reflector.machine import steps
from pyinformer.cache.reflector.machine._anomaly_escalation import (
    EarlyEnds,
    MalformedVersions,
    Reaction,
    RefusedWatches,
    SuspectStreams,
    UnreadableFrames,
)
from pyinformer.cache.reflector.machine._load_modes import LoadModes
from pyinformer.cache.reflector.machine._retry_delay import (
    RetryDelay,
    is_throttled,
    requested_seconds,
)
from pyinformer.cache.reflector.machine.steps import ReflectorState
from pyinformer.errors import (
    APIStatusError,
    ForbiddenError,
    InformerError,
    InternalError,
    InvalidResourceVersionError,
    NotFoundError,
    ResourceExpiredError,
    ResourceVersionTooLargeError,
    ServerError,
    TransportError,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pyinformer.cache.reflector.machine._load_modes import WatchListMemory

_log = get_logger(__name__)

_SHORT_WATCH_SECONDS = 1.0  # a watch that ends sooner is not reopened at once
_EMPTY_WATCHES = 3  # that many empty ones in a row: the position may be dead (kubernetes#104171)
_LASTING_WATCH_SECONDS = 2.0  # one that fails later has worked, also without an event
_EXPIRED_AFTER_LOAD = 2  # twice in a row: paging takes longer than the server remembers
_TOO_LARGE = 3  # a lagging server catches up within three attempts
_MISSED_DELETION = "StorageReadError"  # a corrupt object was removed without a DELETED event
_BEHIND = 3  # that many complete lists behind the position, whatever else the server says
_FRUITLESS_WATCHES = 12  # in a row, within some two minutes: a proxy that never sends events
_PROVEN_SECONDS = 15.0  # a server that is restored is away for longer than that
_REFUSED_PROOFS = 3  # then it watches unproven: a server that refuses lists may serve watches
_FAILED_PROOFS = 8  # likewise; after a minute or two the server is there and only lists fail


@final
class ReflectorMachine:
    """Decides what a reflector does next.

    Args:
        rng: the source of chance for delays.
        watch_list: shared by the resources of a server: whether it supports watch-lists.
        use_watch_list: whether watch-lists are tried at all.
        on_suspicion: called with the reason when the cache should be compared with the server.
        relax: compares versions less strictly from now on, "per_object" or "opaque", and returns
            True; returns False if that is not allowed for this resource.
    """

    def __init__(
        self,
        *,
        rng: random.Random,
        watch_list: WatchListMemory,
        use_watch_list: bool = True,
        on_suspicion: Callable[[str], None] = lambda _: None,
        relax: Callable[[Literal["per_object", "opaque"]], bool] = lambda _: False,
    ) -> None:
        self.state: ReflectorState = ReflectorState.NEW
        self.reason: str = ""
        """Why it is in this state, for people."""
        self.attempts: int = 0
        """Attempts since the last success."""
        self.last_error: InformerError | None = None
        self.loads: int = 0
        """How many loads were complete."""
        self.load_cause: steps.LoadCause | None = None
        """Why the load that runs or is retried was begun; None between loads."""
        self.breaks_order: bool = False
        """The server breaks the order of resource versions; the cache is still served."""
        self.distrust: bool = False
        """The server's history was proven to be another; true until everything is loaded again."""
        self.distrust_reason: str = ""
        """What proves that, for people; kept while such a load is retried."""
        self.lost_at: float | None = None
        """When the watch was lost; None while nothing suggests another history."""
        self.proves_alone: bool = False
        """Only the resource itself proves its history: its watch was silent, or was refused."""
        self.delays_relist: bool = False
        """The history broke again within seconds: the load of the latest break is delayed."""
        self._requested = ""
        self._requested_by: steps.LoadCause = "request"
        self._distrusts_next = False
        self._in_touch_at = float("-inf")
        self._failed_proofs = 0
        self._proof_error: InformerError | None = None
        self._loaded_after_break = False
        self._next: steps.Command = steps.Watch()
        self._refusals, self._early = RefusedWatches(), EarlyEnds()
        self._expired_after_load = self._watches_since_load = self._empty_watches = 0
        self._too_large = self._behind = self._unordered_lists = self._fruitless = 0
        self._delay = RetryDelay(rng)
        self._modes = LoadModes(watch_list, use_watch_list=use_watch_list)
        self._malformed = MalformedVersions()
        self._unreadable = UnreadableFrames()
        self._suspect = SuspectStreams()
        self._on_suspicion = on_suspicion
        self._relax = relax

    @property
    def error_text(self) -> str:
        """The last error for people.

        A proof reads other resources as well, so its error names the server alone: the address of
        another resource in the message about this one would look like a mix-up.
        """
        error = self.last_error
        if error is None:
            return ""
        if error is not self._proof_error:
            return str(error)
        found = str(error)
        if isinstance(error, TransportError):
            server = "/".join(error.url.split("/", 3)[:3])  # https://host:port
            found = f"{server}: {error.reason}"
        return f"whether the server kept its history is not known: {found}"

    @property
    def relist_requested(self) -> bool:
        """Whether everything is loaded instead of the next watch."""
        return bool(self._requested)

    def configure(
        self,
        *,
        use_watch_list: bool,
        max_retry_seconds: Callable[[int, InformerError], float] | None,
    ) -> None:
        """Decide by these settings from now on; see `ReflectorOptions`."""
        self._modes.use_watch_list = use_watch_list
        self._delay.limit = max_retry_seconds

    def request_relist(
        self, reason: str, *, cause: steps.LoadCause = "request", distrust: bool = False
    ) -> None:
        """Load everything instead of the next watch.

        Args:
            reason: why, for people.
            cause: why, for counts.
            distrust: the server's history is another one.
        """
        self._requested, self._requested_by = reason, cause
        self.distrust = self.distrust or distrust
        self._distrusts_next = self._distrusts_next or distrust
        if distrust:
            self.distrust_reason = reason

    def may_watch_list(self, now: float) -> bool:
        """Return whether a watch-list is worth an attempt; other reflectors may have shown it."""
        return self._modes.may_watch_list(now)

    def start(self, now: float) -> steps.Command:
        """Return the first command."""
        return self._perform(self._load(now))

    def step(self, happened: steps.Input, now: float) -> steps.Command:
        """Return the next command after the last one ended like this."""
        match happened:
            case steps.Woke(by):
                if by is not steps.WakeCause.TIME:
                    self._delay.answered(was_away=by is steps.WakeCause.RECOVERY)
                self._doubt_if_out_of_touch(now)
                return self._perform(self._next)
            case steps.Loaded():
                return self._on_loaded(happened, now)
            case steps.LoadFailed():
                return self._on_load_failed(happened, now)
            case steps.WatchEnded():
                return self._on_watch_ended(happened, now)
            case steps.WatchFailed():
                return self._on_watch_failed(happened, now)
            case steps.WatchBroken():
                return self._on_watch_broken(happened, now)
            case steps.Discovered() | steps.DiscoveryFailed():
                return self._on_discovered(happened, now)
            case (
                steps.WatchSilent()
                | steps.WatchStill()
                | steps.Proved()
                | steps.ProofFailed()
                | steps.Verified()
            ):
                return self._on_doubt(happened, now)
        raise InternalError(f"the reflector's machine has no rule for {happened!r}")

    def progressed(self) -> bool:
        """Record that a watch delivered something, so its position and content are good.

        Returns:
            Whether attempts, error or reason have changed by that.
        """
        is_news = bool(self.attempts or self.reason or self.last_error)
        self.attempts = 0
        self.last_error = None
        self.reason = self.reason if self.is_still else ""
        self._expired_after_load = 0
        self._too_large = self._fruitless = 0
        self._empty_watches = 0
        self._refusals.watched()
        self._delay.recovered()
        self._delay.watched()
        return is_news

    def connected(self) -> None:
        """Record that the server accepted a watch."""
        if not self._refusals.accepted():
            self.state = ReflectorState.WATCHING
            self.reason = ""
        if self.lost_at is not None:  # the server did not answer the proof
            self._on_suspicion("the connection was lost, and the server's history is unproven")

    def list_answered(self) -> None:
        """Record that a list of the resource was answered just before its watch is refused."""
        self._refusals.listed()

    @property
    def proof_due_at(self) -> float:
        """When an open watch is interrupted to prove the history; inf for never."""
        return self._early.due_at

    @property
    def is_still(self) -> bool:
        """Whether watches are accepted and do not follow what lists show."""
        return self._refusals.is_still

    def followed(self) -> bool:
        """Record that the watch follows what lists show; return whether that is news."""
        if not self._refusals.is_still:
            return False
        self._refusals.is_still = False
        self._delay.watched()
        self.connected()
        return True

    def begin_load(self) -> None:
        """Record that a load sends its first request: it serves every earlier relist request."""
        self.load_cause = self.load_cause or self._cause_of_load()
        self.reason = (self.distrust and self.distrust_reason) or self._requested or self.reason
        self._requested = ""
        self._distrusts_next = self.delays_relist = False

    def _cause_of_load(self) -> steps.LoadCause:
        if not self.loads:
            return "initial"
        if self.distrust:
            return "history"
        if self._requested:
            return self._requested_by
        if self._refusals.is_polling:
            return "poll"
        if isinstance(self.last_error, ResourceExpiredError):
            return "expired"
        return "absence" if isinstance(self.last_error, NotFoundError) else "failure"

    def _on_loaded(self, happened: steps.Loaded, now: float) -> steps.Command:
        self.loads += 1
        self.load_cause = None
        if not self._refusals.is_polling:  # the watch that is refused stays the trouble
            self.attempts = 0
            self.last_error = None
            self.reason = ""
        self._watches_since_load = 0
        self._modes.loaded(now)
        self._delay.loaded(now)
        self._loaded_after_break = self.distrust
        self._malformed.loaded(now)
        self._behind = self._unordered_lists = 0
        self.distrust = self._distrusts_next  # a load does not serve what was requested meanwhile
        if not self.distrust:
            self.distrust_reason = ""
        if not self._requested:
            self.lost_at = None
        self._touch(now)
        self._refusals.listed()
        # Nothing is as new as a load.
        self.state = (
            ReflectorState.POLLING if self._refusals.is_polling else ReflectorState.WATCHING
        )
        if happened.mode is steps.LoadMode.WATCH_LIST:
            return steps.Follow()
        return self._perform(steps.Watch())

    def _on_load_failed(self, happened: steps.LoadFailed, now: float) -> steps.Command:
        error = happened.error
        if isinstance(error, InvalidResourceVersionError):
            return self._on_malformed_load(happened, now)
        if isinstance(error, steps.ListWithoutVersionError):
            if self._malformed.is_hopeless(now):
                self._relax("opaque")
            return self._retry_load(error, now)
        if isinstance(error, steps.ListBehindError):
            return self._on_behind(error, now)
        if isinstance(error, steps.ListUnorderedError):
            self._unordered_lists += 1
            if self._unordered_lists > 1 and not self._relax("per_object"):
                self.breaks_order = True
        if happened.mode is not steps.LoadMode.WATCH_LIST:
            self._modes.list_failed(error)
        elif self._modes.watch_list_failed(happened, now):
            return self._perform(self._modes.list())
        is_paged = happened.mode is steps.LoadMode.PAGED and happened.pages
        if is_paged and isinstance(error, ResourceExpiredError):
            # The continue token expired: the pages read so far are useless, one body is not.
            return self._perform(steps.Load(steps.LoadMode.WHOLE))
        return self._retry_load(error, now)

    def _on_malformed_load(self, happened: steps.LoadFailed, now: float) -> steps.Command:
        if happened.mode is steps.LoadMode.WATCH_LIST:
            self._modes.distrust_watch_list(now)  # only its end bookmark may be wrong
        elif self._is_incurable(now):
            return self._give_up(happened.error, now)
        return self._retry_load(happened.error, now)

    def _on_behind(self, error: InformerError, now: float) -> steps.Command:
        self._behind += 1
        self.lost_at = now
        if self._behind >= _BEHIND and not self.distrust:
            # An authoritative list is not refused forever.
            self.distrust = True
            _log.error("%s, for the third time: the next list is applied at any version", error)
            self._on_suspicion(f"lists contradict what the server says of its history: {error}")
        return self._wait(error, now, self._load(now))

    def _on_doubt(
        self,
        happened: steps.WatchSilent
        | steps.WatchStill
        | steps.Proved
        | steps.ProofFailed
        | steps.Verified,
        now: float,
    ) -> steps.Command:
        match happened:
            case steps.Proved(verdict, lists_work):
                return self._on_proved(verdict, now, lists_work=lists_work)
            case steps.ProofFailed(error):
                if self._repeats_proof(error):
                    self._proof_error = error
                    command = self._wait(error, now, self._next)
                    self.reason = self.error_text
                    return command
                return self._on_proved(HistoryVerdict.UNDECIDED, now, lists_work=False)
            case steps.Verified(error):
                return self._on_verified(error, now)
            case steps.WatchStill(is_certain):
                return self._on_still(now, is_certain=is_certain)
        self.lost_at, self.proves_alone = now, True
        return self._perform(steps.Watch())

    def _on_proved(self, verdict: HistoryVerdict, now: float, *, lists_work: bool) -> steps.Command:
        planned, self._next = self._next, steps.Watch()
        self._early.proven(now, is_intact=verdict is HistoryVerdict.INTACT)
        match verdict:
            case HistoryVerdict.BROKEN:
                self.distrust = True
                if not self._loaded_after_break or self._delay.has_served(now):
                    return self._begin(self._load(now))
                self.delays_relist = True
                return self._pause(now, self._load(now), "the server's history is another again")
            case HistoryVerdict.UNDECIDED:
                # Failed proofs stay counted: one more is enough before the next watch.
                self._in_touch_at, self.proves_alone = now, False
                self.lost_at = now  # it is proven again before the next watch
                planned = self._instead_of_refused(planned, now) if lists_work else planned
                return self._begin(self._due(planned))
        self._touch(now)
        self.lost_at = None
        return self._perform(self._instead_of_refused(planned, now))

    def _instead_of_refused(self, planned: steps.Command, now: float) -> steps.Command:
        """Return a load instead of a watch if many were refused: a list was answered just now."""
        self._refusals.listed()
        if not (self._refusals.are_many and isinstance(planned, steps.Watch)):
            return planned
        self._report_polling(self.last_error)
        return self._load(now)

    def _repeats_proof(self, error: InformerError) -> bool:
        """Return whether a failed proof is repeated before the next watch."""
        self._failed_proofs += 1
        refuses = isinstance(error, APIStatusError)
        return self._failed_proofs <= (_REFUSED_PROOFS if refuses else _FAILED_PROOFS)

    def _touch(self, now: float) -> None:
        """Record that the server's history is unchanged as of `now`."""
        self._in_touch_at = now
        self._failed_proofs = 0
        self.proves_alone = False

    def _doubt_if_out_of_touch(self, now: float) -> None:
        """Have the history proven before a watch that follows a long time without one."""
        if self.lost_at is None and now - self._in_touch_at > _PROVEN_SECONDS:
            self.lost_at = now

    def _on_verified(self, error: InformerError | None, now: float) -> steps.Command:
        if error is None:
            return self._perform(steps.Watch())
        self._on_suspicion(f"a doubtful object could not be read: {error}")
        return self._wait(error, now, steps.Watch())

    def _retry_load(self, error: InformerError, now: float) -> steps.Command:
        if isinstance(error, NotFoundError):
            self.last_error, self.reason = error, str(error)
            self.state = ReflectorState.ABSENT
            return steps.Discover()
        return self._wait(error, now, self._load(now))

    def _on_discovered(
        self, happened: steps.Discovered | steps.DiscoveryFailed, now: float
    ) -> steps.Command:
        command: steps.Command
        if isinstance(happened, steps.DiscoveryFailed):
            command = self._pause_unconfirmed(happened.error, now)
        elif happened.is_served:  # the 404 came from a lagging replica, or the resource is back
            command = self._pause(now, self._load(now), self.reason)
        else:
            self.attempts += 1
            self._next = self._load(now) if happened.tries_load else steps.Discover()
            command = steps.Sleep(happened.retry_seconds)
        self.state = ReflectorState.ABSENT
        return command

    def _pause_unconfirmed(self, error: InformerError, now: float) -> steps.Command:
        """Back off as after every other refusal: the 404 may be a gateway's, for every path."""
        sleep = self._pause(now, self._load(now), self.reason, self.last_error)
        return steps.Sleep(max(sleep.seconds, requested_seconds(error)))

    def _on_watch_ended(self, happened: steps.WatchEnded, now: float) -> steps.Command:
        self._watches_since_load += 1
        self._touch(now)
        if happened.events or happened.seconds >= _SHORT_WATCH_SECONDS:
            self.progressed()
        else:
            self._empty_watches += 1
        if self._empty_watches >= _EMPTY_WATCHES:
            self._empty_watches = 0
            reason = "watches at this position end at once without an event: loading again"
            return self._pause(now, self._load(now), reason)
        if happened.early:
            self._prove_since(self._early.ended(now))
        else:
            self._prove_since(self._early.due(now))
            if happened.seconds < float("inf"):  # the reflector did not end it
                self._early.lasted()
        if happened.seconds < _SHORT_WATCH_SECONDS:
            reason = "the last watch was very short"
            return self._pause(now, steps.Watch(), reason, was_useful=happened.events > 0)
        return self._perform(steps.Watch())

    def _prove_since(self, ended_at: float | None) -> None:
        """Have the history proven before the next watch, by a proof that is later than an end."""
        if ended_at is not None and self.lost_at is None:
            self.lost_at = ended_at

    def _on_watch_failed(self, happened: steps.WatchFailed, now: float) -> steps.Command:
        error = happened.error
        was_good = happened.established or happened.seconds >= _LASTING_WATCH_SECONDS
        if was_good:
            self._watches_since_load += 1
            self._touch(now)
            self.progressed()
        if isinstance(error, TransportError):
            self.lost_at = now
        if isinstance(error, ResourceExpiredError):
            return self._on_expired(error, now, first=not self._watches_since_load)
        is_missed = isinstance(error, ServerError) and error.reason == _MISSED_DELETION
        if is_missed or isinstance(error, NotFoundError):
            return self._retry_load(error, now)
        if isinstance(error, ResourceVersionTooLargeError):
            self._too_large += 1
            self.lost_at = now
            if self._too_large >= _TOO_LARGE:
                self._too_large = 0
                return self._retry_load(error, now)
            return self._wait(error, now, steps.Watch())
        if not was_good:
            return self._on_watch_refused(error, now)
        # A network that breaks one stream after the other must not make the cache ever older.
        was_useful = isinstance(error, TransportError)
        lasted = was_useful and happened.seconds >= _LASTING_WATCH_SECONDS
        return self._wait(error, now, steps.Watch(), was_useful=was_useful, lasted=lasted)

    def _on_watch_refused(self, error: InformerError, now: float) -> steps.Command:
        """Watch again; list everything again if lists are answered while watches are refused.

        A refused watch counts only if a list was answered just before it: of a server that is away
        or overloaded the position stays good, and a list of everything would cost it more.

        Source:
            client-go tools/cache/reflector.go, which lists after every refused watch but those that
            `isWatchErrorRetriable` names, at the delays of its backoff manager.
        """
        if self._refusals.refused():
            return self._poll(error, now)
        if is_throttled(error) and self.lost_at is None:  # proven lately: the next watch is, too
            return self._wait(error, now, steps.Watch())
        self.lost_at, self.proves_alone = now, isinstance(error, APIStatusError)
        return self._wait(error, now, steps.Watch())

    def _on_fruitless(self, error: InformerError, now: float) -> steps.Command:
        """Watch again; list everything again if no watch of many in a row could be read."""
        self._fruitless += 1
        if self._fruitless > _FRUITLESS_WATCHES:
            return self._poll(error, now)
        return self._wait(error, now, steps.Watch())

    def _poll(self, error: InformerError, now: float) -> steps.Command:
        """List everything, and try a watch again, after a delay."""
        self.attempts += 1
        self.last_error = error
        self._report_polling(error)
        self._next = self._load(now)
        return steps.Sleep(self._delay.poll_seconds(error, now))

    def _on_still(self, now: float, *, is_certain: bool) -> steps.Command:
        """List everything: watches may have missed any change since the last list."""
        self._touch(now)
        if not is_certain:
            reason = "neither an event nor a bookmark shows that the watch follows"
            self.request_relist(reason, cause="poll")
            return self._perform(steps.Watch())
        was_still, self._refusals.is_still = self._refusals.is_still, True
        self._refusals.is_polling = True
        self.state = ReflectorState.POLLING
        self.reason = "watches stand still, so everything is listed again and again"
        self._on_suspicion(self.reason)
        if not was_still:
            return self._begin(self._load(now))
        self.attempts += 1
        self._next = self._load(now)
        return steps.Sleep(self._delay.poll_seconds(None, now))

    def _report_polling(self, error: InformerError | None) -> None:
        self._refusals.is_polling = True
        self.state = ReflectorState.POLLING
        self.reason = f"watches are refused, so everything is listed again and again: {error}"

    def _on_expired(self, error: InformerError, now: float, *, first: bool) -> steps.Command:
        self._expired_after_load = self._expired_after_load + 1 if first else 0
        again = self._expired_after_load >= _EXPIRED_AFTER_LOAD
        self._modes.prefers_whole = self._modes.prefers_whole or again
        command = self._wait(error, now, self._load(now))
        if again:
            self.reason += "; the list takes longer than the server's watch history, or that does"
            self.reason += " not reach back to its lists: the next load is a watch-list or one"
            self.reason += " unpaged list"
        return command

    def _on_watch_broken(self, happened: steps.WatchBroken, now: float) -> steps.Command:
        self._watches_since_load += 1
        self._touch(now)
        error = happened.error
        match happened.breach:
            case steps.Breach.MALFORMED:
                if self._is_incurable(now):  # the position is good, and lists may be
                    return self._on_fruitless(error, now)
                return self._retry_load(error, now)
            case steps.Breach.UNREADABLE:
                return self._on_unreadable(happened, now)
            case steps.Breach.BOOKMARK if self.is_still:  # as all bookmarks of such a watch
                return self._on_still(now, is_certain=True)
        return self._on_suspect(happened, now)

    def _on_suspect(self, happened: steps.WatchBroken, now: float) -> steps.Command:
        reaction = self._suspect.count(now)
        error = happened.error
        if reaction is Reaction.RELIST:
            return self._retry_load(error, now)
        self.lost_at = now  # what went back in time may be the server
        self._on_suspicion(str(error))
        if reaction is Reaction.VIOLATION and not self._relax("per_object"):
            self.breaks_order = True
        then = steps.Verify(happened.verify) if happened.verify else steps.Watch()
        return self._wait(error, now, then)

    def _is_incurable(self, now: float) -> bool:
        """Count a malformed version; return whether neither a load nor another order helps."""
        return self._malformed.is_hopeless(now) and not self._relax("opaque")

    def _give_up(self, error: InformerError, now: float) -> steps.Command:
        self.state = ReflectorState.FAILED
        self.last_error = error
        self.reason = (
            "resource versions cannot be compared; the cache is kept as it is. If this server's"
            ' versions are not numbers, set ReflectorOptions(order="opaque")'
        )
        self._next = self._load(now)
        return steps.Halt(error)

    def _on_unreadable(self, happened: steps.WatchBroken, now: float) -> steps.Command:
        if self._unreadable.needs_relist(happened.digest, now):
            return self._retry_load(happened.error, now)
        return self._on_fruitless(happened.error, now)

    def _load(self, now: float) -> steps.Load:
        if self.distrust or self._refusals.is_polling:
            return self._modes.list()
        return self._modes.any(now)

    def _perform(self, command: steps.Command) -> steps.Command:
        """Begin a command, or the one that has to come before it."""
        command = self._due(command)
        # A load proves the history itself, unless a list that was behind raised the question.
        needs_proof = isinstance(command, steps.Watch) or (
            isinstance(command, steps.Load) and self._behind > 0
        )
        if needs_proof and self.lost_at is not None and not self.distrust:
            self._next = command
            if self.state not in _PERSISTENT:
                self.state = ReflectorState.PROVING
            return steps.Prove()
        return self._begin(command)

    def _due(self, command: steps.Command) -> steps.Command:
        """Return the requested load instead of a watch."""
        if not isinstance(command, steps.Watch) or not self._requested:
            return command
        self.reason = self._requested
        return self._modes.list()  # a watch-list may be answered by a lagging cache

    def _begin(self, command: steps.Command) -> steps.Command:
        """Begin a command; the state of a watch begins when it is accepted, see `connected`."""
        if isinstance(command, steps.Load):
            self.begin_load()
            if self.state not in _PERSISTENT:
                self.state = ReflectorState.LOADING
            self.reason = self.reason or command.mode.value
        return command

    def _wait(
        self,
        error: InformerError,
        now: float,
        then: steps.Command,
        *,
        was_useful: bool = False,
        lasted: bool = False,
    ) -> steps.Command:
        """Back off after an error, for at least as long as the server asks."""
        self.last_error = error
        reason = str(error)
        command = self._pause(now, then, reason, error, was_useful=was_useful, lasted=lasted)
        if isinstance(error, ForbiddenError):
            self.state = ReflectorState.FORBIDDEN
        return command

    def _pause(
        self,
        now: float,
        then: steps.Command,
        reason: str,
        error: InformerError | None = None,
        *,
        was_useful: bool = False,
        lasted: bool = False,
    ) -> steps.Sleep:
        self.attempts += 1
        self.state = ReflectorState.WAITING
        self.reason = reason
        self._next = then
        loads = isinstance(then, steps.Load)
        failures = 0 if lasted else self.attempts
        seconds = self._delay.seconds(
            error, now, failures=failures, loads=loads, was_useful=was_useful
        )
        return steps.Sleep(seconds, self._delay.wake_on(error))


_PERSISTENT = frozenset(
    {
        ReflectorState.POLLING,
        ReflectorState.FORBIDDEN,
        ReflectorState.ABSENT,
        ReflectorState.FAILED,
    }
)
"""States that an attempt alone does not change, so each is reported once."""
