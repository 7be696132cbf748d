"""What a server refuses, and a configuration that leads nowhere: the error names the reason.

Whatever can be repaired on the server's side is asked for again; the error of the wait says for
each informer its state, its failed attempts and the last error.
"""

from __future__ import annotations

import asyncio
import math
import socket
from typing import TYPE_CHECKING

import pytest
import trustme
import yaml

import pyinformer
from pyinformer.cache.reflector import ReflectorState
from tests.integration.accounts import ACCOUNT, apply, grant, token_of
from tests.integration.following import follow
from tests.integration.objects import CONFIG_MAPS, SECRETS
from tests.integration.proxy import proxying
from tests.integration.servers import EITHER_CLIENT
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer import Cluster
    from tests.integration.servers import Server


async def reason_of(
    cluster: Cluster,
    api_version: str = "v1",
    plural: str = "secrets",
    *,
    namespaces: str | None = None,
    field_selector: str | None = None,
) -> str:
    """Wait for a cache that cannot sync, and return the error's text after the first refusal."""
    async with pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer(
            api_version, plural, namespaces=namespaces, field_selector=field_selector
        )
        await factory.start()
        await until(lambda: informer.status().reflector.last_error, what=informer.status())
        with pytest.raises(pyinformer.CacheSyncTimeoutError) as raised:
            await factory.wait_for_cache_sync(timeout_seconds=0.01)
        assert isinstance(raised.value, TimeoutError)
        assert len(raised.value.pending) == 1
        with pytest.raises(pyinformer.CacheNotSyncedError):
            informer.lister.list()
        text = str(raised.value)
        assert f"{plural}." in text
        assert "failed attempt" in text
        assert "last error: " in text
        return text


async def test_a_user_without_the_right_to_list_gets_an_error(server: Server) -> None:
    namespace = server.namespace()
    token = await asyncio.to_thread(server.user, namespace, "secrets", ["get"])
    async with server.connect(token=token) as cluster:
        text = await reason_of(cluster, namespaces=namespace)
    assert "403" in text
    assert "secrets is forbidden" in text
    assert namespace in text


