"""Rows of tables: what is known of a kind, and what all have."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pyinformer.cli.output import Layout, TextRendering, table_of
from pyinformer.objects import Added, JSONObject
from tests.cli.cluster_objects import hold

_NOW = datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp()


def _object(api_version: str, kind: str, name: str = "x", **parts: Any) -> JSONObject:
    metadata = {"name": name, "namespace": "default", "creationTimestamp": "2026-11-21T11:00:00Z"}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {**metadata, **parts.pop("metadata", {})},
        **parts,
    }


def _rows(*objects: JSONObject, **layout: Any) -> list[str]:
    held = [hold(obj) for obj in objects]
    return "".join(table_of(held, Layout(now=_NOW, **layout))).splitlines()


_POD = _object(
    "v1",
    "Pod",
    "web-1",
    metadata={"labels": {"app": "web"}},
    spec={"nodeName": "node-1", "containers": [{"name": "a"}, {"name": "b"}]},
    status={
        "phase": "Running",
        "podIP": "10.0.0.1",
        "containerStatuses": [
            {"ready": True, "restartCount": 2, "state": {"running": {}}},
            {"ready": False, "restartCount": 1, "state": {"waiting": {"reason": "BackOff"}}},
        ],
    },
)


@pytest.mark.parametrize(
    ("obj", "cells"),
    [
        pytest.param(_POD, "web-1 1/2 BackOff 3 node-1 60m", id="pod"),
        pytest.param(
            _object("v1", "Pod", status={"phase": "Pending"}),
            "x 0/0 Pending 0 <none> 60m",
            id="new",
        ),
        pytest.param(
            _object("v1", "Pod", metadata={"deletionTimestamp": "2026-11-21T11:00:00Z"}),
            "x 0/0 Terminating 0 <none> 60m",
            id="leaving",
        ),
        pytest.param(
            _object("apps/v1", "Deployment", spec={"replicas": 3}, status={"readyReplicas": 2}),
            "x 2/3 0 0 60m",
            id="deployment",
        ),
        pytest.param(
            _object(
                "v1",
                "Node",
                spec={"unschedulable": True},
                status={"conditions": [{"type": "Ready", "status": "True"}]},
            ),
            "x Ready,SchedulingDisabled <none> 60m",
            id="node",
        ),
        pytest.param(
            _object("v1", "Secret", type="Opaque", data={"a": "c2VjcmV0", "b": ""}),
            "x Opaque 2 60m",
            id="secret",
        ),
        pytest.param(_object("v1", "ConfigMap", data={"a": "b"}), "x 1 60m", id="configmap"),
        pytest.param(_object("batch/v1", "Job", status={"succeeded": 1}), "x 1/1 60m", id="job"),
        pytest.param(
            _object(
                "v1",
                "Service",
                spec={"type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{"port": 80}]},
            ),
            "x ClusterIP 10.0.0.9 80/TCP 60m",
            id="service",
        ),
        pytest.param(
            _object("apps/v1", "DaemonSet", status={"desiredNumberScheduled": 2}),
            "x 0/2 0 60m",
            id="daemonset",
        ),
        pytest.param(
            _object(
                "v1",
                "Event",
                type="Warning",
                reason="Failed",
                message="no\x1b[2J",
                involvedObject={"kind": "Pod", "name": "p"},
            ),
            "x Warning Failed pod/p no\\x1b[2J 60m",
            id="event",
        ),
        pytest.param(
            _object("v1", "Namespace", status={"phase": "Active"}), "x Active 60m", id="namespace"
        ),
        pytest.param(
            _object("apps/v1", "ReplicaSet", spec={"replicas": 0}), "x 0/0 60m", id="replicaset"
        ),
        pytest.param(_object("acme.io/v1", "Pod"), "x 60m", id="another-group"),
        pytest.param(_object("v1", "Pod", status=["odd"]), "x ? ? ? ? 60m", id="unreadable"),
    ],
)
def test_a_row_has_the_columns_of_its_kind(obj: JSONObject, cells: str) -> None:
    assert " ".join(_rows(obj)[1].split()) == cells


def test_columns_are_aligned_with_wide_characters() -> None:
    first, second = _object("v1", "Thing", "東京"), _object("v1", "Thing", "a-long-name")

    lines = _rows(first, second, with_namespace=True)

    assert lines == [
        "NAMESPACE   NAME          AGE",
        "default     東京          60m",
        "default     a-long-name   60m",
    ]


def test_wide_tables_have_more_columns() -> None:
    assert _rows(_POD, is_wide=True) == [
        "NAME    READY   STATUS    RESTARTS   NODE     AGE   IP         LABELS",
        "web-1   1/2     BackOff   3          node-1   60m   10.0.0.1   app=web",
    ]


def test_metadata_alone_has_no_columns_of_absent_fields() -> None:
    assert _rows(_POD, metadata_only=True) == ["NAME    AGE", "web-1   60m"]


def test_without_objects_no_table_is_printed() -> None:
    assert _rows() == []


@pytest.mark.parametrize(
    ("is_wide", "more"),
    [pytest.param(False, "", id="usual"), pytest.param(True, " ip=10.0.0.1", id="wide")],
)
def test_each_fact_has_its_name(is_wide: bool, more: str) -> None:
    rendering = TextRendering(
        layout=Layout(is_wide=is_wide),
        what="pods",
        shows_secrets=False,
        styled=lambda text, _: text,
        now=lambda: _NOW,
    )

    (line,) = rendering.event(Added(hold(_POD))).splitlines()

    assert line.endswith(f"default/web-1  ready=1/2 status=BackOff restarts=3 node=node-1{more}")


def _age(created: str | None) -> str:
    """Return the last column of an object that was created then."""
    heading, row = _rows(_object("v1", "Thing", metadata={"creationTimestamp": created}))
    return row[heading.index("AGE") :]


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        *[(5, "5s"), (119, "119s"), (120, "2m"), (190, "3m10s"), (3600, "60m"), (4 * 3600, "4h")],
        *[(3 * 86400, "3d"), (800 * 86400, "2y"), (-5, "0s")],
    ],
)
def test_ages_are_short(seconds: int, age: str) -> None:
    assert _age(datetime.fromtimestamp(_NOW - seconds, UTC).isoformat()) == age


def test_an_unknown_age_is_shown_as_unknown() -> None:
    assert _age(None) == _age("yesterday") == "<none>"
