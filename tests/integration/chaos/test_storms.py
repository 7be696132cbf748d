"""Storms on the real kube-apiserver, judged by etcd's log: scripted scenes, and fresh seeds."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import msgspec
import pytest

from pyinformer.testing import EtcdRelay, FaultSchedule, KubeAPIServer, TimedFault
from tests.integration.chaos.script import Script
from tests.integration.chaos.storm import Storm

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(900)]

OBJECTS = 60
OUT_OF_DESCRIPTORS = "Too many open files"
Faults = list[TimedFault]


def fault(name: str, begin: float, end: float | None = None, **arguments: str) -> TimedFault:
    """Return a fault between two times."""
    lasts = 0.0 if end is None else end - begin
    return TimedFault(name=name, at_seconds=begin, lasts_seconds=lasts, arguments=arguments)


def slower(one: TimedFault, times: float) -> TimedFault:
    """Return a fault that comes later and lasts longer."""
    return msgspec.structs.replace(
        one, at_seconds=one.at_seconds * times, lasts_seconds=one.lasts_seconds * times
    )


SCENES: dict[str, Faults] = {
    "cut-in-the-middle": [fault("cut-after", 0.5, 4.0, bytes="3000"), fault("cut", 4.5)],
    "stalled-and-killed": [fault("stall", 0.5, 3.0, new="no"), fault("kill-apiserver", 1.0)],
    "slow-and-in-pieces": [
        fault("drip", 0.5, 2.5, bytes_per_second="4000"),
        fault("split", 2.6, 4.0, bytes="1"),
        fault("join", 4.1, 5.0, seconds="0.2"),
    ],
    "watches-refused-lists-work": [
        fault("status", 0.5, 5.0, verb="watch", status="403"),
        fault("cut", 2.0),
    ],
    "lists-refused-watches-expired": [
        fault("expired-event", 0.5, 4.5),
        fault("status", 4.6, 8.0, verb="list", status="503", retry_after_seconds="1"),
    ],
    "gone-in-the-middle-of-a-list": [
        fault("expired-event", 0.5, 2.0),
        fault("cut", 0.6),
        fault("expired-continue", 2.1, 9.0),
    ],
    "gone-in-both-forms-of-a-watch": [
        fault("expired-status", 0.5, 4.5),
        fault("expired-event", 4.6, 8.6),
    ],
    "etcd-killed-paused-compacted": [
        fault("kill-etcd", 0.5),
        fault("compact", 3.0),
        fault("pause-etcd", 3.1, 5.0),
        fault("cut", 4.0),
    ],
    "token-expires": [fault("expired-token", 0.5, 3.0), fault("cut", 1.5)],
    "truncated-and-compressed": [
        fault("truncated-chunk", 0.5, 2.5, bytes="700"),
        fault("gzip-members", 2.6, 5.0),
        fault("cut", 3.5),
    ],
    "no-bookmarks": [
        fault("no-bookmarks", 0.5, 2.5),
        fault("no-end-bookmark", 2.6, 5.0),
        fault("cut", 3.5),
    ],
    "rights-withdrawn": [fault("withdraw-rights", 0.5, 4.0), fault("cut", 1.0), fault("cut", 2.5)],
    "definition-deleted": [fault("delete-definition", 0.5, 3.0, meanwhile="nothing")],
    "definition-of-another-scope": [
        fault("delete-definition", 0.5, 3.0, meanwhile="scope"),
        fault("cut", 2.0),
    ],
    "definition-without-status": [fault("change-definition", 0.5, 4.0, loses="status")],
    "version-not-served": [fault("change-definition", 0.5, 4.0, loses="version"), fault("cut", 2)],
    "certificate-renewed": [fault("new-certificate", 0.5, 3.0, cut="yes"), fault("cut", 2.0)],
    "program-frozen": [
        fault("freeze-program", 0.5, seconds="3"),
        fault("freeze-program", 4.0, seconds="0.2"),
        fault("cut", 4.2),
    ],
    "clock-stepped": [
        fault("step-clock", 0.5, 2.0, seconds="-3600"),
        fault("step-clock", 2.1, 4.0, seconds="3600"),
        fault("expired-token", 1.0, 3.0),
    ],
    "only-the-lease-fails": [
        fault("status", 0.5, 14.0, resource="leases.coordination.k8s.io", status="500"),
        fault("hang", 14.1, 27.0, resource="leases.coordination.k8s.io"),
    ],
    "only-discovery-fails": [
        fault("status", 0.5, 12.0, resource="", status="503"),
        fault("cut", 1.0),
        fault("delete-definition", 1.5, 4.0, meanwhile="nothing"),
    ],
    "no-descriptors": [
        fault("no-descriptors", 0.5, 4.0),
        fault("cut", 1.0),
        fault("expired-token", 1.5, 3.0),
    ],
    "loop-blocked-under-cuts": [fault("block-loop", 1.0, seconds="2"), fault("cut", 2.0)],
}
LIES: dict[str, Faults] = {
    "dropped-events": [fault("drop-event", 0.5, 4.0)],
    "empty-lists": [fault("expired-event", 0.5, 4.5), fault("no-items", 4.6, 8.0)],
    "stale-lists": [fault("expired-event", 0.5, 4.5), fault("stale-list", 4.6, 8.0)],
    "empty-watch-lists": [fault("expired-event", 0.5, 4.5), fault("no-initial-events", 4.6, 8.0)],
    "streams-that-go-back": [fault("repeat-event", 0.5, 5.0), fault("cut", 2.5)],
}
ALL = {**SCENES, **LIES}
PAGE_SIZES = {"gone-in-the-middle-of-a-list": 10}
# A slow machine sends the request that a fault is for when it is over: then the scene takes longer.
PACES = (1, 3)
STANDS_STILL = [
    fault("hold-watches", 0.5, 5.0, prefix="/registry/configmaps/"),
    fault("cut", 1.5),
    fault("cut", 3.0),
    fault("fail-ranges", 5.1, 6.0),
    fault("delay-ranges", 6.1, 8.0, seconds="0.5"),
]


@pytest.fixture(scope="module")
def server(kube_apiserver_build: bool) -> Iterator[KubeAPIServer]:
    with KubeAPIServer(build=kube_apiserver_build) as running:
        yield running


@pytest.mark.parametrize("scene", ALL)
def test_a_scene_leaves_nothing_lost_invented_stuck_or_out_of_order(
    server: KubeAPIServer, tmp_path: Path, scene: str
) -> None:
    for times in PACES:
        schedule = FaultSchedule([slower(one, times) for one in ALL[scene]])
        script = Script(
            seed=100 * times + list(ALL).index(scene),
            schedule=schedule,
            seconds=schedule.seconds,
            lies=scene in LIES,
            objects=OBJECTS,
            page_size=PAGE_SIZES.get(scene, 0),
        )
        outcome = Storm(script, tmp_path / f"history-{times}.jsonl").run_on(server)
        server.close_connections()

        assert outcome.holds, str(outcome)
        assert outcome.faults == len(schedule)
        if not outcome.idle:
            return
    pytest.fail(f"at no pace did every fault meet a request, last: {outcome.idle}")


def test_a_watch_cache_that_stands_still_leaves_nothing_lost(
    kube_apiserver_build: bool, tmp_path: Path
) -> None:
    schedule = FaultSchedule(STANDS_STILL)
    script = Script(seed=99, schedule=schedule, seconds=schedule.seconds, objects=OBJECTS)
    storm = Storm(script, tmp_path / "history.jsonl")
    with (
        EtcdRelay() as relay,
        KubeAPIServer(build=kube_apiserver_build, etcd_relays=[relay]) as server,
    ):
        outcome = storm.run_on(server, [relay])

    assert outcome.holds, str(outcome)
    assert outcome.faults == len(schedule)


def test_a_program_that_starts_without_descriptors_waits_for_them(
    server: KubeAPIServer, tmp_path: Path
) -> None:
    """Its informers start before one connection can be made."""
    schedule = FaultSchedule([fault("no-descriptors", 0.0, 5.0)])
    script = Script(
        seed=98,
        schedule=schedule,
        seconds=schedule.seconds,
        objects=OBJECTS,
        starts_without_descriptors=True,
    )
    outcome = Storm(script, tmp_path / "history.jsonl").run_on(server)
    server.close_connections()

    assert outcome.holds, str(outcome)
    assert OUT_OF_DESCRIPTORS in (tmp_path / "history.log").read_text(), "it had none"


@pytest.mark.parametrize(
    ("lies", "seconds"),
    [pytest.param(False, 120.0, id="legal"), pytest.param(True, 60.0, id="lies")],
)
def test_a_fresh_seed_leaves_nothing_lost_invented_stuck_or_out_of_order(
    kube_apiserver_build: bool, tmp_path: Path, *, lies: bool, seconds: float
) -> None:
    """After legal faults without an audit, after lies of the server with one."""
    seed = secrets.randbelow(1_000_000)
    print(f"make chaos SEED={seed} LIES={int(lies)}")  # noqa: T201 - pytest shows it if the test fails
    script = Script.drawn(seed, seconds=seconds, lies=lies)

    outcome = Storm(script, tmp_path / "history.jsonl").run(build=kube_apiserver_build)

    assert outcome.holds, str(outcome)
    assert outcome.faults
