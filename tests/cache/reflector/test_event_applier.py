"""Lines of a watch into a sink: frames of any shape, and what ends a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector import EventApplier, Guard, StreamBroken
from pyinformer.cache.reflector.machine.steps import Breach
from pyinformer.client.transport import LineSplitter
from pyinformer.errors import (
    APIStatusError,
    ForbiddenError,
    InvalidObjectError,
    ResourceExpiredError,
    ResourceVersionTooLargeError,
    ServerError,
    TooManyRequestsError,
)
from pyinformer.objects import Event, GroupVersionResource, KubeObject, ObjectCodec
from tests.cache.reflector.samples import (
    DictSink,
    bookmark,
    line,
    pod,
    pod_bytes,
    status_bytes,
)
from tests.cache.reflector.samples import codec as pod_codec

if TYPE_CHECKING:
    from pyinformer.cache.reflector.guard import Order


class Bench:
    """A follower behind a list at 100 that has `a` in it."""

    def __init__(
        self,
        *,
        selective: bool = False,
        sink: type[DictSink] = DictSink,
        codec: ObjectCodec[None] | None = None,
    ) -> None:
        self.sink = sink(pod("a", "90"))
        self.guard = Guard()
        self.guard.loaded("100")
        self.skipped: list[InvalidObjectError] = []
        self.follower = EventApplier(
            codec or pod_codec(),
            self.guard,
            self.sink,
            selective=selective,
            on_skipped=self.skipped.append,
        )

    def feed(self, *lines: bytes) -> None:
        for one in lines:
            # In the middle of a buffer, as lines are in it.
            data = b"before\n" + one + b"\nbehind"
            self.follower.on_line(data, len(b"before\n"), len(b"before\n") + len(one))

    def broken(self, one: bytes) -> StreamBroken:
        with pytest.raises(StreamBroken) as caught:
            self.feed(one)
        return caught.value

    def untouched(self) -> bool:
        return (
            self.guard.position == "100"
            and self.sink.versions() == {"a": "90"}
            and not self.sink.history
        )


@pytest.mark.covers("client-go rest/watch: TestDecoder")
def test_additions_updates_and_deletions_of_an_object_are_applied() -> None:
    bench = Bench()
    bench.feed(
        line("ADDED", "b", "101", "uid-b"),
        line("MODIFIED", "b", "102", "uid-b"),
        line("MODIFIED", "a", "103"),
        bookmark("110"),
        line("DELETED", "b", "111", "uid-b"),
    )
    assert bench.sink.history == {
        "b": ["add 101", "update 101 102", "delete 111"],
        "a": ["update 90 103"],
    }
    assert bench.sink.bookmarks == ["110"]
    assert bench.guard.position == "111"
    applied = bench.follower
    assert (applied.added, applied.modified, applied.deleted, applied.bookmarks) == (1, 2, 1, 1)
    assert (applied.events, applied.frames) == (4, 5)


def test_the_cache_decides_between_addition_and_update() -> None:
    bench = Bench()
    bench.feed(line("ADDED", "a", "101"), line("MODIFIED", "b", "102", "uid-b"))
    assert bench.sink.history == {"a": ["update 90 101"], "b": ["add 102"]}


def test_a_recreated_object_is_a_deletion_and_an_addition() -> None:
    bench = Bench()
    bench.feed(line("MODIFIED", "a", "101", "uid-2"))
    assert bench.sink.history == {"a": ["delete? 90", "add 101"]}


def test_a_deletion_of_another_uid_removes_the_cached_object_and_ends_the_stream() -> None:
    bench = Bench()
    broken = bench.broken(line("DELETED", "a", "101", "uid-2"))
    assert broken.breach is Breach.SUSPECT
    assert bench.sink.history == {"a": ["delete? 90"]}
    assert bench.guard.position == "101"


@pytest.mark.parametrize("selective", [False, True])
def test_a_deletion_says_whether_the_object_may_still_exist(selective: bool) -> None:
    seen: list[Event[None]] = []

    class Listening(DictSink):
        def apply_nowait(self, event: Event[None]) -> None:
            seen.append(event)

    bench = Bench(selective=selective, sink=Listening)
    bench.feed(line("DELETED", "a", "101"))
    assert [getattr(event, "may_still_exist", None) for event in seen] == [selective]


def test_a_recreation_replayed_from_before_is_ignored() -> None:
    """kubernetes#58545, as a whole."""
    bench = Bench()
    bench.feed(
        line("DELETED", "a", "120"),
        line("ADDED", "a", "130", "uid-2"),
        line("ADDED", "c", "150", "uid-c"),
    )
    before = dict(bench.sink.history)
    bench.feed(
        line("ADDED", "a", "90"), line("DELETED", "a", "90"), line("ADDED", "a", "130", "uid-2")
    )
    assert bench.sink.history == before
    assert bench.sink.versions() == {"a": "130", "c": "150"}


