"""An operator as a program: how it ends, and what it says to a shell."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.errors import InvalidTypeError
from pyinformer.testing import APIServer
from tests.programs import running
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

_WAIT_SECONDS = 100.0
_PROGRAM = """
import asyncio, logging, sys
import pyinformer

logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(message)s")
app = pyinformer.Operator("db-operator", leader_election={election})
options = pyinformer.ControllerOptions(
    sync_timeout_seconds={sync_seconds}, drain_timeout_seconds=0.1, grace_seconds=0.1
)


@app.reconcile("acme.io/v1", "{plural}", options=options)
async def reconcile(request, obj, cluster):
    logging.info("on %s", type(asyncio.get_running_loop()).__module__)
    print(f"reconciled {{request}}", flush=True)
    while {stubborn}:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass


app.run(server="{url}", health_port={port})
print("ended", flush=True)
"""

_WITHOUT_LOGGING = """
import logging
import pyinformer

app = pyinformer.Operator("db-operator")
log = logging.getLogger("app")


@app.reconcile("acme.io/v1", "databases")
async def reconcile(request, obj, cluster):
    log.warning("early")
    logging.basicConfig(format="configured: %(message)s")
    log.warning("late")
    print("reconciled", flush=True)


app.run(server="{url}", health_port=None)
"""


_WITH_LIFESPAN = """
from contextlib import asynccontextmanager
import pyinformer

app = pyinformer.Operator("db-operator")
opened = []


@asynccontextmanager
async def lifespan(cluster):
    opened.append(await cluster.get("v1", "namespaces", "default"))
    metadata = {{"name": "opened", "namespace": "default"}}
    await cluster.apply({{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}})
    print("opened", flush=True)
    try:
        yield
    finally:
        print("closed", flush=True)


@app.reconcile("acme.io/v1", "databases")
async def reconcile(request, obj, cluster):
    print("reconciled", len(opened), flush=True)


