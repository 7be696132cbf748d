"""What a scene is, and what comes of it: facts that were measured, and claims about them.

Facts are frozen dataclasses of the scene's own, one class for both programs, so that they can be
compared line by line. Nothing here measures or prints.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

if TYPE_CHECKING:
    from pyinformer.cli.scenes._environment import Environment

F_co = TypeVar("F_co", covariant=True)


@final
@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence about what was measured, and whether it is true."""

    text: str
    holds: bool


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SceneResult(Generic[F_co]):
    """What happened in one run of a scene."""

    plain: F_co
    """What the plain program did and saw."""
    ours: F_co
    """The same of ours, on the same server, in the same story."""
    outage: tuple[Claim, ...]
    """What has to be true of the plain program: without an outage there is nothing to prevent."""
    prevented: tuple[Claim, ...]
    """What has to be true of ours."""
    logged: Mapping[str, int] = field(default_factory=dict)
    """What ours said about it, at WARNING and above, and how often."""

    @property
    def failed(self) -> tuple[Claim, ...]:
        """The claims that do not hold."""
        return tuple(claim for claim in (*self.outage, *self.prevented) if not claim.holds)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A founding failure that can be played."""

    name: str
    """What the command line calls it."""
    number: str
    """The failure's number in the catalogue, such as 1.1."""
    title: str
    """The failure in one line."""
    references: str
    """Where it is written down."""
    story: str
    """What the author of the outage did, and what came of it."""
    plain: str
    """What the plain program of the scene does."""
    ours: str
    """What ours does, and why the same cannot happen."""
    verdict: str
    """The last line if all claims hold."""
    perform: Callable[[Environment], Awaitable[SceneResult[Any]]]
    """Plays it, in less than 30 seconds."""


def fact(label: str) -> Any:  # noqa: ANN401 - as dataclasses.field, whose type checkers know better
    """Declare a field that is shown as a line of the report.

    Args:
        label: what the line is called.
    """
    return field(metadata={"label": label})


def rows(plain: object, ours: object) -> list[tuple[str, str, str]]:
    """Return the facts of both programs side by side: label, the plain one's, ours."""
    listed = fields(plain)  # type: ignore[arg-type]  # the facts of every scene are a dataclass
    values = [(getattr(plain, one.name), getattr(ours, one.name)) for one in listed]
    return [
        (one.metadata["label"], format_value(left), format_value(right))
        for one, (left, right) in zip(listed, values, strict=True)
    ]


def format_value(value: object) -> str:
    """Write a measured value as people read it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3f}" if value < 1 else f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(map(format_value, value)) or "none"
    return str(value) if value not in ("", None) else "-"
