"""After a restore of etcd, caches and handlers equal the server, though no event announced it.

Each case restores a backup behind the informers' back and writes on, so that resource versions are
given away a second time: fewer than were lost, just as many, or far more. The server was asked once
for all informers of the connection whether its history is still theirs.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer import Updated
from pyinformer.cache.informer import core_of
from tests.followed import server_behind
from tests.integration.following import Followed, follow
from tests.integration.history import Versions
from tests.integration.objects import CONFIG_MAPS, SECRETS, WIDGET, changed, event_of_nothing
from tests.integration.proxy import proxying
from tests.integration.servers import EITHER_CLIENT_OBSERVED
from tests.integration.workload import SELECTED, Writer, together
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer.testing import FaultProxy
    from tests.integration.asked import Observed
    from tests.integration.servers import Server

KINDS = (CONFIG_MAPS, SECRETS, WIDGET)
KEPT = 8  # of each kind, in the backup
LOST_CREATES = 20  # of each kind, and as many other writes; a real server's own boot takes 30
NEAR = 5
FAR = 500
BUMP = 100_000


class World:
    """Five informers of one connection: three kinds, one of them selected too, and Events."""

    def __init__(self, observed: Observed, cluster: pyinformer.Cluster, proxy: FaultProxy) -> None:
        self.server: Server = observed.server
        self.asked = observed.asked
        self.cluster = cluster
        self.proxy = proxy
        self.namespace = self.server.namespace()
        versions = Versions()  # not compared: a restored server gives them away twice
        self.writers = [Writer(self.server, kind, self.namespace, versions) for kind in KINDS]
        self.followed: list[Followed] = []

    def follow(self, factory: pyinformer.SharedInformerFactory) -> None:
        """Ask for the informers."""
        wanted: list[tuple[str, str, str | None]] = [
            *((kind.api_version, kind.plural, None) for kind in KINDS),
            ("v1", "configmaps", SELECTED),
            ("v1", "events", None),
        ]
        self.followed = [
            follow(factory, group, plural, namespaces=self.namespace, label_selector=selector)
            for group, plural, selector in wanted
        ]

    def fill(self) -> None:
        """Write what the backup is to have."""
        for number, writer in enumerate(self.writers):
            writer.fill(KEPT)
            self.server.api.create(event_of_nothing(f"e{number}", self.namespace))

    async def churn(self, *, creates: int, others: int) -> None:
        """Write at random, all kinds at once."""
        await together(partial(one.churn, creates=creates, others=others) for one in self.writers)

    async def heal(self) -> None:
        """Wait until every informer has taken a second list, and is what the server has."""
        # Those too that missed nothing; and of some, the versions alone look settled before.
        await until(lambda: all(one.loads >= 2 for one in self.followed), what=self.asked)
        await self.settle()

    async def settle(self) -> None:
        """Wait until every cache and handler is what the server has."""
        async with asyncio.TaskGroup() as group:
            for one in self.followed:
                settled = one.settle(self.server, timeout_seconds=100.0)
                group.create_task(settled)

    @property
    def position(self) -> int:
        """The newest resource version that an informer has seen."""
        return max(int(one.informer.status().position) for one in self.followed)

    async def while_nobody_looks(
        self,
        restore: Callable[[int], None] | None,
        go_on: Callable[[World, int], None],
        *,
        bump: int = 0,
    ) -> None:
        """Restore the unreachable server, write more, and let informers reconnect."""
        seen = self.position
        self.proxy.refuse()
        if restore is not None:
            await asyncio.to_thread(restore, bump)
            for writer in self.writers:
                await asyncio.to_thread(writer.go_back, KEPT)
            for one in self.followed:
                one.history.server_was_restored()
        await asyncio.to_thread(go_on, self, seen)
        self.asked.look_away()
        before = self.proxy.passed
        self.proxy.accept()
        await until(lambda: self.proxy.passed > before)


@asynccontextmanager
async def following(observed: Observed) -> AsyncIterator[World]:
    """Sync the informers of one connection."""
    observed.server.serve_widgets()
    async with (
        proxying(observed.server.api) as proxy,
        observed.server.connect(url=proxy.url, token=observed.token) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        world = World(observed, cluster, proxy)
        await asyncio.to_thread(world.fill)
        world.follow(factory)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        yield world


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.ERROR and record.name.startswith("pyinformer")
    ]


def a_little(world: World, seen: int) -> None:
    """Write less than was lost: the server is behind what informers have seen."""
    for writer in world.writers:
        writer.churn(creates=2, others=3)
    assert world.server.revision() < seen


def just_past(world: World, seen: int) -> None:
    """Write until resource versions have just passed what informers have seen."""
    while world.server.revision() <= seen:
        for writer in world.writers:
            writer.churn(creates=1, others=1)
    assert world.server.revision() < seen + FAR


def far_beyond(world: World, seen: int) -> None:
    """Write far more than was lost, most of it new: what is gone or replaced is looked at twice."""
    while world.server.revision() <= seen + FAR:
        for writer in world.writers:
            writer.churn(creates=22, others=2)


@dataclass(frozen=True)
class Case:
    """How far the server is when informers come back, and what they have to ask."""

    go_on: Callable[[World, int], None]
    quorums: int
    """Complete looks at the newest there is: two, if the server seems to be behind."""
    witnesses: range


@EITHER_CLIENT_OBSERVED
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case(a_little, 2, range(1)), id="behind"),
        pytest.param(Case(just_past, 0, range(1, 3)), id="just-passed"),
        pytest.param(Case(far_beyond, 0, range(1, 3)), id="far-beyond"),
    ],
)
async def test_a_restore_is_proven_once_and_healed_for_every_informer(
    observed: Observed, case: Case, caplog: pytest.LogCaptureFixture
) -> None:
    """One probe and at most two witnesses for five informers, one ERROR, one list for each."""
    async with following(observed) as world:
        restore = await asyncio.to_thread(world.server.save)
        await world.churn(creates=LOST_CREATES, others=LOST_CREATES)
        await world.settle()

        await world.while_nobody_looks(restore, case.go_on)
        await world.heal()

        asked = world.asked.counts()
        told = world.asked.requests()
        assert asked["probe"] == 1, told
        assert asked["quorum"] == case.quorums, told
        assert asked["witness"] in case.witnesses, told
        assert asked["load"] == len(world.followed), told
        assert asked["watch-list"] == asked["verify"] == 0, told
        assert [one.loads for one in world.followed] == [2] * len(world.followed)
        assert len(_errors(caplog)) == 1, _errors(caplog)
        assert "history" in _errors(caplog)[0]
        assert server_behind(world.cluster).lineage.status().resets == 1

        # And it continues from there: new changes come by watch.
        await world.churn(creates=3, others=6)
        await world.settle()
        assert world.asked.counts()["load"] == len(world.followed)
        assert server_behind(world.cluster).lineage.status().resets == 1


async def test_a_restore_with_a_bumped_revision_is_a_410_for_every_informer(
    observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    """Their position is compacted, so each lists again; versions never go back, nothing lies."""
    async with following(observed) as world:
        restore = await asyncio.to_thread(world.server.save)
        await world.churn(creates=LOST_CREATES, others=LOST_CREATES)
        await world.settle()

        await world.while_nobody_looks(restore, a_little_beyond, bump=BUMP)
        await world.heal()

        told = world.asked.requests()
        # Once for the 410, and once more if it came before another's list had proven the restore:
        # objects that went back behind what was seen of them do.
        assert all(one.loads in {2, 3} for one in world.followed), told
        # For the server, for widgets' group and for Events.
        assert world.asked.counts()["probe"] in {1, 2, 3}, told
        assert world.asked.counts()["quorum"] == 0, told
        # At most once for each of the two: a list of widgets proves nothing for built-in resources.
        assert server_behind(world.cluster).lineage.status().resets <= 2
        assert len(_errors(caplog)) == server_behind(world.cluster).lineage.status().resets
        await world.churn(creates=3, others=6)
        await world.settle()


def a_little_beyond(world: World, seen: int) -> None:
    """Write a little, where no version was given away twice."""
    for writer in world.writers:
        writer.churn(creates=2, others=3)
    assert world.server.revision() > seen + BUMP // 2


async def test_the_same_version_with_other_content_is_an_update(
    observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    """One informer holds what has the uid and version of the server's, and says something else.

    The other, of the same connection, holds something newer that never was: it proves the break
    for both.
    """
    async with following(observed) as world:
        api, namespace = world.server.api, world.namespace
        first = api.create(CONFIG_MAPS.make("twice", namespace, labels={"says": "nothing"}))
        restore = await asyncio.to_thread(world.server.save)
        before = first
        for number in range(80):
            before = api.update(changed(before, number, says="what-was-lost"))
        api.create(SECRETS.make("newer", namespace))
        await world.settle()
        version = before["metadata"]["resourceVersion"]

        def write_the_same_version(world: World, seen: int) -> None:
            after = api.get("v1", "configmaps", "twice", namespace)
            while int(after["metadata"]["resourceVersion"]) < int(version):
                after = api.update(changed(after, 0, says=f"else-{world.server.revision()}"))
            assert after["metadata"]["resourceVersion"] == version, "a write of the server's own"
            assert after["metadata"]["uid"] == before["metadata"]["uid"]

        await world.while_nobody_looks(restore, write_the_same_version)
        await world.heal()

        told = world.followed[0].history.of(f"{namespace}/twice")[-1]
        assert isinstance(told, Updated)
        assert told.old.metadata.resource_version == told.new.metadata.resource_version == version
        assert told.old.metadata.labels["says"] == "what-was-lost"
        assert told.new.metadata.labels["says"].startswith("else-")
        assert len(_errors(caplog)) == 1, _errors(caplog)


async def test_deletions_that_a_restore_undid_are_proven_by_the_newest_of_them(
    observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing that is cached contradicts the server: only what was seen to go does."""
    async with following(observed) as world:
        restore = await asyncio.to_thread(world.server.save)
        for writer in world.writers:
            await asyncio.to_thread(writer.remove, 2)
        await world.settle()

        await world.while_nobody_looks(restore, just_past)
        await world.heal()

        asked = world.asked.counts()
        assert (asked["probe"], asked["witness"], asked["quorum"]) == (1, 2, 0), str(world.asked)
        assert len(_errors(caplog)) == 1, _errors(caplog)
        assert "was deleted before" in _errors(caplog)[0]