app.run(server="{url}", health_port=None, lifespan=lifespan)
print("ended", flush=True)
"""


@pytest.fixture
def api() -> Iterator[APIServer]:
    """A server with one database."""
    with APIServer() as server:
        server.register("acme.io/v1", "Database", "databases")
        metadata = {"namespace": "default", "name": "a"}
        server.create({"apiVersion": "acme.io/v1", "kind": "Database", "metadata": metadata})
        yield server


def command(api: APIServer, **parts: object) -> list[str]:
    """Return the command line of an operator."""
    chosen = {"sync_seconds": 60, "plural": "databases", "port": 0, "url": api.url}
    chosen |= {"stubborn": False, "election": None, **parts}
    return [sys.executable, "-c", _PROGRAM.format(**chosen)]


def _handles(pid: int, number: signal.Signals) -> bool:
    """Return whether a process handles a signal; true where the system does not say."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return True
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)", status.read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("switch", "election", "loop"),
    [
        pytest.param("", "None", "uvloop", id="uvloop"),
        pytest.param("off", "None", "asyncio", id="switched-off"),
        pytest.param("0", "None", "asyncio", id="switched-off-by-0"),
        pytest.param("", "pyinformer.LeaderElection()", "asyncio", id="leader-election"),
    ],
)
def test_a_signal_ends_a_program_with_status_0(
    api: APIServer, sent: signal.Signals, switch: str, election: str, loop: str
) -> None:
    environ = {**os.environ, "PYINFORMER_UVLOOP": switch}
    arguments = command(api, election=election)
    with running(arguments, env=environ, errors=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "reconciled default/a\n"
        program.send_signal(sent)
        output, errors = program.communicate(timeout=_WAIT_SECONDS)

    assert (program.returncode, output) == (0, "ended\n")
    assert f"on {loop}" in errors
    assert "health endpoint: http://127.0.0.1:" in errors
    assert "Traceback" not in errors


def test_a_signal_that_arrives_twice_at_once_releases_the_lease(api: APIServer) -> None:
    """As when systemd signals each process, and a wrapper passes it on."""
    election = "pyinformer.LeaderElection(namespace='default')"
    with running(command(api, election=election), errors=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "reconciled default/a\n"
        for _ in range(2):
            program.send_signal(signal.SIGTERM)
        output, errors = program.communicate(timeout=_WAIT_SECONDS)

    assert (program.returncode, output) == (0, "ended\n"), errors
    lease = api.get("coordination.k8s.io/v1", "leases", "db-operator", "default")
    assert lease["spec"]["holderIdentity"] == ""


def test_lines_have_a_time_until_the_program_configures_logging(api: APIServer) -> None:
    arguments = [sys.executable, "-c", _WITHOUT_LOGGING.format(url=api.url)]
    with running(arguments, errors=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "reconciled\n"
        program.send_signal(signal.SIGTERM)
        _, errors = program.communicate(timeout=_WAIT_SECONDS)

    early, late = errors.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING app: early", early)
    assert late == "configured: late"


def test_a_reconcile_that_ignores_cancellation_does_not_keep_the_program_alive(
    api: APIServer,
) -> None:
    with running(command(api, stubborn=True), errors=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "reconciled default/a\n"
        program.send_signal(signal.SIGTERM)
        output, errors = program.communicate(timeout=_WAIT_SECONDS)

    assert (program.returncode, output) == (0, "ended\n")
    assert "did not end within 0.1 s and is left to itself" in errors


def test_a_signal_ends_a_program_that_waits_for_its_caches(api: APIServer) -> None:
    with running(command(api, plural="backups"), errors=subprocess.PIPE) as program:
        assert program.stderr is not None
        while "the server serves no backups" not in program.stderr.readline():
            pass
        # It prints that before it handles signals, and a busy machine may stop it in between.
        assert poll(lambda: _handles(program.pid, signal.SIGTERM), timeout_seconds=100)
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=_WAIT_SECONDS)

    assert program.returncode == 0


def test_a_resource_that_is_not_served_ends_the_program_with_status_1_and_the_cure(
    api: APIServer,
) -> None:
    done = subprocess.run(
        command(api, plural="backups", sync_seconds=0.5),
        capture_output=True,
        text=True,
        check=False,
        timeout=_WAIT_SECONDS,
    )

    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-2:]
    assert re.match(r"db-operator: not synced after \d+\.\d s: backups", last[0])
    assert "pyinformer crd module:app | kubectl apply -f -" in last[1]
    assert "Traceback" not in done.stderr


def test_a_health_port_in_use_ends_the_program_with_status_1(api: APIServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            command(api, port=port),
            capture_output=True,
            text=True,
            check=False,
            timeout=_WAIT_SECONDS,
        )

    assert done.returncode == 1
    assert f"db-operator: the health endpoint 127.0.0.1:{port}: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_lifespan_is_around_every_reconcile(api: APIServer) -> None:
    arguments = [sys.executable, "-c", _WITH_LIFESPAN.format(url=api.url)]
    with running(arguments, errors=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert [program.stdout.readline() for _ in range(2)] == ["opened\n", "reconciled 1\n"]
        program.send_signal(signal.SIGTERM)
        output, errors = program.communicate(timeout=_WAIT_SECONDS)
    assert (program.returncode, output) == (0, "closed\nended\n"), errors


def test_a_lifespan_must_take_the_cluster() -> None:
    app = pyinformer.Operator("db-operator")
    with pytest.raises(InvalidTypeError, match=r"lifespan\(cluster\)"):
        app.run(lifespan=lambda: None)  # type: ignore[arg-type, misc]


_FAILS_AND_CLEANS_UP = """
import contextlib, os, signal, sys
import anyio
import pyinformer

app = pyinformer.Operator("db-operator")
options = pyinformer.ControllerOptions(sync_timeout_seconds=0.2)


@app.reconcile("acme.io/v1", "missing", options=options)
async def reconcile(request, obj, cluster):
    pass


@contextlib.asynccontextmanager
async def lifespan(cluster):
    try:
        yield
    finally:
        try:
            for _ in range(int(sys.argv[2])):
                os.kill(os.getpid(), getattr(signal, sys.argv[1]))
                await anyio.sleep(0.01)  # as a rollback over the network
            print("closed", flush=True)
        except BaseException:
            print("cut", flush=True)
            raise


app.run(server=sys.argv[3], health_port=None, lifespan=lifespan)
print("ended", flush=True)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(("signals", "end"), [(1, "closed"), (2, "cut")])
def test_a_signal_does_not_hide_that_the_operator_has_failed(
    api: APIServer, signals: int, end: str, name: str
) -> None:
    program = [sys.executable, "-c", _FAILS_AND_CLEANS_UP, name, str(signals), api.url]
    ended = subprocess.run(
        program, check=False, capture_output=True, text=True, timeout=_WAIT_SECONDS
    )
    assert (ended.returncode, ended.stdout) == (1, f"{end}\n"), ended.stderr
    assert "missing" in ended.stderr.splitlines()[-1]


_SIGNALLED_LIFESPAN = """
import contextlib, os, signal, sys
import anyio
import pyinformer

app = pyinformer.Operator("db-operator")
when = sys.argv[1]


def stop():
    os.kill(os.getpid(), getattr(signal, sys.argv[2]))


@app.reconcile("acme.io/v1", "databases")
async def reconcile(request, obj, cluster):
    pass


@contextlib.asynccontextmanager
async def lifespan(cluster):
    print("opened", flush=True)
    try:
        if when == "entering":
            stop()
            await anyio.sleep_forever()
        stop()
        yield
    finally:
        await anyio.sleep(0.01)  # as a rollback over the network
        await anyio.sleep(0.01)
        print("closed", flush=True)


app.run(server=sys.argv[3], health_port=None, lifespan=lifespan)
print("ended", flush=True)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("when", ["entering", "entered"])
def test_a_signal_before_the_start_closes_what_lifespan_has_opened(
    api: APIServer, when: str, name: str
) -> None:
    program = [sys.executable, "-c", _SIGNALLED_LIFESPAN, when, name, api.url]
    ended = subprocess.run(
        program, check=False, capture_output=True, text=True, timeout=_WAIT_SECONDS
    )
    assert (ended.returncode, ended.stdout) == (0, "opened\nclosed\nended\n"), ended.stderr
