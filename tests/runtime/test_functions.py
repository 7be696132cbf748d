"""The place of an error is the innermost line of the user's code."""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import AsyncIterator, Iterator
from functools import partial

import pytest

from pyinformer._runtime.tasks import check_callable, check_plain, is_asynchronous, place_of
from pyinformer.errors import InformerError, InvalidTypeError


def _place(function: object) -> str:
    try:
        function()  # type: ignore[operator]
    except Exception as error:
        return place_of(error)
    return "nothing was raised"


def _raises() -> None:
    raise ValueError("secret")


def _reads() -> None:
    json.loads("{secret")


def _asks() -> None:
    check_callable("secret", "reconcile(request, obj)", 2)


def test_an_error_is_placed_where_it_was_raised() -> None:
    place = _place(_raises)

    assert place.startswith(f"at {__file__}:")
    assert place.endswith("in _raises")


def test_an_error_of_the_standard_library_is_placed_where_it_was_called() -> None:
    assert _place(_reads).endswith("in _reads")


def test_an_error_of_pyinformer_is_placed_where_it_was_called() -> None:
    assert _place(_asks).endswith("in _asks")


def _compiles() -> None:
    exec(compile("(", "handler.py", "exec"), {})  # noqa: S102 - it cannot be compiled


def _imports() -> None:
    importlib.import_module("not_installed_here.at_all")


def _evaluates() -> None:
    ast.literal_eval("(secret")


def test_an_error_of_syntax_is_placed_in_the_text() -> None:
    assert _place(_compiles) == "at handler.py:1"


def test_an_error_of_syntax_without_a_file_is_placed_where_it_was_called() -> None:
    assert _place(_evaluates).endswith("in _evaluates")


def test_an_error_of_an_import_is_placed_where_it_was_called() -> None:
    assert _place(_imports).endswith("in _imports")


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert place_of(InformerError("said")) == "at an unknown place"


async def _waits(obj: object) -> None:
    """Be a coroutine function."""


async def _yields_later(obj: object) -> AsyncIterator[object]:
    yield obj


def _yields(obj: object) -> Iterator[object]:
    yield obj


class _Waits:
    async def __call__(self, obj: object) -> None: ...

    async def method(self, obj: object) -> None: ...


class _YieldsLater:
    async def __call__(self, obj: object) -> AsyncIterator[object]:
        yield obj


class _Yields:
    def __call__(self, obj: object) -> Iterator[object]:
        yield obj


_ASYNCHRONOUS = [
    pytest.param(_waits, id="function"),
    pytest.param(partial(_waits), id="partial"),
    pytest.param(_Waits(), id="callable-object"),
    pytest.param(partial(partial(_Waits())), id="partial-of-a-callable-object"),
    pytest.param(_Waits().method, id="method"),
    pytest.param(_yields_later, id="generator"),
    pytest.param(_YieldsLater(), id="callable-object-that-generates"),
]


@pytest.mark.parametrize("function", _ASYNCHRONOUS)
def test_an_asynchronous_function_is_recognised_in_each_form(function: object) -> None:
    assert is_asynchronous(function)
    with pytest.raises(InvalidTypeError, match=r"like mapping\(obj\)|`def mapping\(obj\)`"):
        check_plain(function, "mapping(obj)", 1, may_generate=True)


@pytest.mark.parametrize("function", [_yields, _Yields(), partial(_Yields())])
def test_a_generator_function_is_recognised_in_each_form(function: object) -> None:
    check_plain(function, "mapping(obj)", 1, may_generate=True)
    with pytest.raises(InvalidTypeError, match="its body would never run"):
        check_callable(function, "handler(event)", 1)


@pytest.mark.parametrize("function", [len, partial(len), _Yields, _Waits])
def test_a_plain_function_is_not_asynchronous(function: object) -> None:
    assert not is_asynchronous(function)
