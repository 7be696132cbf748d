"""The table of outages: each is played with plain kopf, and with pyinformer under it.

python -m tests.kopf_proofs.table docs/reference/kopf-outages.md
"""

from __future__ import annotations

import argparse
import logging
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from tests.kopf_proofs.line import installed_line
from tests.kopf_proofs.outages import OUTAGES, Stage
from tests.kopf_proofs.outcomes import Fact
from tests.kopf_proofs.terminations import TERMINATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kopf_proofs.outcomes import Outcome

_WAIT_SECONDS = 15.0  # far longer than the backoffs after three failures
_SHUTDOWNS = 11
_MORE_MS = 500  # than plain kopf; the process ends with more modules
_ROWS = OUTAGES | TERMINATIONS
_HEADER = """# Outages, with plain kopf and with pyinformer

Each row is one outage of the embedded API server, played with plain kopf {kopf} and with the line
of [kopf on pyinformer](../howto/kopf-on-pyinformer.md). A wrong result is **bold**.
Results are those {seconds:.0f} s after the outage. kopf ends after a request has failed once more
often than `networking.error_backoffs` has entries. Here it has two, of a twentieth of a second, so
the third failure ends plain kopf. With the defaults it takes about a minute of failures.

On {date}, Python {python}, by `python -m tests.kopf_proofs.table docs/reference/kopf-outages.md`.
The tests in `tests/kopf_proofs` assert the right column.

| outage | plain kopf | with pyinformer |
|---|---|---|
"""


def play(titles: Sequence[str], *, with_line: bool) -> dict[str, Outcome]:
    """Play outages one after the other, and return their outcomes."""
    stage = Stage(with_line=with_line, wait_seconds=_WAIT_SECONDS)
    outcomes = {}
    for title in titles:
        outcomes[title] = outcome = _ROWS[title](stage)
        where = "with pyinformer" if with_line else "plain kopf"
        sys.stderr.write(f"{where}: {title}: {outcome}\n")
    return outcomes


def page(plain: dict[str, Outcome], ours: dict[str, Outcome]) -> str:
    """Return the page."""
    header = _HEADER.format(
        kopf=version("kopf"),
        seconds=_WAIT_SECONDS,
        date=datetime.now(UTC).date(),
        python=platform.python_version(),
    )
    return header + "".join(f"| {title} | {plain[title]} | {ours[title]} |\n" for title in plain)


def shutdowns() -> str:
    """Return a paragraph on how long an idle operator takes to end, plain and with pyinformer."""
    idle = TERMINATIONS["SIGTERM, idle"]
    took: dict[bool, list[float]] = {False: [], True: []}
    for with_line in (False, True) * _SHUTDOWNS:
        outcome = idle(Stage(with_line=with_line, wait_seconds=_WAIT_SECONDS))
        took[with_line].append(outcome.seconds or 0.0)
    plain, ours = median(took[False]), median(took[True])
    more = Fact("difference in milliseconds", round((ours - plain) * 1000), _MORE_MS, is_limit=True)
    medians = f"plain kopf {plain:.2f} s, with pyinformer {ours:.2f} s"
    return f"\nSIGTERM, idle, medians of {_SHUTDOWNS} alternating runs: {medians}; {more}.\n"


def main() -> None:
    """Play all outages twice, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?", help="the file; without one, play only")
    parser.add_argument("--only", default="", help="rows whose title contains this")
    parser.add_argument("--side", choices=("plain", "ours", "both"), default="both")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    titles = [title for title in _ROWS if given.only in title]
    plain = {} if given.side == "ours" else play(titles, with_line=False)
    if given.side == "plain":
        return
    with installed_line():
        ours = play(titles, with_line=True)
    if given.page:
        given.page.write_text(page(plain, ours) + shutdowns())


if __name__ == "__main__":
    main()
