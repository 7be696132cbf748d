"""What a reflector does in doubt: prove the history, read one key, relist, or log it."""

from __future__ import annotations

import itertools
import math

import pytest

from pyinformer.cache.reflector import ReflectorState
from pyinformer.cache.reflector.lineage import HistoryVerdict
from pyinformer.cache.reflector.machine.steps import (
    Breach,
    Command,
    Discover,
    Discovered,
    DiscoveryFailed,
    ListBehindError,
    ListUnorderedError,
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
    WatchSilent,
    Woke,
)
from pyinformer.errors import InformerError, TransportError
from tests.cache.reflector.machine_bench import (
    BAD,
    LOST,
    MALFORMED,
    PAGED,
    TOO_LARGE,
    WATCH_LIST,
    Bench,
    status,
)

BEHIND = ListBehindError("list pods.v1", "it is at 3, behind the position 9")
SUSPECT = WatchBroken(Breach.SUSPECT, BAD)


@pytest.mark.parametrize(
    "ended",
    [
        pytest.param(WatchFailed(LOST, established=True), id="reset"),
        pytest.param(WatchFailed(LOST, established=False), id="refused"),
        pytest.param(WatchEnded(3, 20.0, early=True), id="ended-early"),
        pytest.param(WatchSilent(75.0), id="silent-twice"),
        pytest.param(WatchBroken(Breach.BOOKMARK, BAD), id="bookmark-behind"),
        pytest.param(WatchFailed(TOO_LARGE, established=True), id="too-large"),
    ],
)
def test_after_an_unclean_end_the_history_is_proven_before_the_next_watch(
    ended: WatchFailed | WatchEnded | WatchSilent | WatchBroken,
) -> None:
    bench = Bench().watching()
    command = bench.step(ended)
    if isinstance(command, Sleep):
        bench.now += command.seconds
        command = bench.step(Woke())
    assert command == Prove()
    assert bench.state() is ReflectorState.PROVING
    assert bench.step(Proved(HistoryVerdict.INTACT)) == Watch()
    assert bench.machine.lost_at is None


def test_a_watch_that_ends_at_its_time_needs_no_proof() -> None:
    bench = Bench().watching()
    assert bench.step(WatchEnded(3, 200.0)) == Watch()


def test_a_410_after_an_outage_does_not_wait_as_long_as_the_outage_has_made_it() -> None:
    bench = Bench(use_watch_list=False).watching().during_an_outage()
    bench.step(WatchEnded(3, 200.0))
    for _ in range(12):
        bench.after_delay(WatchFailed(LOST, established=False))
    command = bench.step(WatchFailed(status(410), established=False))
    assert isinstance(command, Sleep)
    assert command.seconds < 1.0


def test_a_lagging_server_is_not_another_history() -> None:
    bench = Bench().watching()
    bench.step(WatchSilent(75.0))
    assert bench.step(Proved(HistoryVerdict.LAGGING)) == Watch()


def test_a_broken_history_loads_by_list_and_believes_nothing_cached() -> None:
    bench = Bench().watching()
    bench.step(WatchSilent(75.0))
    assert bench.step(Proved(HistoryVerdict.BROKEN)) == PAGED
    assert bench.machine.distrust
    bench.step(Loaded(LoadMode.PAGED))
    assert not bench.machine.distrust


def test_breaks_one_after_another_make_no_loop_of_lists() -> None:
    bench = Bench().watching()
    loaded_at: list[float] = []
    for _ in range(6):
        bench.step(WatchSilent(75.0))
        command = bench.step(Proved(HistoryVerdict.BROKEN))
        if isinstance(command, Sleep):
            assert bench.machine.delays_relist
            bench.now += command.seconds
            command = bench.step(Woke())
        assert command == PAGED
        loaded_at.append(bench.now)
        bench.step(Loaded(LoadMode.PAGED))
        assert not bench.machine.delays_relist
    gaps = [after - before for before, after in itertools.pairwise(loaded_at)]
    assert gaps[-1] > 5.0
    bench.now += 60.0
    bench.step(WatchSilent(75.0))
    assert bench.step(Proved(HistoryVerdict.BROKEN)) == PAGED


