"""What a reflector does next: a state machine without I/O and without a clock of its own.

What enters is how the last command ended, and the time; what leaves is the next command. A broken
connection resumes the watch at its position; only what proves that the position is of no use loads
everything again. Every repetition passes the backoff, so no server answer makes a hot loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
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
from pyinformer.reflector._doubts import Doubts
from pyinformer.reflector._frames import (
    ListBehindError,
    ListUnorderedError,
    ListWithoutVersionError,
)
from pyinformer.reflector._load_modes import LoadModes
from pyinformer.reflector._outage import Ending
from pyinformer.reflector._patience import Patience
from pyinformer.reflector._state import (
    Breach,
    Command,
    Discover,
    Discovered,
    Follow,
    Halt,
    Input,
    Load,
    Loaded,
    LoadFailed,
    LoadMode,
    ProofFailed,
    Prove,
    Proved,
    ReflectorState,
    Sleep,
    Verdict,
    Verified,
    Verify,
    Watch,
    WatchBroken,
    WatchEnded,
    WatchFailed,
    WatchSilent,
    Woke,
)
from pyinformer.reflector._suspicions import (
    BadFrames,
    MalformedVersions,
    Measure,
    Suspicions,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pyinformer.reflector._watch_list_memory import WatchListMemory

_log = get_logger(__name__)

_SHORT_WATCH_SECONDS = 1.0  # a watch that ends sooner must not be reopened at once
_EMPTY_WATCHES = 3  # so many empty ones in a row: the position may be dead (kubernetes#104171)
_EMPTY_WATCH_SECONDS = 2.0
_EXPIRED_AFTER_LOAD = 2  # twice running: paging takes longer than the server remembers
_TOO_LARGE = 3  # a lagging server catches up within three attempts
_UNTOLD_DELETION = "StorageReadError"  # a corrupt object was removed: no DELETED can be sent of it
_BEHIND = 3  # so many complete lists behind the position, whatever else the server says


@final
class ReflectorMachine(Doubts):
    """Decides what to do next.

    Args:
        rng: the source of chance for delays.
        watch_list: what the cluster connection knows about watch-lists.
        use_watch_list: whether watch-lists are tried at all.
        on_suspicion: is told why what is cached should be compared with the server.
        relax: is asked to compare versions less strictly, "per_object" or "opaque"; returns
            whether that is allowed for this resource.
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
        super().__init__()
        self.state = ReflectorState.NEW
        self.reason = ""
        """Why it is in this state, for people."""
        self.attempts = 0
        """Attempts since the last success."""
        self.last_error: InformerError | None = None
        self.loads = 0
        self._patience = Patience(rng)
        self._modes = LoadModes(watch_list, use_watch_list=use_watch_list)
        self._next: Command = Watch()
        self._expired_after_load = 0
        self._watches_since_load = 0
        self._empty_watches = 0
        self._too_large = 0
        self._proof_error: InformerError | None = None
        self._loaded_after_break = False
        self._malformed = MalformedVersions()
        self._bad_frames = BadFrames()
        self.breaks_order = False
        """The server breaks the order of resource versions; what is cached is served on."""
        self._behind = 0
        self._unordered_lists = 0
        self._suspicions = Suspicions()
        self._on_suspicion = on_suspicion
        self._relax = relax

    @property
    def told_error(self) -> str:
        """The last error for people; a proof asks about other resources, too. Empty if none."""
        error = self.last_error
        if error is None:
            return ""
        asked = "asking for the server's history: " if error is self._proof_error else ""
        return f"{asked}{error}"

    def start(self, now: float) -> Command:
        """Return the first command."""
        return self._perform(self._load(now))

    def step(self, happened: Input, now: float) -> Command:
        """Take how the last command ended, and return the next one."""
        match happened:
            case Woke(by):
                if by is not Ending.NOTHING:
                    self._patience.answered(was_away=by is Ending.RETURN)
                self._doubt_if_out_of_touch(now)
                return self._perform(self._next)
            case Loaded():
                return self._on_loaded(happened, now)
            case LoadFailed():
                return self._on_load_failed(happened, now)
            case WatchEnded():
                return self._on_watch_ended(happened, now)
            case WatchFailed():
                return self._on_watch_failed(happened, now)
            case WatchBroken():
                return self._on_watch_broken(happened, now)
            case WatchSilent() | Proved() | ProofFailed() | Verified():
                return self._on_doubt(happened, now)
            case Discovered():
                return self._on_discovered(happened, now)
        raise InternalError(f"the reflector was told {happened!r}")

    def progressed(self) -> None:
        """Take note that a watch delivered something: its position is good, its content fine."""
        self.attempts = 0
        self.last_error = None
        self.reason = ""
        self._expired_after_load = 0
        self._too_large = 0
        self._empty_watches = 0
        self._patience.recovered()

    def connected(self) -> None:
        """Take note that the server accepted a watch."""
        self.state = ReflectorState.WATCHING
        self.reason = ""
        if self.lost_at is not None:  # it would not tell whether its history is the same
            self._on_suspicion("the connection was lost, and the server's history is unproven")

    def load_begins(self) -> None:
        """Take note that a load asks the server from here on: it answers what was demanded."""
        self.reason = (self.distrust and self.distrust_reason) or self._demanded or self.reason
        super().load_begins()

    def _on_loaded(self, happened: Loaded, now: float) -> Command:
        self.loads += 1
        self.attempts = 0
        self.last_error = None
        self.reason = ""
        self._watches_since_load = 0
        self._modes.loaded()
        self._patience.loaded(now)
        self._loaded_after_break = self.distrust
        self._malformed.loaded(now)
        self._behind = self._unordered_lists = 0
        self._doubt_no_more(now)
        self.state = ReflectorState.WATCHING  # nothing is as new as a load
        if happened.mode is LoadMode.WATCH_LIST:
            return Follow()
        return self._perform(Watch())

    def _on_load_failed(self, happened: LoadFailed, now: float) -> Command:
        error = happened.error
        if isinstance(error, InvalidResourceVersionError):
            if happened.mode is LoadMode.WATCH_LIST:
                self._modes.distrust_watch_list(now)  # its end bookmark alone may be wrong
            return self._on_malformed(error, now)
        if isinstance(error, ListWithoutVersionError):
            if self._malformed.is_hopeless(now):
                self._relax("opaque")
            return self._retry_load(error, now)
        if isinstance(error, ListBehindError):
            return self._on_behind(error, now)
        if isinstance(error, ListUnorderedError):
            self._unordered_lists += 1
            if self._unordered_lists > 1 and not self._relax("per_object"):
                self.breaks_order = True
        is_watch_list = happened.mode is LoadMode.WATCH_LIST
        if is_watch_list and self._modes.watch_list_failed(happened, now):
            return self._perform(self._modes.list())
        is_paged = happened.mode is LoadMode.PAGED and happened.pages
        if is_paged and isinstance(error, ResourceExpiredError):
            # The continue token expired: the pages read so far are of no use, one body is.
            return self._perform(Load(LoadMode.WHOLE))
        return self._retry_load(error, now)

    def _on_behind(self, error: InformerError, now: float) -> Command:
        self._behind += 1
        self.lost_at = now
        if self._behind >= _BEHIND and not self.distrust:
            # An authoritative list is not refused for ever.
            self.distrust = True
            _log.error("%s, for the third time: the next is taken over, whatever it is at", error)
            self._on_suspicion(f"lists contradict what the server says of its history: {error}")
        return self._wait(error, now, self._load(now))

    def _on_doubt(
        self, happened: WatchSilent | Proved | ProofFailed | Verified, now: float
    ) -> Command:
        match happened:
            case Proved(verdict):
                return self._on_proved(verdict, now)
            case ProofFailed(error):
                if self._is_worth_waiting(error):
                    self._proof_error = error
                    command = self._wait(error, now, self._next)
                    self.reason = self.told_error
                    return command
                return self._on_proved(Verdict.UNDECIDED, now)
            case Verified(error):
                return self._on_verified(error, now)
        self.lost_at, self.is_silent = now, True
        return self._perform(Watch())

    def _on_proved(self, verdict: Verdict, now: float) -> Command:
        planned, self._next = self._next, Watch()
        match verdict:
            case Verdict.BROKEN:
                self.distrust = True
                if not self._loaded_after_break or self._patience.has_served(now):
                    return self._begin(self._load(now))
                self.waits_for_its_turn = True
                return self._pause(now, self._load(now), "the server's history is another again")
            case Verdict.UNDECIDED:
                self._touch(now)
                self.lost_at = now  # before the next watch it is asked anew
                return self._begin(self._due(planned))
        self._touch(now)
        self.lost_at = None
        return self._perform(planned)

    def _on_verified(self, error: InformerError | None, now: float) -> Command:
        if error is None:
            return self._perform(Watch())
        self._on_suspicion(f"a doubtful object could not be looked at: {error}")
        return self._wait(error, now, Watch())

    def _retry_load(self, error: InformerError, now: float) -> Command:
        if isinstance(error, NotFoundError):
            self.last_error, self.reason = error, str(error)
            self.state = ReflectorState.ABSENT
            return Discover()
        return self._wait(error, now, self._load(now))

    def _on_discovered(self, happened: Discovered, now: float) -> Command:
        if happened.is_served:  # a 404 of a lagging replica, say, or it is back
            command = self._pause(now, self._load(now), self.reason)
        else:
            self.attempts += 1
            self._next = self._load(now) if happened.tries_load else Discover()
            command = Sleep(happened.ask_again_seconds)
        self.state = ReflectorState.ABSENT
        return command

    def _on_watch_ended(self, happened: WatchEnded, now: float) -> Command:
        self._watches_since_load += 1
        self._touch(now)
        if happened.events or happened.seconds >= _EMPTY_WATCH_SECONDS:
            self.progressed()
        else:
            self._empty_watches += 1
        if self._empty_watches >= _EMPTY_WATCHES:
            self._empty_watches = 0
            reason = "watches at this position end at once and empty: loading again"
            return self._pause(now, self._load(now), reason)
        if happened.early:
            self.lost_at = now
        if happened.seconds < _SHORT_WATCH_SECONDS:
            reason = "the last watch was very short"
            return self._pause(now, Watch(), reason, was_useful=happened.events > 0)
        return self._perform(Watch())

    def _on_watch_failed(self, happened: WatchFailed, now: float) -> Command:
        error = happened.error
        was_good = happened.established or happened.seconds >= _EMPTY_WATCH_SECONDS
        if was_good:
            self._watches_since_load += 1
            self._touch(now)
            self.progressed()
        if isinstance(error, TransportError):
            self.lost_at = now
        if isinstance(error, ResourceExpiredError):
            return self._on_expired(error, now, first=not self._watches_since_load)
        untold = isinstance(error, ServerError) and error.reason == _UNTOLD_DELETION
        if untold or isinstance(error, NotFoundError):
            return self._retry_load(error, now)
        if isinstance(error, ResourceVersionTooLargeError):
            self._too_large += 1
            self.lost_at = now
            if self._too_large >= _TOO_LARGE:
                self._too_large = 0
                return self._retry_load(error, now)
        # A network that breaks stream after stream must not make the cache older and older.
        was_useful = was_good and isinstance(error, TransportError)
        return self._wait(error, now, Watch(), was_useful=was_useful)

    def _on_expired(self, error: InformerError, now: float, *, first: bool) -> Command:
        self._expired_after_load = self._expired_after_load + 1 if first else 0
        again = self._expired_after_load >= _EXPIRED_AFTER_LOAD
        self._modes.prefers_whole = self._modes.prefers_whole or again
        command = self._wait(error, now, self._load(now))
        if again:
            self.reason += "; the list takes longer than the server's watch history, so the next"
            self.reason += " load is a watch-list or one unpaged list"
        return command

    def _on_watch_broken(self, happened: WatchBroken, now: float) -> Command:
        self._watches_since_load += 1
        self._touch(now)
        error = happened.error
        match happened.breach:
            case Breach.MALFORMED:
                return self._on_malformed(error, now)
            case Breach.UNREADABLE:
                return self._on_unreadable(happened, now)
        return self._on_suspect(happened, now)

    def _on_suspect(self, happened: WatchBroken, now: float) -> Command:
        measure = self._suspicions.suspect(now)
        error = happened.error
        if measure is Measure.LOAD:
            return self._retry_load(error, now)
        self.lost_at = now  # what went back in time may be the server
        self._on_suspicion(str(error))
        if measure is Measure.VIOLATION and not self._relax("per_object"):
            self.breaks_order = True
        then = Verify(happened.verify) if happened.verify else Watch()
        return self._wait(error, now, then)

    def _on_malformed(self, error: InformerError, now: float) -> Command:
        if not self._malformed.is_hopeless(now) or self._relax("opaque"):
            return self._retry_load(error, now)
        self.state = ReflectorState.FAILED
        self.last_error = error
        self.reason = "resource versions cannot be compared; the cache is kept as it is"
        self._next = self._load(now)
        return Halt(error)

    def _on_unreadable(self, happened: WatchBroken, now: float) -> Command:
        if self._bad_frames.asks_load(happened.digest, now):
            return self._retry_load(happened.error, now)
        return self._wait(happened.error, now, Watch())

    def _load(self, now: float) -> Load:
        return self._modes.list() if self.distrust else self._modes.any(now)

    def _perform(self, command: Command) -> Command:
        """Begin a command, or what has to come before it."""
        command = self._due(command)
        # A load is proof enough of itself, unless it was a load that raised the question.
        asks = isinstance(command, Watch) or (isinstance(command, Load) and self._behind > 0)
        if asks and self.lost_at is not None and not self.distrust:
            self._next = command
            self.state = ReflectorState.PROVING
            return Prove()
        return self._begin(command)

    def _due(self, command: Command) -> Command:
        """Return the load that is demanded instead of a watch."""
        if not isinstance(command, Watch) or not self._demanded:
            return command
        self.reason = self._demanded
        return self._modes.list()  # a watch-list may be answered by a lagging cache

    def _begin(self, command: Command) -> Command:
        """Begin a command; a watch counts as one when it is accepted, see `connected`."""
        if isinstance(command, Load):
            self.load_begins()
            if self.state not in _LASTING:
                self.state = ReflectorState.LOADING
            self.reason = self.reason or command.mode.value
        return command

    def _wait(
        self, error: InformerError, now: float, then: Command, *, was_useful: bool = False
    ) -> Command:
        """Back off after an error, and no shorter than the server asks for."""
        self.last_error = error
        command = self._pause(now, then, str(error), error, was_useful=was_useful)
        if isinstance(error, ForbiddenError):
            self.state = ReflectorState.FORBIDDEN
        return command

    def _pause(
        self,
        now: float,
        then: Command,
        reason: str,
        error: InformerError | None = None,
        *,
        was_useful: bool = False,
    ) -> Command:
        self.attempts += 1
        self.state = ReflectorState.WAITING
        self.reason = reason
        self._next = then
        loads = isinstance(then, Load)
        seconds = self._patience.seconds(error, now, loads=loads, was_useful=was_useful)
        return Sleep(seconds, self._patience.ended_by(error))


_LASTING = frozenset({ReflectorState.FORBIDDEN, ReflectorState.ABSENT, ReflectorState.FAILED})
"""What a retry alone does not change, so that it is told once and not at every attempt."""