POD = pod_bytes("b", "101", "uid-b")
ODD_SHAPES = [
    pytest.param(b'{ "type" : "%s" , "object" : ' + POD + b" } ", id="white-space"),
    pytest.param(b"  \t" + b'{"type":"%s","object":' + POD + b"}", id="leading-white-space"),
    pytest.param(b'{"type":"%s","object":' + POD + b"}\r", id="carriage-return"),
    pytest.param(b'{"object":' + POD + b',"type":"%s"}', id="other-order"),
    pytest.param(b'{"type":"%s","object":' + POD + b',"more":{"a":[1]}}', id="more-behind"),
    pytest.param(b'{"kind":"WatchEvent","type":"%s","object":' + POD + b"}", id="more-before"),
    pytest.param(b'{"type":"%s","object": ' + POD + b"}", id="space-before-object"),
]


@pytest.mark.parametrize("shape", ODD_SHAPES)
@pytest.mark.parametrize("kind", [b"ADDED", b"MODIFIED"])
def test_an_event_of_an_unusual_shape_is_applied(shape: bytes, kind: bytes) -> None:
    bench = Bench()
    bench.feed(shape.replace(b"%s", kind))
    assert bench.sink.history == {"b": ["add 101"]}
    bench.feed(shape.replace(b"%s", b"DELETED").replace(b'"101"', b'"102"'))
    assert bench.sink.history == {"b": ["add 101", "delete 102"]}


@pytest.mark.parametrize("shape", ODD_SHAPES)
def test_a_bookmark_of_an_unusual_shape_is_taken(shape: bytes) -> None:
    bench = Bench()
    bench.feed(shape.replace(b"%s", b"BOOKMARK"))
    assert bench.guard.position == "101"


@pytest.mark.parametrize("shape", ODD_SHAPES)
def test_an_error_of_an_unusual_shape_is_raised(shape: bytes) -> None:
    bench = Bench()
    with pytest.raises(ResourceExpiredError):
        bench.feed(shape.replace(b"%s", b"ERROR").replace(POD, status_bytes(410)))


@pytest.mark.covers("client-go tools/watch: TestRetryWatcher")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"metadata":{"resourceVersion":"120"}}', id="nothing-else"),
        pytest.param(
            b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"","resourceVersion":"120",'
            b'"creationTimestamp":null},"spec":{"containers":null},"status":{}}',
            id="as-servers-send-it",
        ),
        pytest.param(
            b'{"kind":"PartialObjectMetadata","metadata":{"resourceVersion":"120"}}',
            id="of-another-kind",
        ),
    ],
)
def test_a_bookmark_needs_only_a_version(body: bytes) -> None:
    bench = Bench()
    bench.feed(b'{"type":"BOOKMARK","object":' + body + b"}")
    assert bench.guard.position == "120"
    assert bench.sink.bookmarks == ["120"]


TABLE = b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"101"}}'
UNREADABLE = [
    pytest.param(b"nonsense", id="no-json"),
    pytest.param(b"[1]", id="no-object"),
    pytest.param(b"{}", id="empty"),
    pytest.param(b'{"type":"ADDED"}', id="no-object-in-it"),
    pytest.param(b'{"object":' + POD + b"}", id="no-type"),
    pytest.param(b'{"type":7,"object":' + POD + b"}", id="type-is-a-number"),
    pytest.param(b'{"type":"UPSERTED","object":' + POD + b"}", id="unknown-type"),
    pytest.param(b'{"type":"added","object":' + POD + b"}", id="type-in-lower-case"),
    pytest.param(b'{"type":"MODIFIED","object":null}', id="null"),
    pytest.param(b'{"type":"MODIFIED","object":[]}', id="array"),
    pytest.param(b'{"type":"MODIFIED","object":"text"}', id="text"),
    pytest.param(line("MODIFIED", "b", "101")[:-20], id="truncated"),
    pytest.param(line("MODIFIED", "b", "101")[:-1], id="last-brace-missing"),
    pytest.param(line("MODIFIED", "b", "101") + b"}", id="one-brace-too-many"),
    pytest.param(line("MODIFIED", "b", "101") * 2, id="two-events-in-a-line"),
    pytest.param(b'{"type":"BOOKMARK","object":{"metadata":7}}', id="bookmark-without-metadata"),
    pytest.param(b'{"type":"BOOKMARK","object":null}', id="bookmark-without-object"),
    pytest.param(b'{"type":"ERROR","object":null}', id="error-without-object"),
]


