"""A recorder beside a program on the embedded server, and the checker on what it wrote."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

import pyinformer
from pyinformer.errors import InvalidArgumentError, StaleCacheError
from pyinformer.testing import APIServer, Fault, Token
from pyinformer.testing.histories import (
    AuditedRecord,
    HandledRecord,
    History,
    ReadRecord,
    ReconciledRecord,
    Recorder,
    ResourcesRecord,
    RestedRecord,
    Rule,
    SampledRecord,
    ServerTruth,
    WaitedRecord,
    check_history,
)
from tests.integration.servers import ADMIN, EmbeddedServer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer import KubeObject, Request
    from pyinformer.controller import Reconcile
    from pyinformer.objects import JSONObject
    from pyinformer.testing.histories import Record

NAMES = tuple("abcdefgh")


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer(tls=True, tokens=[Token(value=ADMIN)]) as server:
        yield server


def config_map(name: str, value: int, tier: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"tier": tier}},
        "data": {"value": str(value), "tier": tier},
    }


def write(server: APIServer, writes: int, *, seed: int = 1) -> None:
    """Create, change and delete config maps at random."""
    rng = random.Random(seed)
    live: dict[str, JSONObject] = {}
    for number in range(writes):
        name, tier = rng.choice(NAMES), rng.choice(("in", "out"))
        body = config_map(name, number, tier)
        if name not in live:
            live[name] = server.create(body)
        elif rng.random() < 0.3:
            del live[name]
            server.delete("v1", "configmaps", name, "default")
        else:
            live[name] = server.update(
                {
                    **live[name],
                    **body,
                    "metadata": {**live[name]["metadata"], "labels": {"tier": tier}},
                }
            )


@dataclass
class Lab:
    """A program with its run.recorder."""

    history: History
    truth: ServerTruth
    recorder: Recorder
    cluster: pyinformer.Cluster
    factory: pyinformer.SharedInformerFactory

    def maps(self, **options: Any) -> pyinformer.SharedInformer[None]:
        """Return an informer of config maps."""
        informer: pyinformer.SharedInformer[None] = self.factory.informer(
            "v1", "configmaps", **options
        )
        return informer


@asynccontextmanager
async def lab(server: APIServer, *, counts_resources: bool = False) -> AsyncIterator[Lab]:
    """Record a program on a server from before its start until after its end."""
    history = History()
    with ServerTruth(history, server) as truth:
        async with (
            Recorder(history, interval_seconds=0.01, counts_resources=counts_resources) as recorder,
            EmbeddedServer(server).connect() as cluster,
            pyinformer.SharedInformerFactory(cluster) as factory,
        ):
            yield Lab(history, truth, recorder, cluster, factory)
            await factory.aclose()
            await cluster.aclose()
            server.drop_connections()  # its ends are sockets of this process, too


@asynccontextmanager
async def followed(
    server: APIServer,
) -> AsyncIterator[tuple[Lab, pyinformer.SharedInformer[None]]]:
    """Follow config maps, synced."""
    async with lab(server) as run:
        maps = run.maps()
        run.recorder.follow(maps)
        await maps.start()
        await maps.wait_for_cache_sync()
        yield run, maps


def of_kind(records: History, kind: type[Record]) -> list[Record]:
    return [one for one in records if isinstance(one, kind)]


async def test_a_program_that_is_right_is_not_accused(server: APIServer) -> None:
    async with lab(server, counts_resources=True) as run:
        everything = run.maps()
        everything.add_index("tier", "data.tier")
        selected = run.maps(namespaces="default", label_selector="tier=in")
        run.recorder.follow(everything, indexes={"tier": "data.tier"}, claims={"ready": lambda: 60})
        run.recorder.follow(selected, name="selected")
        await run.factory.start()
        with run.recorder.waiting("sync"):
            await everything.wait_for_cache_sync()
        await asyncio.to_thread(write, server, 300)
        run.recorder.read(everything, "default/a", max_age_seconds=60.0)
        run.recorder.read(everything, "default/none")
        await run.recorder.rest(run.truth)
    verdict = check_history(run.history)

    assert verdict.holds, str(verdict)
    assert len(of_kind(run.history, HandledRecord)) > 300
    assert {one.what for one in run.history if isinstance(one, RestedRecord)} == {
        "cache",
        "lister",
        "mirror",
        "index:tier",
    }
    assert any(
        isinstance(one, SampledRecord) and one.ages.keys() == {"age", "ready"}
        for one in run.history
    )
    assert [one.how for one in run.history if isinstance(one, WaitedRecord)] == ["done"]
    baseline, rest = (one for one in run.history if isinstance(one, ResourcesRecord))
    assert (baseline.tasks, baseline.sockets) == (rest.tasks, rest.sockets)
    assert baseline.sockets


async def test_a_controller_is_recorded_and_judged(server: APIServer) -> None:
    failed: set[str] = set()

    async def reconcile(request: Request, obj: KubeObject[None] | None) -> None:
        await anyio.lowlevel.checkpoint()
        if request.key not in failed:
            failed.add(str(request.key))
            raise OSError("the first attempt fails")

    def plain(request: Request, obj: KubeObject[None] | None) -> None:
        assert obj is None or obj.key == request.key

    async with lab(server) as run:
        maps = run.maps()
        run.recorder.follow(maps)
        one, two = (
            pyinformer.Controller(name, run.recorder.reconciling(name, function, maps), maps)
            for name, function in (("one", reconcile), ("two", plain))
        )
        async with pyinformer.ControllerGroup(one, two, factories=[run.factory]):
            await asyncio.to_thread(write, server, 60)
            await run.recorder.rest(run.truth)
    verdict = check_history(run.history)

    assert verdict.holds, str(verdict)
    hows = {one.how for one in run.history if isinstance(one, ReconciledRecord)}
    assert hows == {"done", "OSError"}


async def _fails(request: Request, obj: KubeObject[None] | None) -> None:
    await anyio.lowlevel.checkpoint()
    raise pyinformer.TerminalError("always")


class _FailsWhenCalled:
    async def __call__(self, request: Request, obj: KubeObject[None] | None) -> None:
        """Fail after a turn of the loop, as the coroutine function does."""
        await _fails(request, obj)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(_FailsWhenCalled(), id="an object with an async __call__"),
        pytest.param(partial(_FailsWhenCalled()), id="a partial of it"),
        pytest.param(partial(_fails), id="a partial"),
        pytest.param(
            lambda request, obj: _fails(request, obj),  # noqa: PLW0108 - a plain function
            id="a lambda",
        ),
    ],
)
async def test_a_reconcile_is_recorded_when_its_coroutine_has_ended(
    server: APIServer, function: Reconcile[None]
) -> None:
    async with lab(server) as run:
        maps = run.maps()
        run.recorder.follow(maps)
        reconcile = run.recorder.reconciling("one", function, maps)
        controller = pyinformer.Controller("one", reconcile, maps)
        async with pyinformer.ControllerGroup(controller, factories=[run.factory]):
            await asyncio.to_thread(write, server, 10)
            await until(lambda: controller.status().outcomes["terminal"] > 0)
            await run.recorder.rest(run.truth, timeout_seconds=0.5)
    verdict = check_history(run.history)

    assert not verdict.holds, "no object was reconciled without an error"
    hows = {one.how for one in run.history if isinstance(one, ReconciledRecord)}
    assert hows == {"TerminalError"}


async def test_a_restore_is_a_new_epoch(server: APIServer) -> None:
    async with followed(server) as (run, maps):
        await asyncio.to_thread(write, server, 30)
        saved = server.save()
        await asyncio.to_thread(_write_others, server)
        await until(lambda: len(maps.lister.keys()) > 20)
        await asyncio.to_thread(server.restore, saved)
        await run.recorder.rest(run.truth)
    verdict = check_history(run.history)

    assert verdict.holds, str(verdict)
    epochs = [one.epoch for one in run.history if isinstance(one, HandledRecord | SampledRecord)]
    assert max(epochs) == 1


async def test_objects_that_a_restore_brings_back_are_handled_before_their_epoch_is_reported(
    server: APIServer,
) -> None:
    """Their handlers run while the rest of a long list is still being announced."""
    names = [f"many-{number}" for number in range(1_500)]
    for name in names:
        server.create(config_map(name, 1, "in"))
    async with followed(server) as (run, maps):
        for number in range(20):  # each makes the announcement longer
            maps.add_event_handler(lambda _: None, name=f"handler-{number}")
        saved = server.save()
        await asyncio.to_thread(_delete, server, names)
        await until(lambda: not maps.lister.keys())
        await asyncio.to_thread(server.restore, saved)
        await run.recorder.rest(run.truth)
    verdict = check_history(run.history)

    assert verdict.holds, str(verdict)
    added = [one for one in run.history if isinstance(one, HandledRecord) and one.event == "add"]
    assert len(added) > len(names), "some came again; a full mailbox merges others"


def _delete(server: APIServer, names: list[str]) -> None:
    for name in names:
        server.delete("v1", "configmaps", name, "default")


def _write_others(server: APIServer) -> None:
    for number in range(20):
        server.create(config_map(f"later-{number}", number, "in"))


async def test_a_handler_that_loses_a_deletion_is_found(server: APIServer) -> None:
    async with followed(server) as (run, _):
        await asyncio.to_thread(write, server, 60)
        await run.recorder.rest(run.truth)
    deletion = next(
        one for one in run.history if isinstance(one, HandledRecord) and one.event == "delete"
    )
    records = [one for one in run.history if one is not deletion]

    assert Rule.ADDED_TWICE in check_history(records).counts


async def test_a_cache_that_misses_what_was_written_is_found(server: APIServer) -> None:
    """Then rest() waits until its timeout, and records what it finds."""
    async with followed(server) as (run, _):
        server.stop_accepting()
        server.drop_connections()
        server.create(config_map("a", 1, "in"))
        await run.recorder.rest(run.truth, timeout_seconds=0.2)
        server.accept_again()
    counts = check_history(run.history).counts

    assert counts[Rule.MISSING] == 3  # cache, lister and mirror
    assert counts[Rule.POSITION_NOT_ADVANCED] == 1


async def test_a_namespace_in_which_nothing_happens_keeps_no_cache_from_its_rest(
    server: APIServer,
) -> None:
    """The position of an informer of two is that of the quiet one until its next bookmark."""
    server.ensure_namespace("quiet")
    server.create({**config_map("q", 1, "in"), "metadata": {"name": "q", "namespace": "quiet"}})
    async with lab(server) as run:
        maps = run.maps(namespaces=["default", "quiet"])
        run.recorder.follow(maps)
        await maps.start()
        await maps.wait_for_cache_sync()
        await asyncio.to_thread(write, server, 30)
        await run.recorder.rest(run.truth, timeout_seconds=30.0)
        assert run.history.now() < 25.0, "it has not waited for a bookmark"
    verdict = check_history(run.history)

    assert verdict.holds, str(verdict)


async def test_an_informer_that_never_synced_never_rested(server: APIServer) -> None:
    async with followed(server) as (run, _):
        run.recorder.follow(run.factory.informer("v1", "pods"))
        await run.recorder.rest(run.truth, timeout_seconds=0.2)

    assert check_history(run.history).counts == {Rule.NEVER_RESTED: 2}


async def test_an_audit_is_recorded(server: APIServer) -> None:
    async with followed(server) as (run, _):
        await run.recorder.audit()
        await run.recorder.rest(run.truth)
    verdict = check_history(run.history)

    assert verdict.holds, str(verdict)
    assert verdict.records["audited"] == 1


async def test_an_audit_whose_connection_breaks_is_repeated(server: APIServer) -> None:
    """As after a storm: the lie would stay, and the run would be blamed for it."""
    async with followed(server) as (run, _):
        server.faults.add(Fault(verb="list", resource="configmaps", status=500))
        await run.recorder.audit(timeout_seconds=20)
    verdicts = [one.verdict for one in run.history if isinstance(one, AuditedRecord)]

    assert verdicts == ["inconclusive", "consistent"]


async def test_a_write_of_a_status_is_judged(server: APIServer) -> None:
    server.register("example.com/v1", "Widget", "widgets", has_status=True)
    metadata = {"name": "w", "namespace": "default"}
    body: JSONObject = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
    async with lab(server) as run:
        widgets = run.factory.informer("example.com/v1", "widgets")
        run.recorder.follow(widgets)
        await run.factory.start()
        made = await run.cluster.create(body)
        answer = await run.cluster.status(made, {"ready": 1})
        wrote = run.recorder.wrote_status
        wrote(answer, {"ready": 1}, plural="widgets", based_on=made)
        wrote(answer, {"ready": 2}, plural="widgets", based_on=made, who="liar")
        await run.recorder.rest(run.truth)
    verdict = check_history(run.history)

    assert verdict.counts == {Rule.STATUS_NOT_STORED: 1}
    assert verdict.violations[0].who == "liar"
    assert verdict.records["wrote"] == 2


async def test_a_read_that_is_refused_is_not_recorded(server: APIServer) -> None:
    async with followed(server) as (run, maps):
        with pytest.raises(StaleCacheError):
            run.recorder.read(maps, "default/a", max_age_seconds=0.0)

    assert of_kind(run.history, ReadRecord) == []


async def test_a_wait_that_fails_has_ended() -> None:
    history = History()
    with pytest.raises(TimeoutError), Recorder(history).waiting("for nothing"):
        raise TimeoutError

    assert [one.how for one in history if isinstance(one, WaitedRecord)] == ["TimeoutError"]


async def test_names_are_unique(server: APIServer) -> None:
    async with lab(server) as run:
        maps, pods = run.maps(), run.factory.informer("v1", "pods")
        with pytest.raises(InvalidArgumentError, match="must be followed first"):
            run.recorder.read(maps, "default/a")
        run.recorder.follow(maps, name="one")
        with pytest.raises(InvalidArgumentError, match="unique in the history"):
            run.recorder.follow(maps, name="two")
        with pytest.raises(InvalidArgumentError, match="unique in the history"):
            run.recorder.follow(pods, name="one")
        run.recorder.reconciling("c", _nothing, maps, is_complete=False)
        with pytest.raises(InvalidArgumentError, match="unique in the history"):
            run.recorder.reconciling("c", _nothing, maps)


def _nothing(request: Request, obj: KubeObject[None] | None) -> None:
    """Reconcile nothing."""


async def test_namespaces_that_labels_choose_cannot_be_followed(server: APIServer) -> None:
    async with lab(server) as run:
        maps = run.maps(namespace_selector="team=a")
        with pytest.raises(InvalidArgumentError, match="namespaces that do not change"):
            run.recorder.follow(maps)


@pytest.mark.parametrize("how", ["scope", "task"])
async def test_a_rest_that_is_cancelled_records_nothing(server: APIServer, how: str) -> None:
    async with lab(server) as run:
        run.recorder.follow(run.maps())  # never started
        if how == "scope":
            with anyio.move_on_after(0.05):
                await run.recorder.rest(run.truth)
        else:
            task = asyncio.create_task(run.recorder.rest(run.truth))
            await asyncio.wait([task], timeout=0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    assert of_kind(run.history, RestedRecord) == []
