"""How writes leave: at their pace, once, with patience for a busy server, and cancellable anywhere.

The server here is a script: it knows config maps, and answers writes as each test wants.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

import pyinformer
from pyinformer import GroupVersionResource
from pyinformer.client import WriteOptions
from pyinformer.client.cluster import create_or_update, retry_on_conflict
from tests.client.cluster.observing import RecordedWrites
from tests.client.transport.serving import cluster_with, response, serving
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster, KubeObject
    from pyinformer.objects import JSONObject
    from tests.client.transport.serving import Request, Server

CONFIG_MAPS = GroupVersionResource.of("v1", "configmaps")
SERVED = response(
    b'{"kind":"APIResourceList","resources":['
    b'{"name":"configmaps","kind":"ConfigMap","namespaced":true},'
    b'{"name":"configmaps/status","kind":"ConfigMap","namespaced":true}]}'
)
BODY: JSONObject = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default", "uid": "u", "resourceVersion": "1"},
    "data": {"a": "1"},
}
STORED = {
    **BODY,
    "metadata": {**BODY["metadata"], "resourceVersion": "2"},
    "status": {"ready": True},
}
EDITED = {**BODY, "data": {"a": "2"}}
DELETED = {"kind": "Status", "status": "Success", "details": {"uid": "u"}}


def busy(seconds: float | None = 0.0) -> bytes:
    headers = {} if seconds is None else {"Retry-After": str(int(seconds))}
    return response(b'{"kind":"Status"}', status=429, headers=headers)


@dataclass
class Script:
    """Answers for everything but discovery; when they are used up, the object or its deletion."""

    answers: list[bytes] = field(default_factory=list)
    silent: bool = False

    async def answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        if request.target == "/api/v1":
            writer.write(SERVED)
            return
        if self.silent:
            await asyncio.Event().wait()
        usual = DELETED if request.method == "DELETE" else STORED
        writer.write(self.answers.pop(0) if self.answers else response(msgspec.json.encode(usual)))


@asynccontextmanager
async def scripted(
    script: Script, **options: Any
) -> AsyncIterator[tuple[Server, Cluster, RecordedWrites]]:
    heard = RecordedWrites()
    async with (
        serving(script.answer) as server,
        pyinformer.connect(server=server.url, write_options=WriteOptions(**options)) as cluster,
    ):
        cluster.observe_writes(CONFIG_MAPS, heard)
        yield server, cluster, heard


def asked(server: Server) -> list[str]:
    return [one.method for one in server.requests if one.target != "/api/v1"]


async def existing(cluster: Cluster) -> KubeObject:
    return await cluster.get("v1", "configmaps", "default/a")


def append(body: JSONObject) -> None:
    body["data"] = {"a": "3"}


Call = Callable[["Cluster"], Awaitable[object]]
CALLS: dict[str, Call] = {
    "get": existing,
    "create": lambda cluster: cluster.create(BODY),
    "replace": lambda cluster: cluster.replace(BODY),
    "patch": lambda cluster: cluster.patch(BODY, EDITED),
    "status": lambda cluster: cluster.status(BODY, {"ready": True}),
    "apply": lambda cluster: cluster.apply(BODY, field_manager="me"),
    "apply_if_changed": lambda cluster: cluster.apply_if_changed(BODY, None, field_manager="me"),
    "delete": lambda cluster: cluster.delete(BODY),
    "delete_by_key": lambda cluster: cluster.delete("v1", "configmaps", "default/a"),
    "create_or_update": lambda cluster: create_or_update(cluster, BODY, append),
    "retry_on_conflict": lambda cluster: retry_on_conflict(lambda: cluster.replace(BODY)),
}
each_call = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
WRITES = {name: CALLS[name] for name in CALLS if name not in {"get", "create_or_update"}}
each_write = pytest.mark.parametrize("call", WRITES.values(), ids=WRITES)


async def cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@each_call
async def test_a_call_cancelled_while_its_answer_is_awaited_is_not_repeated(call: Call) -> None:
    script = Script(silent=True)
    async with scripted(script) as (server, cluster, heard):
        task = asyncio.ensure_future(call(cluster))
        await server.wait_until(lambda: bool(asked(server)))
        await cancelled(task)
        await server.wait_until(lambda: server.open_connections == 0)

        assert len(asked(server)) == 1
        assert heard.events == []
        script.silent = False
        await call(cluster)  # nothing is held


@pytest.mark.covers(
    "client-go util/flowcontrol: TestWait", "client-go rest: TestTryThrottleWithInfoContextDeadline"
)
@each_write
async def test_a_write_cancelled_while_it_waits_for_its_turn_does_not_leave(call: Call) -> None:
    async with scripted(Script(), writes_per_second=0.001) as (server, cluster, heard):
        await cluster.replace(BODY)
        del heard.events[:]
        task = asyncio.ensure_future(call(cluster))
        await until(lambda: cluster.write_statistics().waiting == 1)
        await cancelled(task)

        assert asked(server) == ["PUT"]
        assert heard.events == []
        assert cluster.write_statistics().waiting == 0


async def test_a_write_cancelled_while_the_server_is_busy_does_not_leave_again() -> None:
    async with scripted(Script([busy(20)])) as (server, cluster, heard):
        task = asyncio.ensure_future(cluster.replace(BODY))
        await until(lambda: cluster.write_statistics().waiting == 1)
        await cancelled(task)

        assert asked(server) == ["PUT"]
        assert heard.events == []


async def test_a_cancelled_discovery_is_repeated_by_its_waiters() -> None:
    arrived = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if not arrived.is_set():
            arrived.set()
            await asyncio.Event().wait()
        writer.write(SERVED)

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        first = asyncio.ensure_future(cluster.discovery.resource(CONFIG_MAPS))
        await arrived.wait()
        others = [asyncio.ensure_future(cluster.discovery.kind("v1", "ConfigMap")) for _ in "abc"]
        late = asyncio.ensure_future(cluster.discovery.resource(CONFIG_MAPS))
        await asyncio.sleep(0)
        await cancelled(late)
        await cancelled(first)

        assert {(await other).kind for other in others} == {"ConfigMap"}
        assert len(server.requests) == 2


async def test_those_who_wait_for_a_discovery_that_fails_share_its_failure() -> None:
    arrived, fail = asyncio.Event(), asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        arrived.set()
        await fail.wait()
        writer.write(response(b"{}", status=503))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        asking = [asyncio.ensure_future(cluster.discovery.kind("v1", "Pod")) for _ in "abc"]
        await arrived.wait()
        fail.set()
        errors = [await raised(one) for one in asking]

        assert [type(error) for error in errors] == [pyinformer.errors.ServerError] * 3
        assert len(set(map(id, errors))) == 3
        assert len(server.requests) == 1


async def raised(task: asyncio.Future[Any]) -> BaseException:
    """Return what a task raised."""
    with pytest.raises(pyinformer.APIStatusError) as found:
        await task
    return found.value


async def test_a_server_that_is_busy_with_a_discovery_is_asked_again() -> None:
    answers = [busy(), SERVED]

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        usual = response(msgspec.json.encode(STORED))
        writer.write(answers.pop(0) if request.target == "/api/v1" else usual)

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        await cluster.replace(BODY)

        assert [one.method for one in server.requests] == ["GET", "GET", "PUT"]


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"])
async def test_a_write_whose_answer_is_lost_says_that_its_outcome_is_unknown(sent: bytes) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target == "/api/v1":
            writer.write(SERVED)
            return
        writer.write(sent)
        writer.close()

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        words = "whether the server carried out the PUT is not known"
        with pytest.raises(pyinformer.TransportError, match=words):
            await cluster.replace(BODY)
        with pytest.raises(pyinformer.TransportError) as found:
            await existing(cluster)
        assert "carried out" not in str(found.value)
        assert asked(server).count("PUT") == 1


async def test_a_write_without_an_answer_in_time_says_that_its_outcome_is_unknown() -> None:
    script = Script(silent=True)
    async with (
        serving(script.answer) as server,
        cluster_with(server.url, request_seconds=0.2) as cluster,
    ):
        words = r"within 0\.2 s; whether the server carried out the PUT is not known"
        with pytest.raises(pyinformer.errors.RequestTimeoutError, match=words) as found:
            await cluster.replace(BODY)
        assert found.value.waited_seconds == 0.2


async def test_a_write_that_was_never_sent_is_not_reported_as_unknown() -> None:
    script = Script()
    async with scripted(script) as (server, cluster, _):
        await cluster.discovery.kind("v1", "ConfigMap")
    async with pyinformer.connect(server=server.url) as cluster:
        with pytest.raises(pyinformer.TransportError, match="cannot connect") as found:
            await cluster.delete("v1", "configmaps", "default/a")
        assert "carried out" not in str(found.value)


async def test_a_retry_cancelled_between_two_attempts_makes_no_more() -> None:
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise pyinformer.ConflictError(status=409, reason="Conflict")

    task = asyncio.ensure_future(retry_on_conflict(attempt, backoff_seconds=60.0))
    await until(lambda: attempts == 1)
    await cancelled(task)

    assert attempts == 1


async def test_a_busy_server_is_asked_again_after_the_time_it_named() -> None:
    async with scripted(Script([busy(), busy(), busy(1)])) as (server, cluster, heard):
        loop = asyncio.get_running_loop()
        start = loop.time()
        written = await cluster.replace(BODY)

        assert loop.time() - start >= 1
        assert asked(server) == ["PUT"] * 4
        assert heard.events == [("wrote", "default/a", written.metadata.resource_version)]
        assert cluster.write_statistics().retried == 3


@pytest.mark.covers(
    "client-go rest: TestCheckRetryHandles429And5xx", "kube-client src: test_default_policy"
)
@pytest.mark.parametrize(
    ("options", "answer", "sent"),
    [
        pytest.param({}, busy(31), 1, id="longer-than-patience"),
        pytest.param({"retry_limit": 2}, busy(), 3, id="too-often"),
        pytest.param({"retry_limit": 0}, busy(), 1, id="never"),
    ],
)
async def test_retries_of_a_busy_server_are_bounded(
    options: dict[str, Any], answer: bytes, sent: int
) -> None:
    async with scripted(Script([answer] * 20), **options) as (server, cluster, heard):
        with pytest.raises(pyinformer.errors.TooManyRequestsError):
            await cluster.replace(BODY)

        assert len(asked(server)) == sent
        assert heard.events == []


async def test_writes_are_sent_within_the_rate_limit() -> None:
    async with scripted(Script(), writes_per_second=2.0) as (server, cluster, _):
        loop = asyncio.get_running_loop()
        start = loop.time()
        async with asyncio.TaskGroup() as group:
            for _ in range(5):  # four of them at once
                group.create_task(cluster.replace(BODY))

        assert loop.time() - start >= 1 / 2
        assert len(asked(server)) == 5


def with_status(version: str, status: JSONObject) -> JSONObject:
    return {**BODY, "metadata": {**BODY["metadata"], "resourceVersion": version}, "status": status}


def with_conditions(version: str, *names: str) -> JSONObject:
    return with_status(version, {"conditions": [{"type": one, "status": "True"} for one in names]})


def answered(body: JSONObject, status: int = 200) -> bytes:
    return response(msgspec.json.encode(body), status=status)


CONFLICT = answered({"kind": "Status", "reason": "Conflict", "code": 409}, 409)


def patched(server: Server) -> list[JSONObject]:
    """Return the bodies of the patches that were sent."""
    return [msgspec.json.decode(one.body) for one in server.requests if one.method == "PATCH"]


async def test_a_status_without_conditions_is_one_patch_without_a_version() -> None:
    async with scripted(Script()) as (server, cluster, _):
        await cluster.status(
            with_conditions("1", "A"), {**with_conditions("1", "A")["status"], "ready": True}
        )

        assert asked(server) == ["PATCH"]
        assert patched(server) == [{"metadata": {"uid": "u"}, "status": {"ready": True}}]


async def test_conditions_are_merged_at_first_into_the_newest_that_this_process_knows() -> None:
    """Then nothing has to be read, even if the caller's object is older."""
    known = with_status("5", {**with_conditions("5", "A", "B")["status"], "ready": True})
    script = Script([answered(known), answered(known)])
    async with scripted(script) as (server, cluster, _):
        first = with_conditions("1", "A")
        await cluster.status(first, {**first["status"], "ready": True})
        wanted = with_conditions("1", "A", "C")["status"]
        await cluster.status(first, {**wanted, "ready": True})

        assert asked(server) == ["PATCH"] * 2
        assert patched(server)[1] == {
            "metadata": {"uid": "u", "resourceVersion": "5"},
            "status": {**with_conditions("", "A", "B", "C")["status"], "ready": True},
        }


