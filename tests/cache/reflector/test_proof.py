"""The requests of a proof, when a server seems to be behind.

Some answers of the embedded server are replaced. A server that lags is never taken for one that was
restored.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector import read_live
from pyinformer.cache.reflector.lineage import HistorySample, HistoryVerdict
from pyinformer.cache.reflector.lineage._proof import Proof, prove
from pyinformer.client.transport import ClusterConfig, Connection, ListWatch
from pyinformer.errors import APIStatusError, TransportError
from pyinformer.objects import GroupVersionResource
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import put
from tests.cache.reflector.scripted import ScriptedBody, ScriptedConnection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from pyinformer.client.transport import Body, ConnectionProtocol
    from tests.cache.reflector.scripted import Pieces

FAR_AHEAD = "999999"


class Member:
    """A reflector, as far as a proof needs one."""

    def __init__(
        self, connection: ConnectionProtocol, position: str, seen: Sequence[HistorySample] = ()
    ) -> None:
        self.list_watch = ListWatch(connection, GroupVersionResource.of("v1", "pods"))
        self.position = position
        self.is_ordered = True
        self._seen = seen

    async def history_samples(self) -> Sequence[HistorySample]:
        """Return what it has seen."""
        return self._seen

    def on_history_broken(self, reason: str) -> None:
        raise NotImplementedError


@pytest.fixture
def server() -> Iterator[APIServer]:
    """Return a server with one pod."""
    with APIServer() as made:
        put(made, "a")
        yield made


@asynccontextmanager
async def connected(server: APIServer) -> AsyncIterator[Connection]:
    """Connect, and close."""
    connection = Connection(ClusterConfig(server=server.url))
    try:
        yield connection
    finally:
        await connection.aclose()


async def proof_of(server: APIServer, position: str, *seen: HistorySample) -> Proof:
    """Ask a server about a position."""
    async with connected(server) as connection:
        return await prove([Member(connection, position, seen)])


async def test_a_restored_server_is_asked_twice_a_second_apart_for_the_newest_there_is(
    server: APIServer,
) -> None:
    proof = await proof_of(server, FAR_AHEAD)

    assert proof.verdict is HistoryVerdict.BROKEN
    assert FAR_AHEAD in proof.reason
    probe, first, second = server.requests
    assert probe.query["resourceVersion"] == FAR_AHEAD
    assert [one.query["limit"] for one in server.requests] == ["1"] * 3
    assert not {"resourceVersion", "resourceVersionMatch"} & (first.query.keys() | second.query)
    assert second.arrived_at - first.arrived_at >= 1.0


@pytest.mark.parametrize("late", [1, 2], ids=["first-quorum", "second-quorum"])
async def test_a_server_that_is_late_is_lagging_and_no_other_history(
    server: APIServer, late: int
) -> None:
    """It has not reached the position when asked first, and has when asked for the newest."""
    at = server.resource_version
    behind = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'
    server.faults.add(*(Fault(verb="list", body=behind) for _ in range(late)))

    proof = await proof_of(server, at)

    assert proof.verdict is HistoryVerdict.LAGGING
    assert len(server.requests) == 1 + late


async def test_another_history_that_passes_the_position_meanwhile_is_not_a_lagging_server(
    server: APIServer,
) -> None:
    """It had not reached the position when asked first, and lacks what the cache holds."""
    at = server.resource_version
    behind = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'
    server.faults.add(Fault(verb="list", body=behind))

    proof = await proof_of(server, at, HistorySample("default/x", "u", at, at, existed=True))

    assert proof.verdict is HistoryVerdict.BROKEN
    assert "pods.v1 default/x was at" in proof.reason


async def test_what_a_lagging_server_has_as_it_was_seen_shows_no_other_history(
    server: APIServer,
) -> None:
    at = server.resource_version
    (pod,) = server.list("v1", "pods")
    uid, version = pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
    behind = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'
    server.faults.add(Fault(verb="list", body=behind))

    proof = await proof_of(server, at, HistorySample("default/a", uid, version, at, existed=True))

    assert proof.verdict is HistoryVerdict.LAGGING


async def test_a_server_that_cannot_be_reached_is_an_error_and_no_verdict(
    server: APIServer,
) -> None:
    server.faults.add(Fault(verb="list", refuse=True))
    with pytest.raises(TransportError):
        await proof_of(server, server.resource_version)


async def test_a_resource_without_comparable_versions_proves_nothing(server: APIServer) -> None:
    assert (await proof_of(server, "opaque-7")).verdict is HistoryVerdict.UNDECIDED
    assert not server.requests


async def test_only_the_newest_object_and_the_newest_deletion_are_probed(
    server: APIServer,
) -> None:
    """Two questions at most, whatever is cached; each at exactly its version, by name."""
    at = server.resource_version
    (pod,) = server.list("v1", "pods")
    uid, version = pod["metadata"]["uid"], pod["metadata"]["resourceVersion"]
    seen = [
        HistorySample("default/a", uid, version, at, existed=True),
        HistorySample("default/older", "u", "1", at, existed=True),
        HistorySample("default/gone", "g", version, at, existed=False),
        HistorySample("default/gone-before", "h", "1", at, existed=False),
    ]

    proof = await proof_of(server, at, *seen)

    assert (proof.verdict, proof.samples) == (HistoryVerdict.INTACT, 2)
    asked = [one.query for one in server.requests[1:]]
    assert [one["fieldSelector"] for one in asked] == ["metadata.name=a", "metadata.name=gone"]
    assert {one["resourceVersionMatch"] for one in asked} == {"Exact"}
    assert {one["resourceVersion"] for one in asked} == {at}


async def test_an_object_in_another_version_at_that_time_is_another_history(
    server: APIServer,
) -> None:
    (pod,) = server.list("v1", "pods")
    at = server.resource_version
    proof = await proof_of(
        server, at, HistorySample("default/a", pod["metadata"]["uid"], "1", at, existed=True)
    )
    assert proof.verdict is HistoryVerdict.BROKEN
    assert "default/a" in proof.reason


async def test_a_server_that_ignores_field_selectors_proves_nothing(server: APIServer) -> None:
    """It answers with whatever it has; as an aggregated API server may."""
    (pod,) = server.list("v1", "pods")
    at, uid = server.resource_version, pod["metadata"]["uid"]
    other = (
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%s"},"items":['
        b'{"metadata":{"name":"other","namespace":"default","uid":"u","resourceVersion":"1"}}]}'
    ) % at.encode()
    server.faults.add(
        Fault(match=lambda one: "metadata.name" in str(one.query), body=other, times=None)
    )
    seen = [
        HistorySample("default/a", uid, at, at, existed=True),
        HistorySample("default/gone", "u", at, at, existed=False),
    ]
    proof = await proof_of(server, at, *seen)
    assert (proof.verdict, proof.samples) == (HistoryVerdict.INTACT, 2)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_an_overloaded_server_that_does_not_answer_for_a_sample_is_asked_again(
    server: APIServer, status: int
) -> None:
    """A kube-apiserver that fills its caches has answered the probe, and then refuses with 429."""
    at = server.resource_version
    server.faults.add(Fault(match=lambda one: "metadata.name" in str(one.query), status=status))

    with pytest.raises(APIStatusError) as refused:
        await proof_of(server, at, HistorySample("default/a", "other", at, at, existed=True))

    assert refused.value.status == status


async def test_a_sample_that_is_not_answered_hides_no_other(server: APIServer) -> None:
    at = server.resource_version
    (pod,) = server.list("v1", "pods")
    refused = Fault(match=lambda one: "metadata.name=b" in str(one.query), status=503)
    server.faults.add(refused)
    seen = [
        HistorySample("default/b", "u", at, at, existed=True),
        HistorySample("default/a", pod["metadata"]["uid"], at, at, existed=False),
    ]

    proof = await proof_of(server, at, *seen)

    assert (proof.verdict, proof.samples) == (HistoryVerdict.BROKEN, 2)


class AnswersOnce(ScriptedConnection):
    """Answers the first list, at version 7, and no other."""

    has_answered = False

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list."""
        if self.has_answered:
            await asyncio.Event().wait()
        self.has_answered = True
        yield ScriptedBody(self._list())

    async def _list(self) -> Pieces:
        yield b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}'