@pytest.mark.covers("kube-client src: watch_malformed_json_is_serde_error")
@pytest.mark.parametrize("frame", UNREADABLE)
def test_a_frame_that_cannot_be_read_ends_the_stream_and_moves_nothing(frame: bytes) -> None:
    bench = Bench()
    broken = bench.broken(frame)
    assert broken.breach is Breach.UNREADABLE
    assert bench.untouched()
    assert bench.guard.statistics().counts == {"unknown_events": 1}


UNIDENTIFIED = [
    pytest.param(b'{"type":"MODIFIED","object":{}}', id="no-metadata"),
    pytest.param(b'{"type":"MODIFIED","object":{"metadata":{}}}', id="no-name"),
    pytest.param(b'{"type":"ADDED","object":' + TABLE + b"}", id="table"),
    pytest.param(line("ADDED", "b", "101").replace(b'"Pod"', b'"Node"'), id="other-kind"),
    pytest.param(line("ADDED", "b", "101").replace(b'"v1"', b'"v2"'), id="other-version"),
    pytest.param(
        b'{"type":"ADDED","object":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, id="deep"
    ),
]


@pytest.mark.covers("client-go tools/cache: TestIsUnsupportedTableObject")
@pytest.mark.parametrize("frame", UNIDENTIFIED)
def test_an_object_that_cannot_be_identified_costs_itself_only(frame: bytes) -> None:
    """It is reported and counted, and the stream continues behind it."""
    bench = Bench()
    bench.feed(frame)
    assert bench.untouched()
    assert [error.__class__ for error in bench.skipped] == [InvalidObjectError]
    assert bench.guard.statistics().counts == {"undecodable:skipped": 1}
    bench.feed(frame, line("MODIFIED", "a", "101"))
    assert bench.sink.versions() == {"a": "101"}
    assert bench.guard.position == "101"


@pytest.mark.parametrize("frame", ["line", "shape", "oversized"])
def test_another_kind_of_a_custom_resource_ends_the_stream(frame: str) -> None:
    """Its definition may be another one by now: a list shows that, which forgets the kind."""
    made: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("e.com/v1", "pods"))
    bench = Bench(codec=made)
    old = line("MODIFIED", "a", "101").replace(b'"v1"', b'"e.com/v1"')
    bench.feed(old)
    new = old.replace(b'"Pod"', b'"POD"').replace(b'"101"', b'"102"')
    with pytest.raises(StreamBroken, match=r"POD where e\.com/v1/Pod was expected") as caught:
        if frame == "oversized":
            bench.follower.on_oversized(new, 1 << 20)
        else:
            bench.feed(new if frame == "line" else new.replace(b'{"type"', b'{ "type"'))
    assert caught.value.breach is Breach.UNREADABLE
    assert bench.guard.position == "101"
    assert not bench.skipped
    made.forget_kind()
    bench.feed(new)
    assert bench.sink.objects["a"].gvk.kind == "POD"


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("space", ["", " "])
def test_an_object_that_is_nested_deeply_is_followed(kind: str, space: str) -> None:
    bench = Bench()
    spec = '{"a":' * 9_994 + "1" + "}" * 9_994
    body = '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"uid-1",'
    body += f'"resourceVersion":"101"}},"spec":{spec}}}'
    bench.feed(f'{{{space}"type":"{kind}","object":{body}}}'.encode())
    assert bench.guard.position == "101"
    assert bench.sink.versions() == ({} if kind == "DELETED" else {"a": "101"})
    assert not bench.skipped


def test_the_same_unreadable_frame_is_recognised() -> None:
    bench = Bench()
    first, again, other = (bench.broken(frame) for frame in (b"xyz", b"xyz", b"xyy"))
    assert first.digest == again.digest != other.digest


