"""One run of `watch`, `get` or `record`: its deadline, its errors and its exit status.

Every expected error becomes one line on stderr. Only a bug of pyinformer shows a traceback.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TextIO, final

import anyio

from pyinformer._printable import printable
from pyinformer.cache.informer import SharedInformer
from pyinformer.cli._exit_status import CLOSED_PIPE, FAILED, OK, TOO_LATE
from pyinformer.cli._shutdown import Shutdown, run
from pyinformer.cli.objects._session import (
    CommandError,
    ServerAccess,
    Session,
    SyncState,
    WatchTarget,
    session,
)
from pyinformer.cli.output import Layout, Output
from pyinformer.errors import InformerError


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DisplayOptions:
    """The options that control how objects are printed."""

    form: str = "table"
    """`table`, `wide`, `json`, `yaml` or `name`."""
    shows_secrets: bool = False
    metadata_only: bool = False

    def layout(self, found: Session) -> Layout:
        """Return the columns for the objects of a session."""
        return Layout(
            is_wide=self.form == "wide",
            with_namespace=found.shows_namespaces,
            metadata_only=self.metadata_only,
        )


class Job(Protocol):
    """What a command does with its informer."""

    def prepare(self, informer: SharedInformer[Any]) -> AbstractAsyncContextManager[object] | None:
        """Add indexes or handlers before the informer starts; return what lasts to the end."""
        ...

    async def perform(self, found: Session, deadline: anyio.CancelScope) -> int:
        """Print the objects, and return the exit status.

        Cancellation:
            Ends the command.
        """
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One run of `watch`, `get` or `record`."""

    name: str
    access: ServerAccess
    wanted: WatchTarget
    timeout_seconds: float | None
    """How long the command may run; None for no bound."""
    output: TextIO
    errors: TextIO

    def run(self, job_of: Callable[[Shutdown, Output], Job]) -> int:
        """Run the command. Call it in the main thread.

        Args:
            job_of: returns the job for this run.

        Returns:
            The exit status.
        """
        output = Output(self.output, os.environ)
        errors = Output(self.errors, os.environ)

        async def command(shutdown: Shutdown) -> int:
            """Perform the job, or print why it failed."""
            try:
                return await self._perform(job_of(shutdown, output), errors)
            except BrokenPipeError:
                return CLOSED_PIPE
            except (InformerError, CommandError) as error:
                errors.line(f"pyinformer {self.name}: {printable(str(error))}")
                return FAILED

        return run(command, self.output)

    async def _perform(self, job: Job, errors: Output) -> int:
        sync_state, seconds = SyncState(), self.timeout_seconds
        with anyio.move_on_after(math.inf if seconds is None else seconds) as deadline:
            async with session(self.access, self.wanted, errors, job.prepare, sync_state) as found:
                return await job.perform(found, deadline)
        if sync_state.has_synced:
            return OK
        pending = f": {sync_state.pending}" if sync_state.pending else ""
        errors.line(printable(f"pyinformer {self.name}: not synced after {seconds:g} s{pending}"))
        return TOO_LATE
