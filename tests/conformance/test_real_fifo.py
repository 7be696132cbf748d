"""The promises of client-go's RealFIFO, each under the name of the upstream test that makes it.

The upstream name opens each docstring. What differs, and why, is in
`docs/reference/conformance-differences.md`. Without further words a queue works out lists against
its known objects, as upstream's tests do unless they say "atomic".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from pyinformer.cache.deltas import Delta, DeltaType, RealFIFO
from pyinformer.errors import InvalidArgumentError, QueueClosedError
from pyinformer.objects import GroupVersionResource, JSONObject, KubeObject, ObjectCodec
from tests.cache.deltas.pods import known, pod, pod_bytes, read, read_all, settled, unknown


def real_fifo(*objects: KubeObject[None]) -> RealFIFO[None]:
    return RealFIFO(known_objects=known(*objects), atomic_events=False)


def drained(queue: RealFIFO[None]) -> list[str]:
    return read_all(queue.drain_nowait())


def popped(queue: RealFIFO[None]) -> Delta[None]:
    delta = queue.pop_nowait()
    assert delta is not None
    return delta


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_basic")
async def test_real_fifo_basic() -> None:
    """client-go TestRealFIFO_basic: two producers of 500, each one's order is kept."""
    queue = real_fifo()

    async def produce(prefix: str) -> None:
        for number in range(1, 501):
            queue.add_nowait(pod(f"{prefix}{number}", number))
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(produce("a"))
        group.create_task(produce("b"))
        keys = [(await queue.pop()).key for _ in range(1000)]

    assert [key for key in keys if key[0] == "a"] == [f"a{number}" for number in range(1, 501)]
    assert [key for key in keys if key[0] == "b"] == [f"b{number}" for number in range(1, 501)]
    assert len(queue) == 0


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_replaceWithDeleteDeltaIn")
def test_real_fifo_replace_with_delete_delta_in() -> None:
    """client-go TestRealFIFO_replaceWithDeleteDeltaIn: a recreation is not lost (k/k#83810)."""
    old, new = pod("foo", 1, "first"), pod("foo", 2, "second")
    queue = real_fifo(old)

    queue.delete_nowait(old)
    queue.replace_list_nowait([new], "2")

    assert drained(queue) == ["Deleted foo 1", "Replaced foo 2"]


@pytest.mark.covers(
    "client-go tools/cache: TestRealFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue"
)
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
                lambda q: q.add_nowait(pod("foo", 1)),
                lambda q: q.delete_nowait(pod("foo", 1)),
                lambda q: q.replace_list_nowait([], "0"),
            ],
            ["Added foo 1", "Deleted foo 1"],
            id="object-deleted-already-is-not-deleted-again",
        ),
        pytest.param(
            [
                lambda q: q.replace_list_nowait([pod("foo", 1)], "0"),
                lambda q: q.replace_list_nowait([pod("foo", 1)], "0"),
                lambda q: q.replace_list_nowait([], "0"),
            ],
            ["Replaced foo 1", "Replaced foo 1", "Deleted foo (unknown 1)"],
            id="replaced-object-deleted-on-replace",
        ),
        pytest.param(
            [
                lambda q: q.replace_list_nowait([pod("foo", 1)], "0"),
                lambda q: q.replace_list_nowait([], "0"),
                lambda q: q.replace_list_nowait([], "0"),
            ],
            ["Replaced foo 1", "Deleted foo (unknown 1)"],
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
        pytest.param(
            [
                lambda q: q.add_nowait(pod("foo", 1)),
                lambda q: q.bookmark_nowait("5"),
                lambda q: q.replace_list_nowait([], "0"),
            ],
            ["Added foo 1", "Deleted foo (unknown 1)"],
            id="bookmark-is-ignored",
        ),
    ],
)
def test_real_fifo_w_replace_makes_deletions_for_objects_only_in_queue(
    operations: Sequence[Callable[[RealFIFO[None]], None]], expected: list[str]
) -> None:
    """client-go TestRealFIFOW_ReplaceMakesDeletionsForObjectsOnlyInQueue."""
    queue = real_fifo()

    for operation in operations:
        operation(queue)

    assert drained(queue) == expected


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_addUpdate")
def test_real_fifo_add_update() -> None:
    """client-go TestRealFIFO_addUpdate: three calls for one key are three entries, in order."""
    queue = real_fifo()

    queue.add_nowait(pod("foo", 10))
    queue.update_nowait(pod("foo", 12))
    queue.delete_nowait(pod("foo", 15))

    assert len(queue) == 3
    assert drained(queue) == ["Added foo 10", "Updated foo 12", "Deleted foo 15"]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_transformer")
