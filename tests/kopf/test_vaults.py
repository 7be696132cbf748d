"""Operators are known by their vaults; one that cannot be recorded is refused by its own."""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

import pytest
from kopf._cogs.clients import auth
from kopf._cogs.structs.credentials import Vault

import kopf
from pyinformer.kopf._operators import (
    KopfOperator,
    current_operator,
    is_refused,
    operator_of,
    refuse,
    register,
)
from tests.kopf.operators import settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def within(vault: Vault, call: Callable[[], T]) -> T:
    """Call a function in the context of an operator."""

    def run() -> T:
        auth.vault_var.set(vault)
        return call()

    return copy_context().run(run)


def registered() -> KopfOperator:
    """Register an operator."""
    return register(settings_of(), kopf.OperatorRegistry())


async def test_a_vault_leads_to_the_operator_that_began_with_it_last() -> None:
    mine, others = Vault(), Vault()
    operator = within(mine, registered)
    assert within(mine, current_operator) is operator
    assert within(mine, lambda: operator_of(settings_of())) is operator
    assert within(others, current_operator) is None
    assert within(others, lambda: operator_of(settings_of())) is not operator
    again = within(mine, registered)
    assert again is not operator
    assert within(mine, current_operator) is again


async def test_a_refusal_is_over_when_an_operator_begins_with_the_vault_again() -> None:
    mine, others = Vault(), Vault()
    within(mine, refuse)
    assert within(mine, is_refused)
    assert not within(others, is_refused)
    within(mine, registered)
    assert not within(mine, is_refused)


def test_outside_of_an_operator_nothing_is_recorded_and_nothing_refused() -> None:
    with pytest.raises(LookupError):
        registered()
    refuse()
    assert not is_refused()
    assert current_operator() is None