def test_an_undecided_history_check_continues_the_watch_and_requests_an_audit() -> None:
    bench = Bench().watching()
    bench.step(WatchSilent(75.0))
    assert bench.step(Proved(HistoryVerdict.UNDECIDED)) == Watch()
    assert bench.suspicions == []
    bench.machine.connected()
    assert len(bench.suspicions) == 1


def test_an_undecided_history_check_is_repeated_after_the_next_disconnect() -> None:
    bench = Bench().watching()
    bench.step(WatchSilent(75.0))
    bench.step(Proved(HistoryVerdict.UNDECIDED))
    command = bench.step(WatchEnded(3, 200.0))
    assert command == Prove()


def test_a_server_that_cannot_be_reached_is_asked_again_under_backoff() -> None:
    bench = Bench().watching()
    bench.step(WatchSilent(75.0))
    for _ in range(5):
        command = bench.step(ProofFailed(LOST))
        assert isinstance(command, Sleep)
        bench.now += command.seconds
        assert bench.step(Woke()) == Prove()


def test_the_error_of_a_proof_says_what_was_asked() -> None:
    """It reads other resources of the cluster, whose addresses would look like a mix-up."""
    bench = Bench().watching()
    bench.step(WatchSilent(75.0))
    bench.step(ProofFailed(TransportError("https://server:6443/api/v1/secrets", "it is away")))
    told = "whether the server kept its history is not known: https://server:6443: it is away"
    assert bench.machine.error_text == bench.machine.reason == told

    bench.step(Woke())
    bench.step(Proved(HistoryVerdict.INTACT))
    refused = TransportError("https://server", "refused")
    bench.step(WatchFailed(refused, established=False))
    assert bench.machine.error_text == str(refused)


def test_a_list_behind_the_position_is_proven_before_it_is_believed() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    command = bench.step(LoadFailed(LoadMode.PAGED, BEHIND))
    assert isinstance(command, Sleep)
    bench.now += command.seconds
    assert bench.step(Woke()) == Prove()
    assert bench.step(Proved(HistoryVerdict.LAGGING)) == PAGED
    assert not bench.machine.distrust


def test_lists_behind_the_position_are_not_refused_forever() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    for _ in range(2):
        assert bench.after_delay(LoadFailed(LoadMode.PAGED, BEHIND)) == PAGED
        assert not bench.machine.distrust
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, BEHIND)) == PAGED
    assert bench.machine.distrust


def test_a_suspect_stream_is_followed_on_from_the_position_and_audited() -> None:
    bench = Bench().watching()
    assert bench.after_delay(SUSPECT) == Watch()
    assert len(bench.suspicions) == 1


def test_a_doubtful_object_is_read_before_the_watch_continues() -> None:
    bench = Bench().watching()
    broken = WatchBroken(Breach.SUSPECT, BAD, verify="default/a")
    assert bench.after_delay(broken) == Verify("default/a")
    assert bench.step(Verified()) == Prove(), "it may be the server that went back in time"
    assert bench.step(Proved(HistoryVerdict.INTACT)) == Watch()


def test_an_object_that_cannot_be_read_is_left_to_the_audit() -> None:
    bench = Bench().watching()
    bench.after_delay(WatchBroken(Breach.SUSPECT, BAD, verify="default/a"))
    assert bench.after_delay(Verified(status(403))) == Watch()
    assert len(bench.suspicions) == 2


def test_a_second_suspect_stream_within_ten_minutes_loads_everything() -> None:
    bench = Bench().watching()
    bench.after_delay(SUSPECT)
    assert bench.after_delay(SUSPECT) == WATCH_LIST


def test_a_second_suspect_stream_after_ten_minutes_does_not() -> None:
    bench = Bench().watching()
    bench.after_delay(SUSPECT)
    bench.now += 601
    assert bench.after_delay(SUSPECT) == Watch()


def test_suspect_streams_after_a_list_are_logged_and_followed() -> None:
    bench = Bench().watching()
    bench.after_delay(SUSPECT)
    bench.after_delay(SUSPECT)
    bench.step(Loaded(LoadMode.PAGED))
    assert not bench.machine.breaks_order
    assert bench.after_delay(SUSPECT) == Watch()
    assert bench.machine.breaks_order
    assert bench.relaxed == []


def test_an_aggregated_api_that_breaks_the_order_is_followed_object_by_object() -> None:
    bench = Bench().watching()
    bench.may_relax = True
    for _ in range(2):
        bench.after_delay(SUSPECT)
    bench.step(Loaded(LoadMode.PAGED))
    bench.after_delay(SUSPECT)
    assert bench.relaxed == ["per_object"]
    assert not bench.machine.breaks_order


