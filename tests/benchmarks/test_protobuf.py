"""Protobuf holds the same objects as JSON, in the frames that client-go reads.

The messages are made from JSON and, if Go is installed, by Kubernetes' own types. They are read by
a decoder that shares no code with the server.
"""

from __future__ import annotations

import http.client
import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
import pytest

from benchmarks.data.collections import make_collection
from benchmarks.data.kinds import Collection
from benchmarks.data.templates import TemplatePods
from benchmarks.harness.go import go_program
from benchmarks.harness.measure import ServerOptions, running_server
from benchmarks.harness.phases import Measurement
from benchmarks.server.protobuf import field, with_namespace
from benchmarks.server.recording import Render
from benchmarks.server.rendering import Renderer
from benchmarks.server.replay import ReplayServer, record
from pyinformer.errors import KubeAPIServerError
from pyinformer.testing.kube_apiserver import find_go
from tests.benchmarks.replaying import replaying

_PROTOBUF = "application/vnd.kubernetes.protobuf"
_METADATA = f"{_PROTOBUF};as=PartialObjectMetadata{{}};g=meta.k8s.io;v=v1"
_CLIENT_GO = Path(__file__).parents[2] / "benchmarks" / "peers" / "client_go"
_PADDING = b"spec " * 100  # lengths then take two bytes

_Message: TypeAlias = "dict[int, list[bytes | int]]"


def _stand_in(bodies: Iterable[bytes]) -> Iterator[bytes]:
    """Make messages with name, namespace, uid and version in their metadata, and a spec."""
    for body in bodies:
        metadata = json.loads(body)["metadata"]
        texts = {1: "name", 3: "namespace", 5: "uid", 6: "resourceVersion"}
        written = b"".join(field(n, metadata[key].encode()) for n, key in texts.items())
        yield field(1, written) + field(2, _PADDING)


def _decode(message: bytes) -> _Message:
    """Read a message's fields by number; only varints and bytes occur."""
    fields, offset = defaultdict[int, list[bytes | int]](list), 0

    def number() -> int:
        nonlocal offset
        groups: list[int] = []
        while not groups or groups[-1] > 127:
            groups.append(message[offset])
            offset += 1
        return sum((group & 127) << 7 * place for place, group in enumerate(groups))

    while offset < len(message):
        tag = number()
        value: bytes | int = number()
        if tag & 7 == 2:
            length = int(value)
            value = message[offset : offset + length]
            assert len(value) == length
            offset += length
        fields[tag >> 3].append(value)
    return fields


def _inner(message: _Message, number: int) -> bytes:
    """Return a field that occurs once and has bytes."""
    (value,) = message[number]
    assert isinstance(value, bytes)
    return value


def _opened(frame: bytes) -> tuple[str, _Message]:
    """Return the kind in an envelope, and the message."""
    assert frame[:4] == b"k8s\x00"
    unknown = _decode(frame[4:])
    return _inner(_decode(_inner(unknown, 1)), 2).decode(), _decode(_inner(unknown, 2))


def _identity(message: _Message) -> tuple[bytes, ...]:
    metadata = _decode(_inner(message, 1))
    return tuple(_inner(metadata, number) for number in (1, 3, 5, 6))


def _wanted(items: list[dict[str, dict[str, str]]]) -> list[tuple[bytes, ...]]:
    keys = ("name", "namespace", "uid", "resourceVersion")
    return [tuple(one["metadata"][key].encode() for key in keys) for one in items]


class _Client:
    def __init__(self, url: str) -> None:
        self._netloc = urlsplit(url).netloc

    @contextmanager
    def ask(
        self, path: str, *, accept: str = _PROTOBUF, method: str = "GET"
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._netloc, timeout=30)
        try:
            connection.request(method, path, headers={"Accept": accept})
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def get(self, path: str, *, accept: str = _PROTOBUF) -> bytes:
        with self.ask(path, accept=accept) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == accept.partition(";")[0]
            return answer.read()

    def items(self, path: str) -> list[dict[str, dict[str, str]]]:
        found: list[dict[str, dict[str, str]]]
        found = json.loads(self.get(path, accept="application/json"))["items"]
        return found


