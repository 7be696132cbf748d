"""What the command does with outputs that take nothing: closed ones, full disks, no terminal."""

from __future__ import annotations

import os
import pty
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.cli.command_line import COMMAND, PATIENCE_SECONDS, environment

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_FULL = "pyinformer: the output cannot be written: No space left on device\n"


def _shell(arguments: str, server: APIServer) -> subprocess.CompletedProcess[str]:
    """Run the program from a shell, with redirected streams."""
    command = f"{COMMAND[0]} -m pyinformer {arguments.replace('AT', f'--server {server.url}')}"
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=PATIENCE_SECONDS,
    )


@pytest.fixture
def server(apiserver: APIServer) -> APIServer:
    """Return a server with a ConfigMap."""
    metadata = {"name": "one", "namespace": "default"}
    apiserver.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    return apiserver


@pytest.mark.parametrize("arguments", ["watch v1/configmaps AT", "serve"])
def test_a_closed_output_is_one_whose_reader_has_gone(server: APIServer, arguments: str) -> None:
    done = _shell(f"{arguments} >&-", server)

    assert (done.returncode, done.stderr) == (141, "")


def test_closed_inputs_and_errors_keep_nothing_from_being_shown(server: APIServer) -> None:
    done = _shell("get v1/configmaps -o name AT <&- 2>&-", server)

    assert (done.returncode, done.stdout) == (0, "configmap/one\n")


@pytest.mark.parametrize(
    "choice", ["-l a=b", "--field-selector metadata.name=x", "--index metadata.name=x"]
)
def test_what_does_not_match_is_not_said_not_to_exist(server: APIServer, choice: str) -> None:
    done = _shell(f"get v1/configmaps {choice} AT", server)

    assert (done.returncode, done.stderr) == (
        0,
        "there are no configmaps.v1 in default that match\n",
    )


@pytest.mark.parametrize("arguments", ["get v1/configmaps AT", "watch v1/configmaps AT", "--help"])
def test_a_full_disk_is_reported_in_words(server: APIServer, arguments: str) -> None:
    done = _shell(f"{arguments} >/dev/full", server)

    assert (done.returncode, done.stderr) == (1, _FULL)


def test_errors_that_cannot_be_printed_change_no_exit_status(server: APIServer) -> None:
    done = _shell("get v1/configmaps one missing -o name AT 2>/dev/full", server)

    assert (done.returncode, done.stdout) == (1, "configmap/one\n")


def test_help_has_no_colours_either_when_they_are_off() -> None:
    ours, its = pty.openpty()
    command = [*COMMAND, "--help"]
    env = environment(NO_COLOR="1", FORCE_COLOR="1")
    subprocess.run(command, stdout=its, env=env, check=True)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    os.close(its)

    assert "watch" in shown
    assert "\x1b" not in shown


def test_the_command_prints_nothing_while_the_interpreter_exits() -> None:
    code = (
        "import atexit, os, signal, sys\n"
        "from pyinformer_command import main\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
        "sys.argv = ['pyinformer', '--version']\n"
        "sys.exit(main())"
    )
    done = subprocess.run(
        [COMMAND[0], "-c", code], capture_output=True, text=True, check=False, env=environment()
    )

    assert (done.returncode, done.stderr) == (130, "")
