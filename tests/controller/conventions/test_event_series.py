"""Which events are written: decided without a server, by a clock of the test's own."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.controller.conventions._event_body import EventBodies
from pyinformer.controller.conventions._event_correlator import (
    EventBook,
    EventOutcome,
    Occurrence,
    Series,
)
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from tests.pods import make

_POD = make("shop/web")
_STEP = st.one_of(
    st.tuples(st.just("observe"), st.integers(0, 5)),
    st.tuples(st.just("write"), st.just(0)),
    st.tuples(st.just("sweep"), st.sampled_from([1, 200, 400, 2000])),
)


def _occurrence(regarding: Any = _POD, reason: str = "Killing", **changes: Any) -> Occurrence:
    given: dict[str, Any] = {
        "note": "",
        "event_type": "Normal",
        "action": "",
        "related": None,
        "happened_at": 100.0,
    }
    return Occurrence.of(regarding, reason=reason, **(given | changes))


def _write_all(book: EventBook, now: float) -> list[tuple[str, int]]:
    """Take what is due as the recorder does; return each series' reason and count."""
    written = []
    while (series := book.take()) is not None:
        if series.written_count != series.count:
            written.append((series.first.reason, series.count))
        series.written_count, series.written_at = series.count, now
    return written


def test_the_first_is_written_at_once() -> None:
    book = EventBook(10)

    assert book.observe(_occurrence(), 0.0) is EventOutcome.QUEUED
    assert _write_all(book, 0.0) == [("Killing", 1)]


@pytest.mark.covers("client-go tools/record: TestEventCorrelator")
def test_the_second_makes_it_a_series_at_once_and_the_others_are_only_counted() -> None:
    book = EventBook(10)
    book.observe(_occurrence(), 0.0)
    _write_all(book, 0.0)

    outcomes = [book.observe(_occurrence(note=f"time {n}"), float(n)) for n in range(1, 5)]

    assert outcomes == [EventOutcome.QUEUED, *[EventOutcome.AGGREGATED] * 3]
    assert _write_all(book, 5.0) == [("Killing", 5)]


@pytest.mark.covers("client-go tools/events: TestFinishSeries")
def test_the_count_is_written_when_the_series_ends() -> None:
    book = EventBook(10)
    for now in (0.0, 1.0, 2.0):
        book.observe(_occurrence(), now)
        if now < 2.0:
            _write_all(book, now)

    book.sweep(361.0)
    assert _write_all(book, 361.0) == []
    book.sweep(362.0)
    assert _write_all(book, 362.0) == [("Killing", 3)]
    assert book.open == 0


@pytest.mark.covers("client-go tools/events: TestRefreshExistingEventSeries")
def test_a_series_that_continues_is_written_every_half_hour() -> None:
    book = EventBook(10)
    written = []
    for minute in range(0, 65, 5):
        book.observe(_occurrence(), minute * 60.0)
        book.sweep(minute * 60.0)
        written += _write_all(book, minute * 60.0)

    assert written == [("Killing", 1), ("Killing", 2), ("Killing", 8)]


def test_after_six_silent_minutes_another_event_begins() -> None:
    book = EventBook(10)
    book.observe(_occurrence(), 0.0)
    _write_all(book, 0.0)

    book.observe(_occurrence(), 360.0)

    assert _write_all(book, 360.0) == [("Killing", 1)]


@pytest.mark.covers("client-go tools/record: TestEventAggregatorByReasonFunc")
@pytest.mark.parametrize(
    "other",
    [
        pytest.param(_occurrence(make("shop/other")), id="object"),
        pytest.param(_occurrence(make("shop/web", uid="again")), id="recreated"),
        pytest.param(_occurrence(reason="Pulled"), id="reason"),
        pytest.param(_occurrence(action="Stop"), id="action"),
        pytest.param(_occurrence(event_type="Warning"), id="type"),
        pytest.param(_occurrence(related=make("shop/node")), id="related"),
    ],
)
def test_events_that_differ_in_more_than_the_note_are_separate(other: Occurrence) -> None:
    book = EventBook(10)
    book.observe(_occurrence(), 0.0)
    book.observe(other, 0.0)

    assert len(_write_all(book, 0.0)) == 2


def test_a_newer_version_of_the_object_is_the_same_event() -> None:
    book = EventBook(10)
    book.observe(_occurrence(make("shop/web", resource_version="1")), 0.0)
    book.observe(_occurrence(make("shop/web", resource_version="2")), 1.0)

    assert _write_all(book, 1.0) == [("Killing", 2)]


@pytest.mark.covers("client-go tools/record: TestEventSpamFilter")
def test_one_object_gets_25_new_events_at_once_and_then_one_in_five_minutes() -> None:
    book = EventBook(100)
    outcomes = [book.observe(_occurrence(reason=f"R{n}"), 0.0) for n in range(30)]

    assert outcomes.count(EventOutcome.QUEUED) == 25
    assert book.counts[EventOutcome.RATE_LIMITED] == 5
    assert book.observe(_occurrence(reason="R99"), 299.0) is EventOutcome.RATE_LIMITED
    assert book.observe(_occurrence(reason="R99"), 300.0) is EventOutcome.QUEUED
    assert book.observe(_occurrence(make("shop/other")), 300.0) is EventOutcome.QUEUED