def test_an_aggregated_api_with_non_numeric_versions_is_followed() -> None:
    bench = Bench(use_watch_list=False)
    bench.may_relax = True
    bench.start()
    bench.after_delay(LoadFailed(LoadMode.PAGED, MALFORMED))
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, MALFORMED)) == PAGED
    assert bench.relaxed == ["opaque"]


def test_a_demanded_load_takes_the_place_of_the_next_watch() -> None:
    bench = Bench().watching()
    bench.machine.request_relist("the audit found differences")
    assert bench.step(WatchEnded(1, 100.0)) == PAGED
    assert bench.machine.reason == "the audit found differences"
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()


def test_a_load_that_is_demanded_while_one_runs_follows_after_it() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    bench.machine.request_relist("restored", distrust=True)
    assert bench.step(Loaded(LoadMode.PAGED)) == PAGED
    assert bench.machine.distrust
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    assert not bench.machine.distrust


def test_an_absent_resource_stays_absent_until_it_is_loaded() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, status(404))) == PAGED
    assert bench.state() is ReflectorState.ABSENT
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    assert bench.state() is ReflectorState.WATCHING


def test_an_absent_resource_is_looked_for_by_discovery_and_not_by_lists() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    assert bench.step(LoadFailed(LoadMode.PAGED, status(404))) == Discover()
    for _ in range(3):
        command = bench.step(Discovered(is_served=False, retry_seconds=10.0))
        assert command == Sleep(10.0)
        assert bench.state() is ReflectorState.ABSENT
        assert bench.step(Woke()) == Discover()
    command = bench.step(Discovered(is_served=True))
    assert isinstance(command, Sleep)
    assert bench.step(Woke()) == PAGED


def test_discovery_that_may_be_incomplete_is_followed_by_a_list() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    assert bench.step(LoadFailed(LoadMode.PAGED, status(404))) == Discover()
    for _ in range(3):
        unknown = Discovered(is_served=False, retry_seconds=10.0, tries_load=True)
        assert bench.step(unknown) == Sleep(10.0)
        assert bench.step(Woke()) == PAGED
        assert bench.state() is ReflectorState.ABSENT
        assert bench.step(LoadFailed(LoadMode.PAGED, status(404))) == Discover()


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(status(404), id="404"),
        pytest.param(status(403), id="403"),
        pytest.param(status(503), id="503"),
        pytest.param(LOST, id="lost"),
    ],
)
def test_discovery_that_fails_is_followed_by_lists_with_delays_that_grow(
    refusal: InformerError,
) -> None:
    bench, slept = Bench(use_watch_list=False), list[float]()
    bench.start()
    for _ in range(50):
        assert bench.step(LoadFailed(LoadMode.PAGED, status(404))) == Discover()
        command = bench.step(DiscoveryFailed(refusal))
        assert isinstance(command, Sleep)
        assert command.wake_on is WakeCause.TIME
        slept.append(command.seconds)
        assert bench.state() is ReflectorState.ABSENT
        assert bench.step(Woke()) == PAGED
    assert slept[0] <= 0.8
    assert 10.0 < sum(slept[-20:]) / 20 < 20.0
    assert max(slept) <= 30.0


def test_a_resource_refused_for_half_a_minute_is_retried_once_a_minute() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    refused_at = bench.now
    while bench.now - refused_at < 30:
        assert bench.after_delay(LoadFailed(LoadMode.PAGED, status(403)), below=31.0) == PAGED
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, status(403)), at_least=60.0) == PAGED
    assert bench.state() is ReflectorState.FORBIDDEN


def test_a_load_that_is_demanded_during_an_undecided_proof_is_not_put_off() -> None:
    bench = Bench().watching()
    bench.step(WatchSilent(75.0))
    bench.machine.request_relist("the audit found differences")
    assert bench.step(Proved(HistoryVerdict.UNDECIDED)) == PAGED
    assert bench.machine.reason == "the audit found differences"


def test_a_load_that_has_not_left_the_line_answers_what_is_demanded_meanwhile() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    bench.machine.request_relist("restored", distrust=True)
    bench.machine.begin_load()
    assert bench.machine.distrust
    assert bench.machine.reason == "restored"
    assert bench.step(Loaded(LoadMode.PAGED)) == Watch()
    assert not bench.machine.distrust


