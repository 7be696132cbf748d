"""What only a process of its own can show: Ctrl-C, forgotten runners, sys.exit and forks.

Each program speaks to an embedded server of this process, ends within a bound, by what a user
would do: a signal, or nothing at all.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from tests.programs import running

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_OPENING = """
import os, sys, threading
import pyinformer
from pyinformer.blocking import timeout

def ready():
    print("ready", flush=True)

runner = pyinformer.run_in_thread(grace_seconds=2.0)
"""

_FOLLOWING = """
with runner, runner.connect(server=sys.argv[1]) as cluster:
    with cluster.informer_factory(grace_seconds=1.0) as factory:
        pods = factory.informer("v1", "pods")
        factory.start()
        factory.wait_for_cache_sync()
"""

_BOUND_SECONDS = 20.0  # a loaded machine starts an interpreter in three


def program(*parts: str) -> list[str]:
    """Return the command of a program of these parts."""
    source = "".join(textwrap.dedent(part) for part in parts)
    return [sys.executable, "-W", "error", "-c", source]


def run(apiserver: APIServer, *parts: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        [*program(*parts), apiserver.url],
        capture_output=True,
        text=True,
        timeout=_BOUND_SECONDS,
        check=False,
    )


_IN_EVENTS = """
        with pods.events() as events:
            ready()
            for event in events:
                pass
"""
_IN_SYNC = """
        widgets = factory.informer("acme.io/v1", "widgets")
        ready()
        factory.wait_for_cache_sync(timeout_seconds=3600)
"""
_IN_WAIT_FOR = """
        ready()
        pods.wait_for("default/a", lambda pod: pod is not None, timeout_seconds=3600)
