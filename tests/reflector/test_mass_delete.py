"""Which lists are too bad to be believed at once, as a pure question."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyinformer.errors import InvalidArgumentError
from pyinformer.reflector import MassDeletePolicy
from pyinformer.reflector._mass_delete import is_mass_delete

DEFAULT = MassDeletePolicy()


@pytest.mark.parametrize(
    ("cached", "gone", "expected"),
    [
        pytest.param(100, 50, False, id="half-of-a-hundred"),
        pytest.param(100, 51, True, id="more-than-half-of-a-hundred"),
        pytest.param(99, 98, False, id="too-few-for-a-share"),
        pytest.param(99, 99, True, id="everything"),
        pytest.param(10, 10, True, id="everything-of-ten"),
        pytest.param(9, 9, False, id="everything-of-a-few"),
        pytest.param(0, 0, False, id="nothing-of-nothing"),
        pytest.param(100_000, 0, False, id="nothing"),
        pytest.param(100_000, 50_001, True, id="more-than-half-of-many"),
    ],
)
def test_the_default_suspects_more_than_half_of_a_hundred_or_everything(
    cached: int, gone: int, expected: bool
) -> None:
    assert is_mass_delete(cached, gone, DEFAULT) is expected


@pytest.mark.parametrize("cached", [1, 9, 10])
def test_the_default_suspects_every_list_of_nothing(cached: int) -> None:
    assert is_mass_delete(cached, cached, DEFAULT, is_empty=True)


def test_an_empty_cache_loses_nothing() -> None:
    assert not is_mass_delete(0, 0, DEFAULT, is_empty=True)


def test_without_a_policy_every_list_is_accepted() -> None:
    assert not is_mass_delete(1000, 1000, None)


def test_a_policy_can_accept_every_loss() -> None:
    assert not is_mass_delete(99, 99, MassDeletePolicy(everything=False))
    assert is_mass_delete(100, 100, MassDeletePolicy(everything=False))


def test_a_share_of_zero_suspects_any_loss() -> None:
    policy = MassDeletePolicy(share=0, at_least=1, everything=False)

    assert is_mass_delete(5, 1, policy)
    assert not is_mass_delete(5, 0, policy)


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("share", -0.1, "must be a number >= 0 and < 1"),
        ("share", 1, "must be a number >= 0 and < 1"),
        ("share", 1.5, "must be a number >= 0 and < 1"),
        ("share", math.nan, "must be a number >= 0 and < 1"),
        ("share", "half", "must be a number >= 0 and < 1"),
        ("share", True, "must be a number >= 0 and < 1"),
        ("at_least", 0, "must be an integer >= 1"),
        ("at_least", -5, "must be an integer >= 1"),
        ("at_least", 1.5, "must be an integer >= 1"),
        ("at_least", True, "must be an integer >= 1"),
        ("everything", 1, "must be True or False"),
    ],
)
def test_an_invalid_policy_is_refused_when_it_is_made(
    setting: str, value: Any, reason: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason) as caught:
        MassDeletePolicy(**{setting: value})
    assert setting in str(caught.value)