def test_a_load_demanded_during_recovery_is_not_a_second_break() -> None:
    bench = Bench(use_watch_list=False).watching()
    bench.machine.request_relist("restored", distrust=True)
    assert bench.step(WatchEnded(1, 100.0)) == PAGED
    bench.machine.begin_load()
    bench.machine.request_relist("the audit found differences")
    assert bench.step(Loaded(LoadMode.PAGED)) == PAGED
    assert not bench.machine.distrust


@pytest.mark.parametrize("code", [429, 502, 503, 504])
def test_a_history_check_obeys_retry_after(code: int) -> None:
    bench = Bench().watching()
    bench.step(WatchSilent(75.0))
    for _ in range(3):
        command = bench.step(ProofFailed(status(code, 40.0)))
        assert isinstance(command, Sleep)
        assert command.seconds >= 40.0
        bench.now += command.seconds
        assert bench.step(Woke()) == Prove()
    assert bench.step(ProofFailed(status(code, 40.0))) == Watch(), "it may still be watched"
    bench.machine.connected()
    assert len(bench.suspicions) == 1


def test_a_reflector_without_rights_is_reported_as_forbidden_while_it_proves_the_history() -> None:
    """An attempt alone does not change that: the report would come and go with each."""
    bench = Bench().watching()
    assert woken_after(bench, WatchFailed(status(403), established=False)) == Prove()
    assert bench.state() is ReflectorState.FORBIDDEN
    assert woken_after(bench, ProofFailed(status(403))) == Prove()
    assert bench.state() is ReflectorState.FORBIDDEN
    bench.step(Proved(HistoryVerdict.INTACT))
    bench.machine.connected()
    assert bench.state() is ReflectorState.WATCHING


def test_an_overloaded_server_is_asked_again_as_soon_as_it_says() -> None:
    """Of all requests it refuses a share: success may need more than one attempt, but soon."""
    bench = Bench().watching()
    bench.after_delay(WatchFailed(LOST, established=True))
    for _ in range(10):
        assert 1.0 <= pause_of(bench, WatchFailed(status(429, 1.0), established=False)) <= 1.5
    assert pause_of(bench, WatchFailed(status(429, 1.0), established=False)) >= 1.0
    bench.machine.progressed()
    assert pause_of(bench, WatchFailed(LOST, established=False)) <= 0.8, "no failure was counted"


def pause_of(bench: Bench, failed: WatchFailed) -> float:
    """Return the delay after a failure, and perform what follows up to the next watch."""
    began_at = bench.now
    bench.after_delay(failed)
    return bench.now - began_at


def woken_after(bench: Bench, failed: WatchFailed | ProofFailed) -> Command:
    """Return what follows the delay after a failure."""
    command = bench.step(failed)
    assert isinstance(command, Sleep)
    bench.now += command.seconds
    return bench.step(Woke())


def test_a_watch_that_an_overloaded_server_refuses_needs_no_second_proof() -> None:
    bench = Bench().watching()
    assert woken_after(bench, WatchFailed(LOST, established=True)) == Prove()
    assert bench.step(Proved(HistoryVerdict.INTACT)) == Watch()
    for _ in range(5):
        assert woken_after(bench, WatchFailed(status(429, 1.0), established=False)) == Watch()
    bench.now += 60.0
    assert woken_after(bench, WatchFailed(status(429, 1.0), established=False)) == Prove()


def test_proofs_that_an_overloaded_server_refuses_delay_only_the_first_watch() -> None:
    bench = Bench().watching()
    assert woken_after(bench, WatchFailed(LOST, established=True)) == Prove()
    for _ in range(3):
        assert woken_after(bench, ProofFailed(status(429, 1.0))) == Prove()
    for _ in range(5):
        assert bench.step(ProofFailed(status(429, 1.0))) == Watch()
        assert woken_after(bench, WatchFailed(status(429, 1.0), established=False)) == Prove()
    assert bench.step(ProofFailed(status(429, 1.0))) == Watch()
    bench.machine.connected()
    assert len(bench.suspicions) == 1