def test_real_fifo_transformer() -> None:
    """client-go TestRealFIFO_transformer: once per object, tombstones not again, deletes kept."""
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

    queue = real_fifo()
    queue.add_nowait(arrive("foo", 10))
    queue.update_nowait(arrive("foo", 12))
    queue.delete_nowait(arrive("foo", 15))
    queue.replace_list_nowait([], "0")
    queue.add_nowait(arrive("bar", 16))
    queue.replace_list_nowait([], "0")
    queue.delete_nowait(unknown("foo", 15))

    assert drained(queue) == [
        "Added foo 10",
        "Updated foo 12",
        "Deleted foo 15",
        "Added bar 16",
        "Deleted bar (unknown 16)",
        "Deleted foo (unknown 15)",
    ]
    assert transformed == ["foo 10", "foo 12", "foo 15", "bar 16"]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_enqueueingNoLister")
def test_real_fifo_enqueueing_no_lister() -> None:
    """client-go TestRealFIFO_enqueueingNoLister: everything is queued except unknown keys."""
    queue = real_fifo()

    queue.add_nowait(pod("foo", 10))
    queue.update_nowait(pod("bar", 15))
    queue.add_nowait(pod("qux", 17))
    queue.delete_nowait(pod("qux", 18))
    queue.delete_nowait(pod("baz", 20))  # upstream queues this one

    assert drained(queue) == ["Added foo 10", "Updated bar 15", "Added qux 17", "Deleted qux 18"]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_enqueueingWithLister")
def test_real_fifo_enqueueing_with_lister() -> None:
    """client-go TestRealFIFO_enqueueingWithLister: a known object's deletion is queued."""
    queue = real_fifo(pod("foo", 5), pod("bar", 5), pod("baz", 5))

    queue.add_nowait(pod("foo", 10))
    queue.update_nowait(pod("bar", 15))
    queue.delete_nowait(pod("baz", 20))

    assert drained(queue) == ["Added foo 10", "Updated bar 15", "Deleted baz 20"]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_addReplace")
async def test_real_fifo_add_replace() -> None:
    """client-go TestRealFIFO_addReplace: both reach a waiting consumer, in order."""
    queue = real_fifo()

    async with asyncio.TaskGroup() as group:
        consumer = group.create_task(_pop(queue, 2))
        await asyncio.sleep(0)
        queue.add_nowait(pod("foo", 10))
        queue.replace_list_nowait([pod("foo", 15)], "15")

    assert read_all(consumer.result()) == ["Added foo 10", "Replaced foo 15"]
    assert len(queue) == 0


async def _pop(queue: RealFIFO[None], count: int) -> list[Delta[None]]:
    return [await queue.pop() for _ in range(count)]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_ResyncNonExisting")
def test_real_fifo_resync_non_existing() -> None:
    """client-go TestRealFIFO_ResyncNonExisting: a queued deletion is not followed by a sync."""
    queue = real_fifo(pod("foo", 5))

    queue.delete_nowait(pod("foo", 10))
    queue.resync_nowait()

    assert drained(queue) == ["Deleted foo 10"]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_Resync")
def test_real_fifo_resync() -> None:
    """client-go TestRealFIFO_Resync: a known object is synced once."""
    queue = real_fifo(pod("foo", 5))

    queue.resync_nowait()

    assert drained(queue) == ["Sync foo 5"]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_DeleteExistingNonPropagated")
