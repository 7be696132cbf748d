"""Upstream's tests of tools/leaderelection, under their names, against this elector.

docs/reference/conformance-differences.md has what differs, and which tests are not applicable and
why. Requests go to a World; where upstream scripts a fake client, a line of the replica is
scripted. Time is virtual.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pyinformer.controller.conventions import EventRecorder
from pyinformer.errors import ConflictError, InvalidArgumentError, TransportError
from pyinformer.leaderelection import LeaderElectionOptions, LeaderElector, Term
from pyinformer.operator import Health
from pyinformer.telemetry.metrics import MetricsRegistry
from pyinformer.testing import World
from tests.leaderelection.electing import Replica
from tests.telemetry.metrics.reading import collected
from tests.waiting import now, pause

_OPTIONS = LeaderElectionOptions(
    lease_duration_seconds=15.0, renew_deadline_seconds=2.0, retry_period_seconds=1.0
)


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time."""
    with World(virtual_time=True) as world:
        yield world


_TEN_SECONDS = LeaderElectionOptions(lease_duration_seconds=10.0, renew_deadline_seconds=5.0)
_LEASES = ("coordination.k8s.io/v1", "leases")
_KEY = "default/db-operator"


async def _create(world: World, spec: dict[str, Any]) -> None:
    """Create the Lease as another program has left it."""
    metadata = {"name": "db-operator", "namespace": "default"}
    await world.cluster.create(
        {"apiVersion": _LEASES[0], "kind": "Lease", "metadata": metadata, "spec": spec}
    )


async def _write(world: World, **spec: Any) -> None:
    """Write the Lease as another program does."""
    known = await world.cluster.get(*_LEASES, _KEY)
    await world.cluster.patch(
        known, {**known.to_dict(), "spec": {**known.to_dict()["spec"], **spec}}
    )


async def _stored(world: World) -> dict[str, Any]:
    return (await world.cluster.get(*_LEASES, _KEY)).to_dict()


def _verbs(one: Replica) -> list[str]:
    """Return which requests it sent, without those that follow the Lease."""
    return [verb for _, verb, _ in one.line.calls if verb in {"GET", "POST", "PUT"}]


@dataclass(frozen=True)
class _Case:
    found: dict[str, Any] | None
    """The spec of the Lease that a read finds; None if it does not exist."""
    takes_at: float | None
    """When it is taken; None if not within 50 s."""
    transitions: int = 0


@pytest.mark.covers("client-go tools/leaderelection: TestTryAcquireOrRenewLeases")
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(_Case(None, 0.0), id="acquire from no object"),
        # Upstream takes these at once; here a holder that did not release may have been removed.
        pytest.param(_Case({}, 10.0, 1), id="acquire from object without annotations"),
        pytest.param(
            _Case({"holderIdentity": "bing", "leaseDurationSeconds": 3}, 3.0, 1),
            id="acquire from led object with the lease duration seconds",
        ),
        pytest.param(_Case({"holderIdentity": ""}, 10.0, 1), id="acquire from unled object"),
        # Upstream takes a Lease of unknown duration at once; here it counts as one of our own.
        pytest.param(
            _Case({"holderIdentity": "bing"}, 10.0, 1), id="acquire from led, unacked object"
        ),
        pytest.param(
            _Case({"holderIdentity": "", "leaseDurationSeconds": 1}, 0.0, 1),
            id="acquire from empty led, acked object",
        ),
        pytest.param(
            _Case({"holderIdentity": "bing", "leaseDurationSeconds": 60}, None),
            id="don't acquire from led, acked",
        ),
    ],
)
def test_try_acquire_or_renew_leases(world: World, case: _Case) -> None:
    """TestTryAcquireOrRenewLeases."""

    async def scenario() -> None:
        if case.found is not None:
            await _create(world, case.found)
        one = Replica(world, "baz", options=_TEN_SECONDS)
        one.start()
        await pause(50)
        assert one.began_at == ([] if case.takes_at is None else [case.takes_at])
        writes = [verb for verb in _verbs(one) if verb != "GET"]
        stored = (await _stored(world))["spec"]
        if case.takes_at is None:
            assert (stored, writes) == (case.found, [])
            assert one.elector.status().holder == "bing"
        else:
            assert (stored["holderIdentity"], stored["leaseTransitions"]) == (
                "baz",
                case.transitions,
            )
            assert writes[0] == ("POST" if case.found is None else "PUT")
        await one.stop()

    world.run(scenario)