def test_events_over_the_limit_are_dropped_and_counted() -> None:
    book = EventBook(2)
    outcomes = [book.observe(_occurrence(make(f"shop/p{n}")), 0.0) for n in range(3)]
    assert outcomes == [EventOutcome.QUEUED, EventOutcome.QUEUED, EventOutcome.OVERFLOWED]

    _write_all(book, 0.0)

    assert book.observe(_occurrence(make("shop/p2")), 1.0) is EventOutcome.QUEUED


def test_one_namespace_cannot_keep_the_events_of_others_out() -> None:
    book = EventBook(4)
    for number in range(6):
        book.observe(_occurrence(make(f"evil/p{number}"), "Flood"), 0.0)

    outcomes = [
        book.observe(_occurrence(make(f"{namespace}/a"), reason), 1.0)
        for namespace, reason in (("shop", "A"), ("bank", "B"), ("shop", "C"), ("evil", "D"))
    ]

    assert outcomes == [
        EventOutcome.QUEUED,
        EventOutcome.QUEUED,
        EventOutcome.OVERFLOWED,
        EventOutcome.OVERFLOWED,
    ]
    assert book.counts[EventOutcome.QUEUED] == book.waiting == book.open == 4
    assert sum(book.counts.values()) == 10
    assert [reason for reason, _ in _write_all(book, 1.0)] == ["Flood", "Flood", "A", "B"]
    assert book.observe(_occurrence(make("evil/p2"), "Flood"), 2.0) is EventOutcome.QUEUED


def test_a_count_that_does_not_fit_is_written_later() -> None:
    book = EventBook(1)
    book.observe(_occurrence(), 0.0)
    _write_all(book, 0.0)
    book.observe(_occurrence(make("shop/other")), 1.0)
    assert book.observe(_occurrence(), 1.0) is EventOutcome.AGGREGATED
    _write_all(book, 1.0)

    book.sweep(400.0)

    assert _write_all(book, 400.0) == [("Killing", 2)]


@pytest.mark.parametrize("again", [False, True], ids=["silence", "another-one"])
def test_a_series_that_ends_while_the_backlog_is_full_loses_no_count(again: bool) -> None:
    book = EventBook(1)
    for now in (0.0, 1.0, 2.0):
        book.observe(_occurrence(), now)
        if now < 2.0:
            _write_all(book, now)
    book.observe(_occurrence(make("shop/other")), 399.0)

    if again:
        assert book.observe(_occurrence(), 400.0) is EventOutcome.OVERFLOWED
    else:
        book.sweep(400.0)
    assert _write_all(book, 400.0) == [("Killing", 1)]
    book.sweep(401.0)

    assert _write_all(book, 401.0) == [("Killing", 3)]


def test_the_oldest_series_makes_room_and_loses_no_count() -> None:
    book = EventBook(10_000)
    for now in (0.0, 1.0, 2.0):
        book.observe(_occurrence(), now)
        if now < 2.0:
            _write_all(book, now)
    for number in range(4096):
        book.observe(_occurrence(make(f"shop/p{number}")), 3.0)

    assert book.open == 4096
    assert ("Killing", 3) in _write_all(book, 3.0)


def test_closing_writes_pending_counts_and_refuses_new_events() -> None:
    book = EventBook(10)
    for now in (0.0, 1.0, 2.0):
        book.observe(_occurrence(), now)
        _write_all(book, now) if now < 2.0 else None

    book.close()

    assert _write_all(book, 3.0) == [("Killing", 3)]
    assert book.observe(_occurrence(), 4.0) is EventOutcome.CLOSED


