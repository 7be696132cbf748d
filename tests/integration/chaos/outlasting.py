"""Programs side by side on one kube-apiserver, each under a fault that outlasts a limit.

Each has a namespace, a proxy, a connection and an informer of its own, and the default limits. A
busy one has a writer; no client writes to the resource of an idle one meanwhile. A writer goes past
the proxies and moves a counter; every second it is noted what the program shows of it, and whether
it is alive and ready.
"""

from __future__ import annotations

import contextlib
import threading
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import pyinformer
from pyinformer.cache import ReflectorOptions
from pyinformer.client.transport import StaticCredentials
from pyinformer.errors import InformerError
from pyinformer.operator import Health, HealthOptions
from pyinformer.testing import FaultProxy
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyinformer.cache.informer import InformerStatus
    from pyinformer.objects import JSONObject
    from pyinformer.testing import EtcdRelay, KubeAPIServer
    from pyinformer.testing.histories import Recorder

COUNTER: Final = "counter"
_COUNT: Final = "chaos.example.com/count"
_OBJECTS: Final = 5  # besides the counter
_PAUSE_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.1
_POD: Final[JSONObject] = {"containers": [{"name": "one", "image": "example.com/one"}]}
_BODIES: Final[dict[str, JSONObject]] = {
    "configmaps": {"kind": "ConfigMap"},
    "secrets": {"kind": "Secret"},
    "pods": {"kind": "Pod", "spec": _POD},
    "podtemplates": {"kind": "PodTemplate", "template": {"spec": _POD}},
}
KINDS: Final = tuple(_BODIES)
PODS_AND_TEMPLATES: Final = "/registry/pod"
"""How etcd's keys of the last two begin: a relay holds the watches of one prefix."""


@dataclass(frozen=True)
class Limits:
    """The limits that are outlasted: the defaults."""

    reflector: ReflectorOptions = field(default_factory=ReflectorOptions)
    health: HealthOptions = field(default_factory=HealthOptions)
    controller: pyinformer.ControllerOptions = field(default_factory=pyinformer.ControllerOptions)

    @property
    def stale_seconds(self) -> float:
        """When a program is not ready any more."""
        assert self.health.stale_seconds is not None
        return self.health.stale_seconds

    @property
    def wedged_seconds(self) -> float:
        """When a program is not alive any more."""
        return 900.0

    @property
    def relist_seconds(self) -> float:
        """After how long without contact everything is listed."""
        return 300.0

    @property
    def reconcile_seconds(self) -> float:
        """When a reconcile is cancelled."""
        assert self.controller.reconcile_timeout_seconds is not None
        return self.controller.reconcile_timeout_seconds


@dataclass(frozen=True)
class Seen:
    """What a program was at one moment."""

    at: float
    is_ready: bool
    is_alive: bool
    state: str
    age_seconds: float | None
    lag_seconds: float
    """For how long the newest count that its cache lacks had been stored."""


