"""Run an exec plug-in as a process with a deadline.

Threads read its output and await its end, so the wait can be cancelled at any moment; asyncio's
own subprocesses hang if they are cancelled while they start. When the wait ends, the command is
killed, and so are the processes that it started, unless it has ended or has the terminal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, final

import anyio

from pyinformer._runtime.tasks import run_in_daemon, wait_shielded
from pyinformer.client.transport.config._error_reasons import reason_of
from pyinformer.client.transport.config._exec_plugin import ExecPlugin, last_lines
from pyinformer.client.transport.config._unnamed_files import temporary_file
from pyinformer.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.client.transport.config._renewing_credentials import Login

EXEC_TIMEOUT_SECONDS: Final = 60.0  # without a user; less than streams wait for an answer
_INTERACTIVE_TIMEOUT_SECONDS: Final = 600.0  # the user may have to find a phone
_MAX_PRINTED_BYTES = 4 << 20
_KEPT_WORDS_BYTES = 16 << 10
_KILL_SECONDS = 5.0
_MARK_BYTES: Final = 16
_READ_BYTES: Final = 64 << 10
_LAST_BYTES: Final = _READ_BYTES + _MARK_BYTES  # the mark may come in two parts


@final
class _Output:
    """A pipe for the output of a command, which ends with the command.

    A process that the command leaves behind may keep the pipe open forever. A mark that comes after
    all that the command has printed ends it, so that nothing has to be guessed from the time.
    """

    def __init__(self) -> None:
        reader, writer = os.pipe()
        self._reader = os.fdopen(reader, "rb", buffering=0)
        self.writer = os.fdopen(writer, "wb", buffering=0)
        self._mark = os.urandom(_MARK_BYTES)

    def close(self) -> None:
        """Close both ends of a pipe that no command has got."""
        self._reader.close()
        self.writer.close()

    def end_with(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of a command, and mark it, in a thread."""
        process.wait()
        with contextlib.suppress(OSError), self.writer:  # the reader has closed the pipe
            self.writer.write(self._mark)

    def read(self, process: subprocess.Popen[bytes]) -> bytes:
        """Return what a command prints until it ends, in a thread; end one that prints much."""
        printed = bytearray()
        with self._reader:
            while part := self._reader.read(_READ_BYTES):
                printed += part
                if self._mark in printed[-_LAST_BYTES:] or len(printed) > _MAX_PRINTED_BYTES:
                    break
        process.kill()  # which does nothing to one that has ended
        process.wait()
        return bytes(printed.partition(self._mark)[0])


async def run_exec_plugin(
    plugin: ExecPlugin,
    *,
    timeout_seconds: float = EXEC_TIMEOUT_SECONDS,
    on_call: Callable[[int, str], None] | None = None,
) -> Login:
    """Run a plug-in and return the login that it printed.

    Args:
        plugin: the plug-in.
        timeout_seconds: how long it may take without a terminal.
        on_call: called with the exit code and client-go's word for the outcome of the run; None
            for no call.

    Raises:
        ConfigurationError: the plug-in is missing, failed, took too long or printed no credentials.

    Cancellation:
        Safe; the command is killed.
    """
    record = on_call or _ignore
    interactive = plugin.is_interactive(has_terminal=_has_terminal())
    seconds = max(timeout_seconds, _INTERACTIVE_TIMEOUT_SECONDS) if interactive else timeout_seconds
    with temporary_file() as words:  # holds more than a pipe
        # A user at the terminal has to read the error output; otherwise its end is kept.
        process, output = _start(
            plugin, None if interactive else words, record, interactive=interactive
        )
        is_late, printed = await _printed(process, output, seconds, group=not interactive)
        record(*_outcome(process.returncode))
        said = _error_output(words, plugin, printed)
    if is_late:
        raise plugin.problem(f"the command did not end within {seconds:g} s; {said}")
    if len(printed) > _MAX_PRINTED_BYTES:
        raise plugin.problem(f"the command printed more than {_MAX_PRINTED_BYTES} bytes")
    if process.returncode:
        raise plugin.problem(f"the command ended with {_status_text(process.returncode)}; {said}")
    return plugin.login(printed)


