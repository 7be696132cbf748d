"""Lists of the embedded API server: revisions, pages, tokens, selectors, shapes."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyinformer.testing import APIServer
from tests.testing.wire import ALL_PODS, PODS, Wire, pod


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


@pytest.fixture
def wire(server: APIServer) -> Iterator[Wire]:
    with Wire(server.url) as client:
        yield client


def _fill(server: APIServer, names: str = "abcde", **metadata: Any) -> None:
    for name in names:
        server.create(pod(name, **metadata))


def test_a_built_in_list_has_metadata_first_and_bare_items(server: APIServer, wire: Wire) -> None:
    _fill(server, "a")
    answer = wire.get(ALL_PODS)
    version = server.resource_version
    head = f'{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},'
    assert answer.body.startswith(head.encode() + b'"items":[{"metadata":{"name":"a",')
    assert answer.body.endswith(b"}]}\n")
    assert set(answer.json["items"][0]) == {"metadata", "spec", "status"}
    assert answer.headers["transfer-encoding"] == "chunked"


def test_a_custom_list_has_sorted_keys_and_full_items(server: APIServer, wire: Wire) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    widget = {"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}}
    server.create({**widget, "zeta": {"b": 1, "a": 2}, "Alpha": 1})
    answer = wire.get("/apis/example.com/v1/widgets")
    assert list(answer.json) == ["apiVersion", "items", "kind", "metadata"]
    assert answer.json["metadata"] == {"continue": "", "resourceVersion": server.resource_version}
    item = answer.json["items"][0]
    assert list(item) == ["Alpha", "apiVersion", "kind", "metadata", "zeta"]
    assert list(item["metadata"]) == sorted(item["metadata"])
    assert list(item["zeta"]) == ["a", "b"]


def test_any_resource_can_be_registered_in_the_built_in_shape(
    server: APIServer, wire: Wire
) -> None:
    server.register("example.com/v1", "Thing", "things", namespaced=False, list_shape="built-in")
    server.create({"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"name": "t"}})
    answer = wire.get("/apis/example.com/v1/things")
    assert answer.body.startswith(b'{"kind":"ThingList","apiVersion":"example.com/v1","metadata":')
    assert list(answer.json["items"][0]) == ["metadata"]


def test_an_empty_list_has_items(wire: Wire) -> None:
    assert wire.get(ALL_PODS).body.endswith(b'"items":[]}\n')


def test_items_come_in_key_order(server: APIServer, wire: Wire) -> None:
    for namespace, name in (("b", "a"), ("a", "b"), ("a-b", "x"), ("a", "a")):
        server.create(pod(name, namespace=namespace))
    items = [item["metadata"] for item in wire.get(ALL_PODS).json["items"]]
    keys = [f"{item['namespace']}/{item['name']}" for item in items]
    assert keys == ["a-b/x", "a/a", "a/b", "b/a"]


def test_a_namespaced_list_shows_its_namespace_only(server: APIServer, wire: Wire) -> None:
    for namespace in ("a", "a-b", "b"):
        server.create(pod("x", namespace=namespace))
    items = wire.get("/api/v1/namespaces/a/pods").json["items"]
    assert [item["metadata"]["namespace"] for item in items] == ["a"]


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should support filtering by labels and their values"
)
@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", "a"),
        ("app!=web", "bc"),
        ("app in (web,db)", "ab"),
        ("app notin (web)", "bc"),
        ("app", "ab"),
        ("!app", "c"),
        ("app=web,tier=1", "a"),
        ("app=web,tier=2", ""),
    ],
)
def test_label_selectors_select(server: APIServer, wire: Wire, selector: str, names: str) -> None:
    server.create(pod("a", labels={"app": "web", "tier": "1"}))
    server.create(pod("b", labels={"app": "db"}))
    server.create(pod("c"))
    assert "".join(wire.get(ALL_PODS, labelSelector=selector).names) == names
    control = server.list("v1", "pods", label_selector=selector)
    assert "".join(obj["metadata"]["name"] for obj in control) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name!=a", "b"),
        ("metadata.namespace=default", "ab"),
        ("spec.nodeName=n1", "a"),
        ("spec.nodeName=", "b"),
        ("status.phase=Running,spec.nodeName=n1", "a"),
        ("status.phase=Pending", "b"),
        ("spec.schedulerName=default-scheduler", "ab"),
        ("spec.restartPolicy=Always", "ab"),
        ("status.podIP=10.0.0.1", "a"),
        ("spec.serviceAccountName=sa", "b"),
    ],
)
def test_field_selectors_of_pods_select(
    server: APIServer, wire: Wire, selector: str, names: str
) -> None:
    status = {"phase": "Running", "podIP": "10.0.0.1"}
    server.create(pod("a") | {"spec": {"nodeName": "n1"}, "status": status})
    server.create(pod("b") | {"spec": {"serviceAccountName": "sa"}})
    assert "".join(wire.get(ALL_PODS, fieldSelector=selector).names) == names


def test_field_selectors_of_events_select(server: APIServer, wire: Wire) -> None:
    event = {"apiVersion": "v1", "kind": "Event", "type": "Normal", "reason": "Scheduled"}
    involved = {"kind": "Pod", "name": "p"}
    server.create({**event, "metadata": {"name": "e"}, "involvedObject": involved})
    server.create({**event, "metadata": {"name": "f"}, "source": {"component": "kubelet"}})
    path = "/api/v1/events"
    chosen = "involvedObject.kind=Pod,involvedObject.name=p,reason=Scheduled,type=Normal"
    assert wire.get(path, fieldSelector=chosen).names == ["e"]
    assert wire.get(path, fieldSelector="source=kubelet").names == ["f"]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        pytest.param(ALL_PODS, {"fieldSelector": "spec.nope=1"}, id="unsupported-field"),
        pytest.param("/api/v1/configmaps", {"fieldSelector": "data.x=1"}, id="no-field-labels"),
        pytest.param(ALL_PODS, {"fieldSelector": "nope"}, id="malformed-field-selector"),
        pytest.param(ALL_PODS, {"labelSelector": "a in ("}, id="malformed-label-selector"),
        pytest.param(ALL_PODS, {"limit": "x"}, id="limit-no-number"),
        pytest.param(ALL_PODS, {"resourceVersion": "abc"}, id="resource-version-no-number"),
        pytest.param(ALL_PODS, {"continue": "!!"}, id="malformed-token"),
        pytest.param(ALL_PODS, {"continue": "e30"}, id="empty-token"),
    ],
)
def test_a_query_that_cannot_be_understood_is_400(
    wire: Wire, path: str, query: dict[str, str]
) -> None:
    refused = wire.get(path, **query)
    assert (refused.status, refused.json["reason"]) == (400, "BadRequest")


def test_an_unsupported_field_is_named(wire: Wire) -> None:
    message = wire.get(ALL_PODS, fieldSelector="spec.nope=1").json["message"]
    assert message == "field label not supported: spec.nope"


def test_pages_cover_everything_once_at_one_revision(server: APIServer, wire: Wire) -> None:
    _fill(server)
    pages = list(wire.pages(ALL_PODS, limit=2))
    assert [page.names for page in pages] == [["a", "b"], ["c", "d"], ["e"]]
    remaining = [page.json["metadata"].get("remainingItemCount") for page in pages]
    assert remaining == [3, 1, None]
    assert len({page.json["metadata"]["resourceVersion"] for page in pages}) == 1


def test_pages_show_the_state_of_their_first_page(server: APIServer, wire: Wire) -> None:
    _fill(server)
    pages = wire.pages(ALL_PODS, limit=2)
    shown = next(pages).names
    server.delete("v1", "pods", "d")
    server.create(pod("f"))
    server.patch("v1", "pods", "e", {"metadata": {"labels": {"x": "new"}}})
    rest = list(pages)
    assert shown + [name for page in rest for name in page.names] == list("abcde")
    assert "labels" not in rest[-1].json["items"][-1]["metadata"]
    assert wire.get(ALL_PODS).names == list("abcef")


def test_pages_with_a_selector_do_not_count_what_remains(server: APIServer, wire: Wire) -> None:
    _fill(server, "ace", labels={"x": "1"})
    _fill(server, "bd")
    pages = list(wire.pages(ALL_PODS, limit=2, labelSelector="x=1"))
    assert [name for page in pages for name in page.names] == ["a", "c", "e"]
    assert all("remainingItemCount" not in page.json["metadata"] for page in pages)


def test_a_selector_may_leave_the_last_page_empty(server: APIServer, wire: Wire) -> None:
    server.create(pod("a", labels={"x": "1"}))
    server.create(pod("b"))
    assert [page.names for page in wire.pages(ALL_PODS, limit=1, labelSelector="x=1")] == [
        ["a"],
        [],
    ]


def test_a_page_of_one_name_is_the_last(server: APIServer, wire: Wire) -> None:
    _fill(server)
    pages = list(wire.pages(PODS, limit=1, fieldSelector="metadata.name=b"))
    assert [page.names for page in pages] == [["b"]]


def test_pages_of_one_namespace_stay_in_it(server: APIServer, wire: Wire) -> None:
    for namespace in ("a", "b", "c"):
        for name in "xyz":
            server.create(pod(name, namespace=namespace))
    pages = list(wire.pages("/api/v1/namespaces/b/pods", limit=2))
    assert [page.names for page in pages] == [["x", "y"], ["z"]]
    assert pages[0].json["metadata"]["remainingItemCount"] == 1


def test_a_custom_list_is_paged_too(server: APIServer, wire: Wire) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    for name in "abc":
        meta = {"name": name}
        server.create({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": meta})
    pages = list(wire.pages("/apis/example.com/v1/widgets", limit=2))
    assert [page.names for page in pages] == [["a", "b"], ["c"]]


def _expired_token(wire: Wire) -> dict[str, str]:
    return {"continue": wire.get(ALL_PODS, limit=2).json["metadata"]["continue"]}


def test_compaction_expires_tokens_and_offers_an_inconsistent_rest(
    server: APIServer, wire: Wire
) -> None:
    _fill(server)
    token = _expired_token(wire)
    server.create(pod("f"))
    server.compact()
    refused = wire.get(ALL_PODS, limit=2, **token)
    assert (refused.status, refused.json["reason"]) == (410, "Expired")
    rest = wire.get(ALL_PODS, **{"continue": refused.json["metadata"]["continue"]})
    assert rest.names == list("cdef")
    assert rest.json["metadata"]["resourceVersion"] == server.resource_version


def test_tokens_expire_with_age() -> None:
    with APIServer(page_token_lifetime_seconds=0) as server, Wire(server.url) as wire:
        _fill(server)
        assert wire.get(ALL_PODS, **_expired_token(wire)).status == 410


def test_tokens_expire_when_too_much_has_changed() -> None:
    with APIServer(watch_cache_size=2, history_size=2) as server, Wire(server.url) as wire:
        _fill(server)
        token = _expired_token(wire)
        _fill(server, "vw")
        assert wire.get(ALL_PODS, **token).status == 200
        _fill(server, "x")
        assert wire.get(ALL_PODS, **token).status == 410


def test_a_token_forbids_another_resource_version(server: APIServer, wire: Wire) -> None:
    _fill(server)
    assert wire.get(ALL_PODS, resourceVersion="5", **_expired_token(wire)).status == 400


def test_a_token_is_opaque_base64_with_revision_and_key(server: APIServer, wire: Wire) -> None:
    _fill(server)
    token = _expired_token(wire)["continue"]
    decoded = json.loads(base64.urlsafe_b64decode(token + "=="))
    assert decoded["rv"] == int(server.resource_version)
    assert decoded["start"] == "default/c"


def test_a_list_without_a_resource_version_is_up_to_date(server: APIServer, wire: Wire) -> None:
    _fill(server, "ab")
    server.advance_resource_version(10)
    assert wire.get(ALL_PODS).json["metadata"]["resourceVersion"] == server.resource_version


def test_resource_version_zero_ignores_the_limit(server: APIServer, wire: Wire) -> None:
    _fill(server)
    answer = wire.get(ALL_PODS, resourceVersion="0", limit=2)
    assert answer.names == list("abcde")
    assert "continue" not in answer.json["metadata"]


def test_exact_shows_the_past(server: APIServer, wire: Wire) -> None:
    _fill(server, "ab")
    past = server.resource_version
    server.delete("v1", "pods", "a")
    server.create(pod("c"))
    exact = wire.get(ALL_PODS, resourceVersion=past, resourceVersionMatch="Exact")
    assert exact.names == ["a", "b"]
    assert exact.json["metadata"]["resourceVersion"] == past
    legacy = wire.get(ALL_PODS, resourceVersion=past, limit=10)
    assert legacy.names == ["a", "b"], "a limit and a version without a match mean Exact"
    newer = wire.get(ALL_PODS, resourceVersion=past)
    assert newer.names == ["b", "c"]
    fresh = wire.get(ALL_PODS, resourceVersion=past, resourceVersionMatch="NotOlderThan", limit=10)
    assert fresh.names == ["b", "c"]


def test_exact_at_a_compacted_resource_version_is_410(server: APIServer, wire: Wire) -> None:
    _fill(server, "a")
    past = server.resource_version
    _fill(server, "b")
    server.compact()
    refused = wire.get(ALL_PODS, resourceVersion=past, resourceVersionMatch="Exact")
    assert (refused.status, refused.json["reason"]) == (410, "Expired")


@pytest.mark.parametrize("match", ["", "NotOlderThan", "Exact"])
def test_a_resource_version_of_the_future_is_504_with_its_cause(
    server: APIServer, wire: Wire, match: str
) -> None:
    future = int(server.resource_version) + 100_000
    query = {"resourceVersionMatch": match} if match else {}
    refused = wire.get(ALL_PODS, resourceVersion=future, **query)
    assert (refused.status, refused.json["reason"]) == (504, "Timeout")
    current = server.resource_version
    assert refused.json["message"] == (
        f"Timeout: Too large resource version: {future}, current: {current}"
    )
    details = refused.json["details"]
    assert details["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert details["retryAfterSeconds"] == 1
    assert refused.headers["retry-after"] == "1"


def test_a_list_waits_for_a_resource_version_that_comes() -> None:
    with APIServer(patience_seconds=10) as server, Wire(server.url) as wire:
        future = int(server.resource_version) + 2
        answers: list[int] = []

        def ask() -> None:
            answers.append(wire.get(ALL_PODS, resourceVersion=future).status)

        asking = threading.Thread(target=ask)
        asking.start()
        server.wait_for_request(lambda request: request.verb == "list")
        server.create(pod("a"))
        server.create(pod("b"))
        asking.join(100)
        assert answers == [200]


@pytest.mark.parametrize(
    "query",
    [
        {"resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
        {"resourceVersionMatch": "Nope", "resourceVersion": "1"},
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1", "continue": "x"},
        {"sendInitialEvents": "true"},
    ],
)
def test_a_forbidden_combination_is_422(wire: Wire, query: dict[str, str]) -> None:
    refused = wire.get(ALL_PODS, **query)
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    assert refused.json["details"]["causes"][0]["field"] in query


def test_five_thousand_objects_are_listed_and_paged(server: APIServer, wire: Wire) -> None:
    for number in range(5000):
        server.create(pod(f"p{number:04}"))
    whole = wire.get(PODS).names
    paged = [name for page in wire.pages(PODS, limit=500) for name in page.names]
    assert whole == paged == [f"p{number:04}" for number in range(5000)]