async def test_conditions_are_merged_after_each_conflict_into_what_the_server_has() -> None:
    reads = [with_conditions("2", "A"), with_conditions("3", "A", "B")]
    script = Script([CONFLICT, answered(reads[0]), CONFLICT, answered(reads[1])])
    script.answers.append(answered(with_conditions("4", "A", "B", "C")))
    async with scripted(script) as (server, cluster, _):
        found = await cluster.status(BODY, with_conditions("1", "C")["status"])

        assert asked(server) == ["PATCH", "GET", "PATCH", "GET", "PATCH"]
        assert found.metadata.resource_version == "4"
        sent = [one["metadata"]["resourceVersion"] for one in patched(server)]
        assert sent == ["1", "2", "3"]
        assert patched(server)[-1]["status"] == with_conditions("4", "A", "B", "C")["status"]


async def test_conditions_that_always_conflict_end_with_the_conflict() -> None:
    script = Script([CONFLICT, answered(with_conditions("2", "A"))] * 5)
    async with scripted(script) as (server, cluster, _):
        with pytest.raises(pyinformer.ConflictError):
            await cluster.status(BODY, with_conditions("1", "C")["status"])

        assert asked(server) == ["PATCH", *["GET", "PATCH"] * 4]


async def test_a_status_that_is_cancelled_while_it_reads_sends_nothing_more() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "PATCH":
            writer.write(CONFLICT)
        elif request.target == "/api/v1":
            writer.write(SERVED)
        else:
            await asyncio.Event().wait()

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        wanted = with_conditions("1", "C")["status"]
        task = asyncio.ensure_future(cluster.status(BODY, wanted))
        await until(lambda: asked(server)[-1:] == ["GET"])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert asked(server) == ["PATCH", "GET"]