@pytest.mark.covers("client-go tools/leaderelection: TestTryAcquireOrRenewLeases")
def test_try_acquire_or_renew_leases_renews_an_object_that_it_has_acquired(world: World) -> None:
    """TestTryAcquireOrRenewLeases, its case "renew already acquired object"."""

    async def scenario() -> None:
        one = Replica(world, "baz", options=_TEN_SECONDS)
        one.start()
        await one.leads.wait()
        acquired = (await _stored(world))["spec"]
        await pause(2.5)
        renewed = (await _stored(world))["spec"]
        assert _verbs(one) == ["GET", "POST", "PUT"]
        assert renewed["renewTime"] != acquired["renewTime"]
        assert renewed == {**acquired, "renewTime": renewed["renewTime"]}
        assert acquired["leaseTransitions"] == 0
        await one.stop()

    world.run(scenario)


@pytest.mark.covers(
    "client-go tools/leaderelection: TestLeaseSpecToLeaderElectionRecordRoundTrip",
    "client-go tools/leaderelection/resourcelock: TestLeaseConversion",
)
def test_lease_spec_to_leader_election_record_round_trip(world: World) -> None:
    """TestLeaseSpecToLeaderElectionRecordRoundTrip, and TestLeaseConversion."""

    async def scenario() -> None:
        await _create(world, {"holderIdentity": "", "leaseDurationSeconds": 1})
        await pause(1.5)
        one, two = (Replica(world, name, options=_TEN_SECONDS) for name in ("foo", "bar"))
        one.start()
        await one.leads.wait()
        assert (await _stored(world))["spec"] == {
            "holderIdentity": "foo",
            "leaseDurationSeconds": 10,
            "leaseTransitions": 1,
            "acquireTime": "1970-01-01T00:00:01.500000Z",
            "renewTime": "1970-01-01T00:00:01.500000Z",
        }
        two.start()
        await pause(1)
        found = two.elector.status()
        assert (found.holder, found.transitions) == ("foo", 1)
        await one.stop()
        await two.stop()

    world.run(scenario)


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


@pytest.mark.covers("client-go tools/leaderelection: TestReleaseMethodCallsGet")
def test_release_method_calls_get(world: World) -> None:
    """TestReleaseMethodCallsGet: not a read, but the version that is known to be ours.

    Upstream reads before it releases, and so releases a successor's Lease. Here a release names the
    version of the last own write, and reads only if that is not the Lease's any more.
    """

    async def scenario() -> None:
        one, two = Replica(world, "one", options=_OPTIONS), Replica(world, "two", options=_OPTIONS)
        one.start()
        await one.leads.wait()
        one.line.calls.clear()
        await one.stop()
        assert _verbs(one) == ["PUT"]

        async def succeed(method: str) -> None:
            if method == "PUT":
                two.line.before = None
                await _write(world, holderIdentity="successor")

        two.line.watch_is_forbidden = True  # or a watch would bring the successor
        two.start()
        await two.leads.wait()
        two.line.calls.clear()
        two.line.before = succeed
        await two.stop()
        assert _verbs(two) == ["PUT", "GET"]
        stored = (await _stored(world))["spec"]
        assert stored["holderIdentity"] == "successor"  # it is not ours to release
        assert stored["leaseDurationSeconds"] == 15

    world.run(scenario)


