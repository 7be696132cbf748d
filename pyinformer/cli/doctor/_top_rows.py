"""What `pyinformer top` shows of programs: a row for each cache, controller and Lease. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from pyinformer._printable import printable, shortened
from pyinformer.operator.diagnosis import (
    DiagnosisFinding,
    PageFields,
    Severity,
    diagnose_controller,
    diagnose_informer,
    diagnose_replicas,
    diagnose_status,
    span,
    worst_first,
)

_MAX_CELL = 60
_ORDER = {Severity.TROUBLE: 0, Severity.WARN: 1, Severity.OK: 2}
_IN_HEADING = frozenset({"not_live", "not_ready"})


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramState:
    """One program, as of its last answer."""

    url: str
    page: object = None
    """Its status page; None before the first answer."""
    age_seconds: float = 0.0
    """How long ago it answered, or how long it has been asked without an answer."""
    error: str = ""
    """Why it does not answer now; empty if it does."""


class Row(NamedTuple):
    """One line of the table; every text is printable."""

    severity: Severity
    what: str
    state: str
    figures: str
    note: str


def heading(program: ProgramState) -> tuple[Severity, str]:
    """Return the line about a program, and how bad it is."""
    if program.page is None:
        waited = span(program.age_seconds)
        if program.error:
            text = f"{program.url}  no answer for {waited}: {program.error}"
            return Severity.TROUBLE, printable(text)
        return Severity.OK, printable(f"{program.url}  asked {waited} ago")
    page = PageFields(program.page)
    record = page.record("program")
    parts = [program.url]
    if record is not None:
        uptime = span(record.seconds("uptime_seconds"))
        parts.append(f"pyinformer {record.text('pyinformer')}, up {uptime}")
    severity = Severity.OK
    for name, word in (("live", "alive"), ("ready", "ready")):
        verdict = page.record(name)
        is_ok = verdict is not None and verdict.flag("is_ok")
        parts.append(word if is_ok else f"NOT {word.upper()}")
        severity = severity if is_ok else Severity.TROUBLE
    if program.error:
        parts.append(f"NO ANSWER for {span(program.age_seconds)}: {program.error}")
        severity = Severity.TROUBLE
    else:
        parts.append(f"answered {span(program.age_seconds)} ago")
    return severity, printable("  ".join(parts))


def rows_of(programs: Sequence[ProgramState]) -> list[Row]:
    """Return the rows about programs, those in trouble first."""
    known = [one for one in programs if one.page is not None]
    rows = list[Row]()
    for number, program in enumerate(known, start=1):
        where = f"{number}: " if len(known) > 1 else ""
        rows += (Row(row.severity, f"{where}{row.what}", *row[2:]) for row in _rows(program.page))
    if len(known) > 1:
        found = diagnose_replicas({one.url: one.page for one in known})
        rows += map(_row_of, (one for one in found if one.severity is not Severity.OK))
    return sorted(rows, key=lambda row: _ORDER[row.severity])


def _rows(document: object) -> Iterator[Row]:
    page = PageFields(document)
    informers, controllers = page.records("informers"), page.records("controllers")
    in_notes = {
        *(one for each in informers for one in diagnose_informer(each)),
        *(one for each in controllers for one in diagnose_controller(each)),
    }
    for one in diagnose_status(document):
        is_elsewhere = one in in_notes or one.code in _IN_HEADING
        if one.severity is not Severity.OK and not is_elsewhere:
            yield _row_of(one)
    yield from map(_informer, informers)
    yield from map(_controller, controllers)
    for election in page.records("leader_election"):
        holder = election.text("holder") or "no replica"
        does = "works" if election.text("shares") else "leads"
        state = does if election.flag("is_leading") else "waits"
        what = f"Lease {election.text('lease')}"
        figures = "" if election.flag("is_competing") is False else f"held by {holder}"
        yield _row(Severity.OK, what, state, figures, "")
    for share in page.records("sharing"):
        state = "shares" if share.flag("is_member") else "waits"
        what, figures = f"table {share.text('table')}", _share_of(share)
        yield _row(Severity.OK, what, state, figures, "")


def _share_of(one: PageFields) -> str:
    text = f"{one.count('open')} of {one.count('buckets')} buckets, {one.count('members')} replicas"
    moving = one.count("catching_up") + one.count("draining")
    return f"{text}, {moving} move" if moving else text


def _informer(one: PageFields) -> Row:
    severity, note = _worst(diagnose_informer(one))
    age = one.number("age_seconds")
    proven = "never" if age is None else f"{span(age)} ago"
    behind = sum(handler.count("depth") for handler in one.records("handlers"))
    objects = one.count("objects")
    held = "1 object" if objects == 1 else f"{objects:,} objects"
    figures = f"{held}, confirmed {proven}, {behind:,} behind"
    state = one.text("state") if one.flag("has_synced") else f"{one.text('state')}, not synced"
    return _row(severity, f"cache {one.text('informer')}", state, figures, note)


def _controller(one: PageFields) -> Row:
    severity, note = _worst(diagnose_controller(one))
    queue = one.record("queue") or PageFields({})
    workers = one.records("workers")
    busy = sum(bool(worker.text("request")) for worker in workers)
    figures = f"{queue.count('depth'):,} wait ({span(queue.seconds('oldest_seconds'))}),"
    figures += f" {busy}/{len(workers)} busy, {one.count('failing'):,} fail"
    works = one.flag("is_running") and one.flag("has_synced")
    what = f"controller {one.text('name')}"
    return _row(severity, what, "works" if works else "does not work", figures, note)


def _worst(findings: Iterable[DiagnosisFinding]) -> tuple[Severity, str]:
    found = worst_first(findings)
    if not found:
        return Severity.OK, ""
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return found[0].severity, f"{found[0].fact}: {found[0].evidence}{more}"


def _row_of(one: DiagnosisFinding) -> Row:
    return _row(one.severity, one.subject, one.fact, "", one.evidence)


def _row(severity: Severity, what: str, state: str, figures: str, note: str) -> Row:
    return Row(severity, _cell(what), _cell(state), _cell(figures), printable(note))


def _cell(text: str) -> str:
    return shortened(printable(text), _MAX_CELL)
