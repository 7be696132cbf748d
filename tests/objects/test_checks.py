"""The checks of settings: each names the setting, what it must be, and what was given."""

from __future__ import annotations

import math

import pytest

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_choice, check_flag, check_integer, check_seconds


@pytest.mark.parametrize("value", [-1.0, math.inf, math.nan, True, "5"])
def test_a_value_that_is_not_a_duration_is_refused(value: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^wait_seconds: "):
        check_seconds("wait_seconds", value)


def test_a_duration_of_zero_is_refused_where_it_has_to_be_positive() -> None:
    check_seconds("wait_seconds", 0)
    with pytest.raises(InvalidArgumentError, match="wait_seconds: must be greater than 0, got 0"):
        check_seconds("wait_seconds", 0, is_positive=True)


@pytest.mark.parametrize("value", [0, -3, 1.5, True, None, "4"])
def test_an_integer_below_the_minimum_is_refused(value: object) -> None:
    check_integer("workers", 1)
    check_integer("page_size", 0, least=0)
    with pytest.raises(InvalidArgumentError) as caught:
        check_integer("workers", value)
    assert str(caught.value) == f"workers: must be an integer >= 1, got {value!r}"


def test_a_value_outside_of_the_choices_is_refused_with_the_choices() -> None:
    check_choice("mode", "off", ("off", "debug"))
    with pytest.raises(InvalidArgumentError, match="mode: must be one of off, debug, got 'on'"):
        check_choice("mode", "on", ("off", "debug"))


@pytest.mark.parametrize("value", [0, 1, None, "yes"])
def test_a_value_that_is_not_a_bool_is_refused(value: object) -> None:
    check_flag("everything", False)
    with pytest.raises(InvalidArgumentError, match="everything: must be True or False"):
        check_flag("everything", value)
