"""One proof for all informers of a connection; a break is logged once and all of them recover."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from pyinformer.cache.reflector import Lineage
from pyinformer.cache.reflector.lineage import HistorySample, HistoryVerdict
from pyinformer.client.transport import ClusterConfig, Connection, ListWatch
from pyinformer.errors import TransportError
from pyinformer.objects import GroupVersionResource
from pyinformer.testing import APIServer, Fault, RequestRecord
from tests.cache.reflector.running import is_load, put, reflecting, until_held
from tests.waiting import until

PODS = GroupVersionResource.of("v1", "pods")


@dataclass
class Member:
    """A reflector, as far as a lineage knows it."""

    list_watch: ListWatch
    position: str
    seen: list[HistorySample] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    is_ordered: bool = True

    async def history_samples(self) -> Sequence[HistorySample]:
        """Return what it has seen."""
        return self.seen

    def on_history_broken(self, reason: str) -> None:
        """Record it."""
        self.broken.append(reason)


@pytest.fixture
def server() -> Iterator[APIServer]:
    """Return a server with one pod."""
    with APIServer() as made:
        put(made, "a")
        yield made


def member(connection: Connection, position: str, plural: str = "pods") -> Member:
    """Return a reflector at a position."""
    return Member(ListWatch(connection, GroupVersionResource.of("v1", plural)), position)


def lists(server: APIServer) -> list[RequestRecord]:
    """Return what proofs have asked."""
    return [request for request in server.requests if request.verb == "list"]


def connect(server: APIServer) -> Connection:
    """Return a connection."""
    return Connection(ClusterConfig(server=server.url))


async def test_one_history_check_serves_all_reflectors_that_disconnected_before_it(
    server: APIServer,
) -> None:
    connection, lineage = connect(server), Lineage()
    for plural in ("pods", "configmaps", "secrets"):
        lineage.join(member(connection, server.resource_version, plural))
    lost_at = asyncio.get_running_loop().time()
    proofs = await asyncio.gather(*(lineage.prove(lost_at) for _ in range(50)))
    assert {proof.verdict for proof in proofs} == {HistoryVerdict.INTACT}
    assert len(lists(server)) == 1
    await lineage.prove(lost_at)
    assert len(lists(server)) == 1
    await lineage.prove(asyncio.get_running_loop().time())
    assert len(lists(server)) == 2
    await connection.aclose()


async def test_the_furthest_position_is_probed(server: APIServer) -> None:
    connection, lineage = connect(server), Lineage()
    lineage.join(member(connection, "9" * len(server.resource_version) + "9"))
    lineage.join(member(connection, "1", "configmaps"))
    proof = await lineage.prove(asyncio.get_running_loop().time())
    assert proof.verdict is HistoryVerdict.BROKEN
    assert {request.resource for request in lists(server)} == {"pods"}
    await connection.aclose()


async def test_a_resource_whose_versions_have_no_order_proves_nothing(server: APIServer) -> None:
    connection, lineage = connect(server), Lineage()
    aggregated = member(connection, "999999")
    aggregated.is_ordered = False
    lineage.join(aggregated)
    proof = await lineage.prove(asyncio.get_running_loop().time())
    assert proof.verdict is HistoryVerdict.UNDECIDED
    assert lists(server) == []
    await connection.aclose()


async def test_a_break_is_reported_once_and_all_load_again(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    connection, lineage = connect(server), Lineage()
    members = [member(connection, "900"), member(connection, "5", "configmaps")]
    members[0].list_watch.shown = "eu: pods.v1"
    for one in members:
        lineage.join(one)
    now = asyncio.get_running_loop().time()
    await asyncio.gather(*(lineage.prove(now) for _ in range(5)))
    assert [len(one.broken) for one in members] == [1, 1]
    (record,) = [one for one in caplog.records if one.levelno == logging.ERROR]
    assert "A new epoch begins" in record.getMessage()
    assert "followed: eu: pods.v1: the newest version there is " in record.getMessage()
    status = lineage.status()
    assert (status.resets, status.proofs, status.is_flapping) == (1, 1, False)
    await connection.aclose()


async def test_a_sample_proves_a_break_that_the_position_does_not(server: APIServer) -> None:
    connection, lineage = connect(server), Lineage()
    at = server.resource_version
    pods = member(connection, at)
    pods.list_watch.shown = "eu: pods.v1"
    pods.seen = [HistorySample("default/a", "another", at, at, existed=True)]
    lineage.join(pods)
    proof = await lineage.prove(asyncio.get_running_loop().time())
    assert proof.verdict is HistoryVerdict.BROKEN
    assert "eu: pods.v1 default/a" in proof.reason
    assert lineage.status().samples == 1
    await connection.aclose()


async def test_a_deletion_is_a_history_sample_too(server: APIServer) -> None:
    connection, lineage = connect(server), Lineage()
    (pod,) = server.list("v1", "pods")
    at = server.resource_version
    pods = member(connection, at)
    pods.seen = [HistorySample("default/a", pod["metadata"]["uid"], at, at, existed=False)]
    lineage.join(pods)
    proof = await lineage.prove(asyncio.get_running_loop().time())
    assert proof.verdict is HistoryVerdict.BROKEN
    await connection.aclose()


async def test_a_sample_whose_version_is_compacted_proves_nothing(server: APIServer) -> None:
    connection, lineage = connect(server), Lineage()
    at = server.resource_version
    pods = member(connection, at)
    pods.seen = [HistorySample("default/a", "another", at, at, existed=True)]
    lineage.join(pods)
    server.faults.add(Fault(match=lambda one: "metadata.name" in str(one.query), status=410))
    proof = await lineage.prove(asyncio.get_running_loop().time())
    assert proof.verdict is HistoryVerdict.INTACT
    await connection.aclose()


async def test_a_resource_that_may_not_be_listed_leaves_the_probe_to_another(
    server: APIServer,
) -> None:
    connection, lineage = connect(server), Lineage()
    lineage.join(member(connection, server.resource_version))
    lineage.join(member(connection, "1", "configmaps"))
    server.faults.add(Fault(resource="pods", status=403, times=None))
    proof = await lineage.prove(asyncio.get_running_loop().time())
    assert proof.verdict is HistoryVerdict.INTACT
    await connection.aclose()


async def test_a_server_that_refuses_the_probe_is_undecided(server: APIServer) -> None:
    connection, lineage = connect(server), Lineage()
    lineage.join(member(connection, server.resource_version))
    server.faults.add(Fault(verb="list", status=500, times=None))
    proof = await lineage.prove(asyncio.get_running_loop().time())
    assert proof.verdict is HistoryVerdict.UNDECIDED
    assert lineage.status().undecided == 1
    await connection.aclose()


async def test_an_unreachable_server_is_not_probed_twice(server: APIServer) -> None:
    connection, lineage = connect(server), Lineage()
    lineage.join(member(connection, server.resource_version))
    server.faults.add(Fault(verb="list", refuse=True))
    now = asyncio.get_running_loop().time()
    outcomes = await asyncio.gather(
        *(lineage.prove(now) for _ in range(20)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {TransportError}
    assert len(lists(server)) == 1
    assert (await lineage.prove(now)).verdict is HistoryVerdict.INTACT
    await connection.aclose()


async def test_when_the_probing_reflector_is_cancelled_the_next_one_probes(
    server: APIServer,
) -> None:
    connection, lineage = connect(server), Lineage()
    lineage.join(member(connection, server.resource_version))
    server.faults.add(Fault(verb="list", hang=True))
    now = asyncio.get_running_loop().time()
    first = asyncio.create_task(lineage.prove(now))
    await until_held(server)
    second = asyncio.create_task(lineage.prove(now))
    first.cancel()
    assert (await second).verdict is HistoryVerdict.INTACT
    assert len(lists(server)) == 2
    await connection.aclose()


async def test_three_breaks_within_minutes_are_called_flapping(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lineage = Lineage()
    for _ in range(2):
        lineage.report_break("restored")
    assert not lineage.status().is_flapping
    lineage.report_break("restored")
    assert lineage.status().is_flapping
    assert "two clusters behind one address" in caplog.records[-1].getMessage()


async def test_from_the_second_break_on_another_cluster_is_distinguished_from_a_restore(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    connection, lineage = connect(server), Lineage()
    lineage.join(member(connection, "900"))
    clock = asyncio.get_running_loop().time
    await lineage.prove(clock())
    await lineage.prove(clock())
    assert "another cluster answers" not in caplog.text
    body = b'{"metadata":{"uid":"of-another-cluster"}}'
    server.faults.add(Fault(verb="get", resource="namespaces", body=body))
    await lineage.prove(clock())
    assert "another cluster answers" in caplog.text
    assert lineage.status().is_flapping
    await connection.aclose()


async def test_the_reflector_whose_list_proved_the_break_does_not_load_again(
    server: APIServer,
) -> None:
    connection, lineage = connect(server), Lineage()
    finder, other = member(connection, "5"), member(connection, "5", "configmaps")
    lineage.join(finder)
    leave = lineage.join(other)
    lineage.report_break("an older object", by=finder)
    assert (len(finder.broken), len(other.broken)) == (0, 1)
    leave()
    lineage.report_break("again", by=finder)
    assert len(other.broken) == 1
    await connection.aclose()


async def test_a_resource_with_its_own_higher_versions_hides_no_restore(server: APIServer) -> None:
    """Events in their own etcd, or an aggregated API: these continue undisturbed."""
    connection, lineage = connect(server), Lineage()
    pods = member(connection, "900")
    events = member(connection, "7000000", "events")
    for one in (pods, events):
        lineage.join(one)
    body = b'{"kind":"EventList","metadata":{"resourceVersion":"7000001"},"items":[]}'
    server.faults.add(Fault(resource="events", body=body, times=None))
    now = asyncio.get_running_loop().time()
    assert (await lineage.prove(now, events)).verdict is HistoryVerdict.INTACT
    assert (await lineage.prove(now, pods)).verdict is HistoryVerdict.BROKEN
    assert (len(pods.broken), len(events.broken)) == (1, 0)
    await connection.aclose()


async def test_an_api_that_may_be_aggregated_breaks_no_history_but_its_own(
    server: APIServer,
) -> None:
    """What it says of its history, by a proof or by a list, is not what kube-apiserver says."""
    connection, lineage = connect(server), Lineage()
    pods = member(connection, server.resource_version)
    hostile = member(connection, str(int(server.resource_version) + 3_000))
    hostile.list_watch = ListWatch(connection, GroupVersionResource.of("evil.com/v1", "widgets"))
    for one in (pods, hostile):
        lineage.join(one)
    body = b'{"kind":"WidgetList","metadata":{"resourceVersion":"1"},"items":[]}'
    server.faults.add(Fault(match=lambda one: "evil.com" in one.path, body=body, times=None))
    now = asyncio.get_running_loop().time()
    assert (await lineage.prove(now, hostile)).verdict is HistoryVerdict.BROKEN
    assert (await lineage.prove(now, pods)).verdict is HistoryVerdict.INTACT
    lineage.report_break("a list has older objects", by=hostile)
    assert pods.broken == []
    lineage.report_break("a list has older objects", by=pods)
    assert len(hostile.broken) == 2
    await connection.aclose()


async def test_a_restore_is_proven_once_whichever_group_asks_first(server: APIServer) -> None:
    """A custom resource asks for itself only where kube-apiserver's own history is the same."""
    connection, lineage = connect(server), Lineage()
    pods = member(connection, "900")
    custom = member(connection, "901")
    custom.list_watch = ListWatch(connection, GroupVersionResource.of("example.com/v1", "widgets"))
    for one in (pods, custom):
        lineage.join(one)
    now = asyncio.get_running_loop().time()
    assert (await lineage.prove(now, custom)).verdict is HistoryVerdict.BROKEN
    assert (await lineage.prove(now, pods)).verdict is HistoryVerdict.BROKEN
    assert {one.resource for one in lists(server)} == {"pods"}
    assert lineage.status().proofs == 1
    assert (len(pods.broken), len(custom.broken)) == (1, 1)
    await connection.aclose()


