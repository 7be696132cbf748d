"""The command line itself: its options, its extra, and `serve` in a process of its own."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import anyio
import pytest
import typer

import pyinformer
from pyinformer.cli import main
from pyinformer.cli._app import _exit_status_of_signals
from pyinformer.cli._exit_status import FAILED, OK
from pyinformer.cli._shutdown import Interruption, Shutdown, interrupt_on_signals
from tests.cli.command_line import here
from tests.programs import running

_COMMAND = (sys.executable, "-m", "pyinformer")


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_the_extra_the_command_names_what_to_install(missing: str) -> None:
    code = (
        f"import sys; sys.modules['{missing}'] = None\n"
        "sys.argv = ['pyinformer', 'serve', '--help']\n"
        "from pyinformer.cli import main; sys.exit(main())"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f"{missing} is not installed: install 'pyinformer[cli]'\n"


def test_importing_the_command_line_loads_nothing_of_it() -> None:
    code = "import sys, pyinformer.cli; print({'typer', 'rich', 'aiohttp'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


def test_the_command_prints_its_version() -> None:
    done = subprocess.run([*_COMMAND, "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"pyinformer {version('pyinformer')}\n"


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_that_interrupts_a_task_within_task_groups_has_its_exit_status(
    number: signal.Signals, status: int
) -> None:
    with pytest.raises(typer.Exit) as ended, _exit_status_of_signals():
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt as interruption:
            raise BaseExceptionGroup("", [BaseExceptionGroup("", [interruption])])  # noqa: B904

    assert ended.value.exit_code == status


def test_errors_of_task_groups_are_not_mistaken_for_signals() -> None:
    with pytest.raises(ExceptionGroup), _exit_status_of_signals():
        raise ExceptionGroup("", [ValueError()])


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        pytest.param(["demo", "--seconds", "1"], "equal to what the server lists", id="demo"),
        pytest.param(["serve", "--kubeconfig", __file__], "is not overwritten", id="serve"),
    ],
)
def test_each_command_reaches_its_function_and_leaves_signals_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    printed: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["pyinformer", *arguments])
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    with pytest.raises(SystemExit) as ended:
        main()
    after = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    assert after == before

    assert ended.value.code == (0 if arguments[0] == "demo" else 1)
    assert printed in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_what_runs_on_a_loop(number: signal.Signals) -> None:
    """An exception in the middle of a loop would leave tasks that never began, with a warning."""
    cancelled: list[bool] = []

    async def command() -> None:
        """Be interrupted, and wait."""
        try:
            signal.raise_signal(number)
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    interruption = Interruption()
    with pytest.raises(KeyboardInterrupt), interrupt_on_signals(interruption):
        asyncio.run(command())

    assert (cancelled, interruption.number) == ([True], number)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param(["demo", "--seconds", "0"], "--seconds", id="too-short"),
        pytest.param(["serve", "--build"], "--real", id="build-without-real"),
        pytest.param(["serve", "--port", "70000"], "--port", id="no-port"),
        pytest.param(["serve", "--", "--event-ttl=9s"], "--event-ttl=9s", id="flag-without-real"),
        pytest.param(["serve", "--real", "--", "--v", "4"], "--name=value", id="flag-in-two"),
    ],
)
def test_invalid_options_are_refused_by_name(arguments: list[str], named: str) -> None:
    done = here(*arguments)

    assert done.exit_code == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


async def _serves_the_default_namespace(kubeconfig: Path) -> bool:
    async with (
        pyinformer.connect(kubeconfig) as cluster,
        pyinformer.SharedInformer(cluster, "v1", "namespaces") as namespaces,
    ):
        await namespaces.wait_for_cache_sync(timeout_seconds=100)
        return "default" in namespaces.lister


@pytest.mark.parametrize("command", ["get", "watch", "record"])
@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        pytest.param(["-n", "a b"], "--namespace", id="namespace"),
        pytest.param(["--namespace", "a,B"], "--namespace", id="one-of-several"),
        pytest.param(["-l", "a in ("], "--selector", id="labels"),
        pytest.param(["--field-selector", "x"], "--field-selector", id="fields"),
        pytest.param(["--as", ""], "--as", id="user"),
        pytest.param(["--as", "a", "--as-group", "x\ny"], "--as-group", id="group"),
        pytest.param(["--kubeconfig", "https://x"], "--kubeconfig", id="kubeconfig"),
    ],
)
def test_a_malformed_value_is_refused_under_the_option_that_was_typed(
    command: str, arguments: list[str], named: str, tmp_path: Path
) -> None:
    more = ["-o", str(tmp_path / "a.jsonl")] if command == "record" else []
    server = [] if "kubeconfig" in named else ["--server", "http://127.0.0.1:1"]
    done = here(command, "pods", *more, *server, *arguments, COLUMNS="300")
    assert done.exit_code == 2
    assert f"Invalid value for {named}: " in done.stderr
    for argument in ("namespaces", "label_selector", "field_selector", "impersonate_", "None"):
        assert argument not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["get", "pods", "--server", "htp:/x"], "get: --server: ", id="server"),
        pytest.param(["doctor", "--server", "htp:/x"], "doctor: --server: ", id="doctor"),
        pytest.param(
            ["get", "v1/", "--server", "http://127.0.0.1:1"], "get: RESOURCE: ", id="resource"
        ),
        pytest.param(
            ["get", "pods", "--index", "spec..x=1", "--server", "http://127.0.0.1:1"],
            "Invalid value for --index: ",
            id="index",
        ),
        pytest.param(
            ["doctor", "pods", "-n", "a b"], "Invalid value for --namespace: ", id="namespace"
        ),
        pytest.param(
            ["rbac", "my_operator:app", "-n", "a b"], "Invalid value for --namespace: ", id="rbac"
        ),
    ],
)
def test_other_malformed_values_are_named_as_they_were_typed(
    arguments: list[str], words: str
) -> None:
    done = here(*arguments, COLUMNS="300")
    assert done.exit_code in {1, 2}
    assert words in done.stderr


def test_serve_names_its_kubeconfig_for_any_folder(tmp_path: Path) -> None:
    command = [*_COMMAND, "serve", "--kubeconfig", os.path.relpath(tmp_path / "kubeconfig")]
    with running(command, errors=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            process.stdout.readline()
            exported = process.stdout.readline().partition("export KUBECONFIG=")[2].strip()
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=100)

    assert Path(exported).is_absolute()


def test_serve_writes_a_usable_kubeconfig_and_stops_at_ctrl_c(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    command = [*_COMMAND, "serve", "--kubeconfig", str(path)]
    with running(command, errors=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert f"the kubeconfig is {path}" in process.stdout.readline()
            assert asyncio.run(_serves_the_default_namespace(path))
        finally:
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=100)

    assert (process.returncode, errors) == (0, "")
    assert output.endswith("stopped\n")
    assert not path.exists()


async def test_a_full_disk_decides_the_status_of_a_command_that_returns_by_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Which of the two comes first is chance in the program itself."""
    shutdown = Shutdown()

    async def command() -> int:
        """Fail to write, and return before the cancellation arrives."""
        shutdown.on_write_error(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        return OK

    assert await shutdown.run(command, io.StringIO()) == FAILED
    words = "pyinformer: the output cannot be written: No space left on device\n"
    assert capsys.readouterr().err == words
