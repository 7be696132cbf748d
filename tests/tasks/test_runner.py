"""The loop of a whole program is uvloop's only where threads can run beside it."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from pyinformer.tasks import program_runner


class Monkey(ModuleType):
    """gevent's module that replaces those of the standard library."""

    def __init__(self, patched: tuple[str, ...]) -> None:
        super().__init__("gevent.monkey")
        self._patched = patched

    def is_module_patched(self, name: str) -> bool:
        """As the one of gevent."""
        return name in self._patched


@pytest.fixture(params=[(), ("socket",), ("socket", "threading")])
def patched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setitem(sys.modules, "gevent.monkey", Monkey(request.param))
    chosen: tuple[str, ...] = request.param
    return chosen


def test_uvloop_is_not_used_where_gevent_has_replaced_threads(patched: tuple[str, ...]) -> None:
    """It waits in C, where no greenlet runs."""
    with program_runner() as runner:
        module = type(runner.get_loop()).__module__

    assert module.startswith("asyncio" if "threading" in patched else "uvloop")
