"""What a mapping may return, what is refused, and that one bad key costs no other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyinformer.apimachinery import ObjectKey
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.sources import Keys, Request
from pyinformer.sources._mapping import check_mapping, collect, request_of
from tests.hostile import HOSTILE, assert_shown_safely


def _collected(found: Keys, cluster: str = "") -> list[str]:
    into: dict[Request, None] = {}
    collect(found, cluster, into)
    return [str(request) for request in into]


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
    assert _collected(found, "prod") == expected


@pytest.mark.parametrize(
    "key",
    ["", "/", "/a", "a/", "a/b/c", "..", "a/.", "a/b%2Fc", "a/" + "<" * 300_000, *HOSTILE],
    ids=lambda key: ascii(key[:20]),
)
def test_a_text_that_is_not_a_key_is_refused(key: str) -> None:
    with pytest.raises(InvalidArgumentError, match="must be 'namespace/name' or 'name'") as caught:
        request_of(key)
    assert_shown_safely(str(caught.value))
    assert len(str(caught.value)) < 500


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
        _collected(found)


def test_a_coroutine_is_refused_and_closed() -> None:
    async def mapping() -> str:
        return "a"

    untyped: Keys = mapping()  # type: ignore[assignment]

    with pytest.raises(InvalidTypeError, match="asynchronous"):
        _collected(untyped)


def test_valid_keys_are_used_before_an_invalid_one_is_refused() -> None:
    into: dict[Request, None] = {}

    with pytest.raises(InvalidArgumentError):
        collect(["a", "x/y/z", "b"], "", into)

    assert list(into) == [Request("a"), Request("b")]


def test_keys_yielded_before_a_generator_raised_are_used() -> None:
    def failing() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    into: dict[Request, None] = {}

    with pytest.raises(ZeroDivisionError):
        collect(failing(), "", into)

    assert list(into) == [Request("a")]


def test_a_generator_function_is_a_mapping_and_a_coroutine_function_is_none() -> None:
    def generating(obj: object) -> Iterator[str]:
        yield "a"

    async def waiting(obj: object) -> str:
        return "a"

    check_mapping(generating)
    with pytest.raises(InvalidTypeError, match="asynchronous"):
        check_mapping(waiting)
