"""Audits find every event that was lost without a trace, name it, repair it, and never loop."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.cache.informer import core_of
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.errors import InvalidArgumentError
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import HURRIED, Hurry, Notes, listed, pod
from tests.followed import server_behind
from tests.lossy import LossyConnection, lossy_cluster
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.cache.audit import AuditReport
    from pyinformer.cache.informer import SharedInformer
    from pyinformer.testing import RequestRecord

PAGED = ReflectorOptions(rng=Hurry(), page_size=2)


async def test_an_audit_asks_whether_the_state_is_still_the_newest() -> None:
    """Of a watch side that stands still: everything was as it is cached, at that version."""
    with APIServer(replicas=2) as server:
        (replica,) = server.replicas
        server.create(pod("a"))
        async with (
            pyinformer.connect(server=replica.url) as cluster,
            pyinformer.SharedInformer(cluster, "v1", "pods") as informer,
        ):
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await until(lambda: replica.open_watches)
            server.create({**pod("a"), "kind": "ConfigMap"})
            assert (await informer.audit()).verdict == "consistent", "and bookmarks follow lists"
            replica.hold()
            server.create(pod("b"))
            report = await informer.audit()
            assert (report.verdict, report.repair) == ("inconclusive", "demanded"), report
            assert "do not follow" in report.reason
            await until(lambda: informer.lister.get("default/b"))


class Followed:
    """An informer on a connection that can lose events."""

    def __init__(self, lossy: LossyConnection, informer: SharedInformer[None]) -> None:
        self.lossy = lossy
        self.informer = informer
        self.notes = Notes()
        informer.add_event_handler(self.notes)

    def counted(self, name: str) -> dict[str, int]:
        """Return what the audits have counted, by its detail."""
        found = core_of(self.informer).caches.counts()
        return {what[1]: count for what, count in found.items() if what[0] == name}

    @property
    def loads(self) -> int:
        return self.informer.status().reflector.loads

    def cached(self) -> dict[str, tuple[str, str]]:
        return {
            str(obj.key): (obj.metadata.uid, obj.metadata.resource_version)
            for obj in self.informer.lister.list()
        }

    async def loaded_after(self, loads: int) -> None:
        await until(lambda: self.loads > loads and self.informer.state == "watching")

    async def reaches(self, version: str) -> None:
        await until(lambda: self.informer.status().position == version, what=f"at {version}")


@asynccontextmanager
async def following(
    server: APIServer,
    plural: str = "pods",
    *,
    options: ReflectorOptions = HURRIED,
    **arguments: Any,
) -> AsyncIterator[Followed]:
    """Run an informer on a connection that can lose events, synced."""
    config = pyinformer.client.ClusterConfig(server=server.url)
    async with lossy_cluster(config) as (cluster, lossy):
        informer: SharedInformer[None] = pyinformer.SharedInformer(
            cluster, "v1", plural, options=options, **arguments
        )
        followed = Followed(lossy, informer)
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await until(lambda: informer.status().reflector.state == "watching")
            yield followed


def is_audit(request: RequestRecord) -> bool:
    """Return whether this is the first page of an audit."""
    return request.query.get("resourceVersionMatch") == "Exact"


async def report_of(informer: SharedInformer[None], missing: str) -> AuditReport:
    """Wait for the report that one object is missing."""

    def is_reported() -> bool:
        last = informer.last_audit
        return last is not None and last.missing.keys == (f"default/{missing}",)

    await until(is_reported, timeout_seconds=100)
    assert informer.last_audit is not None
    return informer.last_audit


def ghost_list(version: str, *names: str) -> bytes:
    """Return a list that the server does not have."""
    items = [{"metadata": {"name": n, "namespace": "default", "uid": n}} for n in names]
    metadata = {"resourceVersion": version}
    return json.dumps({"kind": "PodList", "metadata": metadata, "items": items}).encode()


async def lose_one(server: APIServer, followed: Followed, event_type: str) -> str:
    """Let one event of a pod get lost, and another one behind it arrive; return the key."""
    name = {"ADDED": "new", "MODIFIED": "b", "DELETED": "c"}[event_type]
    loss = followed.lossy.lose(event_type, name)
    if event_type == "ADDED":
        server.create(pod(name))
    elif event_type == "MODIFIED":
        server.patch("v1", "pods", name, {"metadata": {"labels": {"x": "y"}}}, "default")
    else:
        server.delete("v1", "pods", name, "default")
    server.create(pod("behind"))
    await asyncio.wait_for(loss.happened.wait(), 10)
    await followed.notes.until_heard("add default/behind")
    return f"default/{name}"


def fill(server: APIServer, names: str = "abcde") -> None:
    """Create pods."""
    for name in names:
        server.create(pod(name))


@pytest.mark.covers(
    "client-go tools/cache: TestReflectorDataConsistencyDetector",
    "client-go util/consistencydetector: TestDataConsistencyChecker",
)
async def test_a_correct_cache_is_verified_by_metadata_alone(apiserver: APIServer) -> None:
    fill(apiserver)
    async with following(apiserver, options=PAGED) as followed:
        apiserver.clear_requests()
        report = await followed.informer.audit(timeout_seconds=100)

    assert report.is_consistent
    assert (report.checked, report.position) == (5, apiserver.resource_version)
    assert str(report) == f"pods.v1: consistent at {report.position}, 5 objects"
    assert [request.query.get("limit") for request in apiserver.requests] == ["2"] * 3
    assert all("as=PartialObjectMetadataList" in one.accept for one in apiserver.requests)
    assert followed.informer.last_audit == report
    assert followed.counted("audits") == {"consistent": 1}
    assert followed.counted("audit_mismatches") == {}


@pytest.mark.covers("client-go util/consistencydetector: TestDataConsistencyChecker")
@pytest.mark.parametrize("queue", ["direct", "real_fifo"])
@pytest.mark.parametrize(
    ("event_type", "kind"),
    [("ADDED", "missing"), ("MODIFIED", "stale"), ("DELETED", "phantom")],
)
async def test_one_lost_event_is_named_counted_and_repaired(
    apiserver: APIServer, event_type: str, kind: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    fill(apiserver)
    async with following(apiserver, options=PAGED, queue=queue) as followed:
        key = await lose_one(apiserver, followed, event_type)
        assert followed.cached() != listed(apiserver)
        loads = followed.loads

        report = await followed.informer.audit(timeout_seconds=100)

        assert (report.verdict, report.mismatches, report.repair) == ("inconsistent", 1, "demanded")
        assert getattr(report, kind).keys == (key,)
        await until(lambda: followed.cached() == listed(apiserver))
        await until(lambda: followed.notes.mirror == listed(apiserver))
        assert followed.notes.faults == []
        assert followed.loads == loads + 1
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert [key in record.getMessage() for record in errors] == [True]
        assert followed.counted("audit_mismatches")[kind] == 1
        assert (await followed.informer.audit(timeout_seconds=100)).is_consistent


async def test_an_audit_sees_its_own_scope_only(apiserver: APIServer) -> None:
    """An object that left by its labels is a phantom, though it exists; others are not compared."""
    for namespace in ("default", "kube-system"):
        for name in "ab":
            apiserver.create(pod(name, namespace=namespace, team="x"))
    apiserver.create(pod("other", team="y"))
    team_x = {"team": "x"}
    async with following(apiserver, namespaces="default", label_selector=team_x) as followed:
        assert (await followed.informer.audit(timeout_seconds=100)).checked == 2
        loss = followed.lossy.lose("DELETED", "a")
        apiserver.patch("v1", "pods", "a", {"metadata": {"labels": {"team": "z"}}}, "default")
        await asyncio.wait_for(loss.happened.wait(), 10)
        apiserver.create(pod("behind", team="x"))
        await followed.notes.until_heard("add default/behind")

        report = await followed.informer.audit(timeout_seconds=100)

        assert report.phantom.keys == ("default/a",)
        assert report.mismatches == 1
        await until(lambda: set(followed.cached()) == {"default/b", "default/behind"})


async def test_writes_during_the_pages_are_not_a_difference(apiserver: APIServer) -> None:
    fill(apiserver)
    apiserver.faults.add(Fault(match=lambda one: "continue" in one.query, hang=True))
    async with following(apiserver, options=PAGED) as followed:
        auditing = asyncio.create_task(followed.informer.audit(timeout_seconds=100))
        await asyncio.to_thread(apiserver.faults.wait_for_held)
        apiserver.delete("v1", "pods", "a", "default")
        apiserver.patch("v1", "pods", "e", {"metadata": {"labels": {"x": "y"}}}, "default")
        apiserver.delete("v1", "pods", "d", "default")
        apiserver.create(pod("d"))
        await followed.reaches(apiserver.resource_version)
        apiserver.faults.release()

        report = await auditing
        assert report.is_consistent
        assert report.checked == 5


async def test_a_partial_batch_of_one_version_is_not_a_difference() -> None:
    """Six deletions share a version; the cache has received one when the audit begins."""
    with APIServer(event_ttl_seconds=3600) as server:
        for number in range(6):
            reference = {"involvedObject": {"kind": "Pod", "name": "x", "namespace": "default"}}
            event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"e{number}"}}
            server.create({**event, **reference})
        async with following(server, "events", options=PAGED) as followed:
            followed.lossy.stop_behind("DELETED")
            assert server.expire_events() == 6
            await until(lambda: len(followed.cached()) == 5)
            server.clear_requests()
            auditing = asyncio.create_task(followed.informer.audit(timeout_seconds=100))
            await until(lambda: any(is_audit(one) and one.is_finished for one in server.requests))
            followed.lossy.flows.set()

            report = await auditing
            assert report.is_consistent
            assert report.checked == 0
            assert followed.cached() == {}


async def test_a_position_that_the_server_has_forgotten_is_listed_again(
    apiserver: APIServer,
) -> None:
    fill(apiserver)
    async with following(apiserver) as followed:
        apiserver.faults.add(Fault(match=is_audit, status=410, reason="Expired"))
        loads = followed.loads
        report = await followed.informer.audit(timeout_seconds=100)

        assert (report.verdict, report.repair) == ("inconclusive", "demanded")
        assert "410" in report.reason
        await until(lambda: followed.loads == loads + 1)


@pytest.mark.covers("client-go util/consistencydetector: TestDataConsistencyChecker")
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        pytest.param({"body": ghost_list("999", "g")}, "answered at 999", id="another-version"),
        pytest.param({"body": ghost_list("", "g")}, "resourceVersion is missing", id="no-version"),
        pytest.param({"body": b'{"kind":"PodList",'}, "cut off", id="cut-off"),
        pytest.param({"body": ghost_list("8", "")}, "without a name", id="nameless-item"),
        pytest.param({"status": 403}, "403", id="refused"),
        pytest.param({"status": 500}, "500", id="broken"),
        pytest.param({"status": 400}, "400", id="exact-not-understood"),
        pytest.param({"refuse": True}, "", id="unreachable"),
    ],
)
async def test_without_an_exact_list_an_audit_is_inconclusive(
    apiserver: APIServer, fault: dict[str, Any], reason: str
) -> None:
    """Aggregated servers ignore Exact or do not know it: no repair, however often one asks."""
    fill(apiserver, "abc")
    apiserver.faults.add(Fault(match=is_audit, times=None, **fault))
    async with following(apiserver) as followed:
        loads = followed.loads
        for _ in range(5):
            report = await followed.informer.audit(timeout_seconds=100)
            assert (report.verdict, report.repair) == ("inconclusive", "none")
            assert reason in report.reason

        assert followed.loads == loads
        assert followed.informer.has_synced


async def test_a_position_in_the_future_makes_an_audit_request_a_history_check(
    apiserver: APIServer,
) -> None:
    """The watch that was resumed at such a position is silent: the audit is the first to know."""
    fill(apiserver)
    async with following(apiserver) as followed:
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "code": 504,
            "reason": "Timeout",
            "details": {"causes": [{"reason": "ResourceVersionTooLarge", "message": "too large"}]},
        }
        body = json.dumps(status).encode()
        apiserver.faults.add(Fault(match=is_audit, status=504, body=body))
        loads = followed.loads
        report = await followed.informer.audit(timeout_seconds=100)

        assert (report.verdict, report.repair) == ("inconclusive", "none")
        await until(lambda: server_behind(followed.informer.cluster).lineage.status().proofs == 1)
        assert followed.loads == loads


async def test_a_restore_without_a_witness_is_found_by_the_audit(
    apiserver: APIServer,
) -> None:
    """Nothing that was cached is another in the new history, and it has passed the position."""
    fill(apiserver, "a")
    async with following(apiserver) as followed:
        saved = apiserver.save()
        apiserver.advance_resource_version(20)  # by writes of what is not followed
        apiserver.send_bookmarks()
        await followed.reaches(apiserver.resource_version)
        apiserver.stop_accepting()
        apiserver.drop_connections()
        apiserver.restore(saved)
        apiserver.create(pod("b"))  # at a version that the watch will not go back to
        apiserver.advance_resource_version(50)
        apiserver.accept_again()
        lineage = server_behind(followed.informer.cluster).lineage
        await until(lambda: lineage.status().proofs and followed.informer.state == "watching")
        assert lineage.status().resets == 0
        assert followed.cached().keys() == {"default/a"}

        report = await followed.informer.audit(timeout_seconds=100)
        assert report.missing.keys == ("default/b",)
        await followed.notes.until_heard("add default/b")
        assert followed.cached().keys() == {"default/a", "default/b"}


async def test_differences_that_no_list_cures_are_reported_and_not_repaired_again(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """What the server lists at this version and in no other way would be repaired in a loop."""
    fill(apiserver, "a")
    async with following(apiserver) as followed:
        ghost = ghost_list(followed.informer.status().position, "g")
        apiserver.faults.add(Fault(match=is_audit, times=None, body=ghost))
        repairs: list[str] = []
        for _ in range(4):
            loads = followed.loads
            report = await followed.informer.audit(timeout_seconds=100)
            assert report.missing.keys == ("default/g",)
            repairs.append(report.repair)
            if report.repair == "demanded":
                await followed.loaded_after(loads)

        assert repairs == ["demanded", "withheld", "withheld", "withheld"]
        assert "not cured" in report.reason


async def test_repairs_that_no_program_asks_for_are_few_within_ten_minutes(
    apiserver: APIServer,
) -> None:
    fill(apiserver, "a")
    async with following(apiserver, audit_period_seconds=1.0) as followed:
        informer, repairs = followed.informer, list[str]()
        for number in range(5):
            loads, ghost = followed.loads, f"g{number}"
            ghosts = ghost_list(informer.status().position, ghost)
            apiserver.faults.add(Fault(match=is_audit, times=None, body=ghosts))
            report = await report_of(informer, ghost)
            apiserver.faults.clear()
            repairs.append(report.repair)
            if report.repair == "demanded":
                await followed.loaded_after(loads)

        assert repairs == ["demanded"] * 3 + ["withheld"] * 2
        assert "3 repairs within 10 minutes" in report.reason
        assert followed.loads == 4  # the first, and three

        ghosts = ghost_list(informer.status().position, "another")
        apiserver.faults.add(Fault(match=is_audit, times=None, body=ghosts))
        assert (await informer.audit(timeout_seconds=100)).repair == "demanded"
        apiserver.faults.clear()
        await followed.loaded_after(4)


async def test_a_cancelled_audit_drops_its_request_and_repairs_nothing(
    apiserver: APIServer,
) -> None:
    fill(apiserver)
    async with following(apiserver, options=PAGED) as followed:
        await lose_one(apiserver, followed, "DELETED")
        apiserver.faults.add(Fault(match=lambda one: "continue" in one.query, hang=True))
        loads = followed.loads
        auditing = asyncio.create_task(followed.informer.audit(timeout_seconds=100))
        await asyncio.to_thread(apiserver.faults.wait_for_held)
        auditing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await auditing

        await until(lambda: apiserver.faults.held == 0)
        assert followed.informer.last_audit is None
        assert followed.loads == loads
        assert (await followed.informer.audit(timeout_seconds=100)).mismatches == 1


async def test_an_audit_that_takes_too_long_is_inconclusive(apiserver: APIServer) -> None:
    fill(apiserver)
    apiserver.faults.add(Fault(match=is_audit, hang=True))
    async with following(apiserver) as followed:
        report = await followed.informer.audit(timeout_seconds=0.3)

        assert report.verdict == "inconclusive"
        assert report.reason == "not within 0.3 s; the informer is watching"
        apiserver.faults.release()


async def test_an_audit_waits_until_the_watch_runs(apiserver: APIServer) -> None:
    fill(apiserver)
    async with following(apiserver) as followed:
        apiserver.stop_accepting()
        apiserver.drop_connections()
        await until(lambda: followed.informer.state != "watching")
        report = await followed.informer.audit(timeout_seconds=0.2)
        assert report.verdict == "inconclusive"

        auditing = asyncio.create_task(followed.informer.audit(timeout_seconds=100))
        apiserver.accept_again()
        assert (await auditing).is_consistent


async def test_a_periodic_audit_repairs(apiserver: APIServer) -> None:
    fill(apiserver)
    async with following(apiserver, audit_period_seconds=1.0) as followed:
        key = await lose_one(apiserver, followed, "DELETED")
        await until(lambda: followed.cached() == listed(apiserver), timeout_seconds=100)
        await until(lambda: "delete " + key in followed.notes.heard)
        report = followed.informer.last_audit
        assert report is not None
        assert report.cause == "due"


async def test_audits_run_only_when_configured_or_suspected(apiserver: APIServer) -> None:
    fill(apiserver)
    async with following(apiserver) as followed:
        apiserver.create(pod("x"))
        await followed.notes.until_heard("add default/x")

    assert not any(is_audit(request) for request in apiserver.requests)


async def test_a_suspicion_forces_one_audit(apiserver: APIServer) -> None:
    fill(apiserver)
    async with following(apiserver) as followed:
        key = await lose_one(apiserver, followed, "DELETED")
        for _ in range(3):
            core_of(followed.informer).caches.all[0].auditor.suspect_nowait(
                "an event older than the position"
            )
        await until(lambda: followed.cached() == listed(apiserver), timeout_seconds=100)
        report = followed.informer.last_audit
        assert report is not None
        assert report.cause == "an event older than the position"
        assert report.phantom.keys == (key,)
        assert sum(is_audit(request) for request in apiserver.requests) == 1


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 0.5, True])
async def test_an_invalid_period_is_refused(apiserver: APIServer, seconds: float) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(InvalidArgumentError, match="audit_period_seconds"):
            pyinformer.SharedInformer(cluster, "v1", "pods", audit_period_seconds=seconds)
        with pytest.raises(InvalidArgumentError, match="audit_period_seconds"):
            pyinformer.SharedInformerFactory(cluster, audit_period_seconds=seconds)


async def test_informers_take_the_period_of_their_factory(apiserver: APIServer) -> None:
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        pyinformer.SharedInformerFactory(cluster, audit_period_seconds=60.0) as factory,
    ):
        periods = [
            factory.informer("v1", "pods").settings.audit_period_seconds,
            factory.informer("v1", "nodes", audit_period_seconds=0).settings.audit_period_seconds,
        ]
        assert periods == [60.0, 0.0]
        with pytest.raises(pyinformer.errors.InformerConflictError, match="audit_period_seconds"):
            factory.informer("v1", "nodes", audit_period_seconds=30.0)


async def test_only_a_running_informer_can_be_audited(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        informer = pyinformer.SharedInformer(cluster, "v1", "pods")
        with pytest.raises(pyinformer.errors.LifecycleError):
            await informer.audit()
        async with informer:
            with pytest.raises(InvalidArgumentError, match="timeout_seconds"):
                await informer.audit(timeout_seconds=-1)


async def test_many_differences_are_counted_and_few_are_named(apiserver: APIServer) -> None:
    rng = random.Random(0)
    names = [f"p{number:03}" for number in range(300)]
    for name in names:
        apiserver.create(pod(name))
    async with following(apiserver) as followed:
        lost = sorted(rng.sample(names, 150))
        losses = [followed.lossy.lose("DELETED", name) for name in lost]
        for name in lost:
            apiserver.delete("v1", "pods", name, "default")
        for loss in losses:
            await asyncio.wait_for(loss.happened.wait(), 10)
        apiserver.create(pod("behind"))
        await followed.notes.until_heard("add default/behind")

        report = await followed.informer.audit(timeout_seconds=100)

        assert (report.phantom.count, len(report.phantom.keys)) == (150, 100)
        assert followed.counted("audit_mismatches")["phantom"] == 150
        assert str(report).count("default/") == 10
        await until(lambda: followed.cached() == listed(apiserver))


async def test_an_object_that_is_nested_deeply_is_compared_too(apiserver: APIServer) -> None:
    """Its managedFields are as deep as it is, and come with the metadata that is asked for."""
    fill(apiserver, "a")
    value = b'{"f:a":' * 9_994 + b"1" + b"}" * 9_994
    head = b'{"kind":"PodList","metadata":{"resourceVersion":"%s"},"items":[{"metadata":{%s}}]}'
    meta = b'"managedFields":[{"fieldsV1":%s}],"name":"deep","namespace":"default","uid":"u"'
    async with following(apiserver) as followed:
        body = head % (apiserver.resource_version.encode(), meta % value)
        apiserver.faults.add(Fault(match=is_audit, body=body))
        report = await followed.informer.audit(timeout_seconds=100)

        assert report.verdict == "inconsistent"
        assert report.missing.keys == ("default/deep",)
        assert report.phantom.keys == ("default/a",)