async def test_one_deletion_that_a_restore_undid_is_proven(
    observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    """It is all that was lost, and it came with the position itself."""
    async with following(observed) as world:
        restore = await asyncio.to_thread(world.server.save)
        await asyncio.to_thread(world.writers[0].remove, 1)
        await world.settle()

        await world.while_nobody_looks(restore, just_past)
        await world.heal()

        assert world.asked.counts()["quorum"] == 0, str(world.asked)
        assert len(_errors(caplog)) == 1, _errors(caplog)


class ReadsWithEvents:
    """A receiver that looks with every event whether the cache's readers find a key."""

    def __init__(self, followed: Followed, key: str) -> None:
        self._lister = followed.informer.lister
        self._key = key
        self.found: list[bool] = []

    def put_nowait(self, event: object) -> None:
        """Look by key and in a list."""
        del event
        keys = [obj.key for obj in self._lister.list()]
        self.found.append(self._key in keys or self._key in self._lister)

    def preload_nowait(self, objects: object) -> None:
        """Do nothing: it attaches to what it knows."""

    def on_initial_list_complete(self) -> None:
        """Do nothing."""

    def on_missed_state(self, was: object, now: object) -> None:
        """Do nothing."""


async def test_events_of_a_restored_history_are_not_mixed_with_own_writes_of_the_lost_one(
    observed: Observed,
) -> None:
    """The watch has not brought the write when the server is restored."""
    async with following(observed) as world:
        config_maps = world.followed[0]
        restore = await asyncio.to_thread(world.server.save)
        await world.churn(creates=LOST_CREATES, others=LOST_CREATES)
        await world.settle()
        world.proxy.stall(new=False)
        lost = CONFIG_MAPS.make("lost", world.namespace)
        answer = await asyncio.to_thread(world.server.api.create, lost)
        world.cluster.record_write("v1", "configmaps", answer)
        key = f"{world.namespace}/lost"
        assert key in config_maps.informer.lister
        reads = ReadsWithEvents(config_maps, key)
        core_of(config_maps.informer).attach_receiver(reads)

        await world.while_nobody_looks(restore, a_little)
        await world.heal()

        assert reads.found
        assert not any(reads.found)
        core_of(config_maps.informer).detach_receiver(reads)


async def test_each_connection_proves_for_itself(
    observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    """What one connection has learned of a server says nothing about the other's."""
    async with (
        following(observed) as world,
        observed.server.connect(url=world.proxy.url, token=observed.token) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        mine = [
            follow(factory, kind.api_version, kind.plural, namespaces=world.namespace)
            for kind in KINDS
        ]
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        world.followed += mine
        restore = await asyncio.to_thread(world.server.save)
        await world.churn(creates=LOST_CREATES, others=LOST_CREATES)
        await world.settle()

        await world.while_nobody_looks(restore, a_little)
        await world.heal()

        assert world.asked.counts()["probe"] == 2, str(world.asked)
        assert world.asked.counts()["load"] == len(world.followed), str(world.asked)
        assert len(_errors(caplog)) == 2, _errors(caplog)
        for connection in (world.cluster, cluster):
            assert server_behind(connection).lineage.status().resets == 1


async def test_an_outage_without_a_restore_is_proven_harmless(
    observed: Observed, caplog: pytest.LogCaptureFixture
) -> None:
    """History is intact: a probe and two samples prove it for all that kube-apiserver serves.

    Widgets may be an aggregated API's, and Events may have an etcd of their own: each asks once
    more for itself.
    """
    async with following(observed) as world:
        await world.churn(creates=5, others=20)
        await world.settle()

        await world.while_nobody_looks(None, go_on)
        await world.settle()
        count = len(world.followed)
        await until(lambda: world.asked.counts()["watch"] == count, what=world.asked)

        asked = world.asked.counts()
        assert (asked["probe"], asked["quorum"], asked["load"]) == (3, 0, 0), asked
        assert asked["witness"] in range(1, 7), asked
        assert _errors(caplog) == []
        assert server_behind(world.cluster).lineage.status().resets == 0


def go_on(world: World, _: int) -> None:
    """Write a little."""
    for writer in world.writers:
        writer.churn(creates=2, others=3)