@pytest.mark.covers("client-go tools/leaderelection: TestReleaseRetriesOnConflict")
def test_release_retries_on_conflict(world: World) -> None:
    """TestReleaseRetriesOnConflict: a renewal that was lost on its way back has landed."""

    async def scenario() -> None:
        one = Replica(world, "baz", options=_OPTIONS)
        one.line.watch_is_forbidden = True  # or a watch would bring the renewal
        lost = asyncio.Event()

        async def lose(method: str) -> None:
            if method == "PUT":
                one.line.after = None
                lost.set()
                raise TransportError("lease", "cut off")

        one.start()
        await one.leads.wait()
        one.line.calls.clear()
        one.line.after = lose
        await lost.wait()
        await one.stop()
        assert _verbs(one) == ["PUT", "PUT", "GET", "PUT"]
        assert (await _stored(world))["spec"]["holderIdentity"] == ""

    world.run(scenario)


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
def test_get_error(world: World) -> None:
    """TestGetError: a Lease that does not exist is created."""

    async def scenario() -> None:
        one = Replica(world, "baz")
        one.start()
        await one.leads.wait()
        assert _verbs(one) == ["GET", "POST"]
        await one.stop()

    world.run(scenario)


@pytest.mark.covers("client-go tools/leaderelection/resourcelock: TestGet")
def test_get(world: World) -> None:
    """TestGet: what a Lease says of its holder counts, and each renewal of it."""

    async def scenario() -> None:
        times = {
            "acquireTime": "2026-01-02T03:04:05.000006Z",
            "renewTime": "2026-01-02T03:04:06.000006Z",
        }
        await _create(
            world,
            {"holderIdentity": "h", "leaseDurationSeconds": 20, "leaseTransitions": 3, **times},
        )
        one = Replica(world, "baz", options=_OPTIONS)
        one.start()
        await pause(19)
        found = one.elector.status()
        assert (found.holder, found.transitions, found.is_leading) == ("h", 3, False)
        for time in ("renewTime", "acquireTime"):
            await _write(world, **{time: "2026-01-02T03:04:06.000007Z"})
            await pause(19)
        assert one.began_at == []
        await pause(10)
        assert one.began_at == [19 + 19 + 20]
        await one.stop()

    world.run(scenario)


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
def test_update_error(world: World) -> None:
    """TestUpdateError: nothing is written before the Lease was read."""

    async def scenario() -> None:
        await _create(world, {"holderIdentity": "", "leaseDurationSeconds": 1})
        one = Replica(world, "baz")
        failed = asyncio.Event()

        async def fail(method: str) -> None:
            if method == "GET" and not failed.is_set():
                failed.set()
                raise TransportError("lease", "cut off")

        one.line.before = fail
        one.line.watch_is_forbidden = one.line.list_is_forbidden = True  # or they would read it
        one.start()
        await one.leads.wait()
        assert _verbs(one) == ["GET", "GET", "PUT"]
        await one.stop()

    world.run(scenario)


@pytest.mark.covers("client-go tools/leaderelection/resourcelock: TestDescribe")
def test_describe(world: World) -> None:
    """TestDescribe."""
    elector = LeaderElector(world.cluster, "bar", namespace="foo")
    assert elector.lease == "foo/bar"


@pytest.mark.covers(
    "client-go tools/leaderelection/resourcelock: TestUpdateWithNilLabelsOnLease",
    "client-go tools/leaderelection/resourcelock: TestUpdateWithNilLabelsOnLeaseLock",
)
def test_update_with_nil_labels_on_lease(world: World) -> None:
    """TestUpdateWithNilLabelsOnLease, and TestUpdateWithNilLabelsOnLeaseLock."""

    async def scenario() -> None:
        one = Replica(world, "baz", options=_OPTIONS)
        sent: list[dict[str, Any]] = []

        def keep(body: bytes) -> bytes:
            sent.append(json.loads(body))
            return body

        one.line.store = keep
        one.start()
        await pause(3)
        await one.stop()
        assert len(sent) > 2
        assert not [body for body in sent if "labels" in body["metadata"]]

    world.run(scenario)


@pytest.mark.covers("client-go tools/leaderelection/resourcelock: TestLabelUpdate")
def test_label_update(world: World) -> None:
    """TestLabelUpdate: labels that others set are kept; the elector has none of its own."""

    async def scenario() -> None:
        one = Replica(world, "baz", options=_OPTIONS)
        one.start()
        await one.leads.wait()
        lease = await world.cluster.get(*_LEASES, _KEY)
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
