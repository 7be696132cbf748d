"""What informers show in a metrics system: from client-go's names to the end of a series."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import ClusterPool
from pyinformer.cache.informer import SharedInformer, SharedInformerFactory, core_of
from pyinformer.telemetry.metrics import CATALOGUE, HistogramValue, MetricsRegistry
from pyinformer.testing import Fault
from pyinformer.testing.world import World
from tests.cache.informer.clusters import HURRIED, cluster_of, pod
from tests.recorded import Recorded
from tests.telemetry.metrics.reading import series
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer

# k8s.io/component-base v0.37 metrics/prometheus/clientgo/fifo: type, label names, buckets.
CLIENT_GO: Mapping[str, tuple[str, tuple[str, ...], tuple[float, ...]]] = {
    "informer_queued_items": ("gauge", ("name", "group", "version", "resource"), ()),
    "informer_processing_latency_seconds": (
        "histogram",
        ("name", "group", "version", "resource"),
        (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    ),
    "informer_store_resource_version": ("gauge", ("name", "group", "version", "resource"), ()),
}
PODS = ("", "", "v1", "pods", "")


def value(registry: MetricsRegistry, name: str, *details: str, of: tuple[str, ...] = PODS) -> Any:
    """Return the value of one series; None without it."""
    return series(registry, name).get((*of, *details))


def informer_series(registry: MetricsRegistry) -> set[tuple[str, ...]]:
    """Return every series of informers: its name and the values of its labels."""
    return {
        (family.spec.name, *one.labels.values())
        for family in registry.collect()
        for one in family.series
        if family.spec.name.startswith("informer_")
    }


@asynccontextmanager
async def following(
    server: APIServer, registry: MetricsRegistry, **arguments: Any
) -> AsyncIterator[SharedInformer[None]]:
    """Run an informer of pods, synced, with a watch."""
    async with (
        cluster_of(server) as cluster,
        SharedInformer(
            cluster, "v1", "pods", options=HURRIED, metrics=registry, **arguments
        ) as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: informer.state == "watching")
        yield informer


async def test_totals_of_informers_that_ended_remain_where_they_must_not_fall(
    apiserver: APIServer,
) -> None:
    """As in OpenTelemetry; whether other informers of the cluster still run, or none."""
    registry = MetricsRegistry(keeps_totals=True)
    async with cluster_of(apiserver) as cluster:
        for runs in (1, 2, 3):
            async with SharedInformer(cluster, "v1", "pods", metrics=registry) as informer:
                await informer.wait_for_cache_sync(timeout_seconds=100)
                async with SharedInformer(cluster, "v1", "nodes", metrics=registry) as other:
                    await other.wait_for_cache_sync(timeout_seconds=100)
                for resource in ("pods", "nodes"):
                    assert _loads(registry, resource) == runs
    assert _loads(registry, "pods") == 3


def _loads(registry: MetricsRegistry, resource: str) -> float:
    found = series(registry, "informer_loads_total")
    return sum(float(one) for labels, one in found.items() if resource in labels)  # type: ignore[arg-type, misc]  # of no histogram


@pytest.mark.covers("client-go tools/cache: TestWithStoreMetricsDefaulting")
def test_client_gos_metrics_have_its_types_labels_and_buckets() -> None:
    for name, (kind, labels, buckets) in CLIENT_GO.items():
        spec = CATALOGUE[name]
        assert (spec.type, spec.labels) == (kind, labels)
        assert kind != "histogram" or spec.buckets == buckets


def test_all_others_have_the_scope_behind_client_gos_labels() -> None:
    others = [spec for name, spec in CATALOGUE.items() if name.startswith("informer_")]
    others = [one for one in others if one.name not in CLIENT_GO]
    others = [one for one in others if not one.name.startswith("informer_loop_")]
    assert len(others) > 30
    for spec in others:
        assert spec.labels[:5] == ("name", "group", "version", "resource", "scope"), spec.name


async def test_an_informer_shows_its_state_and_what_it_has_received(apiserver: APIServer) -> None:
    for name in "abc":
        apiserver.create(pod(name))
    registry = MetricsRegistry()
    async with following(apiserver, registry, sharing="decoded") as informer:
        informer.add_event_handler(lambda _: None, name="handler")
        apiserver.create(pod("d"))
        apiserver.patch("v1", "pods", "d", {"metadata": {"labels": {"x": "y"}}}, "default")
        apiserver.delete("v1", "pods", "a", "default")
        await until(lambda: "default/a" not in informer.lister)
        await until(lambda: value(registry, "informer_mailbox_depth", "handler") == 0)
        status = informer.status()
        raw = sum(len(obj.raw) for obj in informer.lister.list())
        assert informer.lister.decoded["default/d"]
        expected = {
            ("informer_synced",): 1,
            ("informer_state", "watching"): 1,
            ("informer_state", "forbidden"): 0,
            ("informer_state", "crashed"): 0,
            ("informer_objects",): 3,
            ("informer_cached_bytes",): raw,
            ("informer_rv_order", "global"): 1,
            ("informer_rv_order", "opaque"): 0,
            ("informer_abandoned_handlers",): 0,
            ("informer_own_writes",): 0,
            ("informer_decoded_objects",): 1,
            ("informer_interned_values", "namespaces"): 1,
            ("informer_loads_total", "watch_list", "initial"): 1,
            ("informer_watch_events_total", "ADDED"): 1,
            ("informer_watch_events_total", "MODIFIED"): 1,
            ("informer_watch_events_total", "DELETED"): 1,
            ("informer_handler_calls_total", "handler", "success"): 6,
            ("informer_handler_calls_total", "handler", "error"): 0,
            ("informer_mailbox_merges_total", "handler"): 0,
            ("informer_lineage_resets_total",): 0,
            ("informer_mass_deletes_total", "held"): 0,
            ("informer_audits_total", "inconsistent"): 0,
        }
        assert {what: value(registry, *what) for what in expected} == expected
        assert status.cached_bytes == raw
        assert value(registry, "informer_received_bytes_total") > 6 * 200
        assert 0 <= value(registry, "informer_age_seconds") < 100
        assert value(registry, "informer_store_resource_version", of=PODS[:4]) == int(
            status.position
        )
        assert value(registry, "informer_queued_items", of=PODS[:4]) == 0
        synced = value(registry, "informer_sync_seconds")
        assert synced.buckets[-1] == 1
        latency = value(registry, "informer_processing_latency_seconds", of=PODS[:4])
        assert isinstance(latency, HistogramValue)
        assert latency.buckets[-1] >= 1


async def test_every_figure_of_an_informer_is_in_the_catalogue_with_a_fitting_name(
    apiserver: APIServer,
) -> None:
    registry = MetricsRegistry()
    async with following(apiserver, registry):
        for family in registry.collect():
            assert family.spec == CATALOGUE[family.spec.name]
            assert family.spec.name.endswith("_total") == (family.spec.type == "counter")
        failures = series(registry, "pyinformer_metrics_source_failures_total")
        assert set(failures.values()) == {0}


async def test_an_expired_watch_counts_as_410_and_as_the_reason_of_a_load(
    apiserver: APIServer,
) -> None:
    registry = MetricsRegistry()
    async with following(apiserver, registry, memory="raw"):
        apiserver.faults.add(Fault(verb="watch", status=410, times=1))
        apiserver.drop_connections()
        loads = "informer_loads_total"
        await until(lambda: value(registry, loads, "watch_list", "expired") == 1)
        await until(lambda: value(registry, "informer_state", "watching") == 1)
        assert value(registry, "informer_errors_total", "watch", "410") == 1
        assert value(registry, "informer_watches_ended_total", "refused") >= 1


async def test_a_server_that_went_back_in_time_is_a_reset_and_the_reason_of_a_load(
    apiserver: APIServer,
) -> None:
    registry = MetricsRegistry()
    saved = apiserver.save()
    async with following(apiserver, registry) as informer:
        for name in "abc":
            apiserver.create(pod(name))
        await until(lambda: len(informer.lister.keys()) == 3)
        apiserver.faults.add(Fault(verb="watch", status=410))
        apiserver.restore(saved)
        apiserver.faults.clear()
        await until(lambda: value(registry, "informer_lineage_resets_total") == 1)
        await until(lambda: value(registry, "informer_state", "watching") == 1)
        reasons = series(registry, "informer_loads_total", "reason")
        assert reasons.keys() == {("initial",), ("history",)}
        assert value(registry, "informer_objects") == 0


async def test_an_event_that_is_older_than_the_cache_is_a_regression(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    async with following(apiserver, registry) as informer:
        old = apiserver.create(pod("a"))
        apiserver.patch("v1", "pods", "a", {"metadata": {"labels": {"x": "y"}}}, "default")
        version = apiserver.resource_version
        await until(lambda: informer.status().position == version)
        apiserver.emit("v1", "pods", "MODIFIED", old)
        regressed = ("informer_rv_regressions_total", "MODIFIED", "event", "ignored")
        await until(lambda: value(registry, *regressed) == 1)
        assert value(registry, "informer_watch_events_total", "MODIFIED") == 1


async def test_the_right_to_list_that_is_missing_is_a_state_and_a_403(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    apiserver.faults.add(Fault(resource="pods", status=403, times=None))
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "v1", "pods", options=HURRIED, metrics=registry),
    ):
        await until(lambda: value(registry, "informer_state", "forbidden") == 1)
        assert value(registry, "informer_errors_total", "watch_list", "403") >= 1
        assert value(registry, "informer_synced") == 0
        assert value(registry, "informer_age_seconds") is None


async def test_a_handler_that_is_slow_is_behind_and_its_events_are_merged(
    apiserver: APIServer,
) -> None:
    registry = MetricsRegistry()
    go_on, held = asyncio.Event(), asyncio.Event()

    async def slow(_: object) -> None:
        held.set()
        await go_on.wait()

    async with following(apiserver, registry) as informer:
        informer.add_event_handler(slow, name="slow", mailbox_size=1)
        informer.add_event_handler(_fails, name="failing")
        apiserver.create(pod("a"))
        await held.wait()
        for number in range(5):
            labels = {"x": str(number)}
            apiserver.patch("v1", "pods", "a", {"metadata": {"labels": labels}}, "default")
        merges = "informer_mailbox_merges_total"
        await until(lambda: value(registry, merges, "slow") == 3)
        assert value(registry, "informer_mailbox_depth", "slow") == 2
        assert value(registry, "informer_mailbox_age_seconds", "slow") > 0
        assert value(registry, "informer_handler_busy_seconds", "slow") > 0
        await until(
            lambda: value(registry, "informer_handler_calls_total", "failing", "error") == 6
        )
        assert value(registry, merges, "failing") == 0
        go_on.set()
        await until(lambda: value(registry, "informer_mailbox_depth", "slow") == 0)


async def test_a_removed_handler_that_does_not_end_is_counted(apiserver: APIServer) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    async def stubborn(_: object) -> None:
        began.set()
        while not go_on.is_set():
            with suppress(asyncio.CancelledError):
                await go_on.wait()

    apiserver.create(pod("a"))
    registry = MetricsRegistry()
    async with following(apiserver, registry) as informer:
        handler = informer.add_event_handler(stubborn)
        await began.wait()
        await informer.remove_event_handler(handler, grace_seconds=0.05)
        assert value(registry, "informer_abandoned_handlers") == 1
        go_on.set()
        await until(lambda: value(registry, "informer_abandoned_handlers") == 0)


def _fails(_: object) -> None:
    raise RuntimeError("always")


async def test_an_informer_that_is_closed_shows_nothing(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    async with following(apiserver, registry) as informer:
        informer.add_event_handler(lambda _: None)
        assert informer_series(registry)
    assert not informer_series(registry)


async def test_a_collection_that_has_begun_shows_a_closed_informer_under_its_name(
    apiserver: APIServer,
) -> None:
    foreign: Any = Recorded()
    async with (
        pyinformer.connect(server=apiserver.url, name="eu", metrics=foreign) as cluster,
        SharedInformer(cluster, "v1", "pods") as informer,
    ):
        reads = [source() for source in foreign.sources]
        for read in reads:
            next(iter(read), None)
        await informer.aclose()
        names = {sample.labels.get("name", "eu") for read in reads for sample in read}
    assert names == {"eu"}


async def test_an_informer_that_never_started_shows_nothing(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    async with cluster_of(apiserver) as cluster:
        informer: SharedInformer[None] = SharedInformer(cluster, "v1", "pods", metrics=registry)
        assert not informer_series(registry)
        await informer.aclose()
        assert not informer_series(registry)


async def test_a_crash_remains_visible_until_the_informer_is_closed(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    async with cluster_of(apiserver) as cluster:
        informer: SharedInformer[None] = SharedInformer(cluster, "v1", "pods", metrics=registry)
        await informer.start()
        core_of(informer).lifecycle.break_nowait(RuntimeError("a bug"))
        await until(lambda: informer.crash)
        assert value(registry, "informer_state", "crashed") == 1
        assert value(registry, "informer_state", "watching") == 0
        with pytest.raises(pyinformer.errors.InternalError):
            await informer.aclose()
        assert not informer_series(registry)


async def test_an_informer_that_a_factory_removes_takes_only_its_own_series(
    apiserver: APIServer,
) -> None:
    registry = MetricsRegistry()
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformerFactory(cluster, metrics=registry) as factory,
    ):
        pods, services = factory.informer("v1", "pods"), factory.informer("v1", "services")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        both = informer_series(registry)
        await factory.remove_informer(services)
        assert informer_series(registry) == {one for one in both if "services" not in one}
        assert pods.is_running
    assert not informer_series(registry)


async def test_two_clusters_share_no_series_whatever_their_names(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    config = pyinformer.client.ClusterConfig(server=apiserver.url)
    names = ("", "", "eu", "eu", "eu#2")
    clusters = [pyinformer.Cluster(config, name=name) for name in names]
    informers = [SharedInformer(one, "v1", "pods", metrics=registry) for one in clusters]
    try:
        for informer in informers:
            await informer.start()
        await until(lambda: all(one.has_synced for one in informers))
        apiserver.create(pod("a"))
        await until(lambda: all(one.lister.keys() for one in informers))
        shown = series(registry, "informer_objects")
        assert {labels[0]: count for labels, count in shown.items()} == {
            "": 1,
            "#2": 1,
            "eu": 1,
            "eu#2": 1,
            "eu#2#2": 1,
        }
        await informers[2].aclose()
        names_left = {labels[0] for labels in series(registry, "informer_objects")}
        assert names_left == {"", "#2", "eu#2", "eu#2#2"}
    finally:
        for informer in informers:
            await informer.aclose()
        for cluster in clusters:
            await cluster.aclose()
    assert not informer_series(registry)


async def test_a_cluster_that_is_opened_again_has_its_name_again(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    config = pyinformer.client.ClusterConfig(server=apiserver.url)
    for _ in range(2):
        async with (
            pyinformer.Cluster(config, name="eu") as cluster,
            SharedInformer(cluster, "v1", "pods", metrics=registry),
        ):
            assert {one[1] for one in informer_series(registry)} == {"eu"}


async def test_the_informers_of_an_evicted_cluster_show_nothing(apiserver: APIServer) -> None:
    registry = MetricsRegistry()

    def connect(name: str) -> Any:
        return pyinformer.connect(server=apiserver.url, name=name, metrics=registry)

    @asynccontextmanager
    async def informers(cluster: pyinformer.Cluster) -> AsyncIterator[None]:
        async with SharedInformer(cluster, "v1", "pods") as pods:
            await pods.wait_for_cache_sync(timeout_seconds=100)
            yield

    async with ClusterPool(informers, connect=connect) as pool:
        await pool.get("a")
        await pool.get("b")
        assert {one[1] for one in informer_series(registry)} == {"a", "b"}
        await pool.evict("a")
        assert {one[1] for one in informer_series(registry)} == {"b"}
        await pool.evict("b")
        assert not informer_series(registry)


async def test_two_clusters_share_no_series_in_a_foreign_metrics_system(
    apiserver: APIServer,
) -> None:
    foreign: Any = Recorded()
    async with (
        pyinformer.connect(server=apiserver.url, metrics=foreign) as one,
        pyinformer.connect(server=apiserver.url, metrics=foreign) as two,
        SharedInformer(one, "v1", "pods"),
        SharedInformer(two, "v1", "pods"),
    ):
        shown = [
            tuple(sample.labels.values())
            for source in foreign.sources
            for sample in source()
            if sample.name == "informer_objects"
        ]
    assert shown == [PODS, ("#2", *PODS[1:])]


async def test_informers_of_one_resource_differ_in_scope_and_share_client_gos_series(
    apiserver: APIServer,
) -> None:
    apiserver.create(pod("a", app="web"))
    registry = MetricsRegistry()
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformerFactory(cluster, metrics=registry) as factory,
    ):
        scopes: list[dict[str, Any]] = [
            {},
            {"namespaces": "default"},
            {"namespaces": ["default", "other"]},
            {"label_selector": "app=web"},
            {"private": True},
        ]
        informers = [factory.informer("v1", "pods", **scope) for scope in scopes]
        held = asyncio.Event()

        async def hold(_: object) -> None:
            await held.wait()

        for informer in informers[:2]:
            informer.add_event_handler(hold)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        apiserver.create(pod("b"))
        await until(lambda: value(registry, "informer_queued_items", of=PODS[:4]) == 2)
        held.set()
        shown = series(registry, "informer_objects")
        assert {labels[4] for labels in shown} == {
            "",
            "default",
            "several namespaces",
            "with labels app=web",
            "#2",
        }
        assert set(series(registry, "informer_queued_items")) == {PODS[:4]}
        assert set(series(registry, "informer_store_resource_version")) == {PODS[:4]}


def test_the_label_of_a_scope_has_only_options_and_is_bounded() -> None:
    def label(**options: Any) -> str:
        registry = MetricsRegistry()

        async def follow() -> set[str]:
            async with SharedInformer(world.cluster, "v1", "pods", metrics=registry, **options):
                return {labels[4] for labels in series(registry, "informer_synced")}

        with World() as world:
            (found,) = world.run(follow)
        return found

    assert label() == ""
    assert label(namespaces="shop") == "shop"
    assert label(namespaces=["b", "a"]) == label(namespaces=["a", "b", "c"]) == "several namespaces"
    assert label(namespace_selector="env=prod") == "namespaces with labels env=prod"
    assert label(namespaces="shop", field_selector="spec.nodeName=n", label_selector="a=b") == (
        "shop with labels a=b with fields spec.nodeName=n"
    )
    assert len(label(label_selector=",".join(f"a{n}=b" for n in range(999)))) == 200


async def test_the_counts_of_a_namespace_that_is_left_do_not_go_back(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    async with following(apiserver, registry, namespaces=["one", "two"]) as informer:
        for namespace in ("one", "two"):
            apiserver.create(pod("a", namespace=namespace))
        several = (*PODS[:4], "several namespaces")
        added = ("informer_watch_events_total", "ADDED")
        await until(lambda: value(registry, *added, of=several) == 2)
        loads = ("informer_loads_total", "watch_list", "initial")
        assert value(registry, *loads, of=several) == 2
        await informer.set_namespaces(["two"])
        assert value(registry, *added, of=several) == 2
        await informer.set_namespaces(["two", "one"])
        await until(lambda: value(registry, *loads, of=several) == 3)
        assert value(registry, "informer_objects", of=several) == 2
        assert value(registry, "informer_sync_seconds", of=several).buckets[-1] == 3


def test_thousands_of_objects_in_a_thousand_namespaces_add_no_series() -> None:
    few, found = _shown_of([pod("a")])
    assert found == 1
    namespaces: list[JSONObject] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{number}"}}
        for number in range(20)
    ]
    pods = [
        pod(f"p{number}", namespace=f"n{number % 1_000}", app=f"a{number}")
        for number in range(3_000)
    ]
    many, found = _shown_of(namespaces + pods)
    assert found == 3_000
    assert many == few
    assert len(few) < 3 * 100


def _shown_of(objects: list[JSONObject]) -> tuple[set[tuple[str, ...]], float]:
    """Return the series of three informers in a cluster with these objects, and one more later."""
    registry = MetricsRegistry()
    with World(objects, virtual_time=True) as world:

        async def start() -> SharedInformerFactory:
            factory = SharedInformerFactory(world.cluster, metrics=registry)
            scopes: list[dict[str, Any]] = [
                {},
                {"namespaces": ["default", "n1", "n2"]},
                {"namespace_selector": "kubernetes.io/metadata.name!=none"},
            ]
            for scope in scopes:
                informer = factory.informer("v1", "pods", **scope)
                informer.add_event_handler(lambda _: None, name="handler")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            return factory

        factory = world.run(start)
        found = value(registry, "informer_objects")
        world.create(pod("late"))
        shown = informer_series(registry)
        world.run(factory.aclose)
    return shown, found


async def test_another_thread_may_collect_while_events_arrive(apiserver: APIServer) -> None:
    registry = MetricsRegistry()
    added: list[float] = []
    done = threading.Event()

    def collect() -> None:
        while not done.is_set():
            added.append(value(registry, "informer_watch_events_total", "ADDED"))

    async with following(apiserver, registry) as informer:
        thread = threading.Thread(target=collect)
        thread.start()
        for number in range(200):
            apiserver.create(pod(f"p{number}"))
            if number % 50 == 0:
                apiserver.drop_connections()
        await until(lambda: len(informer.lister.keys()) == 200)
        done.set()
        await asyncio.to_thread(thread.join)
        failures = series(registry, "pyinformer_metrics_source_failures_total")
    assert added == sorted(added)
    assert set(failures.values()) == {0}


async def test_a_metrics_system_that_raises_disturbs_no_informer(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Recorded):
        def histogram(self, name: str, labels: Mapping[str, str]) -> Any:
            raise RuntimeError(name)

    broken: Any = Broken()
    apiserver.create(pod("a"))
    async with following(apiserver, broken) as informer:
        heard = asyncio.Event()
        informer.add_event_handler(lambda _: heard.set())
        await heard.wait()
        assert broken.sources
    assert caplog.text.count("Broken raised RuntimeError") == 1
