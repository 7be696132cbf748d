"""Loads that fail: nothing of what they had read stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, cast

import pytest
from msgspec import json

from pyinformer.apimachinery import InformerError, ProtocolError
from pyinformer.reflector import Guard, ReflectorOptions
from pyinformer.reflector._loader import Loader
from pyinformer.reflector._snapshot import Snapshot
from pyinformer.testing import APIServer, Fault
from tests.reflector.running import is_load, put, reflecting
from tests.reflector.samples import DictSink, codec, line
from tests.waiting import until


class Stream:
    """A body that ends after these lines."""

    def __init__(self, *lines: bytes) -> None:
        self._pieces = [one + b"\n" for one in lines]
        self.received_bytes = sum(map(len, self._pieces))

    async def pieces(self) -> list[bytes]:
        """Return what is left, at once."""
        pieces, self._pieces = self._pieces, []
        return pieces

    async def read(self) -> bytes:
        """Return what is left, at once."""
        return b"".join(await self.pieces())

    def expire(self, waited_seconds: float) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def remembered(error: BaseException | None) -> Iterator[Snapshot[Any]]:
    """Yield the snapshots that an error keeps alive by its frames, and by those of its causes."""
    while error is not None:
        trace: TracebackType | None = error.__traceback__
        while trace is not None:
            for value in trace.tb_frame.f_locals.values():
                if isinstance(value, Snapshot):
                    yield value
            trace = trace.tb_next
        error = error.__cause__


async def test_a_watch_list_that_breaks_off_is_let_go_though_its_error_is_remembered() -> None:
    loader: Loader[None] = Loader(
        cast("Any", None), codec(), Guard(), DictSink(), ReflectorOptions()
    )
    lines = [line("ADDED", f"p{number}", str(number + 1)) for number in range(2_000)]
    with pytest.raises(ProtocolError, match="it ended before it was complete") as caught:
        await loader.load_initial_events(Stream(*lines))
    snapshots = list(remembered(caught.value))
    assert snapshots
    assert not any(snapshot.objects for snapshot in snapshots)


async def test_a_list_that_breaks_off_is_let_go_though_its_error_is_remembered() -> None:
    with APIServer() as server:
        put(server, *[f"p{number}" for number in range(12)])
        answer = {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": server.resource_version},
            "items": [
                {"metadata": {"name": f"p{n}", "uid": f"u{n}", "resourceVersion": "1"}}
                for n in range(12)
            ],
        }
        fault = Fault(match=is_load, body=json.encode(answer)[:-2], times=3)
        server.faults.add(fault)
        async with reflecting(server) as running:
            machine = running.reflector._machine
            seen: list[InformerError] = []

            def has_failed() -> bool:
                if machine.last_error is not None:
                    seen.append(machine.last_error)
                return bool(seen)

            await until(has_failed)
            snapshots = [each for error in seen for each in remembered(error)]
            assert snapshots
            assert not any(snapshot.objects for snapshot in snapshots)
