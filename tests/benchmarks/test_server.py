"""The replay server gives equal answers in every form of request, and obeys the measurement.

The requests use real sockets. No time is checked, so a slow machine fails no test.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from benchmarks.data.collections import RESOURCES, make_collection
from benchmarks.data.kinds import Collection
from benchmarks.data.templates import TemplatePods
from benchmarks.harness.measure import ServerOptions, running_server
from benchmarks.server.replay import ReplayServer, record
from tests.benchmarks.replaying import replaying

_WATCH = "?watch=1&resourceVersion=1000005"
_WATCH_LIST = "?watch=1&sendInitialEvents=true"
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"


class _Client:
    """Blocking requests to one server, each over a connection of its own."""

    def __init__(self, url: str, *, tls: ssl.SSLContext | None = None) -> None:
        self._netloc = urlsplit(url).netloc
        self._tls = tls

    @contextmanager
    def ask(
        self, path: str, *, accept: str = "application/json", method: str = "GET"
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request; the connection closes with the block."""
        if self._tls is None:
            connection = http.client.HTTPConnection(self._netloc, timeout=30)
        else:
            connection = http.client.HTTPSConnection(self._netloc, timeout=30, context=self._tls)
        try:
            connection.request(method, path, headers={"Accept": accept})
            with connection.getresponse() as answer:
                yield answer
        finally:
            connection.close()

    def get(self, path: str, *, accept: str = "application/json") -> Any:
        """Return the JSON at a path."""
        with self.ask(path, accept=accept) as answer:
            assert answer.status == 200
            return json.load(answer)

    def post(self, path: str) -> Any:
        """Give an order, and return its answer."""
        with self.ask(f"/benchmark/{path}", method="POST") as answer:
            return json.load(answer)


@contextmanager
def _serving(
    resource: str = "pods",
    *,
    objects: int = 5,
    updates: int = 0,
    updates_per_second: float = 0.0,
    collection: Collection | None = None,
) -> Iterator[tuple[_Client, str]]:
    """Serve in a thread; yields a client and the path of the collection."""
    collection = collection or make_collection(resource, objects)
    with (
        record(collection, objects=objects, updates=updates, small=3) as traffic,
        replaying(ReplayServer(traffic, updates_per_second=updates_per_second)) as server,
    ):
        yield _Client(server.url), f"{collection.kind.root}/{resource}"


def _next_event(answer: http.client.HTTPResponse) -> Any:
    return json.loads(answer.readline())


def _events(answer: http.client.HTTPResponse, count: int) -> list[Any]:
    return [_next_event(answer) for _ in range(count)]


def _listed(client: _Client, path: str, *, limit: int) -> list[Any]:
    pages, token = [], "0"
    while token:
        page = client.get(f"{path}?limit={limit}&continue={token}")
        pages.append(page)
        token = page["metadata"].get("continue")
    left = [page["metadata"].get("remainingItemCount") for page in pages]
    assert left == [*range(5 - limit, 0, -limit), None]
    return [item for page in pages for item in page["items"]]


@pytest.mark.parametrize("resource", RESOURCES)
def test_list_pages_and_watch_list_hold_the_same_objects(resource: str) -> None:
    with _serving(resource) as (client, path):
        whole = client.get(path)
        with client.ask(path + _WATCH_LIST) as answer:
            events = _events(answer, 6)
        assert _listed(client, path, limit=2) == whole["items"]
    objects = [event["object"] for event in events[:-1]]
    type_meta = {"kind": objects[0]["kind"], "apiVersion": objects[0]["apiVersion"]}
    assert [{**type_meta, **item} for item in whole["items"]] == objects
    assert whole["kind"] == type_meta["kind"] + "List"
    assert {event["type"] for event in events[:-1]} == {"ADDED"}


