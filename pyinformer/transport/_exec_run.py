"""Running an exec plug-in: a process of its own, a deadline, and an end with whoever waits for it.

A plug-in enters, a Login leaves. The event loop goes on meanwhile. Whatever ends the wait ends the
command and, unless it has the terminal, whatever it has started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Final, final

import anyio

from pyinformer.apimachinery import ConfigurationError
from pyinformer.transport._exec_plugin import ExecPlugin, last_words

if TYPE_CHECKING:
    from pyinformer.transport._login import Login

EXEC_TIMEOUT_SECONDS: Final = 60.0  # one that asks nobody; less than streams wait for an answer
_INTERACTIVE_TIMEOUT_SECONDS: Final = 600.0  # a person has to find the telephone
_MAX_PRINTED_BYTES = 4 << 20
_KEPT_WORDS_BYTES = 16 << 10
_KILL_SECONDS = 5.0
_OUTPUT = 1


async def run_exec_plugin(
    plugin: ExecPlugin, *, timeout_seconds: float = EXEC_TIMEOUT_SECONDS
) -> Login:
    """Run a plug-in and read what it prints.

    Args:
        plugin: what to run.
        timeout_seconds: how long it may take if it asks nobody.

    Raises:
        ConfigurationError: it is missing, failed, took too long or printed no credentials.

    Cancellation:
        Safe; the command is killed.
    """
    interactive = plugin.is_interactive(has_terminal=_has_terminal())
    seconds = max(timeout_seconds, _INTERACTIVE_TIMEOUT_SECONDS) if interactive else timeout_seconds
    output = _Output(echo=interactive)
    transport = await _start(plugin, output, interactive=interactive)
    try:
        async with asyncio.timeout(seconds):
            await output.ended.wait()
    except TimeoutError:
        raise _failed(plugin, output, f"gave no answer within {seconds:g} s") from None
    finally:
        await _end(transport, output, group=not interactive)
    if output.is_too_long:
        raise plugin.problem(f"it printed more than {_MAX_PRINTED_BYTES} bytes")
    status = transport.get_returncode()
    if status:
        raise _failed(plugin, output, f"ended with {_words_of(status)}")
    return plugin.login(bytes(output.printed))


async def _start(
    plugin: ExecPlugin, output: _Output, *, interactive: bool
) -> asyncio.SubprocessTransport:
    try:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: output,
            plugin.command,
            *plugin.args,
            env=plugin.environment(os.environ, interactive=interactive),
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            # A group of its own, so that its children end with it; who asks needs the terminal's.
            start_new_session=not interactive,
        )
    except (OSError, ValueError, NotImplementedError) as error:
        raise _not_started(plugin, error) from error
    return transport


def _not_started(plugin: ExecPlugin, error: Exception) -> ConfigurationError:
    if isinstance(error, NotImplementedError):
        return plugin.problem("this event loop runs no commands")
    hint = f". {' '.join(plugin.install_hint.split())}" if plugin.install_hint else ""
    if isinstance(error, FileNotFoundError):
        return plugin.problem(f"the command is not installed, or not in PATH{hint}")
    reason = getattr(error, "strerror", None) or str(error)
    return plugin.problem(f"the command cannot be run: {reason}{hint}")


def _failed(plugin: ExecPlugin, output: _Output, reason: str) -> ConfigurationError:
    said = last_words(bytes(output.words), plugin.secrets(bytes(output.printed)))
    told = f"it said: {said}" if said else "it said nothing"
    return plugin.problem(f"the command {reason}; {told}")


def _words_of(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"signal {signal.Signals(-status).name}"
    return f"status {status}"


async def _end(transport: asyncio.SubprocessTransport, output: _Output, *, group: bool) -> None:
    """Kill what has not ended, and wait until it has."""
    pid = transport.get_pid()
    if transport.get_returncode() is None and pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if group and hasattr(os, "killpg"):
                os.killpg(pid, signal.SIGKILL)  # it leads its group, and is not waited for yet
            else:
                transport.kill()
        with anyio.move_on_after(_KILL_SECONDS, shield=True):
            await output.exited.wait()
    transport.close()


def _has_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:  # closed, as in some services
        return False


@final
class _Output(asyncio.SubprocessProtocol):
    """Takes what a command prints."""

    def __init__(self, *, echo: bool) -> None:
        self.printed = bytearray()
        self.words = bytearray()
        self.is_too_long = False
        self.exited = anyio.Event()
        self.ended = anyio.Event()
        """It has ended, and all that it printed was read."""
        self._echo = echo  # people have to read what they are asked
        self._is_read = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Keep all of the answer, and the end of the rest."""
        if fd == _OUTPUT:
            self.printed += data
            if len(self.printed) > _MAX_PRINTED_BYTES:
                self.is_too_long = True
                self.ended.set()
            return
        self.words += data
        del self.words[:-_KEPT_WORDS_BYTES]
        if self._echo:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(data.decode("utf-8", "replace"))
                sys.stderr.flush()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Note that all has been read; the error channel may stay with what it started."""
        self._is_read = self._is_read or fd == _OUTPUT
        self._end_if_done()

    def process_exited(self) -> None:
        """Note the end of the command."""
        self.exited.set()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._is_read and self.exited.is_set():
            self.ended.set()
