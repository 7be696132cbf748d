"""What a reflector does next: every transition, with the times passed in.

A delay is a Sleep; after it comes `Woke`, and the command that had been planned.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyinformer.cache.reflector import ReflectorState
from pyinformer.cache.reflector.lineage import HistoryVerdict
from pyinformer.cache.reflector.machine.steps import (
    Breach,
    Command,
    Discover,
    Discovered,
    DiscoveryFailed,
    Follow,
    Halt,
    Input,
    Load,
    Loaded,
    LoadFailed,
    LoadMode,
    ProofFailed,
    Prove,
    Proved,
    Sleep,
    Verified,
    Verify,
    WakeCause,
    Watch,
    WatchBroken,
    WatchEnded,
    WatchFailed,
    Woke,
)
from pyinformer.client.transport import PagesEmptyError
from pyinformer.errors import InformerError, TransportError, status_error_class
from tests.cache.reflector.machine_bench import (
    BAD,
    EXPIRED,
    HANGING,
    LOST,
    MALFORMED,
    NO_END,
    PAGED,
    TOO_LARGE,
    WATCH_LIST,
    WHOLE,
    Bench,
    status,
)


def test_a_watch_list_comes_first_and_is_followed() -> None:
    bench = Bench()
    assert bench.start() == WATCH_LIST
    assert bench.state() is ReflectorState.LOADING
    assert bench.step(Loaded(LoadMode.WATCH_LIST)) == Follow()
    assert bench.state() is ReflectorState.WATCHING
    assert bench.machine.loads == 1


def test_without_watch_list_a_paged_list_comes_first_and_a_watch_follows() -> None:
    bench = Bench(use_watch_list=False)
    assert bench.start() == PAGED
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    assert bench.state() is ReflectorState.WATCHING


@pytest.mark.parametrize("code", [400, 403, 405, 415, 422])
def test_a_refused_watch_list_becomes_a_paged_list_at_once(code: int) -> None:
    bench = Bench()
    bench.start()
    assert bench.step(LoadFailed(LoadMode.WATCH_LIST, status(code))) == PAGED
    assert bench.state() is ReflectorState.LOADING


def test_a_refused_watch_list_is_remembered_for_ten_minutes_by_all() -> None:
    first = Bench()
    first.start()
    first.step(LoadFailed(LoadMode.WATCH_LIST, status(422)))
    second = Bench(memory=first.memory)
    second.now += 599.9
    assert second.start() == PAGED
    third = Bench(memory=first.memory)
    third.now += 600.0
    assert third.start() == WATCH_LIST


@pytest.mark.parametrize("code", [402, 403, 404, 405, 406, 408, 409, 413, 414, 421, 426, 431, 451])
def test_a_refusal_of_one_resource_is_not_held_against_the_others(code: int) -> None:
    bench = Bench()
    bench.start()
    assert bench.step(LoadFailed(LoadMode.WATCH_LIST, status(code))) == PAGED
    bench.step(Loaded(LoadMode.PAGED))
    bench.now += 500
    assert bench.after_delay(WatchFailed(EXPIRED, established=True)) == PAGED
    assert Bench(memory=bench.memory).start() == WATCH_LIST


def test_a_watch_list_without_an_end_falls_back_at_once_for_this_resource_only() -> None:
    bench = Bench()
    bench.start()
    assert bench.step(LoadFailed(LoadMode.WATCH_LIST, NO_END, established=True)) == PAGED
    bench.step(Loaded(LoadMode.PAGED))
    bench.now += 500
    assert bench.after_delay(WatchFailed(EXPIRED, established=True)) == PAGED
    assert Bench(memory=bench.memory).start() == WATCH_LIST
    bench.now += 600
    assert bench.after_delay(WatchFailed(EXPIRED, established=True)) == WATCH_LIST


@pytest.mark.parametrize(
    "failed",
    [
        pytest.param(LoadFailed(LoadMode.WATCH_LIST, BAD, established=True), id="ended-early"),
        pytest.param(LoadFailed(LoadMode.WATCH_LIST, LOST, established=True), id="cut"),
        pytest.param(LoadFailed(LoadMode.WATCH_LIST, HANGING), id="no-answer"),
        pytest.param(LoadFailed(LoadMode.WATCH_LIST, status(500)), id="500"),
    ],
)
def test_a_watch_list_that_breaks_twice_gives_way_to_a_list(failed: LoadFailed) -> None:
    bench = Bench()
    bench.start()
    assert bench.after_delay(failed) == WATCH_LIST
    assert bench.after_delay(failed) == PAGED
    assert Bench(memory=bench.memory).start() == WATCH_LIST, "others may still try"


def test_a_server_that_refuses_lists_as_well_shows_nothing_about_watch_lists() -> None:
    bench = Bench()
    bench.start()
    for _ in range(3):
        assert bench.step(LoadFailed(LoadMode.WATCH_LIST, status(404))) == PAGED
        assert bench.after_delay(LoadFailed(LoadMode.PAGED, status(404))) == WATCH_LIST


def test_a_list_after_two_answers_with_retry_after_shows_that_watch_lists_alone_fail() -> None:
    failed = LoadFailed(LoadMode.WATCH_LIST, status(503, 1))
    bench = Bench()
    bench.start()
    assert bench.after_delay(failed) == WATCH_LIST
    assert bench.after_delay(failed) == PAGED
    bench.step(Loaded(LoadMode.PAGED))
    bench.now += 500
    assert bench.after_delay(WatchFailed(EXPIRED, established=True)) == PAGED


@pytest.mark.parametrize("error", [LOST, status(401), status(429), status(429, 1)])
def test_a_server_that_would_fail_a_list_too_is_asked_for_a_watch_list_again(
    error: InformerError,
) -> None:
    bench = Bench()
    bench.start()
    for _ in range(10):
        assert bench.after_delay(LoadFailed(LoadMode.WATCH_LIST, error)) == WATCH_LIST
    assert bench.machine.attempts == 10
    assert bench.machine.last_error is error


@pytest.mark.covers("client-go tools/pager: TestListPager_List")
def test_an_expired_continue_token_makes_one_whole_list_at_once() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    assert bench.step(LoadFailed(LoadMode.PAGED, EXPIRED, pages=2)) == WHOLE
    assert bench.after_delay(LoadFailed(LoadMode.WHOLE, EXPIRED, pages=2)) == PAGED


def test_pages_that_bring_nothing_are_replaced_by_one_body_at_the_next_attempt() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    empty = PagesEmptyError("list pods.v1", "64 pages brought nothing")
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, empty, pages=64)) == WHOLE
    assert bench.after_delay(LoadFailed(LoadMode.WHOLE, empty, pages=64)) == WHOLE


def test_an_expired_first_page_is_repeated_under_backoff() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, EXPIRED)) == PAGED


@pytest.mark.parametrize("error", [LOST, HANGING, BAD, NO_END, status(401), status(403), EXPIRED])
def test_a_list_that_fails_is_repeated_under_backoff(error: InformerError) -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    for attempt in range(1, 6):
        assert bench.after_delay(LoadFailed(LoadMode.PAGED, error)) == PAGED
        assert bench.machine.attempts == attempt
    assert bench.machine.last_error is error
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    assert bench.troubles == (0, None)


def test_a_list_waits_as_long_as_the_server_asks_for() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, status(429, 17)), at_least=17) == PAGED


@pytest.mark.covers("client-go tools/watch: TestRetryWatcher")
def test_a_watch_waits_as_long_as_the_server_asks_for_and_resumes_without_a_list() -> None:
    bench = Bench().watching()
    for _ in range(5):
        failed = WatchFailed(status(429, 17), established=False)
        assert bench.after_delay(failed, at_least=17) == Watch()
        bench.machine.progressed()
    assert bench.machine.loads == 1


@pytest.mark.parametrize("seconds", [121.0, 3600.0, 1e9])
def test_a_server_that_asks_for_long_is_asked_again_after_two_minutes(seconds: float) -> None:
    bench = Bench().watching()
    pause = bench.machine.step(WatchFailed(status(429, seconds), established=False), bench.now)
    assert pause == Sleep(120.0)


@pytest.mark.covers("client-go tools/watch: TestRetryWatcher")
@pytest.mark.parametrize("error", [LOST, HANGING, status(401), status(403), status(429)])
@pytest.mark.parametrize("code", [500, 502, 503, 504])
@pytest.mark.parametrize("established", [False, True])
def test_a_watch_that_fails_resumes_without_a_list(
    error: InformerError, code: int, established: bool
) -> None:
    bench = Bench().watching()
    for failure in (error, status(code), error, status(code)):
        bench.machine.progressed()  # a second refusal in a row is another promise
        assert bench.after_delay(WatchFailed(failure, established=established)) == Watch()
        assert bench.state() is not ReflectorState.WATCHING, "not before it is accepted"
        assert bench.machine.last_error is failure
        bench.machine.connected()
        assert bench.state() is ReflectorState.WATCHING
    assert bench.machine.loads == 1


@pytest.mark.parametrize(
    "happened",
    [
        pytest.param(WatchFailed(LOST, established=True), id="lost-after-events"),
        pytest.param(WatchFailed(LOST, established=False, seconds=60), id="lost-while-quiet"),
        pytest.param(WatchEnded(1, 0.1), id="ended-early"),
    ],
)
def test_watches_that_work_before_they_break_never_wait_long(happened: Input) -> None:
    """Else a network that cuts every few seconds would make the cache half a minute old."""
    bench = Bench().watching()
    for _ in range(50):
        assert bench.after_delay(happened, below=0.8) == Watch()


@pytest.mark.parametrize("established", [False, True])
def test_a_deletion_without_an_event_is_found_by_a_list(established: bool) -> None:
    """The unsafe deletion of a corrupt object sends this error in place of a DELETED event."""
    untold = status_error_class(500)(status=500, reason="StorageReadError")
    bench = Bench().watching()
    assert bench.after_delay(WatchFailed(untold, established=established)) == WATCH_LIST


def test_a_resource_that_is_gone_is_loaded_again() -> None:
    bench = Bench().watching()
    assert bench.after_delay(WatchFailed(status(404), established=False)) == WATCH_LIST


@pytest.mark.covers("client-go tools/watch: TestRetryWatcher")
@pytest.mark.parametrize("established", [False, True])
def test_an_expired_position_is_loaded_again_under_backoff(established: bool) -> None:
    bench = Bench().watching()
    assert bench.after_delay(WatchFailed(EXPIRED, established=established)) == WATCH_LIST


def expire_twice_after_load(bench: Bench, mode: LoadMode) -> Command:
    bench.start()
    bench.step(Loaded(mode))
    bench.after_delay(WatchFailed(EXPIRED, established=False))
    assert "history" not in bench.machine.reason
    bench.step(Loaded(mode))
    command = bench.after_delay(WatchFailed(EXPIRED, established=False))
    assert "the list takes longer than the server's watch history" in bench.machine.reason
    return command


def test_two_consecutive_expired_first_watches_request_one_unpaged_list() -> None:
    assert expire_twice_after_load(Bench(use_watch_list=False), LoadMode.PAGED) == WHOLE


def test_two_consecutive_expired_first_watches_request_a_watch_list_if_supported() -> None:
    assert expire_twice_after_load(Bench(), LoadMode.PAGED) == WATCH_LIST


def test_a_first_watch_that_works_breaks_the_row_of_expired_ones() -> None:
    bench = Bench(use_watch_list=False).watching()
    for _ in range(4):
        assert bench.after_delay(WatchFailed(EXPIRED, established=False)) == PAGED
        bench.step(Loaded(LoadMode.PAGED))
        bench.step(WatchEnded(5, 200.0))
        assert bench.after_delay(WatchFailed(EXPIRED, established=False)) == PAGED
        assert "history" not in bench.machine.reason
        bench.step(Loaded(LoadMode.PAGED))
        bench.machine.progressed()


def test_a_watch_that_expires_after_its_first_events_is_not_a_first_watch() -> None:
    bench = Bench(use_watch_list=False).watching()
    for _ in range(4):
        assert bench.after_delay(WatchFailed(EXPIRED, established=True)) == PAGED
        assert "history" not in bench.machine.reason
        bench.step(Loaded(LoadMode.PAGED))


def test_a_watch_that_ends_properly_is_reopened_at_once() -> None:
    bench = Bench().watching()
    for events in (0, 7):
        assert bench.step(WatchEnded(events, 200.0)) == Watch()
        assert bench.state() is ReflectorState.WATCHING


def test_a_quiet_watch_that_lasts_is_a_success() -> None:
    bench = Bench().watching()
    bench.after_delay(WatchFailed(LOST, established=False))
    bench.step(WatchEnded(0, 200.0))
    assert bench.troubles == (0, None)


def test_a_very_short_watch_is_reopened_after_a_delay() -> None:
    bench = Bench().watching()
    for _ in range(20):
        assert bench.after_delay(WatchEnded(1, 0.01)) == Watch()
    assert bench.machine.loads == 1


def test_three_consecutive_short_empty_watches_load_again() -> None:
    """kubernetes#104171: a dead position of an uncached resource gives no 410."""
    bench = Bench().watching()
    assert bench.after_delay(WatchEnded(0, 0.01)) == Watch()
    assert bench.after_delay(WatchEnded(0, 0.9)) == Watch()
    assert bench.after_delay(WatchEnded(0, 0.01)) == WATCH_LIST


