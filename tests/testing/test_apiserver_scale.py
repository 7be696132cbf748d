"""The scale subresource of both servers: reads, writes and preconditions."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from pyinformer.testing import APIServer, KubeAPIServer
from tests.testing.wire import Wire
from tests.waiting import poll

_WIDGETS = "scale.example.com/v1"
_MERGE = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"
_LABELS = {"app": "x", "e": "1"}
_SELECTOR = {
    "matchLabels": {"app": "x"},
    "matchExpressions": [
        {"key": "k", "operator": "NotIn", "values": ["z", "a"]},
        {"key": "e", "operator": "Exists"},
        {"key": "n", "operator": "DoesNotExist"},
    ],
}


@pytest.fixture(params=["embedded", pytest.param("real", marks=pytest.mark.real)])
def api(request: pytest.FixtureRequest) -> APIServer | KubeAPIServer:
    """Return either server."""
    fixture = {"embedded": "apiserver", "real": "kube_apiserver"}[request.param]
    server: APIServer | KubeAPIServer = request.getfixturevalue(fixture)
    return server


@pytest.fixture
def wire(api: APIServer | KubeAPIServer) -> Iterator[Wire]:
    """Talk to it."""
    if isinstance(api, APIServer):
        with Wire(api.url) as opened:
            yield opened
        return
    context = ssl.create_default_context(cafile=str(api.ca_file))
    with Wire(api.url, context=context, token=api.token) as opened:
        yield opened


@pytest.fixture
def path(api: APIServer | KubeAPIServer) -> str:
    """Make a deployment of three, and return its path."""
    name = f"d-{secrets.token_hex(4)}"
    template = {
        "metadata": {"labels": _LABELS},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 3, "selector": _SELECTOR, "template": template}
    api.create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}
    )
    return f"/apis/apps/v1/namespaces/default/deployments/{name}"


def _scale(path: str, replicas: int, **metadata: Any) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {"replicas": replicas},
    }


def test_a_scale_shows_number_and_selector(wire: Wire, path: str) -> None:
    whole, scale = wire.get(path).json, wire.get(f"{path}/scale").json

    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    assert scale == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: whole["metadata"][name] for name in shown},
        "spec": {"replicas": 3},
        "status": {"replicas": 0, "selector": "app=x,e,k notin (a,z),!n"},
    }


def test_a_scale_that_is_written_is_the_objects_number(wire: Wire, path: str) -> None:
    version = wire.get(path).json["metadata"]["resourceVersion"]
    put = wire.request("PUT", f"{path}/scale", _scale(path, 5, resourceVersion=version))
    merged = wire.request("PATCH", f"{path}/scale", {"spec": {"replicas": 6}}, content_type=_MERGE)
    operations = [{"op": "replace", "path": "/spec/replicas", "value": 7}]
    patched = wire.request("PATCH", f"{path}/scale", operations, content_type=_JSON_PATCH)

    assert [one.json["spec"] for one in (put, merged, patched)] == [
        {"replicas": 5},
        {"replicas": 6},
        {"replicas": 7},
    ]
    after = wire.get(path).json
    assert after["spec"]["replicas"] == 7
    assert after["spec"]["template"]["metadata"]["labels"] == _LABELS
    assert after["metadata"]["generation"] == 4
    assert patched.json["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    (owner,) = [one for one in after["metadata"]["managedFields"] if "subresource" in one]
    assert (owner["subresource"], owner["fieldsV1"]) == ("scale", {"f:spec": {"f:replicas": {}}})


def test_a_scale_of_an_older_version_is_a_conflict(wire: Wire, path: str) -> None:
    answer = wire.request("PUT", f"{path}/scale", _scale(path, 5, resourceVersion="3"))

    name = path.rpartition("/")[2]
    assert answer.status == 409
    assert answer.json["message"] == (
        f'Operation cannot be fulfilled on deployments.apps "{name}": the object has been modified;'
        " please apply your changes to the latest version and try again"
    )
    assert wire.get(path).json["spec"]["replicas"] == 3


def test_a_body_that_is_not_a_scale_is_refused(wire: Wire, path: str) -> None:
    negative = wire.request("PUT", f"{path}/scale", _scale(path, -5))
    other = wire.request("PUT", f"{path}/scale", _scale(f"{path}x", 5))
    absent = wire.get(f"{path}-no/scale")
    deleted = wire.request("DELETE", f"{path}/scale")

    assert [one.status for one in (negative, other, absent, deleted)] == [422, 400, 404, 405]
    assert negative.json["message"].endswith(
        "is invalid: spec.replicas: Invalid value: -5: must be greater than or equal to 0"
    )
    assert wire.get("/api/v1/namespaces/default/configmaps/a/scale").status == 404
    assert wire.get(path).json["spec"]["replicas"] == 3


def test_a_custom_resource_keeps_its_number_where_its_definition_says(
    api: APIServer | KubeAPIServer, wire: Wire
) -> None:
    scale = {
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size",
        "labelSelectorPath": ".status.selector",
    }
    name, kind = f"a-{secrets.token_hex(4)}", f"Sized{secrets.token_hex(4)}"
    plural = f"{kind.lower()}s"
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
        "subresources": {"status": {}, "scale": scale},
    }
    spec = {
        "group": "scale.example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
        "versions": [version],
    }
    api.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.scale.example.com"},
            "spec": spec,
        }
    )
    everywhere = f"/apis/{_WIDGETS}/{plural}"
    assert poll(lambda: wire.get(everywhere).status == 200, timeout_seconds=100)
    api.create(
        {
            "apiVersion": _WIDGETS,
            "kind": kind,
            "metadata": {"name": name},
            "spec": {"size": 3},
            "status": {"size": 2, "selector": "app=x"},
        }
    )
    path = f"/apis/{_WIDGETS}/namespaces/default/{plural}/{name}"

    before = wire.get(f"{path}/scale").json
    answer = wire.request("PUT", f"{path}/scale", _scale(path, 5))
    wrong = wire.request("PUT", f"{path}/scale", _scale(path, -5))

    assert (before["spec"], before["status"]) == (
        {"replicas": 3},
        {"replicas": 2, "selector": "app=x"},
    )
    assert (answer.status, answer.json["spec"]) == (200, {"replicas": 5})
    assert wire.get(path).json["spec"] == {"size": 5}
    assert wrong.json["details"]["causes"][0]["field"] == ".spec.size"


def test_a_registered_resource_can_have_a_scale(apiserver: APIServer) -> None:
    apiserver.register(_WIDGETS, "Widget", "widgets", has_scale=True, short_names=("wd",))
    apiserver.create(
        {"apiVersion": _WIDGETS, "kind": "Widget", "metadata": {"name": "a"}, "spec": {}}
    )
    path = f"/apis/{_WIDGETS}/namespaces/default/widgets/a"
    with Wire(apiserver.url) as wire:
        assert wire.get(f"{path}/scale").status == 500  # as on the real server: no number to show
        answer = wire.request("PUT", f"{path}/scale", _scale(path, 2))

    assert answer.json["spec"] == {"replicas": 2}
    assert apiserver.get(_WIDGETS, "widgets", "a")["spec"] == {"replicas": 2}
