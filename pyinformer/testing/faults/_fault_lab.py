"""Carries out a schedule of faults, and logs each of them with its time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import final

from pyinformer._runtime.clock import monotonic
from pyinformer.errors import InvalidArgumentError
from pyinformer.testing.faults._catalogue import CATALOGUE, Kind, Part, Parts, Program, Servers
from pyinformer.testing.faults._changing_facts import ChangingFacts
from pyinformer.testing.faults._etcd_relay import EtcdRelay
from pyinformer.testing.faults._fault_proxy import FaultProxy
from pyinformer.testing.faults._schedule import FaultSchedule, TimedFault, check_fault
from pyinformer.testing.histories import CatchesUp, FaultRecord

_NEEDS: dict[Part, Callable[[Parts], bool]] = {
    "network": lambda parts: parts.proxy is not None,
    "requests": lambda parts: parts.proxy is not None and parts.proxy.reads_requests,
    "etcd-watches": lambda parts: bool(parts.relays),
    "server": lambda parts: parts.server is not None,
    "facts": lambda parts: parts.facts is not None,
    "program": lambda parts: parts.program is not None,
}


@final
class FaultLab:
    """The parts of a cluster, and of the program under test, that faults can strike.

        with FaultProxy(server, reads_requests=True) as proxy, History(path) as history:
            lab = FaultLab(proxy=proxy, log=history.add)
            lab.run(FaultSchedule.drawn(lab.names(), seed=7, seconds=60.0))

    Its methods block. `run` can be called in one thread for each schedule.

    Args:
        proxy: the proxy between program and server; with `reads_requests` for faults of requests.
        server: a KubeAPIServer whose programs are killed and paused.
        relays: the relays between its replicas and etcd.
        facts: the rights of the program and the definitions of its resources.
        program: what blocks its loop, takes its descriptors, and renews its token.
        truth: an EtcdTruth, which reads every revision before etcd may forget it.
        log: is called with a record at the start and the end of each fault, from any thread.
    """

    def __init__(
        self,
        *,
        proxy: FaultProxy | None = None,
        server: Servers | None = None,
        relays: Sequence[EtcdRelay] = (),
        facts: ChangingFacts | None = None,
        program: Program | None = None,
        truth: CatchesUp | None = None,
        log: Callable[[FaultRecord], object] = lambda _: None,
    ) -> None:
        self._parts = Parts(
            proxy=proxy,
            server=server,
            relays=tuple(relays),
            facts=facts,
            program=program,
            truth=truth,
        )
        self._log = log
        self._lock = threading.Lock()
        self._count = 0
        self._open: dict[int, TimedFault] = {}
        self._struck: dict[int, int] = {}

    def names(self, *, lies: bool = False, parts: Iterable[Part] | None = None) -> tuple[str, ...]:
        """Return the names of the faults that this lab can carry out.

        Args:
            lies: whether those of class B are among them, after which a cache is right only when
                it has been audited.
            parts: only faults of these parts; None is all.
        """
        wanted = None if parts is None else set(parts)
        return tuple(
            name
            for name, kind in CATALOGUE.items()
            if self._has(kind)
            and (lies or not kind.is_lie)
            and (wanted is None or kind.part in wanted)
        )

    @property
    def faults(self) -> int:
        """How many faults have begun."""
        return self._count

    def begin(self, fault: TimedFault) -> int:
        """Begin a fault now, and return its number.

        Raises:
            InvalidArgumentError: the lab lacks what the fault strikes, or there is no such fault.
        """
        check_fault(fault)
        kind = CATALOGUE[fault.name]
        if not self._has(kind):
            reason = f"{fault.name} strikes the {kind.part}, which this lab does not have"
            raise InvalidArgumentError("fault", reason)
        with self._lock:
            self._count += 1
            number = self._count
            if fault.lasts_seconds:
                self._open[number] = fault
                self._struck[number] = self._parts.struck
        self._record(number, fault, begins=True)
        kind.begin(self._parts, fault.arguments)
        return number

    def end(self, number: int) -> None:
        """End a fault; does nothing if it has ended."""
        with self._lock:
            fault = self._open.pop(number, None)
        if fault is not None:
            kind = CATALOGUE[fault.name]
            struck = self._parts.struck - self._struck.pop(number)
            kind.end(self._parts, fault.arguments)
            self._record(number, fault, begins=False, requests=struck if kind.is_counted else None)

    def run(self, schedule: FaultSchedule, stop: threading.Event | None = None) -> None:
        """Carry out a schedule, each fault at its time or as soon after it as the lab can.

        Faults of one part follow each other; those of different parts run side by side.

        Args:
            schedule: the faults.
            stop: ends the run when it is set; None never ends it early.

        Raises:
            Exception: that of the first fault that could not begin or end; all others have ended.
        """
        stop = stop or threading.Event()
        begun_at = monotonic()
        lanes: dict[Part, list[TimedFault]] = {}
        for fault in schedule:
            lanes.setdefault(CATALOGUE[fault.name].part, []).append(fault)
        failures: list[BaseException] = []
        threads = [
            threading.Thread(
                target=self._run_lane,
                args=(lane, begun_at, stop, failures),
                name=f"pyinformer-faults-{part}",
                daemon=True,
            )
            for part, lane in lanes.items()
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.heal()
        if failures:
            raise failures[0]

    def heal(self) -> None:
        """End every fault."""
        for number in tuple(self._open):
            self.end(number)
        if self._parts.proxy is not None:
            self._parts.proxy.heal()

    def _run_lane(
        self,
        lane: Sequence[TimedFault],
        begun_at: float,
        stop: threading.Event,
        failures: list[BaseException],
    ) -> None:
        try:
            for fault in lane:
                if stop.wait(max(0.0, begun_at + fault.at_seconds - monotonic())):
                    return
                number = self.begin(fault)
                if fault.lasts_seconds:
                    ends_at = begun_at + fault.at_seconds + fault.lasts_seconds
                    stop.wait(max(0.0, ends_at - monotonic()))
                    self.end(number)
        except Exception as error:  # noqa: BLE001 - raised by `run`
            failures.append(error)
            stop.set()

    def _has(self, kind: Kind) -> bool:
        return _NEEDS[kind.part](self._parts) and kind.is_available(self._parts)

    def _record(
        self, number: int, fault: TimedFault, *, begins: bool, requests: int | None = None
    ) -> None:
        kind = CATALOGUE[fault.name]
        self._log(
            FaultRecord(
                name=fault.name,
                phase=("began" if fault.lasts_seconds else "struck") if begins else "healed",
                number=number,
                arguments=fault.arguments,
                is_lie=kind.is_lie,
                requests=requests,
            )
        )
