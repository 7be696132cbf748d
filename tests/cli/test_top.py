"""`pyinformer top`: rows of programs, frames that fit, a terminal of its own, and none."""

from __future__ import annotations

import asyncio
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import termios
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from pyinformer.cli.doctor._top import Programs, lines_of, screen
from pyinformer.cli.doctor._top_rows import ProgramState, heading, rows_of
from pyinformer.operator import HealthServer
from pyinformer.operator.diagnosis import Severity
from tests.cli.command_line import COMMAND, environment, here
from tests.hostile import HOSTILE
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping

_WELL = {"is_ok": True, "reasons": [], "notes": []}


def _cache(name: str, **changed: Any) -> dict[str, Any]:
    return {
        "informer": name,
        "state": "watching",
        "has_synced": True,
        "objects": 1200,
        "age_seconds": 3.0,
        "handlers": [{"name": "h", "depth": 2, "oldest_seconds": 0.1}],
        **changed,
    }


def _page(*informers: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return {
        "program": {"pyinformer": "1.2.3", "uptime_seconds": 7200.0},
        "live": _WELL,
        "ready": _WELL,
        "informers": [*informers],
        "controllers": [],
        "leader_election": [],
        "sharing": [],
        "watchdog": {"blocked": 0, "blocked_seconds": 0.0},
        "abandoned_handlers": [],
        "clusters": [],
        **changed,
    }


_CONTROLLER: dict[str, Any] = {
    "name": "pods",
    "is_running": True,
    "has_synced": True,
    "queue": {"depth": 7, "oldest_seconds": 400.0},
    "workers": [{"request": "default/a", "seconds": 1.0}, {"request": None, "seconds": 0.0}],
    "failing": 1,
}
_SHARE = {
    "table": "ops/app",
    "member": "app-a",
    "by": "key",
    "buckets": 128,
    "members": 3,
    "open": 40,
    "catching_up": 2,
    "draining": 0,
    "without_owner": 0,
    "without_owner_seconds": 0.0,
    "is_member": True,
    "is_overdue": False,
    "last_error": "",
}
_LEASE = {"lease": "ops/app", "identity": "app-1", "is_leading": True, "holder": "app-1"}


def _state(page: object, **changed: Any) -> ProgramState:
    return ProgramState(**{"url": "http://a", "page": page, "age_seconds": 1.0, **changed})


def test_each_part_of_a_program_has_a_row_and_trouble_comes_first() -> None:
    stale = _cache("nodes.v1", age_seconds=400.0)
    page = _page(
        _cache("pods.v1"),
        stale,
        controllers=[_CONTROLLER],
        leader_election=[_LEASE, {**_LEASE, "lease": "ops/app.0-of-2", "shares": "app"}],
        sharing=[_SHARE],
        watchdog=None,
    )
    rows = [row for row in rows_of([_state(page)]) if "page" not in row.what]

    assert [(row.severity.value, row.what, row.state) for row in rows] == [
        ("trouble", "cache nodes.v1", "watching"),
        ("trouble", "controller pods", "works"),
        ("ok", "cache pods.v1", "watching"),
        ("ok", "Lease ops/app", "leads"),
        ("ok", "Lease ops/app.0-of-2", "works"),
        ("ok", "table ops/app", "shares"),
    ]
    assert rows[5].figures == "40 of 128 buckets, 3 replicas, 2 move"
    assert rows[0].note.startswith("is stale, limit 300 s: last confirmed 400 s ago")
    assert rows[1].figures == "7 wait (400 s), 1/2 busy, 1 fail"
    assert rows[1].note.startswith("is behind: 7 keys behind, the oldest for 400 s")
    assert rows[2].figures == "1,200 objects, confirmed 3.0 s ago, 2 behind"


def test_a_replica_that_does_not_compete_yet_names_no_holder() -> None:
    lease = {**_LEASE, "is_leading": False, "holder": "", "is_competing": False}
    rows = rows_of([_state(_page(leader_election=[lease], watchdog=None))])
    (row,) = (one for one in rows if one.what == "Lease ops/app")
    assert (row.severity, row.state, row.figures) == (Severity.OK, "waits", "")


def test_two_leaders_are_a_row_of_the_replicas_together() -> None:
    first, second = (
        _state(_page(leader_election=[{**_LEASE, "identity": name}]), url=f"http://{name}")
        for name in ("a", "b")
    )
    row = rows_of([first, second])[0]
    assert (row.severity, row.what) == (Severity.TROUBLE, "Lease ops/app")
    assert row.state == "has 2 leaders"
    assert "1: Lease ops/app" in {row.what for row in rows_of([first, second])}


@pytest.mark.parametrize(
    ("state", "severity", "text"),
    [
        (_state(None), "ok", "http://a  asked 1.0 s ago"),
        (_state(None, error="refused"), "trouble", "http://a  no answer for 1.0 s: refused"),
        (
            _state(_page()),
            "ok",
            "http://a  pyinformer 1.2.3, up 120 min  alive  ready  answered 1.0 s ago",
        ),
        (
            _state(_page(ready={"is_ok": False}), error="late", age_seconds=20.0),
            "trouble",
            "http://a  pyinformer 1.2.3, up 120 min  alive  NOT READY  NO ANSWER for 20 s: late",
        ),
    ],
)
def test_the_heading_has_the_age_of_a_program_that_does_not_answer(
    state: ProgramState, severity: str, text: str
) -> None:
    assert heading(state) == (Severity(severity), text)


def _frame(states: list[ProgramState], height: int, width: int = 120) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True)
    with console.capture() as captured:
        console.print(screen(states, width=width, height=height))
    return captured.get().splitlines()


