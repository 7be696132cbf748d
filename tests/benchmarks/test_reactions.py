"""The handlers of each foreign peer, tested without the peers.

Objects are dicts. There is no server and no clock; only the handlers set the events that a peer
waits for.
"""

from __future__ import annotations

import asyncio
import json
from collections import UserDict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.harness.phases import Phases, Workload
from benchmarks.peers.kubeconfig import kubeconfig
from benchmarks.peers.reactions import (
    CAMEL_CASE,
    DICTS,
    SNAKE_CASE,
    Reactions,
    Reading,
    choose,
    running,
)


def _phases(**changes: Any) -> Phases:
    given: dict[str, Any] = {"url": "http://127.0.0.1:9", "objects": 2}
    given |= {"updates": 0, "last_resource_version": "9"}
    return Phases("a peer", Workload(**(given | changes)))


class _Tattling(UserDict[str, Any]):
    """A dict that remembers what was read."""

    def __init__(self, name: str, seen: set[str], content: dict[str, Any]) -> None:
        super().__init__(
            {
                key: _Tattling(f"{name}{key}.", seen, value) if isinstance(value, dict) else value
                for key, value in content.items()
            }
        )
        self._name, self._seen = name, seen

    def __getitem__(self, key: str) -> Any:
        """Read, and report."""
        self._seen.add(self._name + key)
        return super().__getitem__(key)


def _pod(seen: set[str] | None = None) -> Any:
    metadata = {"namespace": "one", "name": "pod", "resourceVersion": "9"}
    pod = {"metadata": metadata, "status": {"phase": "Running"}, "spec": {"nodeName": "node"}}
    return pod if seen is None else _Tattling("", seen, pod)


async def test_the_initial_state_is_seen_with_its_last_object() -> None:
    reactions = Reactions(_phases(), DICTS)
    waiter = asyncio.create_task(reactions.wait_for_initial_state())
    reactions.added(_pod())
    await asyncio.sleep(0)
    assert not waiter.done()
    reactions.added(_pod())
    await waiter


@pytest.mark.parametrize(
    ("handler", "kind", "expected"),
    [
        pytest.param("metadata", "Pod", {"metadata.name", "status.phase"}, id="metadata"),
        pytest.param("metadata", "Lease", {"metadata.name"}, id="metadata-without-status"),
        pytest.param("object", "Pod", set(), id="object"),
        pytest.param("queue", "Pod", {"metadata.name", "metadata.namespace"}, id="queue"),
    ],
)
async def test_a_handler_reads_the_fields_of_its_workload(
    handler: str, kind: str, expected: set[str]
) -> None:
    seen: set[str] = set()
    reactions = Reactions(_phases(handler=handler, kind=kind), DICTS)
    reactions.call(_pod(seen))
    leaves = {name for name in seen if "." in name}
    assert leaves == expected | {"metadata.resourceVersion"}  # by which updates are counted


async def test_every_handler_is_called_for_an_update() -> None:
    read: list[object] = []
    reading = replace(DICTS, name=read.append)
    reactions = Reactions(_phases(handlers=4), reading)
    pod = _pod()
    reactions.call(pod)
    assert read == [pod] * 4


async def test_a_peer_refuses_an_unknown_kind_of_work() -> None:
    with pytest.raises(NotImplementedError, match="takes no part in 'reads'"):
        Reactions(_phases(work="reads"), DICTS)


def test_a_resource_without_a_model_is_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="widgets"):
        choose({"pods": 1}, "widgets")


async def test_a_watch_that_ends_early_is_an_error() -> None:
    async def ends() -> None:
        await asyncio.sleep(0)

    with pytest.raises(ExceptionGroup) as caught:
        async with running(ends()):
            await asyncio.Event().wait()
    assert str(caught.value.exceptions[0]) == "the watch ended before the last update"


async def test_a_watch_is_ended_with_its_block() -> None:
    ended = asyncio.Event()

    async def goes_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(goes_on()):
        await asyncio.sleep(0)
    assert ended.is_set()


@pytest.mark.parametrize(
    ("reading", "version"),
    [
        pytest.param(SNAKE_CASE, "resource_version", id="snake"),
        pytest.param(CAMEL_CASE, "resourceVersion", id="camel"),
    ],
)
def test_models_are_read_by_their_attributes(reading: Reading, version: str) -> None:
    metadata = SimpleNamespace(namespace="one", name="pod", **{version: "9"})
    model = SimpleNamespace(metadata=metadata, status=SimpleNamespace(phase="Running"))
    read = (reading.key(model), reading.version(model), reading.name(model), reading.phase(model))
    assert read == ("one/pod", "9", "pod", "Running")


def test_a_kubeconfig_leads_to_the_server_and_goes_away() -> None:
    workload = _phases(ca_file="/ca.pem", token="secret").workload
    with kubeconfig(workload) as path:
        content = json.loads(path.read_text())
    assert content["clusters"][0]["cluster"] == {
        "server": workload.url,
        "certificate-authority": "/ca.pem",
    }
    assert content["users"][0]["user"] == {"token": "secret"}
    assert not path.exists()
