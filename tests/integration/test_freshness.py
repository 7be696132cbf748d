"""A kube-apiserver whose watch of etcd is held back, while it answers lists from etcd."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import pyinformer
from pyinformer.cache.reflector import ReflectorState
from pyinformer.testing import EtcdRelay, FaultProxy, KubeAPIServer
from tests.followed import server_behind
from tests.integration.objects import CONFIG_MAPS
from tests.integration.servers import RealServer
from tests.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


@pytest.fixture
def relayed(kube_apiserver_build: bool) -> Iterator[tuple[RealServer, EtcdRelay]]:
    """Return a real server that reaches its etcd by a relay."""
    with (
        EtcdRelay() as relay,
        KubeAPIServer(build=kube_apiserver_build, etcd_relays=[relay]) as api,
    ):
        yield RealServer(api), relay


async def test_what_a_watch_side_that_stands_still_misses_is_listed(
    relayed: tuple[RealServer, EtcdRelay],
) -> None:
    server, relay = relayed
    clock = asyncio.get_running_loop().time
    async with (
        server.connect() as cluster,
        pyinformer.SharedInformer(cluster, "v1", "configmaps", namespaces="default") as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        lister = informer.lister
        number = 0
        # Its watches have to follow its lists once: of one whose never do nothing is expected.
        while not server_behind(cluster).lineage.round_trips.knows_followed():
            number += 1
            server.api.create(CONFIG_MAPS.make(f"other-{number}", "kube-system"))
            assert (await informer.audit()).verdict == "consistent"

        relay.hold("/registry/configmaps/")
        server.api.create(CONFIG_MAPS.make("missed", "default"))
        missed_at = clock()
        too_young: list[float] = []

        def is_cached() -> bool:
            """Return whether the change is here, and note an age that would cover it if not."""
            lister.fresh(max_age_seconds=2.0)
            age, now = informer.age_seconds(), clock()
            found = "default/missed" in {str(one.key) for one in lister.list()}
            if not found and age is not None:
                too_young.append(now - missed_at - age)
            return found

        await until(is_cached, what=informer.status())
        assert max(too_young) < 2.0
        await until(lambda: informer.state is ReflectorState.POLLING, what=informer.status())
        assert "stand still" in informer.staleness
        assert relay.held

        server.api.delete("v1", "configmaps", "missed", "default")
        await until(lambda: lister.get("default/missed") is None, what=informer.status())
        relay.release()
        await until(lambda: informer.state is ReflectorState.WATCHING, what=informer.status())
        server.api.create(CONFIG_MAPS.make("later", "default"))
        await until(lambda: lister.get("default/later"), what=informer.status())
        assert informer.staleness == ""
        assert (await informer.audit()).verdict == "consistent"


async def test_an_age_does_not_cover_what_etcd_holds_back_without_a_watch_cache(
    kube_apiserver_build: bool,
) -> None:
    """Lists show nothing about its watches, and a second watch is as silent as the first."""
    with (
        EtcdRelay() as relay,
        KubeAPIServer(
            build=kube_apiserver_build, etcd_relays=[relay], extra_args=["--watch-cache=false"]
        ) as api,
    ):
        server, clock = RealServer(api), asyncio.get_running_loop().time
        async with (
            server.connect() as cluster,
            pyinformer.SharedInformer(
                cluster, "v1", "configmaps", namespaces="default"
            ) as informer,
        ):
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await until(lambda: informer.state is ReflectorState.WATCHING)
            relay.hold("/registry/configmaps/")
            server.api.create(CONFIG_MAPS.make("missed", "default"))
            missed_at = clock()
            too_young: list[float] = []

            def has_been_asked() -> bool:
                """Note an age that would cover the change; return whether proofs were tried."""
                informer.lister.fresh(max_age_seconds=2.0)
                age, now = informer.age_seconds(), clock()
                assert informer.lister.get("default/missed") is None
                if age is not None:
                    too_young.append(now - missed_at - age)
                return now - missed_at > 20.0

            await until(has_been_asked, what=informer.status())
            assert max(too_young) < 2.0
            relay.release()
            await until(lambda: informer.lister.get("default/missed"), what=informer.status())


async def test_an_age_does_not_cover_what_one_of_two_kube_apiservers_missed(
    kube_apiserver_build: bool,
) -> None:
    """Behind a balancer that passes connections on in turn."""
    with (
        EtcdRelay() as followed,
        EtcdRelay() as held,
        KubeAPIServer(build=kube_apiserver_build, replicas=2, etcd_relays=[followed, held]) as api,
        FaultProxy(api, ports=api.ports[1:]) as balancer,
    ):
        server, clock = RealServer(api), asyncio.get_running_loop().time
        async with (
            server.connect(url=balancer.url) as cluster,
            pyinformer.SharedInformer(
                cluster, "v1", "configmaps", namespaces="default"
            ) as informer,
        ):
            await informer.wait_for_cache_sync(timeout_seconds=100)
            await until(lambda: informer.state is ReflectorState.WATCHING)
            balancer.use_ports(api.ports)
            held.hold("/registry/configmaps/")
            server.api.create(CONFIG_MAPS.make("missed", "default"))
            missed_at = clock()
            too_young: list[float] = []

            def is_cached() -> bool:
                """Return whether the change is here, and note an age that would cover it if not."""
                informer.lister.fresh(max_age_seconds=2.0)
                age, now = informer.age_seconds(), clock()
                found = informer.lister.get("default/missed") is not None
                if not found and age is not None:
                    too_young.append(now - missed_at - age)
                return found

            await until(is_cached, what=informer.status())
            assert max(too_young) < 2.0
            held.release()
