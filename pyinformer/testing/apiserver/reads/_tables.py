"""Objects as table rows, with the columns that a kube-apiserver sends to `kubectl get`.

A resource without columns of its own has name and age.

Source:
    kubernetes pkg/printers/internalversion/printers.go, apiextensions-apiserver
    pkg/registry/customresource/tableconvertor, apimachinery pkg/util/duration.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final, TypeAlias

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import go_json

_UNKNOWN: Final = "<unknown>"
_NONE: Final = "<none>"
_INVALID: Final = "<invalid>"
_NO_VALUE: Final = "<no value>"
_LARGEST_INTEGER: Final = 2.0**63
_SMALLEST_PLAIN, _LARGEST_PLAIN = -4, 6  # the exponents of floats that are written without one
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
_STEP: Final = re.compile(
    r"""\.?(?:\['(?P<quoted>(?:[^'\\]|\\.)+)'\]|\[(?P<index>\d+)\]|\[\?\(@\.(?P<key>[\w.]+)\s*==\s*
    ["'](?P<value>[^"']*)["']\)\]|(?P<all>\[\*\])|(?P<name>(?:[^.\[\\]|\\.)+))""",
    re.VERBOSE,
)

Cell: TypeAlias = Callable[[JSONObject, datetime], JSONValue]
"""Returns one cell of an object, given the current time."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `priority` 0 is always shown, 1 only by `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> JSONObject:
        """Return the column definition; the caller owns the dict."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def columns_of(resource: ResourceType) -> Sequence[Column]:
    """Return the columns of a resource."""
    if resource.list_shape == "custom":
        own = [_custom(column) for column in resource.printer_columns] or [_AGE_OF_CUSTOM]
        return [_NAME, *own]
    return _COLUMNS.get(resource.qualified_name, (_NAME, _AGE))


def human_duration(seconds: float) -> str:
    """Format a duration as kubectl does: at most two units, the smaller one only if it matters.

    Source:
        apimachinery pkg/util/duration/duration.go, HumanDuration.
    """
    whole = int(seconds)
    if whole < 0:
        return "0s" if whole >= -1 else _INVALID
    for below, unit, name, smaller, smaller_name in _DURATIONS:
        if whole < below:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{name}" + (f"{rest}{smaller_name}" if rest else "")
    return f"{whole // _YEAR}y"


_DURATIONS: Final = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def find_all(value: JSONValue, path: str) -> list[JSONValue]:
    """Return the values at a simple JSON path: fields, indexes, `[*]`, `[?(@.type=="Ready")]`."""
    found = [value]
    for step in _STEP.finditer(path.strip("{}")):
        found = [one for each in found for one in _walk(each, step)]
    return found


def _walk(value: JSONValue, step: re.Match[str]) -> Iterator[JSONValue]:
    name = step["quoted"] or step["name"]
    if name is not None:
        name = name.replace("\\", "")
        if isinstance(value, dict) and name in value:
            yield value[name]
    elif isinstance(value, list):
        if step["index"]:
            yield from value[int(step["index"]) :][:1]
        else:
            key = step["key"]
            yield from (one for one in value if not key or step["value"] in find_all(one, key))


def _at(path: str, default: JSONValue = "") -> Cell:
    def cell(obj: JSONObject, _: datetime) -> JSONValue:
        found = find_all(obj, path)
        return found[0] if found and found[0] not in (None, "") else default

    return cell


def _age(*paths: str) -> Cell:
    def cell(obj: JSONObject, now: datetime) -> JSONValue:
        found = (one for path in paths for one in find_all(obj, path) if one)
        return _time_since(next(found, ""), now)

    return cell


def _time_since(value: JSONValue, now: datetime) -> str:
    """Format the time since an RFC 3339 time; a test may have stored any other text."""
    if not value:
        return _UNKNOWN
    try:
        since = datetime.fromisoformat(value if isinstance(value, str) else "")
        return human_duration((now - since).total_seconds())
    except (ValueError, TypeError):  # not a time, or one without a time zone
        return _INVALID


def _count(*paths: str) -> Cell:
    return lambda obj, _: sum(len(found) for path in paths for found in find_all(obj, path))


def _joined(path: str) -> Cell:
    return lambda obj, _: ",".join(str(one) for one in find_all(obj, path)) or _NONE


def _of(one: str, other: str) -> Cell:
    """Format two numbers as `1/3`."""
    first, second = _at(one, 0), _at(other, 0)
    return lambda obj, now: f"{first(obj, now)}/{second(obj, now)}"


def _labels(path: str) -> Cell:
    def cell(obj: JSONObject, _: datetime) -> JSONValue:
        found = (find_all(obj, path) or [None])[0]
        if not isinstance(found, dict) or not found:
            return _NONE
        return ",".join(f"{key}={value}" for key, value in sorted(found.items()))

    return cell


def _custom(column: JSONObject) -> Column:
    path, kind = str(column.get("jsonPath", "")), str(column.get("type", "string"))

    def cell(obj: JSONObject, now: datetime) -> JSONValue:
        found = find_all(obj, path)
        return _custom_cell(kind, found[0], now) if found else None

    return Column(
        str(column.get("name", "")),
        cell,
        kind,
        str(column.get("format") or ""),
        str(column.get("description") or ""),
        int(column.get("priority") or 0),
    )


def _custom_cell(kind: str, value: JSONValue, now: datetime) -> JSONValue:
    """Return the cell of a custom column; a value of another type than the column's has none.

    Source:
        apiextensions-apiserver pkg/registry/customresource/tableconvertor, cellForJSONValue;
        client-go util/jsonpath, PrintResults.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match kind:
        case "string":
            return _go_text(value)
        case "date":
            return _time_since(value, now) if isinstance(value, str) else None
        case "integer" if is_number:
            return int(value)
        case "number" if is_number:
            return value
        case "boolean" if isinstance(value, bool):
            return value
    return None