def test_quiet_watches_of_a_second_are_opened_again_at_once() -> None:
    """A gateway ends them so soon; with pauses, changes would come late."""
    bench = Bench().watching()
    for _ in range(20):
        assert bench.step(WatchEnded(0, 1.1)) == Watch()


def test_an_event_or_a_longer_watch_breaks_the_row_of_empty_ones() -> None:
    bench = Bench().watching()
    for between in (WatchEnded(1, 200.0), WatchEnded(0, 1.0)):
        for _ in range(2):
            assert bench.after_delay(WatchEnded(0, 0.01)) == Watch()
        assert bench.step(between) == Watch()
    assert bench.machine.loads == 1


@pytest.mark.covers("client-go tools/cache: TestReflectorFullListIfTooLarge")
def test_a_server_that_lags_three_times_is_listed() -> None:
    bench = Bench().watching()
    failed = WatchFailed(TOO_LARGE, established=False)
    assert [bench.after_delay(failed) for _ in range(3)] == [Watch(), Watch(), WATCH_LIST]


def test_a_malformed_version_costs_one_list() -> None:
    bench = Bench().watching()
    assert bench.after_delay(WatchBroken(Breach.MALFORMED, BAD)) == WATCH_LIST


@pytest.mark.parametrize("seconds", [0.0, 599.0])
def test_a_malformed_version_again_after_that_list_reopens_the_watch(seconds: float) -> None:
    bench = Bench().watching()
    bench.after_delay(WatchBroken(Breach.MALFORMED, BAD))
    bench.now += 10_000  # the list takes its time
    bench.step(Loaded(LoadMode.WATCH_LIST))
    bench.now += seconds
    for _ in range(10):
        assert isinstance(bench.step(WatchBroken(Breach.MALFORMED, BAD)), Sleep)
        assert bench.state() is ReflectorState.WAITING
        assert bench.machine.last_error is BAD
        assert bench.step(Woke()) == Watch()
    assert bench.machine.loads == 2


