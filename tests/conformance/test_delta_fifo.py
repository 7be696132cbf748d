"""The promises of client-go's DeltaFIFO, each under the name of the upstream test that makes it.

The upstream name opens each docstring. What differs, and why, is in
`docs/reference/conformance-differences.md`; above all, objects of a list are always `Replaced`, as
in upstream's own informers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from pyinformer.cache.deltas import DeltaFIFO, Deltas, DeltaType
from pyinformer.errors import QueueClosedError
from pyinformer.objects import GroupVersionResource, JSONObject, KubeObject, ObjectCodec
from tests.cache.deltas.pods import known, pod, pod_bytes, read_all, settled, unknown


def delta_fifo(*objects: KubeObject[None]) -> DeltaFIFO[None]:
    return DeltaFIFO(known_objects=known(*objects))


def popped(queue: DeltaFIFO[None]) -> Deltas[None]:
    deltas = queue.pop_nowait()
    assert deltas is not None
    return deltas


def pops(queue: DeltaFIFO[None]) -> list[list[str]]:
    """Pop until empty; one inner list for each pop."""
    found = []
    while deltas := queue.pop_nowait():
        found.append(read_all(deltas))
    return found


def newest(queue: DeltaFIFO[None], key: str) -> str | None:
    obj = queue.get(key)
    return None if obj is None else obj.metadata.resource_version


@pytest.mark.covers(
    "client-go tools/cache: TestDeltaFIFO_basic", "client-go tools/cache: TestFIFO_basic"
)
async def test_delta_fifo_basic() -> None:
    """client-go TestDeltaFIFO_basic: two producers of 500, each one's order is kept."""
    queue = delta_fifo()

    async def produce(prefix: str) -> None:
        for number in range(1, 501):
            queue.add_nowait(pod(f"{prefix}{number}", number))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(produce("a"))
        group.create_task(produce("b"))
        keys = [(await queue.pop())[-1].key for _ in range(1000)]

    assert [key for key in keys if key[0] == "a"] == [f"a{number}" for number in range(1, 501)]
    assert [key for key in keys if key[0] == "b"] == [f"b{number}" for number in range(1, 501)]
    assert len(queue) == 0


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_replaceWithDeleteDeltaIn")
def test_delta_fifo_replace_with_delete_delta_in() -> None:
    """client-go TestDeltaFIFO_replaceWithDeleteDeltaIn: a recreation is not lost (k/k#83810)."""
    old, new = pod("foo", 1, "first"), pod("foo", 2, "second")
    queue = delta_fifo(old)

    queue.delete_nowait(old)
    queue.replace_list_nowait([new], "2")

    assert pops(queue) == [["Deleted foo 1", "Replaced foo 2"]]


@pytest.mark.covers(
    "client-go tools/cache: TestDeltaFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue"
)
@pytest.mark.parametrize("has_known_objects", [True, False], ids=["known-objects", "no-lister"])
@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param(
            [lambda q: q.add_nowait(pod("foo", 1)), lambda q: q.replace_list_nowait([], "0")],
            ["Added foo 1", "Deleted foo (unknown 1)"],
            id="added-object-deleted-on-replace",
        ),
        pytest.param(
            [
                lambda q: q.replace_list_nowait([pod("foo", 1)], "0"),
                lambda q: q.replace_list_nowait([], "0"),
            ],
            ["Replaced foo 1", "Deleted foo (unknown 1)"],
            id="replaced-object-deleted-on-replace",
        ),
        pytest.param(
            [
                lambda q: q.add_nowait(pod("foo", 1)),
                lambda q: q.delete_nowait(pod("foo", 1)),
                lambda q: q.replace_list_nowait([], "0"),
            ],
            ["Added foo 1", "Deleted foo 1"],
            id="final-state-outlives-the-tombstone",
        ),
        pytest.param(
            [
                lambda q: q.replace_list_nowait([pod("foo", 1)], "0"),
                lambda q: q.replace_list_nowait([pod("foo", 1)], "0"),
                lambda q: q.replace_list_nowait([], "0"),
            ],
            ["Replaced foo 1", "Replaced foo 1", "Deleted foo (unknown 1)"],
            id="two-lists-then-an-empty-one",
        ),
        pytest.param(
            [
                lambda q: q.add_nowait(pod("foo", 1)),
                lambda q: q.replace_list_nowait([], "0"),
                lambda q: q.replace_list_nowait([], "0"),
            ],
            ["Added foo 1", "Deleted foo (unknown 1)"],
            id="one-tombstone-for-two-empty-lists",
        ),
        pytest.param(
            [
                lambda q: q.add_nowait(pod("foo", 1)),
                lambda q: q.delete_nowait(pod("foo", 1)),
                lambda q: q.add_nowait(pod("foo", 2)),
                lambda q: q.replace_list_nowait([], "0"),
            ],
            ["Added foo 1", "Deleted foo 1", "Added foo 2", "Deleted foo (unknown 2)"],
            id="tombstone-carries-the-newest-queued-state",
        ),
    ],
)
def test_delta_fifo_w_replace_makes_deletions_for_objects_only_in_queue(
    operations: Sequence[Callable[[DeltaFIFO[None]], None]],
    expected: list[str],
    has_known_objects: bool,
) -> None:
    """client-go TestDeltaFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue."""
    queue = delta_fifo() if has_known_objects else DeltaFIFO[None]()

    for operation in operations:
        operation(queue)

    assert pops(queue) == [expected]


