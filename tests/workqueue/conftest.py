"""What the tests of work queues share."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.TimerHandle]:
    """Return the timers that are set on the loop of the test, cancelled ones included."""
    found: list[asyncio.TimerHandle] = []
    call_at = (loop := asyncio.get_running_loop()).call_at

    def noting(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
        found.append(call_at(*arguments, **options))
        return found[-1]

    monkeypatch.setattr(loop, "call_at", noting)
    return found
