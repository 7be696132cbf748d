"""The report of the doctor: findings as lines for people, or as one JSON document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, final

import msgspec

from pyinformer._printable import printable, printable_json
from pyinformer.cli._exit_status import UNCHECKED
from pyinformer.operator.diagnosis import DiagnosisFinding, Severity

if TYPE_CHECKING:
    from pyinformer.cli.output import Style

WELL: Final = 0
TROUBLE: Final = 1

_STYLES: Final[dict[Severity, Style]] = {
    Severity.OK: "green",
    Severity.WARN: "yellow",
    Severity.TROUBLE: "red",
}
_MARGIN: Final = " " * 9
_MOST_SHOWN: Final = 100
"""Findings of one part that are printed; `-o json` has all."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPart:
    """What was found about one thing that was asked: a program, a server, a resource."""

    source: str
    """Its URL, or the resource."""
    findings: Sequence[DiagnosisFinding] = ()
    error: str = ""
    """Why it could not be checked; empty if it was."""


@final
@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found."""

    parts: Sequence[ReportPart]

    @property
    def exit_status(self) -> int:
        """0 if no trouble was found, 1 if some was, 2 if a check could not be made."""
        if self.count(Severity.TROUBLE):
            return TROUBLE
        return UNCHECKED if any(part.error for part in self.parts) else WELL

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(one.severity is severity for part in self.parts for one in part.findings)

    def json(self) -> str:
        """Return the report as one JSON document, which the documentation describes."""
        document = {
            "exitStatus": self.exit_status,
            "trouble": self.count(Severity.TROUBLE),
            "warnings": self.count(Severity.WARN),
            "passed": self.count(Severity.OK),
            "parts": [
                {
                    "source": printable(part.source),
                    "error": printable(part.error),
                    "findings": [asdict(one) for one in part.findings],
                }
                for part in self.parts
            ],
        }
        text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
        return "".join(f"{printable_json(line)}\n" for line in text.split("\n"))

    def lines(self, styled: Callable[[str, Style], str]) -> Iterator[str]:
        """Yield the report for people: a line for what is well, three for a finding.

        Args:
            styled: adds a colour to a text, where there are colours.
        """
        for part in self.parts:
            yield styled(printable(part.source), "bold")
            if part.error:
                yield f"{styled('?', 'red')}        not asked: {printable(part.error)}"
            for one in part.findings[:_MOST_SHOWN]:
                yield from _lines(one, styled)
            if (more := len(part.findings) - _MOST_SHOWN) > 0:
                yield f"{_MARGIN}and {more} more findings; -o json prints all"
            yield ""
        yield self._sum()

    def _sum(self) -> str:
        parts = [
            f"{self.count(Severity.TROUBLE)} in trouble",
            f"{self.count(Severity.WARN)} to look at",
            f"{self.count(Severity.OK)} well",
        ]
        errors = sum(bool(part.error) for part in self.parts)
        parts += [f"{errors} not asked"] if errors else []
        return ", ".join(parts)


def _lines(one: DiagnosisFinding, styled: Callable[[str, Style], str]) -> Iterator[str]:
    style = _STYLES[one.severity]
    if one.severity is Severity.OK:
        evidence = f": {one.evidence}" if one.evidence else ""
        yield f"{styled('ok', style)}       {one.sentence}{evidence}"
        return
    word = one.severity.upper()
    yield f"{styled(word, style)}{' ' * (len(_MARGIN) - len(word))}{one.sentence}"
    yield f"{_MARGIN}{one.evidence}"
    yield f"{_MARGIN}cure: {one.cure}"
    yield from (f"{_MARGIN}{printable(line)}" for line in one.manifest.splitlines())
