"""The place of an error is the innermost line of the user's code."""

from __future__ import annotations

import json

from pyinformer.errors import InformerError
from pyinformer.tasks import place_of
from pyinformer.tasks._functions import check_callable


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


def test_an_error_that_was_never_raised_has_no_place() -> None:
    assert place_of(InformerError("said")) == "at an unknown place"