def test_malformed_bookmarks_of_a_watch_and_of_the_load_behind_it_are_followed_by_a_list() -> None:
    bench = Bench().watching()
    assert bench.after_delay(WatchBroken(Breach.MALFORMED, BAD)) == WATCH_LIST
    failed = LoadFailed(LoadMode.WATCH_LIST, MALFORMED, established=True)
    assert bench.after_delay(failed) == PAGED
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()


def test_a_malformed_version_long_after_that_list_costs_another_list() -> None:
    bench = Bench().watching()
    for _ in range(3):
        assert bench.after_delay(WatchBroken(Breach.MALFORMED, BAD)) == WATCH_LIST
        bench.step(Loaded(LoadMode.WATCH_LIST))
        bench.now += 601


@pytest.mark.parametrize("mode", [LoadMode.WHOLE, LoadMode.PAGED])
def test_a_list_with_malformed_versions_twice_is_final(mode: LoadMode) -> None:
    bench = Bench()
    bench.start()
    bench.after_delay(LoadFailed(mode, MALFORMED))
    bench.now += 10_000
    assert bench.step(LoadFailed(mode, MALFORMED)) == Halt(MALFORMED)


def test_a_watch_list_with_malformed_versions_gives_way_to_a_list() -> None:
    bench = Bench()
    bench.start()
    assert bench.after_delay(LoadFailed(LoadMode.WATCH_LIST, MALFORMED, established=True)) == PAGED
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    assert Bench(memory=bench.memory).start() == WATCH_LIST


