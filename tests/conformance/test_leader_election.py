"""Upstream's tests of tools/leaderelection, under their names, against this elector.

docs/reference/conformance-differences.md has what differs, and which tests are not applicable and
why. Requests go to a World; where upstream scripts a fake client, a line of the replica is
scripted. Time is virtual.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pyinformer.controllerutil import EventRecorder
from pyinformer.errors import ConflictError, InvalidArgumentError, TransportError
from pyinformer.leaderelection import LeaderElectionOptions, LeaderElector, Term, WrittenVersions
from pyinformer.leaderelection._election import Election, Finished, Read, Wait, Write
from pyinformer.leaderelection._lease import acquired, new_lease, read_lease, released, renewed
from pyinformer.metrics import MetricsRegistry
from pyinformer.operator import Health
from pyinformer.testing import World
from tests.leaderelection.electing import Replica
from tests.metrics.reading import collected
from tests.waiting import now, pause

_OPTIONS = LeaderElectionOptions(
    lease_duration_seconds=15.0, renew_deadline_seconds=2.0, retry_period_seconds=1.0
)


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time."""
    with World(virtual_time=True) as world:
        yield world


def _lease(holder: str | None, *, seconds: int | None = None, version: str = "1") -> Any:
    spec: dict[str, Any] = {}
    if holder is not None:
        spec["holderIdentity"] = holder
    if seconds is not None:
        spec["leaseDurationSeconds"] = seconds
    metadata = {"name": "bar", "namespace": "foo", "uid": "u", "resourceVersion": version}
    return read_lease({"metadata": metadata, "spec": spec})


def _election() -> Election:
    options = LeaderElectionOptions(lease_duration_seconds=10.0, renew_deadline_seconds=5.0)
    return Election("bar", "foo", identity="baz", options=options, rng=random.Random(0))


def _answered(election: Election, write: Write, at: float) -> None:
    version = write.body["metadata"].get("resourceVersion", "0")
    metadata = {**write.body["metadata"], "uid": "u", "resourceVersion": str(int(version) + 1)}
    election.on_lease(read_lease({**write.body, "metadata": metadata}), at)


@dataclass(frozen=True)
class _Case:
    found: Any
    """The Lease that a read finds; None if it does not exist."""
    takes_at: float | None
    """When it is taken; None if not within 9 s."""
    transitions: int = 0


@pytest.mark.covers("client-go tools/leaderelection: TestTryAcquireOrRenewLeases")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(_Case(None, 0.0), id="acquire from no object"),
        # Upstream takes these at once; here a holder that did not release may have been removed.
        pytest.param(_Case(_lease(None), 10.0, 1), id="acquire from object without annotations"),
        pytest.param(
            _Case(_lease("bing", seconds=3), 3.0, 1),
            id="acquire from led object with the lease duration seconds",
        ),
        pytest.param(_Case(_lease(""), 10.0, 1), id="acquire from unled object"),
        # Upstream takes a Lease of unknown duration at once; here it counts as one of our own.
        pytest.param(_Case(_lease("bing"), 10.0, 1), id="acquire from led, unacked object"),
        pytest.param(
            _Case(_lease("", seconds=1), 0.0, 1), id="acquire from empty led, acked object"
        ),
        pytest.param(_Case(_lease("bing", seconds=60), None), id="don't acquire from led, acked"),
    ],
)
def test_try_acquire_or_renew_leases(case: _Case) -> None:
    """TestTryAcquireOrRenewLeases."""
    election = _election()
    assert isinstance(election.next_step(0.0, 0.0), Read)
    if case.found is None:
        election.on_absent(0.0)
    else:
        election.on_lease(case.found, 0.0)
    if case.takes_at is None:
        assert isinstance(election.next_step(50.0, 50.0), Wait)
        assert election.lease is not None
        assert election.lease.holder == "bing"
        return
    if case.takes_at:
        assert isinstance(election.next_step(case.takes_at - 0.001, 0.0), Wait)
    write = election.next_step(case.takes_at, 0.0)
    assert isinstance(write, Write)
    assert write.creates is (case.found is None)
    _answered(election, write, case.takes_at)
    assert election.lease is not None
    assert (election.lease.holder, election.lease.transitions) == ("baz", case.transitions)
    assert election.tenure is not None


