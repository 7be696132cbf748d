"""The benchmark of kopf on pyinformer: its operators run, and its rows compare figures."""

from __future__ import annotations

from benchmarks.harness.phases import Measurement
from benchmarks.kopf_line.__main__ import Figure, scenes


def test_both_operators_see_every_object_and_update() -> None:
    measured = scenes(0.002)["events"].turn((None, None))

    assert measured.keys() == {"plain", "line"}
    for found in measured.values():
        assert (found.objects, found.updates, found.updates_seen) == (4, 12, 12)


def test_a_row_has_the_median_of_the_ratios_of_each_turn() -> None:
    figure = Figure(
        "start", "s", lambda found: found.objects, ("one", "plain"), ("one", "line"), "<= 2x"
    )
    pairs = ((10, 20), (10, 30), (30, 30))
    turns = [
        {"one": {"plain": Measurement("", objects=plain), "line": Measurement("", objects=ours)}}
        for plain, ours in pairs
    ]

    assert figure.row(turns) == "| start | 10 s | 30 s | 2.00x | <= 2x |"
