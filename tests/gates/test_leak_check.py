"""The leak check of tests/conftest.py, held against tests that leak and tests that do not.

Each leaking test runs in a pytest of its own, beside a copy of that conftest.py: what comes out is
the verdict a developer would see.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_PREAMBLE = "import asyncio, socket, threading\nimport pytest\nkept = []\n"


def run_pytest(folder: Path, body: str) -> str:
    """Run one test module under the project's settings and return what pytest prints."""
    shutil.copy(_ROOT / "tests" / "conftest.py", folder)
    (folder / "test_it.py").write_text(_PREAMBLE + body, encoding="utf-8")
    options = [
        "-c",
        str(_ROOT / "pyproject.toml"),
        "--rootdir",
        str(folder),
        "-p",
        "no:cacheprovider",
    ]
    command = [sys.executable, "-m", "pytest", *options, str(folder)]
    environ = {**os.environ, "COLUMNS": "500"}  # or the last lines are cut
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ).stdout


_LEAKS = """
async def test_task():
    kept.append(asyncio.create_task(asyncio.Event().wait()))

def test_socket():
    kept.append(socket.socket())

async def test_resource_warning():
    socket.socket()

def test_thread():
    release = threading.Event()
    threading.Thread(target=lambda: release.wait(4)).start()

def test_nothing():
    pass
"""


@pytest.mark.covers(
    "controller-runtime pkg/controller: New / should not leak goroutines when stopped"
)
def test_a_leak_fails_the_test_that_leaks(tmp_path: Path) -> None:
    output = run_pytest(tmp_path, _LEAKS)

    verdicts = dict(re.findall(r"^(?:ERROR|FAILED) \S+::(\w+) - (.+)$", output, re.MULTILINE))
    assert "tasks left" in verdicts.pop("test_task")
    assert "sockets left" in verdicts.pop("test_socket")
    assert "<socket.socket" in verdicts.pop("test_resource_warning")
    assert "threads left" in verdicts.pop("test_thread")
    assert verdicts == {}
    assert "unclosed <socket" in output


def test_a_socket_of_a_shared_fixture_is_not_a_leak(tmp_path: Path) -> None:
    output = run_pytest(
        tmp_path,
        "@pytest.fixture(scope='module')\n"
        "def server():\n"
        "    with socket.create_server(('127.0.0.1', 0)) as listener:\n"
        "        yield listener\n"
        "def test_first(request):\n"
        "    request.getfixturevalue('server')\n"
        "async def test_second(server):\n"
        "    await asyncio.to_thread(server.fileno)\n",
    )

    assert "2 passed" in output


def test_the_logging_that_a_test_configures_ends_with_it(tmp_path: Path) -> None:
    """Programs configure it for their process: the command line, and kopf."""
    body = """
import logging

def test_a():
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger().addHandler(logging.NullHandler())
    logging.getLogger("asyncio").propagate = False

def test_b():
    assert logging.getLogger().level == logging.WARNING
    assert not [one for one in logging.getLogger().handlers if type(one) is logging.NullHandler]
    assert logging.getLogger("asyncio").propagate
"""
    assert "2 passed" in run_pytest(tmp_path, body)
