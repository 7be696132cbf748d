"""One stream through outages, pauses, refusals and ends: nothing is lost."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Literal

import pytest
from kopf._cogs.clients import auth, errors, watching
from kopf._cogs.structs.credentials import LoginError
from kopf._cogs.structs.references import Resource

import pyinformer.kopf
from pyinformer.kopf._operators import operator_of
from pyinformer.testing import APIServer, Fault, Token
from tests.kopf.operators import put, remove, settings_of
from tests.kopf.streams import PODS, info_of, reading, vault_of
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

FIRST = ((None, "a"), (None, "b"), "LISTED")


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        put(running, "a", "b")
        yield running


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    pyinformer.kopf.install()
    yield
    pyinformer.kopf.uninstall()


def cut(server: APIServer) -> None:
    """Take the server away."""
    server.stop_accepting()
    server.drop_connections()


async def test_events_are_private_dicts_equal_to_the_servers(server: APIServer) -> None:
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
    listed = {pod["metadata"]["name"]: pod for pod in server.list("v1", "pods")}
    assert stream.objects == [listed["a"], listed["b"]]


async def test_deletions_during_an_outage_are_reported(server: APIServer) -> None:
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
        cut(server)
        remove(server, "a")
        put(server, "c")
        server.compact()
        server.accept_again()
        await stream.until_events(*FIRST, ("DELETED", "a"), (None, "c"), "LISTED")
    assert "deletionTimestamp" in stream.objects[2]["metadata"]


async def test_a_short_outage_is_continued_where_it_was(server: APIServer) -> None:
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
        cut(server)
        remove(server, "a")
        put(server, "b", team="x")
        server.accept_again()
        await stream.until_events(*FIRST, ("DELETED", "a"), ("MODIFIED", "b"))


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(verb="list", status=500, times=3), id="500"),
        pytest.param(Fault(verb="list", status=403, times=3), id="403"),
        pytest.param(Fault(verb="list", status=410, times=1), id="410"),
        pytest.param(Fault(verb="list", refuse=True, times=3), id="refused"),
        pytest.param(Fault(verb="list", cut_after_bytes=40, times=3), id="cut"),
        pytest.param(Fault(verb="watch", status=500, times=3), id="watch-500"),
        pytest.param(Fault(verb="watch", status=410, times=1), id="watch-410"),
        pytest.param(
            Fault(
                verb="watch",
                frames=(b'{"type":"ERROR","object":{"kind":"Status","code":500}}\n',),
            ),
            id="error-event",
        ),
    ],
)
async def test_no_transient_error_ends_a_stream(server: APIServer, fault: Fault) -> None:
    server.faults.add(fault)
    settings = settings_of()
    settings.networking.error_backoffs = [0.01] * 9
    async with reading(server, settings=settings) as stream:
        await until(lambda: "LISTED" in stream.events and server.open_watches)
        put(server, "c")
        await until(lambda: stream.events[-1] != "LISTED")
        assert stream.events[-1][1] == "c"
        assert not stream.task.done()


async def test_a_pause_closes_the_watch_and_everything_is_listed_after_it(
    server: APIServer,
) -> None:
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
        await until(lambda: server.open_watches == 1)
        await stream.toggle.turn_to(True)
        await until(lambda: server.open_watches == 0)
        remove(server, "a")
        put(server, "c")
        await stream.toggle.turn_to(False)
        await stream.until_events(*FIRST, ("DELETED", "a"), (None, "b"), (None, "c"), "LISTED")


async def test_a_warm_stream_follows_the_server_while_it_is_paused(server: APIServer) -> None:
    pyinformer.kopf.uninstall()
    pyinformer.kopf.install(warm_while_paused=True)
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
        await until(lambda: server.open_watches == 1)
        await stream.toggle.turn_to(True)
        remove(server, "a")
        put(server, "c")
        await stream.toggle.turn_to(False)
        await until(lambda: (None, "c") in stream.events or ("ADDED", "c") in stream.events)
        await until(lambda: ("DELETED", "a") in stream.events)
        assert (
            sum(
                one.verb == "list" and not one.query.get("fieldSelector") for one in server.requests
            )
            == 1
        )


async def test_observers_receive_types_and_other_streams_do_not(server: APIServer) -> None:
    async with reading(server, is_observer=True) as stream:
        await stream.until_events(("ADDED", "a"), ("ADDED", "b"), "LISTED")


async def test_new_selectors_are_used_at_the_next_request(server: APIServer) -> None:
    put(server, "a", team="x")
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
        stream.settings.watching.label_selectors["pods"] = "team=x"
        await until(lambda: server.open_watches == 1)
        server.end_watches()
        await stream.until_events(*FIRST, ("DELETED", "b"), (None, "a"), "LISTED")
    last = [one for one in server.requests if one.verb == "list"][-1]
    assert last.query["labelSelector"] == "team=x"


async def test_an_observer_without_rights_receives_kopfs_own_error(server: APIServer) -> None:
    server.faults.add(Fault(resource="pods", status=403, times=None))
    settings = settings_of()
    settings.networking.error_backoffs = (0.02, 0.02)
    async with reading(server, settings=settings, is_observer=True) as stream:
        await asyncio.wait({stream.task})
        error = stream.task.exception()
    assert isinstance(error, errors.APIForbiddenError)
    assert error.status == 403


async def test_a_refusal_after_the_first_list_is_waited_out(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of()
    settings.networking.error_backoffs = (0.02, 0.02)
    async with reading(server, settings=settings, is_observer=True) as stream:
        await until(lambda: server.open_watches == 1)
        server.faults.add(Fault(resource="pods", status=403, times=None))
        with caplog.at_level(logging.WARNING, "pyinformer.kopf"):
            server.end_watches()
            await until(lambda: "pods.v1 in all namespaces: forbidden" in caplog.text)
        server.faults.clear()
        put(server, "c")
        await until(lambda: ("ADDED", "c") in stream.events)


async def test_an_outage_is_over_when_a_watch_is_accepted() -> None:
    """On an idle resource nothing comes before the first bookmark, a minute later."""
    settings = settings_of()
    settings.networking.error_backoffs = (0.02, 0.02)
    with APIServer(bookmark_interval_seconds=3600.0) as server:
        async with reading(server, settings=settings) as stream:
            await until(lambda: server.open_watches == 1)
            auth.vault_var.set(stream.vault)
            (found,) = operator_of(settings).streams
            server.faults.add(Fault(resource="pods", status=403, times=None))
            server.end_watches()
            await until(lambda: "403" in found.last_error and found.refusal.began_at is not None)
            server.faults.clear()
            await until(lambda: not found.last_error and found.refusal.began_at is None)
            assert stream.events == ["LISTED"]


async def test_an_expired_token_makes_kopf_log_in_again() -> None:
    with APIServer(tokens=[Token(value="old"), Token(value="new")]) as server:
        put(server, "a")
        vault = vault_of(server, "old")
        async with reading(server, vault=vault) as stream:
            await until(lambda: server.open_watches == 1)
            server.expire_token("old")
            server.end_watches()
            await vault.wait_for_emptiness()
            await vault.populate(infos(server))
            put(server, "b")
            await until(lambda: ("ADDED", "b") in stream.events)


def infos(server: APIServer) -> dict[str, object]:
    """Return what login handlers return, with the new token."""
    return {"again": info_of(server, "new")}


async def test_the_loss_of_all_credentials_ends_a_stream_as_in_kopf() -> None:
    with APIServer(tokens=[Token(value="old")]) as server:
        vault = vault_of(server, "wrong")
        async with reading(server, vault=vault) as stream:
            await vault.wait_for_emptiness()
            await vault.populate({})
            await asyncio.wait({stream.task})
            assert isinstance(stream.task.exception(), LoginError)


async def test_an_internal_error_leaves_the_stream_to_plain_kopf(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
        await until(lambda: server.open_watches == 1)
        stream.settings.watching.inactivity_timeout = -1.0  # no reflector can work with that
        with caplog.at_level(logging.ERROR, "pyinformer.kopf"):
            server.end_watches()
            await until(lambda: "continues on plain kopf" in caplog.text)
        stream.settings.watching.inactivity_timeout = 70.0
        await stream.until_events(*FIRST, *FIRST)
        put(server, "c")
        await until(lambda: ("ADDED", "c") in stream.events)
    (line,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert "silence_seconds" in line.getMessage()


async def test_settings_that_cannot_work_leave_the_stream_to_plain_kopf(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_of(chunk_size=-1)
    with caplog.at_level(logging.ERROR, "pyinformer.kopf"):
        async with reading(server, settings=settings) as stream:
            await until(lambda: "runs on plain kopf" in caplog.text)
            settings.watching.chunk_size = None
            await until(lambda: stream.events[-1:] == ["LISTED"] or stream.task.done())
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert "page_size" in line


@pytest.mark.parametrize("how", ["environment", "setting", "exclude", "only"])
async def test_a_stream_can_stay_plain_kopf(
    server: APIServer, how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings: Any = settings_of()
    if how == "environment":
        monkeypatch.setitem(os.environ, "PYINFORMER_KOPF", "off")
    elif how == "setting":
        settings.pyinformer = False
    else:
        pyinformer.kopf.uninstall()
        if how == "exclude":
            pyinformer.kopf.install(exclude=["pods"])
        else:
            pyinformer.kopf.install(only=["deployments.apps"])
    with caplog.at_level(logging.INFO, "pyinformer.kopf"):
        async with reading(server, settings=settings) as stream:
            await stream.until_events(*FIRST)
    assert "is plain kopf" in caplog.text
    assert "limit" not in server.requests[0].query


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_the_end_of_a_stream_waits_for_no_server_and_no_timer(
    server: APIServer, verb: Literal["list", "watch"]
) -> None:
    server.faults.add(Fault(verb=verb, resource="pods", hang=True, times=None))
    async with reading(server) as stream:
        await until(lambda: server.faults.held > 0)
        requests = len(server.requests)
        stream.task.cancel()
        for _ in range(100):  # turns of the loop, which take no time
            await asyncio.sleep(0)
        assert stream.task.cancelled()
        assert len(server.requests) == requests


async def test_a_stream_that_is_left_suspended_ends_with_its_task(server: APIServer) -> None:
    kept: list[object] = []

    async def read_one() -> None:
        auth.vault_var.set(vault)
        stream = watching.infinite_watch(
            settings=settings_of(), resource=PODS, namespace=None, operator_paused=None
        )
        kept.append(stream)
        await anext(stream)

    vault = vault_of(server)
    await asyncio.create_task(read_one())
    await until(lambda: not server.open_watches)
    await until(lambda: len(asyncio.all_tasks()) == 1)
    await kept[0].aclose()  # type: ignore[attr-defined]  # a generator
    await vault.close()


def cancel_from_outside() -> None:
    """Cancel the task of the stream, as an operator that ends does to every younger task."""
    (task,) = (one for one in asyncio.all_tasks() if "host of the stream" in one.get_name())
    task.cancel()


async def test_a_stream_whose_task_is_cancelled_lists_again(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
        cancel_from_outside()
        remove(server, "a")
        await stream.until_events(*FIRST, ("DELETED", "a"), (None, "b"), "LISTED")
        put(server, "c")
        await until(lambda: stream.events[-1] == ("ADDED", "c"))
    assert "cancelled by other code; it lists again" in caplog.text


async def test_an_observer_whose_task_is_cancelled_loses_nothing(server: APIServer) -> None:
    async with reading(server, is_observer=True) as stream:
        await stream.until_events(("ADDED", "a"), ("ADDED", "b"), "LISTED")
        cancel_from_outside()
        put(server, "c")
        await until(lambda: ("ADDED", "c") in stream.events)


async def test_a_warm_stream_that_is_cancelled_in_a_pause_lists_after_it(
    server: APIServer,
) -> None:
    pyinformer.kopf.uninstall()
    pyinformer.kopf.install(warm_while_paused=True)
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
        await stream.toggle.turn_to(True)
        cancel_from_outside()
        remove(server, "a")
        await stream.toggle.turn_to(False)
        await stream.until_events(*FIRST, ("DELETED", "a"), (None, "b"), "LISTED")


class Abort(BaseException):
    """What a program raises to end itself, not as an error."""


class Selectors:
    """Selectors of the user's, which raise."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def collect(self, resource: Resource) -> list[str]:
        raise self._error


