"""The vault of an operator: what the operator is known by, and what its requests log in with."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

import aiohttp
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
from pyinformer.kopf._vault_session import VaultSession
from pyinformer.testing import APIServer
from tests.kopf.operators import settings_of
from tests.kopf.streams import info_of, vault_of

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


async def test_data_after_the_end_of_tls_makes_kopf_log_in_again() -> None:
    used: list[aiohttp.ClientSession] = []

    async def send(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientResponse:
        used.append(session)
        if len(used) == 1:
            reason = "[SSL: APPLICATION_DATA_AFTER_CLOSE_NOTIFY] application data (_ssl.c:2706)"
            raise aiohttp.ClientOSError(1, reason)
        return await session.get(f"{url}/version")

    with APIServer() as server:
        vault = vault_of(server)
        auth.vault_var.set(vault)
        sending = asyncio.create_task(VaultSession(settings_of()).send(send))
        await vault.wait_for_emptiness()
        await vault.populate({"again": info_of(server)})
        response = await sending
        response.close()
        await vault.close()
    assert response.status == 200
    assert used[0] is not used[1]


async def test_another_loss_of_the_connection_is_not_a_reason_for_a_login() -> None:
    async def send(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientResponse:
        raise aiohttp.ClientOSError(104, f"Connection reset by {url}, closed: {session.closed}")

    with APIServer() as server:
        vault = vault_of(server)
        auth.vault_var.set(vault)
        with pytest.raises(aiohttp.ClientOSError, match="reset"):
            await VaultSession(settings_of()).send(send)
        assert not vault.is_empty()
        await vault.close()
