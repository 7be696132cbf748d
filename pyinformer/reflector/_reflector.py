"""The reflector: it keeps a sink in step with one resource of a server.

What it does next is decided by the machine, what an event may do by the guard; this shell performs
the machine's commands, waits, and reports how they ended. It ends only by cancellation.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from anyio import TASK_STATUS_IGNORED

from pyinformer._logging import get_logger
from pyinformer.apimachinery import V, VersionOrder
from pyinformer.reflector._guard import GuardStatistics
from pyinformer.reflector._performing import Performing
from pyinformer.reflector._quarantine import StaleObject
from pyinformer.reflector._state import LoadRecord, ReflectorState
from pyinformer.reflector._witnesses import witnesses_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyio.abc import TaskStatus

    from pyinformer.reflector._proof import Witness

_log = get_logger(__name__)

_RELOAD_SPREAD_SECONDS = 2.0  # all that load again because of one proof do not in one instant


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorStatus:
    """Where a reflector stands."""

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


@final
class Reflector(Performing[V]):
    """Keeps a sink in step with one resource.

    Args:
        list_watch: the resource and the scope, and the server that has it.
        sink: takes what is learned: a store, a RealFIFO, a DeltaFIFO.
        projection: the view to decode with each object.
        strip_managed_fields: leave `metadata.managedFields` out of what the sink gets.
        compact: keep bodies compressed; needs the extra `pyinformer[compact]`.
        transform: the user's change to each object.
        options: how the server is talked to.
        absent: what it means that the resource is not served.
        watch_list_memory: shared by the reflectors of one connection.
        lineage: the history behind the connection, shared likewise.
        admission: the budgets of the connection, shared likewise.
        journal: hears of what is rare, in words.
        metrics: where occurrences are counted.
        on_change: called after each change of state, on the loop.
        on_suspicion: called with the reason when what is cached should be compared with the server.
        on_large: called for each object with a body of more than 16 KiB, before the sink has it.

    Source:
        client-go tools/cache/reflector.go.
    """

    @property
    def state(self) -> ReflectorState:
        """What it does at this moment."""
        return self._machine.state

    @property
    def position(self) -> str:
        """The resource version up to which every change is in the sink; empty at first."""
        return self._guard.position

    @property
    def is_ordered(self) -> bool:
        """Whether the position proves something: versions have an order, and it is of today."""
        return self._guard.order == "global" and not self._machine.distrust

    @property
    def version_order(self) -> VersionOrder:
        """Which of the resource's versions compare; it may become less at any time."""
        return VersionOrder(self._guard.order)

    @property
    def epoch(self) -> int:
        """How often the server's history turned out not to be the one that was followed."""
        return self._guard.epoch

    @property
    def is_resetting(self) -> bool:
        """Whether the list that is being taken over begins a new epoch: objects may go back."""
        return self._guard.is_resetting

    def has_buried(self, key: str, uid: str) -> bool:
        """Tell whether a deletion of this object was applied, as far as is remembered."""
        return self._guard.has_buried(key, uid)

    def last_good(self, key: str) -> StaleObject[V] | None:
        """Return the last state of an object that could be read, if the cached one cannot.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Returns:
            None if what is cached is good, or gone, or was never good as far as is remembered.
        """
        return self._quarantine.last_good(key)

    def quarantined(self) -> tuple[str, ...]:
        """Return the keys whose cached objects cannot be read as asked; of many, the latest."""
        return self._quarantine.keys()

    @property
    def fails_sync(self) -> bool:
        """Whether waiting for a first list is in vain: the resource is required, and not served."""
        return self._presence.fails_sync

    def status(self) -> ReflectorStatus:
        """Return where it stands."""
        machine = self._machine
        error = machine.told_error
        return ReflectorStatus(
            state=machine.state,
            reason=self._reason(),
            attempts=machine.attempts,
            last_error=error or None,
            loads=machine.loads,
            guard=self._guard.statistics(),
            takeovers=self._liveness.takeovers,
            breaks_order=machine.breaks_order,
        )

    def _reason(self) -> str:
        """Return why it is in its state, and what it waits for in there."""
        if cure := self._presence.cure:
            return cure
        waits = (
            "waiting for its turn to list"
            if self._is_in_line
            else self.list_watch.describe_pending()
        )
        parts = (self._machine.reason, self._presence.hint, waits)
        return "; ".join(part for part in parts if part)

    def loads(self) -> tuple[LoadRecord, ...]:
        """Return the latest loads, the oldest first; from any thread."""
        return tuple(self._loads.copy())

    def burial(self, key: str) -> str:
        """Return the version at which a key was deleted, as far as is remembered; or nothing."""
        return self._guard.burial(key)

    def demand_load(self, reason: str) -> None:
        """Load everything again as soon as possible; a watch or a pause ends for it.

        Args:
            reason: why, for people.
        """
        self.journal.note(f"everything is to be loaded again: {reason}")
        self._machine.demand_load(reason)
        self._interrupt()

    def demand_proof(self, reason: str) -> None:
        """Ask as soon as possible whether the server's history is the one that was followed.

        Args:
            reason: why, for people.
        """
        self.journal.note(f"the server's history is to be proven: {reason}")
        self._machine.lost_at = self._now()
        self._interrupt()

    def lineage_broken(self, reason: str) -> None:
        """Load again, and believe nothing that is cached; for the lineage."""
        reason = f"the server's history is another: {reason}"
        self.journal.note(reason)
        self._noted_reason = reason  # the load that follows need not say so again
        self._machine.demand_load(reason, distrust=True)
        spread = self._options.rng.uniform(0, _RELOAD_SPREAD_SECONDS)
        asyncio.get_running_loop().call_later(spread, self._interrupt_if_demanded)

    def _interrupt_if_demanded(self) -> None:
        machine = self._machine
        if (
            machine.demands_load and not machine.waits_for_its_turn
        ):  # whoever asked for the proof has begun already
            self._interrupt()

    async def witnesses(self) -> Sequence[Witness]:
        """Return the newest object and the newest deletion that it knows of; for the proof.

        Cancellation:
            Safe.
        """
        return await witnesses_of(self._sink, self._guard)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """List and watch until cancelled.

        Cancellation:
            The only way to end it; the connection is closed, the sink keeps what it has.
        """
        self._now = now = asyncio.get_running_loop().time
        leave = self._lineage.join(self)
        command = self._machine.start(now())
        task_status.started()
        try:
            while True:
                self._changed()
                happened = await self._perform(command)
                command = self._machine.step(happened, now())
        finally:
            leave()
            self._machine.state = ReflectorState.STOPPED
            self._changed()
