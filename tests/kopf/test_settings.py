"""kopf's settings as those of a reflector: each is followed, no retry is later than kopf's."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._cogs.structs.references import Resource

import kopf
from pyinformer.cache.reflector import WatchListMemory
from pyinformer.cache.reflector.machine import ReflectorMachine, steps
from pyinformer.errors import (
    ForbiddenError,
    InformerError,
    InvalidArgumentError,
    ProtocolError,
    ResourceExpiredError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from pyinformer.kopf._options import Options, resource_names, why_plain
from pyinformer.kopf._settings import (
    most_seconds,
    patience_seconds,
    reflector_options,
    selectors_of,
    timeouts_of,
    warn_of_replaced,
)

LOST = TransportError("https://server", "lost")
DOWN = ServerError(status=500)
REFUSED = ForbiddenError(status=403)
EXPIRED = ResourceExpiredError(status=410)
BUSY = TooManyRequestsError(status=429, retry_after_seconds=7.0)
PODS = Resource("", "v1", "pods", "Pod")
EXAMPLES = Resource("kopf.dev", "v1", "kopfexamples", "KopfExample")


def changed(**changes: Any) -> kopf.OperatorSettings:
    """Return settings with some of `watching` and `networking` changed."""
    settings = kopf.OperatorSettings()
    for name, value in changes.items():
        part = settings.watching if hasattr(settings.watching, name) else settings.networking
        setattr(part, name, value)
    return settings


def options_of(**changes: Any) -> Any:
    """Return the options of a reflector under these settings."""
    return reflector_options(changed(**changes), random.Random())


def test_the_defaults_are_kopfs_where_kopf_has_some() -> None:
    options = options_of()
    assert (options.use_watch_list, options.page_size) == (False, 500)
    assert options.silence_seconds == 70.0
    assert options.watch_timeout_seconds == (180.0, 230.0)


@pytest.mark.parametrize(
    ("changes", "name", "value"),
    [
        ({"server_timeout": 9}, "watch_timeout_seconds", (9, 9)),
        ({"client_timeout": 7, "server_timeout": 9}, "watch_timeout_seconds", (7, 7)),
        ({"inactivity_timeout": 5.0}, "silence_seconds", 5.0),
        ({"inactivity_timeout": None}, "silence_seconds", math.inf),
        ({"chunk_size": 3}, "page_size", 3),
        ({"chunk_size": 0}, "page_size", 0),
        ({"initial_streaming": True}, "use_watch_list", True),
    ],
)
def test_each_setting_of_streams_is_followed(
    changes: dict[str, Any], name: str, value: object
) -> None:
    assert getattr(options_of(**changes), name) == value


def test_an_invalid_setting_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="silence_seconds"):
        options_of(inactivity_timeout=0.0)


def test_selectors_are_joined_as_in_kopf() -> None:
    settings = kopf.OperatorSettings()
    assert selectors_of(settings, PODS) == ("", "", "")
    settings.watching.label_selectors["pods"] = "b=1"
    settings.watching.label_selectors["v1", "pods"] = "a=1"
    settings.watching.field_selectors["pods"] = "spec.x=y"
    settings.watching.shard_selectors["pods"] = "shardRange(object.metadata.uid, '0x0', '0x8')"
    labels, fields, shard = selectors_of(settings, PODS)
    assert (labels, fields) == ("a=1,b=1", "spec.x=y")
    assert shard == "shardRange(object.metadata.uid, '0x0', '0x8')"
    assert selectors_of(settings, EXAMPLES) == ("", "", "")


@pytest.mark.parametrize(
    ("changes", "watch", "wanted"),
    [
        ({}, False, (None, 300, 300)),
        ({}, True, (300, 70.0, 300)),
        ({"request_timeout": None}, False, (None, None, None)),
        ({"request_timeout": None}, True, (None, 70.0, None)),
        ({"request_timeout": 9.0}, False, (None, 9.0, 9.0)),
        ({"request_timeout": 9.0, "inactivity_timeout": None}, True, (9.0, None, 9.0)),
    ],
)
def test_deadlines_are_those_of_kopf(
    changes: dict[str, Any], *, watch: bool, wanted: tuple[float | None, ...]
) -> None:
    found = timeouts_of(changed(**changes), watch=watch)
    assert (found.connect_seconds, found.headers_seconds, found.total_seconds) == wanted


def test_connections_for_watches_have_a_deadline_of_their_own() -> None:
    settings = kopf.OperatorSettings()
    settings.networking.connect_timeout = 4.0
    assert timeouts_of(settings, watch=True).connect_seconds == 4.0
    settings.watching.connect_timeout = 3.0
    assert timeouts_of(settings, watch=True).connect_seconds == 3.0
    assert timeouts_of(settings, watch=False).connect_seconds == 4.0


def test_backoffs_that_are_replaced_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    replaced, kept = changed(error_backoffs=itertools.repeat(3.0)), changed(error_backoffs=(1, 2))
    warned: set[str] = set()
    with caplog.at_level(logging.WARNING, "pyinformer.kopf"):
        for _ in range(3):
            warn_of_replaced(kept, warned)
            warn_of_replaced(replaced, warned)
    (line,) = caplog.messages
    assert "settings.networking.error_backoffs" in line
    assert "1 s" in line


def delays(error: InformerError, count: int, **changes: Any) -> list[float]:
    """Return the longest waits after so many failures in a row."""
    settings = changed(**changes)
    return [
        most_seconds(failures, error, settings.watching, settings.networking)
        for failures in range(count)
    ]


def test_an_outage_is_retried_by_kopfs_backoffs_again_and_again() -> None:
    assert delays(LOST, 6, error_backoffs=(1, 2, 3), reconnect_backoff=0.5) == [0, 1, 2, 3, 0.5, 1]
    assert delays(BUSY, 4, error_backoffs=[1])[1:] == [1, 0.1, 1]


@pytest.mark.parametrize("error", [DOWN, REFUSED])
def test_where_kopf_gives_up_the_waits_grow_from_a_second(error: InformerError) -> None:
    assert delays(error, 7, error_backoffs=(0.5, 3))[1:] == [0.5, 3, 1, 2, 4, 8]


def test_errors_that_kopf_does_not_retry_have_no_limit() -> None:
    assert set(delays(ProtocolError("x", "y"), 5)) == {math.inf}


def test_an_expired_position_is_listed_as_soon_as_by_kopf() -> None:
    """Also again and again; where the list fails with 410 as well, kopf has ended."""
    changes = {"reconnect_backoff": 0.03}
    limits = options_of(**changes).max_retry_seconds
    machine = ReflectorMachine(rng=random.Random(1), watch_list=WatchListMemory())
    machine.configure(use_watch_list=False, max_retry_seconds=limits)
    machine.start(0.0)
    for now in range(1, 20):
        machine.step(steps.Loaded(steps.LoadMode.PAGED), float(now))
        expired = machine.step(steps.WatchFailed(EXPIRED, established=True), float(now))
        assert expired == steps.Sleep(0.03)
        machine.step(steps.Woke(steps.WakeCause.TIME), float(now))
    assert delays(EXPIRED, 4, **changes)[1:] == [0.03, math.inf, math.inf]


def test_a_single_number_is_one_backoff() -> None:
    assert delays(LOST, 4, error_backoffs=2.5) == [0.0, 2.5, 0.1, 2.5]
    assert patience_seconds(changed(error_backoffs=2.5).networking) == 2.5


def test_backoffs_without_an_end_are_not_used_up() -> None:
    endless = itertools.repeat(3.0)
    assert delays(LOST, 3, error_backoffs=endless) == [0.0, 1.0, 1.0]
    assert patience_seconds(changed(error_backoffs=endless).networking) == math.inf
    assert next(endless) == 3.0


def test_only_retry_after_counts_where_kopf_enforces_it() -> None:
    assert delays(BUSY, 3, enforce_retry_after=True) == [0.0, 0.0, 0.0]


def test_the_delay_of_the_warning_is_the_sum_of_the_backoffs() -> None:
    assert patience_seconds(kopf.OperatorSettings().networking) == 54


@given(
    backoffs=st.lists(st.floats(0.0, 60.0), max_size=9),
    error=st.sampled_from([LOST, DOWN, REFUSED, BUSY]),
    count=st.integers(1, 40),
)
def test_no_attempt_is_later_than_kopfs(
    backoffs: list[float], error: InformerError, count: int
) -> None:
    waits = delays(error, count + 1, error_backoffs=backoffs)[1:]
    cycle = [*backoffs, 0.1]
    is_endless = isinstance(error, TransportError | TooManyRequestsError)
    kopfs = list(itertools.islice(itertools.cycle(cycle) if is_endless else backoffs, count))
    assert waits[: len(kopfs)] == kopfs


OPTIONS = Options(only=frozenset(), exclude=frozenset(), bodies=None, warm_while_paused=False)


@pytest.mark.parametrize("value", ["off", "0", "no", " FALSE "])
def test_the_environment_keeps_streams_plain(value: str) -> None:
    environ = {"PYINFORMER_KOPF": value}
    assert "the environment" in why_plain(OPTIONS, PODS, environ, kopf.OperatorSettings())


@pytest.mark.parametrize("environ", [{}, {"PYINFORMER_KOPF": "on"}, {"PYINFORMER_KOPF": ""}])
def test_other_environments_do_not(environ: dict[str, str]) -> None:
    assert why_plain(OPTIONS, PODS, environ, kopf.OperatorSettings()) == ""


def test_a_setting_keeps_streams_plain() -> None:
    settings: Any = kopf.OperatorSettings()
    settings.pyinformer = False
    assert why_plain(OPTIONS, PODS, {}, settings) == "settings.pyinformer is False"
    settings.pyinformer = "no"
    with pytest.raises(InvalidArgumentError, match=r"settings\.pyinformer.*must be True or False"):
        why_plain(OPTIONS, PODS, {}, settings)


@pytest.mark.parametrize(
    ("only", "exclude", "pods", "examples"),
    [
        ((), (), True, True),
        (("pods",), (), True, False),
        (("kopfexamples.kopf.dev",), (), False, True),
        (("kopfexamples",), ("pods",), False, True),
        ((), ("kopfexamples",), True, False),
        ((), ("kopfexamples.other",), True, True),
    ],
)
def test_resources_are_chosen_by_name(
    only: tuple[str, ...], exclude: tuple[str, ...], *, pods: bool, examples: bool
) -> None:
    options = dataclasses.replace(
        OPTIONS,
        only=resource_names("only", only),
        exclude=resource_names("exclude", exclude),
    )
    settings = kopf.OperatorSettings()
    assert (why_plain(options, PODS, {}, settings) == "") is pods
    assert (why_plain(options, EXAMPLES, {}, settings) == "") is examples
