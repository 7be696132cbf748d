"""`pyinformer demo` as its users meet it: by its lines, its exit status and its end."""

from __future__ import annotations

import asyncio
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from pyinformer.cache.informer import core_of
from pyinformer.cli.demo import demo
from pyinformer.cli.demo._demo_command import DemoRun
from pyinformer.cli.demo._output_modes import PlainScreen
from pyinformer.cli.demo._simulated_cluster import DemoWorld
from pyinformer.objects import Added, KubeObject
from pyinformer.testing import APIServer
from tests.cli.cluster_objects import hold, pod
from tests.cli.command_line import complaints
from tests.programs import running

_COMMAND = (sys.executable, "-m", "pyinformer")
_SOON_SECONDS = 60.0  # what hangs never ends, and a busy machine is slow


def _plain() -> dict[str, str]:
    return {**os.environ, "TERM": "xterm-256color", "PYTHONUNBUFFERED": "1"}


def test_on_a_pipe_it_prints_plain_lines_and_succeeds() -> None:
    done = subprocess.run(
        [*_COMMAND, "demo", "--seconds", "3"],
        capture_output=True,
        text=True,
        env=_plain(),
        check=False,
    )

    assert (done.returncode, complaints(done.stderr)) == (0, [])
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    lines = done.stdout.splitlines()
    assert 1 <= len([line for line in lines if " pods (" in line]) <= 4  # one a second, if not busy
    assert any("replicas on image v7" in line for line in lines)
    assert lines[-2:] == [
        "equal to what the server lists, by key, uid, resource version and body:",
        "  every cache, and a mirror of each built from handler calls alone",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_soon_with_the_summary_so_far(number: signal.Signals) -> None:
    command = [*_COMMAND, "demo", "--seconds", "60"]
    with running(command, env=_plain(), errors=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("  0.0 s")
        process.send_signal(number)
        output, errors = process.communicate(timeout=_SOON_SECONDS)

    assert (process.returncode, errors) == (128 + number, "")
    assert "events delivered to handlers" in output
    assert output.endswith("interrupted: nothing was compared\n")


def test_the_demo_restores_the_signal_handlers_of_its_caller() -> None:
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: lambda *_: None for number in numbers}
    before = {number: signal.signal(number, handlers[number]) for number in numbers}
    output = io.StringIO()
    try:
        assert demo(seconds=1.0, seed=3, output=output) == 0
        after = {number: signal.getsignal(number) for number in numbers}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "equal to what the server lists" in output.getvalue()
    assert after == handlers


class _Saboteur:
    """A world that lives, and does something else once."""

    def __init__(self, server: APIServer, sabotage: Callable[[], object]) -> None:
        self._world = DemoWorld(server)
        self._world.populate()
        self._sabotage: Callable[[], object] | None = sabotage

    def step(self) -> None:
        """Live, and strike as soon as it is possible."""
        self._world.step()
        if self._sabotage is not None and self._sabotage():
            self._sabotage = None


def _run(sabotage: Callable[[DemoRun], object]) -> tuple[int, str]:
    output = io.StringIO()
    show = DemoRun(1.0, output, PlainScreen(output))
    with APIServer() as server:
        status = asyncio.run(show.run(server, _Saboteur(server, lambda: sabotage(show))))
    return status, output.getvalue()


def _ghost() -> KubeObject:
    return hold(pod("ghost"))


def _haunt_the_mirror(show: DemoRun) -> bool:
    show.watched[0].mirror.objects["default/ghost"] = _ghost()
    return True


def _haunt_the_cache(show: DemoRun) -> bool:
    informer = show.watched[0].informer
    if not informer.has_synced:
        return False  # its first list would drive the ghost out again
    core_of(informer).caches.all[0].indexer.apply_nowait(Added(_ghost()))
    return True


def _contradict(show: DemoRun) -> bool:
    show.watched[0].mirror.on_delete(_ghost())
    return True


@pytest.mark.parametrize(
    ("sabotage", "named"),
    [
        pytest.param(
            _haunt_the_mirror,
            "the mirror of pods has default/ghost, which the server does not have",
            id="mirror",
        ),
        pytest.param(
            _haunt_the_cache,
            "the cache of pods has default/ghost, which the server does not have",
            id="cache",
        ),
        pytest.param(
            _contradict,
            "the handler of pods was called wrongly: default/ghost was deleted but did not exist",
            id="handler-calls",
        ),
    ],
)
def test_a_difference_from_the_server_fails_the_demo_and_is_named(
    sabotage: Callable[[DemoRun], object], named: str
) -> None:
    status, output = _run(sabotage)

    assert status == 1
    assert "NOT EQUAL to what the server lists, 1 difference:" in output
    assert f"  {named}\n" in output


def test_a_handler_that_raises_fails_the_demo() -> None:
    output = io.StringIO()
    show = DemoRun(1.0, output, PlainScreen(output))

    def break_the_diary(_show: DemoRun) -> bool:
        show.event_log.record = None  # type: ignore[method-assign,assignment]  # any failure
        return True

    with APIServer() as server:
        status = asyncio.run(show.run(server, _Saboteur(server, lambda: break_the_diary(show))))

    assert status == 1
    assert re.search(r"messages about pods raised \d+ times, last TypeError", output.getvalue())


def test_a_cluster_without_changes_fails_the_demo() -> None:
    def stand_still(_show: DemoRun) -> bool:
        raise RuntimeError("no power")

    status, output = _run(stand_still)

    assert status == 1
    assert "the simulation failed: RuntimeError('no power')" in output


def test_a_port_that_cannot_be_bound_is_reported_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_server: APIServer) -> None:
        raise OSError("address already in use")

    monkeypatch.setattr(APIServer, "start", refuse)
    output = io.StringIO()

    assert demo(seconds=1.0, seed=0, output=output) == 1
    assert output.getvalue() == "the demo failed: address already in use\n"
