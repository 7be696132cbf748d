"""The elector in virtual time: who leads when, what is sent, and how a term ends."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import (
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from pyinformer.leaderelection import (
    LeaderElectionOptions,
    LeaderElectionStatus,
    LeaderElector,
    Term,
    WrittenVersions,
)
from pyinformer.testing import World
from tests.leaderelection.electing import Replica
from tests.waiting import now, pause

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

Scenario = Callable[[], Awaitable[None]]


class NotAnExceptionError(BaseException):
    """As test tools and extension modules raise."""


@pytest.fixture
def world() -> Iterator[World]:
    """A World in virtual time."""
    with World(virtual_time=True) as world:
        yield world


def test_the_first_replica_creates_the_lease_and_leads(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        assert one.elector.is_leading
        assert [call[1] for call in one.line.calls if call[1] in {"GET", "POST"}] == ["GET", "POST"]
        assert one.terms[0].transitions == 0
        await one.stop()

    world.run(scenario)


class _Applies(Replica):
    """Applies a config map when a term begins, and when it is asked to."""

    async def apply(self) -> None:
        """Apply it, unless it is as this process has applied it."""
        current = await self.cluster.get("v1", "configmaps", "default/child")
        await self.cluster.apply_if_changed(_child(), current, field_manager="op")

    async def lead(self, term: Term) -> None:
        """Apply twice, and lead."""
        await self.apply()
        await self.apply()
        await super().lead(term)


def _child(**data: str) -> JSONObject:
    metadata = {"name": "child", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"a": "1", **data},
    }


def test_what_was_applied_in_an_earlier_term_is_applied_once_more(world: World) -> None:
    """Another leader may have added fields under the same field manager in between."""

    async def scenario() -> None:
        one = _Applies(world, "one")
        await world.cluster.create(_child())
        one.start()
        await one.leads.wait()
        assert one.line.count("PATCH") == 1, "the second apply of the term sends nothing"

        one.line.is_down = True
        await pause(20)
        await world.cluster.apply(_child(debug="on"), field_manager="op")
        one.line.is_down = False
        await one.leads.wait()

        child = await world.cluster.get("v1", "configmaps", "default/child")
        assert child.at("data") == {"a": "1"}
        assert one.line.count("PATCH") == 2
        await one.apply()
        assert one.line.count("PATCH") == 2, "no term began since, as far as this task knows"
        await one.stop()

    world.run(scenario)


def test_a_clean_hand_over_takes_no_time_beyond_the_drain(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.drain_seconds = 5.0
        one.start()
        await one.leads.wait()
        two.start()
        await pause(10)
        assert not two.leads.is_set()
        stopped_at = now()
        await one.stop()
        await two.leads.wait()
        assert one.ended_at == [stopped_at + 5.0]
        assert two.began_at[0] - one.ended_at[0] < 0.001
        assert two.terms[0].transitions == 1
        await two.stop()

    world.run(scenario)


def test_the_lease_is_renewed_while_the_work_drains(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.drain_seconds = 40.0  # far longer than the Lease lasts
        one.start()
        await one.leads.wait()
        two.start()
        await one.stop()
        await two.leads.wait()
        assert one.ended_at == [40.0]
        assert two.began_at[0] >= one.ended_at[0]
        await two.stop()

    world.run(scenario)


def test_a_crashed_leader_is_replaced_when_its_lease_expires(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.start()
        await one.leads.wait()
        two.start()
        await pause(11)
        last = max(call[0] for call in one.line.calls if call[1] == "PUT")
        await one.crash()
        await two.leads.wait()
        assert last + 15.0 <= two.began_at[0] < last + 15.5
        await two.stop()

    world.run(scenario)


def test_the_expiry_of_others_is_that_of_their_record(world: World) -> None:
    async def scenario() -> None:
        patient = LeaderElectionOptions(lease_duration_seconds=60.0)
        one, two = Replica(world, "one", options=patient), Replica(world, "two")
        one.start()
        await one.leads.wait()
        two.start()
        await pause(1)
        last = max(call[0] for call in one.line.calls if call[1] == "POST")
        await one.crash()
        await two.leads.wait()
        assert last + 60.0 <= two.began_at[0] < last + 60.5
        await two.stop()

    world.run(scenario)


def test_requests_a_minute_of_a_leader_and_of_a_standby(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.start()
        await one.leads.wait()
        two.start()
        await pause(60)  # the first list and watch of both
        before = len(one.line.calls), len(two.line.calls)
        await pause(600)
        assert len(one.line.calls) - before[0] <= 310  # 30 a minute, and the watch
        assert len(two.line.calls) - before[1] <= 10  # 1 a minute
        await two.stop()
        await one.stop()

    world.run(scenario)


def test_a_standby_that_may_not_watch_reads_instead(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        two.line.watch_is_forbidden = True
        one.start()
        await one.leads.wait()
        two.start()
        await pause(60)
        status = two.elector.status()
        assert not status.is_watching
        assert "403 Forbidden" in status.watch_refusal
        assert "may not watch the Lease: watch /apis/" in str(status)
        assert 60 / 4.4 - 2 <= two.line.count("GET") <= 60 / 2 + 2
        await one.stop()
        await two.leads.wait()
        await two.stop()

    world.run(scenario)


def test_without_the_server_work_stops_after_the_renew_deadline_and_resumes(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        await pause(5)
        sent = max(call[0] for call in one.line.calls if call[1] in {"PUT", "POST"})
        one.line.is_down = True
        await pause(sent + 9.9 - now())
        assert one.leads.is_set()
        one.terms[0].check()
        await pause(0.11)
        assert one.ended_at == [sent + 10.0]
        with pytest.raises(FencedError, match=r"last renewed 10\.0 s ago"):
            one.terms[0].check()
        one.line.is_down = False
        await one.leads.wait()
        assert len(one.terms) == 2
        assert one.terms[1].transitions == 1
        one.terms[1].check()
        with pytest.raises(FencedError):
            one.terms[0].check()
        await one.stop()

    world.run(scenario)


def test_a_replica_whose_work_still_ends_does_not_take_the_lease_again(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        go_on = asyncio.Event()

        async def lead(term: Term) -> None:
            if one.terms:
                await one.lead(term)
            one.terms.append(term)
            try:
                await asyncio.Event().wait()
            finally:
                await go_on.wait()

        task = asyncio.create_task(one.elector.run(lead))
        await pause(1)
        one.line.is_down = True
        await pause(15)
        one.line.is_down = False
        writes = one.line.count("PUT") + one.line.count("POST")
        await pause(20)
        assert one.terms[0].has_ended
        assert one.line.count("PUT") + one.line.count("POST") == writes
        go_on.set()
        await one.leads.wait()
        assert [term.transitions for term in one.terms] == [0, 1]
        task.cancel()
        await asyncio.wait([task])

    world.run(scenario)


def test_without_the_server_for_less_than_the_renew_deadline_nothing_stops(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        one.line.is_down = True
        await pause(7.5)
        one.line.is_down = False
        await pause(60)
        assert len(one.terms) == 1
        assert one.ended_at == []
        await one.stop()

    world.run(scenario)


def test_another_holder_ends_the_term_at_once(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        await pause(0.5)
        await one.cluster.patch(
            await one.cluster.get("coordination.k8s.io/v1", "leases", "default/db-operator"),
            _held_by(await _body(world), "intruder"),
        )
        seen_at = now()
        await pause(0.01)
        assert one.ended_at == [pytest.approx(seen_at, abs=0.005)]
        with pytest.raises(FencedError, match="intruder has taken the Lease"):
            one.terms[0].check()
        await one.stop()
        assert (await _body(world))["spec"][
            "holderIdentity"
        ] == "intruder"  # a release is not for others

    world.run(scenario)


async def _body(world: World) -> dict[str, Any]:
    lease = await world.cluster.get("coordination.k8s.io/v1", "leases", "default/db-operator")
    return lease.to_dict()


def _held_by(body: dict[str, Any], holder: str) -> dict[str, Any]:
    return {**body, "spec": {**body["spec"], "holderIdentity": holder, "renewTime": None}}


async def _inherited(successor: Replica) -> WrittenVersions | None:
    """Let a replica lead, and return what it knows of the writes before it."""
    successor.start()
    await successor.leads.wait()
    await successor.stop()
    return successor.terms[0].predecessor


def test_a_release_names_what_was_written_in_the_term(world: World) -> None:
    async def scenario() -> None:
        one, two, three = (Replica(world, name) for name in ("one", "two", "three"))
        made: list[str] = []

        async def lead(term: Term) -> None:
            made.append((await one.cluster.create(_map("a"))).metadata.resource_version)
            term.record_caught_up({"configmaps.v1": made[0]})
            made.append((await one.cluster.create(_map("b"))).metadata.resource_version)
            await one.lead(term)

        task = asyncio.create_task(one.elector.run(lead))
        await one.leads.wait()
        task.cancel()
        await asyncio.wait([task])
        assert (await _body(world))["spec"]["holderIdentity"] == ""
        for successor in (two, three):
            written = await _inherited(successor)
            assert written is not None
            assert written.versions == {"*": "", "configmaps.v1": made[1]}

    world.run(scenario)


def test_a_deletion_has_no_version_to_wait_for(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")

        async def lead(term: Term) -> None:
            made = await one.cluster.create(_map("a"))
            term.record_caught_up({"configmaps.v1": made.metadata.resource_version})
            await one.cluster.delete("v1", "configmaps", "default/a")
            await one.lead(term)

        task = asyncio.create_task(one.elector.run(lead))
        await one.leads.wait()
        task.cancel()
        await asyncio.wait([task])
        written = await _inherited(Replica(world, "successor"))
        assert written is not None
        assert written.versions == {"*": "", "configmaps.v1": ""}

    world.run(scenario)


def test_writes_prove_nothing_about_an_unknown_predecessor(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")

        async def lead(term: Term) -> None:
            await one.cluster.create(_map("a"))
            await one.lead(term)

        task = asyncio.create_task(one.elector.run(lead))
        await one.leads.wait()
        task.cancel()
        await asyncio.wait([task])
        written = await _inherited(Replica(world, "successor"))
        assert written is not None
        assert written.version_of("configmaps.v1") == ""
        assert written.version_of("secrets.v1") == ""

    world.run(scenario)


def test_a_term_that_was_lost_leaves_no_annotation(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.start()
        await one.leads.wait()
        await one.crash()
        two.start()
        await two.leads.wait()
        assert two.terms[0].predecessor is None
        assert "annotations" not in (await _body(world))["metadata"]
        await two.stop()

    world.run(scenario)


def _map(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
    }


def test_writes_of_a_term_that_is_over_are_refused_and_others_are_not(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        late: asyncio.Queue[BaseException | None] = asyncio.Queue()
        go_on = asyncio.Event()

        async def straggler() -> None:
            await go_on.wait()
            try:
                await one.cluster.create(_map("late"))
            except FencedError as error:
                await late.put(error)
            else:
                await late.put(None)

        stragglers = []

        async def lead(term: Term) -> None:
            stragglers.append(asyncio.create_task(straggler()))
            await one.lead(term)

        task = asyncio.create_task(one.elector.run(lead))
        await one.leads.wait()
        task.cancel()
        await asyncio.wait([task])
        go_on.set()
        error = await late.get()
        assert isinstance(error, FencedError)
        assert error.has_ended
        await one.cluster.create(_map("by-another-task"))
        await asyncio.wait(stragglers)

    world.run(scenario)


def test_a_write_that_is_held_until_its_term_is_over_never_arrives(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        held, go_on = asyncio.Event(), asyncio.Event()
        writes: list[asyncio.Task[object]] = []

        async def hold(method: str) -> None:
            if method == "POST":
                held.set()
                await go_on.wait()

        async def lead(term: Term) -> None:
            if not writes:
                one.line.before = hold
                writes.append(asyncio.create_task(one.cluster.create(_map("late"))))
            await one.lead(term)

        task = asyncio.create_task(one.elector.run(lead))
        await held.wait()
        one.line.is_down = True
        await pause(10.1)
        assert len(one.ended_at) == 1
        one.line.is_down, one.line.before = False, None
        go_on.set()
        await asyncio.wait(writes)
        assert isinstance(writes[0].exception(), FencedError)
        with pytest.raises(NotFoundError):
            await world.cluster.get("v1", "configmaps", "default/late")
        task.cancel()
        await asyncio.wait([task])

    world.run(scenario)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(None, "lead\\(\\) returned before its term has ended", id="returns"),
        pytest.param(ValueError("a bug"), "a bug", id="raises"),
        pytest.param(GeneratorExit("a bug"), "a bug", id="raises-generator-exit"),
        pytest.param(NotAnExceptionError("a bug"), "a bug", id="raises-no-exception"),
    ],
)
def test_work_that_ends_by_itself_releases_the_lease_and_ends_the_elector(
    world: World, error: BaseException | None, text: str
) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")

        async def lead(_term: Term) -> None:
            if error is not None:
                raise error

        with pytest.raises(type(error) if error else LifecycleError, match=text):
            await one.elector.run(lead)
        began_at = now()
        two.start()
        await two.leads.wait()
        assert now() - began_at < 0.01
        await two.stop()

    world.run(scenario)


def test_work_that_ignores_its_end_is_an_error_and_keeps_the_lease(world: World) -> None:
    async def scenario() -> None:
        options = LeaderElectionOptions(end_timeout_seconds=30.0)
        one = Replica(world, "one", options=options)
        end = asyncio.Event()

        async def lead(_term: Term) -> None:
            one.leads.set()
            while not end.is_set():
                try:
                    await end.wait()
                except asyncio.CancelledError:
                    continue

        task = asyncio.create_task(one.elector.run(lead))
        await one.leads.wait()
        began_at = now()
        task.cancel()
        await asyncio.wait([task])
        assert now() == began_at + 30.0
        assert (await _body(world))["spec"]["holderIdentity"] == "one"
        end.set()
        await pause(0)

    world.run(scenario)


def test_two_running_replicas_with_one_identity_are_an_error(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "one")
        one.start()
        await one.leads.wait()
        with pytest.raises(InvalidArgumentError, match="identity of its own"):
            await two.elector.run(two.lead)
        assert one.leads.is_set()
        await one.stop()

    world.run(scenario)


@pytest.mark.parametrize(
    ("digits", "shown"),
    [(0, b".000000Z"), (0, b"Z"), (0, b".000Z"), (0, b".000000+00:00"), (3, b"000Z"), (3, b"Z")],
)
def test_a_server_that_cuts_the_fractions_of_times_off_has_leaders(
    world: World, digits: int, shown: bytes
) -> None:
    """Its answers are not what was written, and its events come before them."""

    def cut(body: bytes) -> bytes:
        def without_end(time: re.Match[bytes]) -> bytes:
            return time[1] + b"." + (time[2] or b"")[:digits].ljust(6, b"0") + b"Z"

        return re.sub(rb"(:\d\d)(?:\.(\d+))?(?:Z|\+00:00)", without_end, body)

    def show(body: bytes) -> bytes:
        end = b"." * (not digits) + b"0" * (6 - digits) + b"Z"
        return cut(body).replace(end, shown)

    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        for replica in (one, two):
            replica.line.store, replica.line.show = cut, show
            replica.line.after = lambda _: pause(0.01)
            replica.start()
        await one.leads.wait()
        await pause(60)
        assert len(one.terms) == 1
        assert not two.began_at
        await one.stop()
        await two.leads.wait()
        assert two.began_at[0] - one.ended_at[0] < 16, "its first write is not known as its own"
        await pause(60)
        assert len(two.terms) == 1
        await two.stop()

    world.run(scenario)


def test_a_restarted_process_of_the_same_identity_waits_for_the_lease(world: World) -> None:
    async def scenario() -> None:
        one, again = Replica(world, "one"), Replica(world, "one")
        one.start()
        await one.leads.wait()
        began_at = now()
        await one.crash()
        again.start()
        await again.leads.wait()
        assert again.began_at[0] >= began_at + 15.0
        await again.stop()

    world.run(scenario)


def test_replicas_without_the_right_wait_until_it_is_granted(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.start()
        await one.leads.wait()
        two.start()
        await pause(5)
        renewed_at = max(call[0] for call in one.line.calls if call[1] in {"PUT", "POST"})
        one.line.is_forbidden = two.line.is_forbidden = True
        await pause(600)
        assert one.ended_at == [renewed_at + 10.0]  # the leader works until its term ends
        for replica in (one, two):
            assert replica.task is not None
            assert not replica.task.done()
            status = replica.elector.status()
            assert not status.is_leading
            assert "get, create and update on leases" in status.last_error
        one.line.is_forbidden = two.line.is_forbidden = False
        await pause(5)
        assert len(one.terms) + len(two.terms) == 2
        assert one.leads.is_set() is not two.leads.is_set()
        await one.stop()
        await two.stop()

    world.run(scenario)


def test_a_namespace_that_is_being_deleted_is_no_missing_right(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async def refuse(method: str) -> None:
            if method == "POST":
                request = "POST leases"
                reason = "NamespaceTerminating"
                raise ForbiddenError(
                    status=403, reason="Forbidden", request=request, causes=(reason,)
                )

        one = Replica(world, "one")
        one.line.before = refuse
        one.start()
        await pause(60)
        assert "403" in one.elector.status().last_error
        assert "leader election needs" not in one.elector.status().last_error
        one.line.before = None
        await one.leads.wait()
        await one.stop()

    world.run(scenario)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]


@pytest.mark.parametrize("ends_by", ["the end of its term", "a stop"])
def test_work_ends_while_a_request_for_the_lease_hangs(world: World, ends_by: str) -> None:
    """The end is noticed where it happens: a loop that waits for the network notices it late."""

    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        await pause(5)
        renewed_at = max(call[0] for call in one.line.calls if call[1] in {"PUT", "POST"})
        hangs = asyncio.Event()

        async def hang(method: str) -> None:
            if method == "PUT":
                hangs.set()
                await asyncio.Event().wait()

        one.line.before = hang
        await hangs.wait()
        assert one.task is not None
        if ends_by == "a stop":
            stopped_at = now()
            one.task.cancel()
            await pause(0.01)
            assert one.ended_at == [stopped_at]
        else:
            await pause(renewed_at + 10.01 - now())
            assert one.ended_at == [renewed_at + 10.0]
            assert now() < one.line.calls[-1][0] + 5.0  # the request still hangs
        assert one.elector.status().renewed_seconds is None  # no work runs any more
        one.line.before = None
        await one.stop()

    world.run(scenario)


def test_a_renewal_that_is_under_way_at_a_stop_does_not_delay_the_release(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.start()
        await one.leads.wait()
        two.start()
        renews, may_renew = asyncio.Event(), asyncio.Event()

        async def hold(method: str) -> None:
            if method == "PUT":
                renews.set()
                await may_renew.wait()

        one.line.before = hold
        await renews.wait()
        assert one.task is not None
        one.task.cancel()
        await pause(0.1)
        began_at = now()
        may_renew.set()
        await two.leads.wait()
        assert now() - began_at < 0.1
        await one.stop()
        await two.stop()

    world.run(scenario)


def test_a_lease_request_without_an_answer_is_named_with_its_deadline(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()

        async def hold(method: str) -> None:
            if method == "PUT":
                await asyncio.Event().wait()

        one.line.before = hold
        await pause(8)
        words = "no answer within 5 s; whether the server carried out the PUT is not known"
        assert one.elector.status().last_error.endswith(words)
        one.line.before = None
        await one.stop()

    world.run(scenario)


def test_a_refusal_of_a_few_seconds_is_survived(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.line.is_forbidden = True
        one.start()
        await pause(5)
        one.line.is_forbidden = False
        await one.leads.wait()
        await one.stop()

    world.run(scenario)


def test_a_deleted_lease_ends_the_term_and_is_created_again(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        await pause(1)
        await one.cluster.delete("coordination.k8s.io/v1", "leases", "default/db-operator")
        deleted_at = now()
        await pause(0.01)
        assert one.ended_at == [pytest.approx(deleted_at, abs=0.005)]
        with pytest.raises(FencedError, match="the Lease was deleted"):
            one.terms[0].check()
        await one.leads.wait()
        assert len(one.terms) == 2
        await one.stop()

    world.run(scenario)


def test_a_404_that_does_not_name_the_lease_is_retried(world: World) -> None:
    """A gateway answers so, to a renewal and to a standby's read."""

    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")

        async def refuse(_: str) -> None:
            raise NotFoundError(status=404, message="default backend - 404")

        one.start()
        await one.leads.wait()
        one.line.before = refuse
        await pause(6)
        one.line.before = None
        assert "default backend" in one.elector.status().last_error
        two.line.before = refuse
        two.start()
        await pause(20)
        assert one.ended_at == []
        assert two.line.count("POST") == 0
        two.line.before = None
        await one.stop()
        await two.leads.wait()
        await two.stop()

    world.run(scenario)