def _go_text(value: JSONValue) -> str:
    """Format a value as Go's fmt does, and a list or map as JSON."""
    if value is None:
        return _NO_VALUE
    if isinstance(value, (dict, list)):
        return go_json(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return _go_float(value) if isinstance(value, float) else str(value)


def _go_float(value: float) -> str:
    """Format a number as Go's %v does a float: shortest, and with an exponent from 1e6 on."""
    if value.is_integer() and abs(value) < _LARGEST_INTEGER:
        return str(int(value))
    sign, digits, _ = Decimal(repr(value)).normalize().as_tuple()
    exponent = Decimal(repr(value)).adjusted()
    if _SMALLEST_PLAIN <= exponent < _LARGEST_PLAIN:
        return format(Decimal(repr(value)), "f")
    text = "".join(map(str, digits))
    mantissa = f"{text[0]}.{text[1:]}" if text[1:] else text
    return f"{'-' if sign else ''}{mantissa}e{exponent:+03d}"


def _pod_status(obj: JSONObject, _: datetime) -> JSONValue:
    status: JSONObject = obj.get("status") or {}
    reason = status.get("reason") or status.get("phase") or _UNKNOWN
    for container in status.get("containerStatuses") or ():
        state: JSONObject = container.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason") or terminated.get("reason"):
            reason = waiting.get("reason") or terminated.get("reason")
        elif terminated:
            reason = f"ExitCode:{terminated.get('exitCode', 0)}"
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else reason


def _pod_ready(obj: JSONObject, _: datetime) -> JSONValue:
    ready = find_all(obj, ".status.containerStatuses[*].ready")
    return f"{sum(one is True for one in ready)}/{len(find_all(obj, '.spec.containers[*]'))}"


def _pod_restarts(obj: JSONObject, _: datetime) -> JSONValue:
    return str(sum(int(one) for one in find_all(obj, ".status.containerStatuses[*].restartCount")))


def _ports(obj: JSONObject, _: datetime) -> JSONValue:
    texts = []
    for port in find_all(obj, ".spec.ports[*]"):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        texts.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(texts) or _NONE


def _external(obj: JSONObject, _: datetime) -> JSONValue:
    given, external = ".status.loadBalancer.ingress[*].ip", ".spec.externalIPs[*]"
    found = find_all(obj, given) + find_all(obj, external)
    is_balanced = (obj.get("spec") or {}).get("type") == "LoadBalancer"
    return ",".join(map(str, found)) or ("<pending>" if is_balanced else _NONE)


def _node_status(obj: JSONObject, _: datetime) -> JSONValue:
    ready = find_all(obj, '.status.conditions[?(@.type=="Ready")].status')
    texts = [("Ready" if ready[0] == "True" else "NotReady") if ready else "Unknown"]
    if (obj.get("spec") or {}).get("unschedulable"):
        texts.append("SchedulingDisabled")
    return ",".join(texts)


def _node_roles(obj: JSONObject, _: datetime) -> JSONValue:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return ",".join(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix))) or _NONE


