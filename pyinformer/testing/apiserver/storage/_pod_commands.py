"""What runs the commands in containers: a function of the test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from pyinformer.client.cluster import ExecResult


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecCall:
    """A command that a client runs in a container."""

    pod: str
    """The key of the pod, `namespace/name`."""

    container: str
    """The name of the container, also if the client has not named it."""

    command: tuple[str, ...]
    """The program and its arguments."""

    stdin: bytes = b""
    """The whole input of the command; empty if it has none."""


OnExec: TypeAlias = Callable[[ExecCall], "ExecResult | str | Awaitable[ExecResult | str]"]
"""Returns what a command does: its result, or its standard output with the exit code 0."""


@final
class PodCommands:
    """Holds the function that runs commands."""

    def __init__(self) -> None:
        self.function: OnExec | None = None
        """None while commands are refused."""