def test_404s_that_do_not_name_the_lease_end_the_term_at_the_renew_deadline(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")

        async def refuse(_: str) -> None:
            raise NotFoundError(status=404, message="default backend - 404")

        one.start()
        await one.leads.wait()
        one.line.before = refuse
        await pause(11)
        assert one.ended_at == [pytest.approx(10, abs=0.01)]
        await one.stop()

    world.run(scenario)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"{}", id="nothing"),
        pytest.param(b'{"kind":"LeaseList","metadata":{"resourceVersion":"5"}}', id="list"),
        pytest.param(
            b'{"kind":"Lease","metadata":{"name":"other","namespace":"default"}}', id="other-name"
        ),
        pytest.param(
            b'{"kind":"Lease","metadata":{"name":"db-operator","namespace":"shop"}}',
            id="other-namespace",
        ),
        pytest.param(
            b'{"kind":"ConfigMap","metadata":{"name":"db-operator","namespace":"default"}}',
            id="other-kind",
        ),
        pytest.param(b'{"kind":"Lease","metadata":[]}', id="no-metadata"),
    ],
)
def test_answers_with_something_else_than_the_lease_are_retried(
    world: World, answer: bytes
) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        one.line.answers = [answer, answer]  # to a renewal, and to what follows it
        await pause(5)
        assert "answered with something else" in one.elector.status().last_error
        await pause(20)
        assert one.ended_at == []
        assert one.elector.status().last_error == ""
        await one.stop()

    world.run(scenario)


