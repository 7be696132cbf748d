"""Which event loop a command runs on."""

from __future__ import annotations

import pytest
import uvloop

from pyinformer.testing import APIServer
from tests.cli.command_line import here


@pytest.mark.parametrize(("switch", "is_uvloop"), [("", True), ("off", False)])
def test_a_command_runs_on_uvloop_unless_the_environment_switches_it_off(
    monkeypatch: pytest.MonkeyPatch, switch: str, *, is_uvloop: bool
) -> None:
    new_event_loop, made = uvloop.new_event_loop, list[object]()

    def counted() -> uvloop.Loop:
        made.append(loop := new_event_loop())
        return loop

    monkeypatch.setattr(uvloop, "new_event_loop", counted)
    with APIServer() as server:
        arguments = ("get", "v1/configmaps", "--server", server.url)
        assert here(*arguments, PYINFORMER_UVLOOP=switch).exit_code == 0

    assert len(made) == is_uvloop