def test_invalid_text_in_what_is_kept_ends_the_stream_or_marks_the_object() -> None:
    bench = Bench()
    bench.feed(
        line("ADDED", "b", "101", "uid-b").replace(b'"nodeName":"101"', b'"nodeName":"\xff"')
    )
    assert bench.sink.objects["b"].problem
    assert bench.guard.position == "101", "what can be identified counts as applied"


@pytest.mark.parametrize("version", [None, "", "0", "007", "1e3", "x"])
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("name", ["a", "b"])
def test_an_event_without_a_comparable_version_ends_the_stream(
    version: str | None, kind: str, name: str
) -> None:
    bench = Bench()
    broken = bench.broken(line(kind, name, version))
    assert broken.breach is Breach.MALFORMED
    assert bench.untouched()


def test_a_bookmark_without_a_version_ends_the_stream() -> None:
    bench = Bench()
    broken = bench.broken(b'{"type":"BOOKMARK","object":{"metadata":{}}}')
    assert broken.breach is Breach.MALFORMED
    assert bench.untouched()


def test_a_bookmark_from_the_past_ends_the_stream() -> None:
    bench = Bench()
    broken = bench.broken(bookmark("99"))
    assert broken.breach is Breach.BOOKMARK
    assert broken.verify == ""
    assert "a bookmark older than the position" in str(broken)
    assert bench.untouched()


def test_an_event_that_cannot_be_proven_stale_ends_the_stream() -> None:
    bench = Bench()
    broken = bench.broken(line("ADDED", "b", "95", "uid-b"))
    assert (broken.breach, broken.verify) == (Breach.SUSPECT, "b")
    assert "'b' at '95'" in str(broken)
    assert bench.untouched()


@pytest.mark.parametrize(
    ("found", "history"),
    [
        pytest.param(pod("a", "120"), {"a": ["update 90 120"]}, id="newer"),
        pytest.param(pod("a", "120", "uid-2"), {"a": ["delete? 90", "add 120"]}, id="other-uid"),
        pytest.param(None, {"a": ["delete? 90"]}, id="gone"),
        pytest.param(pod("a", "90"), {}, id="unchanged"),
    ],
)
def test_a_verification_is_applied_as_an_event_without_moving_the_position(
    found: KubeObject[None] | None, history: dict[str, list[str]]
) -> None:
    bench = Bench()
    assert bench.follower.on_verified("a", found, "130")
    assert bench.sink.history == history
    assert bench.guard.position == "100"


def test_a_verify_adds_what_was_not_known() -> None:
    bench = Bench()
    assert bench.follower.on_verified("b", pod("b", "95", "uid-b"), "130")
    assert bench.sink.history == {"b": ["add 95"]}


@pytest.mark.parametrize("selective", [False, True])
def test_an_object_missing_from_a_verify_may_exist_behind_a_selector(selective: bool) -> None:
    seen: list[Event[None]] = []

    class Listening(DictSink):
        def apply_nowait(self, event: Event[None]) -> None:
            seen.append(event)

    bench = Bench(selective=selective, sink=Listening)
    bench.follower.on_verified("a", None, "130")
    assert [getattr(event, "may_still_exist", None) for event in seen] == [selective]


@pytest.mark.parametrize(
    ("found", "read_at"),
    [
        pytest.param(pod("a", "95"), "99", id="list-behind-the-position"),
        pytest.param(pod("a", "90"), "99", id="unchanged-but-behind"),
        pytest.param(None, "99", id="gone-but-behind"),
        pytest.param(pod("a", "80"), "130", id="older-than-cached"),
        pytest.param(pod("a", "80", "uid-2"), "130", id="other-uid-older-than-cached"),
        pytest.param(pod("a", "140"), "130", id="newer-than-its-list"),
        pytest.param(pod("a", "x"), "130", id="malformed"),
        pytest.param(None, "", id="list-without-version"),
    ],
)
def test_a_verify_that_contradicts_what_is_known_changes_nothing(
    found: KubeObject[None] | None, read_at: str
) -> None:
    bench = Bench()
    assert not bench.follower.on_verified("a", found, read_at)
    assert bench.untouched()


def test_three_regressions_end_the_stream() -> None:
    bench = Bench()
    stale = line("MODIFIED", "a", "80")
    bench.feed(stale, stale)
    assert bench.broken(stale).breach is Breach.SUSPECT
    assert bench.untouched()