async def test_a_user_without_watch_has_a_cache_that_is_listed_again(server: Server) -> None:
    """The watch-list and each watch are refused, the list is not; the status names the cause."""
    namespace = server.namespace()
    server.api.create(SECRETS.make("one", namespace))
    token = await asyncio.to_thread(server.user, namespace, "secrets", ["list"])
    async with (
        server.connect(token=token) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "secrets", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert one.names() == ["one"]
        informer = one.informer
        await until(lambda: informer.state is ReflectorState.POLLING, what=informer.status())
        server.api.create(SECRETS.make("two", namespace))
        await until(lambda: one.names() == ["one", "two"], what=informer.status())
        assert "403" in (informer.status().reflector.last_error or "")
        assert "cannot watch resource" in informer.staleness
        server.api.delete("v1", "secrets", "one", namespace)
        await until(lambda: one.names() == ["two"], what=informer.status())


async def test_a_role_that_loses_watch_and_gets_it_again(strict: Server) -> None:
    namespace = strict.namespace()
    token = await asyncio.to_thread(token_of, strict, namespace)
    async with (
        proxying(strict.api) as proxy,
        strict.connect(token=token, url=proxy.url) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        text = factory.required_rbac(name="watcher", service_account=f"{namespace}/{ACCOUNT}")
        role, binding = yaml.safe_load_all(text)
        await apply(strict, role, binding)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        informer = one.informer
        rules = role["rules"]
        await asyncio.to_thread(
            grant, strict, role, [{**each, "verbs": ["list"]} for each in rules]
        )
        proxy.cut()
        await until(lambda: informer.state is ReflectorState.POLLING, what=informer.status())
        strict.api.create(CONFIG_MAPS.make("one", namespace))
        await until(lambda: "one" in one.names(), what=informer.status())
        await asyncio.to_thread(grant, strict, role, rules)
        await until(lambda: informer.state is ReflectorState.WATCHING, what=informer.status())
        strict.api.create(CONFIG_MAPS.make("two", namespace))
        await until(lambda: "two" in one.names(), what=informer.status())
        assert informer.staleness == ""


async def test_a_user_who_may_only_watch_needs_no_list_where_watch_lists_are(
    server: Server,
) -> None:
    namespace = server.namespace()
    server.api.create(SECRETS.make("one", namespace))
    token = await asyncio.to_thread(server.user, namespace, "secrets", ["watch"])
    async with (
        server.connect(token=token) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "secrets", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        server.api.create(SECRETS.make("two", namespace))
        await one.settle(server)
        assert one.names() == ["one", "two"]


async def test_an_unknown_token_is_refused(server: Server) -> None:
    async with server.connect(token="an-unknown-token") as cluster:
        text = await reason_of(cluster)
    assert "401" in text
    assert "an-unknown-token" not in text


async def test_an_expired_token_is_refused(server: Server) -> None:
    namespace = server.namespace()
    token = await asyncio.to_thread(server.ended_user, namespace)
    async with server.connect(token=token) as cluster:
        text = await reason_of(cluster, namespaces=namespace)
    assert "401" in text
    assert token not in text


async def test_rights_granted_later_are_used(server: Server) -> None:
    """A program whose role was bound a moment too late needs no restart."""
    namespace = server.namespace()
    server.api.create(SECRETS.make("one", namespace))
    token = await asyncio.to_thread(server.user, namespace, "configmaps", ["list", "watch"])
    async with (
        server.connect(token=token) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "secrets", namespaces=namespace)
        await factory.start()
        with pytest.raises(pyinformer.CacheSyncTimeoutError, match="403"):
            await factory.wait_for_cache_sync(timeout_seconds=1.0)
        await asyncio.to_thread(server.allow, token, namespace, "secrets", ["list", "watch"])
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert one.names() == ["one"]


async def test_an_unknown_resource_is_named(server: Server) -> None:
    async with server.connect() as cluster:
        text = await reason_of(cluster, "v1", "gizmos")
    assert "404" in text
    assert "gizmos" in text


async def test_an_unknown_group_is_named(server: Server) -> None:
    """A real server answers this one without a Status, in plain text."""
    async with server.connect() as cluster:
        text = await reason_of(cluster, "nowhere.example.com/v7", "gizmos")
    assert "404" in text
    assert "nowhere.example.com" in text


async def test_a_field_that_cannot_be_selected_by_is_named(server: Server) -> None:
    async with server.connect() as cluster:
        text = await reason_of(cluster, field_selector="spec.colour=red")
    assert "400" in text
    assert "spec.colour" in text


@EITHER_CLIENT
async def test_a_server_with_an_unknown_authority_is_refused(
    server: Server, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.pem"
    trustme.CA().cert_pem.write_to_path(wrong)
    config = pyinformer.client.ClusterConfig(
        server=server.api.url, ca_file=str(wrong), credentials=server.config().credentials
    )
    async with pyinformer.connect(config=config) as cluster:
        text = await reason_of(cluster)
    assert "certificate" in text.lower()
    assert server.token not in text


@EITHER_CLIENT
async def test_a_port_without_a_listener(server: Server) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{closed.getsockname()[1]}"
        async with server.connect(url=url) as cluster:
            text = await reason_of(cluster)
    assert url in text


@EITHER_CLIENT
async def test_a_server_that_cannot_be_reached_at_first_is_followed_later(server: Server) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("one", namespace))
    async with (
        proxying(server.api) as proxy,
        server.connect(url=proxy.url) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        proxy.refuse()
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        with pytest.raises(pyinformer.CacheSyncTimeoutError, match="failed attempt"):
            await factory.wait_for_cache_sync(timeout_seconds=0.5)
        proxy.accept()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert one.names() == ["one"]


async def test_one_informer_that_cannot_sync_does_not_keep_the_others_waiting(
    server: Server,
) -> None:
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("one", namespace))
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        good = follow(factory, "v1", "configmaps", namespaces=namespace)
        factory.informer("v1", "gizmos")
        await factory.start()
        with pytest.raises(pyinformer.CacheSyncTimeoutError) as raised:
            await factory.wait_for_cache_sync(timeout_seconds=1.0)
        assert len(raised.value.pending) == 1
        assert raised.value.pending[0].startswith("gizmos.v1")
        assert good.names() == ["one"]


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
async def test_invalid_timeouts_are_refused_at_the_call(server: Server, seconds: float) -> None:
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        informer = factory.informer("v1", "configmaps", namespaces=server.namespace())
        await factory.start()
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="timeout_seconds"):
            await factory.wait_for_cache_sync(timeout_seconds=seconds)
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="resync_period_seconds"):
            informer.add_event_handler(print, resync_period_seconds=seconds)
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="grace_seconds"):
            pyinformer.SharedInformerFactory(cluster, grace_seconds=seconds)


async def test_a_wait_with_a_timeout_of_zero_reports_the_state(server: Server) -> None:
    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        factory.informer("v1", "configmaps", namespaces=server.namespace())
        await factory.start()
        with pytest.raises(pyinformer.CacheSyncTimeoutError, match=r"configmaps\.v1"):
            await factory.wait_for_cache_sync(timeout_seconds=0)


@pytest.mark.parametrize(
    ("api_version", "plural", "meant"),
    [
        pytest.param("v1", "pod", "v1/pods", id="singular"),
        pytest.param("apps/v1", "deploy", "apps/v1/deployments", id="short-name"),
        pytest.param("app/v1", "deployments", "apps/v1", id="group"),
    ],
)
async def test_a_wrong_plural_suggests_a_similar_name(
    server: Server, api_version: str, plural: str, meant: str
) -> None:
    async with server.connect() as cluster:
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            informer = factory.informer(api_version, plural)
            await factory.start()
            await until(lambda: meant in informer.status().reflector.reason, what=informer.status())
            with pytest.raises(pyinformer.CacheSyncTimeoutError, match=f"did you mean {meant}"):
                await factory.wait_for_cache_sync(timeout_seconds=0.01)
            required = factory.informer(api_version, plural, absent="require", private=True)
            with pytest.raises(pyinformer.CacheSyncTimeoutError, match=f"did you mean {meant}"):
                async with required:
                    await required.wait_for_cache_sync(timeout_seconds=100)
        resource = pyinformer.GroupVersionResource.of(api_version, plural)
        with pytest.raises(pyinformer.NotFoundError) as caught:
            await cluster.discovery.resource(resource)
        assert ("did you mean" in str(caught.value)) is (plural in {"pod", "deploy"})
