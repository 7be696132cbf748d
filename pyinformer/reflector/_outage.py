"""The end of an outage: one probe a second decides for all reflectors of a cluster connection.

A reflector whose attempt found no server waits here for its next attempt. While any of them waits,
one of them asks the server for a sign of life, at most once a second; the first answer ends all of
their waits. A reflector that was answered 502, 503 or 504 waits here, too: for it an answer counts
only after a probe without one. While probes are answered, they become rare: one in 4 s.
There is no task behind it: without a reflector that waits, nothing is sent.
"""

from __future__ import annotations

import asyncio
import enum
import random
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer.transport import NetworkConnection

if TYPE_CHECKING:
    from pyinformer.transport import ConnectionProtocol

_PERIOD_SECONDS: Final = 1.0
_RARE_SECONDS: Final = 4.0  # while probes are answered: an outage as short costs no long delay
_PROBE_SECONDS: Final = 2.0  # the kernel repeats a lost SYN after 1 s, and then not before 3 s


class Ending(enum.Enum):
    """What ends a reflector's wait before its time."""

    NOTHING = "nothing"
    ANSWER = "an answer to a probe"
    RETURN = "an answer to a probe that follows one without an answer"


@final
class ProbeSchedule:
    """Decides when the next probe is due, and whom an answer concerns. Pure.

    Args:
        rng: the source of chance: processes that lost one server must not probe it in step.
    """

    __slots__ = ("_answered_at", "_began_at", "_due_at", "_period", "_rng", "_unanswered_at")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._period = _PERIOD_SECONDS
        self._began_at = self._due_at = float("-inf")
        self._answered_at = self._unanswered_at = float("-inf")

    def seconds_until_due(self, now: float) -> float:
        """Return how long to wait before the next probe."""
        if now - self._due_at > _PERIOD_SECONDS:  # no reflector has waited lately
            self._due_at = now + self._rng.uniform(0.0, _PERIOD_SECONDS)
        return max(0.0, self._due_at - now)

    def hasten(self, now: float) -> bool:
        """Make a probe due within a second, for a reflector that has reached no server.

        Returns:
            Whether the probe is due sooner than before.
        """
        self._period = _PERIOD_SECONDS
        if self._due_at - now <= _PERIOD_SECONDS:
            return False
        soon = now + self._rng.uniform(0.0, _PERIOD_SECONDS)
        self._due_at = max(self._began_at + _PERIOD_SECONDS, soon)
        return True

    def probed(self, began_at: float, now: float, *, answered: bool) -> None:
        """Record the outcome of a probe.

        Args:
            began_at: when it was sent.
            now: when it was answered or given up.
            answered: whether the server answered; see Connection.answers.
        """
        self._began_at = began_at
        if answered:
            self._answered_at = now
        else:
            self._unanswered_at = now
            self._period = _PERIOD_SECONDS
        self._due_at = max(began_at + self._period, now)
        if answered:
            self._period = min(2 * self._period, _RARE_SECONDS)

    def ends(self, began_at: float, ended_by: Ending) -> bool:
        """Tell whether the latest probe ends a wait that began at that instant."""
        if self._answered_at < max(began_at, self._unanswered_at):
            return False
        return ended_by is Ending.ANSWER or self._unanswered_at >= began_at

    @property
    def is_away(self) -> bool:
        """Whether the latest probe was not answered."""
        return self._unanswered_at > self._answered_at


@final
class Outage:
    """Where the reflectors of one cluster connection wait for a server that they did not reach.

    Args:
        rng: the source of chance.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._schedule = ProbeSchedule(rng or random.Random())
        self._flight: anyio.Event | None = None  # one of those who wait probes for all
        self._pause: anyio.CancelScope | None = None  # of the one that probes, until that is due
        self.probes: int = 0
        """How many probes were sent."""

    async def wait(self, wire: ConnectionProtocol, seconds: float, *, ended_by: Ending) -> Ending:
        """Wait for a time, or until the server answers a probe.

        Args:
            wire: leads to the server.
            seconds: how long to wait at most.
            ended_by: what ends the wait before that.

        Returns:
            What ended the wait; nothing but time, or an answer, before which the server was seen to
            be away or not.

        Cancellation:
            Safe; another reflector that waits probes next.
        """
        if ended_by is Ending.NOTHING or not isinstance(wire, NetworkConnection):
            await anyio.sleep(seconds)
            return Ending.NOTHING
        with anyio.move_on_after(seconds):
            return await self._until_answered(wire, ended_by)
        return Ending.NOTHING

    async def _until_answered(self, wire: NetworkConnection, ended_by: Ending) -> Ending:
        arrived_at, was_away = asyncio.get_running_loop().time(), self._schedule.is_away
        if was_away:  # what has to come before the answer has come
            ended_by = Ending.ANSWER
        is_sooner = ended_by is Ending.ANSWER and self._schedule.hasten(arrived_at)
        if is_sooner and self._pause is not None:
            self._pause.cancel()
        while not self._schedule.ends(arrived_at, ended_by):
            if self._flight is None:
                await self._probe(wire)
            else:
                await self._flight.wait()
        was_away = was_away or self._schedule.ends(arrived_at, Ending.RETURN)
        return Ending.RETURN if was_away else Ending.ANSWER

    async def _probe(self, wire: NetworkConnection) -> None:
        now = asyncio.get_running_loop().time
        self._flight = flight = anyio.Event()
        try:
            while (seconds := self._schedule.seconds_until_due(now())) > 0.0:
                with anyio.CancelScope() as self._pause:
                    await anyio.sleep(seconds)
            began_at = now()
            self.probes += 1
            answered = await wire.probe(_PROBE_SECONDS)
            self._schedule.probed(began_at, now(), answered=answered)
        finally:
            self._flight = None
            flight.set()
