"""Whether a program is alive and ready: from status records and a clock, and on a real server."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Controller, ControllerGroup, Request, SharedInformer, SharedInformerFactory
from pyinformer.cache.informer import FactoryStatus
from pyinformer.cache.reflector import ReflectorState
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.operator import Health, HealthOptions
from pyinformer.telemetry import WatchdogStatistics
from pyinformer.testing import Fault
from tests.cache.informer.clusters import cluster_of, pod
from tests.controller.running import running
from tests.operator.test_health_server import ask, get
from tests.virtual_time import elapse
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.cache.informer import InformerStatus
    from pyinformer.controller import ControllerStatus
    from pyinformer.testing import APIServer

    Status = InformerStatus | FactoryStatus | ControllerStatus

_FINE = WatchdogStatistics(blocked=0, longest_seconds=0.0, last_culprit=None)


class Told:
    """Something whose status a test chooses."""

    def __init__(self, status: Status) -> None:
        self.now: Status = status

    def status(self) -> Status:
        """Return it."""
        return self.now


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def informer() -> InformerStatus:
    """The status of an informer that watches."""
    config = pyinformer.client.ClusterConfig(server="http://127.0.0.1:1")
    fresh = SharedInformer(pyinformer.Cluster(config), "v1", "pods").status()
    return replace(fresh, has_synced=True, state=ReflectorState.WATCHING, age_seconds=1.0)


def test_a_program_that_watches_is_alive_and_ready(informer: InformerStatus) -> None:
    health = Health(Told(informer))
    assert health.live().is_ok
    assert health.ready() == pyinformer.operator.HealthVerdict(is_ok=True, reasons=(), notes=())


def test_a_program_is_ready_as_soon_as_every_cache_has_synced(
    informer: InformerStatus,
) -> None:
    told = Told(replace(informer, has_synced=False, state=ReflectorState.LOADING, age_seconds=None))
    health = Health(told, clock=Clock())
    verdict = health.ready()
    assert not verdict.is_ok
    assert verdict.reasons[0].startswith("not synced: pods.v1")
    assert health.live().is_ok
    told.now = informer
    assert health.ready().is_ok


def test_a_normal_reconnect_changes_neither_verdict(informer: InformerStatus) -> None:
    told, clock = Told(informer), Clock()
    health = Health(told, clock=clock)
    steps = [
        (ReflectorState.WATCHING, 55.0),
        (ReflectorState.PROVING, 58.0),
        (ReflectorState.WAITING, 60.0),
        (ReflectorState.LOADING, 90.0),
        (ReflectorState.FORBIDDEN, 120.0),
        (ReflectorState.WATCHING, 0.0),
    ]
    for _ in range(20):
        for state, age in steps:
            told.now = replace(informer, state=state, age_seconds=age)
            assert (health.ready().is_ok, health.live().is_ok) == (True, True)
            clock.now += 5.0


def test_a_cache_that_is_too_old_is_not_ready_and_ready_when_it_has_been_fresh_for_a_while(
    informer: InformerStatus,
) -> None:
    told, clock = Told(replace(informer, state=ReflectorState.WAITING)), Clock()
    health = Health(told, clock=clock)
    told.now = replace(informer, state=ReflectorState.WAITING, age_seconds=301.0)
    verdict = health.ready()
    assert not verdict.is_ok
    assert verdict.reasons[0].endswith("last confirmed as current 301 s ago")
    assert health.live().is_ok  # a new process would find the same server
    told.now = informer
    answers = []
    for _ in range(4):
        clock.now += 4.0
        answers.append(health.ready().is_ok)
    assert answers == [False, False, True, True]


def test_a_cache_that_is_not_followed_for_long_is_not_ready_whatever_its_age(
    informer: InformerStatus,
) -> None:
    told, clock = Told(informer), Clock()
    health = Health(told, clock=clock)
    states = (ReflectorState.WAITING, ReflectorState.PROVING, ReflectorState.FORBIDDEN)
    answers = []
    for turn in range(33):
        # Between the attempts it loads, and is seen doing so.
        state = ReflectorState.LOADING if turn % 4 == 3 else states[turn % 3]
        told.now = replace(informer, state=state, age_seconds=2.0)
        answers.append(health.ready().is_ok)
        clock.now += 10.0
    assert answers == [*[True] * 30, *[False] * 3]
    assert health.ready().reasons[0].startswith("not followed: pods.v1")
    assert health.live().is_ok


def test_readiness_does_not_flap_while_a_cache_is_near_the_limit(informer: InformerStatus) -> None:
    told, clock = Told(informer), Clock()
    health = Health(told, clock=clock)
    answers = []
    for second in range(60):
        told.now = replace(informer, age_seconds=301.0 if second % 5 == 0 else 299.0)
        answers.append(health.ready().is_ok)
        clock.now += 1.0
    assert not any(answers)


def test_a_watch_without_proof_of_progress_is_not_alive(
    informer: InformerStatus,
) -> None:
    told = Told(replace(informer, age_seconds=901.0))
    health = Health(told)
    assert health.live().reasons == (
        "wedged: pods.v1 watches, but was not confirmed as current for 901 s",
    )
    told.now = replace(informer, state=ReflectorState.WAITING, age_seconds=10_000.0)
    assert Health(told).live().is_ok


def test_a_program_whose_caches_may_be_older_than_15_minutes_is_alive_for_as_long(
    informer: InformerStatus,
) -> None:
    options = HealthOptions(stale_seconds=1000.0)
    told = Told(replace(informer, age_seconds=999.0))
    assert Health(told, options=options).live().is_ok
    told.now = replace(informer, age_seconds=1001.0)
    assert not Health(told, options=options).live().is_ok
    assert Health(told, options=HealthOptions(stale_seconds=None)).live().is_ok


def test_an_age_that_nothing_can_prove_counts_for_no_probe_while_its_watch_is_open(
    informer: InformerStatus,
) -> None:
    """A quiet resource whose versions have no order, without bookmarks: its last event is old."""
    (part,) = informer.namespaces
    watching = ReflectorState.WATCHING
    part = replace(part, state=watching, age_seconds=10_000.0, is_provable=False)
    status = replace(informer, age_seconds=10_000.0, namespaces=(part,))
    health = Health(Told(status))
    assert health.ready().is_ok
    assert health.live().is_ok

    waiting = replace(part, state=ReflectorState.WAITING)
    told = Told(replace(status, state=ReflectorState.WAITING, namespaces=(waiting,)))
    assert not Health(told).ready().is_ok
    provable = replace(status, namespaces=(replace(part, is_provable=True),))
    assert not Health(Told(provable)).live().is_ok


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(verb="list", status=503, times=None), id="refused"),
        pytest.param(Fault(verb="list", hang=True, times=None), id="unanswered"),
    ],
)
async def test_lists_that_confirm_nothing_are_no_reason_to_restart(
    apiserver: APIServer, fault: Fault
) -> None:
    """The watch lives, and a new process might not get a list at all."""
    async with cluster_of(apiserver) as cluster, SharedInformer(cluster, "v1", "pods") as informer:
        await informer.wait_for_cache_sync(timeout_seconds=100.0)
        apiserver.faults.add(fault)

        def age() -> float:
            informer.lister.fresh(max_age_seconds=0.5)  # asks the server to confirm the cache often
            return informer.age_seconds() or 0.0

        await until(lambda: age() > 1.0)
        apiserver.create(pod("a"))
        await until(lambda: len(informer.lister.list()) == 1)
        if fault.status:
            await until(lambda: informer.status().namespaces[0].proof_refused_seconds is not None)
        options = HealthOptions(stale_seconds=1.0)
        assert not Health(informer, options=options).ready().is_ok

        status = informer.status()
        (part,) = status.namespaces
        old = replace(part, age_seconds=901.0)  # also while lists work again, and nothing is proven
        told = Told(replace(status, age_seconds=901.0, namespaces=(old,)))
        assert Health(told, options=options).live().is_ok
        for refused, silent, is_alive in (
            (901.0, 901.0, False),
            (None, None, False),
            (899.0, 901.0, True),
            (901.0, 899.0, True),
        ):
            part = replace(old, proof_refused_seconds=refused, silent_seconds=silent)
            told.now = replace(status, age_seconds=901.0, namespaces=(part,))
            assert Health(told, options=options).live().is_ok is is_alive
        assert informer.state is ReflectorState.WATCHING
        apiserver.faults.release()


def test_a_crash_is_neither_alive_nor_ready(informer: InformerStatus) -> None:
    health = Health(Told(replace(informer, crash="InternalError: a bug")))
    for verdict in (health.live(), health.ready()):
        assert not verdict.is_ok
        assert "crashed" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("changes", "is_ready"),
    [
        pytest.param({"state": ReflectorState.FAILED}, False, id="gave-up"),
        pytest.param({"state": ReflectorState.STOPPED}, False, id="closed"),
        pytest.param({"state": ReflectorState.ABSENT, "age_seconds": None}, True, id="absent"),
        pytest.param({"state": ReflectorState.ABSENT, "age_seconds": 1e6}, True, id="removed"),
        pytest.param({"state": ReflectorState.FORBIDDEN, "age_seconds": 1e6}, False, id="403"),
    ],
)
def test_each_state_is_ready_or_not(
    informer: InformerStatus, changes: dict[str, Any], is_ready: bool
) -> None:
    health = Health(Told(replace(informer, **changes)))
    assert health.ready().is_ok is is_ready
    assert health.live().is_ok


def test_an_absent_resource_is_noted(informer: InformerStatus) -> None:
    health = Health(Told(replace(informer, state=ReflectorState.ABSENT)))
    assert health.ready().notes == ("pods.v1: is not served at present",)


def test_a_closed_informer_beside_others_is_not_a_problem(
    informer: InformerStatus,
) -> None:
    closed = replace(informer, informer="nodes.v1", state=ReflectorState.STOPPED)
    assert Health(Told(_factory(informer, closed))).ready().is_ok
    assert Health(Told(_factory(closed))).ready().reasons == ("closed: nodes.v1",)


def test_informers_of_one_name_in_two_clusters_are_distinguished(informer: InformerStatus) -> None:
    stale, clock = replace(informer, age_seconds=400.0), Clock()
    first, second = Told(stale), Told(stale)
    health = Health(first, second, clock=clock)
    assert len(health.ready().reasons) == 2
    first.now = informer
    clock.now += 11.0
    assert len(health.ready().reasons) == 1


def test_a_loop_that_is_blocked_again_and_again_is_not_alive(informer: InformerStatus) -> None:
    told, clock = Told(_factory(informer)), Clock()
    health = Health(told, clock=clock)
    answers = []
    for blocked in (0, 4, 9, 12, 12, 12, 12, 12, 12, 12, 12):
        watchdog = replace(_FINE, blocked=blocked, last_culprit="slow handler")
        told.now = _factory(informer, watchdog=watchdog)
        answers.append(health.live().is_ok)
        clock.now += 10.0
    assert answers == [*[True] * 3, *[False] * 4, *[True] * 4]


def test_a_few_blocks_in_an_hour_do_not_affect_liveness(informer: InformerStatus) -> None:
    told, clock = Told(_factory(informer)), Clock()
    health = Health(told, clock=clock)
    for blocked in range(100):
        told.now = _factory(informer, watchdog=replace(_FINE, blocked=blocked))
        assert health.live().is_ok
        clock.now += 36.0


def test_a_lasting_block_is_visible_from_another_thread(informer: InformerStatus) -> None:
    watchdog = replace(_FINE, blocked=1, last_culprit="slow handler", blocked_seconds=31.0)
    verdict = Health(Told(_factory(informer, watchdog=watchdog))).live()
    assert verdict.reasons == ("the event loop has been blocked for 31 s by slow handler",)


@pytest.mark.virtual_time
async def test_a_controller_whose_workers_all_ignore_their_end_is_not_alive_after_a_while() -> None:
    free = asyncio.Event()

    async def reconcile(request: Request, obj: object) -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    limits = {"reconcile_timeout_seconds": 1.0, "grace_seconds": 1.0}
    async with running(reconcile, **limits) as (controller, said):
        health = Health(controller, clock=asyncio.get_running_loop().time)
        for number in range(11):  # ten of them are replaced, one after the other
            said.say(f"default/{number}")
        await elapse(30.0)
        verdict = health.live()
        assert verdict.is_ok
        stuck = ", ".join(f"default/{number}" for number in range(11))
        assert (
            f"every worker ignores its cancellation: {stuck} (for 0 s; counts after 60)"
            in verdict.notes[0]
        )
        await elapse(60.0)
        assert not health.live().is_ok
        assert health.ready().is_ok
        free.set()
        await elapse(1.0)
        assert not health.live().is_ok
        await elapse(70.0)
        assert health.live().is_ok


@pytest.mark.virtual_time
async def test_a_storm_and_a_hot_loop_are_notes_and_no_reason_to_restart() -> None:
    def status() -> ControllerStatus:
        found = controller.status()
        noops = replace(found.noop_writes, is_storm=True, noop_ratio=0.9, held=7)
        return replace(found, hot=("default/a",), noop_writes=noops)

    async def reconcile(request: Request, obj: object) -> None:
        """Do nothing.

        Cancellation:
            Never waits.
        """

    async with running(reconcile) as (controller, _):
        health = Health(Told(status()))
        assert health.live().is_ok
        verdict = health.ready()
    assert verdict.is_ok
    assert verdict.notes == (
        "controller c: 90% of its newest writes changed nothing; 7 requests are held",
        "controller c: hot loops of default/a",
    )


@pytest.mark.virtual_time
async def test_a_controller_that_does_not_run_is_not_ready() -> None:
    async def reconcile(request: Request, obj: object) -> None:
        """Do nothing.

        Cancellation:
            Never waits.
        """

    controller = Controller("c", reconcile)
    health = Health(ControllerGroup(controller))
    assert health.ready().reasons == ("controller c is not running",)
    async with ControllerGroup(controller) as group:
        assert Health(group).ready().is_ok


def test_an_object_without_status_is_refused_and_an_empty_program_is_not_ready() -> None:
    with pytest.raises(InvalidTypeError, match=r"int has no status\(\)"):
        Health(5)  # type: ignore[arg-type]
    pool = pyinformer.ClusterPool(lambda _: nullcontext())  # not watched: it has no caches
    assert Health(pool).ready().reasons == ("nothing is watched yet",)
    assert Health().ready().reasons == ("nothing is watched yet",)
    assert Health().live().is_ok


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        pytest.param({"stale_seconds": -1.0}, "stale_seconds", id="negative"),
        pytest.param({"stale_seconds": float("nan")}, "stale_seconds", id="nan"),
        pytest.param({"stale_seconds": 0.0}, "stale_seconds", id="never-fresh"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        HealthOptions(**settings)


def test_a_finding_counts_after_its_grace_and_until_its_recovery(informer: InformerStatus) -> None:
    told, clock = Told(informer), Clock()
    health, began_at = Health(told, clock=clock), clock.now
    waiting = replace(informer, state=ReflectorState.WAITING)

    def ready_at(seconds: float, status: InformerStatus) -> pyinformer.operator.HealthVerdict:
        clock.now, told.now = began_at + seconds, status
        return health.ready()

    (note,) = ready_at(0.0, waiting).notes
    assert note.endswith(" (for 0 s; counts after 300)")
    assert ready_at(100.0, informer).notes == ()
    assert ready_at(110.0, waiting).is_ok  # it began again
    assert ready_at(409.0, waiting).is_ok
    (reason,) = ready_at(410.0, waiting).reasons
    assert reason == note.removesuffix(" (for 0 s; counts after 300)")
    gone = ready_at(412.0, informer).reasons
    assert gone == (f"{reason} (gone for 2 s; counts no more after 10)",)
    assert ready_at(413.0, waiting).reasons == (reason,)
    assert not ready_at(422.0, informer).is_ok
    assert ready_at(423.0, informer).is_ok


async def test_a_restarting_api_server_does_not_affect_probes(
    apiserver: APIServer,
) -> None:
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        SharedInformerFactory(cluster) as factory,
    ):
        informer = factory.informer("v1", "configmaps")
        health = Health(factory)
        async with health.server() as server:
            assert (await ask(server.port, get("/readyz")))[0] == 503
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            for number in range(5):
                apiserver.end_watches()
                apiserver.ensure_namespace(f"n{number}")
                for path in ("/healthz", "/livez", "/readyz"):
                    assert await ask(server.port, get(path)) == (200, "ok\n")
            await until(lambda: informer.state is ReflectorState.WATCHING)
        await factory.aclose()
        assert not health.ready().is_ok
        assert health.live().is_ok


def _factory(*informers: InformerStatus, watchdog: WatchdogStatistics = _FINE) -> FactoryStatus:
    return FactoryStatus(informers=informers, watchdog=watchdog, abandoned_handlers=())


@pytest.mark.parametrize("is_ok", [True, False])
def test_a_verdict_without_problems_is_true(is_ok: bool) -> None:
    reasons = () if is_ok else ("pods.v1: not synced",)
    assert (
        bool(pyinformer.operator.HealthVerdict(is_ok=is_ok, reasons=reasons, notes=("a note",)))
        is is_ok
    )


async def test_the_verdicts_of_a_program_that_does_not_work_are_false() -> None:
    assert not Health().ready()
    assert Health().live()
