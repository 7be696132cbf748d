"""The defaults of workloads, Services and volumes: what a real server adds to minimal objects.

Objects are changed in place; a field that is there is never changed.

Source:
    k8s.io/kubernetes pkg/apis/{core,apps,batch,networking,autoscaling,storage}/v1/defaults.go; the
    admission plug-ins DefaultTolerationSeconds and Priority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Final

from pyinformer.objects import JSONObject, JSONValue

_CONTAINER_LISTS: Final = ("containers", "initContainers", "ephemeralContainers")
_CONTAINER: Final[JSONObject] = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final[JSONObject] = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_CONTAINER_PARTS: Final = ("resources", "ports", "env", *_PROBES)
_POD_SPEC: Final[JSONObject] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_FILE_MODE: Final = 0o644
_VOLUMES_WITH_MODE: Final = ("configMap", "secret", "downwardAPI", "projected")
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS: Final = 300
_DEPLOYMENT: Final[JSONObject] = {
    "replicas": 1,
    "strategy": {"type": "RollingUpdate"},
    "revisionHistoryLimit": 10,
    "progressDeadlineSeconds": 600,
}
_STATEFUL_SET: Final[JSONObject] = {
    "replicas": 1,
    "serviceName": "",
    "podManagementPolicy": "OrderedReady",
    "updateStrategy": {"type": "RollingUpdate"},
    "revisionHistoryLimit": 10,
    "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
}
_ROLLING: Final[dict[str, JSONObject]] = {
    "strategy": {"maxUnavailable": "25%", "maxSurge": "25%"},
    "updateStrategy": {"partition": 0, "maxUnavailable": 1},
}
_DAEMON_ROLLING: Final[JSONObject] = {"maxUnavailable": 1, "maxSurge": 0}
_JOB: Final[JSONObject] = {
    "backoffLimit": 6,
    "completionMode": "NonIndexed",
    "suspend": False,
    "manualSelector": False,
    "podReplacementPolicy": "TerminatingOrFailed",
}
_CRON_JOB: Final[JSONObject] = {
    "concurrencyPolicy": "Allow",
    "suspend": False,
    "successfulJobsHistoryLimit": 3,
    "failedJobsHistoryLimit": 1,
}
_SERVICE: Final[JSONObject] = {"sessionAffinity": "None", "type": "ClusterIP"}


def pod(spec: JSONObject) -> None:
    """Complete the spec of a pod."""
    pod_spec(spec)
    _fill(spec, {"enableServiceLinks": True})
    for name in _CONTAINER_LISTS:
        for resources in (one["resources"] for one in _maps(spec.get(name))):
            if resources.get("limits"):
                resources["requests"] = {
                    **resources["limits"],
                    **(resources.get("requests") or {}),
                }


def tolerate(spec: JSONObject) -> None:
    """Add what the admission plug-in DefaultTolerationSeconds adds to a pod."""
    tolerations = list(spec.get("tolerations") or ())
    for key in _TOLERATED:
        if not any(one.get("key") in (key, None) for one in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": _TOLERATION_SECONDS,
                }
            )
    spec["tolerations"] = tolerations


def pod_spec(spec: JSONObject) -> None:
    """Complete the spec of a pod, or of the pods of a workload."""
    _fill(spec, _POD_SPEC)
    if spec.get("serviceAccountName"):
        _fill(spec, {"serviceAccount": spec["serviceAccountName"]})
    for name in _CONTAINER_LISTS:
        if name in spec:
            spec[name] = [_container(one) for one in _maps(spec[name])]
    if "volumes" in spec:
        spec["volumes"] = [_volume(one) for one in _maps(spec["volumes"])]


def _container(given: JSONObject) -> JSONObject:
    container = _copied(given, _CONTAINER_PARTS)
    _fill(container, _CONTAINER)
    image = str(container.get("image") or "")
    is_latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    is_fixed = "@" in image or not is_latest
    _fill(container, {"imagePullPolicy": "IfNotPresent" if is_fixed else "Always"})
    for port in _maps(container.get("ports")):
        _fill(port, {"protocol": "TCP"})
    for name in _PROBES:
        if isinstance(container.get(name), dict):
            _fill(container[name], _PROBE)
            _fill_below(container[name], "httpGet", {"path": "/", "scheme": "HTTP"})
            _fill_below(container[name], "grpc", {"service": ""})
    for variable in _maps(container.get("env")):
        _fill_below(variable.get("valueFrom"), "fieldRef", {"apiVersion": "v1"})
        if variable.get("value") == "":  # as if absent, for Go
            del variable["value"]
    return container


def _copied(given: JSONObject, parts: tuple[str, ...]) -> JSONObject:
    """Return a copy of a map; of the values, only those of `parts` are copies."""
    copied = dict(given)
    for name in parts:
        if name in copied:
            copied[name] = deepcopy(copied[name])
    return copied


def _volume(given: JSONObject) -> JSONObject:
    volume = deepcopy(given)
    if set(volume) == {"name"}:
        volume["emptyDir"] = {}
    for name in _VOLUMES_WITH_MODE:
        _fill_below(volume, name, {"defaultMode": _FILE_MODE})
    _fill_below(volume, "hostPath", {"type": ""})
    for source in _maps((volume.get("projected") or {}).get("sources")):
        _fill_below(source, "serviceAccountToken", {"expirationSeconds": 3600})
    return volume


def _template(spec: JSONObject) -> None:
    """Complete the pods of a workload."""
    template = spec["template"] = dict(_map(spec.get("template")))
    template.setdefault("metadata", {})
    if isinstance(template.get("spec"), dict):
        template["spec"] = dict(template["spec"])
        pod_spec(template["spec"])


def _deployment(spec: JSONObject) -> None:
    _fill(spec, _DEPLOYMENT)
    _rolling(spec, "strategy", _ROLLING["strategy"])
    _template(spec)


def _stateful_set(spec: JSONObject) -> None:
    _fill(spec, _STATEFUL_SET)
    _rolling(spec, "updateStrategy", _ROLLING["updateStrategy"])
    _template(spec)
    claims = [deepcopy(one) for one in _maps(spec.get("volumeClaimTemplates"))]
    for claim in claims:
        _fill(claim, {"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
        _fill_below(claim, "spec", {"volumeMode": "Filesystem"})
        _fill(claim, {"status": {"phase": "Pending"}})
    if claims:
        spec["volumeClaimTemplates"] = claims


def _daemon_set(spec: JSONObject) -> None:
    _fill(spec, {"updateStrategy": {"type": "RollingUpdate"}, "revisionHistoryLimit": 10})
    _rolling(spec, "updateStrategy", _DAEMON_ROLLING)
    _template(spec)


def _rolling(spec: JSONObject, name: str, defaults: JSONObject) -> None:
    strategy = spec[name] = dict(_map(spec[name]))
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        strategy["rollingUpdate"] = {**defaults, **_map(strategy.get("rollingUpdate"))}


def _replica_set(spec: JSONObject) -> None:
    _fill(spec, {"replicas": 1})
    _template(spec)


def _job(spec: JSONObject) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        _fill(spec, {"completions": 1, "parallelism": 1})
    _fill(spec, {"parallelism": 1})
    _fill(spec, _JOB)
    _template(spec)


def _cron_job(spec: JSONObject) -> None:
    _fill(spec, _CRON_JOB)
    template = spec["jobTemplate"] = dict(_map(spec.get("jobTemplate")))
    template.setdefault("metadata", {})
    if isinstance(template.get("spec"), dict):
        template["spec"] = dict(template["spec"])
        _template(template["spec"])


def _service(spec: JSONObject) -> None:
    _fill(spec, _SERVICE)
    ports = [deepcopy(one) for one in _maps(spec.get("ports"))]
    for port in ports:
        _fill(port, {"protocol": "TCP"})
        if spec["type"] != "ExternalName":
            _fill(port, {"targetPort": port.get("port")})
    if ports:
        spec["ports"] = ports
    if spec["type"] == "ExternalName":
        return
    _fill(spec, {"internalTrafficPolicy": "Cluster"})
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _fill(spec, {"externalTrafficPolicy": "Cluster"})
    if spec["type"] == "LoadBalancer":
        _fill(spec, {"allocateLoadBalancerNodePorts": True})


def _network_policy(spec: JSONObject) -> None:
    types = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    _fill(spec, {"podSelector": {}, "policyTypes": types})
    for direction in ("ingress", "egress"):
        rules = [deepcopy(one) for one in _maps(spec.get(direction))]
        for port in (port for rule in rules for port in _maps(rule.get("ports"))):
            _fill(port, {"protocol": "TCP"})
        if rules:
            spec[direction] = rules


def _autoscaler(spec: JSONObject) -> None:
    target = {"type": "Utilization", "averageUtilization": 80}
    resource = {"name": "cpu", "target": target}
    _fill(spec, {"minReplicas": 1, "metrics": [{"type": "Resource", "resource": resource}]})


def _claim(spec: JSONObject) -> None:
    _fill(spec, {"resources": {}, "volumeMode": "Filesystem"})


def _persistent_volume(spec: JSONObject) -> None:
    _fill(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})


SPECS: Final[dict[str, Callable[[JSONObject], None]]] = {
    "pods": pod,
    "replicationcontrollers": _replica_set,
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "statefulsets.apps": _stateful_set,
    "daemonsets.apps": _daemon_set,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "services": _service,
    "networkpolicies.networking.k8s.io": _network_policy,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _persistent_volume,
}
"""What completes the spec of each resource, in place."""

STATUSES: Final[dict[str, JSONObject]] = {
    "deployments.apps": {},
    "daemonsets.apps": {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    },
    "statefulsets.apps": {"replicas": 0, "availableReplicas": 0},
    "replicasets.apps": {"replicas": 0},
    "replicationcontrollers": {"replicas": 0},
    "jobs.batch": {},
    "cronjobs.batch": {},
    "services": {"loadBalancer": {}},
    "ingresses.networking.k8s.io": {"loadBalancer": {}},
    "poddisruptionbudgets.policy": {
        "disruptionsAllowed": 0,
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "expectedPods": 0,
    },
    "horizontalpodautoscalers.autoscaling": {"desiredReplicas": 0, "currentMetrics": None},
    "persistentvolumeclaims": {"phase": "Pending"},
    "persistentvolumes": {"phase": "Pending"},
}
"""The status of a new object."""


def quality_of_service(spec: JSONObject) -> str:
    """Return the class of a pod: Guaranteed, Burstable or BestEffort."""
    containers = [one for name in _CONTAINER_LISTS[:2] for one in _maps(spec.get(name))]
    found = [_map(one.get("resources")) for one in containers]
    if not any(_map(one.get(kind)) for one in found for kind in ("limits", "requests")):
        return "BestEffort"
    is_guaranteed = all(
        set(_map(one.get("limits"))) >= {"cpu", "memory"}
        and _map(one.get("limits")) == _map(one.get("requests"))
        for one in found
    )
    return "Guaranteed" if is_guaranteed else "Burstable"


TOP: Final[dict[str, JSONObject]] = {
    "storageclasses.storage.k8s.io": {
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    },
    "priorityclasses.scheduling.k8s.io": {"preemptionPolicy": "PreemptLowerPriority"},
}
"""The defaults of fields beside metadata, of resources without a spec."""


def _fill(target: JSONObject, defaults: JSONObject) -> None:
    for name, value in defaults.items():
        if target.get(name) is None:
            target[name] = deepcopy(value) if isinstance(value, (dict, list)) else value


def _fill_below(target: JSONValue, name: str, defaults: JSONObject) -> None:
    if isinstance(target, dict) and isinstance(target.get(name), dict):
        _fill(target[name], defaults)


def _map(value: JSONValue) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _maps(value: JSONValue) -> Iterator[JSONObject]:
    return (one for one in (value if isinstance(value, list) else ()) if isinstance(one, dict))
