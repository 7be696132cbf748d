"""What no update may change of a built-in object, and what it may: the same on both servers.

No client of ours stands between test and wire; each test passes on the real server, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.objects import unique
from tests.integration.places import APPLY, MERGE, STRATEGIC, Place
from tests.integration.test_server_strictness import fields
from tests.waiting import poll

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

RBAC = "rbac.authorization.k8s.io/v1"
STORAGE = "storage.k8s.io/v1"
_NAMESPACED = {
    "ControllerRevision",
    "DaemonSet",
    "Deployment",
    "EndpointSlice",
    "Job",
    "PersistentVolumeClaim",
    "Pod",
    "ReplicaSet",
    "ResourceQuota",
    "RoleBinding",
    "Secret",
    "Service",
    "StatefulSet",
}


@dataclass(frozen=True)
class Thing:
    """An object of a built-in kind."""

    api_version: str
    kind: str
    body: JSONObject

    def path(self, place: Place) -> str:
        """Return where it is created."""
        plural = f"{self.kind.lower()}{'es' if self.kind.endswith('s') else 's'}"
        if self.kind in _NAMESPACED:
            return place.path(plural, api_version=self.api_version)
        root = "apis" if "/" in self.api_version else "api"
        return f"/{root}/{self.api_version}/{plural}"

    def named(self, name: str) -> JSONObject:
        """Return the whole object."""
        metadata = {**self.body.get("metadata", {}), "name": name}
        head = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata}
        return {**self.body, **head}


def template(**spec: Any) -> JSONObject:
    """Return the template of a pod."""
    container = {"name": "a", "image": "a"}
    return {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container], **spec}}


_SELECTOR = {"matchLabels": {"app": "a"}}
_WORKLOAD = {"spec": {"selector": _SELECTOR, "template": template()}}
_RESOURCES = {"requests": {"storage": "1Gi"}}
_CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": _RESOURCES}
_ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}

DEPLOYMENT = Thing("apps/v1", "Deployment", _WORKLOAD)
DAEMON_SET = Thing("apps/v1", "DaemonSet", _WORKLOAD)
REPLICA_SET = Thing("apps/v1", "ReplicaSet", _WORKLOAD)
STATEFUL_SET = Thing(
    "apps/v1",
    "StatefulSet",
    {
        "spec": {
            **_WORKLOAD["spec"],
            "serviceName": "a",
            "volumeClaimTemplates": [{"metadata": {"name": "a"}, "spec": _CLAIM_SPEC}],
        }
    },
)
REVISION = Thing("apps/v1", "ControllerRevision", {"revision": 1, "data": {"a": "b"}})
JOB = Thing("batch/v1", "Job", {"spec": {"template": template(restartPolicy="Never")}})
SUSPENDED = Thing("batch/v1", "Job", {"spec": {**JOB.body["spec"], "suspend": True}})
INDEXED = Thing(
    "batch/v1",
    "Job",
    {
        "spec": {
            **JOB.body["spec"],
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
        }
    },
)
POD = Thing("v1", "Pod", {"spec": template()["spec"]})
GATED = Thing("v1", "Pod", {"spec": template(schedulingGates=[{"name": "a"}])["spec"]})
_EXISTS = {"key": "b", "operator": "Exists"}
TOLERANT = Thing("v1", "Pod", {"spec": template(tolerations=[_EXISTS])["spec"]})
SERVICE = Thing("v1", "Service", {"spec": {"ports": [{"port": 80}], "selector": {"app": "a"}}})
CLAIM = Thing("v1", "PersistentVolumeClaim", {"spec": _CLAIM_SPEC})
VOLUME = Thing(
    "v1",
    "PersistentVolume",
    {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/a"},
        }
    },
)
QUOTA = Thing("v1", "ResourceQuota", {"spec": {"scopes": ["BestEffort"], "hard": {"pods": "1"}}})
SECRET = Thing("v1", "Secret", {"type": "Opaque"})
BINDING = Thing(RBAC, "RoleBinding", {"roleRef": _ROLE})
CLUSTER_BINDING = Thing(RBAC, "ClusterRoleBinding", {"roleRef": _ROLE})
CLASS = Thing(STORAGE, "StorageClass", {"provisioner": "acme.io/a", "parameters": {"a": "b"}})
PRIORITY = Thing("scheduling.k8s.io/v1", "PriorityClass", {"value": 5})
SLICE = Thing("discovery.k8s.io/v1", "EndpointSlice", {"addressType": "IPv4", "endpoints": []})

_OTHER_LABELS = {"selector": {"matchLabels": {"app": "a", "tier": "b"}}}
_BOTH_LABELS = {"metadata": {"labels": {"app": "a", "tier": "b"}}}
_OTHERS = {"spec": {**_OTHER_LABELS, "template": _BOTH_LABELS}}


@pytest.mark.parametrize(
    ("thing", "change", "field"),
    [
        (DEPLOYMENT, _OTHERS, "spec.selector"),
        (DAEMON_SET, _OTHERS, "spec.selector"),
        (REPLICA_SET, _OTHERS, "spec.selector"),
        (STATEFUL_SET, _OTHERS, "spec.selector"),
        (STATEFUL_SET, {"spec": {"serviceName": "b"}}, "spec.serviceName"),
        (STATEFUL_SET, {"spec": {"podManagementPolicy": "Parallel"}}, "spec.podManagementPolicy"),
        (STATEFUL_SET, {"spec": {"volumeClaimTemplates": []}}, "spec.volumeClaimTemplates"),
        (REVISION, {"data": {"a": "c"}}, "data"),
        (JOB, {"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}}, "spec.template"),
        (JOB, {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}, "spec.template"),
        (JOB, {"spec": {"completions": 3}}, "spec.completions"),
        (INDEXED, {"spec": {"completions": 3}}, "spec.completions"),
        (SUSPENDED, {"spec": {"template": {"spec": {"hostNetwork": True}}}}, "spec.template.spec"),
        (POD, {"spec": {"nodeSelector": {"a": "b"}}}, "spec"),
        (POD, {"spec": {"terminationGracePeriodSeconds": 5}}, "spec"),
        (POD, {"spec": {"containers": [{"name": "a", "image": "a", "args": ["b"]}]}}, "spec"),
        (POD, {"spec": {"nodeName": "n"}}, "spec"),
        (POD, {"spec": {"schedulingGates": [{"name": "b"}]}}, "spec.schedulingGates[0].name"),
        (TOLERANT, {"spec": {"tolerations": []}}, "spec.tolerations"),
        (SERVICE, {"spec": {"clusterIP": "None", "clusterIPs": ["None"]}}, "spec.clusterIPs[0]"),
        (SERVICE, {"spec": {"clusterIP": "10.96.7.7"}}, "spec.clusterIPs[0]"),
        (CLAIM, {"spec": {"accessModes": ["ReadOnlyMany"]}}, "spec"),
        (CLAIM, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, "spec"),
        (VOLUME, {"spec": {"hostPath": {"path": "/b"}}}, "spec.persistentvolumesource"),
        (QUOTA, {"spec": {"scopes": ["NotBestEffort"]}}, "spec.scopes"),
        (SECRET, {"type": "acme.io/a"}, "type"),
        (BINDING, {"roleRef": {"name": "edit"}}, "roleRef"),
        (CLUSTER_BINDING, {"roleRef": {"name": "edit"}}, "roleRef"),
        (CLASS, {"provisioner": "acme.io/b"}, "provisioner"),
        (CLASS, {"parameters": {"a": "c"}}, "parameters"),
        (CLASS, {"reclaimPolicy": "Retain"}, "reclaimPolicy"),
        (CLASS, {"volumeBindingMode": "WaitForFirstConsumer"}, "volumeBindingMode"),
        (PRIORITY, {"value": 6}, "value"),
        (PRIORITY, {"preemptionPolicy": "Never"}, "preemptionPolicy"),
        (SLICE, {"addressType": "IPv6"}, "addressType"),
    ],
    ids=lambda value: value.kind if isinstance(value, Thing) else str(value)[:40],
)
def test_an_update_of_an_immutable_field_is_refused(
    place: Place, thing: Thing, change: JSONObject, field: str
) -> None:
    name = unique("a")
    stored = place.created(thing.path(place), thing.named(name))
    path = f"{thing.path(place)}/{name}"

    assert field in fields(place.patch(path, change, MERGE))
    unchanged = place.get(path)
    assert unchanged["metadata"]["uid"] == stored["metadata"]["uid"]
    assert unchanged.get("spec") == stored.get("spec")


@pytest.mark.parametrize(
    ("thing", "change"),
    [
        (DEPLOYMENT, {"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}}),
        (DEPLOYMENT, {"spec": {"replicas": 2}}),
        (STATEFUL_SET, {"spec": {"replicas": 2, "minReadySeconds": 3}}),
        (STATEFUL_SET, {"spec": {"revisionHistoryLimit": 3}}),
        (JOB, {"spec": {"parallelism": 2, "backoffLimit": 1, "suspend": True}}),
        (INDEXED, {"spec": {"completions": 3, "parallelism": 3}}),
        (SUSPENDED, {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}}),
        (SUSPENDED, {"spec": {"template": {"metadata": {"labels": {"b": "c"}}}}}),
        (POD, {"metadata": {"labels": {"b": "c"}}}),
        (POD, {"spec": {"activeDeadlineSeconds": 9}}),
        (GATED, {"spec": {"schedulingGates": []}}),
        (GATED, {"spec": {"nodeSelector": {"a": "b"}}}),
        (SERVICE, {"spec": {"selector": {"b": "c"}, "type": "NodePort"}}),
        (SERVICE, {"spec": {"type": "ExternalName", "externalName": "a.b", "clusterIP": None}}),
        (VOLUME, {"spec": {"capacity": {"storage": "2Gi"}}}),
        (CLASS, {"allowVolumeExpansion": True}),
        (BINDING, {"subjects": [{"kind": "User", "name": "a", "apiGroup": _ROLE["apiGroup"]}]}),
        (QUOTA, {"spec": {"hard": {"pods": "2"}}}),
    ],
    ids=lambda value: value.kind if isinstance(value, Thing) else str(value)[:40],
)
def test_an_update_beside_the_immutable_fields_is_stored(
    place: Place, thing: Thing, change: JSONObject
) -> None:
    name = unique("a")
    stored = place.created(thing.path(place), thing.named(name))
    path = f"{thing.path(place)}/{name}"

    changed = place.patched(path, change, MERGE)

    assert changed["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    "thing",
    [
        DEPLOYMENT,
        STATEFUL_SET,
        DAEMON_SET,
        JOB,
        POD,
        SERVICE,
        CLAIM,
        VOLUME,
        QUOTA,
        SECRET,
        BINDING,
        CLASS,
        PRIORITY,
        SLICE,
    ],
    ids=lambda thing: thing.kind,
)
def test_an_object_can_be_applied_again_and_written_back(place: Place, thing: Thing) -> None:
    """What the server has added to it does not count as changed."""
    name = unique("a")
    path = f"{thing.path(place)}/{name}"
    place.patched(path, thing.named(name), APPLY, fieldManager="me")

    place.patched(path, thing.named(name), APPLY, fieldManager="me")
    body = place.get(path)
    body["metadata"]["labels"] = {"written": "back"}
    assert place.send("PUT", path, body).status == 200


@pytest.mark.parametrize(
    "change", [{"scope": "Cluster"}, {"names": {"kind": "Other"}}], ids=["scope", "kind"]
)
def test_a_definition_that_is_served_keeps_its_scope_and_kind(
    place: Place, change: JSONObject
) -> None:
    plural, group = unique("things"), "immutable.example.com"
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "singular": plural, "kind": plural.title().replace("-", "")}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    place.created(path, {**head, "metadata": {"name": f"{plural}.{group}"}, "spec": spec})
    path = f"{path}/{plural}.{group}"

    def is_established() -> bool:
        conditions = (place.get(path).get("status") or {}).get("conditions") or ()
        return any(one["type"] == "Established" for one in conditions if one["status"] == "True")

    assert poll(is_established, timeout_seconds=100)
    field = "spec.scope" if "scope" in change else "spec.names.kind"
    assert fields(place.patch(path, {"spec": change}, MERGE)) == [field]
    assert place.patch(path, {"spec": {"names": {"shortNames": ["tg"]}}}, MERGE).status == 200
    place.send("DELETE", path)


def test_the_images_of_a_pod_can_be_changed(place: Place) -> None:
    path = f"{POD.path(place)}/a"
    place.created(POD.path(place), POD.named("a"))
    change = {"spec": {"containers": [{"name": "a", "image": "b"}]}}

    changed = place.patched(path, change, STRATEGIC)

    assert changed["spec"]["containers"][0]["image"] == "b"


def test_a_toleration_can_be_added_to_a_pod(place: Place) -> None:
    path = f"{POD.path(place)}/a"
    stored = place.created(POD.path(place), POD.named("a"))
    more = [*stored["spec"]["tolerations"], _EXISTS]

    changed = place.patched(path, {"spec": {"tolerations": more}}, MERGE)

    assert changed["spec"]["tolerations"] == more


def test_a_bound_claim_can_grow(place: Place) -> None:
    path = f"{CLAIM.path(place)}/a"
    place.created(CLAIM.path(place), CLAIM.named("a"))
    status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    place.patched(f"{path}/status", status, MERGE)
    grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}

    assert place.patch(path, grown, MERGE).status in (200, 403)  # the class may not allow it
    other = {"spec": {"accessModes": ["ReadOnlyMany"]}}
    assert "spec" in fields(place.patch(path, other, MERGE))
