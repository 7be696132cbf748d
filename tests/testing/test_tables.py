"""Rows of tables: durations, JSON paths, and the columns of a few resources."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pyinformer.testing.apiserver.reads import negotiate
from pyinformer.testing.apiserver.resources import BUILT_IN, ResourceType
from pyinformer.testing.apiserver.storage import Record

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (9 * 3600 + 60, "9h"),
        (49 * 3600, "2d1h"),
        (9 * 86_400, "9d"),
        (3 * 365 * 86_400, "3y"),
        (3 * 365 * 86_400 + 86_400, "3y1d"),
        (9 * 365 * 86_400, "9y"),
    ],
)
def test_durations_read_as_kubectl_writes_them(seconds: int, text: str) -> None:
    began_at = (_NOW - timedelta(seconds=seconds)).isoformat()
    pod: JSONObject = {"metadata": {"name": "a", "creationTimestamp": began_at}}
    assert _cells(_built_in("pods"), pod)["Age"] == text


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (".a.b", "1"),
        (".a.absent", None),
        (".list[0].n", "x"),
        (".list[9].n", None),
        (".list[*].n", "x"),
        ('.list[?(@.n=="y")].v', "2"),
        (".labels['a\\.b/c']", "d"),
        (".labels.a\\.b/c", "d"),
    ],
)
def test_json_paths_of_printer_columns_are_followed(path: str, shown: str | None) -> None:
    obj = {
        "metadata": {"name": "w"},
        "a": {"b": 1},
        "list": [{"n": "x"}, {"n": "y", "v": 2}],
        "labels": {"a.b/c": "d"},
    }
    column: JSONObject = {"name": "Found", "type": "string", "jsonPath": path}
    assert _cells(_widgets(column), obj)["Found"] == shown


def _widgets(*columns: JSONObject) -> ResourceType:
    return ResourceType(
        "example.com", "v1", "Widget", "widgets", list_shape="custom", printer_columns=columns
    )


def _cells(resource: ResourceType, obj: JSONObject) -> dict[str, Any]:
    """Return the row that a client gets which asks for a table, by column."""
    named = {**obj, "metadata": {"resourceVersion": "1", **obj["metadata"]}}
    name = named["metadata"]["name"]
    raw = msgspec.json.encode(named)
    representation = negotiate(
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        resource,
        is_list=False,
        include="None",
        now=_NOW.isoformat,
    )
    assert representation is not None
    table = msgspec.json.decode(
        representation.one(Record(resource, name, "", name, "u", 1, {}, {}, raw))
    )
    names = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


def _built_in(plural: str) -> ResourceType:
    return next(one for one in BUILT_IN if one.plural == plural)


def test_a_pod_row_shows_terminating() -> None:
    metadata = {"name": "a", "deletionTimestamp": "x", "creationTimestamp": "2026-01-02T03:04:00Z"}
    running = {"ready": True, "restartCount": 2, "state": {"running": {}}}
    waiting = {"ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    pod: JSONObject = {
        "metadata": metadata,
        "spec": {"containers": [{}, {}]},
        "status": {"phase": "Running", "containerStatuses": [running, waiting]},
    }
    cells = _cells(_built_in("pods"), pod)
    assert cells["Ready"] == "1/2"
    assert cells["Restarts"] == "2"
    assert cells["Age"] == "5s"
    assert cells["Status"] == "Terminating"
    del metadata["deletionTimestamp"]
    assert _cells(_built_in("pods"), pod)["Status"] == "CrashLoopBackOff"


def test_ports_name_the_ports_of_nodes() -> None:
    ports = [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]
    service: JSONObject = {"metadata": {"name": "a"}, "spec": {"ports": ports}}
    cells = _cells(_built_in("services"), service)
    assert cells["Port(s)"] == "80:30080/TCP,53/UDP"
    assert cells["Age"] == "<unknown>"


def test_a_custom_resource_has_the_columns_of_its_definition() -> None:
    widgets = _widgets(
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
        {"name": "Absent", "type": "string", "jsonPath": ".spec.absent"},
    )
    widget: JSONObject = {
        "metadata": {"name": "w"},
        "spec": {"size": 3, "since": "2026-01-02T03:02:00Z"},
    }
    assert _cells(widgets, widget) == {"Name": "w", "Size": 3, "Since": "2m5s", "Absent": None}


def test_a_resource_without_columns_of_its_own_shows_name_and_age() -> None:
    policy: JSONObject = {"metadata": {"name": "a"}}
    assert list(_cells(_built_in("networkpolicies"), policy)) == ["Name", "Age"]


def test_a_node_row_shows_roles_and_unschedulable() -> None:
    labels = {"node-role.kubernetes.io/b": "", "node-role.kubernetes.io/a": "", "x": "y"}
    ready = {"type": "Ready", "status": "False"}
    node: JSONObject = {
        "metadata": {"name": "n", "labels": labels},
        "spec": {"unschedulable": True},
        "status": {"conditions": [ready]},
    }
    cells = _cells(_built_in("nodes"), node)
    assert cells["Roles"] == "a,b"
    assert cells["Status"] == "NotReady,SchedulingDisabled"
    assert _cells(_built_in("nodes"), {"metadata": {"name": "n"}})["Status"] == "Unknown"


def test_a_deployment_names_images_and_selector() -> None:
    containers = [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j:1"}]
    deployment: JSONObject = {
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"b": "2", "a": "1"}},
            "template": {"spec": {"containers": containers}},
        },
        "status": {"readyReplicas": 1},
    }
    cells = _cells(_built_in("deployments"), deployment)
    assert (cells["Ready"], cells["Images"], cells["Selector"]) == ("1/3", "i:1,j:1", "a=1,b=2")
    bare = _cells(_built_in("daemonsets"), {"metadata": {"name": "a"}, "spec": {}})
    assert (bare["Node Selector"], bare["Containers"]) == ("<none>", "<none>")


def test_a_definition_names_its_versions_and_an_event_its_object() -> None:
    versions = [{"name": "v1", "storage": True}, {"name": "v1beta1"}]
    definition: JSONObject = {"metadata": {"name": "a"}, "spec": {"versions": versions}}
    cells = _cells(_built_in("customresourcedefinitions"), definition)
    assert cells["Versions"] == "v1(storage),v1beta1"
    about = {"kind": "Pod", "name": "p"}
    event: JSONObject = {"metadata": {"name": "e"}, "involvedObject": about, "message": " m "}
    cells = _cells(_built_in("events"), event)
    assert (cells["Object"], cells["Message"]) == ("pod/p", "m")


def test_a_container_that_ended_without_a_reason_shows_its_exit_code() -> None:
    state = {"state": {"terminated": {"exitCode": 3}}}
    status = {"phase": "Running", "containerStatuses": [state]}
    cells = _cells(_built_in("pods"), {"metadata": {"name": "a"}, "status": status})
    assert cells["Status"] == "ExitCode:3"


def test_a_text_column_shows_other_json_values() -> None:
    column: JSONObject = {"name": "Size", "type": "string", "jsonPath": ".spec.size"}
    assert _cells(_widgets(column), {"metadata": {"name": "w"}, "spec": {"size": 3}})["Size"] == "3"
