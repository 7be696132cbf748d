"""Waiting for caches: it always ends, at once where there is no hope, and says why."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import anyio
import pytest

import pyinformer
from pyinformer.cache.informer import (
    SharedInformer,
    SharedInformerFactory,
    core_of,
    wait_for_cache_sync,
)
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.errors import CacheSyncTimeoutError, InvalidArgumentError, LifecycleError
from pyinformer.objects import check_seconds
from pyinformer.testing import APIServer, Fault, Token
from tests.cache.informer.clusters import Notes, cluster_of, pod
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.covers("client-go tools/cache: TestSyncResult", "client-go tools/cache: TestWaitFor")
async def test_the_error_names_the_problem_of_each_informer(apiserver: APIServer) -> None:
    """State, failed attempts, last error and seconds, for those that are not synced."""
    apiserver.faults.add(
        Fault(
            resource="pods",
            status=403,
            times=None,
            message="no rights here",
            retry_after_seconds=60,  # so that the wait ends between two attempts
        ),
        Fault(resource="secrets", hang=True, times=None),
    )
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods, _, config_maps = [
            factory.informer("v1", plural) for plural in ("pods", "secrets", "configmaps")
        ]
        await factory.start()
        await config_maps.wait_for_cache_sync(timeout_seconds=100)
        await until(lambda: pods.state == "forbidden")
        with pytest.raises(CacheSyncTimeoutError) as raised:
            await factory.wait_for_cache_sync(timeout_seconds=0.3)
        apiserver.faults.clear()

    error = raised.value
    forbidden, hanging = error.pending
    assert re.fullmatch(
        r"pods\.v1: forbidden, [1-9]\d* failed attempts?, last error: .*403.*no rights here.*,"
        r" for \d+\.\d s",
        forbidden,
    )
    assert re.fullmatch(
        r"secrets\.v1: loading \(watch-list; http://.*/secrets: waiting for an answer for"
        r" \d+\.\d s\), 0 failed attempts, for \d+\.\d s",
        hanging,
    )
    assert str(error) == (
        f"not synced after {error.waited_seconds:.1f} s: {forbidden}; {hanging}. Every informer"
        " whose state is not failed retries until it is closed"
    )
    assert error.waited_seconds >= 0.3
    assert isinstance(error, TimeoutError)


async def test_a_required_resource_that_is_not_served_names_the_cure(apiserver: APIServer) -> None:
    async with (
        cluster_of(apiserver) as cluster,
        SharedInformer(cluster, "acme.io/v1", "gadgets", absent="require") as informer,
    ):
        with pytest.raises(CacheSyncTimeoutError) as raised:
            await informer.wait_for_cache_sync(timeout_seconds=100)

    (line,) = raised.value.pending
    assert (
        'gadgets.v1.acme.io is not served, and absent="require" demands it: install its'
        ' definition, correct the name, or use "wait" or "optional"'
    ) in line
    assert raised.value.waited_seconds < 100


async def test_an_unreachable_server_is_reported_as_unreachable() -> None:
    async with (
        pyinformer.connect(server="http://127.0.0.1:9") as cluster,
        SharedInformer(cluster, "v1", "pods") as informer,
    ):
        with pytest.raises(CacheSyncTimeoutError) as raised:
            await informer.wait_for_cache_sync(timeout_seconds=0.2)

    # On a busy machine it may try again at that moment.
    assert re.search(r"pods\.v1: (waiting|loading), \d+ failed", str(raised.value))
    assert "http://127.0.0.1:9" in str(raised.value)


@pytest.mark.parametrize(
    ("token", "words"),
    [("expired", "401"), ("may-not-list", "403"), ("may-not-watch", "403")],
)
async def test_missing_rights_are_reported(tmp_path: Path, token: str, words: str) -> None:
    tokens = (
        Token(value="may-not-list", verbs=("watch",)),
        Token(value="may-not-watch", verbs=("list",)),
    )
    with APIServer(tokens=tokens, watch_list=False) as server:
        server.create(pod("a"))
        kubeconfig = server.write_kubeconfig(tmp_path / "config", token)
        async with (
            pyinformer.connect(kubeconfig) as cluster,
            SharedInformer(cluster, "v1", "pods") as informer,
        ):
            if token == "may-not-watch":
                # What was listed is cached; that it is not followed is said by the status.
                await informer.wait_for_cache_sync(timeout_seconds=100)
                await until(lambda: words in str(informer.status()))
                assert [obj.key for obj in informer.lister.list()] == ["default/a"]
                return
            with pytest.raises(CacheSyncTimeoutError) as raised:
                await informer.wait_for_cache_sync(timeout_seconds=0.3)
            assert words in str(raised.value)


async def test_an_untrusted_certificate_is_reported(tmp_path: Path) -> None:
    with APIServer(tls=True) as server, APIServer(tls=True) as other:
        config = pyinformer.client.ClusterConfig(server=server.url, ca_file=str(other.ca_file))
        async with (
            pyinformer.connect(config=config) as cluster,
            SharedInformer(cluster, "v1", "pods") as informer,
        ):
            with pytest.raises(CacheSyncTimeoutError, match="certificate"):
                await informer.wait_for_cache_sync(timeout_seconds=0.5)


async def test_before_the_start_waiting_raises_at_once(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster:
        factory = SharedInformerFactory(cluster)
        with pytest.raises(LifecycleError, match=r"await factory\.start\(\) first"):
            await factory.wait_for_cache_sync(timeout_seconds=3600)
        informer = SharedInformer(cluster, "v1", "pods")
        for wait in (
            informer.wait_for_cache_sync(timeout_seconds=3600),
            wait_for_cache_sync(informer, timeout_seconds=3600),
        ):
            with pytest.raises(LifecycleError, match=r"pods\.v1 is not running: start it first"):
                await wait
        await factory.aclose()


@pytest.mark.parametrize("seconds", [-0.1, float("nan"), float("inf"), "1", None, True])
async def test_an_invalid_timeout_is_refused_before_anything_else(
    apiserver: APIServer, seconds: Any
) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "pods")
        await factory.start()
        for wait in (factory.wait_for_cache_sync, informer.wait_for_cache_sync):
            with pytest.raises(InvalidArgumentError) as raised:
                await wait(timeout_seconds=seconds)
            assert str(raised.value) == (f"timeout_seconds: must be seconds >= 0, got {seconds!r}")


@pytest.mark.parametrize("seconds", [0, 0.0, 1, 3.5])
def test_invalid_durations_are_refused(seconds: float) -> None:
    check_seconds("x", seconds)


async def test_a_timeout_of_zero_checks_once(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        factory.informer("v1", "pods")
        await factory.start()
        with pytest.raises(CacheSyncTimeoutError):
            await factory.wait_for_cache_sync(timeout_seconds=0)
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await factory.wait_for_cache_sync(timeout_seconds=0)


@pytest.mark.covers("client-go tools/cache: TestWaitFor")
async def test_no_informers_are_synced(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=0)
        await wait_for_cache_sync(timeout_seconds=0)


def malformed(name: str) -> bytes:
    """Return a list whose resource version cannot be compared."""
    return (
        b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"abc"},"items":['
        b'{"metadata":{"name":"%s","namespace":"default","uid":"u","resourceVersion":"abc"}}]}'
        % name.encode()
    )


async def test_a_permanent_failure_ends_the_wait_at_once(apiserver: APIServer) -> None:
    """Though another informer, asked for first, would make the wait last for an hour."""
    apiserver.watch_list = False
    apiserver.faults.add(
        Fault(resource="secrets", hang=True, times=None),
        Fault(resource="pods", verb="list", body=malformed("a"), times=None),
    )
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        factory.informer("v1", "secrets")
        pods = factory.informer("v1", "pods")
        await factory.start()
        async with asyncio.timeout(100):
            with pytest.raises(CacheSyncTimeoutError) as raised:
                await factory.wait_for_cache_sync(timeout_seconds=3600)
        apiserver.faults.clear()
        assert any("pods.v1: failed" in line for line in raised.value.pending)
        assert 'ReflectorOptions(order="opaque")' in str(raised.value)
        assert core_of(pods).introspection.reflector_state()[0] == "failed"


async def test_the_first_error_of_opaque_versions_names_the_option(apiserver: APIServer) -> None:
    """A multi-cluster gateway sends positions in base64 for the resources of the core as well."""
    apiserver.watch_list = False
    apiserver.faults.add(Fault(resource="pods", verb="list", body=malformed("a"), times=None))
    async with cluster_of(apiserver) as cluster:
        async with SharedInformerFactory(cluster) as factory:
            pods = factory.informer("v1", "pods")
            await factory.start()
            await until(lambda: pods.status().reflector.last_error)
            assert 'set ReflectorOptions(order="opaque")' in str(pods.status().reflector.last_error)
        options = ReflectorOptions(order="opaque")
        async with SharedInformerFactory(cluster, options=options) as factory:
            pods = factory.informer("v1", "pods")
            await factory.start()
            await pods.wait_for_cache_sync(timeout_seconds=100)
            assert [one.key for one in pods.lister.list()] == ["default/a"]


def forbidden(resource: str) -> Fault:
    """Refuse a resource until the test ends."""
    return Fault(resource=resource, status=403, times=None, message="no rights here")


@pytest.mark.parametrize("is_refused_before", [False, True], ids=["while-waiting", "before"])
async def test_a_wait_that_fails_fast_ends_with_the_first_refusal(
    apiserver: APIServer, is_refused_before: bool
) -> None:
    apiserver.faults.add(forbidden("pods"), Fault(resource="secrets", hang=True, times=None))
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        factory.informer("v1", "secrets")
        pods = factory.informer("v1", "pods")
        await factory.start()
        if is_refused_before:
            await until(lambda: pods.state == "forbidden")
        async with asyncio.timeout(100):
            with pytest.raises(CacheSyncTimeoutError, match=r"pods\.v1: forbidden.*no rights here"):
                await factory.wait_for_cache_sync(timeout_seconds=3600, fail_fast=True)
        assert pods.is_running
        apiserver.faults.clear()
        await pods.wait_for_cache_sync(timeout_seconds=100)  # the informer has not given up


async def test_a_synced_cache_that_is_refused_later_ends_no_wait_for_the_others(
    apiserver: APIServer,
) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods")
        await factory.start()
        await pods.wait_for_cache_sync(timeout_seconds=100, fail_fast=True)
        apiserver.faults.add(Fault(resource="secrets", hang=True, times=None))
        secrets = factory.informer("v1", "secrets")
        await secrets.start()
        waiting = asyncio.create_task(
            factory.wait_for_cache_sync(timeout_seconds=100, fail_fast=True)
        )
        apiserver.faults.add(forbidden("pods"))
        await asyncio.to_thread(apiserver.drop_connections)
        await until(lambda: pods.state in {"forbidden", "polling"})
        assert not waiting.done()
        apiserver.faults.clear()
        await waiting


async def test_a_wait_that_fails_fast_is_cancelled_like_any_other(apiserver: APIServer) -> None:
    apiserver.faults.add(Fault(resource="pods", hang=True))
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods")
        await factory.start()
        with anyio.move_on_after(0.05) as scope:
            await pods.wait_for_cache_sync(timeout_seconds=100, fail_fast=True)
        assert scope.cancelled_caught
        task = asyncio.create_task(pods.wait_for_cache_sync(timeout_seconds=100, fail_fast=True))
        await until(lambda: apiserver.faults.held)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        apiserver.faults.clear()
        await pods.wait_for_cache_sync(timeout_seconds=100)


async def test_fail_fast_is_a_flag(apiserver: APIServer) -> None:
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        await factory.start()
        with pytest.raises(InvalidArgumentError, match="fail_fast"):
            await factory.wait_for_cache_sync(fail_fast="403")  # type: ignore[arg-type]  # the point


@pytest.mark.covers(
    "kube-runtime src: must_allow_single_reader",
    "controller-runtime pkg/cache: TestReaderWaitsForCacheSync",
)
async def test_the_cancellation_of_one_waiter_affects_no_other(apiserver: APIServer) -> None:
    apiserver.faults.add(Fault(resource="pods", hang=True))
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        factory.informer("v1", "pods")
        await factory.start()
        waiters = [asyncio.create_task(factory.wait_for_cache_sync()) for _ in range(3)]
        await until(lambda: apiserver.faults.held)
        waiters[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiters[0]
        apiserver.faults.release()
        await asyncio.gather(*waiters[1:])


async def test_an_earlier_deadline_of_the_caller_applies(apiserver: APIServer) -> None:
    apiserver.faults.add(Fault(resource="pods", hang=True))
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        factory.informer("v1", "pods")
        await factory.start()
        with pytest.raises(TimeoutError) as raised:
            async with asyncio.timeout(0.05):
                await factory.wait_for_cache_sync(timeout_seconds=3600)
        assert not isinstance(raised.value, CacheSyncTimeoutError)


@pytest.mark.covers("client-go tools/cache: TestWaitFor")
async def test_informers_of_several_clusters_are_waited_for_together() -> None:
    with APIServer() as one, APIServer() as other:
        one.create(pod("a"))
        other.faults.add(Fault(resource="pods", status=500, times=None, retry_after_seconds=60))
        async with (
            cluster_of(one) as first,
            cluster_of(other) as second,
            SharedInformer(first, "v1", "pods") as good,
            SharedInformer(second, "v1", "pods", namespaces="default") as bad,
        ):
            with pytest.raises(CacheSyncTimeoutError) as raised:
                await wait_for_cache_sync(good, bad, timeout_seconds=0.5)
            assert good.has_synced
            (line,) = raised.value.pending
            assert line.startswith("pods.v1 in default: waiting")


async def test_the_wait_for_a_handler_reports_its_progress(apiserver: APIServer) -> None:
    go_on = asyncio.Event()

    async def handler(event: object) -> None:
        await go_on.wait()

    for name in ("a", "b"):
        apiserver.create(pod(name))
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        pods = factory.informer("v1", "pods")
        registration = pods.add_event_handler(handler, name="slow")
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert not registration.has_synced
        with pytest.raises(CacheSyncTimeoutError, match=r"slow of pods\.v1: 0 delivered"):
            await registration.wait_synced(timeout_seconds=0.05)
        go_on.set()
        await registration.wait_synced(timeout_seconds=100)
        assert registration.has_synced


async def test_a_handler_that_raises_has_synced_nevertheless(apiserver: APIServer) -> None:
    """Unlike upstream (kubernetes#129024)."""

    def handler(event: object) -> None:
        raise ValueError

    apiserver.create(pod("a"))
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        registration = factory.informer("v1", "pods").add_event_handler(handler)
        await factory.start()
        await registration.wait_synced(timeout_seconds=100)


async def test_a_removed_handler_is_no_longer_waited_for(apiserver: APIServer) -> None:
    apiserver.faults.add(Fault(resource="pods", hang=True))
    async with cluster_of(apiserver) as cluster, SharedInformerFactory(cluster) as factory:
        registration = factory.informer("v1", "pods").add_event_handler(Notes())
        await factory.start()
        waiting = asyncio.create_task(registration.wait_synced(timeout_seconds=3600))
        await asyncio.sleep(0)
        await registration.remove()
        with pytest.raises(LifecycleError, match="was removed before it had synced"):
            await waiting
