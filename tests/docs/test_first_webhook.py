"""The tutorial on webhooks: each of its commands prints what the page shows."""

from __future__ import annotations

import shutil
import socket
from typing import TYPE_CHECKING

import pytest

from tests.cli.command_line import complaints
from tests.docs.terminals import Terminals

if TYPE_CHECKING:
    from pathlib import Path

_PAGE = "docs/tutorials/first-webhook.md"  # its "console" blocks, and the "python" ones as files


@pytest.mark.slow
def test_the_tests_of_the_project_pass_as_the_page_shows(tmp_path: Path) -> None:
    with Terminals(_PAGE, tmp_path) as terminals:
        found = terminals.run_page(set(), before="server")

    assert [said for _, said in found] == [printed for printed, _ in found]
    assert len(found) == 5


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.usefixtures("kube_apiserver")  # it is built before, or this is skipped
def test_the_server_refuses_what_the_page_refuses(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    where = {"WEBHOOK_URL": f"https://127.0.0.1:{port}", "HEALTH_PORT": "0"}
    with Terminals(_PAGE, tmp_path, **where) as terminals:
        found = terminals.run_page({"server", "operator"})

    for printed, said in found:
        assert complaints("\n".join(said)) == printed
    assert sum(len(printed) for printed, _ in found) == 25