def test_nothing_of_a_late_cache_is_cut_at_80_columns() -> None:
    page = _page(_cache("configmaps.v1", has_synced=False, state="streaming"))
    states = [_state(page)]
    rows = rows_of(states)
    assert any(row.note for row in rows)
    frame = " ".join(line.strip() for line in _frame(states, 24, 80))
    frame = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", frame).split())
    for text in (heading(states[0])[1], *(part for row in rows for part in row[1:])):
        assert " ".join(text.split()) in frame


@pytest.mark.parametrize("height", [1, 4, 5, 24])
@pytest.mark.parametrize("width", [20, 80, 200])
def test_a_frame_fits_into_the_terminal(height: int, width: int) -> None:
    page = _page(*(_cache(f"resource-{number}.v1") for number in range(40)))
    frame = _frame([_state(page)], height, width)

    assert len(frame) <= height
    if height == 24 and width == 200:
        assert "more rows" in frame[-1]


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from([*_page(), *_CONTROLLER, *_cache("a")]), inner)
        ),
        max_leaves=20,
    )
)
def test_no_json_makes_a_frame_fail(document: object) -> None:
    states = [_state(document), _state(document, url="http://b")]
    assert all(map(str.isprintable, lines_of(states)))


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_a_program_cannot_move_the_cursor(text: str) -> None:
    states = [_state(_page(_cache(text, crash=text)), error=text)]
    assert all(map(str.isprintable, lines_of(states)))


async def test_a_program_that_ends_keeps_its_last_state_and_gets_older() -> None:
    page = _page(_cache("pods.v1"))
    async with HealthServer({}, pages={"/status": lambda _: page}) as server:
        programs = Programs([server.url], timeout_seconds=100.0)
        await programs.ask()
        (well,) = programs.states(asyncio.get_running_loop().time())
    await programs.ask()
    (gone,) = programs.states(asyncio.get_running_loop().time() + 60.0)

    assert (well.error, gone.page) == ("", well.page)
    assert "cannot connect" in gone.error
    assert gone.age_seconds >= 60.0


async def test_a_program_that_was_not_asked_yet_has_no_age() -> None:
    programs = Programs(["http://a"], timeout_seconds=100.0)
    (state,) = programs.states(asyncio.get_running_loop().time())
    assert heading(state) == (Severity.OK, "http://a  asked 0.0 s ago")


async def test_polling_goes_on_until_it_is_cancelled() -> None:
    asked = list[int]()

    def page(_: Mapping[str, str]) -> dict[str, Any]:
        asked.append(1)
        return _page()

    async with HealthServer({}, pages={"/status": page}) as server:
        programs = Programs([server.url], timeout_seconds=100.0)
        polling = asyncio.create_task(programs.poll(0.001))
        await until(lambda: len(asked) > 3)
        polling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await polling


async def test_without_a_terminal_the_state_is_printed_once() -> None:
    page = _page(_cache("pods.v1"))
    async with HealthServer({}, pages={"/status": lambda _: page}) as server:
        done = await asyncio.to_thread(here, "top", server.url)
        gone = server.url
    failed = await asyncio.to_thread(here, "top", gone)

    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].startswith(f"{server.url.rpartition(':')[0]}:")
    assert "ok        cache pods.v1  watching  1,200 objects" in done.stdout
    assert (failed.exit_code, "no answer" in failed.stdout) == (2, True)


async def test_in_a_terminal_it_is_drawn_until_q_is_pressed() -> None:
    page = _page(_cache("pods.v1"))
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    before = termios.tcgetattr(its)
    shown = bytearray()
    async with HealthServer({}, pages={"/status": lambda _: page}) as server:
        process = subprocess.Popen(  # noqa: ASYNC220 - a real terminal needs a real process
            [*COMMAND, "top", server.url, "--interval-seconds", "0.1"],
            stdin=its,
            stdout=its,
            stderr=its,
            env=environment(),
        )
        loop = asyncio.get_running_loop()
        loop.add_reader(ours, lambda: shown.extend(os.read(ours, 65536)))
        try:
            await until(lambda: b"cache pods.v1" in shown)
            os.write(ours, b"xq")
            await until(lambda: process.poll() is not None)
        finally:
            loop.remove_reader(ours)
            process.kill()
            process.wait()
            after = termios.tcgetattr(its)
            os.close(ours)
            os.close(its)

    assert process.returncode == 0, shown.decode(errors="replace")
    assert after == before
    assert b"q quits" in shown
    assert json.dumps(page).encode() not in shown