def test_writes_that_conflict_again_and_again_are_rare_and_shown(world: World) -> None:
    """An admission webhook refuses with 409, or reads come from a cache."""

    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.start()
        await one.leads.wait()
        two.start()
        await pause(5)
        one.line.before = two.line.before = _conflict
        await pause(60)
        assert "changed meanwhile" in two.elector.status().last_error
        assert two.line.count("PUT") < 60
        two.line.before = None
        await two.leads.wait()
        assert two.elector.status().last_error == ""
        await two.stop()
        await one.stop()

    async def _conflict(method: str) -> None:
        if method == "PUT":
            raise ConflictError(status=409, message="changed meanwhile")

    world.run(scenario)


def test_other_leases_that_a_watch_shows_are_not_taken_for_the_own(world: World) -> None:
    """A gateway may ignore field selectors."""

    async def scenario() -> None:
        heard: list[str] = []
        one, two = Replica(world, "one"), Replica(world, "two", on_new_leader=heard.append)
        for each in (one, two):
            each.line.ignores_selectors = True
        other: Any = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "other", "namespace": "default"},
            "spec": {"holderIdentity": "zz", "leaseDurationSeconds": 15},
        }
        foreign = await world.cluster.create(other)
        one.start()
        await one.leads.wait()
        two.start()

        async def renew(times: int) -> None:
            nonlocal foreign
            for time in range(times):
                await pause(2)
                body = foreign.to_dict()
                body["spec"]["leaseTransitions"] = time
                foreign = await world.cluster.patch(foreign, body)

        await renew(10)
        assert one.ended_at == []
        assert one.elector.status().holder == "one"
        assert two.elector.status().holder == "one"
        await one.crash()
        await renew(10)
        assert two.leads.is_set(), "the other Lease must not count as a sign of life"
        await world.cluster.delete(foreign)
        await pause(1)
        assert two.ended_at == []
        assert heard == ["one", "two"]
        await two.stop()

    world.run(scenario)


