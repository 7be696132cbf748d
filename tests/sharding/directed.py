"""Schedules of the model that are written down: what chance brings about once in thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.sharding.model import GROUP, Bugs, Model, Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.sharding.model import Outcome

_QUICK_SECONDS = 0.01
_END_AT = 90.0
_NEVER_LATER = float("inf")


class _Way(NamedTuple):
    """How long the requests of a kind take that a process sends at a certain time."""

    process: str
    is_meant: Callable[[Any], bool]
    begin: float
    end: float
    there: float | None
    back: float | None


class Directed(Model):
    """A schedule in which nothing is late, lost or disturbed but what a test says.

    The first process starts at 0.

    Args:
        bugs: what the processes do wrong.
    """

    def __init__(self, bugs: Bugs) -> None:
        self._ways: list[_Way] = []
        super().__init__(seed=1, bugs=bugs)
        self.processes = []
        self._named = 0

    def delay(self) -> float | None:
        """Return how long a message takes."""
        return _QUICK_SECONDS

    def way_of(self, process: Process, step: Any) -> tuple[float | None, float | None]:
        """Return how long a request takes, and its response."""
        for way in self._ways:
            is_now = way.begin <= self.now < way.end
            if is_now and way.process == process.name and way.is_meant(step):
                return way.there, way.back
        return super().way_of(process, step)

    def late(
        self,
        process: Process,
        is_meant: Callable[[Any], bool],
        *,
        there: float | None = _QUICK_SECONDS,
        back: float | None = _QUICK_SECONDS,
        end: float = _NEVER_LATER,
    ) -> None:
        """Have requests that are sent from now on take so long; None for lost ones."""
        self._ways.append(_Way(process.name, is_meant, self.now, end, there, back))

    def until(self, at: float) -> None:
        """Play until a time."""
        for _ in self.play(at):
            pass
        self.now = at

    def blind(self, process: Process, until: float) -> None:
        """Show a process nothing further before a time."""
        process.watched_until = until

    def remove(self, process: Process) -> None:
        """End a process at once, and delete its Lease."""
        process.is_dead = True
        self.server.delete(process.name)

    def first(self) -> Process:
        """Start a process that has all buckets when this returns, at 5 s."""
        process = self.start()
        self.until(5.0)
        assert len(process.open_buckets()) == len(self.server.owners())
        return process

    def end(self) -> Outcome:
        """Play to the end."""
        self.until(_END_AT)
        return self.outcome

    def end_after_late_requests(self) -> Outcome:
        """Play to the end, by which a request has landed after its sender gave up."""
        outcome = self.end()
        assert outcome.late
        return outcome


def is_table_write(step: Any) -> bool:
    """Return whether a request writes the table."""
    return bool(getattr(step, "body", {}).get("metadata", {}).get("name") == GROUP)


def is_lease_write(step: Any) -> bool:
    """Return whether a request writes the sender's own Lease."""
    return bool(getattr(step, "body", {})) and not is_table_write(step)


def a_give_up_lands_when_the_table_was_read_again(bugs: Bugs) -> Outcome:
    """A give-up without an answer: the table still names its sender, and lands later."""
    model = Directed(bugs)
    one = model.first()
    model.late(one, is_table_write, there=10.0, end=8.0)  # it lands at 15
    two = model.start()
    model.until(6.0)
    model.remove(two)
    model.until(9.0)
    model.late(one, is_table_write, there=8.0, end=12.0)  # what would prove that it cannot land
    model.until(10.5)
    model.blind(one, 25.0)
    model.start()
    return model.end_after_late_requests()


def a_give_up_lands_when_its_sender_has_the_same_term_again(bugs: Bugs) -> Outcome:
    """A term ends for lack of an answer, which comes then; a give-up of that term lands later."""
    model = Directed(bugs)
    one = model.first()
    model.late(one, is_lease_write, there=None, end=9.0)
    model.until(9.0)
    model.late(one, is_lease_write, back=4.0, end=14.0)  # sent at 11, answered at 15
    model.until(12.0)
    model.late(one, is_table_write, there=9.0, end=14.0)  # it lands at 21
    two = model.start()
    model.until(13.0)
    model.remove(two)
    model.until(16.5)
    model.blind(one, 30.0)
    model.start()
    return model.end_after_late_requests()


def a_watch_shows_the_end_of_an_earlier_life(bugs: Bugs) -> Outcome:
    """A life is named by a table that was read; the watch still shows the end of the one before."""
    return _with_an_old_watch(bugs, is_deleted=False)


def a_watch_shows_the_end_of_an_earlier_lease(bugs: Bugs) -> Outcome:
    """As before, but the released Lease is deleted, so that transitions begin at 0 again."""
    return _with_an_old_watch(bugs, is_deleted=True)


def _with_an_old_watch(bugs: Bugs, *, is_deleted: bool) -> Outcome:
    model = Directed(bugs)
    one = model.first()
    two, three = model.start(), model.start()
    model.until(10.0)
    one.paused_until = 32.0  # the others revoke it
    model.until(31.0)
    model.blind(two, 90.0)
    if is_deleted:
        model.server.delete(one.name)
    model.until(55.0)
    model.late(two, is_lease_write, there=None, end=70.0)  # and then it begins with a read
    assert one.open_buckets()
    assert three.open_buckets()
    return model.end()


def a_table_is_deleted_that_a_member_still_believes(bugs: Bugs) -> Outcome:
    """Another member makes a new table, in which no bucket has an owner."""
    model = Directed(bugs)
    one = model.first()
    model.start()
    model.until(15.0)
    assert one.open_buckets()
    model.blind(one, 25.0)
    model.server.delete(GROUP)
    return model.end()


def two_tables_are_deleted_that_a_paused_member_still_believes(bugs: Bugs) -> Outcome:
    """Its own Lease is deleted in between: only the table in between names it, as awaited."""
    model = Directed(bugs)
    one = model.first()
    model.start()
    model.until(15.0)
    assert one.open_buckets()
    one.paused_until = 40.0
    model.server.delete(GROUP)
    model.until(15.5)
    model.server.delete(one.name)
    model.until(16.0)
    model.server.delete(GROUP)
    return model.end()