@pytest.mark.covers("client-go tools/leaderelection: TestTryAcquireOrRenewLeases")
def test_try_acquire_or_renew_leases_renews_an_object_that_it_has_acquired() -> None:
    """TestTryAcquireOrRenewLeases, its case "renew already acquired object"."""
    election = _election()
    election.next_step(0.0, 0.0)
    election.on_absent(0.0)
    write = election.next_step(0.0, 0.0)
    assert isinstance(write, Write)
    _answered(election, write, 0.0)
    renewal = election.next_step(2.0, 2.0)
    assert isinstance(renewal, Write)
    assert not renewal.acquires
    assert renewal.body["spec"]["leaseTransitions"] == 0
    assert renewal.body["spec"]["acquireTime"] == write.body["spec"]["acquireTime"]
    assert renewal.body["spec"]["renewTime"] != write.body["spec"]["renewTime"]


@pytest.mark.covers(
    "client-go tools/leaderelection: TestLeaseSpecToLeaderElectionRecordRoundTrip",
    "client-go tools/leaderelection/resourcelock: TestLeaseConversion",
)
def test_lease_spec_to_leader_election_record_round_trip() -> None:
    """TestLeaseSpecToLeaderElectionRecordRoundTrip, and TestLeaseConversion."""
    body = acquired(
        new_lease("bar", "foo"), holder="foo", duration_seconds=10.0, at=1.5, transitions=1
    )
    record = read_lease(body)
    assert (record.holder, record.duration_seconds, record.transitions) == ("foo", 10.0, 1)
    again = renewed(record, duration_seconds=10.0, at=1.5)
    assert again["spec"] == body["spec"]
    assert read_lease(again).marker == record.marker


@pytest.mark.covers("client-go tools/leaderelection: TestReleaseLeaseLeases")
def test_release_lease_leases(world: World) -> None:
    """TestReleaseLeaseLeases."""

    async def scenario() -> None:
        heard: list[str] = []
        one = Replica(world, "baz", on_new_leader=heard.append)
        one.start()
        await one.leads.wait()
        await one.stop()
        lease = await _stored(world)
        assert lease["spec"]["holderIdentity"] == ""
        assert lease["spec"]["leaseDurationSeconds"] == 1
        assert lease["spec"]["leaseTransitions"] == 0
        assert heard == ["baz"]

    world.run(scenario)


async def _stored(world: World) -> dict[str, Any]:
    found = await world.cluster.get("coordination.k8s.io/v1", "leases", "default/db-operator")
    return found.to_dict()


@pytest.mark.covers("client-go tools/leaderelection: TestReleaseMethodCallsGet")
def test_release_method_calls_get() -> None:
    """TestReleaseMethodCallsGet: not a read, but the version that is known to be ours.

    Upstream reads before it releases, and so releases a successor's Lease. Here a release names the
    version of the last own write, and reads only if that is not the Lease's any more.
    """
    election = _leading()
    election.release(1.0, None)
    release = election.next_step(1.0, 1.0)
    assert isinstance(release, Write)
    assert release.body["metadata"]["resourceVersion"] == "1"
    election.on_conflict(1.0)
    assert isinstance(election.next_step(1.0, 1.0), Read)
    election.on_lease(_lease("successor", seconds=15, version="5"), 1.0)
    assert isinstance(election.next_step(1.0, 1.0), Finished)  # it is not ours to release


def _leading() -> Election:
    election = _election()
    election.next_step(0.0, 0.0)
    election.on_absent(0.0)
    write = election.next_step(0.0, 0.0)
    assert isinstance(write, Write)
    _answered(election, write, 0.0)
    return election


@pytest.mark.covers("client-go tools/leaderelection: TestReleaseRetriesOnConflict")
def test_release_retries_on_conflict() -> None:
    """TestReleaseRetriesOnConflict: a renewal that was lost on its way back has landed."""
    election = _leading()
    renewal = election.next_step(2.0, 2.0)
    assert isinstance(renewal, Write)
    election.on_failure(4.5)
    election.release(4.5, None)
    release = election.next_step(4.5, 4.5)
    assert isinstance(release, Write)
    election.on_conflict(4.5)
    assert isinstance(election.next_step(4.5, 4.5), Read)
    metadata = {**renewal.body["metadata"], "uid": "u", "resourceVersion": "2"}
    election.on_lease(read_lease({**renewal.body, "metadata": metadata}), 4.5)
    again = election.next_step(4.5, 4.5)
    assert isinstance(again, Write)
    assert again.body["metadata"]["resourceVersion"] == "2"
    assert again.body["spec"]["holderIdentity"] == ""
    _answered(election, again, 4.5)
    assert isinstance(election.next_step(4.5, 4.5), Finished)


