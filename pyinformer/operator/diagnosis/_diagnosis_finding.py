"""One finding about a program or its connection: what is so, how that is known, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from pyinformer._printable import printable, shortened

_MAX_TEXT = 500
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    """Worth a look."""
    TROUBLE = "trouble"
    """Something does not work, or will soon not."""


_ORDER = {Severity.TROUBLE: 0, Severity.WARN: 1, Severity.OK: 2}


@final
@dataclass(frozen=True, slots=True)
class DiagnosisFinding:
    """One finding; its texts are made printable and short, since servers and programs gave them."""

    severity: Severity
    code: str
    """What kind of finding it is, such as `cache_stale`; the same in every version."""
    subject: str
    """What it is about, such as `the cache of pods.v1`."""
    fact: str
    """What is so, in a sentence that begins with the subject: `is stale`."""
    evidence: str = ""
    """The numbers that show it."""
    cure: str = ""
    """What to do, in one sentence; empty if all is well."""
    manifest: str = ""
    """YAML that the cure names, for `kubectl apply -f -`; empty if it names none."""

    def __post_init__(self) -> None:
        for name in ("subject", "fact", "evidence", "cure"):
            text = shortened(printable(getattr(self, name)), _MAX_TEXT)
            object.__setattr__(self, name, text)

    @property
    def sentence(self) -> str:
        """The subject and the fact."""
        return f"{self.subject} {self.fact}"


def good(code: str, subject: str, fact: str, evidence: str = "") -> DiagnosisFinding:
    """Return the finding that a check is passed."""
    return DiagnosisFinding(Severity.OK, code, subject, fact, evidence)


def warn(code: str, subject: str, fact: str, evidence: str, cure: str) -> DiagnosisFinding:
    """Return a finding that is worth a look."""
    return DiagnosisFinding(Severity.WARN, code, subject, fact, evidence, cure)


def trouble(code: str, subject: str, fact: str, evidence: str, cure: str) -> DiagnosisFinding:
    """Return a finding that something does not work."""
    return DiagnosisFinding(Severity.TROUBLE, code, subject, fact, evidence, cure)


def worst_first(found: Iterable[DiagnosisFinding]) -> list[DiagnosisFinding]:
    """Return findings in the order of their severity, and otherwise in their own."""
    return sorted(found, key=lambda one: _ORDER[one.severity])


def grade(seconds: float, *, warn_seconds: float, trouble_seconds: float) -> Severity:
    """Return the severity of a duration by its two limits."""
    if seconds >= trouble_seconds:
        return Severity.TROUBLE
    return Severity.WARN if seconds >= warn_seconds else Severity.OK


def span(seconds: float) -> str:
    """Return a span of time for people: `0.3 s`, `42 s`, `12 min`, `5 h`, `30 days`."""
    if abs(seconds) < 10:  # noqa: PLR2004 - tenths matter below
        return f"{seconds:.1f} s"
    for most, unit, name in (
        (10 * _MINUTE, 1, "s"),
        (3 * _HOUR, _MINUTE, "min"),
        (3 * _DAY, _HOUR, "h"),
    ):
        if abs(seconds) < most:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / _DAY:.0f} days"