async def _printed(
    process: subprocess.Popen[bytes], output: _Output, seconds: float, *, group: bool
) -> tuple[bool, bytes]:
    """Wait for a command; return whether the deadline passed first, and what was printed."""
    marked = run_in_daemon("pyinformer awaits an exec plug-in", partial(output.end_with, process))
    ended = run_in_daemon("pyinformer reads an exec plug-in", partial(output.read, process))
    try:
        with anyio.move_on_after(seconds) as deadline:
            await asyncio.wait((marked, ended))
    finally:
        if not ended.done():
            _kill(process, group=group)
            await wait_shielded(ended, _KILL_SECONDS)
    return (True, b"") if deadline.cancelled_caught else (False, ended.result())


def _start(
    plugin: ExecPlugin,
    words: IO[bytes] | None,
    record: Callable[[int, str], None],
    *,
    interactive: bool,
) -> tuple[subprocess.Popen[bytes], _Output]:
    output = _Output()
    try:
        process = subprocess.Popen(  # noqa: S603 - the kubeconfig says what is to be run
            [plugin.command, *plugin.args],
            executable=_executable(plugin.command),  # by our PATH, not by the plug-in's
            env=plugin.environment(os.environ, interactive=interactive),
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=output.writer,
            stderr=words,
            # Its own group, so that its children end with it; a terminal needs ours.
            start_new_session=not interactive,
        )
    except (OSError, ValueError) as error:
        output.close()
        record(
            1, "plugin_not_found_error" if isinstance(error, OSError) else "client_internal_error"
        )
        raise _not_started(plugin, error) from None
    return process, output


def _executable(command: str) -> str:
    """Return the path of a command; the current folder is never searched.

    An empty step of PATH means the current folder, and a relative one is below it. Other users may
    write there.

    Raises:
        FileNotFoundError: the command is in no absolute folder of PATH.

    Source:
        Go os/exec, LookPath and ErrDot.
    """
    if Path(command).name != command:
        return command
    steps = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders = [step for step in steps if Path(step).is_absolute()]
    found = shutil.which(command, path=os.pathsep.join(folders))
    if found is None or not Path(found).is_absolute():
        raise FileNotFoundError(command)
    return found


def _not_started(plugin: ExecPlugin, error: Exception) -> ConfigurationError:
    words = " ".join(plugin.install_hint.split())
    hint = f". {''.join(filter(str.isprintable, words))}" if words else ""  # no escape sequences
    if isinstance(error, FileNotFoundError):
        return plugin.problem(f"the command is not installed, or not in PATH{hint}")
    return plugin.problem(f"the command cannot be run: {reason_of(error)}{hint}")


def _error_output(words: IO[bytes], plugin: ExecPlugin, printed: bytes) -> str:
    words.seek(max(0, words.seek(0, os.SEEK_END) - _KEPT_WORDS_BYTES))
    said = last_lines(words.read(), plugin.secrets(printed))
    return f"error output: {said}" if said else "no error output"


def _outcome(status: int | None) -> tuple[int, str]:
    """Return the exit code of a command and the word for its outcome.

    Source:
        client-go plugin/pkg/client/auth/exec/metrics.go, incrementCallsMetric; Go's ExitCode of a
        command that a signal ended is -1.
    """
    if status == 0:
        return 0, "no_error"
    return (-1 if status is None or status < 0 else status), "plugin_execution_error"


def _ignore(code: int, status: str) -> None:
    del code, status


def _status_text(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-status).name}"
    return f"status {status}"


def _kill(process: subprocess.Popen[bytes], *, group: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if group and hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # it leads its group
        else:
            process.kill()


def _has_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:  # closed, as in some services
        return False