def _events(answer: http.client.HTTPResponse, count: int) -> list[tuple[str, str, _Message]]:
    """Return type, kind and object of events."""
    assert answer.headers["Content-Type"] == f"{_PROTOBUF};stream=watch"
    events = []
    for _ in range(count):
        event = _decode(answer.read(int.from_bytes(answer.read(4), "big")))
        kind, message = _opened(_inner(_decode(_inner(event, 2)), 1))
        events.append((_inner(event, 1).decode(), kind, message))
    return events


@contextmanager
def _serving(
    resource: str = "pods",
    *,
    render: Render = _stand_in,
    metadata: bool = False,
    collection: Collection | None = None,
) -> Iterator[tuple[_Client, str]]:
    collection = collection or make_collection(resource, 5)
    with (
        record(
            collection, objects=5, updates=7, small=3, render=render, metadata=metadata
        ) as traffic,
        replaying(ReplayServer(traffic)) as server,
    ):
        yield _Client(server.url), f"{collection.kind.root}/{resource}"


def test_list_pages_and_watch_list_hold_the_objects_of_the_json() -> None:
    with _serving() as (client, path):
        wanted = _wanted(client.items(path))
        kind, whole = _opened(client.get(path))
        pages = [_opened(client.get(f"{path}?limit=2&continue={n}"))[1] for n in (0, 2, 4)]
        with client.ask(f"{path}?watch=1&sendInitialEvents=true") as answer:
            events = _events(answer, 6)
    assert kind == "PodList"
    assert [_identity(_decode(bytes(one))) for one in whole[2]] == wanted
    assert [one for page in pages for one in page[2]] == whole[2]
    assert [(type, kind) for type, kind, _ in events[:-1]] == [("ADDED", "Pod")] * 5
    assert [_identity(message) for _, _, message in events[:-1]] == wanted
    assert {_inner(message, 2) for _, _, message in events[:-1]} == {_PADDING}


def test_a_page_has_a_continue_token() -> None:
    with _serving() as (client, path):
        _, page = _opened(client.get(f"{path}?limit=2"))
    metadata = _decode(_inner(page, 1))
    assert (metadata[2], metadata[3], metadata[4]) == ([b"1000005"], [b"2"], [3])


def test_a_watch_list_ends_with_its_bookmark() -> None:
    watch_list = "?watch=1&sendInitialEvents=true"
    with _serving() as (client, path), client.ask(path + watch_list) as answer:
        type, kind, message = _events(answer, 6)[-1]
    metadata = _decode(_inner(message, 1))
    annotation = _decode(_inner(metadata, 12))
    assert (type, kind, _inner(metadata, 6)) == ("BOOKMARK", "Pod", b"1000005")
    assert (_inner(annotation, 1), _inner(annotation, 2)) == (b"k8s.io/initial-events-end", b"true")


@pytest.mark.parametrize("recorded", [False, True], ids=["on the way", "recorded"])
def test_metadata_alone_is_that_of_the_objects(recorded: bool) -> None:
    with _serving(metadata=recorded) as (client, path):
        wanted = _wanted(client.items(path))
        kind, listed = _opened(client.get(path, accept=_METADATA.format("List")))
        watch_list = f"{path}?watch=1&sendInitialEvents=true"
        with client.ask(watch_list, accept=_METADATA.format("")) as answer:
            events = _events(answer, 6)
    messages = [_decode(bytes(one)) for one in listed[2]]
    assert kind == "PartialObjectMetadataList"
    assert [_identity(message) for message in messages] == wanted
    assert {tuple(message) for message in messages} == {(1,)}
    assert [_identity(message) for _, _, message in events[:-1]] == wanted
    assert {kind for _, kind, _ in events} == {"PartialObjectMetadata"}


def test_updates_come_in_the_form_of_their_watch() -> None:
    with _serving() as (client, path), client.ask(f"{path}?watch=1&resourceVersion=9") as answer:
        for order in ("wait-for-watch", "release"):
            with client.ask(f"/benchmark/{order}", method="POST") as done:
                assert done.status == 200
        events = _events(answer, 7)
    assert [type for type, _, _ in events] == ["MODIFIED"] * 7
    versions = [_identity(message)[-1] for _, _, message in events]
    assert versions == [b"%d" % (1_000_006 + number) for number in range(7)]