async def test_an_apply_whose_outcome_is_unknown_is_made_again() -> None:
    script = Script()
    async with scripted(script) as (server, cluster, _):
        first = await cluster.apply_if_changed(BODY, None, field_manager="me")
        assert await cluster.apply_if_changed(BODY, first, field_manager="me") == first
        assert asked(server) == ["PATCH"]
        script.answers.append(response(b"{}", status=500))
        with pytest.raises(pyinformer.errors.ServerError):
            await cluster.apply(EDITED, field_manager="me")

        await cluster.apply_if_changed(BODY, first, field_manager="me")
        assert asked(server) == ["PATCH"] * 3


async def test_the_result_of_two_concurrent_applies_is_not_cached() -> None:
    """The one whose answer comes last may have been carried out first."""
    both = asyncio.Barrier(2)

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "PATCH" and len(asked(server)) <= 2:
            await both.wait()
        stored = response(msgspec.json.encode(STORED))
        writer.write(stored if request.method == "PATCH" else SERVED)

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        more = {**BODY, "data": {"a": "1", "b": "1"}}
        tasks = [
            asyncio.ensure_future(cluster.apply(one, field_manager="me")) for one in (more, BODY)
        ]
        found = [await task for task in tasks]

        for _ in range(2):
            await cluster.apply_if_changed(BODY, found[0], field_manager="me")
        assert asked(server) == ["PATCH"] * 3


