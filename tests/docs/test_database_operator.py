"""The operator of the tutorial, as a program of its own, on the embedded and on the real server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

import pyinformer
from tests.programs import running
from tests.waiting import poll

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer, KubeAPIServer

_FOLDER = Path(__file__).parents[2] / "docs/examples"
_NAMESPACE = "database-operator"
_WAIT_SECONDS = 100.0
# As `python database_operator.py`, except for the port, which may be in use.
_PROGRAM = "import database_operator; database_operator.app.run(health_port=0)"
_CRD = "import sys; from pyinformer.cli import main; sys.exit(main())"

_BOTH = [
    pytest.param("apiserver", id="embedded"),
    pytest.param("kube_apiserver", id="real", marks=[pytest.mark.real, pytest.mark.timeout(300)]),
]


@pytest.fixture(params=_BOTH)
def api(request: pytest.FixtureRequest) -> APIServer | KubeAPIServer:
    """The server under test."""
    server: APIServer | KubeAPIServer = request.getfixturevalue(request.param)
    server.ensure_namespace(_NAMESPACE)
    return server


def _database(replicas: int) -> JSONObject:
    return {
        "apiVersion": "acme.io/v1",
        "kind": "Database",
        "metadata": {"namespace": _NAMESPACE, "name": "orders"},
        "spec": {"replicas": replicas},
    }


def _stateful_set(api: APIServer | KubeAPIServer) -> JSONObject | None:
    try:
        return api.get("apps/v1", "statefulsets", "orders", _NAMESPACE)
    except pyinformer.NotFoundError:
        return None


def test_a_database_becomes_a_stateful_set_and_shows_its_state(
    api: APIServer | KubeAPIServer, tmp_path: Path
) -> None:
    crd = [sys.executable, "-c", _CRD, "crd", "database_operator:Database"]
    printed = subprocess.run(crd, capture_output=True, check=True, cwd=_FOLDER).stdout
    api.create(yaml.safe_load(printed))
    environ = {**os.environ, "KUBECONFIG": str(api.write_kubeconfig(tmp_path / "kubeconfig"))}
    environ["PYTHONPATH"] = str(_FOLDER)

    with running([sys.executable, "-c", _PROGRAM], env=environ, errors=subprocess.PIPE) as program:
        assert poll(lambda: _is_created(api, _database(1)), timeout_seconds=_WAIT_SECONDS)
        assert poll(lambda: _stateful_set(api), timeout_seconds=_WAIT_SECONDS)
        found = _stateful_set(api)
        assert found is not None
        (reference,) = found["metadata"]["ownerReferences"]
        assert (reference["kind"], reference["name"]) == ("Database", "orders")
        assert found["spec"]["replicas"] == 1

        status = {"status": {"replicas": 1, "readyReplicas": 1}}
        api.patch("apps/v1", "statefulsets", "orders", status, _NAMESPACE)
        assert poll(lambda: _ready(api) == 1, timeout_seconds=_WAIT_SECONDS)

        changed = {"spec": {"replicas": 3}}
        api.patch("acme.io/v1", "databases", "orders", changed, _NAMESPACE)
        assert poll(lambda: _replicas(api) == 3, timeout_seconds=_WAIT_SECONDS)

        changed = {"spec": {"replicas": 7}}  # by another manager
        api.patch("apps/v1", "statefulsets", "orders", changed, _NAMESPACE)
        assert poll(lambda: _replicas(api) == 3, timeout_seconds=_WAIT_SECONDS)

        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=_WAIT_SECONDS)
    assert (program.returncode, errors) == (0, "")
    api.delete("acme.io/v1", "databases", "orders", _NAMESPACE)
    api.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", "databases.acme.io")


def _is_created(api: APIServer | KubeAPIServer, body: JSONObject) -> bool:
    try:
        api.create(body)
    except (pyinformer.NotFoundError, pyinformer.errors.InvalidArgumentError):
        return False  # a real server serves a new resource a moment later
    return True


def _ready(api: APIServer | KubeAPIServer) -> object:
    found = api.get("acme.io/v1", "databases", "orders", _NAMESPACE)
    return found.get("status", {}).get("ready")


def _replicas(api: APIServer | KubeAPIServer) -> object:
    found = _stateful_set(api)
    return found and found["spec"]["replicas"]
