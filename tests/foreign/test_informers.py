"""Other informers follow the embedded server through cuts, outages and lost history.

Writes are random, with a seed. While the server has its history, handlers must receive every
version; at the end the cache must equal the server.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import APIServer, Token
from tests.foreign.clients import PROGRAMS
from tests.foreign.following import Following, check_lives, following
from tests.integration.servers import ADMIN

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyinformer.objects import JSONObject

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(180)]

_NAMES = 12
_WRITES = 80


class Life:
    """Objects that come, change and go."""

    def __init__(self, api: APIServer) -> None:
        self._api = api
        self._rng = random.Random(7)
        self._alive: set[str] = set()
        self._rounds = 0

    def live(self) -> list[tuple[str, str]]:
        """Make some writes; return name and version of what each of them stored."""
        return [made for _ in range(_WRITES) if (made := self._write()) is not None]

    def mark(self) -> tuple[str, str]:
        """Write what ends a phase; return name and version."""
        self._rounds += 1
        return self._stored(self._api.create(_config_map(f"end-{self._rounds}", 0)))

    def _write(self) -> tuple[str, str] | None:
        name = f"c{self._rng.randrange(_NAMES)}"
        if name not in self._alive:
            self._alive.add(name)
            return self._stored(self._api.create(_config_map(name, self._rng.random())))
        if self._rng.random() < 0.3:
            self._alive.discard(name)
            self._api.delete("v1", "configmaps", name)
            return None
        return self._stored(self._api.update(_config_map(name, self._rng.random())))

    def _stored(self, obj: JSONObject) -> tuple[str, str]:
        return str(obj["metadata"]["name"]), str(obj["metadata"]["resourceVersion"])


def _config_map(name: str, value: float) -> JSONObject:
    metadata: JSONObject = {"name": name, "namespace": "default"}
    data = {"value": str(value)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture
def api() -> Iterator[APIServer]:
    """A server that sends bookmarks often."""
    with APIServer(tls=True, tokens=[Token(value=ADMIN)], bookmark_interval_seconds=0.2) as made:
        yield made


def _follow_through_everything(api: APIServer, informer: Following) -> None:
    """Run without faults, with a cut and with lost history, and check the events."""
    life = Life(api)
    first = life.mark()
    informer.wait_for(*first)
    written = [first, *life.live(), life.mark()]
    informer.wait_for(*written[-1])
    api.drop_connections()
    written += [*life.live(), life.mark()]
    informer.wait_for(*written[-1])
    received = {(event.name, event.version) for event in informer.events}
    assert set(written) <= received, f"no event for {sorted(set(written) - received)}"

    api.stop_accepting()
    api.drop_connections()
    life.live()
    api.restart(keep_history=False)
    informer.wait_for(*life.mark())
    life.live()
    informer.wait_for(*life.mark())
    listed = api.list("v1", "configmaps", "default")
    stored = {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in listed}
    assert informer.cache() == stored


@pytest.mark.parametrize("load", ["watch-list", "list"])
@pytest.mark.parametrize("client", ["typed", "dynamic", "metadata", "protobuf"])
def test_client_gos_informer_sees_all_and_ends_with_what_is_there(
    api: APIServer, client_go: Path, tmp_path: Path, client: str, load: str
) -> None:
    api.watch_list = load == "watch-list"
    kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
    with following([client_go, "informer", client, kubeconfig, "default"]) as informer:
        _follow_through_everything(api, informer)
        check_lives(informer.events)
    sends = [one for one in api.requests if one.query.get("sendInitialEvents") == "true"]
    assert bool(sends), "client-go did not ask for a watch-list"


def test_the_official_informer_sees_all_and_ends_with_what_is_there(
    api: APIServer, official_python: Path, tmp_path: Path
) -> None:
    kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
    program = PROGRAMS / "official_informer.py"
    with following([official_python, program, kubeconfig, "default"]) as informer:
        _follow_through_everything(api, informer)
