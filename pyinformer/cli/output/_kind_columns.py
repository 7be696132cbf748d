"""The table columns of common kinds; other kinds have only a name and an age.

Each kind is decoded into a small model of the fields that it prints. No cell shows a value of a
Secret. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from msgspec import Raw, Struct, field

from pyinformer.objects import KubeObject

Cells: TypeAlias = tuple[str, ...]
_Reader: TypeAlias = Callable[[KubeObject[Any]], Cells]


@final
@dataclass(frozen=True, slots=True)
class KindColumns:
    """The columns of a kind, in addition to name and age."""

    headings: Cells = ()
    wide: Cells = ()
    """The additional columns of `-o wide`."""
    read: _Reader | None = None
    """Returns the cells of both, in order; empty cells have no value."""


class _Reason(Struct, frozen=True):
    reason: str = ""


class _State(Struct, frozen=True):
    waiting: _Reason | None = None
    terminated: _Reason | None = None


class _Container(Struct, frozen=True, rename="camel"):
    ready: bool = False
    restart_count: int = 0
    state: _State = field(default_factory=_State)


class _Named(Struct, frozen=True):
    name: str = ""
    image: str = ""


class _PodSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: list[_Named] = []


class _PodStatus(Struct, frozen=True, rename={"pod_ip": "podIP", "statuses": "containerStatuses"}):
    phase: str = ""
    reason: str = ""
    pod_ip: str = ""
    statuses: list[_Container] = []


class _Pod(Struct, frozen=True):
    spec: _PodSpec = field(default_factory=_PodSpec)
    status: _PodStatus = field(default_factory=_PodStatus)


def _pod(obj: KubeObject[Any]) -> Cells:
    pod = obj.as_type(_Pod)
    containers = pod.status.statuses
    ready = sum(one.ready for one in containers)
    restarts = sum(one.restart_count for one in containers)
    return (
        f"{ready}/{len(pod.spec.containers) or len(containers)}",
        "Terminating" if obj.metadata.deletion_timestamp else _pod_status(pod.status),
        str(restarts),
        pod.spec.node_name,
        pod.status.pod_ip,
    )


def _pod_status(status: _PodStatus) -> str:
    for one in status.statuses:
        reason = one.state.waiting or one.state.terminated
        if reason is not None and reason.reason not in {"", "Completed"}:
            return reason.reason
    return status.reason or status.phase


class _Template(Struct, frozen=True):
    spec: _PodSpec = field(default_factory=_PodSpec)


class _WorkloadSpec(Struct, frozen=True):
    replicas: int | None = None
    completions: int | None = None
    template: _Template = field(default_factory=_Template)


class _WorkloadStatus(Struct, frozen=True, rename="camel"):
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0
    succeeded: int = 0


class _Workload(Struct, frozen=True):
    spec: _WorkloadSpec = field(default_factory=_WorkloadSpec)
    status: _WorkloadStatus = field(default_factory=_WorkloadStatus)

    @property
    def images(self) -> str:
        """The images of the pod template, joined by commas."""
        return ",".join(one.image for one in self.spec.template.spec.containers)

    @property
    def ready(self) -> str:
        """The ready and the desired replicas, such as `2/3`."""
        return f"{self.status.ready_replicas}/{_or_one(self.spec.replicas)}"


def _or_one(number: int | None) -> int:
    return 1 if number is None else number  # the default of the server


def _deployment(obj: KubeObject[Any]) -> Cells:
    found = obj.as_type(_Workload)
    status = found.status
    counts = (str(status.updated_replicas), str(status.available_replicas))
    return (found.ready, *counts, found.images)


def _replicas(obj: KubeObject[Any]) -> Cells:
    found = obj.as_type(_Workload)
    return found.ready, found.images


def _daemon_set(obj: KubeObject[Any]) -> Cells:
    found = obj.as_type(_Workload)
    status = found.status
    ready = f"{status.number_ready}/{status.desired_number_scheduled}"
    return ready, str(status.number_available), found.images


def _job(obj: KubeObject[Any]) -> Cells:
    found = obj.as_type(_Workload)
    return f"{found.status.succeeded}/{_or_one(found.spec.completions)}", found.images


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Address(Struct, frozen=True):
    type: str = ""
    address: str = ""


class _NodeInfo(Struct, frozen=True, rename="camel"):
    kubelet_version: str = ""
    os_image: str = ""


class _NodeStatus(Struct, frozen=True, rename="camel"):
    conditions: list[_Condition] = []
    addresses: list[_Address] = []
    node_info: _NodeInfo = field(default_factory=_NodeInfo)


class _NodeSpec(Struct, frozen=True):
    unschedulable: bool = False


class _Node(Struct, frozen=True):
    spec: _NodeSpec = field(default_factory=_NodeSpec)
    status: _NodeStatus = field(default_factory=_NodeStatus)


def _node(obj: KubeObject[Any]) -> Cells:
    node = obj.as_type(_Node)
    ready = {one.status for one in node.status.conditions if one.type == "Ready"}
    state = "Ready" if "True" in ready else ("NotReady" if ready else "Unknown")
    addresses = [one.address for one in node.status.addresses if one.type == "InternalIP"]
    return (
        f"{state},SchedulingDisabled" if node.spec.unschedulable else state,
        node.status.node_info.kubelet_version,
        ",".join(addresses),
        node.status.node_info.os_image,
    )


class _Phase(Struct, frozen=True):
    phase: str = ""


class _WithPhase(Struct, frozen=True):
    status: _Phase = field(default_factory=_Phase)


def _phase(obj: KubeObject[Any]) -> Cells:
    phase = obj.as_type(_WithPhase).status.phase
    return ("Terminating" if obj.metadata.deletion_timestamp else phase,)


class _Port(Struct, frozen=True):
    port: int = 0
    protocol: str = "TCP"


class _ServiceSpec(Struct, frozen=True, rename={"cluster_ip": "clusterIP"}):
    type: str = ""
    cluster_ip: str = ""
    ports: list[_Port] = []


class _Service(Struct, frozen=True):
    spec: _ServiceSpec = field(default_factory=_ServiceSpec)


def _service(obj: KubeObject[Any]) -> Cells:
    spec = obj.as_type(_Service).spec
    return spec.type, spec.cluster_ip, ",".join(f"{one.port}/{one.protocol}" for one in spec.ports)


class _Keys(Struct, frozen=True, rename={"binary": "binaryData"}):
    type: str = ""
    data: dict[str, Raw] | None = None
    binary: dict[str, Raw] | None = None


def _secret(obj: KubeObject[Any]) -> Cells:
    keys = obj.as_type(_Keys)
    return keys.type, str(len(keys.data or ()))


def _config_map(obj: KubeObject[Any]) -> Cells:
    keys = obj.as_type(_Keys)
    return (str(len(keys.data or ()) + len(keys.binary or ())),)


class _Involved(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Event(Struct, frozen=True, rename="camel"):
    type: str = ""
    reason: str = ""
    message: str = ""
    note: str = ""
    involved_object: _Involved | None = None
    regarding: _Involved | None = None


def _event(obj: KubeObject[Any]) -> Cells:
    event = obj.as_type(_Event)
    about = event.involved_object or event.regarding or _Involved()
    what = f"{about.kind.lower()}/{about.name}"
    return event.type, event.reason, what, event.message or event.note


_READY_REPLICAS: Final = KindColumns(("READY",), ("IMAGES",), _replicas)
_STATUS: Final = KindColumns(("STATUS",), (), _phase)
_EVENT: Final = KindColumns(("TYPE", "REASON", "OBJECT", "MESSAGE"), (), _event)
_ONLY_NAME: Final = KindColumns()
_KNOWN: Final[Mapping[tuple[str, str], KindColumns]] = {
    ("", "Pod"): KindColumns(("READY", "STATUS", "RESTARTS", "NODE"), ("IP",), _pod),
    ("", "Node"): KindColumns(("STATUS", "VERSION"), ("INTERNAL-IP", "OS-IMAGE"), _node),
    ("", "Namespace"): _STATUS,
    ("", "PersistentVolume"): _STATUS,
    ("", "PersistentVolumeClaim"): _STATUS,
    ("", "Service"): KindColumns(("TYPE", "CLUSTER-IP", "PORTS"), (), _service),
    ("", "Secret"): KindColumns(("TYPE", "DATA"), (), _secret),
    ("", "ConfigMap"): KindColumns(("DATA",), (), _config_map),
    ("", "ReplicationController"): _READY_REPLICAS,
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("apps", "Deployment"): KindColumns(
        ("READY", "UP-TO-DATE", "AVAILABLE"), ("IMAGES",), _deployment
    ),
    ("apps", "ReplicaSet"): _READY_REPLICAS,
    ("apps", "StatefulSet"): _READY_REPLICAS,
    ("apps", "DaemonSet"): KindColumns(("READY", "AVAILABLE"), ("IMAGES",), _daemon_set),
    ("batch", "Job"): KindColumns(("COMPLETIONS",), ("IMAGES",), _job),
}


def columns_of(kind: str, group: str) -> KindColumns:
    """Return the columns of a kind; none for a kind that is not known."""
    return _KNOWN.get((group, kind), _ONLY_NAME)
