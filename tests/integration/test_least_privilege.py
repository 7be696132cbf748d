"""Following with the rights that `required_rbac` prints, and with less: what is missing is named.

Each test has a service account whose only rights are the YAML of the factory, on the embedded
server, which evaluates roles, and on a real kube-apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docs.examples.database_operator as tutorial
import pytest
import yaml

import pyinformer
from pyinformer.cache.reflector import ReflectorState
from pyinformer.testing import APIServer
from tests.integration.accounts import (
    ACCOUNT,
    apply,
    as_the_account,
    embedded_with_roles,
    grant,
    token_of,
)
from tests.integration.definitions import is_created, is_gone, served
from tests.integration.following import follow
from tests.integration.objects import CONFIG_MAPS, SECRETS, unique
from tests.integration.servers import RealServer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager

    from pyinformer import SharedInformerFactory
    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer
    from tests.integration.servers import Server

_BOTH = [
    pytest.param("embedded", id="embedded"),
    pytest.param("real", id="real", marks=[pytest.mark.real, pytest.mark.timeout(300)]),
]


@pytest.fixture(params=_BOTH)
def strict_without_watch_list(request: pytest.FixtureRequest) -> Iterator[Server]:
    """One that knows no watch-lists, so that a list has to be allowed."""
    if request.param == "embedded":
        yield from embedded_with_roles(watch_list=False)
    else:
        api: KubeAPIServer = request.getfixturevalue("other_kube_apiserver")
        yield RealServer(api)
        api.close_connections()


def documents(factory: SharedInformerFactory, namespace: str) -> list[dict[str, Any]]:
    """Return what the factory prints for the account."""
    account = f"{namespace}/{ACCOUNT}"
    text = factory.required_rbac(name=unique("watcher"), service_account=account)
    return list(yaml.safe_load_all(text))


def requests_of(server: Server) -> set[tuple[str, str, str, int | None]]:
    """Return what the embedded server was asked: verb, resource, namespace, status.

    /livez is left out: the probe of an outage may ask for it, and every user may.
    """
    assert isinstance(server.api, APIServer)
    return {
        (one.verb, one.resource, one.namespace, one.status)
        for one in server.api.requests
        if one.user_agent.startswith("pyinformer/") and one.path != "/livez"
    }


async def test_a_role_of_one_name_is_enough_to_follow_the_metadata_of_that_object(
    strict: Server,
) -> None:
    namespace = strict.namespace()
    for name in ("one", "other"):
        strict.api.create(SECRETS.make(name, namespace))
    async with (
        as_the_account(strict, namespace) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        secrets = factory.informer(
            "v1",
            "secrets",
            namespaces=namespace,
            field_selector="metadata.name=one",
            memory="metadata",
        )
        await apply(strict, *documents(factory, namespace))
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert secrets.lister.keys() == [f"{namespace}/one"]
        assert secrets.lister.list()[0].gvk.kind == "Secret"
        if isinstance(strict.api, APIServer):
            assert {status for *_, status in requests_of(strict)} == {200}


async def test_the_printed_role_is_enough_to_follow_one_namespace(strict: Server) -> None:
    namespace = strict.namespace()
    strict.api.create(CONFIG_MAPS.make("one", namespace))
    async with (
        as_the_account(strict, namespace) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        found = documents(factory, namespace)
        assert [one["kind"] for one in found] == ["Role", "RoleBinding"]
        await apply(strict, *found)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        if isinstance(strict.api, APIServer):
            assert requests_of(strict) == {("watch", "configmaps", namespace, 200)}
            strict.api.drop_connections()  # it asks whether the history is the same
        strict.api.create(CONFIG_MAPS.make("two", namespace))
        await one.settle(strict)
        assert "one" in one.names()
        assert "two" in one.names()
        report = await one.informer.audit()
        assert report.verdict == "consistent", report
        assert one.loads == 1
    if isinstance(strict.api, APIServer):
        verbs = {"list", "watch"}
        for verb, resource, where, status in requests_of(strict):
            assert verb in verbs, "nothing else was asked: no discovery, no version, no namespaces"
            assert (resource, where, status) == ("configmaps", namespace, 200)


async def test_the_printed_role_is_enough_to_follow_one_object_by_its_name(strict: Server) -> None:
    namespace = strict.namespace()
    for name in ("one", "other"):
        strict.api.create(CONFIG_MAPS.make(name, namespace))
    async with (
        as_the_account(strict, namespace) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = factory.informer(
            "v1", "configmaps", namespaces=namespace, field_selector="metadata.name=one"
        )
        await apply(strict, *documents(factory, namespace))
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert [each.metadata.name for each in one.lister.list()] == ["one"]
        assert (await one.audit()).verdict == "consistent"
        with pytest.raises(pyinformer.ForbiddenError):
            await cluster.connection.request("GET", f"/api/v1/namespaces/{namespace}/configmaps")


async def test_the_printed_roles_are_enough_for_every_kind_of_scope(strict: Server) -> None:
    namespaces = [strict.namespace() for _ in range(2)]
    for namespace in namespaces:
        strict.api.create(CONFIG_MAPS.make("one", namespace))
        strict.api.create(SECRETS.make("one", namespace))
    chosen = f"kubernetes.io/metadata.name={namespaces[1]}"
    async with (
        as_the_account(strict, namespaces[0]) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        in_both = factory.informer("v1", "configmaps", namespaces=namespaces)
        nodes = factory.informer("v1", "nodes")
        labelled = factory.informer("v1", "secrets", namespace_selector=chosen)
        await apply(strict, *documents(factory, namespaces[0]))
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        assert {f"{one}/one" for one in namespaces} <= {str(o.key) for o in in_both.lister.list()}
        if not isinstance(strict.api, APIServer):  # namespaces of the real one label themselves
            assert f"{namespaces[1]}/one" in {str(one.key) for one in labelled.lister.list()}
        assert nodes.has_synced


async def _refused(
    server: Server, verbs: list[str], missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Follow with a Role that lacks a verb; then with all of it."""
    namespace = server.namespace()
    server.api.create(CONFIG_MAPS.make("one", namespace))
    async with (
        as_the_account(server, namespace) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        role, binding = documents(factory, namespace)
        full = [dict(rule) for rule in role["rules"]]
        role["rules"][0]["verbs"] = verbs
        await apply(server, role, binding)
        needs = (
            f'"{missing}" is missing; needs: apiGroups: [""], resources: ["configmaps"],'
            f' verbs: ["list", "watch"] in namespace {namespace}'
        )
        status = one.informer.status
        with caplog.at_level(logging.INFO, logger="pyinformer"):
            await factory.start()
            await until(lambda: needs in (status().reflector.last_error or ""), what=status())
            await until(lambda: status().reflector.attempts >= 4, timeout_seconds=100)
            is_polled = missing == "watch"  # lists are answered
            expected = ReflectorState.POLLING if is_polled else ReflectorState.FORBIDDEN
            await until(lambda: status().reflector.state is expected, what=status())
            assert needs in str(factory.status())
            await asyncio.to_thread(grant, server, role, full)
            await factory.wait_for_cache_sync(timeout_seconds=100)
            server.api.create(CONFIG_MAPS.make("two", namespace))
            await one.settle(server, timeout_seconds=100)
            # A list may have brought it before the watch is accepted.
            await until(lambda: status().state is ReflectorState.WATCHING, what=status())
        assert "two" in one.names()
        said = [one for one in caplog.records if "configmaps" in one.getMessage()]
        (warning,) = [one.getMessage() for one in said if one.levelno >= logging.WARNING]
        assert needs in warning
        assert [one.getMessage() for one in said if "was forbidden" in one.getMessage()]


async def test_a_role_without_watch_is_reported_and_recovers(
    strict: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await _refused(strict, ["list"], "watch", caplog)


async def test_a_role_without_list_is_reported_and_recovers(
    strict_without_watch_list: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await _refused(strict_without_watch_list, ["watch"], "list", caplog)


async def test_a_role_with_another_verb_only_is_reported_and_recovers(
    strict: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await _refused(strict, ["get"], "list", caplog)


async def test_an_impersonating_user_has_the_rights_of_the_other(strict: Server) -> None:
    """The account has no rights; the administrator follows as the account."""
    namespace = strict.namespace()
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    await asyncio.to_thread(token_of, strict, namespace)
    async with pyinformer.connect(config=strict.config(), impersonate_user=user) as cluster:
        with pytest.raises(pyinformer.ForbiddenError, match=ACCOUNT) as refused:
            await cluster.get("v1", "configmaps", f"{namespace}/x")
        assert 'verbs: ["get"]' in refused.value.needed
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            one = follow(factory, "v1", "configmaps", namespaces=namespace)
            await apply(strict, *documents(factory, namespace))
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            strict.api.create(CONFIG_MAPS.make("two", namespace))
            await one.settle(strict)


def _rules_of_the_page() -> list[dict[str, Any]]:
    """Return the rules that the page gives to a controller that writes."""
    text = Path("docs/howto/least-privilege.md").read_text(encoding="utf-8")
    block = text.partition("## A controller that writes")[2].partition("```yaml\n")[2]
    rules: list[dict[str, Any]] = yaml.safe_load(block.partition("```")[0])
    return rules


async def test_the_rule_of_the_page_is_enough_for_an_event_recorder(strict: Server) -> None:
    namespace = strict.namespace()
    about = strict.api.create(CONFIG_MAPS.make("one", namespace))
    (rule,) = [one for one in _rules_of_the_page() if one["resources"] == ["events"]]
    async with as_the_account(strict, namespace) as cluster:
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            factory.informer("v1", "configmaps", namespaces=namespace)
            role, binding = documents(factory, namespace)
        await apply(strict, {**role, "rules": [rule]}, binding)
        async with pyinformer.controller.EventRecorder(cluster, "suite") as recorder:
            for _ in range(2):
                recorder.event(about, "Counted", "twice")
                recorder.event(about, "Named", "once for each")
                await until(lambda: recorder.statistics().waiting == 0)
        statistics = recorder.statistics()
        assert (statistics.failed, statistics.undelivered) == (0, 0), statistics
        found = strict.api.list("events.k8s.io/v1", "events", namespace=namespace)
        assert {one["reason"] for one in found} == {"Counted", "Named"}
        with pytest.raises(pyinformer.ForbiddenError):
            await cluster.connection.request("GET", f"/api/v1/namespaces/{namespace}/events")


def database_resource(server: Server) -> AbstractAsyncContextManager[None]:
    """Serve the resource of the tutorial, and remove it at the end: other tests have it, too."""
    return served(server, *tutorial.app.custom_resource_definitions())


def _database(namespace: str) -> JSONObject:
    metadata = {"namespace": namespace, "name": "orders"}
    spec = {"replicas": 2}
    return {"apiVersion": "acme.io/v1", "kind": "Database", "metadata": metadata, "spec": spec}


def _rights(namespace: str) -> list[dict[str, Any]]:
    text = tutorial.app.required_rbac(
        namespaces=namespace, name=unique("operator"), service_account=f"{namespace}/{ACCOUNT}"
    )
    return list(yaml.safe_load_all(text))


async def test_the_operator_of_the_tutorial_runs_under_its_printed_role(strict: Server) -> None:
    namespace = strict.namespace()
    key = f"{namespace}/orders"
    await apply(strict, *_rights(namespace))
    async with (
        database_resource(strict),
        as_the_account(strict, namespace) as cluster,
        tutorial.app.running(cluster, namespaces=namespace) as run,
        pyinformer.controller.EventRecorder(cluster, tutorial.app.name) as recorder,
    ):
        await until(lambda: is_created(strict, _database(namespace)), timeout_seconds=100)
        await _become_ready(strict, namespace)
        await until(lambda: _ready(strict, namespace) == 2)
        recorder.event(await cluster.get("acme.io/v1", "databases", key), "Ready")
        await until(lambda: recorder.statistics().written == 1)
        await cluster.delete("apps/v1", "statefulsets", key)
        await until(lambda: not is_gone(strict, "apps/v1", "statefulsets", "orders", namespace))
        await asyncio.to_thread(strict.api.delete, "acme.io/v1", "databases", "orders", namespace)
        (databases,) = run.controllers
        await until(lambda: tutorial.app.lister("acme.io/v1", "databases").get(key) is None)
        assert "Forbidden" not in (databases.status().last_error or "")
        with pytest.raises(pyinformer.ForbiddenError, match="secrets"):
            await cluster.get("v1", "secrets", key)


async def _become_ready(server: Server, namespace: str) -> None:
    """Do what the cluster does for a StatefulSet, once there is one."""
    child = ("apps/v1", "statefulsets", "orders")
    await until(lambda: not is_gone(server, *child, namespace))
    status = {"status": {"replicas": 2, "readyReplicas": 2}}
    await asyncio.to_thread(server.api.patch, *child, status, namespace)


def _ready(server: Server, namespace: str) -> object:
    found = server.api.get("acme.io/v1", "databases", "orders", namespace)
    return found.get("status", {}).get("ready")


@pytest.mark.parametrize(
    ("resource", "verb"),
    [("statefulsets", "patch"), ("statefulsets", "create"), ("databases/status", "patch")],
)
async def test_an_operator_without_a_right_names_it(
    strict: Server, resource: str, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = strict.namespace()
    role, binding = _rights(namespace)
    (rule,) = [one for one in role["rules"] if resource in one["resources"]]
    rule["verbs"].remove(verb)
    await apply(strict, role, binding)
    needs = (
        f'"{verb}" is missing; needs: apiGroups: ["{rule["apiGroups"][0]}"], resources:'
        f' ["{resource}"], verbs: ["{verb}"] in namespace {namespace}'
    )
    async with (
        database_resource(strict),
        as_the_account(strict, namespace) as cluster,
        tutorial.app.running(cluster, namespaces=namespace) as run,
    ):
        await until(lambda: is_created(strict, _database(namespace)), timeout_seconds=100)
        (databases,) = run.controllers
        if resource == "databases/status":
            await _become_ready(strict, namespace)
        await until(lambda: "ForbiddenError" in (databases.status().last_error or ""))
        await until(lambda: needs in caplog.text)