"""


@pytest.mark.parametrize(
    "blocked",
    [
        pytest.param(_IN_EVENTS, id="events"),
        pytest.param(_IN_SYNC, id="wait_for_cache_sync"),
        pytest.param(_IN_WAIT_FOR, id="wait_for"),
    ],
)
def test_ctrl_c_interrupts_a_blocking_call_and_everything_is_closed(
    apiserver: APIServer, blocked: str
) -> None:
    closing = """
    print("left", runner.is_running, pods.is_closed, threading.active_count(), flush=True)
    """
    interrupted = textwrap.dedent(_FOLLOWING + blocked).replace("\n", "\n    ")
    source = f"try:{interrupted}\nexcept KeyboardInterrupt:{textwrap.dedent(closing)}"
    source = source.replace("KeyboardInterrupt:\nprint", "KeyboardInterrupt:\n    print")
    with running([*program(_OPENING, source), apiserver.url], errors=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=_BOUND_SECONDS)

    assert "Traceback" not in errors  # that widgets are absent may be logged
    assert out == "left False True 1\n"
    assert child.returncode == 0


@pytest.mark.parametrize(
    "end",
    [
        pytest.param("", id="falls-off-its-end"),
        pytest.param("sys.exit(0)", id="sys.exit"),
        pytest.param("threading.Thread(target=sys.exit).start()", id="ends-in-a-thread"),
        pytest.param(
            "threading.Thread(target=lambda: list(events), daemon=True).start()", id="iterates"
        ),
    ],
)
def test_a_script_that_does_not_close_ends_without_output(apiserver: APIServer, end: str) -> None:
    forgetful = """
    runner.start()
    cluster = runner.connect(server=sys.argv[1]).__enter__()
    factory = cluster.informer_factory()
    pods = factory.informer("v1", "pods")
    pods.add_event_handler(on_add=print)
    factory.start()
    factory.wait_for_cache_sync()
    events = pods.events().__enter__()
    ready()
    """
    ended = run(apiserver, _OPENING, forgetful, end)

    assert (ended.stdout, ended.stderr, ended.returncode) == ("ready\n", "", 0)


def test_sys_exit_inside_of_the_blocks_closes_and_keeps_its_code(apiserver: APIServer) -> None:
    ended = run(apiserver, _OPENING, _FOLLOWING, " " * 8 + "ready(); sys.exit(5)\n")

    assert (ended.stdout, ended.stderr, ended.returncode) == ("ready\n", "", 5)


def test_a_handler_that_never_returns_does_not_keep_a_script_alive(apiserver: APIServer) -> None:
    apiserver.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "a"}}
    )
    stuck = """
    runner.start()
    cluster = runner.connect(server=sys.argv[1]).__enter__()
    factory = cluster.informer_factory(grace_seconds=60.0)
    pods = factory.informer("v1", "pods")
    inside = threading.Event()
    def on_add(pod):
        inside.set()
        threading.Event().wait()
    pods.add_event_handler(on_add=on_add)
    factory.start()
    inside.wait()
    ready()
    """
    ended = run(apiserver, _OPENING, stuck)

    assert (ended.stdout, ended.returncode) == ("ready\n", 0)
    assert "Traceback" not in ended.stderr
    assert "did not end in time and is left to itself" in ended.stderr


def test_a_forked_child_gets_an_error_at_once_that_names_the_cure(apiserver: APIServer) -> None:
    forking = """
        child = os.fork()
        if child == 0:
            for attempt in (
                lambda: cluster.get("v1", "pods", "default/a"),
                lambda: pods.lister.list(),
                lambda: pods.events(),
                lambda: pods.status(),
                lambda: factory.status(),
                lambda: cluster.write_statistics(),
                lambda: runner.start(),
            ):
                try:
                    attempt()
                except pyinformer.errors.LifecycleError as error:
                    print("refused:", "post_fork" in str(error), flush=True)
            sys.exit(7)  # leaves the blocks of the parent, and has nothing to close
        _, status = os.waitpid(child, 0)
        print("child ended with", os.waitstatus_to_exitcode(status), flush=True)
        print(len(pods.lister.list()), "and the parent continues", flush=True)
    """
    source = textwrap.dedent(_FOLLOWING) + forking.replace("\n    ", "\n    ")
    quiet = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n"
    ended = run(apiserver, quiet, _OPENING, source)  # Python 3.12 warns of forks beside threads

    assert ended.stderr == ""
    assert ended.stdout == (
        "refused: True\n" * 7 + "child ended with 7\n0 and the parent continues\n"
    )
    assert ended.returncode == 0


def test_a_forked_child_does_not_use_the_connections_of_its_parent(apiserver: APIServer) -> None:
    """A loop that does not run can be forked: that of a module of a preforking server, say."""
    forking = """
        import asyncio, os, sys
        import pyinformer
        loop = asyncio.new_event_loop()
        opening = pyinformer.connect(server=sys.argv[1])
        cluster = loop.run_until_complete(opening.__aenter__())
        loop.run_until_complete(cluster.get("v1", "namespaces", "default"))
        child = os.fork()
        if child == 0:
            for attempt in (
                lambda: cluster.list("v1", "pods").__anext__(),
                lambda: cluster.delete("v1", "pods", "default/a"),
                lambda: cluster.get("v1", "namespaces", "default"),
                lambda: cluster.aclose(),
            ):
                try:
                    loop.run_until_complete(attempt())
                except pyinformer.errors.LifecycleError as error:
                    print("refused:", str(error).partition(" belongs ")[0], flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        loop.run_until_complete(cluster.get("v1", "namespaces", "default"))
        loop.run_until_complete(cluster.aclose())
        loop.close()
    """
    ended = run(apiserver, forking)

    assert ended.stderr == ""
    assert ended.stdout == "refused: the cluster\n" * 4


def test_ctrl_c_while_blocks_are_left_does_not_wait_for_handlers(apiserver: APIServer) -> None:
    apiserver.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "a"}}
    )
    stuck = """
    import anyio
    async def report(pod):
        try:
            ready()
            await anyio.sleep_forever()
        finally:
            print("closing", flush=True)
    inside = threading.Event()
    def on_add(pod):
        inside.set()
        threading.Event().wait()
    try:
        with runner, runner.connect(server=sys.argv[1]) as cluster:
            with cluster.informer_factory(grace_seconds=3600.0) as factory:
                pods = factory.informer("v1", "pods")
                pods.add_event_handler(on_add=on_add)
                factory.start()
                inside.wait()
                pods.add_event_handler(on_add=report)
                sys.stdin.readline()
    except KeyboardInterrupt:
        print("left", runner.is_running, pods.is_closed, flush=True)
    """
    opening = _OPENING.replace("grace_seconds=2.0", "grace_seconds=3600.0")
    with running([*program(opening, stuck), apiserver.url], errors=subprocess.PIPE) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        assert child.stdin
        child.stdin.write("leave\n")
        child.stdin.flush()
        assert child.stdout.readline() == "closing\n"
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=_BOUND_SECONDS)

    assert out == "left False True\n"
    assert "Traceback" not in errors
    assert child.returncode == 0


def test_a_second_ctrl_c_abandons_what_does_not_end(apiserver: APIServer) -> None:
    stubborn = """
    import anyio
    async def stubborn():
        while True:
            try:
                ready()
                await anyio.sleep_forever()
            except BaseException:
                pass
    runner.start()
    try:
        runner.call(stubborn)
    except KeyboardInterrupt:
        print("left", flush=True)
        os._exit(0)
    """
    with running([*program(_OPENING, stubborn), apiserver.url]) as child:
        assert child.stdout
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "ready\n"  # it was cancelled, and continues
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=_BOUND_SECONDS)

    assert out == "left\n"
    assert child.returncode == os.EX_OK
