"""The storage of the embedded API server against a model: states, windows and streams."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.testing.apiserver.resources import BUILT_IN
from pyinformer.testing.apiserver.storage import (
    BookmarkChange,
    HistoryExpiredError,
    Storage,
    StoredChange,
)

_PODS = BUILT_IN[0]
_STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "remove"])))


def _pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "n", "uid": "u"}, "spec": {}}


def _ignore() -> None:
    """Do nothing, for subscribers that never wait."""


def _play(storage: Storage, steps: list[tuple[str, str]]) -> list[tuple[int, dict[str, int]]]:
    model = {record.key: record.revision for record in storage.state(_PODS)[0]}
    states = [(storage.revision, dict(model))]
    for name, action in steps:
        if action == "put":
            model[f"n/{name}"] = storage.put(_PODS, _pod(name)).revision
        elif storage.remove([(_PODS, f"n/{name}")]):
            del model[f"n/{name}"]
        states.append((storage.revision, dict(model)))
    return states


@given(_STEPS)
def test_every_past_state_can_be_read(steps: list[tuple[str, str]]) -> None:
    storage = Storage(window_size=3, history_size=1000)
    for revision, model in _play(storage, steps):
        state = storage.state_at(_PODS, revision)
        assert {record.key: record.revision for record in state} == model
        assert [record.key for record in state] == sorted(model)


@given(_STEPS, st.integers(1, 5))
def test_a_window_replays_the_rest_or_reports_that_it_is_gone(
    steps: list[tuple[str, str]], window: int
) -> None:
    storage = Storage(window_size=window, history_size=1000)
    states = _play(storage, steps)
    now = storage.revision
    for revision, model in states:
        if revision < now - window:
            with pytest.raises(HistoryExpiredError):
                storage.subscribe(_PODS, _ignore, after=revision)
            continue
        _, _, subscription = storage.subscribe(_PODS, _ignore, after=revision)
        replayed = dict(model)
        for change in subscription.take()[0]:
            assert isinstance(change, StoredChange)
            if change.new is None:
                del replayed[change.key]
            else:
                replayed[change.key] = change.revision
        assert replayed == states[-1][1]


@given(_STEPS, _STEPS)
def test_a_state_and_its_subscription_miss_nothing_and_repeat_nothing(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    storage = Storage(window_size=1, history_size=1)
    _play(storage, before)
    state, revision, subscription = storage.subscribe(_PODS, _ignore, after=None)
    mirror = {record.key: record.revision for record in state}
    _play(storage, after)
    for change in subscription.take()[0]:
        assert isinstance(change, StoredChange)
        assert change.revision > revision
        assert (change.key in mirror) is (change.old is not None)
        mirror.pop(change.key, None)
        if change.new is not None:
            mirror[change.key] = change.revision
    now, _ = storage.state(_PODS)
    assert mirror == {record.key: record.revision for record in now}


def test_a_subscriber_is_woken_once_until_it_takes() -> None:
    storage = Storage(window_size=10, history_size=10)
    woken: list[int] = []
    _, _, subscription = storage.subscribe(_PODS, lambda: woken.append(1), after=None)
    for name in "abc":
        storage.put(_PODS, _pod(name))
    assert (len(woken), len(subscription.take()[0])) == (1, 3)
    storage.bookmark(subscription)
    assert (len(woken), subscription.take()) == (2, ([BookmarkChange(storage.revision)], False))


def test_removing_many_takes_one_revision_and_ignores_what_is_absent() -> None:
    storage = Storage(window_size=10, history_size=10)
    for name in "ab":
        storage.put(_PODS, _pod(name))
    before = storage.revision
    gone = storage.remove([(_PODS, "n/a"), (_PODS, "n/x"), (_PODS, "n/b")])
    assert [record.revision for record in gone] == [before + 1] * 2
    assert storage.revision == before + 1
    assert storage.remove([(_PODS, "n/x")]) == []
    assert storage.revision == before + 1


def test_a_change_is_encoded_once_for_all_watches() -> None:
    storage = Storage(window_size=10, history_size=10)
    subscriptions = [storage.subscribe(_PODS, _ignore, after=None)[2] for _ in "xy"]
    storage.put(_PODS, _pod("a"))
    (first,), (second,) = (subscription.take()[0] for subscription in subscriptions)
    assert isinstance(first, StoredChange)
    assert first is second
    assert first.line("ADDED") is first.line("ADDED")
    with pytest.raises(KeyError):
        first.line("DELETED")