def test_real_fifo_delete_existing_non_propagated() -> None:
    """client-go TestRealFIFO_DeleteExistingNonPropagated: addition and deletion both stay."""
    queue = real_fifo()

    queue.add_nowait(pod("foo", 5))
    queue.delete_nowait(pod("foo", 6))

    assert drained(queue) == ["Added foo 5", "Deleted foo 6"]


_KNOWN = (pod("foo", 5), pod("bar", 6), pod("baz", 7))


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_ReplaceMakesDeletions")
@pytest.mark.parametrize(
    ("objects", "operations", "expected"),
    [
        pytest.param(
            _KNOWN,
            [
                lambda q: q.delete_nowait(pod("baz", 10)),
                lambda q: q.replace_list_nowait([pod("foo", 5)], "0"),
            ],
            ["Deleted baz 10", "Deleted bar (unknown 6)", "Replaced foo 5"],
            id="delete-then-replace",
        ),
        pytest.param(
            _KNOWN,
            [
                lambda q: q.add_nowait(pod("baz", 10)),
                lambda q: q.replace_list_nowait([pod("foo", 5)], "0"),
            ],
            [
                "Added baz 10",
                "Deleted baz (unknown 10)",
                "Deleted bar (unknown 6)",
                "Replaced foo 5",
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
                "Deleted foo 5",
                "Added foo 8",
                "Deleted bar (unknown 6)",
                "Deleted baz (unknown 7)",
                "Replaced foo 8",
            ],
            id="recreate-then-replace",
        ),
        pytest.param(
            _KNOWN,
            [
                lambda q: q.replace_list_nowait([pod("foo", 5), pod("qux", 9)], "0"),
                lambda q: q.replace_list_nowait([pod("foo", 5)], "0"),
            ],
            [
                "Deleted bar (unknown 6)",
                "Deleted baz (unknown 7)",
                "Replaced foo 5",
                "Replaced qux 9",
                "Deleted qux (unknown 9)",
                "Replaced foo 5",
            ],
            id="two-lists",
        ),
        pytest.param(
            (),
            [
                lambda q: q.add_nowait(pod("baz", 10)),
                lambda q: q.replace_list_nowait([pod("foo", 5)], "0"),
            ],
            ["Added baz 10", "Deleted baz (unknown 10)", "Replaced foo 5"],
            id="nothing-known",
        ),
    ],
)
def test_real_fifo_replace_makes_deletions(
    objects: Sequence[KubeObject[None]],
    operations: Sequence[Callable[[RealFIFO[None]], None]],
    expected: list[str],
) -> None:
    """client-go TestRealFIFO_ReplaceMakesDeletions: history, then tombstones, then the list."""
    queue = real_fifo(*objects)

    for operation in operations:
        operation(queue)

    assert drained(queue) == expected


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_ReplaceMakesDeletionsReplaced")
def test_real_fifo_replace_makes_deletions_replaced() -> None:
    """client-go TestRealFIFO_ReplaceMakesDeletionsReplaced: the list's own type is Replaced."""
    queue = real_fifo(*_KNOWN)

    queue.delete_nowait(pod("baz", 10))
    queue.replace_list_nowait([pod("foo", 6)], "0")

    kinds = [delta.type for delta in queue.drain_nowait()]
    assert kinds == [DeltaType.DELETED, DeltaType.DELETED, DeltaType.REPLACED]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_UpdateResyncRace")
def test_real_fifo_update_resync_race() -> None:
    """client-go TestRealFIFO_UpdateResyncRace: what has an update queued is not synced."""
    queue = real_fifo(pod("foo", 5))

    queue.update_nowait(pod("foo", 6))
    queue.resync_nowait()

    assert drained(queue) == ["Updated foo 6"]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_HasSyncedCorrectOnDeletion")
def test_real_fifo_has_synced_correct_on_deletion() -> None:
    """client-go TestRealFIFO_HasSyncedCorrectOnDeletion: tombstones count as initial, too."""
    queue = real_fifo(*_KNOWN)
    queue.replace_list_nowait([pod("foo", 5)], "0")

    seen = []
    for expected in ("Deleted bar (unknown 6)", "Deleted baz (unknown 7)", "Replaced foo 5"):
        assert not queue.has_synced
        delta = popped(queue)
        seen.append(delta.is_in_initial_list)
        assert read(delta) == expected

    assert queue.has_synced
    assert seen == [True, True, True]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_detectLineJumpers")