async def test_the_query_of_a_write_has_its_options() -> None:
    async with scripted(Script()) as (server, cluster, _):
        await cluster.replace(BODY, field_manager="me", dry_run=True)
        await cluster.apply(BODY, field_manager="you & me", force=True)
        await cluster.delete(
            BODY, check_version=True, propagation="Foreground", grace_period_seconds=0, dry_run=True
        )

        replaced, applied, deleted = server.requests[1:]
        assert replaced.target.endswith("/configmaps/a?fieldManager=me&dryRun=All")
        assert applied.target.endswith("?fieldManager=you+%26+me&force=true")
        assert applied.headers["content-type"] == "application/apply-patch+yaml"
        assert msgspec.json.decode(deleted.body) == {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u", "resourceVersion": "1"},
            "propagationPolicy": "Foreground",
            "gracePeriodSeconds": 0,
            "dryRun": ["All"],
        }


@pytest.mark.covers(
    "controller-runtime pkg/client: creates a merge patch with the modifications applied"
)
async def test_a_patch_holds_the_edits_and_the_checks_that_were_asked_for() -> None:
    async with scripted(Script()) as (server, cluster, _):
        await cluster.patch(BODY, EDITED, check_uid=False)
        await cluster.patch(BODY, EDITED, check_version=True)
        await cluster.status(BODY, {"ready": True}, check_uid=False)

        bodies = [msgspec.json.decode(one.body) for one in server.requests[1:]]
        assert bodies == [
            {"data": {"a": "2"}},
            {"data": {"a": "2"}, "metadata": {"uid": "u", "resourceVersion": "1"}},
            {"status": {"ready": True}},
        ]
        assert server.requests[-1].target.endswith("/configmaps/a/status")


@pytest.mark.covers("client-go rest: TestRequestBody")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"[]", id="list"),
        pytest.param(b"not json", id="text"),
        pytest.param(b"", id="empty"),
    ],
)
async def test_an_answer_that_is_not_an_object_is_a_typed_error(answer: bytes) -> None:
    for call in (CALLS["replace"], CALLS["delete"], CALLS["get"]):
        async with scripted(Script([response(answer)])) as (_, cluster, heard):
            with pytest.raises(
                (pyinformer.errors.InvalidObjectError, pyinformer.errors.ProtocolError)
            ):
                await call(cluster)
            assert heard.events == []


