"""The table of outages: each is played with plain kopf, and with pyinformer under it.

python -m tests.kopf_proofs.table docs/reference/kopf.md

With `--real` it plays those that a real kube-apiserver can have, for the second table of the page.
The other sections of the page stay as they are.
"""

from __future__ import annotations

import argparse
import logging
import platform
import sys
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from pyinformer.testing import KubeAPIServer
from tests.kopf_proofs.line import installed_line
from tests.kopf_proofs.outages import ON_EITHER_SERVER, OUTAGES
from tests.kopf_proofs.outcomes import Fact
from tests.kopf_proofs.stages import Stage, embedded_server, real_servers
from tests.kopf_proofs.terminations import TERMINATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kopf_proofs.outcomes import Outcome

_WAIT_SECONDS = 15.0  # far longer than the backoffs after three failures
_SHUTDOWNS = 11
_MORE_MS = 500  # than plain kopf; the process ends with more modules
_ROWS = OUTAGES | TERMINATIONS
_HEADING = "## Outages, on the embedded server\n"
_REAL_HEADING = "## Outages, on a real kube-apiserver\n"
_COLUMNS = """
| outage | plain kopf | with pyinformer |
|---|---|---|
"""
_HEADER = """
Each row is one outage of the embedded API server, played with plain kopf {kopf} and with the
line. A wrong result is **bold**.
Results are those {seconds:.0f} s after the outage. kopf ends after a request has failed once more
often than `networking.error_backoffs` has entries. Here it has two, of a twentieth of a second, so
the third failure ends plain kopf. With the defaults it takes about a minute of failures.

On {date}, Python {python}, by `python -m tests.kopf_proofs.table docs/reference/kopf.md`.
The tests in `tests/kopf_proofs` assert the right column.
"""
_REAL_HEADER = """
The same outages of a real kube-apiserver, behind a proxy that refuses connections. Its watch
history is lost by a restart; the embedded server compacts it. A kube-apiserver cannot be made to
answer with a chosen HTTP status, to send a chosen ERROR event, to be silent, to end its watches at
once, or to break off at a chosen byte, so these outages are in the first table only.

On {date}, Python {python}, kopf {kopf}, by
`python -m tests.kopf_proofs.table --real docs/reference/kopf.md`. `make test-real` asserts
half of the right column, `make soak` all of it.
"""


def play(
    titles: Sequence[str], *, with_line: bool, real: KubeAPIServer | None = None
) -> dict[str, Outcome]:
    """Play outages one after the other, perhaps on a real server, and return their outcomes."""
    outcomes = {}
    for title in titles:
        servers = real_servers(real, build=True) if real else embedded_server
        stage = Stage(with_line=with_line, wait_seconds=_WAIT_SECONDS, servers=servers)
        outcomes[title] = outcome = _ROWS[title](stage)
        where = "with pyinformer" if with_line else "plain kopf"
        sys.stderr.write(f"{where}: {title}: {outcome}\n")
    return outcomes


def table(header: str, plain: dict[str, Outcome], ours: dict[str, Outcome]) -> str:
    """Return a header, and a table."""
    text = header.format(
        kopf=version("kopf"),
        seconds=_WAIT_SECONDS,
        date=datetime.now(UTC).date(),
        python=platform.python_version(),
    )
    rows = (f"| {title} | {plain[title]} | {ours[title]} |\n" for title in plain)
    return text + _COLUMNS + "".join(rows)


def page_with(text: str, heading: str, section: str) -> str:
    """Return the page with the section under a heading replaced."""
    before, found, rest = text.partition(heading)
    _, next_heading, after = rest.partition("\n## ")
    return before + found + section + next_heading + after


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
    parser.add_argument("--real", action="store_true", help="on a real kube-apiserver")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    rows = ON_EITHER_SERVER if given.real else _ROWS
    titles = [title for title in rows if given.only in title]
    with ExitStack() as stack:
        real = stack.enter_context(KubeAPIServer(build=True)) if given.real else None
        plain = {} if given.side == "ours" else play(titles, with_line=False, real=real)
        if given.side == "plain":
            return
        with installed_line():
            ours = play(titles, with_line=True, real=real)
        if not given.page:
            return
        text = given.page.read_text()
        if real is None:
            section = table(_HEADER, plain, ours) + shutdowns()
            given.page.write_text(page_with(text, _HEADING, section))
        else:
            section = table(_REAL_HEADER, plain, ours)
            given.page.write_text(page_with(text, _REAL_HEADING, section))


if __name__ == "__main__":
    main()