async def test_a_history_whose_server_hangs_delays_no_proof_of_another(server: APIServer) -> None:
    connection, lineage = connect(server), Lineage()
    pods = member(connection, server.resource_version)
    aggregated = member(connection, "7000000", "configmaps")
    aggregated.list_watch = ListWatch(
        connection, GroupVersionResource.of("example.com/v1", "widgets")
    )
    for one in (pods, aggregated):
        lineage.join(one)
    server.faults.add(Fault(match=lambda one: "example.com" in one.path, hang=True, times=None))
    now = asyncio.get_running_loop().time()
    hangs = asyncio.create_task(lineage.prove(now, aggregated))
    await until_held(server)
    assert (await lineage.prove(now, pods)).verdict is HistoryVerdict.INTACT
    assert not hangs.done()
    hangs.cancel()
    await asyncio.wait({hangs})
    await connection.aclose()


async def test_a_silent_stream_probes_its_own_position(
    server: APIServer,
) -> None:
    """Its numbers may be near the others' and yet not of their counter."""
    connection, lineage = connect(server), Lineage()
    further = member(connection, server.resource_version)
    silent = member(connection, str(int(server.resource_version) - 1), "configmaps")
    for one in (further, silent):
        lineage.join(one)
    now = asyncio.get_running_loop().time()
    await lineage.prove(now, silent)
    await lineage.prove(now, silent, alone=True)
    assert [one.resource for one in lists(server)] == ["pods", "configmaps"]
    await connection.aclose()


