"""When a cache has reached a write, as a table: by its position, by the object, by a fresh look."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import anyio
import pytest

from pyinformer._runtime.tasks import loop_time
from pyinformer.cache.informer._barrier import Barrier, WriteTarget, is_proven
from pyinformer.cache.reflector import LiveIdentity
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, StaleCacheError
from pyinformer.objects import KubeObject, VersionOrder
from tests.cache.store.objects import pod
from tests.waiting import until

KEY = "default/a"


def _cached(version: int | None) -> KubeObject[Any] | None:
    return None if version is None else pod("a", version=version)  # its uid is "a"


@pytest.mark.covers(
    "controller-runtime pkg/client/internal/consistencyhandler: TestWaitForGetWaitsForMinRV"
)
@pytest.mark.parametrize(
    ("position", "cached", "expected"),
    [
        pytest.param("", None, False, id="nothing was loaded yet"),
        pytest.param("9", None, False, id="a shorter position is older"),
        pytest.param("10", None, True, id="at the version"),
        pytest.param("100", None, True, id="beyond it"),
        pytest.param("9", 9, False, id="the object is older"),
        pytest.param("9", 10, True, id="the object is there"),
        pytest.param("9", 11, True, id="the object is newer"),
    ],
)
def test_a_version_is_reached_by_position_or_by_its_object(
    position: str, cached: int | None, expected: bool
) -> None:
    assert WriteTarget.of("10", KEY, None).is_met(position, _cached(cached)) is expected


@pytest.mark.covers(
    "controller-runtime pkg/client/internal/consistencyhandler: TestWaitForGetWaitsForMinRV"
)
@pytest.mark.parametrize(
    ("uid", "cached", "expected"), [("a", 9, False), ("b", 9, True), ("a", None, True)]
)
def test_a_deletion_is_reached_when_the_uid_is_gone(
    uid: str, cached: int | None, expected: bool
) -> None:
    assert WriteTarget.of(None, KEY, uid).is_met("10", _cached(cached)) is expected


def test_versions_without_order_are_reached_by_equality_alone() -> None:
    wanted = WriteTarget.of("x7", KEY, None)
    assert not wanted.is_met("999", _cached(999))
    assert wanted.is_met("x7", None)


@pytest.mark.parametrize(
    ("fresh", "cached", "expected"),
    [
        pytest.param(LiveIdentity("12", "", ""), None, True, id="neither in scope nor cache"),
        pytest.param(LiveIdentity("12", "", ""), 8, False, id="gone, and still cached"),
        pytest.param(LiveIdentity("12", "", ""), 13, True, id="created again after the read"),
        pytest.param(LiveIdentity("12", "a", "11"), None, False, id="there, and not in the cache"),
        pytest.param(LiveIdentity("12", "a", "11"), 8, False, id="changed, and the cache is older"),
        pytest.param(LiveIdentity("12", "a", "8"), 8, True, id="unchanged in the scope"),
        pytest.param(LiveIdentity("9", "", ""), None, False, id="the answer is too old"),
        pytest.param(LiveIdentity("", "", ""), None, False, id="the answer has no version"),
    ],
)
def test_a_live_read_proves_only_that_cache_and_server_agree_on_the_key(
    fresh: LiveIdentity, cached: int | None, expected: bool
) -> None:
    assert is_proven(WriteTarget.of("10", KEY, None), fresh, _cached(cached)) is expected


@pytest.mark.parametrize(
    ("fresh", "cached", "expected"),
    [
        (LiveIdentity("z", "a", "8"), 8, True),
        (LiveIdentity("z", "a", "9"), 8, False),
        (LiveIdentity("z", "", ""), 8, False),
        (LiveIdentity("z", "", ""), None, True),
        (LiveIdentity("z", "a", "8"), None, False),
    ],
)
def test_a_live_read_without_an_order_proves_by_equality(
    fresh: LiveIdentity, cached: int | None, expected: bool
) -> None:
    assert is_proven(WriteTarget.of("x7", KEY, None), fresh, _cached(cached)) is expected


@pytest.mark.parametrize(
    ("fresh", "cached", "expected"),
    [
        pytest.param(LiveIdentity("12", "", ""), None, True, id="gone from both"),
        pytest.param(LiveIdentity("12", "b", "11"), None, True, id="a successor has the name"),
        pytest.param(LiveIdentity("12", "a", "11"), None, False, id="something holds it"),
        pytest.param(LiveIdentity("12", "", ""), 9, False, id="the cache has it still"),
    ],
)
def test_a_live_read_proves_a_deletion_when_neither_side_has_the_uid(
    fresh: LiveIdentity, cached: int | None, expected: bool
) -> None:
    assert is_proven(WriteTarget.of(None, KEY, "a"), fresh, _cached(cached)) is expected


class Followed:
    """A cache at a position that the test sets."""

    name = "pods"
    position = "9"
    version_order = VersionOrder.GLOBAL

    def get(self, key: str) -> KubeObject[None] | None:
        """Return nothing: it is empty."""

    def is_elsewhere(self, key: str) -> bool:
        """Return whether a key is in another namespace."""
        return key.startswith("other/")

    def is_outstanding(self, key: str, uid: str) -> bool:
        """Return False: nothing was written."""
        return False

    def check_running(self) -> None:
        """Allow every wait."""

    def state(self) -> tuple[str, str | None]:
        """Say that it watches."""
        return "watching", None

    async def read_live(self, key: str, version: str) -> LiveIdentity:
        """Fail: no test but one waits long enough."""
        raise AssertionError(key, version)


def barrier_of(followed: Followed) -> Barrier[None]:
    """Return a barrier of this cache."""
    return Barrier(cast("Any", followed))


async def test_waiters_of_an_ended_epoch_are_not_released_by_the_next_one() -> None:
    followed = Followed()
    barrier = barrier_of(followed)
    async with anyio.create_task_group() as group:

        async def wait() -> None:
            with pytest.raises(StaleCacheError, match="new epoch"):
                await barrier.wait(WriteTarget.of("10", KEY, None), timeout_seconds=5)

        group.start_soon(wait)
        await until(lambda: barrier.waiters)
        barrier.advance_nowait()
        followed.position = "10"  # of the new epoch: it proves nothing of the old one
        barrier.end_nowait("new epoch")


@pytest.mark.virtual_time
async def test_live_reads_happen_at_growing_intervals() -> None:
    now = asyncio.get_running_loop().time
    began_at, looks = now(), list[float]()

    class Listed(Followed):
        async def read_live(self, key: str, version: str) -> LiveIdentity:
            """Return an object that is there, and not in the cache."""
            looks.append(round(now() - began_at, 3))
            return LiveIdentity("12", "a", "11")

    with pytest.raises(StaleCacheError):
        await barrier_of(Listed()).wait(WriteTarget.of("10", KEY, None), timeout_seconds=20)
    assert looks == [1.0, 3.0, 7.0, 15.0]


async def test_bad_arguments_are_refused_for_other_namespaces_too() -> None:
    barrier = barrier_of(Followed())
    elsewhere = WriteTarget.of("10", "other/a", None)
    await barrier.wait(elsewhere, timeout_seconds=0)
    with pytest.raises(InvalidArgumentError):
        await barrier.wait(elsewhere, timeout_seconds=float("nan"))


@pytest.mark.parametrize(
    ("version", "key", "uid"), [(5, None, None), (b"5", None, None), ("5", 1, None), ("5", KEY, 1)]
)
def test_a_version_that_is_not_text_is_refused(version: Any, key: Any, uid: Any) -> None:
    with pytest.raises(InvalidTypeError):
        WriteTarget.of(version, key, uid)


@pytest.mark.parametrize(
    ("version", "key", "uid"), [("", None, None), (None, None, None), (None, KEY, None)]
)
def test_a_wait_for_nothing_is_refused(
    version: str | None, key: str | None, uid: str | None
) -> None:
    with pytest.raises(InvalidArgumentError):
        WriteTarget.of(version, key, uid)


@pytest.mark.parametrize(
    ("order", "uid", "cached", "expected"),
    [
        pytest.param("per_object", None, None, False, id="a position proves nothing"),
        pytest.param("per_object", None, 9, False, id="the object is older"),
        pytest.param("per_object", None, 10, True, id="the object is there"),
        pytest.param("per_object", None, 11, True, id="the object is newer"),
        pytest.param("per_object", "other", 11, False, id="another object of the name is newer"),
        pytest.param("opaque", None, None, False, id="opaque, and a position proves nothing"),
        pytest.param("opaque", None, 11, False, id="opaque, and the version is another"),
        pytest.param("opaque", None, 10, True, id="opaque, and the version is equal"),
        pytest.param("opaque", "other", 10, False, id="opaque, and the object is another"),
    ],
)
def test_without_a_global_order_only_the_object_itself_reaches_a_version(
    order: str, uid: str | None, cached: int | None, expected: bool
) -> None:
    wanted = WriteTarget.of("10", KEY, uid)
    for position in ("10", "100"):
        assert wanted.is_met(position, _cached(cached), VersionOrder(order)) is expected


@pytest.mark.parametrize(
    ("order", "fresh", "cached", "expected"),
    [
        pytest.param("per_object", LiveIdentity("2", "a", "12"), 12, True, id="the same"),
        pytest.param(
            "per_object", LiveIdentity("2", "a", "12"), 13, True, id="newer after the read"
        ),
        pytest.param("per_object", LiveIdentity("99", "a", "12"), 11, False, id="older"),
        pytest.param("per_object", LiveIdentity("99", "b", "3"), 11, False, id="another object"),
        pytest.param("per_object", LiveIdentity("99", "", ""), 11, False, id="gone"),
        pytest.param("per_object", LiveIdentity("2", "", ""), None, True, id="gone from both"),
        pytest.param("opaque", LiveIdentity("2", "a", "12"), 12, True, id="opaque, and the same"),
        pytest.param("opaque", LiveIdentity("2", "a", "12"), 13, False, id="opaque, and another"),
    ],
)
def test_without_a_global_order_a_live_read_proves_by_the_object_alone(
    order: str, fresh: LiveIdentity, cached: int | None, expected: bool
) -> None:
    wanted = WriteTarget.of("10", KEY, None)
    assert is_proven(wanted, fresh, _cached(cached), VersionOrder(order)) is expected


@pytest.mark.virtual_time
@pytest.mark.parametrize("order", [VersionOrder.PER_OBJECT, VersionOrder.OPAQUE])
async def test_without_a_global_order_a_wait_without_a_key_fails_at_once(
    order: VersionOrder,
) -> None:
    followed = Followed()
    followed.position = "100"
    followed.version_order = order
    barrier = barrier_of(followed)
    began_at = loop_time()
    with pytest.raises(StaleCacheError, match="pass the key"):
        await barrier.wait(WriteTarget.of("10", None, None), timeout_seconds=60)
    assert loop_time() == began_at
    assert not barrier.waiters
