"""Many quiet watches of one connection: what they cost a server, and what they notice.

The server is a model of a kube-apiserver: each resource has a cache that answers watches, and lists
come from etcd. The times are virtual, and the settings are the defaults.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from msgspec import json

from pyinformer.cache.reflector import Reflector, ReflectorOptions, RequestBudget, WatchListMemory
from pyinformer.cache.reflector.lineage import Lineage
from pyinformer.client.transport import Body
from pyinformer.errors import ResourceVersionTooLargeError
from pyinformer.objects import GroupVersionResource
from tests.cache.reflector.samples import DictSink, bookmark, line, pod_bytes
from tests.cache.reflector.scripted import Pieces, ScriptedBody, ScriptedConnection, following
from tests.virtual_time import elapse
from tests.waiting import until

# Some compute for a minute, and longer on a busy machine.
pytestmark = [pytest.mark.virtual_time, pytest.mark.timeout(900)]

MINUTE = 60.0
TICK_SECONDS = 0.5
_CORE = b'"apiVersion":"v1"'


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class QuietServer(ScriptedConnection):
    """A kube-apiserver; something that is not followed is written in each second."""

    notifies: bool = True
    """Whether its etcd notifies of progress every five seconds, as kubeadm starts it."""
    progresses: bool = True
    """Whether a list brings the cache of its resource up to date; else it comes from etcd."""
    has_bookmarks: bool = True
    """Whether watches have bookmarks, which some gateways drop."""
    cuts_after_seconds: float = 1000.0
    """When a proxy ends a watch, in the proper way."""
    held: dict[str, int] = field(default_factory=dict)
    """The resources whose cache stands still, and at which version."""
    changes: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """The versions and names of the objects of each resource."""
    cached: dict[str, int] = field(default_factory=dict)
    """The version that the cache of a resource has because of a request."""
    requests: list[str] = field(default_factory=list)
    """What was requested beside long watches."""
    waiting: int = 0
    """How many lists wait for a version that the cache of their resource does not have."""
    most_waiting: int = 0

    @property
    def revision(self) -> int:
        """The version of etcd."""
        return 1000 + 10 * int(now()) + sum(map(len, self.changes.values()))

    def put(self, resource: str) -> None:
        """Create an object."""
        known = self.changes.setdefault(resource, [])
        known.append((self.revision + 1, f"{resource}-{len(known)}"))

    def hold(self, resource: str) -> None:
        """Let the cache of a resource stand still."""
        self.held[resource] = self.cache_version(resource)

    def cache_version(self, resource: str) -> int:
        """Return up to which version the cache of a resource is."""
        if resource in self.held:
            return self.held[resource]
        notified = 1000 + 50 * int(now() / 5) if self.notifies else 0
        newest = max((version for version, _ in self.changes.get(resource, ())), default=0)
        return max(notified, newest, self.cached.get(resource, 1000))

    def _progress(self, resource: str) -> bool:
        """Bring the cache of a resource up to date, if it does not stand still."""
        does = self.progresses and resource not in self.held
        if does:
            self.cached[resource] = self.revision
        return does

    async def probe(self, timeout_seconds: float) -> bool:
        """Return that the server answers."""
        del timeout_seconds
        return True

    def describe_pending(self, path: str) -> str:
        """Return nothing."""
        del path
        return ""

    @asynccontextmanager
    async def answer(self, path: str, query: dict[str, str]) -> AsyncIterator[Body]:
        """Answer a list or a watch."""
        resource = path.rpartition("/")[2]
        if "watch" in query:
            seconds = float(query["timeoutSeconds"])
            if seconds < 5.0:
                self.requests.append("watch")
            pieces = self._watch(resource, int(query["resourceVersion"]), seconds)
        else:
            is_least = query.get("limit") == "1" or "fieldSelector" in query
            self.requests.append("look" if is_least else "list")
            pieces = self._list(resource, query)
        group = path.removeprefix("/apis/").partition("/")[0] if "/apis/" in path else ""
        own = f'"apiVersion":"{group}/v1"'.encode() if group else _CORE
        try:
            yield ScriptedBody(piece.replace(_CORE, own) async for piece in pieces)
        finally:
            await pieces.aclose()

    async def _list(self, resource: str, query: dict[str, str]) -> Pieces:
        wanted = int(query.get("resourceVersion") or 0)
        least = wanted or (self.revision if self.progresses else 0)
        if not self._progress(resource) and self.cache_version(resource) < least:
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
            try:
                await elapse(3.0)
            finally:
                self.waiting -= 1
            if wanted:
                raise ResourceVersionTooLargeError(status=504)
        one = query.get("fieldSelector", "").removeprefix("metadata.name=")
        yield json.encode(
            {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(self.revision)},
                "items": [
                    json.decode(pod_bytes(name, str(version), name))
                    for version, name in self.changes.get(resource, ())
                    if one in ("", name)
                ],
            }
        )

    async def _watch(self, resource: str, position: int, seconds: float) -> Pieces:
        yield b""
        began_at = bookmarked_at = now()
        while now() < began_at + min(seconds, self.cuts_after_seconds):
            version = self.cache_version(resource)
            for at, name in self.changes.get(resource, ()):
                if position < at <= version:
                    yield line("ADDED", name, str(at), name) + b"\n"
            position = max(position, version)
            if now() >= bookmarked_at + MINUTE or now() >= began_at + seconds - 2.0 > began_at:
                bookmarked_at = now()
                if self.has_bookmarks:
                    yield bookmark(str(version)) + b"\n"
            await elapse(TICK_SECONDS)


@dataclass
class Quiet:
    """The reflectors of one connection."""

    server: QuietServer
    reflectors: dict[str, Reflector[None]] = field(default_factory=dict)
    sinks: dict[str, DictSink] = field(default_factory=dict)

    def has(self, resource: str, name: str) -> bool:
        """Return whether a cache has an object."""
        return name in self.sinks[resource].versions()

    def needless_loads(self) -> int:
        """Return how many lists there were after the first; one in some hundreds is by chance."""
        return sum(one.status().loads - 1 for one in self.reflectors.values())

    async def pass_time(self, seconds: float, *, reads: bool) -> float:
        """Let time pass, perhaps with a reader of all ages every ten seconds.

        Returns:
            The highest age.
        """
        oldest, ends_at = 0.0, now() + seconds
        while now() < ends_at:
            await elapse(10.0)
            for one in self.reflectors.values():
                proven_at = one.read_proof() if reads else one.last_proof_at
                assert proven_at is not None
                oldest = max(oldest, now() - proven_at)
        return oldest

    async def until_healed(self, missed: dict[str, str], *, reads: bool) -> float:
        """Wait until missed objects are cached; return how long it took.

        No age may say meanwhile that the object is there.
        """
        missed_at = now()
        while left := [one for one, name in missed.items() if not self.has(one, name)]:
            await elapse(1.0)
            for one in left:
                reflector = self.reflectors[one]
                proven_at = reflector.read_proof() if reads else reflector.last_proof_at
                assert proven_at is not None
                assert self.has(one, missed[one]) or proven_at <= missed_at + 2.0
            assert now() < missed_at + 600.0
        return now() - missed_at


@asynccontextmanager
async def quiet(server: QuietServer, count: int, *, groups: bool = False) -> AsyncIterator[Quiet]:
    """Follow so many resources, perhaps each of its own API group, until all are loaded."""
    made = Quiet(server)
    options = ReflectorOptions(use_watch_list=False, rng=random.Random(count))
    lineage, budget, memory = Lineage(), RequestBudget(), WatchListMemory()
    async with AsyncExitStack() as stack:
        for number in range(count):
            name = f"things{number}"
            server.put(name)
            made.reflectors[name], made.sinks[name] = await stack.enter_async_context(
                following(
                    server,
                    resource=GroupVersionResource.of(
                        f"g{number}.example.com/v1" if groups else "v1", name
                    ),
                    memory=memory,
                    budget=budget,
                    lineage=lineage,
                    options=options,
                )
            )
            await elapse(0.7)
        await until(lambda: all(one.status().loads for one in made.reflectors.values()))
        yield made


@pytest.mark.parametrize("notifies", [True, False])
async def test_forty_quiet_watches_cost_eight_requests_a_minute_while_no_reader_asks(
    notifies: bool,
) -> None:
    server = QuietServer(notifies=notifies)
    async with quiet(server, 40) as made:
        await made.pass_time(3 * MINUTE, reads=False)
        server.requests.clear()
        oldest = await made.pass_time(20 * MINUTE, reads=False)
        assert len(server.requests) <= 20 * 8.5
        assert oldest < 120.0 or not notifies
        assert made.needless_loads() <= 1


@pytest.mark.parametrize(("notifies", "most", "limit"), [(True, 13.0, 120.0), (False, 45.0, 240.0)])
async def test_forty_quiet_watches_share_lists_while_a_reader_asks(
    notifies: bool, most: float, limit: float
) -> None:
    server = QuietServer(notifies=notifies)
    async with quiet(server, 40) as made:
        await made.pass_time(3 * MINUTE, reads=True)
        server.requests.clear()
        assert await made.pass_time(20 * MINUTE, reads=True) < limit
        assert len(server.requests) <= 20 * most
        assert made.needless_loads() <= 1


@pytest.mark.parametrize(
    ("count", "limit", "notifies", "reads"),
    [
        pytest.param(12, 110.0, True, True, id="a-dozen"),
        pytest.param(12, 110.0, False, False, id="a-dozen-without-notifications-and-reader"),
        pytest.param(100, 170.0, True, True, id="a-hundred"),
    ],
)
async def test_many_api_groups_prove_their_ages_in_turn(
    count: int, limit: float, *, notifies: bool, reads: bool
) -> None:
    """Each has its own storage, and none is proven by another."""
    server = QuietServer(notifies=notifies)
    async with quiet(server, count, groups=True) as made:
        await made.pass_time(3 * MINUTE, reads=reads)
        server.requests.clear()
        assert await made.pass_time(7 * MINUTE, reads=reads) < limit
        assert len(server.requests) <= 7 * max(40.0, 0.8 * count)
        assert made.needless_loads() <= 1


@pytest.mark.parametrize("count", [12, 40])
async def test_where_no_bookmark_comes_each_is_listed_when_its_age_has_reached_three_minutes(
    count: int,
) -> None:
    """Each watch is silent, and opened again after 75 s, all at once: none may lose its turn."""
    server = QuietServer(has_bookmarks=False)
    async with quiet(server, count) as made:
        assert await made.pass_time(15 * MINUTE, reads=True) < 240.0
        assert {one.status().loads for one in made.reflectors.values()} <= {4, 5, 6}


async def test_watches_whose_lists_are_due_together_do_not_all_wait_for_the_server() -> None:
    """Each comparison with a cache that learns nothing takes a connection for three seconds."""
    server = QuietServer(has_bookmarks=False, progresses=False, notifies=False)
    async with quiet(server, 100) as made:
        assert await made.pass_time(7 * MINUTE, reads=True) < 300.0
        assert 0 < server.most_waiting <= 16, "half of the connections of a pool are left"


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("notifies", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5, 40])
async def test_what_all_watches_miss_is_listed_within_90_seconds(
    count: int, notifies: bool, reads: bool
) -> None:
    server = QuietServer(notifies=notifies)
    async with quiet(server, count) as made:
        for seconds in (130.0, 17.0, 44.0):
            await made.pass_time(seconds, reads=reads)
            for one in made.reflectors:
                server.hold(one)
                server.put(one)
            missed = {one: server.changes[one][-1][1] for one in made.reflectors}
            # The first shows that all stand still, and then the others are listed in turn.
            assert await made.until_healed(missed, reads=reads) < 90.0
            server.held.clear()
            await made.pass_time(120.0, reads=reads)


@pytest.mark.parametrize(
    ("count", "reads", "limit"),
    [(1, False, 75.0), (2, False, 75.0), (4, True, 75.0), (40, True, 150.0)],
)
async def test_what_one_watch_of_several_misses_is_listed(
    count: int, reads: bool, limit: float
) -> None:
    server = QuietServer()
    async with quiet(server, count) as made:
        for number in range(3):
            one = f"things{number % count}"
            await made.pass_time(130.0, reads=reads)
            server.hold(one)
            server.put(one)
            missed = {one: server.changes[one][-1][1]}
            assert await made.until_healed(missed, reads=reads) < limit
            server.held.clear()


@pytest.mark.parametrize(("count", "most"), [(1, 26.0), (10, 45.0)])
async def test_watches_that_a_proxy_ends_early_cost_few_lists(count: int, most: float) -> None:
    server = QuietServer(cuts_after_seconds=5.0)
    async with quiet(server, count) as made:
        await made.pass_time(3 * MINUTE, reads=True)
        server.requests.clear()
        await made.pass_time(10 * MINUTE, reads=True)
        assert len(server.requests) <= 10 * most
        server.put("things0")
        assert await made.until_healed({"things0": "things0-1"}, reads=True) < 10.0
        assert {one.epoch for one in made.reflectors.values()} == {0}
