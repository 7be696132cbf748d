"""The three large parts of a generated pod: spec, status and managedFields.

ManagedFields names the environment, labels and annotations the pod really has.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TypeAlias

from benchmarks.data.workloads import Workload

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"
Tree: TypeAlias = "dict[str, JSON]"

_CONTAINER_FIELDS = (
    "image",
    "imagePullPolicy",
    "name",
    "terminationMessagePath",
    "terminationMessagePolicy",
)
_POD_FIELDS = (
    "dnsPolicy",
    "enableServiceLinks",
    "restartPolicy",
    "schedulerName",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
)
_CONDITIONS = (
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
)
_TOKEN_MOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  (a path)


def pod_spec(workload: Workload, *, node_name: str, token_volume: str) -> Tree:
    """Build `spec` as a scheduled pod of this workload has it."""
    containers: list[JSON] = [_app_container(workload, token_volume)]
    if workload.has_sidecar:
        containers.append(_sidecar_container(token_volume))
    return {
        "volumes": [
            {
                "name": "config",
                "configMap": {"name": f"{workload.name}-config", "defaultMode": 420},
            },
            {"name": token_volume, "projected": _token_sources()},
        ],
        "containers": containers,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": workload.name,
        "serviceAccount": workload.name,
        "nodeName": node_name,
        "securityContext": {"runAsUser": 10_001, "runAsNonRoot": True, "fsGroup": 10_001},
        "schedulerName": "default-scheduler",
        "tolerations": [_toleration("not-ready"), _toleration("unreachable")],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def pod_status(
    workload: Workload,
    rng: Random,
    *,
    host_address: str,
    pod_address: str,
    created: str,
    revision: int,
) -> Tree:
    """Build `status`; every revision differs in restart count, some in phase and readiness."""
    ready = revision % 8 != 5
    names = ["app", "proxy"] if workload.has_sidecar else ["app"]
    states: list[JSON] = [
        _container_status(
            workload, name, f"{rng.getrandbits(256):064x}", created=created, restarts=revision
        )
        for name in names
    ]
    return {
        "observedGeneration": 1,
        "phase": "Running" if ready else "Pending",
        "conditions": [
            {
                "type": condition,
                "status": "True" if ready or "Ready" not in condition else "False",
                "lastProbeTime": None,
                "lastTransitionTime": created,
            }
            for condition in _CONDITIONS
        ],
        "hostIP": host_address,
        "hostIPs": [{"ip": host_address}],
        "podIP": pod_address,
        "podIPs": [{"ip": pod_address}],
        "startTime": created,
        "containerStatuses": states,
        "qosClass": "Burstable",
    }


def managed_fields(
    workload: Workload,
    *,
    labels: Iterable[str],
    annotations: Iterable[str],
    address: str,
    created: str,
) -> list[JSON]:
    """Build the two entries of a normal pod: its controller's and the kubelet's."""
    containers: Tree = {'k:{"name":"app"}': _managed_container(workload)}
    if workload.has_sidecar:
        containers['k:{"name":"proxy"}'] = {".": {}, **_leaves(_CONTAINER_FIELDS)}
    spec: Tree = {
        "f:containers": containers,
        **_leaves(_POD_FIELDS),
        "f:volumes": _managed_volumes(),
    }
    controller: Tree = {
        "f:metadata": {
            "f:annotations": {".": {}, **_leaves(annotations)},
            "f:generateName": {},
            "f:labels": {".": {}, **_leaves(labels)},
            "f:ownerReferences": {".": {}, f'k:{{"uid":"{workload.owner_uid}"}}': {}},
        },
        "f:spec": spec,
    }
    kubelet: Tree = {"f:status": _managed_status(address)}
    return [
        _managed_entry("kube-controller-manager", created, controller),
        {**_managed_entry("kubelet", created, kubelet), "subresource": "status"},
    ]


def _app_container(workload: Workload, token_volume: str) -> Tree:
    env: list[JSON] = [
        {
            "name": "POD_NAME",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
        }
    ]
    env.extend({"name": key, "value": value} for key, value in workload.env)
    return {
        "name": "app",
        "image": workload.image,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "env": env,
        "resources": {
            "limits": {"cpu": "1", "memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "256Mi"},
        },
        "volumeMounts": [
            {"name": "config", "readOnly": True, "mountPath": "/etc/app"},
            {"name": token_volume, "readOnly": True, "mountPath": _TOKEN_MOUNT},
        ],
        "readinessProbe": _probe("/readyz"),
        **_container_tail(),
    }


def _sidecar_container(token_volume: str) -> Tree:
    return {
        "name": "proxy",
        "image": "registry.example.com/mesh/proxy:v1.42",
        "resources": {},
        "volumeMounts": [{"name": token_volume, "readOnly": True, "mountPath": _TOKEN_MOUNT}],
        **_container_tail(),
    }


def _container_tail() -> Tree:
    return {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _probe(path: str) -> Tree:
    return {
        "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }


def _toleration(reason: str) -> Tree:
    return {
        "key": f"node.kubernetes.io/{reason}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }


def _token_sources() -> Tree:
    namespace_field: Tree = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {
                "configMap": {
                    "name": "kube-root-ca.crt",
                    "items": [{"key": "ca.crt", "path": "ca.crt"}],
                }
            },
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace_field}]}},
        ],
        "defaultMode": 420,
    }


def _container_status(
    workload: Workload, name: str, container_id: str, *, created: str, restarts: int
) -> Tree:
    return {
        "name": name,
        "state": {"running": {"startedAt": created}},
        "lastState": {},
        "ready": True,
        "restartCount": restarts,
        "image": workload.image,
        "imageID": f"{workload.image.partition(':')[0]}@sha256:{workload.image_digest}",
        "containerID": f"containerd://{container_id}",
        "started": True,
    }


def _leaves(names: Iterable[str]) -> Tree:
    return {f"f:{name}": {} for name in sorted(names)}


def _managed_entry(manager: str, time: str, fields: Tree) -> Tree:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }


def _managed_container(workload: Workload) -> Tree:
    env: Tree = {
        f'k:{{"name":"{key}"}}': {".": {}, "f:name": {}, "f:value": {}}
        for key in sorted(key for key, _ in workload.env)
    }
    probe: Tree = {".": {}, **_leaves(("failureThreshold", "httpGet", "periodSeconds"))}
    port: Tree = {".": {}, **_leaves(("containerPort", "name", "protocol"))}
    return {
        ".": {},
        "f:env": {".": {}, **env},
        "f:ports": {".": {}, 'k:{"containerPort":8080,"protocol":"TCP"}': port},
        "f:readinessProbe": probe,
        "f:resources": {".": {}, "f:limits": {".": {}, **_leaves(("cpu", "memory"))}},
        **_leaves(_CONTAINER_FIELDS),
    }


def _managed_volumes() -> Tree:
    config: Tree = {
        ".": {},
        "f:configMap": {".": {}, **_leaves(("defaultMode", "name"))},
        "f:name": {},
    }
    return {".": {}, 'k:{"name":"config"}': config}


def _managed_status(address: str) -> Tree:
    conditions: Tree = {
        f'k:{{"type":"{condition}"}}': {
            ".": {},
            **_leaves(("lastProbeTime", "lastTransitionTime", "status", "type")),
        }
        for condition in ("ContainersReady", "Initialized", "Ready")
    }
    return {
        "f:conditions": conditions,
        "f:containerStatuses": {},
        "f:hostIP": {},
        "f:phase": {},
        "f:podIP": {},
        "f:podIPs": {".": {}, f'k:{{"ip":"{address}"}}': {".": {}, "f:ip": {}}},
        "f:startTime": {},
    }