@pytest.mark.covers("client-go tools/leaderelection: TestReleaseOnCancellation_Leases")
@pytest.mark.parametrize("verb", ["PUT", "GET"], ids=["of update", "of get"])
def test_release_on_cancellation_leases(world: World, verb: str) -> None:
    """TestReleaseOnCancellation_Leases: a request is under way when the elector is stopped."""

    async def scenario() -> None:
        recorder = EventRecorder(world.cluster, "test")
        one = Replica(world, "baz", options=_OPTIONS, recorder=recorder)
        called, resume = asyncio.Event(), asyncio.Event()

        async def script(method: str) -> None:
            if method == "PUT" and verb == "GET" and not called.is_set():
                raise ConflictError(status=409, reason="Conflict")
            if method == verb and not called.is_set():
                called.set()
                await resume.wait()
                raise TransportError("lease", "cut off")

        async with recorder:
            one.start()
            await one.leads.wait()
            one.line.before = script
            await called.wait()
            assert one.task is not None
            one.task.cancel()
            resume.set()
            await asyncio.wait([one.task])
            assert (await _stored(world))["spec"]["holderIdentity"] == ""

    world.run(scenario)
    events = world.list("events.k8s.io/v1", "events", "default")
    notes = [(one["type"], one["reason"], one["note"]) for one in events]
    assert sorted(notes) == [
        ("Normal", "LeaderElection", "baz became leader"),
        ("Normal", "LeaderElection", "baz stopped leading"),
    ]


@pytest.mark.covers("client-go tools/leaderelection: TestLeaderElectionConfigValidation")
def test_leader_election_config_validation(world: World) -> None:
    """TestLeaderElectionConfigValidation."""
    LeaderElector(world.cluster, "bar", namespace="foo", identity="baz", options=_OPTIONS)
    with pytest.raises(InvalidArgumentError, match="identity: must be a non-empty string"):
        LeaderElector(world.cluster, "bar", namespace="foo", identity="", options=_OPTIONS)


@pytest.mark.covers("client-go tools/leaderelection: TestLeaderElectionConfigValidation")
@pytest.mark.parametrize(
    ("argument", "settings", "text"),
    [
        pytest.param(
            "lease_duration_seconds",
            {"lease_duration_seconds": 10.0},
            "must be greater than renew_deadline_seconds=10, got 10",
            id="lease-not-above-renew",
        ),
        pytest.param(
            "renew_deadline_seconds",
            {"renew_deadline_seconds": 6.0, "retry_period_seconds": 5.0},
            r"must be greater than 1\.2 \* retry_period_seconds = 6, got 6",
            id="renew-not-above-retry",
        ),
        pytest.param(
            "retry_period_seconds", {"retry_period_seconds": 0.0}, "at least 1 s", id="no-retry"
        ),
        pytest.param(
            "lease_duration_seconds",
            {"lease_duration_seconds": 15.5},
            "must be whole seconds, got 15.5",
            id="fraction",
        ),
        pytest.param(
            "renew_deadline_seconds", {"renew_deadline_seconds": -1.0}, ">= 0", id="negative"
        ),
    ],
)
def test_leader_election_config_validation_of_durations(
    argument: str, settings: dict[str, float], text: str
) -> None:
    """TestLeaderElectionConfigValidation: the durations, which upstream does not test."""
    with pytest.raises(InvalidArgumentError, match=text) as caught:
        LeaderElectionOptions(**settings)
    assert caught.value.argument == argument


