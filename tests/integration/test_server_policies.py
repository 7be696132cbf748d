"""Policies: both servers refuse, warn and allow alike.

No client of ours stands between test and wire; each test passes on the real server, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.objects import unique
from tests.integration.places import Place
from tests.integration.test_server_writes import config_map
from tests.testing.wire import pod
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_GROUP = "admissionregistration.k8s.io/v1"


def _policy(name: str, **spec: Any) -> JSONObject:
    rules = [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps", "pods/eviction"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }
    ]
    return {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": rules}, **spec},
    }


def _binding(place: Place, name: str, *actions: str, **spec: Any) -> JSONObject:
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}
    return {
        "apiVersion": _GROUP,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": actions or ["Deny"],
            "matchResources": {"namespaceSelector": chosen},
            **spec,
        },
    }


@pytest.fixture
def policies(server: Server) -> Iterator[list[JSONObject]]:
    """What is created is deleted again: a policy would bind the other tests of the server, too."""
    made: list[JSONObject] = []
    yield made
    for one in made:
        plural = {"Policy": "policies", "Binding": "policybindings"}
        end = next(text for kind, text in plural.items() if one["kind"].endswith(kind))
        name = one["metadata"]["name"]
        server.api.delete(_GROUP, f"validatingadmission{end}", name)


def _enforced(server: Server, place: Place, made: list[JSONObject], *bodies: JSONObject) -> None:
    """Create policies, and wait until the server follows them."""
    probe = unique("ruled")
    sentinel = _policy(
        probe,
        validations=[{"expression": f"object == null || object.metadata.name != '{probe}'"}],
    )
    for one in (*bodies, sentinel, _binding(place, probe)):
        server.api.create(one)
        made.append(one)
    path = place.path("configmaps")

    def is_followed() -> bool:
        return place.send("POST", path, config_map({}, probe), dryRun="All").status == 422

    assert poll(is_followed, timeout_seconds=100)


def _map(name: str, **data: str) -> JSONObject:
    return config_map(data, name)


def test_a_policy_refuses_creations_changes_and_deletions(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    name, path = unique("ruled"), place.path("configmaps")
    rules = [
        {"expression": "object == null || !has(object.data.bad)", "message": "no bad ones"},
        {
            "expression": (
                "object == null || oldObject == null || object.data.a == oldObject.data.a"
            ),
            "messageExpression": "'a of ' + oldObject.metadata.name + ' is fixed'",
            "reason": "Forbidden",
        },
        {"expression": "request.operation != 'DELETE' || !has(oldObject.data.kept)"},
    ]
    _enforced(server, place, policies, _policy(name, validations=rules), _binding(place, name))
    said = f"is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request:"

    refused = place.send("POST", path, _map("x", bad="1"))
    assert (refused.status, refused.json["reason"]) == (422, "Invalid")
    assert refused.json["message"] == f'configmaps "x" {said} no bad ones'
    said = said.removeprefix("is forbidden: ")
    assert refused.json["details"]["causes"] == [{"message": f"{said} no bad ones"}]

    made = unique("ruled")
    place.created(path, _map(made, a="1", kept="1"))
    refused = place.patch(f"{path}/{made}", {"data": {"a": "2"}})
    assert (refused.status, refused.json["reason"]) == (403, "Forbidden")
    assert refused.json["message"].endswith(f"denied request: a of {made} is fixed")

    refused = place.send("DELETE", f"{path}/{made}")
    assert refused.status == 422
    expression = "request.operation != 'DELETE' || !has(oldObject.data.kept)"
    assert refused.json["message"].endswith(f"denied request: failed expression: {expression}")

    place.patched(f"{path}/{made}", {"data": {"kept": None}})
    assert place.send("DELETE", f"{path}/{made}").status == 200


def test_a_policy_warns_or_looks_at_others_only(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    warns, other, path = unique("ruled"), unique("ruled"), place.path("configmaps")
    rules = [{"expression": "false", "message": "it is noticed"}]
    elsewhere = _binding(place, other)
    elsewhere["spec"]["matchResources"] = {"namespaceSelector": {"matchLabels": {"no": "such"}}}
    _enforced(
        server,
        place,
        policies,
        _policy(warns, validations=rules),
        _binding(place, warns, "Warn", "Audit"),
        _policy(other, validations=rules),
        elsewhere,
    )
    answer = place.send("POST", path, _map(unique("ruled")))
    said = f"Validation failed for ValidatingAdmissionPolicy '{warns}' with binding '{warns}':"
    assert answer.status == 201
    assert f"{said} it is noticed" in "".join(answer.headers.values()), answer.headers


def test_conditions_variables_and_params_are_read(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    name, path = unique("ruled"), place.path("configmaps")
    place.created(path, _map("limits", most="2"))
    policy = _policy(
        name,
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConditions=[{"name": "counted", "expression": "object != null && has(object.data)"}],
        variables=[
            {"name": "most", "expression": "int(params.data.most)"},
            {"name": "none", "expression": "object.data.no_such_key"},
        ],
        validations=[{"expression": "size(object.data) <= variables.most", "message": "too many"}],
    )
    reference = {"name": "limits", "parameterNotFoundAction": "Deny"}
    _enforced(server, place, policies, policy, _binding(place, name, paramRef=reference))
    assert place.send("POST", path, _map(unique("ruled"), a="1", b="2")).status == 201
    refused = place.send("POST", path, _map(unique("ruled"), a="1", b="2", c="3"))
    assert refused.json["message"].endswith("denied request: too many")
    assert place.send("POST", path, config_map({}, unique("ruled"))).status == 201


@pytest.mark.parametrize("ignores", [False, True], ids=["fail", "ignore"])
def test_an_expression_that_fails_refuses_unless_failures_are_ignored(
    server: Server, place: Place, policies: list[JSONObject], *, ignores: bool
) -> None:
    name, path = unique("ruled"), place.path("configmaps")
    rules = [{"expression": "object.data.missing == 'x'", "message": "never seen"}]
    policy = _policy(name, validations=rules, failurePolicy="Ignore" if ignores else "Fail")
    _enforced(server, place, policies, policy, _binding(place, name))
    answer = place.send("POST", path, _map(unique("ruled"), a="1"))
    if ignores:
        assert answer.status == 201, answer.json
    else:
        said = "expression 'object.data.missing == 'x'' resulted in error: no such key: missing"
        assert answer.status == 422
        assert answer.json["message"].endswith(f"denied request: {said}")


def test_an_eviction_is_asked_about(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    name, pods = unique("ruled"), place.path("pods")
    rules = [{"expression": "request.subResource != 'eviction'", "message": "not now"}]
    _enforced(server, place, policies, _policy(name, validations=rules), _binding(place, name))
    place.created(pods, pod("web", namespace=place.namespace))
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
    refused = place.send("POST", f"{pods}/web/eviction", eviction)
    assert refused.json["message"].endswith("denied request: not now")
    assert place.get(f"{pods}/web")["metadata"].get("deletionTimestamp") is None


def test_a_policy_about_all_subresources_is_about_the_object_too(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    name, path = unique("ruled"), place.path("services")
    policy = _policy(name, validations=[{"expression": "has(request.subResource)"}])
    policy["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = ["services/*"]
    _enforced(server, place, policies, policy, _binding(place, name))
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}]},
    }
    refused = place.send("POST", path, body)
    assert refused.json["message"].endswith("failed expression: has(request.subResource)")


def test_a_policy_sees_the_next_generation(
    server: Server, place: Place, policies: list[JSONObject]
) -> None:
    name, version = unique("ruled"), "grown.example.com/v1"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    server.api.register(version, "Grown", "growns", schema=schema)
    path = place.path("growns", api_version=version)
    policy = _policy(
        name,
        validations=[{"expression": "object.metadata.generation == oldObject.metadata.generation"}],
    )
    rule = policy["spec"]["matchConstraints"]["resourceRules"][0]
    rule |= {"apiGroups": ["grown.example.com"], "resources": ["growns"], "operations": ["UPDATE"]}
    _enforced(server, place, policies, policy, _binding(place, name))
    body = {"apiVersion": version, "kind": "Grown", "metadata": {"name": "a"}, "spec": {"x": 1}}
    place.created(path, body)
    place.patched(f"{path}/a", {"metadata": {"labels": {"a": "b"}}})
    refused = place.patch(f"{path}/a", {"spec": {"x": 2}})
    assert refused.status == 422, refused.json
