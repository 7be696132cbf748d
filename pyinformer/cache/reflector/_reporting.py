"""What a reflector reports: its states, its relists, and why its cache should be compared.

These objects log, write the journal and call back. They decide nothing about the watch.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, final

from msgspec import Struct

from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import error_text
from pyinformer.cache.reflector.machine import ReflectorState
from pyinformer.errors import ForbiddenError, InformerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.cache.reflector._availability import Availability
    from pyinformer.cache.reflector._forbidden_retries import ForbiddenRetries
    from pyinformer.cache.reflector.guard import Guard
    from pyinformer.cache.reflector.machine import ReflectorMachine
    from pyinformer.cache.reflector.machine.steps import LoadMode
    from pyinformer.errors import InvalidObjectError
    from pyinformer.objects import DiagnosticJournal

_log = get_logger(__name__)

_CUT_OFF_ATTEMPTS = 3  # after some three seconds: a restart of the server is logged, a blip is not
_RARE_SECONDS = 600.0  # a client that writes unreadable objects must not cause frequent audits
_UNIDENTIFIED = "an object cannot be identified"
_RECORDS_KEPT = 32  # each explains how the objects of its versions came


@final
class RelistRecord(Struct, frozen=True):
    """A complete list or watch-list, kept to explain later how an object came into the cache."""

    at: float
    """When, as a Unix timestamp in seconds."""
    mode: str
    reason: str
    """Why everything was loaded; empty for the first load."""
    before: str
    """The position before; empty for the first load."""
    position: str
    is_reset: bool = False
    """It began a new epoch: what it lacks may have been deleted in another history."""


@final
class RelistLog:
    """The latest relists of one reflector.

    Args:
        guard: has the position before and after each of them.
    """

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._records: deque[RelistRecord] = deque(maxlen=_RECORDS_KEPT)
        self._before = self._reason = ""
        self._epoch = 0
        self.begun: int = 0
        """How many loads have sent their first request."""
        self.last_complete: int = 0
        """Which of them was complete last, counted from 1; 0 if none was."""

    def begin(self, reason: str) -> None:
        """Record that a load sends its first request, and why."""
        self.begun += 1
        self._before, self._epoch = self._guard.position, self._guard.epoch
        self._reason = reason if self._before else ""

    def finish(self, mode: LoadMode, broke: str) -> None:
        """Record that a load is complete.

        Args:
            mode: the request that was used.
            broke: how the load proved another history; empty if it did not.
        """
        self.last_complete = self.begun
        reason = f"the server's history is another: {broke}" if broke else self._reason
        is_reset = bool(broke) or self._guard.epoch != self._epoch
        self._records.append(
            RelistRecord(
                wall_time(),
                mode.value,
                reason,
                self._before,
                self._guard.position,
                bool(self._before) and is_reset,
            )
        )

    def records(self) -> tuple[RelistRecord, ...]:
        """Return the latest relists, the oldest first; from any thread."""
        return tuple(self._records.copy())


@final
class StateReporter:
    """Reports the changes of a reflector's state: to the journal, the log and one callback.

    The reflectors that wait for missing rights are notified that this one has got them.

    Args:
        resource: its name in logs.
        machine: has the state.
        guard: has the position.
        availability: reports the absence of the resource itself.
        journal: where each new state is written.
        rights: of the connection.
        on_change: called after every change.
    """

    def __init__(
        self,
        resource: str,
        machine: ReflectorMachine,
        guard: Guard,
        availability: Availability,
        *,
        journal: DiagnosticJournal,
        rights: ForbiddenRetries,
        on_change: Callable[[], None] | None,
    ) -> None:
        self._resource = resource
        self._rights = rights
        self._was_forbidden = False
        self._machine = machine
        self._guard = guard
        self._availability = availability
        self._journal = journal
        self._on_change = on_change
        self._state = ReflectorState.NEW
        self._is_cut_off = False
        self.known_reason: str = ""
        """The latest reason in the journal, which need not be repeated."""

    def changed(self) -> None:
        """Report the state if it is a new one, and call back."""
        self._log_connectivity()
        machine = self._machine
        if machine.state is not self._state:
            self._state = machine.state
            if self._was_forbidden and machine.state is ReflectorState.WATCHING:
                self._was_forbidden = False
                self._rights.granted()
            self._was_forbidden |= machine.state is ReflectorState.FORBIDDEN
            is_news = machine.reason and machine.reason != self.known_reason
            why = f": {machine.reason}" if is_news else ""
            self.known_reason = machine.reason
            self._journal.note(f"{machine.state.value} at {self._guard.position or 'nothing'}{why}")
        if self._on_change is not None:
            self._on_change()

    def _log_connectivity(self) -> None:
        """Log once that the resource cannot be followed, and once that it is followed again."""
        machine = self._machine
        if not self._is_cut_off and machine.attempts >= _CUT_OFF_ATTEMPTS:
            if self._is_logged_elsewhere():
                return
            self._is_cut_off = True
            _log.warning(
                "%s cannot be followed, %d attempts failed: %s; the reflector keeps trying",
                self._resource,
                machine.attempts,
                machine.error_text or machine.reason,
            )
        elif self._is_cut_off and not machine.attempts:
            self._is_cut_off = False
            _log.info("%s is followed again", self._resource)

    def _is_logged_elsewhere(self) -> bool:
        machine, availability = self._machine, self._availability
        # The callback reports missing rights at once; a second line would repeat it.
        is_forbidden = isinstance(machine.last_error, ForbiddenError)
        return availability.is_absent or (is_forbidden and self._on_change is not None)


@final
class AuditRequests:
    """Asks for a comparison of the cache with the server.

    Args:
        resource: its name in logs.
        guard: has the position, for logs.
        journal: where each request is written.
        on_suspicion: called with the reason of each request.
    """

    def __init__(
        self,
        resource: str,
        guard: Guard,
        journal: DiagnosticJournal,
        on_suspicion: Callable[[str], None] | None,
    ) -> None:
        self._resource = resource
        self._guard = guard
        self._journal = journal
        self._on_suspicion = on_suspicion
        self._requested_at = float("-inf")

    def request(self, reason: str) -> None:
        """Ask for a comparison.

        Args:
            reason: why the cache is in doubt, for people.
        """
        self._journal.note(f"what is cached is in doubt: {reason}")
        if self._on_suspicion is not None:
            self._on_suspicion(reason)

    def item_skipped(self, now: float) -> bool:
        """Ask because an object cannot be identified, once in ten minutes; return whether it did.

        Args:
            now: the loop's time.
        """
        if now - self._requested_at < _RARE_SECONDS:
            return False
        self._requested_at = now
        self.request(_UNIDENTIFIED)
        return True

    def event_skipped(self, error: InvalidObjectError, now: float) -> None:
        """Ask, and log it, because an object of a watch cannot be identified.

        Args:
            error: what is wrong with the object.
            now: the loop's time.
        """
        if self.item_skipped(now):
            facts = facts_of(error, self._resource, self._guard.position)
            _log.error(
                "%(resource)s: an object in a watch cannot be identified and is skipped; what is"
                " cached will be compared with the server. Further ones are only counted",
                facts,
                extra=facts,
            )


def facts_of(error: Exception, resource: str, position: str) -> dict[str, str]:
    """Return the fields of a log line about an error."""
    text = str(error) if isinstance(error, InformerError) else error_text(error)
    return {"resource": resource, "position": position, "error": text}
