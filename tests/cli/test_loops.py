"""Which event loop a command runs on."""

from __future__ import annotations

import asyncio
import io

import pytest

from pyinformer.cli._shutdown import Shutdown, run


@pytest.mark.parametrize(("switch", "package"), [("", "uvloop"), ("off", "asyncio")])
def test_a_command_runs_on_uvloop_unless_the_environment_switches_it_off(
    monkeypatch: pytest.MonkeyPatch, switch: str, package: str
) -> None:
    monkeypatch.setenv("PYINFORMER_UVLOOP", switch)

    async def command(shutdown: Shutdown) -> int:
        """Check the loop."""
        del shutdown
        return int(type(asyncio.get_running_loop()).__module__.partition(".")[0] != package)

    assert run(command, io.StringIO()) == 0
