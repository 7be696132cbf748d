"""The page on the command line: its commands print what it says, its tables are complete."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.command_line import COMMAND, PATIENCE_SECONDS, complaints, environment, here, program
from tests.docs import pages

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer

_PAGE = "docs/howto/command-line.md"
_AGE = re.compile(r" +\d+m?\d*s$")
_CLOCK = re.compile(r"^\d\d:\d\d:\d\d")


def _pod(name: str, app: str, phase: str, node: str) -> JSONObject:
    ready = phase == "Running"
    spec: JSONObject = {"containers": [{"name": "main", "image": "x"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
        "spec": {**spec, "nodeName": node} if node else spec,
        "status": {
            "phase": phase,
            "containerStatuses": [{"name": "main", "ready": True}] if ready else [],
        },
    }


@pytest.fixture
def kubeconfig(apiserver: APIServer, tmp_path: Path) -> Path:
    """Return the kubeconfig of a server with what the page speaks of."""
    apiserver.ensure_namespace("shop")
    apiserver.create(_pod("web-1", "web", "Running", "node-1"))
    apiserver.create(_pod("worker-1", "worker", "Pending", "node-2"))
    metadata = {"name": "db", "namespace": "shop"}
    data = {"password": "c2VjcmV0"}
    apiserver.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
    return apiserver.write_kubeconfig(tmp_path / "kubeconfig")


def _examples() -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    for block in pages.blocks(_PAGE, "console"):
        for line in block.text.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def _comparable(lines: list[str]) -> list[str]:
    return [_CLOCK.sub("hh:mm:ss", _AGE.sub(" AGE", line)) for line in lines]


def test_each_command_prints_what_the_page_shows(kubeconfig: Path) -> None:
    examples = _examples()
    found = [_lines_of(command, kubeconfig) for command, _ in examples]

    assert len(examples) > 5
    for (command, printed), lines in zip(examples, found, strict=True):
        shown = sorted(_comparable(lines))  # stderr is in no order
        assert (command, shown) == (command, sorted(_comparable(printed)))


def _lines_of(command: str, kubeconfig: Path) -> list[str]:
    """Run a command of the page, and return what it writes to both outputs."""
    for seconds in (3, 30):  # the first is enough, unless the machine is busy
        watch = f"pyinformer watch --timeout-seconds {seconds}"
        lines = _output_of(re.sub(r"^pyinformer watch", watch, command), kubeconfig)
        if not any("not synced after" in line for line in lines):
            break
    return lines


def _output_of(command: str, kubeconfig: Path) -> list[str]:
    if "|" not in command:
        arguments = shlex.split(command)[1:]
        return complaints(here(*arguments, KUBECONFIG=str(kubeconfig)).output)
    function = f'pyinformer() {{ {COMMAND[0]} -m pyinformer "$@"; }}; {command}'
    done = subprocess.run(
        ["bash", "-c", function],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS * 2,
        env=environment(KUBECONFIG=str(kubeconfig)),
    )

    return complaints(done.stdout)


def test_changes_look_as_the_page_shows(apiserver: APIServer, kubeconfig: Path) -> None:
    (shown,) = pages.blocks(_PAGE, "text")
    expected = _comparable(shown.text.splitlines())
    env = environment(KUBECONFIG=str(kubeconfig))
    with program("watch", "pods", "-n", "shop", "-l", "app=web", env=env) as watching:
        watching.line_with("web-1")
        apiserver.create(_pod("web-2", "web", "Pending", ""))
        lines = [watching.line()]
        status = {"phase": "Running", "podIP": "10.0.0.7"}
        apiserver.patch("v1", "pods", "web-2", {"status": status}, "shop")
        lines += [watching.line() for _ in range(len(expected) - 2)]
        apiserver.delete("v1", "pods", "web-2", "shop")
        lines.append(watching.line())

    assert sorted(_comparable(lines)) == sorted(expected)


def test_the_table_of_exit_statuses_is_that_of_the_program() -> None:
    text = pages.read(_PAGE)
    listed = {int(one) for one in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)}
    _, _, said = here("--help", COLUMNS="300").stdout.partition("Exit status: ")

    assert listed == {int(one) for one in re.findall(r"(?:^|, )(\d+) ", said)}
    assert {0, 1, 2, 3, 130, 141, 143} <= listed
