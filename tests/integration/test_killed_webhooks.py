"""Two replicas as processes answer the hooks of a real API server, while one of them is killed.

The writes are those of a client at a fixed rate, which the state of the replicas does not slow
down. Such a client repeats, once, a write that failed because no hook answered. The test allows
that only for writes during which a replica was killed: the API server does not repeat a review
whose connection broke.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pytest

import pyinformer
from pyinformer.client import WriteOptions
from pyinformer.errors import APIStatusError
from tests.integration.hooks_replica import PLACE, REFUSAL, operator_of
from tests.integration.hooks_replicas import SECRET, Certificates, Replicas, eventually
from tests.integration.service import Service
from tests.soak import in_soak
from tests.waiting import now, pause, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from pyinformer import Cluster
    from pyinformer.testing import KubeAPIServer

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.timeout(in_soak(2000, otherwise=300)),
]

_NAMESPACE: Final = "replicated"
_WRITES_PER_SECOND: Final = 50
_IN_FLIGHT: Final = 12  # at most, which a machine that keeps up never has
_ROUNDS: Final = in_soak(10, otherwise=1)
# The connections of a process that is killed break at once; the API server closes its ends of them
# when it runs next.
_BROKEN_SECONDS: Final = 1.0


class _Kind(NamedTuple):
    """One of the writes that follow each other, and what has to become of it."""

    spec: dict[str, str]
    outcome: str


_REFUSED: Final = _Kind({"engine": "oracle"}, REFUSAL)
_SLOW: Final = _Kind({"engine": "slow"}, "slow:17")
_SLOW_WRITES: Final = 8  # more than there are connections, so that each replica gets some
_KINDS: Final = (
    _REFUSED,
    _Kind({"engine": "postgres"}, "postgres:17"),
    _REFUSED,
    _Kind({"engine": "postgres", "image": "own:1"}, "own:1"),
)


@dataclass(frozen=True, slots=True)
class _Attempt:
    began_at: float
    ended_at: float
    outcome: str


@dataclass(slots=True)
class _Write:
    name: str
    kind: _Kind
    attempts: list[_Attempt] = field(default_factory=list)
    is_done: bool = False


class _Load:
    """Creates objects at a fixed rate; stores what became of each. Use it as `async with`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._ends = asyncio.Event()
        self._in_flight = 0
        self.writes: list[_Write] = []

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ends.set()
        await self._task

    async def _run(self) -> None:
        began_at, count = now(), 0
        async with asyncio.TaskGroup() as self._group:
            while not self._ends.is_set():
                if self._in_flight < _IN_FLIGHT:
                    self.begin(_KINDS[len(self.writes) % len(_KINDS)])
                count += 1
                await pause(max(0.0, began_at + count / _WRITES_PER_SECOND - now()))

    def begin(self, kind: _Kind) -> None:
        """Begin one write."""
        write = _Write(f"w{len(self.writes)}", kind)
        self.writes.append(write)
        self._group.create_task(self._write(write))

    async def more(self, seconds: float) -> None:
        """Wait until the writes of some seconds have been begun, and those before have ended."""
        wanted = len(self.writes)
        await pause(seconds)
        await until(lambda: all(one.is_done for one in self.writes[:wanted]))

    async def _write(self, write: _Write) -> None:
        self._in_flight += 1
        for _ in range(2):
            began_at = now()
            outcome = await self._outcome(write)
            write.attempts.append(_Attempt(began_at, now(), outcome))
            if "failed calling webhook" not in outcome:
                break
        write.is_done = True
        self._in_flight -= 1

    async def _outcome(self, write: _Write) -> str:
        try:
            made = await self._cluster.create(_database(write.name, write.kind.spec))
        except APIStatusError as error:
            is_refusal = error.status == 422 and error.message.endswith(f": {REFUSAL}")
            return REFUSAL if is_refusal else f"{error.status} {error.message}"
        return made.at("spec.image", str, default="no image")

    def repeated(self) -> list[_Write]:
        """Return the writes that failed because no hook answered."""
        return [one for one in self.writes if len(one.attempts) > 1]

    def wrong(self, kills: list[tuple[float, float]]) -> list[str]:
        """Return the writes with another outcome than theirs, or that failed without a reason."""

        def has_reason(each: _Attempt) -> bool:
            return any(each.began_at < to and each.ended_at > since for since, to in kills)

        return [
            f"{one}, kills at {kills}"
            for one in self.writes
            if one.attempts[-1].outcome != one.kind.outcome
            or not all(map(has_reason, one.attempts[:-1]))
        ]


