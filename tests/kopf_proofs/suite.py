"""Which of kopf's own tests run with the line: the part for every change, and those that cannot.

The end-to-end tests are not among them; see `test_upstream.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

WHOLE: Final = ("tests",)
"""Every folder of kopf's tests."""

AROUND_HOOKS: Final = (
    "tests/authentication",
    "tests/handling/daemons",
    "tests/handling/indexing",
    "tests/k8s",
    "tests/observation",
    "tests/orchestration",
    "tests/peering",
    "tests/primitives",
    "tests/reactor",
    "tests/running",
    "tests/test_liveness.py",
)
"""The tests of what the line replaces, and of what is next to it."""

CANNOT_HOLD: Final[Mapping[str, str]] = {
    "tests/k8s/test_watching_infinitely.py::test_infinite_watch_never_exits_normally": (
        "it ends its stream by an HTTP status 555 to a watch, which the line retries without end"
    ),
    "tests/reactor/test_consistency_tracking.py::test_consistency_tracking_in_the_watcher": (
        "its objects have no name, and each watch that ends reports the same one as ADDED again;"
        " the line does not deliver such objects"
    ),
    "tests/reactor/test_queueing.py::test_garbage_collection_of_streams": (
        "its objects have no name; the line does not deliver such objects"
    ),
}
"""Tests of kopf that cannot hold with the line, each with the reason.

`docs/reference/kopf.md` shows them.
"""


def deselected() -> list[str]:
    """Return the arguments of pytest that leave these tests out."""
    return [word for name in CANNOT_HOLD for word in ("--deselect", name)]
