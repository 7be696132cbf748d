"""The end of an outage: one probe a second decides for all reflectors of a cluster connection.

A reflector that did not reach the server waits here for its next attempt. While any reflector
waits, one of them probes the server, at most once a second; the first answer ends all their waits.
A reflector that was answered 502, 503 or 504 waits here as well: for it an answer counts only after
an unanswered probe. While probes are answered, they become rare: one in 4 s. There is no task
behind it: while no reflector waits, nothing is sent.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer.cache.reflector.machine.steps import WakeCause
from pyinformer.client.transport import NetworkConnection

if TYPE_CHECKING:
    from pyinformer.client.transport import ConnectionProtocol

_PERIOD_SECONDS: Final = 1.0
_RARE_SECONDS: Final = 4.0  # while probes are answered: an outage as short costs no long delay
_PROBE_SECONDS: Final = 2.0  # the kernel repeats a lost SYN after 1 s, and then not before 3 s


@final
class ProbeSchedule:
    """Decides when the next probe is due, and which waits an answer ends.

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
        """Return the time until the next probe."""
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
            answered: whether the server answered; see `Connection.probe`.
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

    def ends(self, began_at: float, wake_on: WakeCause) -> bool:
        """Return whether the latest probe ends a wait that began at an instant."""
        if self._answered_at < max(began_at, self._unanswered_at):
            return False
        return wake_on is WakeCause.ANSWER or self._unanswered_at >= began_at

    @property
    def is_away(self) -> bool:
        """Whether the latest probe was not answered."""
        return self._unanswered_at > self._answered_at


@final
class RecoveryProbe:
    """Lets the reflectors of one cluster connection wait for a server that they did not reach.

    Args:
        rng: the source of chance.
    """

    def __init__(self, rng: random.Random | None = None) -> None:
        self._schedule = ProbeSchedule(rng or random.Random())
        self._flight: anyio.Event | None = None  # one waiting reflector probes for all
        self._pause: anyio.CancelScope | None = None  # of that reflector, until the probe is due
        self.probes: int = 0
        """How many probes were sent."""

    async def wait(
        self, connection: ConnectionProtocol, seconds: float, *, wake_on: WakeCause
    ) -> WakeCause:
        """Wait for a time, or until the server answers a probe.

        Args:
            connection: leads to the server.
            seconds: how long to wait at most.
            wake_on: what ends the wait before that.

        Returns:
            What ended the wait: time, an answer, or an answer after the server was seen to be away.

        Cancellation:
            Safe; another reflector that waits probes next.
        """
        if wake_on is WakeCause.TIME or not isinstance(connection, NetworkConnection):
            await anyio.sleep(seconds)
            return WakeCause.TIME
        with anyio.move_on_after(seconds):
            return await self._until_answered(connection, wake_on)
        return WakeCause.TIME

    async def _until_answered(self, connection: NetworkConnection, wake_on: WakeCause) -> WakeCause:
        arrived_at, was_away = asyncio.get_running_loop().time(), self._schedule.is_away
        if was_away:  # the unanswered probe has been seen already
            wake_on = WakeCause.ANSWER
        is_sooner = wake_on is WakeCause.ANSWER and self._schedule.hasten(arrived_at)
        if is_sooner and self._pause is not None:
            self._pause.cancel()
        while not self._schedule.ends(arrived_at, wake_on):
            if self._flight is None:
                await self._probe(connection)
            else:
                await self._flight.wait()
        was_away = was_away or self._schedule.ends(arrived_at, WakeCause.RECOVERY)
        return WakeCause.RECOVERY if was_away else WakeCause.ANSWER

    async def _probe(self, connection: NetworkConnection) -> None:
        now = asyncio.get_running_loop().time
        self._flight = flight = anyio.Event()
        try:
            while (seconds := self._schedule.seconds_until_due(now())) > 0.0:
                with anyio.CancelScope() as self._pause:
                    await anyio.sleep(seconds)
            began_at = now()
            self.probes += 1
            answered = await connection.probe(_PROBE_SECONDS)
            self._schedule.probed(began_at, now(), answered=answered)
        finally:
            self._flight = None
            flight.set()
