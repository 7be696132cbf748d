"""Parts of scripted scenes on a real kube-apiserver: a writer past the proxy, and a program.

The test strikes and heals one fault after the other, and waits between them for what they do.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

import pyinformer
from pyinformer import CacheNotSyncedError, StaleCacheError
from pyinformer.client import ClusterConfig
from pyinformer.client.transport import StaticCredentials
from pyinformer.errors import WaitTimeoutError
from pyinformer.testing import FaultLab, FaultProxy, TimedFault
from pyinformer.testing.histories import EtcdTruth, History, Recorder, RestoredRecord
from tests.integration.chaos.controllers import INDEXES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import KubeObject, Request, SharedInformer
    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer

KEPT = 8
LATER = 60  # a kube-apiserver writes about 30 revisions when it starts
FEW = 5
GROUPS = 3
LONGEST_WAIT_SECONDS = 0.1
MAX_AGES = (None, 0.5, 5.0, 60.0)
_numbers = itertools.count()


@dataclass
class Writer:
    """Writes config maps of one namespace past the proxy; the newest revision is known."""

    server: KubeAPIServer
    namespace: str
    revision: int = 0
    _rng: random.Random = field(default_factory=lambda: random.Random(7))

    def create(self, name: str) -> None:
        """Create an object."""
        self._wrote(self.server.create(self._config_map(name)))

    def replace(self, name: str) -> None:
        """Replace an object by another of its name."""
        self.server.delete("v1", "configmaps", name, self.namespace)
        self.create(name)

    def change(self, name: str) -> None:
        """Write new content."""
        self._wrote(self.server.update(self._config_map(name)))

    def _config_map(self, name: str) -> JSONObject:
        metadata: JSONObject = {"name": name, "namespace": self.namespace}
        group = f"group-{self._rng.randrange(GROUPS)}"
        data = {"group": group, "value": str(self._rng.random())}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

    def _wrote(self, answer: JSONObject) -> None:
        self.revision = int(answer["metadata"]["resourceVersion"])

    def fill(self) -> None:
        """Write what there is at first."""
        for number in range(KEPT):
            self.create(f"kept-{number}")

    def churn(self) -> None:
        """Write creations, changes, a deletion, and another object under a name."""
        for number in range(LATER):
            self.create(f"later-{number}")
        for number in range(KEPT - 2):
            self.change(f"kept-{number}")
        self.replace(f"kept-{KEPT - 2}")
        self.server.delete("v1", "configmaps", f"kept-{KEPT - 1}", self.namespace)

    def write_a_little(self) -> None:
        """Write less than `churn`, after a restore has undone it; with the same names."""
        for number in range(FEW):
            self.create(f"later-{number}")
            self.change(f"kept-{number}")

    def write_past(self, revision: int) -> None:
        """Write until a revision has been given away a second time."""
        self.write_a_little()
        numbers = itertools.count(FEW)
        while self.revision <= revision + FEW:
            self.create(f"later-{next(numbers)}")


@dataclass
class Scene:
    """A program that follows a server by way of a proxy, and is recorded."""

    history: History
    truth: EtcdTruth
    proxy: FaultProxy
    lab: FaultLab
    writer: Writer
    recorder: Recorder
    informer: SharedInformer[None]

    async def strike(self, name: str, **arguments: str) -> int:
        """Begin a fault."""
        fault = TimedFault(name=name, at_seconds=0.0, lasts_seconds=1.0, arguments=arguments)
        return await asyncio.to_thread(self.lab.begin, fault)

    async def heal(self, number: int) -> None:
        """End it."""
        await asyncio.to_thread(self.lab.end, number)

    async def rest(self) -> None:
        """Wait until everything is right, and record it."""
        await self.recorder.rest(self.truth)

    def restores(self) -> int:
        """Return how often etcd's log turned out to be another one."""
        return sum(isinstance(one, RestoredRecord) for one in self.history)

    async def read_again_and_again(self) -> None:
        """Read by the lister at random, whatever age it may have."""
        rng = random.Random(7)
        names = [*(f"kept-{n}" for n in range(KEPT)), *(f"later-{n}" for n in range(LATER))]
        while True:
            key = f"{self.writer.namespace}/{rng.choice(names)}"
            with suppress(StaleCacheError, CacheNotSyncedError):
                self.recorder.read(self.informer, key, max_age_seconds=rng.choice(MAX_AGES))
            with suppress(WaitTimeoutError), self.recorder.waiting(key):
                await self.informer.wait_for(
                    key, lambda _: False, timeout_seconds=rng.uniform(0.0, LONGEST_WAIT_SECONDS)
                )


async def _reconcile(request: Request, config_map: KubeObject[Any] | None) -> None:
    """Do nothing: that it is called for the last state of each object is what counts."""


def recorded(
    factory: pyinformer.SharedInformerFactory, recorder: Recorder, namespace: str
) -> tuple[SharedInformer[None], pyinformer.Controller]:
    """Return an informer of a namespace's config maps, with an index, and a controller."""
    informer = factory.informer("v1", "configmaps", namespaces=namespace)
    informer.add_index("group", INDEXES["group"])
    recorder.follow(informer, indexes=INDEXES)
    reconcile = recorder.reconciling("config-maps", _reconcile, informer)
    return informer, pyinformer.Controller("config-maps", reconcile, informer)


@asynccontextmanager
async def following(server: KubeAPIServer, history: History) -> AsyncIterator[Scene]:
    """Follow a namespace by an informer with a handler, an index, a controller and a reader."""
    writer = Writer(server, f"scripted-{next(_numbers)}")
    server.ensure_namespace(writer.namespace)
    await asyncio.to_thread(writer.fill)
    with (
        EtcdTruth(history, server.etcd_url, resources=["configmaps"]) as truth,
        FaultProxy(server, reads_requests=True) as proxy,
    ):
        await asyncio.to_thread(truth.catch_up)
        config = ClusterConfig(
            server=proxy.url,
            ca_file=str(proxy.ca_file),
            credentials=StaticCredentials.bearer(proxy.token or ""),
        )
        lab = FaultLab(proxy=proxy, server=server, truth=truth, log=history.add)
        async with (
            Recorder(history, counts_resources=False) as recorder,
            pyinformer.connect(config=config) as cluster,
            pyinformer.SharedInformerFactory(cluster) as factory,
        ):
            informer, controller = recorded(factory, recorder, writer.namespace)
            scene = Scene(history, truth, proxy, lab, writer, recorder, informer)
            async with (
                pyinformer.ControllerGroup(controller, factories=[factory]),
                anyio.create_task_group() as group,
            ):
                group.start_soon(scene.read_again_and_again)
                yield scene
                group.cancel_scope.cancel()
