"""The informer's sink, driven by hand: the cache leads, differences only, none of them twice."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise

import msgspec
import pytest

from pyinformer.cache.informer import QueueKind, StoreSink, make_sink
from pyinformer.cache.reflector import Sink
from pyinformer.cache.store import Indexer
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from tests.pods import make
from tests.sinks import SinkOwner


class Mirror:
    """A receiver that notes its events, and what the cache held at that moment."""

    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self.events: list[Event] = []
        self.objects: dict[str, str] = {}
        self.initial: list[str] | None = None
        self.is_complete = False
        self.late: list[str] = []
        """Keys of events that came before the cache had them."""

    @property
    def put_nowait(self) -> Callable[[Event], None]:
        """Take one event."""
        return self._put

    def _put(self, event: Event) -> None:
        self.events.append(event)
        cached = self._indexer.get(event.key)
        match event:
            case Deleted(last):
                assert self.objects.pop(event.key) == last.metadata.uid
                if cached is not None and cached.metadata.uid == last.metadata.uid:
                    self.late.append(event.key)
            case Added(obj):
                assert event.key not in self.objects
                self._hold(obj, cached)
            case Updated(old, new):
                assert self.objects[event.key] == old.metadata.uid == new.metadata.uid
                self._hold(new, cached)

    def _hold(self, obj: KubeObject, cached: KubeObject | None) -> None:
        self.objects[obj.key] = obj.metadata.uid
        if cached is not obj:
            self.late.append(obj.key)

    def preload_nowait(self, objects: Collection[KubeObject]) -> None:
        """Take what exists."""
        assert self.initial is None
        assert not self.events
        self.initial = [obj.key for obj in objects]
        self.objects = {str(obj.key): obj.metadata.uid for obj in objects}

    def on_initial_list_complete(self) -> None:
        """Record that this was all."""
        self.is_complete = True

    def on_missed_state(self, was: object, now: object) -> None:
        """Do nothing."""


class Failing(Mirror):
    """A receiver with a bug."""

    def _put(self, event: Event) -> None:
        raise ZeroDivisionError


class Bench:
    """A cache, its sink and what they report."""

    def __init__(self, queue: QueueKind = "direct", *, selective: bool = False) -> None:
        self.indexer: Indexer = Indexer()
        self.owner = SinkOwner()
        self.crashes = self.owner.crashes
        self.store_sink: StoreSink[None] = StoreSink(self.indexer, self.owner, selective=selective)
        self.sink: Sink[None] = make_sink(queue, self.store_sink, selective=selective)

    @property
    def synced(self) -> int:
        """How often the sink has reported that it has synced."""
        return self.owner.synced

    def attach(self) -> Mirror:
        """Attach a new receiver."""
        mirror = Mirror(self.indexer)
        self.store_sink.attach(mirror)
        return mirror

    def replace(self, *objects: KubeObject, resource_version: str = "100") -> None:
        """Take a complete list."""
        for _ in self.replacing(objects, resource_version):
            pass

    def replacing(
        self, objects: Iterable[KubeObject], resource_version: str = "100"
    ) -> Iterable[None]:
        """Return the steps of taking a complete list."""
        return self.sink.replace_nowait({str(obj.key): obj for obj in objects}, resource_version)


QUEUES: list[QueueKind] = ["direct", "real_fifo", "delta_fifo"]

A1, A2 = make("ns/a"), make("ns/a", resource_version="2")
A_ANEW = make("ns/a", uid="another", resource_version="3")
B1, C1, D1 = make("ns/b"), make("ns/c"), make("ns/d")


@pytest.mark.parametrize("queue", QUEUES)
def test_the_first_list_comes_as_a_preload_once_it_is_in_the_cache(queue: QueueKind) -> None:
    bench = Bench(queue)
    mirror = bench.attach()
    assert not mirror.is_complete

    bench.replace(A1, B1)

    assert bench.synced == 1
    assert (mirror.initial, mirror.is_complete, mirror.events) == (["ns/a", "ns/b"], True, [])
    assert bench.indexer.resource_version == "100"


@pytest.mark.parametrize("queue", QUEUES)
def test_an_empty_first_list_completes_the_initial_list(queue: QueueKind) -> None:
    bench = Bench(queue)
    mirror = bench.attach()

    bench.replace()

    assert (mirror.initial, mirror.is_complete) == ([], True)


@pytest.mark.covers("client-go tools/cache: TestReplaceEvents")
@pytest.mark.parametrize("queue", QUEUES)
def test_a_relist_delivers_differences_with_deletions_and_recreations(queue: QueueKind) -> None:
    bench = Bench(queue)
    mirror = bench.attach()
    bench.replace(A1, B1, C1)

    bench.replace(A_ANEW, B1, D1)

    assert set(mirror.events) == {
        Deleted(C1, final_state_unknown=True),
        Deleted(A1, final_state_unknown=True),
        Added(A_ANEW),
        Added(D1),
    }
    assert mirror.events.index(Added(A_ANEW)) == 1 + mirror.events.index(
        Deleted(A1, final_state_unknown=True)
    )
    assert bench.synced == 1


@pytest.mark.parametrize("queue", QUEUES)
def test_a_relist_without_changes_delivers_nothing(queue: QueueKind) -> None:
    bench = Bench(queue)
    mirror = bench.attach()
    bench.replace(A1, B1)

    bench.replace(make("ns/a"), B1, resource_version="200")

    assert mirror.events == []
    assert bench.indexer.resource_version == "200"


@pytest.mark.covers("kube-runtime src: reflect_passes_events_through")
@pytest.mark.parametrize("queue", QUEUES)
def test_the_cache_holds_each_change_before_a_receiver_gets_it(queue: QueueKind) -> None:
    bench = Bench(queue)
    mirror = bench.attach()
    bench.replace(A1)

    bench.sink.apply_nowait(Updated(A1, A2))
    bench.sink.apply_nowait(Deleted(A2))
    bench.sink.apply_nowait(Added(A_ANEW))
    bench.replace()

    assert mirror.late == []
    assert [type(event) for event in mirror.events] == [Updated, Deleted, Added, Deleted]


@pytest.mark.parametrize("queue", QUEUES)
def test_a_bookmark_moves_the_cache_and_notifies_no_receiver(queue: QueueKind) -> None:
    bench = Bench(queue)
    mirror = bench.attach()
    bench.replace(A1)

    bench.sink.bookmark_nowait("150")

    assert bench.indexer.resource_version == "150"
    assert mirror.events == []


def test_a_list_is_cached_as_a_whole_before_its_first_difference_is_delivered() -> None:
    """C55: no reader sees half of a relist."""
    bench = Bench()
    mirror = bench.attach()
    bench.replace(A1, B1)
    seen: list[list[str]] = []
    mirror._put = lambda event: seen.append(bench.indexer.keys())  # type: ignore[method-assign]
    bench.store_sink.detach(mirror)
    bench.store_sink._set((mirror,))

    bench.replace(C1, D1)

    assert seen == [["ns/c", "ns/d"]] * 4


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("selective", [False, True])
def test_an_object_that_leaves_a_selector_may_still_exist(
    queue: QueueKind, selective: bool
) -> None:
    bench = Bench(queue, selective=selective)
    mirror = bench.attach()
    bench.replace(A1, B1)

    bench.sink.apply_nowait(Deleted(A1, may_still_exist=selective))
    bench.replace()

    assert [getattr(event, "may_still_exist", None) for event in mirror.events] == [selective] * 2


def many(first: int, last: int, version: str) -> list[KubeObject]:
    return [make(f"ns/{number:04}", resource_version=version) for number in range(first, last)]


def test_a_receiver_attached_at_any_step_of_a_relist_has_no_duplicate_and_no_gap() -> None:
    """Every step is a moment at which a late handler may come."""
    bench = Bench()
    first = bench.attach()
    bench.replace(*many(0, 1000, "1"))
    mirrors = [first]

    after = many(500, 1500, "2")
    mirrors += [bench.attach() for _ in bench.replacing(after, "200")]
    bench.sink.apply_nowait(Added(A1))

    wanted = {str(obj.key): obj.metadata.uid for obj in after} | {"ns/a": "uid-a"}
    assert len(mirrors) > 8
    assert [mirror.objects for mirror in mirrors] == [wanted] * len(mirrors)
    assert [mirror.late for mirror in mirrors] == [[]] * len(mirrors)
    # Those that came before the swap got the differences, those after it did not.
    assert {len(mirror.events) for mirror in mirrors} == {1, 1501}


def test_a_receiver_detached_amid_a_relist_gets_no_new_events() -> None:
    bench = Bench()
    mirror = bench.attach()
    bench.replace(A1)

    bench.store_sink.detach(mirror)
    bench.sink.apply_nowait(Added(B1))
    bench.replace(C1)

    assert mirror.events == []


def test_a_relist_given_up_before_the_swap_leaves_everything_as_it_was() -> None:
    bench = Bench()
    mirror = bench.attach()
    bench.replace(*many(0, 1000, "1"))

    steps = iter(bench.replacing(many(500, 1500, "2"), "200"))
    next(steps)
    del steps

    assert mirror.events == []
    assert bench.indexer.keys()[0] == "ns/0000"
    assert bench.indexer.resource_version == "100"


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("how", ["change", "relist"])
def test_a_receiver_with_a_bug_is_reported_and_raised(queue: QueueKind, how: str) -> None:
    bench = Bench(queue)
    bench.replace(A1)
    bench.store_sink.attach(Failing(bench.indexer))

    with pytest.raises(ZeroDivisionError):
        if how == "change":
            bench.sink.apply_nowait(Added(B1))
        else:
            bench.replace(B1)

    assert [type(error) for error in bench.crashes] == [ZeroDivisionError]


def test_a_receiver_that_fails_at_the_first_list_is_reported() -> None:
    bench = Bench()
    mirror = bench.attach()
    mirror.initial = ["given before"]

    with pytest.raises(AssertionError):
        bench.replace(A1)

    assert [type(error) for error in bench.crashes] == [AssertionError]


def test_unchanged_objects_make_no_event_and_are_passed_over_in_steps() -> None:
    bench = Bench()
    objects = many(0, 1000, "1")
    bench.replace(*objects, A1)
    mirror = bench.attach()

    steps = sum(1 for _ in bench.replacing([*objects, A2], "200"))

    assert mirror.events == [Updated(A1, A2)]
    assert steps >= 8  # other tasks run in between


@pytest.mark.parametrize("queue", ["direct", "real_fifo", "delta_fifo"])
@pytest.mark.parametrize("resets", [False, True])
def test_only_updates_of_a_list_that_begins_an_epoch_may_go_back(
    queue: QueueKind, resets: bool
) -> None:
    bench = Bench(queue)
    mirror = bench.attach()
    bench.replace(A1, B1)
    bench.owner.is_resetting = resets

    bench.replace(A2, B1)

    assert mirror.events == [Updated(A1, A2, may_go_back=resets)]


@pytest.mark.parametrize("queue", ["direct", "real_fifo", "delta_fifo"])
def test_in_a_new_epoch_one_version_with_another_content_is_an_update(queue: QueueKind) -> None:
    bench = Bench(queue)
    mirror = bench.attach()
    bench.replace(A1, B1)
    bench.owner.is_resetting = True
    other = KubeObject(A1.key, A1.metadata, None, b'{"metadata":{},"spec":{}}', A1.gvk)

    bench.replace(other, B1)

    (event,) = mirror.events
    assert isinstance(event, Updated)
    assert (event.new.raw, event.may_go_back) == (other.raw, True)


class Bystander(Mirror):
    """A receiver that keeps nothing."""

    def _put(self, event: Event) -> None:
        self.told = self.told + 1

    told = 0

    def preload_nowait(self, objects: Collection[KubeObject]) -> None:
        """Record what was handed over."""
        self.given = objects


def test_one_copy_of_the_cache_serves_all_waiting_handlers() -> None:
    bench = Bench()
    one, other = Bystander(bench.indexer), Bystander(bench.indexer)
    bench.store_sink.attach(one)
    bench.store_sink.attach(other)
    bench.replace(*[make(f"ns/p{number}") for number in range(10_000)])
    assert one.given is other.given
    assert len(one.given) == 10_000


def test_objects_that_a_relist_replaces_are_freed_in_short_steps() -> None:
    """A hundred thousand objects that die at once would stop the event loop."""
    bodies = [b'{"metadata":{"name":"p%d"}}' % number for number in range(3_000)]
    bench = Bench()
    receiver = Bystander(bench.indexer)
    bench.store_sink.attach(receiver)
    bench.replace(*[msgspec.structs.replace(make(f"ns/p{n}"), raw=b) for n, b in enumerate(bodies)])
    del receiver.given
    held = min(sys.getrefcount(body) for body in bodies)

    def count_freed() -> int:
        return sum(sys.getrefcount(body) < held for body in bodies)

    steps = bench.replacing([make(f"ns/p{n}", resource_version="2") for n in range(3_000)])
    freed = [0, *(count_freed() for _ in steps), count_freed()]
    assert receiver.told == 3_000
    assert freed[-1] == 3_000
    assert max(after - before for before, after in pairwise(freed)) <= 512