@pytest.mark.covers("client-go tools/leaderelection: TestFastPathLeaderElection")
@pytest.mark.parametrize(
    ("conflicts", "expected"),
    [
        pytest.param(False, ["GET", "POST", "PUT", "PUT"], id="fast path after lock acquired"),
        pytest.param(
            True,
            ["GET", "POST", "PUT", "PUT", "GET", "PUT", "PUT"],
            id="fallback to slow path after fast path fails",
        ),
    ],
)
def test_fast_path_leader_election(world: World, conflicts: bool, expected: list[str]) -> None:
    """TestFastPathLeaderElection."""

    async def scenario() -> None:
        metrics = MetricsRegistry()
        one = Replica(world, "baz", options=_OPTIONS, metrics=metrics)
        updates = 0

        async def script(method: str) -> None:
            nonlocal updates
            updates += method == "PUT"
            if method == "PUT" and updates == 2 and conflicts:
                raise ConflictError(status=409, reason="Conflict", message="fake conflict")

        one.line.before = script
        one.start()
        await pause(len(expected) + 1.0)
        sent = [call[1] for call in one.line.calls if call[1] in {"GET", "POST", "PUT"}]
        assert sent[: len(expected)] == expected
        upstream = ("leader_election_slowpath_total", "leader_election_master_status")
        assert collected(metrics, *upstream) == {
            'leader_election_slowpath_total{name="db-operator"}': int(conflicts),
            'leader_election_master_status{name="db-operator"}': 1.0,
        }
        await one.stop()
        assert collected(metrics, *upstream) == {}  # upstream has 0 then

    world.run(scenario)


@pytest.mark.covers("client-go tools/leaderelection: TestCheckMethodRace")
def test_check_method_race(world: World) -> None:
    """TestCheckMethodRace: a term is checked by a thread while it is renewed."""

    async def scenario() -> None:
        one = Replica(world, "baz", options=_OPTIONS)
        one.start()
        await one.leads.wait()
        refused: list[BaseException] = []
        thread = threading.Thread(target=_check_often, args=(one.terms[0], refused))
        thread.start()
        await pause(20)
        thread.join()
        assert refused == []
        await one.stop()

    world.run(scenario)


def _check_often(term: Term, refused: list[BaseException]) -> None:
    try:
        for _ in range(2000):
            term.check()
    except BaseException as error:
        refused.append(error)


@dataclass(frozen=True)
class _Elector:
    """What a Health reads of an elector."""

    is_overdue: bool

    def status(self) -> Any:
        """Return a status of that kind."""
        from pyinformer.leaderelection import LeaderElectionStatus

        return LeaderElectionStatus(
            lease="foo/bar",
            identity="baz",
            is_leading=False,
            holder="baz",
            transitions=0,
            terms=1,
            renewed_seconds=20.0 if self.is_overdue else 1.0,
            is_overdue=self.is_overdue,
            is_watching=True,
            last_error="",
        )


@pytest.mark.covers("client-go tools/leaderelection: TestLeaderElectionHealthChecker")
@pytest.mark.parametrize("is_overdue", [True, False])
def test_leader_election_health_checker(is_overdue: bool) -> None:
    """TestLeaderElectionHealthChecker."""
    verdict = Health(_Elector(is_overdue)).live()
    assert bool(verdict) is not is_overdue
    if is_overdue:
        assert "leads without a renewal of the Lease foo/bar" in verdict.reasons[0]


@pytest.mark.covers("client-go tools/leaderelection: TestLeaderElectionHealthChecker")
def test_leader_election_health_checker_reads_an_elector(world: World) -> None:
    """TestLeaderElectionHealthChecker, with an elector: only work without renewal is overdue."""

    async def scenario() -> None:
        one, two = Replica(world, "baz", options=_OPTIONS), Replica(world, "b", options=_OPTIONS)
        health = Health(one.elector, two.elector)
        assert health.live()
        stuck = asyncio.Event()

        async def lead(term: Any) -> None:
            one.leads.set()
            while not stuck.is_set():
                try:
                    await stuck.wait()
                except asyncio.CancelledError:
                    continue

        task = asyncio.create_task(one.elector.run(lead))
        await one.leads.wait()
        two.start()
        await pause(5)
        assert health.live()
        one.line.is_down = True
        await pause(14)
        assert health.live()
        await pause(3)
        assert not health.live()
        stuck.set()
        await pause(1)
        assert not one.elector.status().is_overdue
        await two.stop()
        task.cancel()
        await asyncio.wait([task])

    world.run(scenario)


# tools/leaderelection/resourcelock/leaselock_test.go


@pytest.mark.covers("client-go tools/leaderelection/resourcelock: TestGetError")
def test_get_error() -> None:
    """TestGetError: a Lease that does not exist is created."""
    election = _election()
    election.next_step(0.0, 0.0)
    election.on_absent(0.0)
    write = election.next_step(0.0, 0.0)
    assert isinstance(write, Write)
    assert write.creates


