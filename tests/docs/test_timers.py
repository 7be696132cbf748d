"""The page on timers: its program is called as its text says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyinformer.testing import World
from tests.docs import pages

if TYPE_CHECKING:
    import pytest

_OBJECTS = [
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name, "labels": {"temporary": temporary}},
    }
    for name, temporary in (("old", "yes"), ("kept", "no"))
]
_DATABASE = {
    "apiVersion": "acme.io/v1",
    "kind": "Database",
    "metadata": {"namespace": "default", "name": "orders"},
}


def test_the_timers_of_the_page_do_their_work(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "timers"}
    for block in pages.blocks("docs/howto/timers.md", "python"):
        exec(compile(block.text, block.page, "exec"), names)  # noqa: S102 - our own page
    app = names["app"]
    with World([*_OBJECTS, _DATABASE]) as world:
        databases, *timers = app.controllers(world.cluster, world.factory)
        assert [one.name for one in (databases, *timers)] == [
            "databases",
            "delete_temporary_maps",
            "report",
        ]
        assert world.reconcile(databases, "default/orders").error is None
        for timer in timers:
            assert world.reconcile(timer, timer.name).error is None
        assert [one["metadata"]["name"] for one in world.list("v1", "configmaps")] == ["kept"]
    assert "bytes" in capsys.readouterr().out
