"""The memory of a guard is bounded, in number and in bytes."""

from __future__ import annotations

from itertools import count

from pyinformer.cache.reflector import Guard
from pyinformer.cache.reflector.guard import Decision
from tests.cache.reflector.samples import meta

_BOUND = 4 << 20


class Bench:
    """A guard of a stream, whose versions all have seven digits."""

    def __init__(self) -> None:
        self.guard = Guard()
        self._versions = map(str, count(1_000_000))
        self.guard.loaded(next(self._versions))

    def delete(self, key: str, uid: str = "uid") -> None:
        """Delete an object that the cache lacks."""
        self.guard.judge_deletion(key, meta(next(self._versions), uid), None)

    def add(self, key: str, uid: str = "uid") -> None:
        """Report an object that is not cached; if it was deleted, it matches its selector again."""
        version = next(self._versions)
        assert self.guard.judge_change(key, meta(version, uid), None) is Decision.ADD
        self.guard.applied(version)

    def begin_epoch(self) -> None:
        """Load a list of another history."""
        assert self.guard.loaded(next(self._versions), rewound=True)

    @property
    def tombstones(self) -> int:
        """How many deletions are remembered."""
        return self.guard.statistics().tombstones


def test_tombstones_are_bounded_in_number() -> None:
    bench = Bench()
    for number in range(10_050):
        bench.delete(f"default/p{number}")
    assert bench.tombstones == 10_000
    assert not bench.guard.has_tombstone("default/p49", "uid")
    assert bench.guard.has_tombstone("default/p50", "uid")


def test_tombstones_are_bounded_in_bytes() -> None:
    """A Role's name has no limit, and every deletion leaves the name here."""
    bench = Bench()
    keys = [f"{number}" + "x" * (1 << 19) for number in range(100)]
    for key in keys:
        bench.delete(key)
        bench.delete(key)
        held = [one for one in keys if bench.guard.has_tombstone(one, "uid")]
        assert sum(map(len, held)) <= _BOUND
        assert held[-1] == key
    bench.add(key)
    assert not bench.guard.has_tombstone(key, "uid")
    bench.delete("x" * 2 * _BOUND)
    assert bench.tombstones == 0


def kept(bench: Bench, size_bytes: int) -> int:
    """Return how many of five deletions of this size are remembered; they are forgotten again."""
    keys = [f"{number}".ljust(size_bytes - len("u1000000"), "x") for number in range(5)]
    for key in keys:
        bench.delete(key, "u")
    held = bench.tombstones
    for key in keys:
        bench.add(key, "u")
    return held


def test_the_counted_bytes_are_those_of_the_kept_tombstones() -> None:
    """A deletion that is forgotten leaves exactly its room to others."""
    bench, quarter = Bench(), _BOUND // 4
    assert (kept(bench, quarter), kept(bench, quarter + 1)) == (4, 3)
    for number in range(50):
        bench.delete(f"p{number % 7}", f"u{number % 3}")
        bench.add(f"p{number % 5}", f"u{number % 2}")
    for number in range(50):
        bench.add(f"p{number % 7}", f"u{number % 3}")
    assert (kept(bench, quarter), kept(bench, quarter + 1)) == (4, 3)
    bench.delete("left")
    bench.begin_epoch()
    assert bench.tombstones == 0
    assert (kept(bench, quarter), kept(bench, quarter + 1)) == (4, 3)


def test_a_verification_of_a_huge_key_is_not_kept() -> None:
    guard = Guard()
    guard.loaded("5")
    for key in ("a", "x" * 5_000):
        assert guard.judge_verified(key, meta("5"), None, "6") is Decision.ADD
    assert set(guard.read_after("5")) == {"a"}