@pytest.mark.covers(
    "client-go tools/cache: TestDeltaFIFO_addUpdate", "client-go tools/cache: TestFIFO_addUpdate"
)
def test_delta_fifo_add_update() -> None:
    """client-go TestDeltaFIFO_addUpdate: one entry for a key; `get` shows the newest state."""
    queue = delta_fifo()

    queue.add_nowait(pod("foo", 10))
    queue.update_nowait(pod("foo", 12))
    assert newest(queue, "foo") == "12"
    queue.delete_nowait(pod("foo", 15))

    assert len(queue) == 1
    assert newest(queue, "foo") is None  # upstream's Get shows the deleted state
    assert pops(queue) == [["Added foo 10", "Updated foo 12", "Deleted foo 15"]]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_transformer")
def test_delta_fifo_transformer() -> None:
    """client-go TestDeltaFIFO_transformer: each object once, tombstones not again."""
    transformed: list[str] = []

    def transform(obj: JSONObject) -> JSONObject:
        meta = obj["metadata"]
        assert isinstance(meta, dict)
        transformed.append(f"{meta['name']} {meta['resourceVersion']}")
        return obj

    codec: ObjectCodec[None] = ObjectCodec(
        GroupVersionResource.of("v1", "pods"), transform=transform
    )

    def arrive(name: str, version: int) -> KubeObject[None]:
        data = pod_bytes(name, version)
        return codec.decode(data, 0, len(data))

    queue = delta_fifo()
    queue.add_nowait(arrive("foo", 10))
    queue.update_nowait(arrive("foo", 12))
    queue.delete_nowait(arrive("foo", 15))
    queue.add_nowait(arrive("bar", 16))
    queue.replace_list_nowait([], "0")
    queue.delete_nowait(unknown("foo", 15))

    assert pops(queue) == [
        ["Added foo 10", "Updated foo 12", "Deleted foo 15"],
        ["Added bar 16", "Deleted bar (unknown 16)"],
    ]
    assert transformed == ["foo 10", "foo 12", "foo 15", "bar 16"]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_enqueueingNoLister")
def test_delta_fifo_enqueueing_no_lister() -> None:
    """client-go TestDeltaFIFO_enqueueingNoLister: the deletion of an unknown key is dropped."""
    queue = DeltaFIFO[None]()

    queue.add_nowait(pod("foo", 10))
    queue.update_nowait(pod("bar", 15))
    queue.add_nowait(pod("qux", 17))
    queue.delete_nowait(pod("qux", 18))
    queue.delete_nowait(pod("baz", 20))

    assert pops(queue) == [
        ["Added foo 10"],
        ["Updated bar 15"],
        ["Added qux 17", "Deleted qux 18"],
    ]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_enqueueingWithLister")
def test_delta_fifo_enqueueing_with_lister() -> None:
    """client-go TestDeltaFIFO_enqueueingWithLister: a known object's deletion is queued."""
    queue = delta_fifo(pod("foo", 5), pod("bar", 5), pod("baz", 5))

    queue.add_nowait(pod("foo", 10))
    queue.update_nowait(pod("bar", 15))
    queue.delete_nowait(pod("baz", 20))

    assert pops(queue) == [["Added foo 10"], ["Updated bar 15"], ["Deleted baz 20"]]


@pytest.mark.covers(
    "client-go tools/cache: TestDeltaFIFO_addReplace", "client-go tools/cache: TestFIFO_addReplace"
)
def test_delta_fifo_add_replace() -> None:
    """client-go TestDeltaFIFO_addReplace: one pop ends with the newest state."""
    queue = delta_fifo()

    queue.add_nowait(pod("foo", 10))
    queue.replace_list_nowait([pod("foo", 15)], "15")

    assert newest(queue, "foo") == "15"
    assert pops(queue) == [["Added foo 10", "Replaced foo 15"]]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_ResyncNonExisting")