def test_after_a_long_time_without_a_watch_the_history_is_proven_again() -> None:
    """It was intact when the watch was lost; meanwhile the server asked for patience."""
    bench = Bench().watching()
    bench.after_delay(WatchFailed(LOST, established=True))
    command = bench.step(WatchFailed(status(429, 60.0), established=False))
    assert isinstance(command, Sleep)
    bench.now += command.seconds
    assert bench.step(Woke()) == Prove()
    assert bench.step(Proved(HistoryVerdict.INTACT)) == Watch()


def test_repeated_bookmarks_behind_the_position_cause_a_load_and_are_then_logged() -> None:
    bench = Bench(use_watch_list=False).watching()
    behind = WatchBroken(Breach.BOOKMARK, BAD)
    assert bench.after_delay(behind) == Watch()
    assert len(bench.suspicions) == 1
    assert bench.after_delay(behind) == PAGED
    bench.step(Loaded(LoadMode.PAGED))
    assert not bench.machine.breaks_order
    assert bench.after_delay(behind) == Watch()
    assert bench.machine.breaks_order


def test_a_list_behind_the_position_that_is_accepted_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    for _ in range(2):
        bench.after_delay(LoadFailed(LoadMode.PAGED, BEHIND))
    assert not caplog.records
    bench.after_delay(LoadFailed(LoadMode.PAGED, BEHIND))
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "behind the position" in record.getMessage()
    assert len(bench.suspicions) == 1


def test_a_server_that_aborts_every_history_check_is_still_watched() -> None:
    bench = Bench().watching()
    command = bench.step(WatchSilent(75.0))
    failures = 0
    while command == Prove():
        failures += 1
        command = bench.step(ProofFailed(LOST))
        if isinstance(command, Sleep):
            bench.now += command.seconds
            command = bench.step(Woke())
    assert command == Watch()
    assert 5 < failures < 10, "not at once: most likely the server is away"
    bench.machine.connected()
    assert len(bench.suspicions) == 1
    assert bench.step(WatchEnded(3, 200.0)) == Prove()


def test_lists_whose_objects_are_newer_than_they_are_have_no_order_in_an_aggregated_api() -> None:
    bench = Bench(use_watch_list=False)
    bench.may_relax = True
    bench.start()
    unordered = ListUnorderedError("list widgets", "it is at 3 and holds an object at 9")
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, unordered)) == PAGED
    assert bench.relaxed == []
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, unordered)) == PAGED
    assert bench.relaxed == ["per_object"]
    assert not bench.machine.breaks_order


def test_lists_whose_objects_are_newer_than_they_are_break_the_order_of_a_built_in() -> None:
    bench = Bench(use_watch_list=False)
    bench.start()
    unordered = ListUnorderedError("list pods", "it is at 3 and holds an object at 9")
    bench.after_delay(LoadFailed(LoadMode.PAGED, unordered))
    assert not bench.machine.breaks_order
    assert bench.after_delay(LoadFailed(LoadMode.PAGED, unordered)) == PAGED
    assert bench.machine.breaks_order


def test_watches_that_end_early_again_and_again_share_a_proof_in_15_seconds() -> None:
    bench = Bench(use_watch_list=False).watching()
    early = WatchEnded(1, 5.0, early=True)
    for _ in range(3):
        bench.now += 5.0
        assert bench.step(early) == Prove()
        assert bench.step(Proved(HistoryVerdict.INTACT)) == Watch()
        assert bench.machine.proof_due_at == math.inf
    proven_at = bench.now
    bench.now += 5.0
    assert bench.step(early) == Watch()
    assert bench.machine.proof_due_at == proven_at + 15.0, "an open watch is interrupted then"
    bench.now += 5.0
    assert bench.step(early) == Watch()
    bench.now += 5.0
    assert bench.step(early) == Prove()
    assert bench.machine.lost_at == proven_at + 5.0, "a proof after the first end serves"
    assert bench.step(Proved(HistoryVerdict.INTACT)) == Watch()
    bench.now += 200.0
    assert bench.step(WatchEnded(1, 200.0)) == Prove(), "the last early end is owed a proof"
    assert bench.step(Proved(HistoryVerdict.INTACT)) == Watch()
    bench.now += 5.0
    assert bench.step(early) == Prove(), "one has lasted, so this is the first again"
    assert bench.step(Proved(HistoryVerdict.BROKEN)) != Watch()
    assert bench.machine.proof_due_at == math.inf