async def test_a_base_exception_ends_a_stream_as_in_kopf(server: APIServer) -> None:
    async with reading(server) as stream:
        await stream.until_events(*FIRST)
        await until(lambda: server.open_watches == 1)
        stream.settings.watching.label_selectors = Selectors(Abort())  # type: ignore[assignment]
        server.end_watches()
        await asyncio.wait({stream.task})
        assert isinstance(stream.task.exception(), Abort)


async def test_a_failure_of_a_stream_that_is_left_is_logged(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    vault = vault_of(server)
    auth.vault_var.set(vault)
    settings: Any = settings_of()
    stream: Any = watching.infinite_watch(settings=settings, resource=PODS, namespace=None)
    await anext(stream)
    await until(lambda: server.open_watches == 1)
    settings.watching.label_selectors = Selectors(ValueError("no selectors"))
    (found,) = operator_of(settings).streams
    server.end_watches()
    await until(lambda: found.state == "stopped")
    await stream.aclose()
    await vault.close()
    assert "failed as it ended: ValueError" in caplog.text


async def test_a_stream_outside_of_an_operator_is_plain_kopf(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a vault kopf has no session: its own error is raised, after one line about ours."""

    async def read() -> None:
        async for _ in watching.infinite_watch(
            settings=settings_of(), resource=PODS, namespace=None
        ):
            pass

    with pytest.raises(LookupError, match="vault_var") as raised:
        await asyncio.create_task(read())
    assert "/kopf/" in str(raised.traceback[-1].path)
    (line,) = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert line.startswith("the stream of pods.v1 runs on plain kopf: LookupError")


async def test_namespaces_are_watched_by_themselves(server: APIServer) -> None:
    server.ensure_namespace("other")
    async with reading(server, namespace="other") as stream:
        await stream.until_events("LISTED")
    assert server.requests[0].path == "/api/v1/namespaces/other/pods"


async def test_vaults_keep_two_servers_apart(server: APIServer) -> None:
    settings = settings_of()
    with APIServer() as other:
        put(other, "z")
        async with (
            reading(server, settings=settings) as one,
            reading(other, settings=settings) as two,
        ):
            await one.until_events(*FIRST)
            await two.until_events((None, "z"), "LISTED")
            remove(server, "a")
            remove(other, "z")
            await one.until_events(*FIRST, ("DELETED", "a"))
            await two.until_events((None, "z"), "LISTED", ("DELETED", "z"))


async def test_a_resource_that_is_not_served_yet_is_waited_for(server: APIServer) -> None:
    examples = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample", namespaced=True)
    async with reading(server, resource=examples) as stream:
        await until(lambda: any("kopf.dev" in one.path for one in server.requests))
        server.register("kopf.dev/v1", "KopfExample", "kopfexamples")
        await stream.until_events("LISTED")
        assert not stream.task.done()


async def test_the_next_stream_of_a_kind_reports_what_went_in_between(server: APIServer) -> None:
    """Kopf ends a stream when its definition goes, and still has what the stream has reported."""
    put(server, "recreated")
    async with reading(server) as first:
        await first.until_events((None, "a"), (None, "b"), (None, "recreated"), "LISTED")
        uid = first.objects[2]["metadata"]["uid"]
        first.task.cancel()
        await asyncio.wait({first.task})
        remove(server, "b", "recreated")
        put(server, "c", "recreated")
        async with reading(server, vault=first.vault) as second:
            await until(lambda: "LISTED" in second.events)
            deleted = [name for kind, name in second.events[:-1] if kind == "DELETED"]
            assert sorted(deleted) == ["b", "recreated"]
            assert second.events.index(("DELETED", "recreated")) < second.events.index(
                (None, "recreated")
            )
            gone = second.objects[second.events.index(("DELETED", "recreated"))]
            assert gone["metadata"]["uid"] == uid
            assert gone["metadata"]["deletionTimestamp"]
            second.task.cancel()
            await asyncio.wait({second.task})
            async with reading(server, vault=first.vault) as third:
                await third.until_events((None, "a"), (None, "c"), (None, "recreated"), "LISTED")


async def test_a_stream_that_ends_before_its_first_list_loses_nothing(server: APIServer) -> None:
    async with reading(server) as first:
        await first.until_events(*FIRST)
        first.task.cancel()
        await asyncio.wait({first.task})
        remove(server, "b")
        cut(server)
        auth.vault_var.set(first.vault)
        async with reading(server, vault=first.vault) as second:
            await until(lambda: bool(operator_of(first.settings).streams))
            second.task.cancel()
            await asyncio.wait({second.task})
            assert second.events == []
            server.accept_again()
            async with reading(server, vault=first.vault) as third:
                await third.until_events(("DELETED", "b"), (None, "a"), "LISTED")


async def test_streams_of_other_namespaces_inherit_nothing(server: APIServer) -> None:
    async with reading(server, namespace="default") as first:
        await first.until_events(*FIRST)
        first.task.cancel()
        await asyncio.wait({first.task})
        remove(server, "b")
        async with reading(server, namespace="kube-system", vault=first.vault) as other:
            await other.until_events("LISTED")
            async with reading(server, namespace="default", vault=first.vault) as second:
                await second.until_events(("DELETED", "b"), (None, "a"), "LISTED")