@pytest.mark.covers("client-go tools/events: TestEventSeriesf")
def test_occurrences_from_many_threads_are_all_counted() -> None:
    book = EventBook(10)

    def report() -> None:
        for _ in range(500):
            book.observe(_occurrence(), 0.0)

    threads = [threading.Thread(target=report) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert _write_all(book, 0.0) == [("Killing", 2000)]
    assert sum(book.counts.values()) == 2000


@given(st.lists(_STEP, max_size=60), st.integers(1, 5))
def test_every_occurrence_is_written_or_counted_as_dropped(
    steps: list[tuple[str, int]], max_waiting: int
) -> None:
    """Whatever the order of writes and silences, no count is lost and none is invented."""
    book, now, touched = EventBook(max_waiting), 0.0, dict[int, Series]()

    def write() -> None:
        while (series := book.take()) is not None:
            touched[id(series)] = series
            series.written_count, series.written_at = series.count, now

    for step, value in steps:
        match step:
            case "observe":
                book.observe(_occurrence(make(f"shop/p{value % 2}"), f"R{value}"), now)
            case "write":
                write()
            case _:
                now += value
                book.sweep(now)
        assert book.waiting <= max_waiting
    book.close()
    write()

    taken = book.counts[EventOutcome.QUEUED] + book.counts[EventOutcome.AGGREGATED]
    assert sum(series.written_count for series in touched.values()) == taken
    assert sum(book.counts.values()) == sum(step == "observe" for step, _ in steps)


def _body(occurrence: Occurrence, count: int = 1) -> dict[str, Any]:
    series = Series(first=occurrence, count=count, last_happened_at=101.5, last_seen_at=0.0)
    return EventBodies("acme.io/db", "db-1").body(series)


@pytest.mark.covers("client-go tools/events: TestEventf")
def test_the_body_is_a_valid_event() -> None:
    body = _body(_occurrence(action="Stop", note="why", related=make("node-1")))

    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "web.174876e800", "namespace": "shop"},
        "eventTime": "1970-01-01T00:01:40.000000Z",
        "reportingController": "acme.io/db",
        "reportingInstance": "db-1",
        "type": "Normal",
        "reason": "Killing",
        "action": "Stop",
        "note": "why",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web",
            "uid": "uid-web",
            "resourceVersion": "1",
        },
        "related": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "node-1",
            "uid": "uid-node-1",
            "resourceVersion": "1",
        },
    }


@pytest.mark.covers("client-go tools/events: TestEventSeriesf")
def test_a_series_has_its_count_and_last_time() -> None:
    assert _body(_occurrence(), count=7)["series"] == {
        "count": 7,
        "lastObservedTime": "1970-01-01T00:01:41.500000Z",
    }


@pytest.mark.covers("client-go tools/record: TestEventfNoNamespace")
def test_an_event_about_a_cluster_scoped_object_lives_in_default() -> None:
    assert _body(_occurrence(make("node-1")))["metadata"]["namespace"] == "default"


def test_texts_are_cut_to_what_a_server_takes() -> None:
    long = "x" * 5000
    body = _body(_occurrence(reason=long, action=long, note=long))

    assert (len(body["reason"]), len(body["action"]), len(body["note"])) == (128, 128, 1024)


def test_texts_are_cut_in_bytes_and_between_characters() -> None:
    """The server says characters and counts bytes."""
    long = "x" + "\u00e4" * 5000
    body = _body(_occurrence(reason=long, action=long, note=long))

    assert [body[field] for field in ("reason", "action", "note")] == [
        "x" + "\u00e4" * 63,
        "x" + "\u00e4" * 63,
        "x" + "\u00e4" * 511,
    ]


def test_a_note_without_end_is_not_kept_whole() -> None:
    assert len(_occurrence(note="x" * 100_000).note) == 1024


@pytest.mark.covers(
    "client-go tools/record/util: TestGenerateEventName", "client-go tools/events: TestEventf"
)
@pytest.mark.parametrize(
    ("name", "readable"),
    [
        pytest.param("a..b", "a.b", id="dots"),
        pytest.param("a.:b-.c", "a-b-c", id="dash-at-a-dot"),
        pytest.param("my--web", "my--web", id="dashes"),
        pytest.param("web.example.com", "web.example.com", id="as-it-is"),
        pytest.param("system:node:A", "system-node-a", id="colons"),
        pytest.param(":::", "object", id="nothing-left"),
        pytest.param("n" * 253, "n" * 230, id="long"),
    ],
)
def test_generated_names_are_valid_object_names(name: str, readable: str) -> None:
    assert _body(_occurrence(make(name)))["metadata"]["name"].rpartition(".")[0] == readable


@pytest.mark.parametrize("happened_at", [100.0, float("nan"), float("inf"), -1.0, 1e300])
def test_names_never_repeat_whatever_the_clock_says(happened_at: float) -> None:
    bodies = EventBodies("db", "db-1")
    names = {
        bodies.body(
            Series(
                first=_occurrence(happened_at=happened_at), last_happened_at=0.0, last_seen_at=0.0
            )
        )["metadata"]["name"]
        for _ in range(3)
    }

    assert len(names) == 3


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        pytest.param({"reason": ""}, "reason", id="no-reason"),
        pytest.param({"reason": 7}, "reason", id="reason-is-no-text"),
        pytest.param({"event_type": "Error"}, "type", id="type"),
        pytest.param({"note": None}, "note", id="note-is-no-text"),
        pytest.param({"regarding": {}}, "regarding", id="no-object"),
        pytest.param({"related": "x"}, "related", id="related-is-no-object"),
        pytest.param(
            {
                "regarding": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"generateName": "web-"},
                }
            },
            "regarding",
            id="no-name-yet",
        ),
    ],
)
def test_an_invalid_argument_is_refused_by_name(changes: dict[str, Any], argument: str) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=f"^{argument}: "):
        _occurrence(**changes)