@pytest.mark.covers("client-go tools/leaderelection/resourcelock: TestGet")
def test_get() -> None:
    """TestGet."""
    record = read_lease(
        {
            "metadata": {"uid": "u", "resourceVersion": "3"},
            "spec": {
                "holderIdentity": "h",
                "leaseDurationSeconds": 15,
                "leaseTransitions": 3,
                "acquireTime": "2026-01-02T03:04:05.000006Z",
                "renewTime": "2026-01-02T03:04:06.000006Z",
            },
        }
    )
    assert (record.holder, record.transitions) == ("h", 3)
    assert record.acquire_time == "2026-01-02T03:04:05.000006Z"
    assert record.renew_time == "2026-01-02T03:04:06.000006Z"
    assert record.duration_seconds == 15.0


@pytest.mark.covers(
    "client-go tools/leaderelection/resourcelock: TestRecordEventSuccess",
    "client-go tools/leaderelection/resourcelock: TestRecordEventNilRecorder",
)
@pytest.mark.parametrize("has_recorder", [True, False], ids=["success", "nil recorder"])
def test_record_event(world: World, has_recorder: bool) -> None:
    """TestRecordEventSuccess and TestRecordEventNilRecorder."""

    async def scenario() -> None:
        recorder = EventRecorder(world.cluster, "test")
        one = Replica(world, "identity", recorder=recorder if has_recorder else None)
        async with recorder:
            one.start()
            await one.leads.wait()
            one.line.is_down = True
        await one.stop()

    world.run(scenario)
    notes = [one["note"] for one in world.list("events.k8s.io/v1", "events", "default")]
    assert notes == (["identity became leader"] if has_recorder else [])


@pytest.mark.covers("client-go tools/leaderelection/resourcelock: TestCreateError")
def test_create_error(world: World) -> None:
    """TestCreateError: another replica created the Lease first."""

    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        both_read = asyncio.Event()
        reads = 0

        async def script(method: str) -> None:
            nonlocal reads
            if method == "POST":
                reads += 1
                if reads == 2:
                    both_read.set()
                await both_read.wait()

        one.line.before = two.line.before = script
        one.start()
        two.start()
        await pause(20)
        assert len(one.terms) + len(two.terms) == 1
        await one.stop()
        await two.stop()

    world.run(scenario)


@pytest.mark.covers("client-go tools/leaderelection/resourcelock: TestUpdateError")
def test_update_error() -> None:
    """TestUpdateError: nothing is written before the Lease was read."""
    assert isinstance(_election().next_step(0.0, 0.0), Read)


@pytest.mark.covers("client-go tools/leaderelection/resourcelock: TestDescribe")
def test_describe(world: World) -> None:
    """TestDescribe."""
    elector = LeaderElector(world.cluster, "bar", namespace="foo")
    assert elector.lease == "foo/bar"


@pytest.mark.covers(
    "client-go tools/leaderelection/resourcelock: TestUpdateWithNilLabelsOnLease",
    "client-go tools/leaderelection/resourcelock: TestUpdateWithNilLabelsOnLeaseLock",
)
def test_update_with_nil_labels_on_lease() -> None:
    """TestUpdateWithNilLabelsOnLease, and TestUpdateWithNilLabelsOnLeaseLock."""
    written = WrittenVersions(transitions=0, versions={})
    body = released(_lease("baz"), at=0.0, written=written)
    assert "labels" not in body["metadata"]
    assert "labels" not in renewed(read_lease(body), duration_seconds=15.0, at=0.0)["metadata"]


@pytest.mark.covers("client-go tools/leaderelection/resourcelock: TestLabelUpdate")
def test_label_update(world: World) -> None:
    """TestLabelUpdate: labels that others set are kept; the elector has none of its own."""

    async def scenario() -> None:
        one = Replica(world, "baz", options=_OPTIONS)
        one.start()
        await one.leads.wait()
        lease = await world.cluster.get("coordination.k8s.io/v1", "leases", "default/db-operator")
        edited = lease.to_dict()
        edited["metadata"]["labels"] = {"custom-key": "custom-val"}
        await world.cluster.patch(lease, edited)
        began_at = now()
        await pause(10)
        stored = await _stored(world)
        assert stored["metadata"]["labels"] == {"custom-key": "custom-val"}
        assert len(one.terms) == 1  # a foreign label does not end a term
        assert now() > began_at
        await one.stop()
        assert (await _stored(world))["metadata"]["labels"] == {"custom-key": "custom-val"}

    world.run(scenario)