def test_a_namespace_that_does_not_exist_is_retried_slowly(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")

        async def refuse(method: str) -> None:
            if method == "POST":
                raise NotFoundError(status=404, reason="NotFound", message='"absent" not found')

        one.line.before = refuse
        one.start()
        await pause(20)
        assert 9 <= one.line.count("POST") <= 11
        assert "absent" in one.elector.status().last_error
        await one.stop()

    world.run(scenario)


def test_a_jump_between_clocks_closes_the_guard_until_a_renewal_succeeds(world: World) -> None:
    async def scenario() -> None:
        wall = [1000.0]
        one = Replica(world, "one", wall_clock=lambda: wall[0] + now())
        one.start()
        await one.leads.wait()
        wall[0] += 0.9
        one.terms[0].check()
        wall[0] += 0.2
        with pytest.raises(FencedError, match="clocks have drifted apart") as caught:
            one.terms[0].check()
        assert not caught.value.has_ended
        await pause(2.1)  # the next renewal
        one.terms[0].check()
        assert len(one.terms) == 1
        await one.stop()

    world.run(scenario)


def test_a_stopped_process_writes_nothing_when_it_continues(world: World) -> None:
    async def scenario() -> None:
        stopped = [0.0]
        one = Replica(world, "one", clock=lambda: now() + stopped[0])
        go_on = asyncio.Event()
        writes: list[asyncio.Task[object]] = []

        async def write() -> object:
            await go_on.wait()
            return await one.cluster.create(_map("late"))

        async def lead(term: Term) -> None:
            if not one.terms:
                writes.append(asyncio.create_task(write()))
            await one.lead(term)

        task = asyncio.create_task(one.elector.run(lead))
        await one.leads.wait()
        await pause(1)
        stopped[0] = 20.0  # its clock continued, its loop did not
        go_on.set()
        await asyncio.wait(writes)
        error = writes[0].exception()
        assert isinstance(error, FencedError)
        assert error.has_ended
        with pytest.raises(NotFoundError):
            await world.cluster.get("v1", "configmaps", "default/late")
        await pause(5)
        assert len(one.ended_at) == 1
        assert [term.transitions for term in one.terms] == [0, 1]
        one.terms[1].check()
        task.cancel()
        await asyncio.wait([task])

    world.run(scenario)


def _raise(term: Term) -> None:
    term.check()


def _raise_group(term: Term) -> None:
    """Raise what a task group raises."""
    try:
        term.check()
    except FencedError as error:
        raise ExceptionGroup("tasks", [ExceptionGroup("inner", [error]), error]) from None


def _return(term: Term) -> None:
    assert term.has_ended


@pytest.mark.parametrize(
    "meet",
    [
        pytest.param(_raise, id="raises"),
        pytest.param(_raise_group, id="raises-in-a-group"),
        pytest.param(_return, id="returns"),
    ],
)
def test_work_that_meets_the_end_of_its_term_first_is_a_standby_again(
    world: World, meet: Callable[[Term], None]
) -> None:
    async def scenario() -> None:
        stopped = [0.0]
        one = Replica(world, "one", clock=lambda: now() + stopped[0])
        go_on = asyncio.Event()

        async def lead(term: Term) -> None:
            if not one.terms:
                one.terms.append(term)
                await go_on.wait()
                meet(term)
            else:
                await one.lead(term)

        task = asyncio.create_task(one.elector.run(lead))
        await pause(1)
        stopped[0] = 20.0  # its clock continued, its loop did not
        go_on.set()  # the work runs before the elector
        await asyncio.wait(
            [task, asyncio.create_task(one.leads.wait())], return_when="FIRST_COMPLETED"
        )
        assert one.leads.is_set()
        assert [term.transitions for term in one.terms] == [0, 1]
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    world.run(scenario)


def test_work_that_gives_up_while_the_guard_is_shut_begins_a_new_term(world: World) -> None:
    async def scenario() -> None:
        wall = [1000.0]
        one = Replica(world, "one", wall_clock=lambda: wall[0] + now())
        stepped = asyncio.Event()

        async def lead(term: Term) -> None:
            if not one.terms:
                one.terms.append(term)
                await stepped.wait()
                term.check()
            else:
                await one.lead(term)

        task = asyncio.create_task(one.elector.run(lead))
        await pause(1)
        wall[0] += 5.0
        stepped.set()
        await asyncio.wait(
            [task, asyncio.create_task(one.leads.wait())], return_when="FIRST_COMPLETED"
        )
        assert one.leads.is_set()
        with pytest.raises(FencedError, match="gave up"):
            one.terms[0].check()
        one.terms[1].check()
        assert one.terms[1].predecessor is None  # its caches may lack what the first term wrote
        task.cancel()
        await asyncio.wait([task])

    world.run(scenario)


def test_a_refusal_by_another_lease_ends_the_elector(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")

        async def lead(_term: Term) -> None:
            raise FencedError(lease="default/another", reason="its term has ended")

        with pytest.raises(FencedError, match="default/another"):
            await one.elector.run(lead)

    world.run(scenario)


def test_cancelled_while_waiting_an_elector_releases_and_ends(world: World) -> None:
    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.start()
        await one.leads.wait()
        two.start()
        await pause(5)
        await two.stop()
        assert two.terms == []
        assert (await _body(world))["spec"]["holderIdentity"] == "one"
        await one.stop()
        assert (await _body(world))["spec"]["holderIdentity"] == ""

    world.run(scenario)


def test_an_elector_runs_once_at_a_time_and_again_later(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        with pytest.raises(LifecycleError, match="runs already"):
            await one.elector.run(one.lead)
        await one.stop()

        async def fail(_term: Term) -> None:
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await one.elector.run(fail)
        one.start()
        await one.leads.wait()
        one.terms[1].check()
        assert one.elector.is_leading
        assert one.elector.status().terms == 3
        await one.stop()
        assert (await _body(world))["spec"]["holderIdentity"] == ""

    world.run(scenario)


def test_a_run_after_one_that_was_aborted_waits_for_its_own_lease(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        began_at = now()
        one.elector.abort()
        assert one.task is not None
        await asyncio.wait([one.task])
        with pytest.raises(FencedError, match="the elector was stopped"):
            one.terms[0].check()
        assert (await _body(world))["spec"]["holderIdentity"] == "one"
        one.start()
        await one.leads.wait()
        assert now() >= began_at + 15.0  # what it left behind may still run
        await one.stop()

    world.run(scenario)


def test_an_abort_does_not_wait_for_a_request(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        hangs = asyncio.Event()

        async def hang(method: str) -> None:
            if method == "PUT":
                hangs.set()
                await asyncio.Event().wait()

        one.line.before = hang
        one.start()
        await hangs.wait()
        began_at = now()
        one.elector.abort()
        assert one.task is not None
        await asyncio.wait([one.task])
        assert now() == began_at
        assert not one.elector.is_leading

    world.run(scenario)


def test_an_elector_cancelled_at_any_step_of_its_start_leaves_no_holder() -> None:
    for steps in range(40):
        with World(virtual_time=True) as world:
            world.run(lambda w=world, n=steps: _cancelled_after(w, n))  # type: ignore[misc]


async def _cancelled_after(world: World, steps: int) -> None:
    one, two = Replica(world, "one"), Replica(world, "two")
    one.start()
    for _ in range(steps):
        await asyncio.sleep(0)
    await one.stop()
    two.start()
    await two.leads.wait()
    assert now() < 0.1, f"cancelled after {steps} steps"
    await two.stop()


def test_a_callback_that_raises_is_logged_and_nothing_is_skipped(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        def refuse(_holder: str) -> None:
            raise ValueError("a bug of the callback")

        one, two = Replica(world, "one", on_new_leader=refuse), Replica(world, "two")
        one.start()
        await one.leads.wait()
        two.start()
        await pause(5)
        await one.cluster.patch(
            await one.cluster.get("coordination.k8s.io/v1", "leases", "default/db-operator"),
            _held_by(await _body(world), "intruder"),
        )
        await pause(30)
        assert len(one.ended_at) == 1
        await two.stop()
        await one.leads.wait()
        await one.stop()

    world.run(scenario)
    assert "on_new_leader" in caplog.text
    assert "ValueError" in caplog.text


def test_an_error_of_cancelled_work_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")

        async def lead(_term: Term) -> None:
            one.leads.set()
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("a bug of the clean-up")

        task = asyncio.create_task(one.elector.run(lead))
        await one.leads.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert (await _body(world))["spec"]["holderIdentity"] == ""

    world.run(scenario)
    assert "was stopped, and has failed: ValueError" in caplog.text


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        pytest.param("name", "Upper", id="name"),
        pytest.param("namespace", "", id="namespace"),
        pytest.param("identity", " ", id="identity"),
    ],
)
def test_names_are_checked(world: World, argument: str, value: str) -> None:
    arguments: dict[str, Any] = {"name": "x", "namespace": "y", argument: value}
    with pytest.raises(InvalidArgumentError, match=argument):
        LeaderElector(world.cluster, arguments.pop("name"), **arguments)


def test_lead_must_be_a_coroutine_function(world: World) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        with pytest.raises(InvalidTypeError, match="use async def"):
            await one.elector.run(lambda _term: None)  # type: ignore[arg-type,return-value]
        with pytest.raises(InvalidTypeError):
            await Replica(world, "two").elector.run(lambda: None)  # type: ignore[arg-type,misc]

    world.run(scenario)


@pytest.mark.parametrize("holder", ["one\nERROR two leads", "\x1b[2J", "x" * 900_000])
def test_a_status_shows_what_a_stranger_wrote_as_a_holder_in_one_short_line(holder: str) -> None:
    status = LeaderElectionStatus(
        lease="default/db-operator",
        identity="me",
        is_leading=False,
        holder=holder,
        transitions=0,
        terms=0,
        renewed_seconds=None,
        is_overdue=False,
        is_watching=False,
        last_error="",
    )
    assert str(status).isprintable()
    assert len(str(status)) < 400


def test_an_elector_that_does_not_run_names_no_holder(world: World) -> None:
    """It has not read the Lease, which another replica may hold."""

    async def scenario() -> None:
        one, two = Replica(world, "one"), Replica(world, "two")
        one.start()
        await one.leads.wait()
        before = two.elector.status()
        assert (before.is_competing, one.elector.status().is_competing) == (False, True)
        assert str(before) == "does not compete for default/db-operator now"
        await one.stop()
        assert not one.elector.status().is_competing

    world.run(scenario)


def test_status_names_the_leader(world: World) -> None:
    async def scenario() -> None:
        heard: list[str] = []
        one, two = Replica(world, "one"), Replica(world, "two", on_new_leader=heard.append)
        one.start()
        await one.leads.wait()
        two.start()
        await pause(3)
        leading, waiting = one.elector.status(), two.elector.status()
        assert (leading.is_leading, leading.terms) == (True, 1)
        assert (waiting.is_leading, waiting.holder) == (False, "one")
        assert "leads by default/db-operator" in str(leading)
        assert "waits for default/db-operator, held by one" in str(waiting)
        await one.stop()
        await two.leads.wait()
        assert heard == ["one", "two"]
        await two.stop()

    world.run(scenario)


def test_a_term_that_a_suspend_has_ended_is_cut_off_at_once(world: World) -> None:
    """Timers of the loop do not count a suspend: that of the term's end would fire 10 s late."""

    async def scenario() -> None:
        suspended, cut_off = [0.0], list[float]()
        one = Replica(world, "one", clock=lambda: now() + suspended[0])
        one.start()
        await one.leads.wait()
        one.terms[0].on_end(lambda: cut_off.append(now()))
        await pause(0.5)
        suspended[0], continued_at = 20.0, now()
        await pause(0.2)  # the next renewal is due later
        assert len(one.ended_at) == 1
        assert cut_off[0] <= continued_at + 0.1
        await one.stop()

    world.run(scenario)


Refusal = Callable[[], Exception]


def _too_many(retry_after_seconds: float | None) -> Refusal:
    return lambda: TooManyRequestsError(
        status=429, reason="TooManyRequests", retry_after_seconds=retry_after_seconds
    )


def _unavailable(retry_after_seconds: float | None) -> Refusal:
    return lambda: ServerError(status=503, retry_after_seconds=retry_after_seconds)


def _refuse(replica: Replica, method: str, refusal: Refusal, *, times: int) -> list[float]:
    """Refuse the next requests of a verb; return the list of the times at which they are sent."""
    sent_at: list[float] = []

    async def refuse(verb: str) -> None:
        if verb != method:
            return
        sent_at.append(now())
        if len(sent_at) <= times:
            raise refusal()

    replica.line.before = refuse
    return sent_at


def _gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in pairwise(times)]


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(_too_many(1.0), id="429"),
        pytest.param(_unavailable(1.0), id="503"),
    ],
)
def test_a_term_is_kept_where_more_renewals_are_refused_than_it_has_retry_periods(
    world: World, refusal: Refusal
) -> None:
    """The server asks for a second, and a renewal that waits for two has half the attempts."""

    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        sent_at = _refuse(one, "PUT", refusal, times=5)
        await pause(30)
        assert all(1.0 < gap < 1.5 for gap in _gaps(sent_at[:6])), _gaps(sent_at)
        assert all(gap == pytest.approx(2.0) for gap in _gaps(sent_at[5:]))
        assert len(one.terms) == 1
        assert one.ended_at == []
        await one.stop()

    world.run(scenario)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_refused_acquisition_is_repeated_when_the_server_asks_for_it(
    world: World, method: str
) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        sent_at = _refuse(one, method, _too_many(1.0), times=3)
        one.start()
        await one.leads.wait()
        assert len(sent_at) == 4
        assert all(1.0 < gap < 1.5 for gap in _gaps(sent_at)), _gaps(sent_at)
        await one.stop()

    world.run(scenario)


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(_too_many(30.0), id="long-delay"),
        pytest.param(_too_many(1.95), id="delay-near-the-period"),
        pytest.param(_too_many(None), id="429-without-delay"),
        pytest.param(_unavailable(None), id="503-without-delay"),
        pytest.param(
            lambda: ForbiddenError(status=403, retry_after_seconds=0.5), id="403-with-delay"
        ),
    ],
)
def test_a_refused_renewal_is_repeated_after_a_retry_period_at_the_latest(
    world: World, refusal: Refusal
) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        sent_at = _refuse(one, "PUT", refusal, times=3)
        await pause(20)
        assert all(1.95 <= gap < 2.001 for gap in _gaps(sent_at[:4])), _gaps(sent_at)
        assert len(one.terms) == 1
        await one.stop()

    world.run(scenario)


@pytest.mark.parametrize("seconds", [0.0, 0.001, 0.2])
def test_a_server_that_asks_for_no_delay_is_not_asked_in_a_hot_loop(
    world: World, seconds: float
) -> None:
    async def scenario() -> None:
        one = Replica(world, "one")
        one.start()
        await one.leads.wait()
        sent_at = _refuse(one, "PUT", _too_many(seconds), times=10)
        await pause(20)
        assert all(0.3 <= gap < 0.7 for gap in _gaps(sent_at[:11])), _gaps(sent_at)
        await one.stop()

    world.run(scenario)