def _database(name: str, spec: dict[str, str]) -> dict[str, Any]:
    metadata = {"namespace": _NAMESPACE, "name": name}
    return {"apiVersion": PLACE[0], "kind": "Database", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def _called(cluster: Cluster, app: pyinformer.Operator) -> AsyncIterator[None]:
    """Define the resource, and have the server call hooks whose authority it does not know yet."""
    made = [await cluster.create(one) for one in app.custom_resource_definitions()]
    try:
        await eventually(lambda: _has_outcome(cluster, _KINDS[-1]), "the resource is served")
        made += [await cluster.create(one) for one in app.webhook_configurations()]
        yield
    finally:
        for one in reversed(made):
            await cluster.delete(one)
        await cluster.delete(*SECRET)


async def _has_outcome(cluster: Cluster, kind: _Kind) -> bool:
    try:
        made = await cluster.create(_database("x", kind.spec), dry_run=True)
    except APIStatusError as error:
        return error.message.endswith(kind.outcome)
    return made.at("spec.image", str, default="") == kind.outcome


async def test_only_reviews_that_a_killed_process_was_answering_fail(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    """The leaf and the authority are rotated, and the leader dies in the middle of that."""
    server = kube_apiserver_session
    server.ensure_namespace(_NAMESPACE)
    server.close_connections()
    kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig")
    plain = WriteOptions(writes_per_second=None, retry_limit=0)
    rng = random.Random(0)
    kills: list[tuple[float, float]] = []
    async with Service() as service, pyinformer.connect(kubeconfig, write_options=plain) as cluster:
        settings = {
            "kubeconfig": str(kubeconfig),
            "namespace": _NAMESPACE,
            "url": f"https://127.0.0.1:{service.port}",
            "folder": str(tmp_path),
        }
        certificates = Certificates(cluster, service)
        async with _called(cluster, operator_of(settings)):
            with Replicas(cluster, service, settings) as replicas:
                await asyncio.gather(replicas.start("one"), replicas.start("two"))
                await eventually(certificates.is_shown, "both replicas serve")
                for kind in _KINDS:
                    await eventually(partial(_has_outcome, cluster, kind), "hooks are called")
                async with _Load(cluster) as load:
                    for number in range(_ROUNDS):
                        await load.more(1.0)
                        await certificates.renew_leaf()
                        await cluster.delete(*SECRET)
                        await eventually(certificates.are_two, "a second authority")
                        await pause(rng.uniform(0.0, 10.0) if number else 0.0)
                        kills.append(await _kill_leader(replicas, load))
                        await eventually(certificates.is_rotated, "the new authority is used")
                        await certificates.renew_leaf()
                        await eventually(certificates.is_one, "the old authority has gone")
                    await load.more(1.0)
            stored = await _images(cluster)
    assert "\n".join(load.wrong(kills)) == ""
    assert load.repeated()  # the API server does not repeat a review itself
    assert stored == {one.name: one.kind.outcome for one in load.writes if one.kind is not _REFUSED}


async def _kill_leader(replicas: Replicas, load: _Load) -> tuple[float, float]:
    """Kill the leader while it answers, and start it again when the other one leads.

    Returns:
        When its connections broke.
    """
    leader = await replicas.leader()
    for _ in range(_SLOW_WRITES):
        load.begin(_SLOW)
    await until(lambda: replicas.answers_slowly(leader))
    since = now()
    replicas.kill(leader)
    to = now() + _BROKEN_SECONDS
    assert await replicas.leader() != leader
    await replicas.start(leader)
    return since, to


async def _images(cluster: Cluster) -> dict[str, str]:
    """Return the image of each object that was stored, by its name."""
    found = cluster.list(*PLACE, namespace=_NAMESPACE)
    return {one.metadata.name: one.at("spec.image", str, default="") async for one in found}