class Subject:
    """One program, its faults, and what is wrong with it.

    Args:
        name: of its scene.
        plural: the resource that it follows.
        is_busy: whether it is written to meanwhile.
        server: the server behind its proxy.
        relay: what stands between the server and etcd.
        limits: its limits.
        reads_requests: whether its faults choose requests.
    """

    def __init__(
        self,
        name: str,
        plural: str,
        *,
        is_busy: bool,
        server: KubeAPIServer,
        relay: EtcdRelay,
        limits: Limits,
        reads_requests: bool = False,
    ) -> None:
        self.name = f"{name}-{'busy' if is_busy else 'idle'}"
        self.plural = plural
        self.is_busy = is_busy
        self.relay = relay
        self.limits = limits
        self.proxy = FaultProxy(server, reads_requests=reads_requests)
        self.seen: list[Seen] = []
        self.broken: list[str] = []
        self.figures: dict[str, object] = {}
        self._server = server
        self._turn = 0
        self._counted = [0.0]
        self._lock = threading.Lock()

    def check(self, holds: object, promise: str) -> None:
        """Note a promise that is broken."""
        if not holds:
            self.broken.append(f"{self.name}: {promise}; {self.status()}")

    def note(self, what: str, figure: object) -> None:
        """Note a figure."""
        self.figures[what] = round(figure, 1) if isinstance(figure, float) else figure

    def fill(self, more: int = 0, value: str = "") -> None:
        """Make its namespace and its objects."""
        self._server.ensure_namespace(self.name)
        self._server.create(self._body(COUNTER, count=0))
        for number in range(_OBJECTS):
            self._server.create(self._body(f"object-{number}"))
        for number in range(more):
            self._server.create({**self._body(f"large-{number}"), "data": {"value": value}})

    def write(self) -> None:
        """Move the counter, and delete or make an object; from a thread.

        The time is that before the write, so that a lag is never too small.
        """
        at = monotonic()
        with self._lock:
            count = len(self._counted)
        change = {"metadata": {"annotations": {_COUNT: str(count)}}}
        self._server.patch("v1", self.plural, COUNTER, change, self.name)
        with self._lock:
            self._counted.append(at)
        self._turn += 1
        other = f"object-{self._turn // 2 % _OBJECTS}"
        if self._turn % 2:
            self._server.delete("v1", self.plural, other, self.name)
        else:
            self._server.create(self._body(other))

    def _body(self, name: str, *, count: int | None = None) -> JSONObject:
        metadata: JSONObject = {"name": name, "namespace": self.name}
        if count is not None:
            metadata["annotations"] = {_COUNT: str(count)}
        return {"apiVersion": "v1", **_BODIES[self.plural], "metadata": metadata}

    async def start(
        self, stack: AsyncExitStack, recorder: Recorder, options: ReflectorOptions | None = None
    ) -> None:
        """Make the program, which the scene starts by `follow`."""
        stack.enter_context(self.proxy)
        config = pyinformer.client.ClusterConfig(
            server=self.proxy.url,
            ca_file=str(self.proxy.ca_file),
            credentials=StaticCredentials.bearer(self.proxy.token or ""),
        )
        cluster = await stack.enter_async_context(pyinformer.connect(config=config))
        self.factory = await stack.enter_async_context(
            pyinformer.SharedInformerFactory(cluster, options=options or self.limits.reflector)
        )
        self.informer: pyinformer.SharedInformer[Any] = self.factory.informer(
            "v1", self.plural, namespaces=self.name
        )
        recorder.follow(self.informer, name=self.name)
        self.health = Health(self.factory, options=self.limits.health)

    async def follow(self) -> None:
        """Start its informer, and wait until it is ready."""
        await self.factory.start()
        await self.informer.wait_for_cache_sync(timeout_seconds=100)
        assert await self.within(lambda: self.seen and self.seen[-1].is_ready, 100)

    async def probe(self) -> None:
        """Note every second what it is, as a kubelet does."""
        while True:
            self.look()
            await pause(_PAUSE_SECONDS)

    def look(self) -> None:
        """Note what it is now."""
        now = monotonic()
        ready, alive = self.health.ready(), self.health.live()
        self.seen.append(
            Seen(
                now,
                ready.is_ok,
                alive.is_ok,
                self.informer.state.value,
                self.informer.age_seconds(),
                self._lag(now),
            )
        )

    def _lag(self, now: float) -> float:
        found = self.informer.lister.get(f"{self.name}/{COUNTER}", allow_unsynced=True)
        if found is None:  # the checker judges what is missing
            return 0.0
        shown = int(found.to_dict()["metadata"]["annotations"][_COUNT])
        with self._lock:
            return now - self._counted[shown + 1] if shown + 1 < len(self._counted) else 0.0

    async def within(self, condition: Callable[[], object], seconds: float) -> float | None:
        """Wait for a condition; return after how many seconds it held, None if it did not."""
        began = monotonic()
        while not condition():
            if monotonic() - began > seconds:
                return None
            await pause(_LOOK_SECONDS)
        return monotonic() - began

    def during(self, begin: float, end: float | None = None) -> list[Seen]:
        """Return what was seen between two times."""
        return [one for one in self.seen if begin <= one.at and (end is None or one.at <= end)]

    def status(self) -> InformerStatus:
        """Return what the informer says of itself."""
        return self.informer.status()

    @property
    def loads(self) -> int:
        """How many complete lists its cache has taken over."""
        return self.status().reflector.loads

    @property
    def takeovers(self) -> int:
        """How often a second watch took over."""
        return self.status().reflector.takeovers

    def journal(self) -> list[str]:
        """Return what has happened to it."""
        return [entry.what for entry in self.informer.status(with_journal=True).journal]


def write_always(subjects: Iterable[Subject], stop: threading.Event) -> None:
    """Write to the busy ones until `stop` is set; a write that fails is not repeated."""
    busy = [one for one in subjects if one.is_busy]
    while not stop.wait(_PAUSE_SECONDS):
        for one in busy:
            with contextlib.suppress(InformerError, OSError):
                one.write()