async def test_a_discovery_that_is_not_a_list_is_a_typed_error() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(b'{"resources":3}'))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        with pytest.raises(pyinformer.errors.ProtocolError, match="not a list of resources"):
            await cluster.create(BODY)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"no JSON", id="no-json"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b'{"kind":"Pod","apiVersion":"v2","metadata":{"name":"a"}}', id="other-kind"),
        pytest.param(b'{"kind":"ConfigMap","apiVersion":1,"metadata":{}}', id="no-version"),
    ],
)
async def test_a_write_whose_answer_cannot_be_read_is_reported_as_done(answer: bytes) -> None:
    """The error advises the caller not to send it again."""
    done = "the server carried out the write, but its response cannot be read"
    async with scripted(Script([response(answer)] * 5)) as (server, cluster, heard):
        with pytest.raises(pyinformer.errors.WriteAnswerError, match=f"POST configmaps.v1: {done}"):
            await cluster.create(BODY)
        with pytest.raises(pyinformer.errors.WriteAnswerError, match=f"PUT configmaps.v1: {done}"):
            await cluster.replace(BODY)
        with pytest.raises(
            pyinformer.errors.WriteAnswerError, match=f"PATCH configmaps.v1: {done}"
        ):
            await cluster.patch(BODY, EDITED)
        with pytest.raises(
            pyinformer.errors.WriteAnswerError, match=f"PATCH configmaps.v1: {done}"
        ):
            await cluster.apply(BODY, field_manager="me")
        with pytest.raises(
            pyinformer.errors.WriteAnswerError, match=f"DELETE configmaps.v1: {done}"
        ):
            await cluster.delete(BODY)
        assert heard.events == []
        assert len(server.requests) == 6  # discovery, and each write once


@pytest.mark.parametrize(("name", "namespace"), [("b", "default"), ("a", "kube-system")])
async def test_an_answer_with_another_object_is_an_error_and_is_not_observed(
    name: str, namespace: str
) -> None:
    other = {**STORED, "metadata": {**STORED["metadata"], "name": name, "namespace": namespace}}

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        is_discovery = request.target == "/api/v1"
        writer.write(SERVED if is_discovery else response(msgspec.json.encode(other)))

    heard = RecordedWrites()
    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        cluster.observe_writes(CONFIG_MAPS, heard)
        with pytest.raises(pyinformer.errors.InvalidObjectError, match="another object"):
            await cluster.get("v1", "configmaps", "default/a")
        delete = cluster.delete("v1", "configmaps", "default/a")
        part = cluster.create(BODY, subresource="status")
        for write in (cluster.replace(BODY), part, delete):
            with pytest.raises(pyinformer.errors.WriteAnswerError, match="another object"):
                await write
    assert not heard.events


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        pytest.param("b", 1, id="the first answer names another object"),
        pytest.param("a", 2, id="it is of another kind, so that the next one is refused"),
    ],
)
async def test_one_answer_with_an_object_of_another_kind_is_not_remembered(
    name: str, wrong: int
) -> None:
    """A gateway mixed up two responses; those after it are right."""
    metadata = {**STORED["metadata"], "name": name}
    other = {**STORED, "kind": "Secret", "metadata": metadata}
    answers = [other]

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        is_discovery = request.target == "/api/v1"
        found = answers.pop() if answers and not is_discovery else STORED
        writer.write(SERVED if is_discovery else response(msgspec.json.encode(found)))

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        for _ in range(wrong):
            with contextlib.suppress(pyinformer.errors.InvalidObjectError):
                await cluster.get("v1", "configmaps", "default/a")
        assert (await cluster.get("v1", "configmaps", "default/a")).gvk.kind == "ConfigMap"
        assert (await cluster.replace(BODY)).gvk.kind == "ConfigMap"


@pytest.mark.parametrize("stored", ["old", "new"])
async def test_a_status_that_is_ignored_while_its_definition_gets_a_subresource_is_an_error(
    stored: str,
) -> None:
    """Discovery is late: the answer has the status from before."""
    served = response(
        b'{"kind":"APIResourceList","groupVersion":"v1","resources":['
        b'{"name":"configmaps","kind":"ConfigMap","namespaced":true}]}'
    )

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        found = {**STORED, "status": {"observed": stored}}
        writer.write(
            served if request.target == "/api/v1" else response(msgspec.json.encode(found))
        )

    async with serving(answer) as server, pyinformer.connect(server=server.url) as cluster:
        before = {**STORED, "status": {"observed": "old"}}
        if stored == "new":
            assert (await cluster.status(before, {"observed": "new"})).at("status.observed", str)
            return
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match=r"stored none of status\.observed"
        ):
            await cluster.status(before, {"observed": "new"})
