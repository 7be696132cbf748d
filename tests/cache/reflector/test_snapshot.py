"""Everything that exists, from a list or from the start of a watch-list."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pyinformer.cache.reflector import EventApplier, Guard, Snapshot
from pyinformer.client.transport import LineSplitter, ListSplitter
from pyinformer.errors import (
    InvalidObjectError,
    InvalidResourceVersionError,
    ListInconsistentError,
    ProtocolError,
    ResourceExpiredError,
)
from pyinformer.objects import Added
from tests.cache.reflector.samples import (
    DictSink,
    bookmark,
    codec,
    line,
    pod,
    pod_bytes,
    status_bytes,
)

END = bookmark("200", ends_initial_events=True)


class Bench:
    """A snapshot for a sink that has `a` at 90 and `old` at 80."""

    def __init__(self, *, had_nameless: bool = False) -> None:
        self.sink = DictSink(pod("a", "90"), pod("old", "80"))
        self.guard = Guard()
        self.codec = codec()
        self.snapshot = Snapshot(self.codec, self.sink, self.guard, had_nameless=had_nameless)

    def items(self, *items: bytes) -> None:
        for item in items:
            data = b"," + item + b","
            self.snapshot.on_item(data, 1, 1 + len(item))

    def lines(self, *lines: bytes) -> None:
        for one in lines:
            self.snapshot.on_line(one, 0, len(one))

    def versions(self, listed: str = "200") -> dict[str, str]:
        objects = self.snapshot.complete(listed)
        return {key: obj.metadata.resource_version for key, obj in objects.items()}


@pytest.mark.covers("apimachinery pkg/api/meta: TestEachList")
def test_a_list_is_what_exists() -> None:
    bench = Bench()
    bench.items(pod_bytes("a", "95"), pod_bytes("b", "200", "uid-b"))
    assert bench.versions() == {"a": "95", "b": "200"}
    assert not bench.snapshot.rewound


def test_an_unchanged_object_stays_the_cached_record() -> None:
    bench = Bench()
    bench.items(pod_bytes("a", "90"))
    assert bench.snapshot.complete("200")["a"] is bench.sink.objects["a"]


def test_items_without_kind_learn_it_from_their_list() -> None:
    bench = Bench()
    bench.snapshot.on_list_kind("PodList")
    bench.items(b'{"metadata":{"name":"c","uid":"u","resourceVersion":"7"}}')
    assert bench.snapshot.complete("200")["c"].gvk.kind == "Pod"


def test_an_item_newer_than_its_list_makes_the_list_inconsistent() -> None:
    bench = Bench()
    bench.items(pod_bytes("b", "201"))
    with pytest.raises(ListInconsistentError, match="it is at 200 and holds an object at 201"):
        bench.snapshot.complete("200")


@pytest.mark.parametrize("version", ["", "0", "x", "0200"])
def test_a_list_without_a_comparable_version_is_refused(version: str) -> None:
    bench = Bench()
    with pytest.raises(InvalidResourceVersionError):
        bench.snapshot.complete(version)


@pytest.mark.parametrize("version", [None, "", "0", "x"])
def test_a_list_with_an_item_without_a_comparable_version_is_refused(version: str | None) -> None:
    bench = Bench()
    bench.items(pod_bytes("b", version), pod_bytes("a", "95"))
    with pytest.raises(InvalidResourceVersionError):
        bench.snapshot.complete("200")


def test_an_item_older_than_what_is_cached_of_the_same_uid_proves_a_rewind() -> None:
    bench = Bench()
    bench.items(pod_bytes("a", "85"))
    assert bench.versions() == {"a": "85"}, "the list wins"
    assert bench.snapshot.rewound


def test_an_older_item_of_another_uid_proves_nothing() -> None:
    bench = Bench()
    bench.items(pod_bytes("a", "85", "uid-2"))
    assert bench.versions() == {"a": "85"}
    assert not bench.snapshot.rewound


def test_an_item_that_is_older_than_a_verify_showed_proves_no_rewind() -> None:
    bench = Bench()
    bench.guard.loaded("90")
    follower = EventApplier(bench.codec, bench.guard, bench.sink)
    assert follower.on_verified("a", pod("a", "195"), "198")
    bench.items(pod_bytes("a", "90"), pod_bytes("old", "80"))
    assert bench.versions("200") == {"a": "90", "old": "80"}, "the list wins"
    assert not bench.snapshot.rewound


def test_a_list_behind_a_verify_does_not_undo_it() -> None:
    """A peer that lags may answer it: not behind the position, but behind what was looked at."""
    bench = Bench()
    bench.guard.loaded("90")
    follower = EventApplier(bench.codec, bench.guard, bench.sink)
    follower.on_verified("a", pod("a", "195"), "198")
    follower.on_verified("old", None, "198")
    bench.items(pod_bytes("a", "90"), pod_bytes("old", "80"))
    assert bench.versions("100") == {"a": "195"}
    assert not bench.snapshot.rewound


def test_an_item_that_was_seen_to_die_at_a_later_version_proves_a_rewind() -> None:
    bench = Bench()
    bench.guard.loaded("90")
    follower = EventApplier(bench.codec, bench.guard, bench.sink)
    gone = line("DELETED", "old", "95")
    follower.on_line(gone, 0, len(gone))
    bench.items(pod_bytes("old", "80"))
    assert bench.versions("200") == {"old": "80"}
    assert bench.snapshot.rewound


def test_an_item_that_came_back_after_its_deletion_proves_nothing() -> None:
    bench = Bench()
    bench.guard.loaded("90")
    follower = EventApplier(bench.codec, bench.guard, bench.sink)
    gone = line("DELETED", "old", "95")
    follower.on_line(gone, 0, len(gone))
    bench.items(pod_bytes("old", "96"))
    assert bench.versions("200") == {"old": "96"}
    assert not bench.snapshot.rewound


def other(name: str, version: str) -> bytes:
    """Return the same object at the same version with another content."""
    return pod_bytes(name, version).replace(f'"nodeName":"{version}"'.encode(), b'"nodeName":"x"')


def test_a_list_that_proves_a_rewind_is_confirmed_by_another_one() -> None:
    """In another history the same version may have been given to another content."""
    bench = Bench()
    bench.guard.loaded("90")
    bench.items(other("old", "80"), pod_bytes("a", "85"))
    with pytest.raises(ListInconsistentError, match="went back in time"):
        bench.snapshot.complete("200")

    bench.snapshot = Snapshot(bench.codec, bench.sink, bench.guard)
    bench.items(other("old", "80"), pod_bytes("a", "85"))
    objects = bench.snapshot.complete("200")
    assert objects["old"].at("spec.nodeName") == "x"
    assert bench.snapshot.rewound
    assert bench.guard.loaded("200", rewound=True)
    assert not bench.guard.expects_rewind


@pytest.mark.parametrize("distrust", [False, True])
def test_a_record_stays_only_if_its_content_is_the_same(distrust: bool) -> None:
    """A definition that gains a default changes every object, at the version that it has."""
    bench = Bench()
    bench.snapshot = Snapshot(bench.codec, bench.sink, bench.guard, distrust=distrust)
    spaced = pod_bytes("a", "90").replace(b'"spec":', b'"spec": ')
    bench.items(other("old", "80"), spaced)
    objects = bench.snapshot.complete("200")
    assert objects["a"] is bench.sink.objects["a"], "the same, differently written"
    assert objects["old"].at("spec.nodeName") == "x"


@pytest.mark.parametrize("version", ["", "0", "x7"])
def test_an_opaque_list_may_have_any_version(version: str) -> None:
    bench = Bench()
    bench.guard.use_order("opaque")
    bench.items(pod_bytes("a", "9x"), pod_bytes("b", None), pod_bytes("old", "70"))
    assert bench.versions(version) == {"a": "9x", "b": "", "old": "70"}
    assert not bench.snapshot.rewound


def test_a_list_without_global_order_may_hold_what_is_newer_than_itself() -> None:
    bench = Bench()
    bench.guard.use_order("per_object")
    bench.items(pod_bytes("a", "300"))
    assert bench.versions("200") == {"a": "300"}


def test_an_item_that_cannot_be_identified_raises_and_can_be_skipped() -> None:
    bench = Bench()
    with pytest.raises(InvalidObjectError):
        bench.items(b'{"metadata":{}}')
    bench.items(pod_bytes("b", "100", "uid-b"))
    bench.snapshot.on_invalid_item(b"{}", 0, 2, InvalidObjectError("pods.v1", "no name"))
    assert bench.versions() == {"b": "100", "a": "90", "old": "80"}, "nothing is deleted"
    assert bench.guard.statistics().counts == {"undecodable:skipped": 1}


def test_an_item_that_cannot_be_identified_keeps_what_it_names_alone() -> None:
    bench = Bench()
    odd = b'{"kind":"Node","metadata":{"name":"old"}}'
    bench.snapshot.on_invalid_item(odd, 0, len(odd), InvalidObjectError("pods.v1", "a Node"))
    assert bench.versions() == {"old": "80"}, "all others are deleted"


def test_items_without_a_name_hold_deletions_back_once() -> None:
    bench = Bench(had_nameless=True)
    bench.items(pod_bytes("b", "100", "uid-b"))
    bench.snapshot.on_invalid_item(b"{}", 0, 2, InvalidObjectError("pods.v1", "no name"))
    assert bench.versions() == {"b": "100"}


def test_a_load_ends_with_an_error_at_the_1001st_object_without_a_name() -> None:
    bench = Bench()
    error = InvalidObjectError("pods.v1", "no name")
    odd = b'{"kind":"Node","metadata":{"name":"old"}}'
    for _ in range(1_000):
        bench.snapshot.on_invalid_item(b"{}", 0, 2, error)
        bench.snapshot.on_invalid_item(odd, 0, len(odd), error)  # has a name: it does not count
    with pytest.raises(ProtocolError, match="more than 1000 of its objects have no readable name"):
        bench.snapshot.on_invalid_item(b"{}", 0, 2, error)


def test_a_watch_list_ends_with_an_error_at_the_1001st_object_without_a_name() -> None:
    bench = Bench()
    nameless = b'{"type":"ADDED","object":{}}'
    bench.lines(*[nameless] * 1_000)
    with pytest.raises(ProtocolError, match="more than 1000 of its objects have no readable name"):
        bench.lines(nameless)


def test_an_endless_list_of_objects_without_a_name_ends_with_an_error() -> None:
    snapshot = Bench().snapshot
    splitter = ListSplitter(snapshot.on_item, verify=False, on_invalid=snapshot.on_invalid_item)
    splitter.feed(b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{}')
    with pytest.raises(ProtocolError, match="more than 1000 of its objects have no readable name"):
        splitter.feed(b",{}" * 1_001)  # the last one has no end yet


@pytest.mark.covers("kube-runtime src: test_mode_watch_waits_before_returning_next_event")
def test_a_watch_list_is_complete_at_its_end_bookmark_and_not_before() -> None:
    bench = Bench()
    bench.lines(line("ADDED", "b", "150", "uid-b"), line("ADDED", "a", "95"))
    assert bench.snapshot.resource_version is None
    bench.lines(END)
    assert bench.snapshot.resource_version == "200"
    assert bench.versions() == {"b": "150", "a": "95"}


def test_only_the_annotation_true_ends_a_watch_list() -> None:
    bench = Bench()
    with pytest.raises(ListInconsistentError, match="does not end the initial events"):
        bench.lines(END.replace(b'"true"', b'"false"'))
    assert bench.snapshot.resource_version is None


def test_an_end_bookmark_without_a_version_is_refused() -> None:
    bench = Bench()
    bench.lines(bookmark("", ends_initial_events=True))
    assert bench.snapshot.resource_version == ""
    with pytest.raises(InvalidResourceVersionError):
        bench.snapshot.complete("")


def test_before_the_end_events_of_any_type_count_and_the_larger_version_wins() -> None:
    bench = Bench()
    bench.lines(
        line("ADDED", "a", "150"),
        line("MODIFIED", "a", "120"),
        line("ADDED", "b", "110", "uid-b"),
        line("MODIFIED", "b", "130", "uid-b"),
        line("ADDED", "gone", "100", "uid-g"),
        line("DELETED", "gone", "140", "uid-g"),
        line("ADDED", "gone", "100", "uid-g"),
        line("DELETED", "again", "120", "uid-1"),
        line("ADDED", "again", "160", "uid-2"),
        line("DELETED", "again", "120", "uid-1"),
        END,
    )
    assert bench.versions() == {"a": "150", "b": "130", "again": "160"}


def test_a_deletion_with_the_version_of_the_last_update_counts() -> None:
    bench = Bench()
    bench.lines(line("ADDED", "b", "150"), line("DELETED", "b", "150"), END)
    assert bench.versions() == {}


def test_only_the_last_event_of_an_object_can_prove_a_rewind() -> None:
    bench = Bench()
    bench.lines(line("ADDED", "a", "85"), line("MODIFIED", "a", "95"), END)
    assert not bench.snapshot.rewound
    bench = Bench()
    bench.lines(line("ADDED", "a", "85"), line("DELETED", "a", "95"), END)
    assert not bench.snapshot.rewound


def test_an_event_newer_than_the_end_bookmark_makes_the_stream_inconsistent() -> None:
    for kind in ("ADDED", "DELETED"):
        bench = Bench()
        bench.lines(line(kind, "b", "201"), END)
        with pytest.raises(ListInconsistentError):
            bench.snapshot.complete("200")


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b'{"type":"ADDED","object":{"metadata":{}}}', id="no-name"),
        pytest.param(b'{"type":"ADDED","object":null}', id="null"),
        pytest.param(b'{"type":"DELETED","object":{"metadata":{}}}', id="deletion"),
    ],
)
def test_an_event_that_cannot_be_identified_is_skipped_and_deletes_nothing(bad: bytes) -> None:
    bench = Bench()
    bench.lines(bad, line("ADDED", "a", "95"), END)
    assert bench.versions() == {"a": "95", "old": "80"}


def test_an_event_of_another_kind_deletes_others_only() -> None:
    bench = Bench()
    odd = line("ADDED", "old", "100").replace(b'"Pod"', b'"Node"')
    bench.lines(odd, END)
    assert bench.versions() == {"old": "80"}


@pytest.mark.parametrize(
    "bad", [b"nonsense", b'{"type":"UPSERTED","object":{"metadata":{"name":"b"}}}', b"{}"]
)
def test_a_line_that_is_not_an_event_ends_the_watch_list(bad: bytes) -> None:
    bench = Bench()
    with pytest.raises(ProtocolError):
        bench.lines(bad)


@pytest.mark.parametrize(
    "bad", [status_bytes(410), b'{"type":"ERROR","object":' + status_bytes(410) + b"}"]
)
def test_an_error_ends_the_watch_list(bad: bytes) -> None:
    bench = Bench()
    with pytest.raises(ResourceExpiredError):
        bench.lines(line("ADDED", "b", "100"), bad)


def test_extra_white_space_and_order_make_no_difference_to_a_watch_list() -> None:
    bench = Bench()
    odd = b' { "object" : ' + pod_bytes("b", "100") + b', "type" : "ADDED" } '
    bench.lines(odd, line("ADDED", "c", "100", "uid-c")[:-1] + b',"more":1}', END + b"\r")
    assert bench.versions() == {"b": "100", "c": "100"}


@pytest.mark.parametrize("size", [1, 7, 64, 333, 100_000])
def test_bytes_after_the_end_bookmark_belong_to_the_watch(size: int) -> None:
    """Wherever the chunks are cut: in the middle of a line behind the end, for example."""
    bench = Bench()
    behind = [line("ADDED", "b", "201", "uid-b"), line("MODIFIED", "b", "202", "uid-b")]
    stream = b"\n".join([line("ADDED", "a", "95"), END, *behind, line("DELETED", "a", "203")])
    stream += b"\n"
    splitter = LineSplitter(bench.snapshot.on_line)
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    while bench.snapshot.resource_version is None:
        splitter.feed(chunks.pop(0))
    version = bench.snapshot.resource_version
    list(bench.sink.replace_nowait(bench.snapshot.complete(version), version))
    bench.guard.loaded(version)

    follower = EventApplier(bench.codec, bench.guard, bench.sink)
    splitter.redirect(follower.on_line)
    for rest in bench.snapshot.rest:
        follower.on_line(rest, 0, len(rest))
    for chunk in chunks:
        splitter.feed(chunk)

    assert bench.sink.versions() == {"b": "202"}
    assert bench.sink.history["a"] == ["update 90 95", "delete 203"]
    assert bench.guard.position == "203"


def test_an_unchanged_object_is_listed_under_the_text_that_is_cached_already() -> None:
    """Else each relist would leave another copy of every key in memory."""
    bench = Bench()
    bench.items(pod_bytes("a", "90"))
    (key,) = bench.snapshot.complete("200")
    assert key is Added(bench.sink.objects["a"]).key


def test_a_load_is_released_in_short_steps() -> None:
    bench = Bench()
    bench.items(*[pod_bytes(f"p{number}", str(number + 1)) for number in range(2_000)])
    left = [len(bench.snapshot.objects)]
    left += [len(bench.snapshot.objects) for _ in bench.snapshot.release()]
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= 512