def _versions(obj: JSONObject, _: datetime) -> JSONValue:
    versions = find_all(obj, ".spec.versions[*]")
    return ",".join(
        f"{one['name']}(storage)" if one.get("storage") else one["name"] for one in versions
    )


def _involved(obj: JSONObject, _: datetime) -> JSONValue:
    about: JSONObject = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _wide(name: str, cell: Cell) -> Column:
    return Column(name, cell, priority=1)


def _number(name: str, path: str) -> Column:
    return Column(name, _at(path, 0), "integer")


_NAME: Final = Column("Name", _at(".metadata.name"), format="name")
_CREATED: Final = ".metadata.creationTimestamp"
_AGE: Final = Column("Age", _age(_CREATED))
_AGE_OF_CUSTOM: Final = Column("Age", _age(_CREATED), "date")
_POD: Final = ".spec.template.spec.containers[*]"
_CONTAINERS: Final = (
    _wide("Containers", _joined(f"{_POD}.name")),
    _wide("Images", _joined(f"{_POD}.image")),
)
_SELECTOR: Final = _wide("Selector", _labels(".spec.selector.matchLabels"))
_EVENT: Final = (
    Column("Last Seen", _age(".lastTimestamp", ".series.lastObservedTime", ".eventTime", _CREATED)),
    Column("Type", _at(".type")),
    Column("Reason", _at(".reason")),
    Column("Object", _involved),
    Column("Message", lambda obj, _: str(obj.get("message") or obj.get("note") or "").strip()),
)
_COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "pods": (
        _NAME,
        Column("Ready", _pod_ready),
        Column("Status", _pod_status),
        Column("Restarts", _pod_restarts),
        _AGE,
        _wide("IP", _at(".status.podIP", _NONE)),
        _wide("Node", _at(".spec.nodeName", _NONE)),
        _wide("Nominated Node", _at(".status.nominatedNodeName", _NONE)),
        _wide(
            "Readiness Gates",
            lambda obj, _: str(len(find_all(obj, ".spec.readinessGates[*]")) or _NONE),
        ),
    ),
    "deployments.apps": (
        _NAME,
        Column("Ready", _of(".status.readyReplicas", ".spec.replicas")),
        _number("Up-to-date", ".status.updatedReplicas"),
        _number("Available", ".status.availableReplicas"),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "replicasets.apps": (
        _NAME,
        _number("Desired", ".spec.replicas"),
        _number("Current", ".status.replicas"),
        _number("Ready", ".status.readyReplicas"),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "statefulsets.apps": (
        _NAME,
        Column("Ready", _of(".status.readyReplicas", ".spec.replicas")),
        _AGE,
        *_CONTAINERS,
    ),
    "daemonsets.apps": (
        _NAME,
        _number("Desired", ".status.desiredNumberScheduled"),
        _number("Current", ".status.currentNumberScheduled"),
        _number("Ready", ".status.numberReady"),
        _number("Up-to-date", ".status.updatedNumberScheduled"),
        _number("Available", ".status.numberAvailable"),
        Column("Node Selector", _labels(".spec.template.spec.nodeSelector")),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "services": (
        _NAME,
        Column("Type", _at(".spec.type", "ClusterIP")),
        Column("Cluster-IP", _at(".spec.clusterIP", _NONE)),
        Column("External-IP", _external),
        Column("Port(s)", _ports),
        _AGE,
        _wide("Selector", _labels(".spec.selector")),
    ),
    "configmaps": (_NAME, Column("Data", _count(".data", ".binaryData")), _AGE),
    "secrets": (_NAME, Column("Type", _at(".type")), Column("Data", _count(".data")), _AGE),
    "namespaces": (_NAME, Column("Status", _at(".status.phase")), _AGE),
    "nodes": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _at(".status.nodeInfo.kubeletVersion")),
    ),
    "leases.coordination.k8s.io": (_NAME, Column("Holder", _at(".spec.holderIdentity")), _AGE),
    "events": _EVENT,
    "events.events.k8s.io": _EVENT,
    "customresourcedefinitions.apiextensions.k8s.io": (
        _NAME,
        Column("Scope", _at(".spec.scope")),
        Column("Versions", _versions),
        Column("Created At", _at(_CREATED), "date"),
    ),
}