def test_an_expired_watch_ends_with_a_status() -> None:
    with _serving() as (client, path), client.ask(f"{path}?watch=1&resourceVersion=9") as answer:
        for order in ("wait-for-watch", "expire"):
            with client.ask(f"/benchmark/{order}", method="POST") as done:
                assert done.status == 200
        ((type, kind, status),) = _events(answer, 1)
        assert answer.read() == b""
    assert (type, kind, status[4], status[6]) == ("ERROR", "Status", [b"Expired"], [410])


def test_small_namespaces_are_moved_in_protobuf_too() -> None:
    with _serving() as (client, _):
        path = "/api/v1/namespaces/small-12/pods"
        wanted = _wanted(client.items(path))
        _, listed = _opened(client.get(path))
    assert [_identity(_decode(bytes(one))) for one in listed[2]] == wanted
    assert {one[1] for one in wanted} == {b"small-12"}


def test_a_namespace_is_replaced_by_a_longer_one() -> None:
    message = field(1, field(1, b"a") + field(2, b"g") + field(3, b"x") + field(5, b"u")) + b"rest"
    moved = with_namespace(message, "y" * 200)
    wanted = field(1, field(1, b"a") + field(2, b"g") + field(3, b"y" * 200) + field(5, b"u"))
    assert moved == wanted + b"rest"


def test_empty_collections_answer_in_protobuf() -> None:
    with _serving() as (client, _):
        kind, listed = _opened(client.get("/api/v1/endpoints"))
        with client.ask("/api/v1/endpoints?watch=1&sendInitialEvents=true") as answer:
            events = _events(answer, 1)
    assert (kind, listed[2], events[0][:2]) == ("EndpointsList", [], ("BOOKMARK", "Endpoints"))


def test_custom_resources_have_no_protobuf() -> None:
    with _serving("widgets") as (client, path), client.ask(path) as answer:
        assert answer.status == 406


def test_generated_protobuf_pods_equal_those_of_json() -> None:
    with _serving(collection=TemplatePods(5, templates=2)) as (client, path):
        wanted = _wanted(client.items(path))
        _, listed = _opened(client.get(path))
        with client.ask(f"{path}?watch=1&sendInitialEvents=true") as answer:
            events = _events(answer, 6)[:-1]
    assert [_identity(_decode(bytes(one))) for one in listed[2]] == wanted
    assert [_identity(message) for _, _, message in events] == wanted


@pytest.fixture(scope="module")
def client_go() -> Iterator[Path]:
    """Build the program that renders, and that is the client-go peer."""
    try:
        find_go()
    except KubeAPIServerError as error:
        pytest.skip(error.reason)
    with go_program(_CLIENT_GO, wanted=True) as program:
        assert isinstance(program, Path), program
        yield program


@pytest.mark.real
@pytest.mark.timeout(600)  # the first build of client-go takes minutes
@pytest.mark.parametrize("resource", ["pods", "configmaps", "leases"])
def test_messages_of_kubernetes_types_hold_the_objects(client_go: Path, resource: str) -> None:
    with _serving(resource, render=Renderer(client_go)) as (client, path):
        wanted = _wanted(client.items(path))
        _, listed = _opened(client.get(path))
    assert [_identity(_decode(bytes(one))) for one in listed[2]] == wanted


@pytest.mark.real
@pytest.mark.timeout(600)
@pytest.mark.parametrize("endless", [False, True], ids=["recorded", "on the way"])
@pytest.mark.parametrize("load", ["list", "watch-list"])
@pytest.mark.parametrize("peer", ["client-go-protobuf", "client-go-metadata"])
def test_client_go_reads_what_is_sent(client_go: Path, peer: str, load: str, endless: bool) -> None:
    options = ServerOptions(
        objects=600,
        updates=50,
        protobuf=True,
        renderer=str(client_go),
        endless=endless,
        templates=100,
    )
    with running_server(options) as server:
        workload = msgspec.structs.replace(server.workload, load=load)
        given = ["--peer", peer, "--workload", msgspec.json.encode(workload).decode()]
        done = subprocess.run(
            [str(client_go), "informer", *given],
            capture_output=True,
            text=True,
            check=True,
        )
    line = done.stdout.splitlines()[-1].removeprefix("MEASUREMENT ")
    measurement = msgspec.json.decode(line, type=Measurement)
    assert (measurement.error, measurement.objects, measurement.updates_seen) == (None, 600, 50)
