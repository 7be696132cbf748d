"""The benchmark of kopf on pyinformer: its operators run, and its rows compare figures."""

from __future__ import annotations

from benchmarks.harness.phases import Measurement
from benchmarks.kopf_line.__main__ import Figure, scenes


def test_both_operators_see_every_object_and_update() -> None:
    measured = scenes(0.002)["events"].turn((None, None))

    assert list(measured) == ["plain", "line"]
    for found in measured.values():
        assert (found.objects, found.updates) == (4, 6)
        # kopf merges updates of one object that arrive within its batch window.
        assert found.updates_seen in range(1, 7)


def test_memory_is_that_of_the_further_objects() -> None:
    figure = Figure(
        "memory",
        "B",
        lambda found: found.extra["held_bytes"] / found.objects,
        ("many", "plain"),
        ("many", "line"),
        "",
        is_difference=True,
        less="few",
    )

    def weighed(objects: int, plain: int, ours: int) -> dict[str, Measurement]:
        return {
            "plain": Measurement("", objects=objects, extra={"held_bytes": plain}),
            "line": Measurement("", objects=objects, extra={"held_bytes": ours}),
        }

    turns = [{"many": weighed(110, 1600, 9500), "few": weighed(10, 600, 8000)}, {}]

    assert figure.row(turns) == "| memory | 10 B | 15 B | +5.00 B |  |"


def test_the_sides_of_a_scene_run_in_reverse_order_too() -> None:
    scene = scenes(0.002)["few indexed"]

    assert list(scene.turn((None, None), is_reversed=True)) == ["line", "plain"]


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
