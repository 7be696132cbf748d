"""Names that come near to one that was not found."""

from __future__ import annotations

import time

import pytest

from pyinformer.objects import near_names


def test_the_nearest_come_first() -> None:
    known = {word: word.upper() for word in ("jobs", "pods", "podz", "podtemplates")}
    assert near_names("Podzs", known) == ("PODZ", "PODS")


@pytest.mark.parametrize(
    "word",
    [pytest.param("thing{:05}", id="many"), pytest.param("t" * 55 + "{:05}", id="long")],
)
def test_the_number_of_compared_names_is_bounded(word: str) -> None:
    name = word.format(0).replace("0", "x")
    known = {word.format(number): "found" for number in range(12_000)}
    began = time.process_time()
    near_names(name, known)
    assert time.process_time() - began < 0.5
