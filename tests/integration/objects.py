"""The objects that the suite writes: both servers store them unchanged.

Each call returns a new dict. Updates change only an annotation and a label, which every kind
allows.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.integration.servers import WIDGETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.objects import JSONObject


@dataclass(frozen=True)
class Kind:
    """One kind of object, and the least that its server asks of a body."""

    api_version: str
    kind: str
    plural: str
    body: JSONObject = field(default_factory=dict)

    def make(
        self,
        name: str,
        namespace: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        **body: JSONObject,
    ) -> JSONObject:
        """Return a new object."""
        metadata: JSONObject = {"name": name, "labels": dict(labels or {})}
        if namespace is not None:
            metadata["namespace"] = namespace
        identity = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}
        return {**identity, **self.body, **body}


_POD_SPEC: JSONObject = {"containers": [{"name": "main", "image": "example.com/app:1"}]}

CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps", {"data": {"key": 'välue \u2028 \\ "quoted"'}})
SECRETS = Kind("v1", "Secret", "secrets", {"type": "Opaque", "data": {"key": "c2VjcmV0"}})
PODS = Kind("v1", "Pod", "pods", {"spec": _POD_SPEC})
NODES = Kind("v1", "Node", "nodes")
WIDGET = Kind(WIDGETS, "Widget", "widgets", {"spec": {"size": 3, "ratio": 0.25, "parts": ["a"]}})
PLANET = Kind(WIDGETS, "Planet", "planets", {"spec": {"moons": 2}})


def pod_on(node: str, name: str, namespace: str, **labels: str) -> JSONObject:
    """Return a pod that is bound to a node."""
    return PODS.make(name, namespace, labels=labels, spec={**_POD_SPEC, "nodeName": node})


def event_of_nothing(name: str, namespace: str) -> JSONObject:
    """Return an Event about a pod that there is not."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {"kind": "Pod", "name": "none", "namespace": namespace},
        "reason": "Suite",
        "type": "Normal",
    }


def changed(obj: JSONObject, number: int, **labels: str) -> JSONObject:
    """Return an object with another annotation, and perhaps other labels."""
    metadata = obj["metadata"]
    annotations = {**(metadata.get("annotations") or {}), "suite.example.com/n": str(number)}
    new_labels = {**(metadata.get("labels") or {}), **labels}
    return {**obj, "metadata": {**metadata, "annotations": annotations, "labels": new_labels}}


def unique(word: str) -> str:
    """Return a name that no other test uses."""
    return f"{word}-{secrets.token_hex(4)}"
