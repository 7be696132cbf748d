"""Schedules of faults, and the lab that carries them out."""

from __future__ import annotations

import ssl
import threading
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import InvalidArgumentError
from pyinformer.testing import (
    APIServer,
    ChangingFacts,
    EtcdRelay,
    FaultLab,
    FaultProxy,
    FaultSchedule,
    KubeAPIServer,
    TimedFault,
    Token,
)
from pyinformer.testing.faults import CATALOGUE
from pyinformer.testing.histories import FaultRecord, History
from tests.testing.wire import ALL_PODS, Wire

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "the-administrators-token"


class Program:
    """What a schedule asks of a program, written down."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def block(self, seconds: float) -> None:
        """Note it."""
        self.asked.append(f"block {seconds:g}")

    def take_descriptors(self) -> None:
        """Note it."""
        self.asked.append("take")

    def give_descriptors(self) -> None:
        """Note it."""
        self.asked.append("give")

    def renew_token(self, token: str) -> None:
        """Note it."""
        self.asked.append(f"renew {token}")

    def renew_trust(self, ca_pem: bytes) -> None:
        """Note it."""
        self.asked.append(f"trust {len(ca_pem)} bytes")

    def freeze(self, seconds: float) -> None:
        """Note it."""
        self.asked.append(f"freeze {seconds:g}")

    def step_clock(self, seconds: float) -> None:
        """Note it."""
        self.asked.append(f"clock {seconds:g}")


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    with (
        APIServer(tls=True, tokens=[Token(value=TOKEN)]) as server,
        FaultProxy(server, reads_requests=True) as running,
    ):
        yield running


def statuses(proxy: FaultProxy) -> list[int]:
    """Return the status of a list and of a read that is not one of an object."""
    context = ssl.create_default_context(cafile=str(proxy.ca_file))
    with Wire(proxy.url, token=proxy.token, context=context) as wire:
        return [wire.get(ALL_PODS).status, wire.get("/version").status]


def test_the_same_seed_draws_the_same_faults() -> None:
    first, second, other = (
        FaultSchedule.drawn(tuple(CATALOGUE), seed=seed, seconds=600.0) for seed in (2, 2, 3)
    )

    assert list(first) == list(second) != list(other)
    assert {fault.name for fault in first} == set(CATALOGUE), "ten minutes have one of each"
    assert first.seconds <= 600.0


def test_some_drawn_faults_strike_the_lease_alone_or_discovery_alone() -> None:
    drawn = FaultSchedule.drawn(tuple(CATALOGUE), seed=2, seconds=600.0)
    struck = {one.arguments["resource"] for one in drawn if "resource" in one.arguments}

    assert struck == {"leases.coordination.k8s.io", ""}


def test_drawn_faults_of_one_part_do_not_overlap() -> None:
    ends: dict[str, float] = {}
    for fault in FaultSchedule.drawn(tuple(CATALOGUE), seed=3, seconds=300.0):
        part = CATALOGUE[fault.name].part
        assert fault.at_seconds > ends.get(part, -1.0)
        ends[part] = fault.at_seconds + fault.lasts_seconds
    assert len(ends) == 6


def test_a_schedule_is_written_and_read(tmp_path: Path) -> None:
    drawn = FaultSchedule.drawn(("cut", "drip"), seed=1, seconds=60.0)
    drawn.write(tmp_path / "faults.json")

    assert list(FaultSchedule.read(tmp_path / "faults.json")) == list(drawn)


def test_a_file_that_is_not_a_schedule_is_refused(tmp_path: Path) -> None:
    (tmp_path / "faults.json").write_text('{"name": 1}')
    with pytest.raises(InvalidArgumentError, match="JSON list of faults"):
        FaultSchedule.read(tmp_path / "faults.json")


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (TimedFault(name="nonsense", at_seconds=0.0), "must be one of cut, "),
        (TimedFault(name="cut", at_seconds=-1.0), "at_seconds"),
        (TimedFault(name="cut", at_seconds=0.0, lasts_seconds=-1.0), "lasts_seconds"),
        (TimedFault(name="stall", at_seconds=0.0), "it has to end"),
        (
            TimedFault(name="cut", at_seconds=0.0, arguments={"speed": "1"}),
            "it takes reset",
        ),
    ],
)
def test_a_fault_that_cannot_be_is_refused(fault: TimedFault, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        FaultSchedule([fault])


def test_a_lab_does_not_begin_what_would_never_end(proxy: FaultProxy) -> None:
    with pytest.raises(InvalidArgumentError, match="it has to end"):
        FaultLab(proxy=proxy).begin(TimedFault(name="stall", at_seconds=0.0))


def test_what_lasts_is_what_has_an_end() -> None:
    lasting = {name for name, kind in CATALOGUE.items() if kind.lasts_seconds[1]}
    assert lasting == {name for name, kind in CATALOGUE.items() if kind.has_end}


def test_the_faults_of_a_history_that_was_cut_off_end(tmp_path: Path) -> None:
    with History(tmp_path / "history.jsonl") as history:
        for number, name in enumerate(("refuse", "stall")):
            history.add(FaultRecord(name=name, phase="began", number=number))
    refused, stalled = FaultSchedule.of_history(tmp_path / "history.jsonl")

    assert refused.lasts_seconds > 0.0
    assert stalled.lasts_seconds > 0.0


def test_a_lab_offers_what_it_has(proxy: FaultProxy) -> None:
    assert FaultLab().names() == ()
    assert "cut" in FaultLab(proxy=proxy).names()
    assert "status" in FaultLab(proxy=proxy).names()
    assert "expired-token" not in FaultLab(proxy=proxy).names()
    assert "expired-token" in FaultLab(proxy=proxy, program=Program()).names()
    assert "kill-etcd" in FaultLab(server=KubeAPIServer()).names()
    assert "hold-watches" in FaultLab(relays=[EtcdRelay()]).names()
    assert "drop-event" in FaultLab(proxy=proxy).names(lies=True)
    assert "drop-event" not in FaultLab(proxy=proxy).names()
    assert FaultLab(program=Program()).names() == (
        "block-loop",
        "freeze-program",
        "step-clock",
        "no-descriptors",
    )
    facts = ChangingFacts(KubeAPIServer(), bindings=["program"])
    assert FaultLab(facts=facts).names(parts=["facts"]) == ("withdraw-rights",)
    with APIServer() as server, FaultProxy(server) as plain:
        assert {CATALOGUE[name].part for name in FaultLab(proxy=plain).names()} == {"network"}


@pytest.mark.parametrize(
    "name", ["cut", "status", "hold-watches", "kill-etcd", "change-definition", "block-loop"]
)
def test_a_fault_of_a_part_that_the_lab_lacks_is_refused(name: str) -> None:
    lasts = 1.0 if CATALOGUE[name].has_end else 0.0
    with pytest.raises(InvalidArgumentError, match="which this lab does not have"):
        FaultLab().begin(TimedFault(name=name, at_seconds=0.0, lasts_seconds=lasts))


def test_a_fault_begins_ends_and_is_logged(proxy: FaultProxy) -> None:
    history = History()
    lab = FaultLab(proxy=proxy, log=history.add)
    fault = TimedFault(
        name="status",
        at_seconds=0.0,
        lasts_seconds=1.0,
        arguments={"status": "429", "verb": "list"},
    )

    number = lab.begin(fault)
    assert statuses(proxy) == [429, 200]
    lab.end(number)
    assert statuses(proxy) == [200, 200]
    lab.end(number)

    logged = [one for one in history if isinstance(one, FaultRecord)]
    assert [(one.phase, one.number, one.name) for one in logged] == [
        ("began", 1, "status"),
        ("healed", 1, "status"),
    ]
    assert logged[0].arguments == fault.arguments
    assert lab.faults == 1


def test_etcd_forgets_nothing_that_the_truth_has_not_read() -> None:
    asked: list[str] = []

    class Server(KubeAPIServer):  # type: ignore[misc]  # final, and only its calls count here
        def compact(self) -> int:
            asked.append("compact")
            return 1

    class Truth:
        def catch_up(self) -> int:
            asked.append("read")
            return 1

    lab = FaultLab(server=Server(), truth=Truth())
    lab.begin(TimedFault(name="compact", at_seconds=0.0))
    assert asked == ["read", "compact"]


def test_a_run_carries_out_everything_and_its_history_is_replayed(
    proxy: FaultProxy, tmp_path: Path
) -> None:
    """Every fault of network, requests and program, side by side, in some tenths of a second."""
    program = Program()
    with History(tmp_path / "history.jsonl") as history:
        lab = FaultLab(proxy=proxy, program=program, log=history.add)
        names = lab.names(lies=True)
        schedule = FaultSchedule(
            TimedFault(
                name=name,
                at_seconds=0.001 * number,
                lasts_seconds=0.01 if CATALOGUE[name].lasts_seconds[1] else 0.0,
            )
            for number, name in enumerate(names)
        )
        lab.run(schedule)
        logged = [one for one in history if isinstance(one, FaultRecord)]

    assert {one.name for one in logged} == set(names)
    assert sum(one.phase == "began" for one in logged) == sum(
        one.phase == "healed" for one in logged
    )
    assert {one.name for one in logged if one.is_lie} == {
        name for name, kind in CATALOGUE.items() if kind.is_lie
    }
    assert program.asked[:2] != ["give", "take"]
    assert f"renew {proxy.token}" in program.asked
    assert {"clock 60", "clock 0", "freeze 2"} <= set(program.asked)
    assert statuses(proxy) == [200, 200]
    replayed = FaultSchedule.of_history(tmp_path / "history.jsonl")
    assert sorted(one.name for one in replayed) == sorted(names)
    assert min(one.at_seconds for one in replayed) == 1.0


def test_a_run_is_stopped_and_heals(proxy: FaultProxy) -> None:
    lab, stop, begun = FaultLab(proxy=proxy), threading.Event(), threading.Event()
    lab = FaultLab(proxy=proxy, log=lambda _: begun.set())
    schedule = FaultSchedule([TimedFault(name="refuse", at_seconds=0.0, lasts_seconds=1000.0)])
    thread = threading.Thread(target=lab.run, args=(schedule, stop))
    thread.start()
    assert begun.wait(100)
    stop.set()
    thread.join()

    assert statuses(proxy) == [200, 200]


def test_the_failure_of_a_fault_ends_the_run_and_is_raised() -> None:
    class Broken(Program):
        def block(self, seconds: float) -> None:
            raise ZeroDivisionError

    lab = FaultLab(program=Broken())
    schedule = FaultSchedule(
        [
            TimedFault(name="block-loop", at_seconds=0.0),
            TimedFault(name="no-descriptors", at_seconds=1000.0, lasts_seconds=1.0),
        ]
    )
    with pytest.raises(ZeroDivisionError):
        lab.run(schedule)


@pytest.mark.real
@pytest.mark.timeout(400)
def test_every_fault_of_a_real_server_begins_ends_and_leaves_it_working(
    kube_apiserver_build: bool,
) -> None:
    with (
        EtcdRelay() as relay,
        KubeAPIServer(build=kube_apiserver_build, etcd_relays=[relay]) as server,
    ):
        history = History()
        server.register("lab.example.com/v1", "Widget", "widgets", has_status=True)
        facts = ChangingFacts(
            server, bindings=["system:basic-user"], definitions=["widgets.lab.example.com"]
        )
        lab = FaultLab(server=server, relays=[relay], facts=facts, log=history.add)
        names = lab.names()
        for name in names:
            lasts = 0.2 if CATALOGUE[name].lasts_seconds[1] else 0.0
            lab.end(lab.begin(TimedFault(name=name, at_seconds=0.0, lasts_seconds=lasts)))
        logged = [one for one in history if isinstance(one, FaultRecord)]
        assert [one.name for one in logged if one.phase != "healed"] == list(names)
        server.ensure_namespace("works")
