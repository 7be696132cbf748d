"""What is counted of a reflector's requests: how they ended, in few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector import Counts
from pyinformer.cache.reflector._outcome_labels import code_of, count_outcome
from pyinformer.cache.reflector.machine.steps import (
    Breach,
    Input,
    Load,
    Loaded,
    LoadFailed,
    LoadMode,
    ProofFailed,
    Verified,
    WatchBroken,
    WatchEnded,
    WatchFailed,
    WatchSilent,
    Woke,
)
from pyinformer.errors import (
    APIStatusError,
    ConfigurationError,
    InformerError,
    InternalError,
    InvalidObjectError,
    LifecycleError,
    ServerError,
    TLSVerificationError,
)
from tests.cache.reflector.machine_bench import BAD, EXPIRED, HANGING, LOST, NO_END, Bench, status

if TYPE_CHECKING:
    from pyinformer.cache.reflector.machine.steps import LoadCause


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EXPIRED, "410"),
        (ServerError(status=503), "503"),
        (APIStatusError(status=100), "100"),
        (APIStatusError(status=99), "other"),
        (APIStatusError(status=600), "other"),
        (APIStatusError(status=10**9), "other"),
        (LOST, "connection"),
        (HANGING, "timeout"),
        (TLSVerificationError("https://server", "expired"), "tls"),
        (BAD, "protocol"),
        (NO_END, "protocol"),
        (InvalidObjectError("pods.v1", "no name"), "protocol"),
        (ConfigurationError("token", "is missing"), "configuration"),
        (InternalError("a bug"), "internal"),
        (LifecycleError("closed"), "other"),
    ],
)
def test_an_error_is_an_http_status_or_one_of_few_words(error: InformerError, code: str) -> None:
    assert code_of(error) == code


@pytest.mark.parametrize(
    ("happened", "counted"),
    [
        (Loaded(LoadMode.PAGED), []),
        (Woke(), []),
        (Verified(), []),
        (LoadFailed(LoadMode.WATCH_LIST, LOST), [("errors", "watch_list", "connection")]),
        (LoadFailed(LoadMode.WHOLE, EXPIRED), [("errors", "whole", "410")]),
        (ProofFailed(HANGING), [("errors", "proof", "timeout")]),
        (Verified(EXPIRED), [("errors", "verify", "410")]),
        (WatchEnded(3, 300.0), [("watches_ended", "complete")]),
        (WatchEnded(3, 3.0, early=True), [("watches_ended", "early")]),
        (WatchSilent(75.0), [("watches_ended", "silent")]),
        (WatchBroken(Breach.UNREADABLE, BAD), [("watches_ended", "unreadable")]),
        (
            WatchFailed(LOST, established=True),
            [("errors", "watch", "connection"), ("watches_ended", "failed")],
        ),
        (
            WatchFailed(EXPIRED, established=False),
            [("errors", "watch", "410"), ("watches_ended", "refused")],
        ),
    ],
)
def test_what_ends_a_request_is_counted(happened: Input, counted: list[tuple[str, ...]]) -> None:
    counts = Counts()
    count_outcome(counts, happened)
    assert counts.detailed() == dict.fromkeys(counted, 1)


def test_details_are_summed_by_the_last_one() -> None:
    counts = Counts()
    counts.add("errors", "watch", "410")
    counts.add("errors", "paged", "410", amount=2)
    counts.add("lineage_resets")
    assert counts.by_name() == {"errors:410": 3, "lineage_resets": 1}


def cause_after(bench: Bench, happened: Input) -> LoadCause | None:
    """Return why everything is loaded after this has happened."""
    assert isinstance(bench.after_delay(happened), Load)
    return bench.machine.load_cause


def test_the_first_load_is_initial_however_often_it_is_retried() -> None:
    bench = Bench()
    bench.start()
    assert bench.machine.load_cause == "initial"
    assert cause_after(bench, LoadFailed(LoadMode.WATCH_LIST, LOST)) == "initial"
    bench.step(Loaded(LoadMode.WATCH_LIST))
    assert bench.machine.load_cause is None


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (EXPIRED, "expired"),
        (status(404), "absence"),
        (ServerError(status=500, reason="StorageReadError"), "failure"),
    ],
)
def test_a_load_has_the_cause_that_began_it_until_it_is_complete(
    error: InformerError, cause: LoadCause
) -> None:
    bench = Bench(use_watch_list=False).watching()
    assert cause_after(bench, WatchFailed(error, established=True)) == cause
    assert cause_after(bench, LoadFailed(LoadMode.PAGED, LOST)) == cause
    bench.step(Loaded(LoadMode.PAGED))
    assert bench.machine.load_cause is None


@pytest.mark.parametrize("cause", ["audit", "outage", "poll", "request"])
def test_a_demanded_load_has_the_cause_of_the_demand(cause: LoadCause) -> None:
    bench = Bench(use_watch_list=False).watching()
    bench.machine.request_relist("why", cause=cause)
    bench.step(WatchEnded(1, 100.0))
    assert bench.machine.load_cause == cause
    bench.step(Loaded(LoadMode.PAGED))
    bench.machine.request_relist("later", cause="request")
    bench.step(WatchEnded(1, 100.0))
    assert bench.machine.load_cause == "request"


def test_another_history_is_the_cause_of_its_load() -> None:
    bench = Bench(use_watch_list=False).watching()
    bench.machine.request_relist("restored", distrust=True)
    bench.machine.begin_load()
    assert bench.machine.load_cause == "history"
