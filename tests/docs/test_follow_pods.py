"""The tutorial on following pods: each of its commands prints what the page shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.command_line import complaints
from tests.docs.terminals import Terminals

if TYPE_CHECKING:
    from pathlib import Path

_PAGE = "docs/tutorials/follow-pods.md"  # its "console" blocks, and the "python" ones as files


@pytest.mark.timeout(180)
def test_each_command_of_the_tutorial_prints_the_shown_output(tmp_path: Path) -> None:
    with Terminals(_PAGE, tmp_path) as terminals:
        found = terminals.run_page(long_running={"server", "program"})

    for printed, said in found:
        # Two lines may come in either order.
        assert sorted(complaints("\n".join(said))) == sorted(printed)
    assert sum(len(printed) for printed, _ in found) == 12
