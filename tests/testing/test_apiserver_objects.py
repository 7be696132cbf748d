"""Objects of the embedded API server: each verb, over HTTP and by direct calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyinformer.errors import APIStatusError, ConflictError, InvalidArgumentError, NotFoundError
from pyinformer.testing import APIServer
from tests.testing.wire import ALL_PODS, PODS, Wire, pod

_MERGE = "application/merge-patch+json"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


@pytest.fixture
def wire(server: APIServer) -> Iterator[Wire]:
    with Wire(server.url) as client:
        yield client


def _definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }


def _widget(name: str = "w") -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1},
    }


def test_a_created_object_gets_its_server_side_metadata(wire: Wire) -> None:
    created = wire.request("POST", PODS, pod())
    assert created.status == 201
    metadata = created.json["metadata"]
    assert metadata["namespace"] == "default"
    assert len(metadata["uid"]) == 36
    assert metadata["resourceVersion"].isdigit()
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"].endswith("Z")
    assert wire.get(f"{PODS}/a").json == created.json


def test_a_single_object_is_compact_json_with_a_newline_and_a_length(wire: Wire) -> None:
    wire.request("POST", PODS, pod(annotations={"x": "<&>"}))
    answer = wire.get(f"{PODS}/a")
    assert answer.body.startswith(b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"')
    assert answer.body.endswith(b"}\n")
    assert b'"x":"\\u003c\\u0026\\u003e"' in answer.body
    assert answer.headers["content-length"] == str(len(answer.body))


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should set the ResourceVersion to 999 when adding an"
)
def test_resource_versions_are_one_increasing_sequence_over_all_resources(
    server: APIServer,
) -> None:
    first = server.create(pod())
    second = server.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
    versions = [int(obj["metadata"]["resourceVersion"]) for obj in (first, second)]
    assert versions == [versions[0], versions[0] + 1]
    assert server.resource_version == str(versions[1])


def test_generated_names_and_uids_are_deterministic_by_seed() -> None:
    def create(seed: int) -> Any:
        obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}}
        return APIServer(seed=seed).create(obj)["metadata"]

    first, again, other = create(1), create(1), create(2)
    assert first["name"].startswith("web-")
    assert len(first["name"]) == 9
    assert (first["name"], first["uid"]) == (again["name"], again["uid"])
    assert first["uid"] != other["uid"]


def test_creating_twice_is_409_already_exists(wire: Wire) -> None:
    wire.request("POST", PODS, pod())
    refused = wire.request("POST", PODS, pod())
    assert (refused.status, refused.json["reason"]) == (409, "AlreadyExists")
    assert refused.json["message"] == 'pods "a" already exists'


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should error on create with set resourceVersion"
)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(pod(resourceVersion="5"), 500, id="resource-version-set"),
        pytest.param(pod(namespace="other"), 400, id="other-namespace"),
        pytest.param({**pod(), "kind": "Node"}, 400, id="other-kind"),
        pytest.param(pod(labels={"a": 1}), 400, id="label-no-string"),
        pytest.param({"metadata": {}}, 422, id="no-name"),
        pytest.param(b"{no json", 400, id="no-json"),
        pytest.param(b"[1]", 400, id="no-object"),
    ],
)
def test_a_bad_body_is_refused_and_nothing_is_stored(
    server: APIServer, wire: Wire, body: object, status: int
) -> None:
    before = server.resource_version
    refused = wire.request("POST", PODS, body)
    assert (refused.status, refused.json["kind"]) == (status, "Status")
    assert server.resource_version == before


def test_an_absent_object_is_404_with_a_status(wire: Wire) -> None:
    missing = wire.get(f"{PODS}/nope")
    assert missing.status == 404
    assert missing.json["message"] == 'pods "nope" not found'
    assert missing.json["details"] == {"name": "nope", "kind": "pods"}
    grouped = wire.get("/apis/apps/v1/namespaces/default/deployments/nope").json
    assert grouped["message"] == 'deployments.apps "nope" not found'


@pytest.mark.parametrize(
    "path",
    [
        "/apis/nope.example.com/v1/widgets",
        "/apis/nope.example.com/v1",
        "/nope",
    ],
)
def test_an_unknown_group_is_404_in_plain_text(wire: Wire, path: str) -> None:
    missing = wire.get(path)
    assert (missing.status, missing.body) == (404, b"404 page not found\n")
    assert missing.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nopes",
        "/api/v2/pods",
        "/apis/apps/v9",
        "/apis/apps/v9/deployments",
        "/apis/apps/v1/nopes",
        f"{PODS}/a/nope",
        "/api/v1/namespaces/default/configmaps/c/status",
        "/api/v1/namespaces/default/nodes",
        "/api/v1/pods/a",
    ],
)
def test_an_unknown_resource_of_a_known_group_is_404_with_a_status(wire: Wire, path: str) -> None:
    missing = wire.get(path)
    assert (missing.status, missing.json["reason"]) == (404, "NotFound")
    assert missing.json["message"] == "the server could not find the requested resource"
    assert missing.json["details"] == {}


def test_a_method_that_does_not_fit_is_405(wire: Wire) -> None:
    assert wire.request("PUT", PODS, pod()).status == 405
    assert wire.request("POST", ALL_PODS, pod()).status == 405


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should allow updates with non-set ResourceVersion for",
    "controller-runtime pkg/client/fake: should allow concurrent patches to a configMap",
)
def test_an_update_with_a_stale_resource_version_is_409(server: APIServer, wire: Wire) -> None:
    stale = server.create(pod())
    server.patch("v1", "pods", "a", {"metadata": {"labels": {"x": "1"}}})
    refused = wire.request("PUT", f"{PODS}/a", stale)
    assert (refused.status, refused.json["reason"]) == (409, "Conflict")
    assert "the object has been modified" in refused.json["message"]


def test_an_update_with_another_uid_is_409(server: APIServer, wire: Wire) -> None:
    created = server.create(pod())
    created["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000"
    refused = wire.request("PUT", f"{PODS}/a", created)
    assert refused.status == 409
    assert "UID in precondition" in refused.json["message"]


def test_an_update_that_changes_nothing_keeps_the_resource_version(
    server: APIServer, wire: Wire
) -> None:
    created = server.create(pod())
    assert wire.request("PUT", f"{PODS}/a", created).json == created
    assert server.resource_version == created["metadata"]["resourceVersion"]


def test_an_update_raises_generation_only_when_the_spec_changes(
    server: APIServer, wire: Wire
) -> None:
    created = server.create(pod())
    labelled = wire.request(
        "PUT", f"{PODS}/a", {**created, "metadata": {"name": "a", "labels": {"x": "1"}}}
    )
    assert labelled.json["metadata"]["generation"] == 1
    assert labelled.json["metadata"]["uid"] == created["metadata"]["uid"]
    spec = {**created["spec"], "activeDeadlineSeconds": 5}
    changed = wire.request("PUT", f"{PODS}/a", pod() | {"spec": spec})
    assert changed.json["metadata"]["generation"] == 2


def test_a_custom_resource_needs_a_resource_version_to_update(
    server: APIServer, wire: Wire
) -> None:
    server.register("example.com/v1", "Widget", "widgets")
    server.create(_widget())
    path = "/apis/example.com/v1/namespaces/default/widgets/w"
    assert wire.request("PUT", path, _widget()).status == 422


def test_updating_what_is_absent_is_404(wire: Wire) -> None:
    assert wire.request("PUT", f"{PODS}/a", pod()).status == 404


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should error on create with set resourceVersion"
)
def test_the_name_in_the_body_has_to_match_the_url(server: APIServer, wire: Wire) -> None:
    server.create(pod())
    assert wire.request("PUT", f"{PODS}/a", pod("b")).status == 400
    assert wire.request("PUT", f"{PODS}/a", {**pod(), "metadata": {}}).status == 400


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should not change the status of typed objects that"
)
def test_status_is_written_through_its_subresource_only(wire: Wire) -> None:
    running = {"status": {"phase": "Running"}}
    pending = {"phase": "Pending", "qosClass": "BestEffort"}
    assert wire.request("POST", PODS, pod() | running).json["status"] == pending
    assert wire.request("PUT", f"{PODS}/a", pod() | running).json["status"] == pending
    written = wire.request("PUT", f"{PODS}/a/status", pod() | running | {"spec": {"x": 1}}).json
    assert written["status"] == {"phase": "Running", "qosClass": "BestEffort"}
    assert "x" not in written["spec"]


def test_control_methods_write_the_status_with_the_rest(server: APIServer) -> None:
    created = server.create(pod() | {"status": {"phase": "Running"}})
    assert created["status"]["phase"] == "Running"
    created["status"] = {"phase": "Failed"}
    assert server.update(created)["status"]["phase"] == "Failed"


def test_a_merge_patch_sets_removes_and_keeps(server: APIServer, wire: Wire) -> None:
    server.create(pod(labels={"keep": "1", "drop": "1"}))
    patch = {"metadata": {"labels": {"drop": None, "new": "2"}}}
    patched = wire.request("PATCH", f"{PODS}/a", patch, content_type=_MERGE)
    assert patched.status == 200
    assert patched.json["metadata"]["labels"] == {"keep": "1", "new": "2"}


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should allow concurrent patches to a configMap"
)
def test_a_merge_patch_with_a_stale_resource_version_is_409(server: APIServer, wire: Wire) -> None:
    server.create(pod())
    patch = {"metadata": {"resourceVersion": "1", "labels": {"x": "1"}}}
    assert wire.request("PATCH", f"{PODS}/a", patch, content_type=_MERGE).status == 409


def test_unknown_kinds_of_patch_are_415(server: APIServer, wire: Wire) -> None:
    server.create(pod())
    refused = wire.request("PATCH", f"{PODS}/a", {"x": 1}, content_type="application/json")
    assert refused.status == 415


def test_deleting_answers_with_the_pod_or_with_a_success(server: APIServer, wire: Wire) -> None:
    server.create(pod())
    server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}})
    deleted = wire.request("DELETE", f"{PODS}/a")
    assert (deleted.status, deleted.json["kind"]) == (200, "Pod")
    assert deleted.json["metadata"]["resourceVersion"] == server.resource_version
    gone = wire.request("DELETE", "/api/v1/namespaces/default/configmaps/c").json
    assert (gone["kind"], gone["status"], gone["details"]["name"]) == ("Status", "Success", "c")
    assert wire.get(f"{PODS}/a").status == 404
    assert wire.request("DELETE", f"{PODS}/a").status == 404


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should allow updates with non-set ResourceVersion for"
)
@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
def test_a_delete_precondition_that_fails_is_409(server: APIServer, wire: Wire, field: str) -> None:
    created = server.create(pod())
    refused = wire.request("DELETE", f"{PODS}/a", {"preconditions": {field: "1"}})
    assert refused.status == 409
    fitting = {"preconditions": {field: created["metadata"][field]}}
    assert wire.request("DELETE", f"{PODS}/a", fitting).status == 200


def test_an_object_that_is_being_deleted_takes_no_new_finalizer(
    server: APIServer, wire: Wire
) -> None:
    server.create(pod(finalizers=["example.com/hold"]))
    wire.request("DELETE", f"{PODS}/a")
    patch = {"metadata": {"finalizers": ["example.com/hold", "example.com/late"]}}

    refused = wire.request("PATCH", f"{PODS}/a", patch, content_type=_MERGE)

    assert refused.status == 422
    (cause,) = refused.json["details"]["causes"]
    assert cause["field"] == "metadata.finalizers"
    assert cause["message"].endswith('found new finalizers []string{"example.com/late"}')
    fewer = {"metadata": {"labels": {"x": "1"}, "finalizers": ["example.com/hold"]}}
    assert wire.request("PATCH", f"{PODS}/a", fewer, content_type=_MERGE).status == 200


@pytest.mark.covers("controller-runtime pkg/client/fake: should handle finalizers in Apply")
def test_finalizers_hold_an_object_until_the_last_is_removed(server: APIServer, wire: Wire) -> None:
    server.create(pod(finalizers=["example.com/hold"]))
    held = wire.request("DELETE", f"{PODS}/a").json
    assert held["metadata"]["deletionTimestamp"].endswith("Z")
    version = server.resource_version
    assert wire.request("DELETE", f"{PODS}/a").status == 200
    assert server.resource_version == version, "deleting again changes nothing"
    patch = {"metadata": {"finalizers": None}}
    freed = wire.request("PATCH", f"{PODS}/a", patch, content_type=_MERGE).json["metadata"]
    assert "finalizers" not in freed
    assert freed["resourceVersion"] == version, "the deletion's own version is in the watch only"
    assert wire.get(f"{PODS}/a").status == 404


def test_a_scheduled_pod_waits_for_its_kubelet(server: APIServer, wire: Wire) -> None:
    server.create(pod() | {"spec": {"nodeName": "n"}})
    waiting = wire.request("DELETE", f"{PODS}/a").json["metadata"]
    assert waiting["deletionGracePeriodSeconds"] == 30
    assert waiting["deletionTimestamp"] > waiting["creationTimestamp"], "when it is due"
    wire.request("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "1"}}}, content_type=_MERGE)
    assert wire.get(f"{PODS}/a").status == 200
    assert wire.request("DELETE", f"{PODS}/a", gracePeriodSeconds=0).status == 200
    assert wire.get(f"{PODS}/a").status == 404


def test_a_deleted_pod_is_marked_first_and_then_gone(server: APIServer, wire: Wire) -> None:
    server.create(pod())
    with wire.watch(ALL_PODS, resourceVersion=server.resource_version) as stream:
        wire.request("DELETE", f"{PODS}/a")
        (marked, first), (gone, last) = stream.event(), stream.event()
    assert (marked, gone) == ("MODIFIED", "DELETED")
    assert first["metadata"]["deletionGracePeriodSeconds"] == 0
    assert last["metadata"]["deletionTimestamp"] == first["metadata"]["deletionTimestamp"]
    assert last["metadata"]["resourceVersion"] == server.resource_version


def test_objects_without_a_spec_have_no_generation(server: APIServer) -> None:
    for kind in ("ConfigMap", "Node", "Namespace"):
        obj = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, "spec": {}}
        assert "generation" not in server.create(obj)["metadata"]


def test_control_methods_delete_a_scheduled_pod_at_once(server: APIServer) -> None:
    server.create(pod() | {"spec": {"nodeName": "n"}})
    server.delete("v1", "pods", "a")
    with pytest.raises(NotFoundError, match='pods "a" not found'):
        server.get("v1", "pods", "a")


@pytest.mark.covers("controller-runtime pkg/client/fake: should handle finalizers in Apply")
def test_delete_collection_deletes_what_is_selected(server: APIServer, wire: Wire) -> None:
    for name in "abc":
        server.create(pod(name, labels={"x": name}))
    deleted = wire.request("DELETE", PODS, labelSelector="x!=b")
    assert deleted.names == ["a", "c"]
    assert [obj["metadata"]["name"] for obj in server.list("v1", "pods")] == ["b"]


def test_a_recreated_object_has_another_uid(server: APIServer) -> None:
    first = server.create(pod())
    server.delete("v1", "pods", "a")
    again = server.create(first)
    assert again["metadata"]["uid"] != first["metadata"]["uid"]


def test_namespaces_exist_and_need_not(server: APIServer, wire: Wire) -> None:
    names = wire.get("/api/v1/namespaces").names
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert wire.request("POST", "/api/v1/namespaces/new/pods", pod()).status == 201
    server.ensure_namespace("made")
    server.ensure_namespace("made")
    assert wire.get("/api/v1/namespaces/made").json["status"]["phase"] == "Active"


def test_strict_namespaces_have_to_exist() -> None:
    with APIServer(strict_namespaces=True) as server, Wire(server.url) as wire:
        refused = wire.request("POST", "/api/v1/namespaces/new/pods", pod())
        assert refused.status == 404
        assert refused.json["message"] == 'namespaces "new" not found'
        server.ensure_namespace("new")
        assert wire.request("POST", "/api/v1/namespaces/new/pods", pod()).status == 201


def test_a_deleted_namespace_terminates_until_it_is_finalized(
    server: APIServer, wire: Wire
) -> None:
    server.ensure_namespace("n")
    doomed = wire.request("DELETE", "/api/v1/namespaces/n").json
    assert doomed["status"]["phase"] == "Terminating"
    doomed["spec"] = {"finalizers": []}
    assert wire.request("PUT", "/api/v1/namespaces/n/finalize", doomed).status == 200
    assert wire.get("/api/v1/namespaces/n").status == 404


def test_a_definition_serves_its_resource_and_its_deletion_ends_it(
    server: APIServer, wire: Wire
) -> None:
    path = "/apis/example.com/v1/namespaces/default/widgets"
    assert wire.get(path).status == 404
    conditions = wire.request("POST", _CRDS, _definition()).json["status"]["conditions"]
    assert {c["type"]: c["status"] for c in conditions}["Established"] == "True"
    assert wire.request("POST", path, _widget()).status == 201
    with wire.watch(path, resourceVersion=server.resource_version) as stream:
        assert wire.request("DELETE", f"{_CRDS}/widgets.example.com").status == 200
        assert stream.event()[0] == "DELETED"
        assert stream.rest() == b""
    assert wire.get(path).body == b"404 page not found\n"


def test_discovery_names_what_is_served(server: APIServer, wire: Wire) -> None:
    server.register("example.com/v1", "Widget", "widgets", namespaced=False)
    assert wire.get("/readyz").body == b"ok"
    assert wire.get("/version").json["major"] == "1"
    assert wire.get("/api").json["versions"] == ["v1"]
    groups = {group["name"] for group in wire.get("/apis").json["groups"]}
    assert {"apps", "batch", "example.com"} <= groups
    core = {r["name"]: r for r in wire.get("/api/v1").json["resources"]}
    assert core["pods"]["namespaced"]
    assert not core["nodes"]["namespaced"]
    widgets = wire.get("/apis/example.com/v1").json["resources"]
    assert [(r["name"], r["kind"], r["namespaced"]) for r in widgets] == [
        ("widgets", "Widget", False)
    ]
    assert wire.get("/apis/example.com").json["name"] == "example.com"


def test_control_methods_raise_typed_errors(server: APIServer) -> None:
    server.create(pod())
    with pytest.raises(ConflictError, match='create pods: 409 AlreadyExists: pods "a"'):
        server.create(pod())
    with pytest.raises(InvalidArgumentError, match="register"):
        server.create({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}})
    with pytest.raises(InvalidArgumentError, match="register"):
        server.list("v1", "nopes")


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should error on create with set resourceVersion"
)
def test_control_methods_give_and_take_private_dicts(server: APIServer) -> None:
    given = pod(labels={"x": "1"})
    created = server.create(given)
    given["metadata"]["labels"]["x"] = created["metadata"]["labels"]["x"] = "changed"
    assert server.get("v1", "pods", "a")["metadata"]["labels"] == {"x": "1"}
    assert given == pod(labels={"x": "changed"}), "nothing was added to what was given"


def test_objects_can_be_created_before_the_start() -> None:
    server = APIServer()
    server.create(pod())
    with server, Wire(server.url) as wire:
        assert wire.get(ALL_PODS).names == ["a"]


def _nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("levels", [600, 3_000, 100_000])
@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(("POST", "", "application/json"), id="create"),
        pytest.param(("PUT", "/w", "application/json"), id="update"),
        pytest.param(("PATCH", "/w", _MERGE), id="merge-patch"),
        pytest.param(("PATCH", "/w?fieldManager=x", "application/apply-patch+yaml"), id="apply"),
    ],
)
def test_a_body_that_is_nested_too_deeply_is_refused_and_the_server_lives(
    server: APIServer, wire: Wire, verb: tuple[str, str, str], levels: int
) -> None:
    """The real server's limit is 10,000 levels; ours is lower."""
    server.create(_definition())
    server.create(_widget())
    widgets = "/apis/example.com/v1/namespaces/default/widgets"
    head = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec"'
    method, path, content_type = verb
    body = f"{head}:{_nested(levels)}}}".encode()
    answer = wire.request(method, f"{widgets}{path}", body, content_type=content_type)
    assert answer.status == 400
    assert answer.json["kind"] == "Status"
    assert wire.get(f"{widgets}/w").json["spec"] == {"size": 1}


def test_a_direct_call_with_a_body_that_is_nested_too_deeply_is_refused(server: APIServer) -> None:
    server.create(_definition())
    value: Any = 1
    for _ in range(600):
        value = {"a": value}
    with pytest.raises(APIStatusError, match="exceeded max depth"):
        server.create({**_widget(), "spec": value})


def test_true_is_not_one() -> None:
    """For Python the two are equal, and a write from one to the other is a change."""
    with APIServer() as server:
        server.register("acme.io/v1", "Thing", "things")
        made = server.create(
            {
                "apiVersion": "acme.io/v1",
                "kind": "Thing",
                "metadata": {"name": "a"},
                "spec": {"x": 1},
            }
        )
        changed = server.patch("acme.io/v1", "things", "a", {"spec": {"x": True}})
        assert changed["spec"]["x"] is True
        assert changed["metadata"]["resourceVersion"] != made["metadata"]["resourceVersion"]