def test_real_fifo_detect_line_jumpers() -> None:
    """client-go TestRealFIFO_detectLineJumpers: the order of arrival, over all keys."""
    queue = real_fifo()

    for name, version in (("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)):
        queue.add_nowait(pod(name, version))
    head = [popped(queue)]
    queue.add_nowait(pod("foo", 14))

    assert read_all([*head, *queue.drain_nowait()]) == [
        "Added foo 10",
        "Added bar 1",
        "Added foo 11",
        "Added foo 13",
        "Added zab 30",
        "Added foo 14",
    ]


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_KeyOf")
@pytest.mark.parametrize(
    ("delta", "key"),
    [
        pytest.param(Delta(DeltaType.ADDED, pod("A")), "A", id="object"),
        pytest.param(Delta(DeltaType.DELETED, unknown("B")), "B", id="tombstone-of-nothing"),
        pytest.param(Delta(DeltaType.DELETED, unknown("C", 1)), "C", id="tombstone"),
        pytest.param(Delta[None](DeltaType.SYNC_ALL), "", id="concerns-everything"),
    ],
)
def test_real_fifo_key_of(delta: Delta[None], key: str) -> None:
    """client-go TestRealFIFO_KeyOf."""
    assert delta.key == key


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_HasSynced")
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
            False,
            id="duplicate-key-and-one-pop",
        ),
        pytest.param(
            [lambda q: q.replace_list_nowait([pod("a", 1), pod("a", 2)], "0"), popped, popped],
            True,
            id="duplicate-key-and-two-pops",
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
def test_real_fifo_has_synced(
    operations: Sequence[Callable[[RealFIFO[None]], object]], *, expected: bool
) -> None:
    """client-go TestRealFIFO_HasSynced; an event before the first list makes nothing synced."""
    queue = real_fifo()

    for operation in operations:
        operation(queue)

    assert queue.has_synced is expected


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_PopShouldUnblockWhenClosed")
async def test_real_fifo_pop_should_unblock_when_closed() -> None:
    """client-go TestRealFIFO_PopShouldUnblockWhenClosed: ten who wait all end."""
    queue = real_fifo()
    waiting = [asyncio.create_task(queue.pop()) for _ in range(10)]
    await settled()
    assert queue.statistics(0.0).waiters == 10

    queue.close()

    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosedError] * 10


def _filled(initial: Sequence[str], later: Sequence[str] = ()) -> RealFIFO[None]:
    """Return a queue with an initial list and updates after it; a letter is a key."""
    queue = real_fifo()
    queue.replace_list_nowait([pod(name, index) for index, name in enumerate(initial, 1)], "0")
    for index, name in enumerate(later, 100):
        queue.update_nowait(pod(name, index))
    return queue


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_PopMultipleDeltaInBatch")
@pytest.mark.parametrize(
    ("initial", "later", "limit", "expected"),
    [
        pytest.param("abc", "", 1000, ["abc"], id="unique-initial-objects"),
        pytest.param("ab", "cd", 1000, ["ab", "cd"], id="initial-from-later"),
        pytest.param("aab", "", 1000, ["a", "ab"], id="same-key-at-the-start"),
        pytest.param("abb", "", 1000, ["ab", "b"], id="same-key-at-the-end"),
        pytest.param("abbc", "", 1000, ["ab", "bc"], id="same-key-in-the-middle"),
        pytest.param("abcde", "", 2, ["ab", "cd", "e"], id="limit-splits-initial"),
        pytest.param("", "abcde", 2, ["ab", "cd", "e"], id="limit-splits-later"),
        pytest.param("abac", "ccde", 2, ["ab", "ac", "c", "cd", "e"], id="mixed"),
    ],
)
def test_real_fifo_pop_multiple_delta_in_batch(
    initial: str, later: str, limit: int, expected: list[str]
) -> None:
    """client-go TestRealFIFO_PopMultipleDeltaInBatch."""
    queue = _filled(initial, later)

    batches = []
    while batch := queue.pop_batch_nowait(limit):
        batches.append(batch)

    assert ["".join(delta.key for delta in batch) for batch in batches] == expected
    flags = [delta.is_in_initial_list for batch in batches for delta in batch]
    assert flags == [True] * len(initial) + [False] * len(later)
    assert queue.has_synced


def test_real_fifo_pop_broken_items_in_batch() -> None:
    """client-go TestRealFIFO_PopBrokenItemsInBatch: a bad object does no harm to its batch.

    Every object here has a key, so none closes a batch; what a transform could not take arrives
    with its problem and is delivered.
    """

    def transform(obj: JSONObject) -> JSONObject:
        raise ValueError("no")

    codec: ObjectCodec[None] = ObjectCodec(
        GroupVersionResource.of("v1", "pods"), transform=transform
    )
    data = pod_bytes("bad", 2)
    queue = real_fifo()
    queue.replace_list_nowait([pod("a"), codec.decode(data, 0, len(data)), pod("c")], "0")

    batch = queue.pop_batch_nowait()

    assert [delta.key for delta in batch] == ["a", "bad", "c"]
    assert isinstance(batch[1].object, KubeObject)
    assert batch[1].object.problem


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_ReplaceAtomic")
@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        pytest.param(
            [lambda q: q.replace_list_nowait([pod("foo", 1), pod("bar", 2)], "7")],
            ["ReplacedAll 7 foo 1, bar 2"],
            id="one-delta",
        ),
        pytest.param(
            [
                lambda q: q.add_nowait(pod("foo", 1)),
                lambda q: q.replace_list_nowait([], "7"),
            ],
            ["Added foo 1", "ReplacedAll 7"],
            id="earlier-deltas-stay",
        ),
        pytest.param(
            [
                lambda q: q.replace_list_nowait([pod("foo", 1)], "7"),
                lambda q: q.replace_list_nowait([pod("foo", 2)], "8"),
                lambda q: q.replace_list_nowait([], "9"),
            ],
            ["ReplacedAll 7 foo 1", "ReplacedAll 8 foo 2", "ReplacedAll 9"],
            id="several-in-order",
        ),
        pytest.param(
            [
                lambda q: q.bookmark_nowait("6"),
                lambda q: q.replace_list_nowait([pod("foo", 1)], "7"),
            ],
            ["Bookmark 6", "ReplacedAll 7 foo 1"],
            id="bookmark-before",
        ),
    ],
)
def test_real_fifo_replace_atomic(
    operations: Sequence[Callable[[RealFIFO[None]], None]], expected: list[str]
) -> None:
    """client-go TestRealFIFO_ReplaceAtomic: a list is one delta."""
    queue = RealFIFO[None](atomic_events=True)

    for operation in operations:
        operation(queue)

    assert drained(queue) == expected


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_ReplaceAtomicPop")
def test_real_fifo_replace_atomic_pop() -> None:
    """client-go TestRealFIFO_ReplaceAtomicPop: popped in order, the list with the new value."""
    queue = RealFIFO[None](atomic_events=True)
    queue.add_nowait(pod("foo", 10))
    queue.replace_list_nowait([pod("foo", 15)], "15")

    assert read(popped(queue)) == "Added foo 10"
    assert not queue.has_synced
    assert read(popped(queue)) == "ReplacedAll 15 foo 15"
    assert queue.has_synced


@pytest.mark.covers("client-go tools/cache: TestRealFIFO_ResyncAtomic")
def test_real_fifo_resync_atomic() -> None:
    """client-go TestRealFIFO_ResyncAtomic: one delta for all, after what was queued before."""
    queue = RealFIFO[None](atomic_events=True)
    queue.add_nowait(pod("foo", 10))

    queue.resync_nowait()

    assert drained(queue) == ["Added foo 10", "SyncAll"]


def test_real_fifo_needs_known_objects_to_compare_lists_with() -> None:
    """client-go NewRealFIFOWithOptions panics; here it is a typed error at the call."""
    with pytest.raises(
        InvalidArgumentError, match="known_objects: must be given without atomic_events"
    ):
        RealFIFO[None](atomic_events=False)
