"""What the first scan and the fetch have shown: only that is not news to an observer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kopf._cogs.structs.references import Resource

from pyinformer.apimachinery import GroupVersionResource, KubeObject, ObjectCodec
from pyinformer.kopf._noted import Noted

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition"
)
EXAMPLES = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample")


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


def test_only_fetched_namespaces_are_noted() -> None:
    noted = Noted()
    fetched: list[Any] = [{"metadata": {"name": "a", "uid": "uid-of-a"}}, {"metadata": {}}]
    noted.fetched(NAMESPACES, fetched)
    noted.fetched(PODS, [{"metadata": {"uid": "uid-of-b"}}])
    assert noted.has(NAMESPACES, decoded(NAMESPACES, "a"))
    assert not noted.has(NAMESPACES, decoded(NAMESPACES, "b"))
    assert not noted.has(NAMESPACES, decoded(NAMESPACES, "a", uid="of-its-successor"))
    gone = decoded(NAMESPACES, "a", deletionTimestamp="2026-01-01T00:00:00Z")
    assert not noted.has(NAMESPACES, gone)
    assert not noted.has(PODS, decoded(PODS, "a"))


@pytest.mark.parametrize("groups", [None, {"kopf.dev"}])
def test_only_definitions_whose_versions_were_found_are_noted(groups: set[str] | None) -> None:
    noted = Noted()
    noted.scanned(groups, [PODS, EXAMPLES])
    assert noted.has(CRDS, definition(v1=True))
    assert noted.has(CRDS, definition(v1=True, v2=False))
    assert not noted.has(CRDS, definition(v1=True, v2=True))
    assert not noted.has(CRDS, decoded(CRDS, "odd", {"group": 1}))


def test_definitions_of_groups_without_handlers_are_not_news() -> None:
    noted = Noted()
    noted.scanned({"kopf.dev"}, [PODS])
    assert noted.has(CRDS, definition("other.dev", v1=True))
    assert not noted.has(CRDS, definition("kopf.dev", v1=True))
    noted.scanned(None, [PODS])
    assert not noted.has(CRDS, definition("other.dev", v1=True))


def test_before_the_first_scan_everything_is_news() -> None:
    noted = Noted()
    assert not noted.has(CRDS, definition(v1=True))
    noted.scanned({"kopf.dev"}, [])
    assert noted.has(CRDS, definition("other.dev", v1=True))
    assert not noted.has(CRDS, definition("kopf.dev", v1=True))
