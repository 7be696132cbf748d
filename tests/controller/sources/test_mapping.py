"""What a mapping may return, what is refused, and that one bad key costs no other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pyinformer.controller.sources import Keys, Request, SourceOptions, TimerSource, WatchedSource
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import Added, ObjectKey
from tests.controller.sources.feeding import FedInformer, made
from tests.hostile import HOSTILE, assert_shown_safely

if TYPE_CHECKING:
    from pyinformer.controller.sources import MappingFunction


def _mapped(mapping: MappingFunction[None], cluster: str = "") -> WatchedSource[None]:
    return WatchedSource(FedInformer(), mapping, options=SourceOptions(cluster=cluster))


def _requested(source: WatchedSource[None]) -> list[str]:
    return [str(request) for request in source.requests_for(Added(made("x")))]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param(None, [], id="none"),
        pytest.param("default/a", ["prod:default/a"], id="key"),
        pytest.param(ObjectKey("a"), ["prod:a"], id="cluster-scoped-key"),
        pytest.param(
            Request("default/a", "dev"), ["dev:default/a"], id="request-keeps-its-cluster"
        ),
        pytest.param(["b", "a", "b"], ["prod:b", "prod:a"], id="list-each-once"),
        pytest.param((key for key in "ab"), ["prod:a", "prod:b"], id="generator"),
        pytest.param({Request("a")}, ["a"], id="set"),
        pytest.param([], [], id="empty"),
    ],
)
def test_keys_become_requests(found: Keys, expected: list[str]) -> None:
    source = _mapped(lambda _: found, "prod")

    assert _requested(source) == expected
    assert source.status().failures == 0


@pytest.mark.parametrize(
    "key",
    ["", "/", "/a", "a/", "a/b/c", "..", "a/.", "a/b%2Fc", "a/" + "<" * 300_000, *HOSTILE],
    ids=lambda key: ascii(key[:20]),
)
def test_a_text_that_is_not_a_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="must be 'namespace/name' or 'name'") as caught:
        TimerSource(1.0, key)
    assert_shown_safely(str(caught.value))
    assert len(str(caught.value)) < 500

    source = _mapped(lambda _: key)
    assert _requested(source) == []
    assert "InvalidArgumentError" in (source.status().last_failure or "")


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(7, id="number"),
        pytest.param(b"default/a", id="bytes"),
        pytest.param({"apiVersion": "v1"}, id="a-dict-is-a-body-not-keys"),
        pytest.param([None], id="none-among-keys"),
    ],
)
def test_an_invalid_result_is_refused(found: Keys) -> None:
    with pytest.raises(InvalidTypeError):
        TimerSource(1.0, found)

    source = _mapped(lambda _: found)
    assert _requested(source) == []
    assert "InvalidTypeError" in (source.status().last_failure or "")


def test_a_coroutine_is_refused_and_closed() -> None:
    """An open coroutine would warn that it was never awaited, and warnings fail a test."""

    async def waiting() -> str:
        return "a"

    untyped: Keys = waiting()  # type: ignore[assignment]

    with pytest.raises(InvalidTypeError, match="asynchronous"):
        TimerSource(1.0, untyped)


def test_valid_keys_are_used_beside_an_invalid_one() -> None:
    source = _mapped(lambda _: ["a", "x/y/z", "b"])

    assert _requested(source) == ["a", "b"]
    assert source.status().failures == 1
    assert "InvalidArgumentError" in (source.status().last_failure or "")


def test_keys_yielded_before_a_generator_raised_are_used() -> None:
    def failing(obj: object) -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    source = _mapped(failing)

    assert _requested(source) == ["a"]
    assert "ZeroDivisionError" in (source.status().last_failure or "")


def test_a_coroutine_function_is_not_a_mapping() -> None:
    async def waiting(obj: object) -> str:
        return "a"

    with pytest.raises(InvalidTypeError, match="asynchronous"):
        _mapped(waiting)  # type: ignore[arg-type]
