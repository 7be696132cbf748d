"""What is remembered of the fields that servers do not store."""

from __future__ import annotations

import pytest

from pyinformer import GroupVersionResource
from pyinformer.cluster._unstored import UnstoredFields

WIDGETS = GroupVersionResource.of("example.com/v1", "widgets")


def test_unknown_names_are_bounded_in_memory_and_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fields = UnstoredFields()
    for number in range(1_000):
        for _ in range(2):
            fields.record(WIDGETS, iter([f"status.{number}.{'x' * 10_000}", "status.typo"]))
    (paths,) = fields.reported.values()
    assert len(paths) == 256
    assert sum(map(len, paths)) <= 256 * 200
    assert len(caplog.records) <= 255  # the first line has two
    assert caplog.text.count("status.typo") == 1
