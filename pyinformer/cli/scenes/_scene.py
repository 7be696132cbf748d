"""A scene, and its result: measured facts, and claims about them.

The facts of a scene are one frozen dataclass for both programs, so that they can be compared line
by line. Nothing here measures or prints.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

if TYPE_CHECKING:
    from pyinformer.cli.scenes._server import SceneServer

F_co = TypeVar("F_co", covariant=True)


@final
@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence about the measured facts, and whether it is true."""

    text: str
    holds: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SceneResult(Generic[F_co]):
    """The result of one run of a scene."""

    plain: F_co
    """The facts of the plain program."""
    ours: F_co
    """The facts of pyinformer, on the same server."""
    outage: tuple[Claim, ...]
    """Claims about the plain program: without the outage, the scene proves nothing."""
    prevented: tuple[Claim, ...]
    """Claims about pyinformer."""
    logged: Mapping[str, int] = field(default_factory=dict)
    """The lines that pyinformer logged at WARNING and above, and how often."""

    @property
    def failed(self) -> tuple[Claim, ...]:
        """The claims that do not hold."""
        return tuple(claim for claim in (*self.outage, *self.prevented) if not claim.holds)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A known failure that can be played."""

    name: str
    """The name on the command line."""
    number: str
    """The number of the failure in the catalogue, such as 1.1."""
    title: str
    """The failure in one line."""
    references: str
    """The reports of the original failure."""
    story: str
    """What happened in the original failure."""
    plain: str
    """How the plain program works."""
    ours: str
    """How pyinformer works, and why the failure cannot happen to it."""
    verdict: str
    """The last line of the report if all claims hold."""
    perform: Callable[[SceneServer], Awaitable[SceneResult[Any]]]
    """Plays the scene, in less than 30 seconds."""


def fact(label: str) -> Any:  # noqa: ANN401 - as dataclasses.field
    """Declare a field that is a line of the report.

    Args:
        label: the label of the line.
    """
    return field(metadata={"label": label})


def rows(plain: object, ours: object) -> list[tuple[str, str, str]]:
    """Return a row for each fact: the label, the plain value, and that of pyinformer."""
    listed = fields(plain)  # type: ignore[arg-type]  # the facts of every scene are a dataclass
    values = [(getattr(plain, one.name), getattr(ours, one.name)) for one in listed]
    return [
        (one.metadata["label"], format_value(left), format_value(right))
        for one, (left, right) in zip(listed, values, strict=True)
    ]


def format_value(value: object) -> str:
    """Return a measured value as text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}" if value < 1 else f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(map(format_value, value)) or "none"
    return str(value) if value not in ("", None) else "-"