@pytest.mark.virtual_time
async def test_silence_instead_of_a_sample_leaves_the_history_undecided() -> None:
    sample = HistorySample("default/a", "other", "7", "7", existed=True)

    proof = await prove([Member(AnswersOnce(), "7", [sample])])

    assert (proof.verdict, proof.is_unanswered) == (HistoryVerdict.UNDECIDED, True)


@pytest.mark.parametrize(
    ("uid", "verdict"), [("u", HistoryVerdict.INTACT), ("v", HistoryVerdict.BROKEN)]
)
async def test_a_deeply_nested_sample_decides(
    server: APIServer, uid: str, verdict: HistoryVerdict
) -> None:
    at = server.resource_version
    value = b'{"f:a":' * 9_994 + b"1" + b"}" * 9_994
    meta = b'"managedFields":[{"fieldsV1":%s}],"name":"a","namespace":"default"' % value
    meta += b',"resourceVersion":"%s","uid":"%s"' % (at.encode(), uid.encode())
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"%s"},"items":['
    body = head % at.encode() + b'{"metadata":{%s},"spec":{"x":%s}}]}' % (meta, value)
    server.faults.add(Fault(verb="list", body=body, times=None))

    proof = await proof_of(server, at, HistorySample("default/a", "u", at, at, existed=True))

    assert (proof.verdict, proof.samples) == (verdict, 1)


async def test_a_server_that_ignores_the_limit_is_asked_for_its_first_item_only(
    server: APIServer,
) -> None:
    """Whatever stands behind it, and however deep and long it is, the event loop continues."""
    deep = b"[" * 600_000 + b"]" * 600_000
    first = b'{"spec":%s,"metadata":{"name":"a","uid":"u","resourceVersion":"7"}}' % deep
    head = b'{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":['
    body = head + first + b',{"metadata":5}' * 1000 + b"]}"
    server.faults.add(Fault(resource="pods", body=body))
    async with connected(server) as connection:
        pods = ListWatch(connection, GroupVersionResource.of("v1", "pods"))
        found = await read_live(pods)

    assert (found.resource_version, found.uid, found.version) == ("7", "u", "7")
