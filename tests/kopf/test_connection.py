"""Requests over kopf's session: what makes kopf log in again."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from kopf._cogs.clients import auth

from pyinformer.kopf._connection import VaultSession
from pyinformer.testing import APIServer
from tests.kopf.operators import settings_of
from tests.kopf.streams import info_of, vault_of


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