def test_delta_fifo_resync_non_existing() -> None:
    """client-go TestDeltaFIFO_ResyncNonExisting: a queued deletion is not followed by a sync."""
    queue = delta_fifo(pod("foo", 5))

    queue.delete_nowait(pod("foo", 10))
    queue.resync_nowait()

    assert pops(queue) == [["Deleted foo 10"]]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_Resync")
def test_delta_fifo_resync() -> None:
    """client-go TestDeltaFIFO_Resync: a known object is synced once."""
    queue = delta_fifo(pod("foo", 5))

    queue.resync_nowait()

    assert pops(queue) == [["Sync foo 5"]]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_DeleteExistingNonPropagated")
def test_delta_fifo_delete_existing_non_propagated() -> None:
    """client-go TestDeltaFIFO_DeleteExistingNonPropagated: addition and deletion both stay."""
    queue = delta_fifo()

    queue.add_nowait(pod("foo", 5))
    queue.delete_nowait(pod("foo", 6))

    assert pops(queue) == [["Added foo 5", "Deleted foo 6"]]


_KNOWN = (pod("foo", 5), pod("bar", 6), pod("baz", 7))


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_ReplaceMakesDeletions")
@pytest.mark.parametrize(
    ("objects", "operations", "expected"),
    [
        pytest.param(
            _KNOWN,
            [
                lambda q: q.delete_nowait(pod("baz", 10)),
                lambda q: q.replace_list_nowait([pod("foo", 5)], "0"),
            ],
            [["Deleted baz 10"], ["Replaced foo 5"], ["Deleted bar (unknown 6)"]],
            id="delete-then-replace",
        ),
        pytest.param(
            _KNOWN,
            [
                lambda q: q.add_nowait(pod("baz", 10)),
                lambda q: q.replace_list_nowait([pod("foo", 5)], "0"),
            ],
            [
                ["Added baz 10", "Deleted baz (unknown 10)"],
                ["Replaced foo 5"],
                ["Deleted bar (unknown 6)"],
            ],
            id="add-then-replace",
        ),
        pytest.param(
            _KNOWN,
            [
                lambda q: q.delete_nowait(pod("foo", 5)),
                lambda q: q.add_nowait(pod("foo", 8, "second")),
                lambda q: q.replace_list_nowait([pod("foo", 8, "second")], "0"),
            ],
            [
                ["Deleted foo 5", "Added foo 8", "Replaced foo 8"],
                ["Deleted bar (unknown 6)"],
                ["Deleted baz (unknown 7)"],
            ],
            id="recreate-then-replace",
        ),
        pytest.param(
            None,
            [
                lambda q: q.add_nowait(pod("baz", 10)),
                lambda q: q.replace_list_nowait([pod("foo", 5)], "0"),
            ],
            [["Added baz 10", "Deleted baz (unknown 10)"], ["Replaced foo 5"]],
            id="no-lister",
        ),
        pytest.param(
            None,
            [
                lambda q: q.add_nowait(pod("baz", 10)),
                lambda q: q.delete_nowait(pod("baz", 11)),
                lambda q: q.replace_list_nowait([pod("foo", 5)], "0"),
            ],
            [["Added baz 10", "Deleted baz 11"], ["Replaced foo 5"]],
            id="no-lister-deleted-already",
        ),
    ],
)
def test_delta_fifo_replace_makes_deletions(
    objects: Sequence[KubeObject[None]] | None,
    operations: Sequence[Callable[[DeltaFIFO[None]], None]],
    expected: list[list[str]],
) -> None:
    """client-go TestDeltaFIFO_ReplaceMakesDeletions: the list, then tombstones of known keys."""
    queue = DeltaFIFO[None]() if objects is None else delta_fifo(*objects)

    for operation in operations:
        operation(queue)

    assert pops(queue) == expected


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_ReplaceMakesDeletionsReplaced")
def test_delta_fifo_replace_makes_deletions_replaced() -> None:
    """client-go TestDeltaFIFO_ReplaceMakesDeletionsReplaced: the list's type is Replaced."""
    queue = delta_fifo(*_KNOWN)

    queue.delete_nowait(pod("baz", 10))
    queue.replace_list_nowait([pod("foo", 6)], "0")

    assert pops(queue) == [["Deleted baz 10"], ["Replaced foo 6"], ["Deleted bar (unknown 6)"]]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_ReplaceDeltaType")
def test_delta_fifo_replace_delta_type() -> None:
    """client-go TestDeltaFIFO_ReplaceDeltaType: a known object in a list is Replaced, no Sync."""
    queue = delta_fifo(pod("foo", 5))

    queue.replace_list_nowait([pod("foo", 5)], "0")

    assert [delta.type for delta in queue.drain_nowait()] == [DeltaType.REPLACED]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_UpdateResyncRace")