def test_an_unreadable_frame_resumes_and_the_same_again_costs_one_list_in_ten_minutes() -> None:
    bench = Bench().watching()
    unreadable = WatchBroken(Breach.UNREADABLE, BAD, b"frame")
    assert bench.after_delay(unreadable) == Watch()
    assert bench.after_delay(unreadable) == WATCH_LIST
    bench.step(Loaded(LoadMode.PAGED))
    for _ in range(5):
        assert bench.after_delay(unreadable) == Watch()
    bench.now += 600
    assert bench.after_delay(unreadable) == WATCH_LIST


def test_different_unreadable_frames_never_cost_a_list() -> None:
    bench = Bench().watching()
    for number in range(10):
        unreadable = WatchBroken(Breach.UNREADABLE, BAD, b"%d" % number)
        assert bench.after_delay(unreadable) == Watch()


@pytest.mark.covers("kube-runtime src: stream_should_back_off")
def test_delays_grow_through_an_outage() -> None:
    bench = Bench().watching()
    delays = []
    for _ in range(30):
        command = bench.step(WatchFailed(LOST, established=False))
        assert isinstance(command, Sleep)
        delays.append(command.seconds)
        bench.now += command.seconds + 100
        bench.step(Woke())
    assert delays[0] <= 0.8
    assert max(delays) > 15
    assert max(delays) <= 30


