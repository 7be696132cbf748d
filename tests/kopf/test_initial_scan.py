"""What the first scan and the fetch have shown: only that is not news to an observer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from kopf._cogs.structs.references import Resource

from pyinformer.kopf._initial_scan import InitialScan
from pyinformer.objects import GroupVersionResource, KubeObject, ObjectCodec

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"
)
EXAMPLES = Resource(
    "kopf.dev",
    "v1",
    "kopfexamples",
    "KopfExample",
    verbs=frozenset(("create", "delete", "get", "list", "patch", "update", "watch")),
)


def decoded(resource: Resource, name: str, spec: object = None, **metadata: str) -> Any:
    """Return an object of a list."""
    fields = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1", **metadata}
    api_version = f"{resource.group}/{resource.version}".lstrip("/")
    body = {"apiVersion": api_version, "kind": resource.kind, "metadata": fields, "spec": spec}
    raw = json.dumps(body).encode()
    gvr = GroupVersionResource(resource.group, resource.version, resource.plural)
    codec: ObjectCodec[None] = ObjectCodec(gvr)
    return codec.decode(raw, 0, len(raw))


def definition(group: str = "kopf.dev", **versions: bool) -> KubeObject[None]:
    """Return the definition of a resource; each version is served or not."""
    spec = {
        "group": group,
        "names": {"plural": "kopfexamples"},
        "versions": [{"name": name, "served": served} for name, served in versions.items()],
    }
    found: KubeObject[None] = decoded(CRDS, "kopfexamples.kopf.dev", spec)
    return found


def test_only_fetched_namespaces_are_in_the_initial_scan() -> None:
    scan = InitialScan()
    fetched: list[Any] = [{"metadata": {"name": "a", "uid": "uid-of-a"}}, {"metadata": {}}]
    scan.on_fetch(NAMESPACES, fetched)
    scan.on_fetch(PODS, [{"metadata": {"uid": "uid-of-b"}}])
    assert scan.includes(NAMESPACES, decoded(NAMESPACES, "a"))
    assert not scan.includes(NAMESPACES, decoded(NAMESPACES, "b"))
    assert not scan.includes(NAMESPACES, decoded(NAMESPACES, "a", uid="of-its-successor"))
    gone = decoded(NAMESPACES, "a", deletionTimestamp="2026-01-01T00:00:00Z")
    assert not scan.includes(NAMESPACES, gone)
    assert not scan.includes(PODS, decoded(PODS, "a"))


@pytest.mark.parametrize("groups", [None, {"kopf.dev"}])
def test_only_definitions_whose_versions_were_found_are_in_the_initial_scan(
    groups: set[str] | None,
) -> None:
    scan = InitialScan()
    scan.on_scan(groups, [PODS, EXAMPLES])
    assert scan.includes(CRDS, definition(v1=True))
    assert scan.includes(CRDS, definition(v1=True, v2=False))
    assert not scan.includes(CRDS, definition(v1=True, v2=True))
    assert not scan.includes(CRDS, decoded(CRDS, "odd", {"group": 1}))


def test_a_definition_that_was_found_as_it_was_deleted_is_not_in_the_initial_scan() -> None:
    """Then kopf does not serve the kind to handlers that patch."""
    scan = InitialScan()
    scan.on_scan(None, [replace(EXAMPLES, verbs=frozenset(("delete", "get", "list", "watch")))])
    assert not scan.includes(CRDS, definition(v1=True))


def test_definitions_of_groups_without_handlers_are_not_news() -> None:
    scan = InitialScan()
    scan.on_scan({"kopf.dev"}, [PODS])
    assert scan.includes(CRDS, definition("other.dev", v1=True))
    assert not scan.includes(CRDS, definition("kopf.dev", v1=True))
    scan.on_scan(None, [PODS])
    assert not scan.includes(CRDS, definition("other.dev", v1=True))


def test_before_the_first_scan_everything_is_news() -> None:
    scan = InitialScan()
    assert not scan.includes(CRDS, definition(v1=True))
    scan.on_scan({"kopf.dev"}, [])
    assert scan.includes(CRDS, definition("other.dev", v1=True))
    assert not scan.includes(CRDS, definition("kopf.dev", v1=True))
