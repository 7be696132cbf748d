"""The requests outside of streams: as in kopf at the start, repeated once they have worked."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from kopf._cogs.clients import auth, errors, fetching, scanning
from kopf._cogs.structs.references import Resource
from kopf._core.engines import peering

import kopf
import pyinformer.kopf
from pyinformer.kopf import _operator_supervision, _repeated_requests
from pyinformer.kopf._operators import current_operator, register
from pyinformer.kopf._shared_scans import SharedScans
from pyinformer.testing import APIServer, Fault
from tests.kopf.operators import put, settings_of
from tests.kopf.streams import PODS, vault_of
from tests.virtual_time import elapse
from tests.waiting import now, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from pyinformer.kopf._operators import KopfOperator

PEERINGS = Resource("kopf.dev", "v1", "clusterkopfpeerings", "ClusterKopfPeering", namespaced=False)
LOG = logging.getLogger("test")


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        kind, plural = "ClusterKopfPeering", "clusterkopfpeerings"
        running.register("kopf.dev/v1", kind, plural, namespaced=False)
        metadata = {"name": "default"}
        running.create({"apiVersion": "kopf.dev/v1", "kind": kind, "metadata": metadata})
        put(running, "a")
        yield running


@pytest.fixture
async def settings(server: APIServer) -> AsyncIterator[kopf.OperatorSettings]:
    """Settings of an operator that is in the context of the test."""
    pyinformer.kopf.install()
    made = settings_of()
    made.networking.error_backoffs = (0.01,)
    vault = vault_of(server)
    token = auth.vault_var.set(vault)
    register(made, kopf.OperatorRegistry())
    yield made
    auth.vault_var.reset(token)
    await vault.close()
    pyinformer.kopf.uninstall()


async def scan(settings: kopf.OperatorSettings, *groups: str) -> set[str]:
    """Return the plurals that a scan finds."""
    found = await scanning.scan_resources(settings=settings, logger=LOG, groups=set(groups) or None)
    return {one.plural for one in found}


def problems(after_seconds: float) -> list[str]:
    """Return what makes the liveness endpoint fail, after some time from now."""
    operator = current_operator()
    assert operator is not None
    return problems_of(operator, after_seconds=after_seconds)


def problems_of(operator: KopfOperator, *, after_seconds: float = 0.0) -> list[str]:
    """Return the same of one of several operators."""
    return _operator_supervision._problems(
        operator, asyncio.get_running_loop().time() + after_seconds
    )


@pytest.mark.parametrize("status", [400, 403, 404])
async def test_a_refusal_that_lasts_turns_liveness_red(
    server: APIServer, settings: kopf.OperatorSettings, status: int
) -> None:
    await scan(settings)
    settings.networking.error_backoffs = (0.01,) if status == 403 else (1000.0,)
    refusal = Fault(match=lambda one: one.path == "/apis", status=status, times=None)
    server.faults.add(refusal)
    scanning_again = asyncio.create_task(scan(settings, "kopf.dev"))
    await until(lambda: problems(1000.0))
    assert problems(1000.0)[0].startswith(f"the scan for resources: {status}")
    assert bool(problems(0.0)) is (status == 403)  # which kopf had repeated before
    server.faults.clear()
    assert await scanning_again == {"clusterkopfpeerings"}
    assert problems(1000.0) == []


async def test_a_refusal_ends_with_its_request(
    server: APIServer, settings: kopf.OperatorSettings
) -> None:
    await fetch(settings)
    server.faults.add(Fault(resource="pods", status=400, times=None))
    fetching_again = asyncio.create_task(fetch(settings))
    await until(lambda: problems(1000.0))
    fetching_again.cancel()
    await asyncio.wait({fetching_again})
    assert problems(1000.0) == []


async def test_a_server_that_is_away_leaves_liveness_green(
    server: APIServer, settings: kopf.OperatorSettings
) -> None:
    await fetch(settings)
    struck = server.faults.struck
    server.faults.add(Fault(resource="pods", status=500, times=4))
    fetching_again = asyncio.create_task(fetch(settings))
    await until(lambda: server.faults.struck >= struck + 3)
    assert problems(1000.0) == []
    assert await fetching_again == ["a"]


async def fetch(settings: kopf.OperatorSettings) -> list[str]:
    """Return the names of the pods that a fetch finds."""
    names = []
    wanted: dict[str, Any] = {"resource": PODS, "namespace": None, "logger": LOG}
    if not hasattr(fetching, "fetch_objs"):  # kopf before 1.45
        listed: Any = fetching
        chunk, _ = await listed.list_objs(settings=settings, **wanted)
        return [one["metadata"]["name"] for one in chunk]
    async for chunk, _ in fetching.fetch_objs(settings=settings, **wanted):
        names += [one["metadata"]["name"] for one in chunk]
    return names


async def test_the_first_scan_fails_as_in_kopf(
    server: APIServer, settings: kopf.OperatorSettings
) -> None:
    server.faults.add(Fault(match=lambda one: one.path == "/api", status=500, times=2))
    with pytest.raises(errors.APIServerError):
        await scan(settings)
    assert "pods" in await scan(settings)


async def test_a_later_scan_is_repeated_until_it_works(
    server: APIServer, settings: kopf.OperatorSettings, caplog: pytest.LogCaptureFixture
) -> None:
    await scan(settings)
    server.faults.add(Fault(match=lambda one: one.path.startswith("/apis"), status=503, times=2))
    assert "clusterkopfpeerings" in await scan(settings, "kopf.dev")
    assert "the scan for resources has failed and is repeated" in caplog.text


async def test_a_later_fetch_is_repeated_but_for_missing_rights(
    server: APIServer, settings: kopf.OperatorSettings
) -> None:
    await scan(settings)
    server.faults.add(Fault(resource="pods", status=500, times=2))
    with pytest.raises(errors.APIServerError):
        await fetch(settings)
    assert await fetch(settings) == ["a"]
    server.faults.add(Fault(resource="pods", status=500, times=3))
    assert await fetch(settings) == ["a"]
    server.faults.add(Fault(resource="pods", status=403, times=2))
    with pytest.raises(errors.APIForbiddenError):
        await fetch(settings)
    _repeated_requests.IN_STREAM.set(True)
    server.faults.add(Fault(resource="pods", status=500, times=2))
    with pytest.raises(errors.APIServerError):
        await fetch(settings)


def status_of(server: APIServer) -> dict[str, Any]:
    """Return the peers."""
    found: Any = server.get("kopf.dev/v1", "clusterkopfpeerings", "default")
    return {name: peer for name, peer in found.get("status", {}).items() if peer}


def keepalive(settings: kopf.OperatorSettings) -> asyncio.Task[None]:
    """Start the keep-alive of an operator called `me`."""
    return asyncio.create_task(
        peering.keepalive(
            namespace=None, resource=PEERINGS, identity=peering.Identity("me"), settings=settings
        )
    )


async def test_the_first_keepalive_fails_as_in_kopf(
    server: APIServer, settings: kopf.OperatorSettings
) -> None:
    server.faults.add(Fault(verb="patch", status=500, times=2))
    with pytest.raises(errors.APIServerError):
        await keepalive(settings)


async def test_a_later_keepalive_is_repeated_and_the_end_is_reported(
    server: APIServer, settings: kopf.OperatorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_repeated_requests, "_period_seconds", lambda _: 0.01)
    task = keepalive(settings)
    await until(lambda: "me" in status_of(server))
    struck = server.faults.struck
    server.faults.add(Fault(verb="patch", status=500, times=3))
    await until(lambda: server.faults.struck == struck + 3)
    patches = len(server.requests)
    await until(lambda: len(server.requests) > patches)
    assert not task.done()
    task.cancel()
    await asyncio.wait({task})
    assert status_of(server) == {}


async def test_a_failed_removal_of_the_peering_is_logged(
    server: APIServer, settings: kopf.OperatorSettings, caplog: pytest.LogCaptureFixture
) -> None:
    task = keepalive(settings)
    await until(lambda: "me" in status_of(server))
    server.faults.add(Fault(verb="patch", status=500, times=None))
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert "could not be notified of the end of this operator" in caplog.text


@pytest.mark.parametrize("how", ["environment", "setting"])
async def test_a_disabled_part_is_kopfs_own(
    server: APIServer,
    settings: kopf.OperatorSettings,
    how: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await scan(settings)
    await fetch(settings)
    if how == "environment":
        monkeypatch.setenv("PYINFORMER_KOPF", "off")
    else:
        settings.pyinformer = False  # type: ignore[attr-defined]  # as a startup handler does
    for fails in (scan, fetch):
        server.faults.add(Fault(verb="list", status=500, times=2))
        server.faults.add(Fault(match=lambda one: one.path == "/api", status=500, times=2))
        with pytest.raises(errors.APIServerError):
            await fails(settings)
        server.faults.clear()
    await farewell_of_kopf(server, settings, caplog)


async def farewell_of_kopf(
    server: APIServer, settings: kopf.OperatorSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """Check that a keep-alive is kopf's own, by its words when the farewell fails."""
    task = keepalive(settings)
    await until(lambda: "me" in status_of(server))
    server.faults.add(Fault(verb="patch", status=500, times=None))
    task.cancel()
    await asyncio.wait({task})
    assert "Couldn't remove self from the peering" in caplog.text


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"exclude": ["clusterkopfpeerings", "pods"]}, id="exclude"),
        pytest.param({"only": ["services"]}, id="only"),
    ],
)
async def test_requests_for_resources_that_are_not_chosen_are_kopfs_own(
    server: APIServer,
    settings: kopf.OperatorSettings,
    arguments: dict[str, list[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    pyinformer.kopf.uninstall()
    outside = contextvars.Context()  # the test itself is in the context of an operator
    outside.run(pyinformer.kopf.install, **arguments)  # type: ignore[arg-type]  # lists of names
    await scan(settings)
    await fetch(settings)
    server.faults.add(Fault(resource="pods", status=500, times=2))
    with pytest.raises(errors.APIServerError):
        await fetch(settings)
    await farewell_of_kopf(server, settings, caplog)


async def test_a_keepalive_that_begins_later_is_repeated(
    server: APIServer, settings: kopf.OperatorSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """As for a namespace that is created while the operator runs."""
    operator = current_operator()
    assert operator is not None
    first = keepalive(settings)
    await until(lambda: operator.has_touched)
    struck = server.faults.struck
    server.faults.add(Fault(verb="patch", status=500, times=2))
    second = keepalive(settings)
    await until(lambda: server.faults.struck == struck + 2)
    await until(lambda: "is repeated" in caplog.text or second.done())
    assert not second.done()
    for task in (first, second):
        task.cancel()
    await asyncio.wait({first, second})


@pytest.mark.virtual_time
@pytest.mark.parametrize(("lifetime", "periods"), [(60, {50, 51, 52, 53, 54, 55}), (3, {1})])
async def test_a_keepalive_comes_before_the_last_one_expires(
    settings: kopf.OperatorSettings,
    lifetime: int,
    periods: set[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    touched_at: list[float] = []

    async def touch(**_: object) -> None:
        touched_at.append(now())

    monkeypatch.setattr(peering, "touch", touch)
    settings.peering.lifetime = lifetime
    task = keepalive(settings)
    await elapse(200.0 * lifetime)
    assert {round(after - before) for before, after in pairwise(touched_at)} == periods
    task.cancel()
    await asyncio.wait({task})


async def test_scans_that_are_requested_meanwhile_share_the_next_one() -> None:
    scans, running = SharedScans(), asyncio.Event()
    begun: list[int] = []

    async def work() -> list[Resource]:
        begun.append(len(begun))
        await running.wait()
        return [PODS]

    first = asyncio.create_task(scans.scan(["g"], work))
    await until(lambda: len(begun) == 1)
    others = [asyncio.create_task(scans.scan(["g"], work)) for _ in range(5)]
    other_group = asyncio.create_task(scans.scan(["h"], work))
    await until(lambda: len(begun) == 2)
    running.set()
    await asyncio.wait({first, other_group, *others})
    assert len(begun) == 3
    assert {tuple(task.result()) for task in others} == {(PODS,)}


async def test_a_scan_that_fails_or_is_cancelled_leaves_the_next_caller_its_own() -> None:
    scans, waiting = SharedScans(), asyncio.Event()

    async def hang() -> list[Resource]:
        waiting.set()
        await asyncio.Event().wait()
        return []

    async def fail() -> list[Resource]:
        raise OSError("no network")

    async def work() -> list[Resource]:
        return [PODS]

    hanging = asyncio.create_task(scans.scan(None, hang))
    await waiting.wait()
    failing = asyncio.create_task(scans.scan(None, fail))
    working = asyncio.create_task(scans.scan(None, work))
    hanging.cancel()
    await asyncio.wait({hanging, failing, working})
    assert isinstance(failing.exception(), OSError)
    assert working.result() == [PODS]


async def test_without_an_operator_everything_is_as_in_kopf(server: APIServer) -> None:
    pyinformer.kopf.install()
    try:
        with pytest.raises(LookupError):
            await scan(settings_of())
    finally:
        pyinformer.kopf.uninstall()
