"""Four foreign clients ask the same questions, and each gets the answers below.

The same questions go to a real kube-apiserver, so that the answers are Kubernetes' and not ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.testing.apiserver import requests
from tests.foreign.clients import PROGRAMS
from tests.integration.servers import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.integration.servers import Server

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(120)]

_SECONDS = 60.0
_GONE = {"code": 410, "reason": "Expired"}


def _refused(code: int, reason: str, **more: Any) -> dict[str, Any]:
    return {"code": code, "reason": reason, **more}


EXPECTED: dict[str, Any] = {
    "create": ["c0", "c1", "c2", "c3", "c4"],
    "create-again": _refused(409, "AlreadyExists"),
    "get-absent": _refused(404, "NotFound"),
    "list": ["c0", "c1", "c2", "c3", "c4"],
    "list-label": ["c0", "c2", "c4"],
    "list-field": ["c3"],
    "list-unknown-field": _refused(400, "BadRequest"),
    "pages": [[["c0", "c1"], 3], [["c2", "c3"], 1], [["c4"], 0]],
    "versions-of-pages": 1,
    "malformed-continue": _refused(400, "BadRequest"),
    "merge-patch": {"a": "1", "b": "2"},
    "json-patch": {"b": "2"},
    "json-patch-fails": _refused(422, "Invalid"),
    "strategic-patch": ["e:1", "nginx:1"],
    "status": [3, 2],
    "update": {"z": "26"},
    "update-conflict": _refused(409, "Conflict"),
    "apply": {"a": "1"},
    "apply-conflict": _refused(409, "Conflict", fields=[".data.a"]),
    "apply-force": {"a": "2"},
    "managers": ["second Apply"],
    "delete-other-uid": _refused(409, "Conflict"),
    "delete-foreground": [["foregroundDeletion"], True],
    "finalized": _refused(404, "NotFound"),
    "delete-collection": ["c1", "c3"],
    "watch": [["ADDED", "w0"], ["MODIFIED", "w0"], ["DELETED", "w0"]],
    "watch-expired": _GONE,
    "watch-list": [["c1", "c3"], "true"],
    "custom-patch": [2, 2],
    "custom-strategic-patch": _refused(415, "UnsupportedMediaType"),
    "custom-list": ["v", "w"],
}


def _answers(command: Sequence[str | Path]) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"after {found[-1:]}: {done.stderr}"
    return {line["step"]: line["value"] for line in found}


def _check(server: Server, answers: dict[str, Any]) -> None:
    expected = dict(EXPECTED)
    if not isinstance(server, EmbeddedServer):
        # What a real server still remembers is its own business; ours has just forgotten all.
        del expected["watch-expired"], answers["watch-expired"]
    assert answers == expected


@pytest.fixture
def namespace(server: Server) -> str:
    """A namespace beside custom resources, on a server that has forgotten its history."""
    server.serve_widgets()
    name = server.namespace()
    if isinstance(server, EmbeddedServer):
        server.restart()
    return name


@pytest.mark.parametrize("client", ["typed", "dynamic", "protobuf"])
def test_client_go_gets_the_answers(
    server: Server, kubeconfig: Path, namespace: str, client_go: Path, client: str
) -> None:
    _check(server, _answers([client_go, "calls", client, kubeconfig, namespace]))


def test_the_official_client_gets_the_answers(
    server: Server, kubeconfig: Path, namespace: str, official_python: Path
) -> None:
    program = PROGRAMS / "python_calls.py"
    _check(server, _answers([official_python, program, "kubernetes", kubeconfig, namespace]))


def test_kubernetes_asyncio_gets_the_answers(
    server: Server, kubeconfig: Path, namespace: str
) -> None:
    program = PROGRAMS / "python_calls.py"
    command: list[str | Path] = [
        sys.executable,
        program,
        "kubernetes_asyncio",
        kubeconfig,
        namespace,
    ]
    _check(server, _answers(command))


def test_the_table_of_protobuf_fields_is_that_of_client_gos_types(
    embedded: EmbeddedServer, client_go: Path, tmp_path: Path
) -> None:
    kubeconfig = embedded.api.write_kubeconfig(tmp_path / "kubeconfig")
    printed = subprocess.run(
        [client_go, "fields", "-", kubeconfig, "-"], capture_output=True, check=True, timeout=60
    ).stdout
    kept = Path(requests.__file__).with_name("protobuf_fields.json").read_bytes()
    assert kept == printed
