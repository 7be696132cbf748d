"""What an operator with pyinformer makes of each outage.

`table.py` plays the same outages with plain kopf, too, for the page docs/reference/kopf-outages.md.
"""

from __future__ import annotations

import pytest

from tests.kopf_proofs.outages import OUTAGES, Stage
from tests.kopf_proofs.terminations import TERMINATIONS

STAGE = Stage(with_line=True, wait_seconds=100.0)


@pytest.mark.usefixtures("line")
@pytest.mark.parametrize("title", OUTAGES)
def test_an_operator_survives_outages_and_misses_nothing(title: str) -> None:
    """Its handlers are called for everything, and its index equals the server."""
    outcome = OUTAGES[title](STAGE)

    assert outcome.is_right, str(outcome)


@pytest.mark.parametrize("title", TERMINATIONS)
def test_a_program_ends_in_order(title: str) -> None:
    """`kopf run` exits with 0 after SIGTERM, and logs no error."""
    outcome = TERMINATIONS[title](STAGE)

    assert outcome.is_right, str(outcome)
