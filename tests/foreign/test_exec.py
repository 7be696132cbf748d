"""kubectl runs commands in the pods of the embedded server, over WebSockets of protocol v5."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pyinformer.client import ExecResult
from tests.foreign import clients
from tests.foreign.kubectl import Kubectl
from tests.integration.objects import pod_on

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.testing import ExecCall
    from tests.integration.servers import EmbeddedServer

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(120)]


def test_kubectl_understands_the_commands_of_the_embedded_server(
    embedded: EmbeddedServer, tmp_path: Path
) -> None:
    program = clients.kubectl("path")
    if isinstance(program, str):
        pytest.skip(program)
    kubeconfig = embedded.api.write_kubeconfig(tmp_path / "kubeconfig")
    kubectl = Kubectl(program, kubeconfig, tmp_path, embedded.namespace())
    embedded.api.create(pod_on("n", "web", kubectl.namespace))

    def run(call: ExecCall) -> ExecResult:
        """Echo the input, or fail with the code that is asked for."""
        code = int(call.command[1]) if call.command[0] == "exit" else 0
        return ExecResult(code, call.stdin or b"none", b"on standard error")

    embedded.api.on_exec(run)
    assert kubectl("exec", "web", "--", "cat") == "none"
    assert json.loads(kubectl("exec", "-i", "web", "--", "cat", body={"a": "ü"})) == {"a": "ü"}
    said = kubectl.fails("exec", "web", "--", "exit", "3")
    assert said == "on standard errorcommand terminated with exit code 3\n"
    assert 'pods "none" not found' in kubectl.fails("exec", "none", "--", "cat")
