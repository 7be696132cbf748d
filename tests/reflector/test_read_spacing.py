"""`read_spacing_seconds`: how long the reads of a watch-list and of a watch are apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import InvalidArgumentError
from pyinformer.reflector import ReflectorOptions
from pyinformer.testing import APIServer
from pyinformer.transport.http._watch_response import WatchResponse
from tests.reflector.running import options, put, reflecting
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.transport.http._chunks import OnPiece


@pytest.mark.parametrize(
    ("read_spacing_seconds", "expected"),
    [(None, [0.005, 0.0]), (0.02, [0.02, 0.02]), (0.001, [0.005, 0.001])],
    ids=["default", "longer", "shorter"],
)
async def test_a_watch_list_is_read_with_longer_pauses_than_the_watch_behind_it(
    read_spacing_seconds: float | None, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    deliver = WatchResponse.deliver

    async def noted(
        self: WatchResponse,
        take: OnPiece,
        on_turn: Callable[[], bool],
        *,
        spacing_seconds: float = 0.0,
    ) -> None:
        used.append(spacing_seconds)
        await deliver(self, take, on_turn, spacing_seconds=spacing_seconds)

    monkeypatch.setattr(WatchResponse, "deliver", noted)
    chosen = {} if read_spacing_seconds is None else {"read_spacing_seconds": read_spacing_seconds}
    with APIServer() as server:
        put(server, "a")
        async with reflecting(server, with_options=options(use_watch_list=True, **chosen)) as run:
            await run.until_equal()
            put(server, "b")
            await run.until_equal()
            await until(lambda: len(used) == 2)
    assert used == expected


@pytest.mark.parametrize("value", [-0.001, 1.5, float("inf"), float("nan"), "0.1", None, True])
def test_a_spacing_that_cannot_be_meant_is_refused(value: float) -> None:
    with pytest.raises(InvalidArgumentError, match="read_spacing_seconds"):
        ReflectorOptions(read_spacing_seconds=value)
