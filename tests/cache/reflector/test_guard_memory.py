"""The memory of a guard is bounded, in number and in bytes."""

from __future__ import annotations

from pyinformer.cache.reflector.guard._memory import PointRead, PointReads, Tombstones

_BOUND = 4 << 20


def test_tombstones_are_bounded_in_number() -> None:
    dead = Tombstones()
    for number in range(10_050):
        dead.add(f"default/p{number}", "uid", f"{number + 1}")
    assert len(dead) == 10_000
    assert not dead.has("default/p49", "uid")
    assert dead.has("default/p50", "uid")


def test_tombstones_are_bounded_in_bytes() -> None:
    """A Role's name has no limit, and every deletion leaves the name here."""
    dead = Tombstones()
    for number in range(100):
        key = f"{number}" + "x" * (1 << 19)
        dead.add(key, "uid", "5", is_dated=number % 2 == 0)
        dead.add(key, "uid", "6")
        assert dead.held_bytes <= _BOUND
        assert dead.covers(key, "uid", "6")
    dead.lift(key, "uid")
    assert not dead.has(key, "uid")
    dead.add("x" * 2 * _BOUND, "uid", "7")
    assert len(dead) == dead.held_bytes == 0


def test_the_counted_bytes_are_those_of_the_kept_tombstones() -> None:
    dead = Tombstones()
    for number in range(50):
        dead.add(f"p{number % 7}", f"u{number % 3}", f"{number + 1}")
        dead.lift(f"p{number % 5}", f"u{number % 2}")
    names = [(f"p{key}", f"u{uid}") for key in range(7) for uid in range(3)]
    died = {name: dead._dead[name] for name in names if dead.has(*name)}
    assert dead.held_bytes == sum(len(k) + len(u) + len(v) for (k, u), v in died.items())
    dead.clear()
    assert dead.held_bytes == 0


def test_a_verification_of_a_huge_key_is_not_kept() -> None:
    readings = PointReads()
    for key in ("a", "x" * 5_000):
        readings.record(key, PointRead("5", "6", is_source=True))
    assert readings.covers("a", "6")
    assert not readings.covers("x" * 5_000, "6")
