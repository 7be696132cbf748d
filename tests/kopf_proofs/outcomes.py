"""What an outage did to an operator, as facts that are compared with what should have happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kopf_proofs.operators import Operator


@dataclass(frozen=True)
class Fact:
    """One number.

    Attributes:
        what: what was counted, as a noun.
        got: how many there were.
        wanted: how many there should be; if `is_limit`, at most.
    """

    what: str
    got: int
    wanted: int
    is_limit: bool = False

    @property
    def is_right(self) -> bool:
        """Whether it is as it should be."""
        return self.got <= self.wanted if self.is_limit else self.got == self.wanted

    def __str__(self) -> str:
        of_wanted = "" if self.is_limit or not self.wanted else f" of {self.wanted}"
        text = f"{self.what}: {self.got}{of_wanted}"
        return text if self.is_right else f"**{text}**"


@dataclass(frozen=True)
class Outcome:
    """How the operator was after an outage."""

    facts: tuple[Fact, ...]
    ended_by: str = ""
    seconds: float | None = None
    """How long the end of the operator took, if that is what was played."""

    @property
    def is_right(self) -> bool:
        """Whether the operator still runs, and every fact is as it should be."""
        return not self.ended_by and all(fact.is_right for fact in self.facts)

    def __str__(self) -> str:
        ended = [f"**the operator ends** ({self.ended_by})"] if self.ended_by else []
        return "; ".join([*ended, *map(str, self.facts)])


def observe(
    operators: tuple[Operator, ...],
    facts: Callable[[], tuple[Fact, ...]],
    wait: Callable[[Callable[[], bool]], bool],
) -> Outcome:
    """Wait until all facts are right or an operator has ended, and return what is then the case."""

    def is_over() -> bool:
        ended = any(not operator.is_running for operator in operators)
        return ended or all(fact.is_right for fact in facts())

    wait(is_over)
    ended_by = next((_name(one) for one in operators if not one.is_running), "")
    return Outcome(facts(), ended_by)


def _name(operator: Operator) -> str:
    """Name the innermost of kopf's own errors, such as APIServerError or WatchingError."""
    error, name = operator.error, "without an error"
    while error is not None:
        if name == "without an error" or type(error).__module__.startswith("kopf"):
            name = type(error).__name__
        error = error.__cause__
    return name