def pause(bench: Bench, happened: Input) -> float:
    """Take what happened, wait as long as the machine says, and return how long that was."""
    command = bench.step(happened)
    assert isinstance(command, Sleep)
    bench.now += command.seconds
    bench.proven(bench.step(Woke()))
    return command.seconds


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("events", [0, 1])
def test_positions_that_expire_at_once_are_listed_at_growing_intervals(
    seed: int, events: int
) -> None:
    """Neither a load nor an event behind it shows that the next load lasts longer."""
    bench = Bench(use_watch_list=False, seed=seed).watching()
    began = bench.now
    while bench.now - began < 60:
        bench.machine.connected()
        if events:
            bench.machine.progressed()
        pause(bench, WatchFailed(EXPIRED, established=events > 0))
        bench.step(Loaded(LoadMode.PAGED))
    assert bench.machine.loads <= 15, "in 60 s"


def test_a_load_that_serves_for_30_seconds_ends_the_growth_of_delays_before_loads() -> None:
    bench = Bench(use_watch_list=False).watching()
    for _ in range(8):
        pause(bench, WatchFailed(EXPIRED, established=True))
        bench.step(Loaded(LoadMode.PAGED))
    for served_seconds in (30.0, 1000.0):
        bench.now += served_seconds
        assert pause(bench, WatchFailed(EXPIRED, established=True)) <= 0.8
        bench.step(Loaded(LoadMode.PAGED))


def test_restarts_of_the_server_do_not_delay_the_loads_that_they_cause() -> None:
    """A restarted kube-apiserver answers 410, however short the time since the last load."""
    refused = TransportError("https://server", "cannot connect", is_unreachable=True)
    bench = Bench(use_watch_list=False).watching().during_an_outage()
    for _ in range(8):
        pause(bench, WatchFailed(LOST, established=True))
        for _ in range(3):
            pause(bench, WatchFailed(refused, established=False))
        assert pause(bench, WatchFailed(EXPIRED, established=False)) <= 0.8
        bench.step(Loaded(LoadMode.PAGED))