def test_delta_fifo_update_resync_race() -> None:
    """client-go TestDeltaFIFO_UpdateResyncRace: what has an update queued is not synced."""
    queue = delta_fifo(pod("foo", 5))

    queue.update_nowait(pod("foo", 6))
    queue.resync_nowait()

    assert pops(queue) == [["Updated foo 6"]]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_HasSyncedCorrectOnDeletion")
def test_delta_fifo_has_synced_correct_on_deletion() -> None:
    """client-go TestDeltaFIFO_HasSyncedCorrectOnDeletion: tombstones count as initial, too."""
    queue = delta_fifo(*_KNOWN)
    queue.replace_list_nowait([pod("foo", 5)], "0")

    seen = []
    for expected in ("Replaced foo 5", "Deleted bar (unknown 6)", "Deleted baz (unknown 7)"):
        assert not queue.has_synced
        deltas = popped(queue)
        seen += [delta.is_in_initial_list for delta in deltas]
        assert read_all(deltas) == [expected]

    assert queue.has_synced
    assert seen == [True, True, True]


@pytest.mark.covers(
    "client-go tools/cache: TestDeltaFIFO_detectLineJumpers",
    "client-go tools/cache: TestFIFO_detectLineJumpers",
)
def test_delta_fifo_detect_line_jumpers() -> None:
    """client-go TestDeltaFIFO_detectLineJumpers: a key keeps its place, a popped one queues again.

    Upstream looks at the newest state of each pop: 13, 1, 30, 14.
    """
    queue = delta_fifo()

    for name, version in (("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)):
        queue.add_nowait(pod(name, version))
    head = read_all(popped(queue))
    queue.add_nowait(pod("foo", 14))

    assert head == ["Added foo 10", "Added foo 11", "Added foo 13"]
    assert pops(queue) == [["Added bar 1"], ["Added zab 30"], ["Added foo 14"]]


@pytest.mark.covers("client-go tools/cache: TestDeltaFIFO_KeyOf")
def test_delta_fifo_key_of() -> None:
    """client-go TestDeltaFIFO_KeyOf: object, tombstone, tombstone of nothing, all of a pop."""
    queue = delta_fifo(pod("A"), pod("B"), pod("C"))

    queue.add_nowait(pod("A"))
    queue.delete_nowait(unknown("B"))
    queue.delete_nowait(unknown("C", 1))
    queue.delete_nowait(pod("A"))

    assert [[delta.key for delta in popped(queue)] for _ in range(3)] == [["A", "A"], ["B"], ["C"]]


@pytest.mark.covers(
    "client-go tools/cache: TestDeltaFIFO_HasSynced", "client-go tools/cache: TestFIFO_HasSynced"
)
@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param([], False, id="nothing"),
        pytest.param([lambda q: q.add_nowait(pod("a"))], False, id="add-alone"),  # upstream: True
        pytest.param([lambda q: q.replace_list_nowait([], "0")], True, id="empty-list"),
        pytest.param(
            [lambda q: q.replace_list_nowait([pod("a"), pod("b")], "0")], False, id="list"
        ),
        pytest.param(
            [lambda q: q.replace_list_nowait([pod("a"), pod("b")], "0"), popped],
            False,
            id="list-and-one-pop",
        ),
        pytest.param(
            [lambda q: q.replace_list_nowait([pod("a"), pod("b")], "0"), popped, popped],
            True,
            id="list-and-two-pops",
        ),
        pytest.param(
            [lambda q: q.replace_list_nowait([pod("a", 1), pod("a", 2)], "0"), popped],
            True,
            id="duplicate-key-needs-one-pop",
        ),
        pytest.param(
            [
                lambda q: q.add_nowait(pod("a")),
                popped,
                lambda q: q.replace_list_nowait([pod("a")], "0"),
            ],
            False,
            id="list-after-an-add",
        ),
    ],
)
def test_delta_fifo_has_synced(
    operations: Sequence[Callable[[DeltaFIFO[None]], object]], *, expected: bool
) -> None:
    """client-go TestDeltaFIFO_HasSynced; an event before the first list makes nothing synced."""
    queue = delta_fifo()

    for operation in operations:
        operation(queue)

    assert queue.has_synced is expected


@pytest.mark.covers(
    "client-go tools/cache: TestDeltaFIFO_PopShouldUnblockWhenClosed",
    "client-go tools/cache: TestFIFO_PopShouldUnblockWhenClosed",
)
async def test_delta_fifo_pop_should_unblock_when_closed() -> None:
    """client-go TestDeltaFIFO_PopShouldUnblockWhenClosed: ten who wait all end."""
    queue = delta_fifo()
    waiting = [asyncio.create_task(queue.pop()) for _ in range(10)]
    await settled()
    assert queue.statistics(0.0).waiters == 10

    queue.close()

    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosedError] * 10
