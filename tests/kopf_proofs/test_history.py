"""kopf does the same with the line as without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.kopf_proofs.history import History
from tests.kopf_proofs.line import installed_line

if TYPE_CHECKING:
    from tests.integration.servers import Server


def test_one_history_causes_the_same_calls_and_patches(server: Server) -> None:
    """Events, reasons, bodies, diffs, retries and patches are equal, for each object in order."""
    server.serve_widgets()
    plain = History(server).play()

    with installed_line():
        ours = History(server).play()

    assert plain.keys() == {"first", "a", "b", "c", "d"}
    for name, calls in plain.items():
        assert ours[name] == calls