def test_a_load_that_takes_long_is_not_taken_for_one_that_lasts() -> None:
    bench = Bench(use_watch_list=False).watching()
    delays = []
    for _ in range(30):
        delays.append(pause(bench, WatchFailed(EXPIRED, established=False)))
        bench.now += 300.0  # the list itself
        bench.step(Loaded(LoadMode.PAGED))
    assert max(delays) > 15


@pytest.mark.parametrize("success", ["load", "event", "quiet"])
def test_a_success_ends_the_growth_of_an_outage(success: str) -> None:
    """Else a fault soon after an outage would cost half a minute."""
    bench = Bench(use_watch_list=False).watching().during_an_outage()
    for _ in range(10):
        pause(bench, WatchFailed(LOST, established=False))
    match success:
        case "load":
            bench.machine.request_relist("a test")
            bench.step(Loaded(LoadMode.PAGED))
        case "event":
            bench.machine.progressed()
        case "quiet":
            pause(bench, WatchFailed(LOST, established=False, seconds=2.0))
    assert pause(bench, WatchFailed(LOST, established=False)) <= 0.8


def test_an_outage_does_not_delay_the_load_that_follows_it() -> None:
    bench = Bench(use_watch_list=False).watching()
    for _ in range(10):
        pause(bench, WatchFailed(LOST, established=False))
    assert pause(bench, WatchFailed(EXPIRED, established=False)) <= 0.8


def test_a_server_that_breaks_every_watch_is_retried_at_growing_intervals() -> None:
    bench = Bench().watching()
    began, attempts = bench.now, 0
    while bench.now - began < 600:
        bench.machine.connected()
        pause(bench, WatchFailed(LOST, established=False))
        attempts += 1
    assert attempts < 60, "in 600 s"


def test_only_a_server_that_may_be_away_is_probed() -> None:
    bench = Bench().watching().during_an_outage()
    probed, not_probed, until_seen_away = WakeCause.ANSWER, WakeCause.TIME, WakeCause.RECOVERY
    for error, wake_on in (
        (LOST, probed),
        (HANGING, probed),
        (status(502), until_seen_away),
        (status(503), until_seen_away),
        (status(504), until_seen_away),
        (status(503, 17), until_seen_away),
        (status(503, 0), until_seen_away),
        (status(500, 17), not_probed),
        (status(500), not_probed),
        (status(429), not_probed),
        (status(429, 17), not_probed),
        (BAD, not_probed),
    ):
        command = bench.step(WatchFailed(error, established=False))
        assert isinstance(command, Sleep)
        assert command.wake_on is wake_on
        bench.proven(bench.step(Woke()))


def test_an_answered_probe_ends_the_growth_of_an_outage() -> None:
    """A server that is starting refuses a few requests; that must not cost half a minute."""
    bench = Bench().watching().during_an_outage()
    for _ in range(10):
        pause(bench, WatchFailed(LOST, established=False))
    bench.step(WatchFailed(LOST, established=False))
    bench.proven(bench.step(Woke(WakeCause.ANSWER)))
    assert pause(bench, WatchFailed(status(500), established=False)) <= 0.8


def test_a_server_that_answers_only_probes_is_retried_at_growing_intervals() -> None:
    bench = Bench().watching().during_an_outage()
    began, attempts = bench.now, 0
    while bench.now - began < 600:
        command = bench.step(WatchFailed(LOST, established=False))
        assert isinstance(command, Sleep)
        by = WakeCause.ANSWER if command.wake_on is WakeCause.ANSWER else WakeCause.TIME
        bench.now += 0.0 if by is WakeCause.ANSWER else command.seconds
        bench.proven(bench.step(Woke(by)))
        attempts += 1
    assert attempts < 60, "in 600 s"
    bench.machine.progressed()
    command = bench.step(WatchFailed(LOST, established=False))
    assert isinstance(command, Sleep)
    assert command.wake_on is WakeCause.ANSWER