@pytest.mark.covers("client-go tools/watch: TestRetryWatcher")
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(status_bytes(410, "Expired"), ResourceExpiredError, id="410"),
        pytest.param(status_bytes(429), TooManyRequestsError, id="429"),
        pytest.param(status_bytes(403), ForbiddenError, id="403"),
        pytest.param(status_bytes(500), ServerError, id="500"),
        pytest.param(b'{"kind":"Status"}', ServerError, id="no-code"),
        pytest.param(b"{}", ServerError, id="nothing"),
        pytest.param(
            b'{"code":504,"details":{"causes":[{"reason":"ResourceVersionTooLarge"}]}}',
            ResourceVersionTooLargeError,
            id="too-large",
        ),
    ],
)
def test_an_error_event_is_raised_by_its_code_and_moves_nothing(
    body: bytes, expected: type[APIStatusError]
) -> None:
    bench = Bench()
    with pytest.raises(expected) as caught:
        bench.feed(b'{"type":"ERROR","object":' + body + b"}")
    assert type(caught.value) is expected
    assert bench.untouched()


def test_a_status_in_place_of_a_watch_is_an_error() -> None:
    bench = Bench()
    with pytest.raises(ResourceExpiredError):
        bench.feed(status_bytes(410, "Gone"))
    assert bench.untouched()


def test_the_position_moves_only_after_the_sink_has_taken_the_event() -> None:
    positions: list[str] = []

    class Listening(DictSink):
        def apply_nowait(self, event: Event[None]) -> None:
            super().apply_nowait(event)
            positions.append(bench.guard.position)

    bench = Bench(sink=Listening)
    bench.feed(line("ADDED", "b", "101"), line("MODIFIED", "a", "102"))
    assert positions == ["100", "101"]


def test_an_event_that_the_sink_does_not_take_moves_nothing() -> None:
    class Failing(DictSink):
        def apply_nowait(self, event: Event[None]) -> None:
            raise MemoryError

    bench = Bench(sink=Failing)
    with pytest.raises(MemoryError):
        bench.feed(line("MODIFIED", "a", "102"))
    assert bench.guard.position == "100"


@pytest.mark.covers(
    "apimachinery pkg/watch: TestStreamWatcher",
    "kube-client src: watch_unexpected_eof_after_truncated_line_keeps_resource_version",
)
def test_a_stream_cut_at_any_byte_leaves_whole_events() -> None:
    stream = b"\n".join(
        [
            line("ADDED", "b", "101", "uid-b"),
            line("MODIFIED", "a", "102"),
            line("DELETED", "b", "103", "uid-b"),
            b"",
        ]
    )
    states = [{"a": "90"}, {"a": "90", "b": "101"}, {"a": "102", "b": "101"}, {"a": "102"}]
    for size in range(len(stream) + 1):
        bench = Bench()
        splitter = LineSplitter(bench.follower.on_line)
        splitter.feed(stream[:size])
        whole = stream[:size].count(b"\n")
        assert bench.sink.versions() == states[whole]
        assert bench.guard.position == str(100 + whole)


@pytest.mark.parametrize("order", ["global", "per_object", "opaque"])
def test_an_event_with_another_content_at_the_same_version_is_applied(order: Order) -> None:
    """A server of an aggregated API may give one version to every state."""
    bench = Bench()
    bench.guard.use_order(order)
    same = line("MODIFIED", "a", "90")
    bench.feed(same)
    assert bench.follower.skipped == 1
    bench.feed(same.replace(b'"nodeName":"90"', b'"nodeName":"other"'))
    assert bench.sink.objects["a"].at("spec.nodeName") == "other"
    assert (bench.follower.skipped, bench.follower.modified) == (1, 1)


def test_a_deletion_of_what_the_cache_lacks_is_not_a_bookmark_for_readers_of_own_writes() -> None:
    class Passing(DictSink):
        """Records the positions that have passed."""

        def __init__(self, *objects: KubeObject) -> None:
            super().__init__(*objects)
            self.passed: list[str] = []

        def passed_nowait(self, resource_version: str) -> None:
            """Keep it."""
            self.passed.append(resource_version)

    bench = Bench(sink=Passing)
    bench.feed(line("DELETED", "x", "101", "uid-x"))

    assert isinstance(bench.sink, Passing)
    assert bench.sink.passed == ["101"]
    assert bench.sink.bookmarks == []
