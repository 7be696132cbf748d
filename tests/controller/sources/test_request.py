"""Requests, results and options: what they are equal to, and what they refuse."""

from __future__ import annotations

import copy
import pickle

import pytest

from pyinformer import ControllerOptions, Request, Result, RetryAfter
from pyinformer.controller.sources import Reason, request_for
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import ObjectKey
from tests.hostile import HOSTILE, assert_shown_safely

_REASON = Reason("pods", "updated", "default/a", "7")


@pytest.mark.covers("kube-runtime src: display_should_follow_expected_format")
def test_a_request_is_its_cluster_and_key_whatever_the_reasons() -> None:
    plain, reasoned = Request("default/a"), Request("default/a", reasons=(_REASON,))
    assert plain == reasoned
    assert hash(plain) == hash(reasoned)
    assert plain != Request("default/a", "prod")
    assert plain != Request("default/b")
    assert plain != "default/a"
    assert len({plain, reasoned, Request("default/a", "prod")}) == 2


def test_a_request_has_cluster_namespace_and_name() -> None:
    request = Request("default/a", "prod", reasons=[_REASON])
    assert (request.namespace, request.name, request.cluster) == ("default", "a", "prod")
    assert isinstance(request.key, ObjectKey)
    assert request.reasons == (_REASON,)
    assert Request("node-1").namespace == ""


def test_a_request_has_a_short_text() -> None:
    assert str(Request("default/a")) == "default/a"
    assert str(Request("default/a", "prod")) == "prod:default/a"
    assert repr(Request("default/a", "prod")) == "<Request prod:default/a>"


def test_a_reason_prints_what_happened() -> None:
    assert str(_REASON) == "pods updated default/a@7"
    assert str(Reason("every 5 s", "timer")) == "every 5 s timer"


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_request_for_a_cached_object_of_any_name_prints_in_one_line(name: str) -> None:
    reason = Reason("roles", "added", f"default/{name}", "1")
    request = request_for((f"default/{name}", "prod"), (reason,))
    assert request.name == name
    for text in (str(request), repr(request), str(reason)):
        assert_shown_safely(text)


@pytest.mark.parametrize("name", ["key", "cluster", "reasons", "anything"])
def test_a_request_is_frozen(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(Request("default/a"), name, "x")


def _pickled(request: Request) -> object:
    return pickle.loads(pickle.dumps(request))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, _pickled])
def test_a_request_survives_copying(again: object) -> None:
    request = Request("default/a", "prod", reasons=(_REASON,))
    assert callable(again)
    other = again(request)
    assert (other, other.reasons) == (request, request.reasons)


@pytest.mark.parametrize("key", [None, 5, ["default/a"], b"default/a"])
def test_a_key_that_is_not_text_is_refused(key: object) -> None:
    with pytest.raises(InvalidTypeError, match="key: must be text"):
        Request(key)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["", "/", "/a", "a/", "a/b/c"])
def test_a_text_that_is_not_a_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="must be 'namespace/name' or 'name'"):
        Request(key)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), "5"])
def test_an_invalid_time_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidArgumentError, match="requeue_after_seconds"):
        Result(requeue_after_seconds=seconds)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_retry_after_refuses_an_invalid_time(seconds: float) -> None:
    with pytest.raises(InvalidArgumentError, match="retry_after_seconds"):
        RetryAfter(seconds)


def test_a_priority_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match="priority"):
        Result(1.0, priority="high")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("reconcile_timeout_seconds", 0),
        ("grace_seconds", -1),
        ("drain_timeout_seconds", float("inf")),
        ("resync_period_seconds", -5),
    ],
)
def test_an_invalid_option_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        ControllerOptions(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("shown", ["all", "", None])
def test_another_choice_of_what_logs_show_is_refused(shown: object) -> None:
    with pytest.raises(InvalidArgumentError, match="must be 'classes' or 'full'"):
        ControllerOptions(log_exceptions=shown)  # type: ignore[arg-type]