def test_a_server_that_fails_all_but_probes_is_retried_at_growing_intervals() -> None:
    """An aggregated API without its server: the kube-apiserver in front of it is well."""
    bench = Bench().watching().during_an_outage()
    began, attempts = bench.now, 0
    while bench.now - began < 600:
        command = bench.step(WatchFailed(status(503), established=False))
        assert isinstance(command, Sleep)
        assert command.wake_on is WakeCause.RECOVERY
        bench.now += command.seconds
        bench.proven(bench.step(Woke()))
        attempts += 1
    assert attempts < 60, "in 600 s"


@pytest.mark.parametrize(("by", "is_over"), [(WakeCause.RECOVERY, True), (WakeCause.ANSWER, False)])
def test_servers_that_restart_again_and_again_are_listed_soon(by: WakeCause, is_over: bool) -> None:
    """Their history is lost each time; one that was never away has no such excuse."""
    bench = Bench(use_watch_list=False).watching()
    delays = []
    for _ in range(10):
        bench.now += 10.0
        bench.step(WatchFailed(LOST, established=True))
        bench.proven(bench.step(Woke(by)))
        delays.append(pause(bench, WatchFailed(EXPIRED, established=False)))
        bench.step(Loaded(LoadMode.PAGED))
    assert (max(delays) <= 0.8) is is_over


ERRORS = st.sampled_from(
    [
        *(LOST, HANGING, BAD, MALFORMED, NO_END, EXPIRED, TOO_LARGE),
        *(status(code) for code in (400, 401, 403, 404, 422, 429, 500, 503)),
    ]
)


def answers(data: st.DataObject, command: Command) -> Input:
    """Draw how a command ends, with no time spent on it."""
    if isinstance(command, Load):
        failed = st.builds(
            LoadFailed, st.just(command.mode), ERRORS, st.integers(0, 2), st.booleans()
        )
        return data.draw(st.one_of(failed, st.just(Loaded(command.mode))))
    if isinstance(command, Discover):
        if data.draw(st.booleans()):
            return DiscoveryFailed(data.draw(st.sampled_from([status(404), status(503), LOST])))
        return Discovered(is_served=data.draw(st.booleans()), retry_seconds=10.0)
    if isinstance(command, Prove):
        proved = st.builds(Proved, st.sampled_from(HistoryVerdict))
        return data.draw(st.one_of(proved, st.builds(ProofFailed, ERRORS)))
    if isinstance(command, Verify):
        return data.draw(st.builds(Verified, st.one_of(st.none(), ERRORS)))
    broken = st.builds(WatchBroken, st.sampled_from(Breach), ERRORS, st.sampled_from([b"a", b"b"]))
    failed_watch = st.builds(WatchFailed, ERRORS, established=st.booleans())
    return data.draw(
        st.one_of(broken, failed_watch, st.builds(WatchEnded, st.integers(0, 2), st.just(0.0)))
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_no_answers_of_a_server_make_a_hot_loop(data: st.DataObject) -> None:
    """Commands that follow each other without a delay are few, whatever fails at once."""
    bench = Bench(use_watch_list=data.draw(st.booleans()))
    command = bench.start()
    in_a_row = 1
    for _ in range(data.draw(st.integers(1, 60))):
        if isinstance(command, Halt):
            assert bench.state() is ReflectorState.FAILED
            return
        if isinstance(command, Sleep):
            assert command.seconds >= 0.2
            in_a_row = 0
            bench.now += command.seconds
            command = bench.step(Woke())
        else:
            command = bench.step(answers(data, command))
        in_a_row += not isinstance(command, Sleep | Halt)
        assert in_a_row <= 5, "proof or watch-list, pages, one body, watch, discovery: a delay"


def test_a_watch_that_delivered_before_it_failed_is_a_success_first() -> None:
    bench = Bench().watching()
    for _ in range(5):
        bench.after_delay(WatchFailed(LOST, established=False))
        bench.after_delay(WatchFailed(TOO_LARGE, established=False))
        assert bench.after_delay(WatchFailed(LOST, established=True)) == Watch()
        assert bench.machine.attempts == 1
    assert bench.machine.loads == 1