@pytest.mark.parametrize("resource", RESOURCES)
def test_a_watch_list_ends_with_the_bookmark_of_its_list(resource: str) -> None:
    with _serving(resource) as (client, path):
        version = client.get(path)["metadata"]["resourceVersion"]
        with client.ask(path + _WATCH_LIST) as answer:
            bookmark = _events(answer, 6)[-1]
    assert bookmark["type"] == "BOOKMARK"
    assert bookmark["object"]["metadata"] == {
        "resourceVersion": version,
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


@pytest.mark.parametrize("resource", RESOURCES)
def test_metadata_alone_is_that_of_the_whole_objects(resource: str) -> None:
    with _serving(resource) as (client, path):
        whole = client.get(path)["items"]
        partial = client.get(path, accept=_METADATA.format("List"))
        with client.ask(path + _WATCH_LIST, accept=_METADATA.format("")) as answer:
            events = _events(answer, 6)
    wanted = [
        {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": one["metadata"],
        }
        for one in whole
    ]
    assert partial["kind"] == "PartialObjectMetadataList"
    assert partial["items"] == wanted
    assert [event["object"] for event in events[:-1]] == wanted


def test_a_list_at_version_zero_ignores_the_limit() -> None:
    with _serving() as (client, path):
        page = client.get(f"{path}?limit=2&resourceVersion=0")
    assert len(page["items"]) == 5
    assert "continue" not in page["metadata"]


def test_a_watch_without_a_version_begins_with_the_objects() -> None:
    with _serving() as (client, path), client.ask(f"{path}?watch=true") as answer:
        assert [event["type"] for event in _events(answer, 5)] == ["ADDED"] * 5


@pytest.mark.parametrize(
    ("resource", "kind"), [("endpoints", "Endpoints"), ("configmaps", "ConfigMap")]
)
def test_a_resource_that_is_not_served_has_an_empty_list(resource: str, kind: str) -> None:
    with _serving() as (client, _):
        path = f"/api/v1/{resource}"
        assert (client.get(path)["kind"], client.get(path)["items"]) == (f"{kind}List", [])
        with client.ask(path + _WATCH_LIST) as answer:
            assert _next_event(answer)["type"] == "BOOKMARK"
        assert set(client.get("/benchmark/requests").values()) == {0}


def test_small_namespaces_hold_objects_of_their_own() -> None:
    with _serving() as (client, _):
        small = client.get("/api/v1/namespaces/small-12/pods")["items"]
        assert [one["metadata"]["namespace"] for one in small] == ["small-12"] * 3
        assert len({one["metadata"]["uid"] for one in small}) == 3
        assert client.get("/api/v1/namespaces/large-12/pods")["items"] == []
        with client.ask("/api/v1/namespaces/small-12/pods" + _WATCH_LIST) as answer:
            objects = [event["object"] for event in _events(answer, 4)[:-1]]
    assert [one["metadata"] for one in objects] == [one["metadata"] for one in small]


@pytest.mark.parametrize("resource", RESOURCES)
def test_discovery_leads_to_the_collection(resource: str) -> None:
    with _serving(resource) as (client, path):
        root = path.rpartition("/")[0]
        resources = client.get(root)["resources"]
        assert resource in {one["name"] for one in resources}
        if root != "/api/v1":
            groups = client.get("/apis")["groups"]
            versions = [one["preferredVersion"]["groupVersion"] for one in groups]
            assert root.removeprefix("/apis/") in versions
        assert "v1" in client.get("/api")["versions"]
        assert client.get("/version")["major"] == "1"


def test_discovery_names_namespaces_and_refuses_one_document_of_all_groups() -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    with _serving() as (client, _):
        assert "namespaces" in {one["name"] for one in client.get("/api/v1")["resources"]}
        assert client.get("/apis", accept=f"{aggregated},application/json")["groups"]
        with client.ask("/apis", accept=aggregated) as answer:
            assert answer.status == 406


def test_updates_wait_for_their_release() -> None:
    with _serving(updates=12) as (client, path):
        with client.ask(path + _WATCH) as answer:
            client.post("wait-for-watch")
            assert client.get("/benchmark/send-times") == []
            client.post("release")
            events = _events(answer, 12)
        versions = [event["object"]["metadata"]["resourceVersion"] for event in events]
    assert versions == [str(1_000_006 + number) for number in range(12)]
    assert {event["type"] for event in events} == {"MODIFIED"}


@pytest.mark.parametrize("per_second", [0.0, 500.0], ids=["at once", "paced"])
def test_send_times_are_one_for_each_update_in_order(per_second: float) -> None:
    with _serving(updates=20, updates_per_second=per_second) as (client, path):
        with client.ask(path + _WATCH) as answer:
            client.post("wait-for-watch")
            begin = time.monotonic_ns()
            client.post("release")
            _events(answer, 20)
            end = time.monotonic_ns()
        times = client.get("/benchmark/send-times")
    assert len(times) == 20
    assert [begin, *times, end] == sorted([begin, *times, end])


@pytest.mark.parametrize("accept", ["application/json", _METADATA], ids=["whole", "metadata"])
def test_updates_at_once_leave_in_large_parts(accept: str) -> None:
    with _serving(updates=400) as (client, path):
        with client.ask(path + _WATCH, accept=accept.format("")) as answer:
            client.post("wait-for-watch")
            client.post("release")
            assert len(_events(answer, 400)) == 400
        times = client.get("/benchmark/send-times")
    assert len(times) == 400
    assert len(set(times)) <= 3  # 400 pods are 2.7 MB


def test_paced_updates_take_their_time() -> None:
    with _serving(updates=20, updates_per_second=500.0) as (client, path):
        with client.ask(path + _WATCH) as answer:
            client.post("wait-for-watch")
            begin = time.monotonic_ns()
            client.post("release")
            _events(answer, 20)
        times = client.get("/benchmark/send-times")
    # Each has its time after the release: one that is late does not make the next ones late.
    apart = 1e9 / 500
    assert all(at >= begin + number * apart for number, at in enumerate(times))


def test_an_expired_watch_ends_with_410_and_the_list_is_unchanged() -> None:
    with _serving() as (client, path):
        before = client.get(path)
        with client.ask(path + _WATCH_LIST) as answer:
            _events(answer, 6)
            assert client.post("expire") == {"watches": 1}
            event = _next_event(answer)
            assert answer.read() == b""
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        assert client.get(path) == before


def test_a_watch_opened_after_an_expiry_lives() -> None:
    with _serving(updates=2) as (client, path):
        client.post("expire")
        with client.ask(path + _WATCH) as answer:
            client.post("wait-for-watch")
            client.post("release")
            assert [event["type"] for event in _events(answer, 2)] == ["MODIFIED"] * 2


def test_released_updates_forbid_an_expiry() -> None:
    with _serving(updates=1) as (client, path), client.ask(path + _WATCH) as answer:
        client.post("wait-for-watch")
        client.post("release")
        _events(answer, 1)
        with client.ask("/benchmark/expire", method="POST") as refused:
            assert refused.status == 409


def test_a_watch_whose_client_is_gone_is_not_waited_for() -> None:
    with _serving(updates=2) as (client, path):
        with client.ask(path + _WATCH):
            client.post("wait-for-watch")
        with client.ask(path + _WATCH) as answer:
            client.post("wait-for-watch")
            client.post("release")
            assert len(_events(answer, 2)) == 2


def test_requests_are_counted() -> None:
    with _serving() as (client, path):
        _listed(client, path, limit=2)
        with client.ask(path + _WATCH_LIST) as answer:
            _events(answer, 6)
        with client.ask(path + _WATCH):
            client.post("wait-for-watch")
        counts = client.get("/benchmark/requests")
    sent = counts.pop("bytes_sent")
    assert counts == {"lists": 3, "watch_lists": 1, "watches": 1}
    assert sent > 10 * 6_000


def test_without_a_renderer_protobuf_alone_is_not_acceptable() -> None:
    with _serving() as (client, path):
        protobuf = "application/vnd.kubernetes.protobuf"
        with client.ask(path, accept=protobuf) as answer:
            assert answer.status == 406
        assert client.get(path, accept=f"{protobuf},application/json")["kind"] == "PodList"


@pytest.mark.parametrize("accept", ["application/json", _METADATA], ids=["whole", "metadata"])
def test_generated_pods_are_the_same_in_lists_pages_and_watch_lists(accept: str) -> None:
    pods = TemplatePods(25, templates=10)
    with _serving(collection=pods, objects=25) as (client, path):
        whole = client.get(path, accept=accept.format("List"))["items"]
        with client.ask(path + _WATCH_LIST, accept=accept.format("")) as answer:
            watched = [event["object"]["metadata"] for event in _events(answer, 26)[:-1]]
        pages = [
            item
            for start in (0, 10, 20)
            for item in client.get(
                f"{path}?limit=10&continue={start}", accept=accept.format("List")
            )["items"]
        ]
    made = [
        json.loads(pods.object(index, resource_version=1_000_000 + index)) for index in range(25)
    ]
    assert pages == whole
    assert watched == [one["metadata"] for one in whole]
    assert watched == [one["metadata"] for one in made]


def test_updates_of_generated_pods_have_the_identity_of_those_pods() -> None:
    pods = TemplatePods(25, templates=10)
    with _serving(collection=pods, objects=25, updates=30) as (client, path):
        known = {one["metadata"]["uid"]: one for one in client.get(path)["items"]}
        with client.ask(path + _WATCH) as answer:
            client.post("wait-for-watch")
            client.post("release")
            changed = [event["object"] for event in _events(answer, 30)]
    assert {one["metadata"]["uid"] for one in changed} == set(known)
    for one in changed:
        before = known[one["metadata"]["uid"]]
        assert one["metadata"]["name"] == before["metadata"]["name"]
        assert one["spec"] == before["spec"]
        assert one["status"] != before["status"]


def test_the_server_speaks_tls_in_a_process_of_its_own() -> None:
    options = ServerOptions(objects=5, updates=3, kind="leases", tls=True)
    with running_server(options) as server:
        workload = server.workload
        context = ssl.create_default_context(cafile=workload.ca_file)
        client = _Client(workload.url, tls=context)
        path = f"/apis/{workload.api_version}/{workload.resource}"
        assert len(client.get(path)["items"]) == 5
        with client.ask(path + _WATCH) as answer:
            client.post("wait-for-watch")
            client.post("release")
            last = _events(answer, 3)[-1]["object"]
        assert last["metadata"]["resourceVersion"] == workload.last_resource_version
        assert (last["kind"], 500 < server.sizes.mean_bytes < 700) == (workload.kind, True)
