"""What is remembered of objects that cannot be read, as plain calls."""

from __future__ import annotations

import logging

import pytest

from pyinformer.cache.reflector import Guard
from pyinformer.cache.reflector._quarantine import Quarantine
from pyinformer.objects import KubeObject
from tests.cache.reflector.samples import PODS, DictSink, pod

_PROBLEM = "cannot be read as asked: Expected `int`"


def bad(name: str, version: str, uid: str = "uid-1") -> KubeObject[None]:
    """Return a pod with a problem."""
    good = pod(name, version, uid)
    return KubeObject(good.key, good.metadata, None, good.raw, good.gvk, _PROBLEM)


class Cache(DictSink):
    """A cache and its quarantine."""

    def __init__(self, *objects: KubeObject[None]) -> None:
        super().__init__(*objects)
        self._guard = Guard()
        self.quarantine: Quarantine[None] = Quarantine(str(PODS), self, self._guard)

    @property
    def counted(self) -> int:
        """How many unreadable objects were counted."""
        return self._guard.statistics().counts["undecodable:kept"]

    def arrives(self, obj: KubeObject[None]) -> None:
        """Do what a reflector does with an object."""
        if obj.problem:
            self.quarantine.record(obj)
        self.objects[obj.key] = obj


def test_the_last_good_state_is_found_and_marked() -> None:
    cache = Cache(pod("a", "5"))
    for version in ("6", "7", "8"):
        cache.arrives(bad("a", version))

    stale = cache.quarantine.last_good("a")
    assert stale is not None
    assert stale.object.metadata.resource_version == "5"
    assert stale.newest_resource_version == "8"
    assert stale.problem == _PROBLEM
    assert cache.quarantine.keys() == ("a",)
    assert cache.counted == 3


def test_nothing_is_stale_once_the_object_is_good_again() -> None:
    cache = Cache(pod("a", "5"))
    cache.arrives(bad("a", "6"))
    cache.arrives(pod("a", "7"))
    assert cache.quarantine.last_good("a") is None
    assert cache.quarantine.keys() == ()

    cache.arrives(bad("a", "8"))
    stale = cache.quarantine.last_good("a")
    assert stale is not None
    assert stale.object.metadata.resource_version == "7"


def test_another_object_of_the_name_was_never_good() -> None:
    cache = Cache(pod("a", "5"))
    cache.arrives(bad("a", "6"))
    cache.arrives(bad("a", "9", "uid-2"))

    assert cache.quarantine.last_good("a") is None


def test_a_deleted_or_never_readable_object_has_no_last_state() -> None:
    cache = Cache(pod("a", "5"))
    cache.arrives(bad("a", "6"))
    cache.arrives(bad("b", "7"))
    del cache.objects["a"]

    assert cache.quarantine.last_good("a") is None
    assert cache.quarantine.last_good("b") is None
    assert cache.quarantine.last_good("c") is None


def test_an_event_that_is_not_applied_takes_nothing_away() -> None:
    """The guard may skip what was decoded."""
    cache = Cache(pod("a", "5"))
    cache.quarantine.record(bad("a", "4"))

    assert cache.quarantine.last_good("a") is None
    cache.arrives(bad("a", "6"))
    assert cache.quarantine.last_good("a") is not None


def test_a_bad_object_is_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache(pod("a", "5"))
    for version in ("6", "7", "7"):
        cache.arrives(bad("a", version))
    cache.arrives(bad("b", "8"))

    assert [record.__dict__["key"] for record in caplog.records] == ["a", "b"]
    assert all(record.levelno == logging.ERROR for record in caplog.records)


def test_a_new_schema_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Neither by events nor by a list, of which nothing is cached before all of it is there."""
    cache = Cache(*(pod(f"p{n}", "5") for n in range(1000)))
    for number in range(500):
        cache.arrives(bad(f"p{number}", "6"))
    for number in range(500, 1000):
        cache.quarantine.record(bad(f"p{number}", "6"))

    assert len(caplog.records) == 10
    assert "further ones are only counted" in caplog.records[-1].getMessage()
    assert cache.counted == 1000


def test_memory_is_bounded_and_keeps_the_latest() -> None:
    cache = Cache(*(pod(f"p{n}", "5") for n in range(1000)))
    for number in range(1000):
        cache.arrives(bad(f"p{number}", "6"))

    assert len(cache.quarantine.keys()) == 256
    assert cache.quarantine.last_good("p999") is not None
    assert cache.quarantine.last_good("p0") is None


@pytest.mark.parametrize("others", ["never good", "good again", "gone"])
def test_objects_without_a_good_state_are_evicted_first(others: str) -> None:
    """Otherwise many objects that were never readable would displace the one state that counts."""
    cache = Cache(*([] if others == "never good" else [pod(f"p{n}", "5") for n in range(300)]))
    cache.objects["a"] = pod("a", "5")
    cache.arrives(bad("a", "6"))
    for number in range(300):
        cache.arrives(bad(f"p{number}", "7"))
        if others == "good again":
            cache.arrives(pod(f"p{number}", "8"))
        elif others == "gone":
            del cache.objects[f"p{number}"]

    assert cache.quarantine.last_good("a") is not None
    assert cache.quarantine.keys()[0] == "a"


def test_a_sweep_releases_what_is_good_again() -> None:
    cache = Cache(pod("a", "5"), pod("b", "5"))
    cache.arrives(bad("a", "6"))
    cache.arrives(bad("b", "6"))
    cache.arrives(pod("a", "7"))
    cache.quarantine.sweep()
    cache.objects["a"] = bad("a", "8")  # as if it had come past the quarantine

    assert cache.quarantine.last_good("a") is None
    assert cache.quarantine.last_good("b") is not None


def test_good_states_are_bounded_in_bytes() -> None:
    """A tenant can make any number of large objects unreadable."""
    cache = Cache()
    for number in range(100):
        cache.arrives(large(f"p{number}", 1 << 20))
        cache.arrives(bad(f"p{number}", "6"))
        assert cache.quarantine.held_bytes <= 16 << 20
    assert cache.quarantine.last_good("p99") is not None
    assert cache.quarantine.last_good("p0") is None
    cache.objects.clear()
    cache.quarantine.sweep()
    assert cache.quarantine.held_bytes == 0


def test_a_state_that_is_larger_than_the_bound_is_not_held() -> None:
    cache = Cache(pod("a", "5"), large("b", 17 << 20))
    for name in ("a", "b"):
        cache.arrives(bad(name, "6"))
    assert cache.quarantine.last_good("a") is not None
    assert cache.quarantine.last_good("b") is None
    assert cache.quarantine.keys() == ("a", "b")


def large(name: str, size: int) -> KubeObject[None]:
    """Return a pod with so large a body."""
    good = pod(name, "5")
    return KubeObject(good.key, good.metadata, None, good.raw + b" " * size, good.gvk)