async def test_a_proof_keeps_to_the_budget_for_connections(server: APIServer) -> None:
    turns = asyncio.Semaphore(0)

    async def attempt() -> None:
        await turns.acquire()

    connection, lineage = connect(server), Lineage(attempt=attempt)
    lineage.join(member(connection, server.resource_version))
    now = asyncio.get_running_loop().time()
    asking = [asyncio.create_task(lineage.prove(now)) for _ in range(20)]
    server.faults.add(Fault(verb="list", refuse=True))
    turns.release()
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {TransportError}
    assert len(lists(server)) == 1
    await connection.aclose()


async def test_a_reflector_waiting_for_its_list_proves_no_second_break(
    server: APIServer,
) -> None:
    """Its position is of the history that has ended, and further than all others."""
    async with reflecting(server) as running:
        await running.until_watching()
        reflector = running.reflector
        assert reflector.is_ordered
        server.faults.add(Fault(match=is_load, hang=True))
        reflector.on_history_broken("restored")
        await until_held(server)
        assert not reflector.is_ordered
        server.faults.release()
        await until(lambda: reflector.status().loads == 2)
        assert reflector.is_ordered


async def test_a_break_proven_by_list_and_probe_is_reported_once(server: APIServer) -> None:
    connection, lineage = connect(server), Lineage()
    finder, other = member(connection, "900"), member(connection, "5", "configmaps")
    lineage.join(finder)
    lineage.join(other)
    server.faults.add(Fault(verb="list", hang=True))
    asking = asyncio.create_task(lineage.prove(asyncio.get_running_loop().time()))
    await until_held(server)
    lineage.report_break("an older object", by=finder)
    server.faults.release()
    assert (await asking).verdict is HistoryVerdict.BROKEN
    assert (len(finder.broken), len(other.broken)) == (0, 1)
    assert lineage.status().resets == 1
    await connection.aclose()
