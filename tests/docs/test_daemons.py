"""The page on daemons: its program does what its text says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.testing import World
from tests.docs import pages
from tests.waiting import pause, until

if TYPE_CHECKING:
    import pytest

_DATABASE = {
    "apiVersion": "acme.io/v1",
    "kind": "Database",
    "metadata": {"namespace": "default", "name": "orders"},
    "spec": {"host": "db-1"},
    "status": {"phase": "Running"},
}


def test_the_daemons_of_the_page_do_their_work(capsys: pytest.CaptureFixture[str]) -> None:
    app = pages.module_of("docs/howto/daemons.md").app
    with World([_DATABASE], virtual_time=True) as world:

        async def scenario() -> None:
            async with app.running(world.cluster) as running:
                await until(lambda: len(running.controllers) == 3)
                await pause(25)
                (database,) = [one async for one in world.cluster.list("acme.io/v1", "databases")]
                assert database.to_dict()["status"] == {"phase": "Running", "lagSeconds": 4}
                await world.cluster.delete(database)
                await pause(1)

        world.run(scenario)
        assert world.list("acme.io/v1", "databases") == []
    printed = capsys.readouterr().out
    assert printed.count("default/orders 4") >= 3
    lines = printed.splitlines()
    assert set(lines) == {"default/orders 4", "subscribed at db-1", "unsubscribed"}
    assert lines.count("unsubscribed") == 1
