"""kopf on pyinformer, as its handlers and its endpoint show it, against the embedded API server."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from kopf._cogs.aiokits.aiotoggles import ToggleSet
from kopf.testing import KopfRunner

import kopf
import pyinformer
import pyinformer.kopf
from pyinformer.errors import (
    CacheNotSyncedError,
    ConfigurationError,
    InvalidArgumentError,
    LifecycleError,
    NotCachedError,
)
from pyinformer.kopf._operators import KopfOperator, current_operator
from pyinformer.kopf._stream_cache import CachedKeys, CachedObjects
from pyinformer.testing import APIServer, Fault
from tests.docs import pages
from tests.kopf.inside import activities
from tests.kopf.operators import (
    Events,
    operating,
    put,
    record_events,
    registry_of,
    remove,
    settings_of,
)
from tests.kopf.streams import vault_of
from tests.kopf.test_requests import problems_of
from tests.waiting import poll, until

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = "kopf.dev/v1"


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        put(running, "a", "b")
        yield running


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    pyinformer.kopf.install()
    yield
    pyinformer.kopf.uninstall()


def captured(registry: kopf.OperatorRegistry) -> list[KopfOperator]:
    """Return a list that gets the operator when it starts."""
    found: list[KopfOperator] = []

    @kopf.on.startup(registry=registry)
    async def capture(**_: Any) -> None:
        operator = current_operator()
        assert operator is not None
        found.append(operator)

    return found


def known_of(operator: KopfOperator) -> dict[str, object]:
    """Return what each stream keeps, by resource."""
    return {one.resource.plural: one.known for one in operator.streams}


async def test_handlers_receive_lists_and_events_as_from_kopf(server: APIServer) -> None:
    events = Events()
    async with operating(registry_of(server, events)):
        await until(lambda: len(events.seen) == 2)
        put(server, "c")
        put(server, "a", team="x")
        remove(server, "b")
        await until(lambda: len(events.seen) == 5)
    assert events.types_of("a") == [None, "MODIFIED"]
    assert events.types_of("b") == [None, "DELETED"]
    assert events.types_of("c") == ["ADDED"]


async def test_an_index_has_no_dead_entries_after_an_outage(server: APIServer) -> None:
    registry, indexes = registry_of(server), []

    @kopf.index("pods", id="names", registry=registry)
    async def names(name: str, **_: Any) -> dict[str, str]:
        return {"all": name}

    @kopf.on.startup(registry=registry)
    async def keep(**arguments: Any) -> None:
        indexes.append(arguments["names"])

    def indexed() -> set[str]:
        return set(indexes[0].get("all", ())) if indexes else set()

    async with operating(registry):
        await until(lambda: indexed() == {"a", "b"})
        server.stop_accepting()
        server.drop_connections()
        remove(server, "a")
        put(server, "c")
        server.compact()
        server.accept_again()
        await until(lambda: indexed() == {"b", "c"})


async def test_a_daemon_of_an_object_that_was_deleted_in_an_outage_ends(
    server: APIServer,
) -> None:
    registry, running = registry_of(server), set[str]()

    @kopf.daemon("pods", registry=registry, cancellation_timeout=1.0)
    async def watch_over(name: str, **_: Any) -> None:
        running.add(name)
        try:
            await asyncio.Event().wait()
        finally:
            running.discard(name)

    async with operating(registry):
        await until(lambda: running == {"a", "b"})
        await until(
            lambda: all("finalizers" in one["metadata"] for one in server.list("v1", "pods"))
        )
        server.stop_accepting()
        server.drop_connections()
        for name in ("a",):
            pod: Any = server.get("v1", "pods", name)
            pod["metadata"]["finalizers"] = []
            server.update(pod)
            remove(server, name)
        server.compact()
        server.accept_again()
        await until(lambda: running == {"b"})


async def test_bodies_are_kept_where_a_missed_deletion_needs_one(server: APIServer) -> None:
    registry = registry_of(server)
    record_events(registry, Events(), "pods")
    for plural in ("configmaps", "secrets", "services"):

        @kopf.on.update(plural, registry=registry)
        async def update(**_: Any) -> None: ...

    @kopf.timer("services", registry=registry, interval=1000)
    async def tick(**_: Any) -> None: ...

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        pyinformer.kopf.lister("v1", "secrets")

    found = captured(registry)
    async with operating(registry):
        await until(lambda: found and len(found[0].streams) >= 5)
        known = known_of(found[0])
    assert isinstance(known["configmaps"], CachedKeys)
    for plural in ("pods", "services", "secrets", "customresourcedefinitions"):
        assert isinstance(known[plural], CachedObjects), plural


@pytest.mark.parametrize("bodies", [True, False])
async def test_the_kept_state_can_be_configured(server: APIServer, *, bodies: bool) -> None:
    pyinformer.kopf.uninstall()
    pyinformer.kopf.install(bodies=bodies)
    registry = registry_of(server, Events())
    found = captured(registry)
    async with operating(registry):
        await until(lambda: found and len(found[0].streams) == 2)
        known = known_of(found[0])
    assert isinstance(known["pods"], CachedObjects) is bodies
    assert isinstance(known["customresourcedefinitions"], CachedObjects)


async def test_handlers_have_listers_with_indexes(server: APIServer) -> None:
    registry = registry_of(server)
    found: list[pyinformer.Lister[None]] = []
    informers: list[pyinformer.kopf.Informers] = []
    listed: list[tuple[str, list[str]]] = []

    @kopf.on.startup(registry=registry)
    async def start(memo: Any, **_: Any) -> None:
        informers.append(memo.informers)
        found.append(pyinformer.kopf.lister("v1", "pods", indexes={"team": "metadata.labels.team"}))
        assert memo.informers.lister("v1", "pods") is found[0]
        with pytest.raises(LifecycleError, match=r"add a handler for it, such as @kopf\.index"):
            found[0].list()

    @kopf.on.event("pods", registry=registry)
    async def event(name: str, memo: Any, **_: Any) -> None:
        lister = memo.informers.lister("v1", "pods")
        listed.append((name, sorted(one.metadata.name for one in lister.by_index("team", "x"))))

    put(server, "b", team="x")
    async with operating(registry):
        await until(lambda: len(listed) == 2)
        put(server, "a", team="x")
        await until(lambda: len(listed) == 3)
        with pytest.raises(LifecycleError, match=r"must be there before its first stream"):
            informers[0].lister("v1", "pods", indexes={"node": "spec.nodeName"})
        assert found[0].staleness == ""
    assert listed[:2] == [("a", ["b"]), ("b", ["b"])]
    assert listed[2] == ("a", ["a", "b"])


async def test_two_indexes_of_one_name_are_refused(server: APIServer) -> None:
    """A second one, of another module, would be read by the path of the first."""
    registry, refused = registry_of(server, Events()), list[str]()

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        by_team = {"by": "metadata.labels.team"}
        first = pyinformer.kopf.lister("v1", "pods", indexes=by_team)
        assert pyinformer.kopf.lister("v1", "pods", indexes=by_team) is first
        assert pyinformer.kopf.lister("v1", "services", indexes={"by": "spec.type"})
        try:
            pyinformer.kopf.lister("v1", "pods", indexes={"new": "kind", "by": "spec.nodeName"})
        except InvalidArgumentError as error:
            refused.append(str(error))
        pyinformer.kopf.lister("v1", "pods", indexes={"new": "spec.nodeName"})

    found = captured(registry)
    async with operating(registry):
        # A kopf that is stopped in its scan of resources ends with an error.
        await until(lambda: refused and found and len(found[0].streams) == 2)
    assert "an index called 'by' of pods.v1 exists already, by another path" in refused[0]


async def test_a_lister_names_the_stream_that_is_behind_the_server(server: APIServer) -> None:
    found, settings = captured(registry := registry_of(server, Events())), settings_of()
    settings.networking.error_backoffs = [0.05] * 1000
    async with operating(registry, settings):
        await until(lambda: found and sum(one.has_listed for one in found[0].streams) == 2)
        lister = found[0].informers.lister("v1", "pods")
        await until(lambda: server.open_watches == 2)
        server.faults.add(Fault(resource="pods", status=500, times=None))
        server.end_watches()
        await until(lambda: lister.staleness)
        assert lister.staleness.startswith("pods.v1 in all namespaces: watch pods.v1: 500")
        server.faults.clear()
        put(server, "c")
        await until(lambda: "default/c" in lister and not lister.staleness)


async def test_the_lister_of_the_page_is_complete_at_the_first_beat_of_its_timer(
    server: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    put(server, "web-1", "web-2", app="web")
    put(server, "web", kind="Service", plural="services")
    registry = registry_of(server)
    (block,) = [
        one
        for one in pages.blocks("docs/howto/kopf-on-pyinformer.md", "python")
        if "kopf.timer" in one.text
    ]
    before = kopf.get_default_registry()
    kopf.set_default_registry(registry)
    try:
        exec(  # noqa: S102 - our own page
            compile(block.text, block.page, "exec"), {"kopf": kopf, "pyinformer": pyinformer}
        )
    finally:
        kopf.set_default_registry(before)
    async with operating(registry):
        await until(lambda: capsys.readouterr().out == "2\n")


async def test_a_lister_of_keys_alone_names_the_cure(server: APIServer) -> None:
    registry = registry_of(server)

    @kopf.on.update("pods", registry=registry)
    async def update(**_: Any) -> None: ...

    found = captured(registry)
    async with operating(registry):
        await until(lambda: found and "pods" in known_of(found[0]))
        with pytest.raises(LifecycleError, match=r"@kopf\.on\.startup\(\), or install\(bodies="):
            found[0].informers.lister("v1", "pods").get("default/a")


@pytest.mark.parametrize(
    ("how", "named"),
    [
        ("environment", "the environment has PYINFORMER_KOPF=off"),
        ("setting", r"settings\.pyinformer is False"),
        ("exclude", r"install\(exclude=\.\.\.\) names it"),
        ("only", r"install\(only=\.\.\.\) does not name it"),
    ],
)
async def test_a_lister_names_why_its_stream_is_plain_kopf(
    server: APIServer, how: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: Any = settings_of()
    pyinformer.kopf.uninstall()
    choices: dict[str, Any] = {"exclude": {"exclude": ["pods"]}, "only": {"only": ["secrets"]}}
    pyinformer.kopf.install(**choices.get(how, {}))
    if how == "environment":
        monkeypatch.setenv("PYINFORMER_KOPF", "off")
    elif how == "setting":
        settings.pyinformer = False
    found = captured(registry := registry_of(server, Events()))
    async with operating(registry, settings):
        await until(lambda: found and found[0].plain)
        lister = found[0].informers.lister("v1", "pods")
        await until(lambda: "plain kopf" in reason_of(lister))
        with pytest.raises(LifecycleError, match=f"pods.v1 is plain kopf, .*: {named}"):
            lister.list()


def reason_of(lister: pyinformer.Lister[None]) -> str:
    """Return why a lister cannot be read."""
    try:
        lister.list()
    except LifecycleError as error:
        return str(error)
    return ""


async def test_a_lister_names_the_failure_after_which_its_stream_is_plain_kopf(
    server: APIServer,
) -> None:
    found, settings = captured(registry := registry_of(server, Events())), settings_of()
    async with operating(registry, settings):
        await until(lambda: found and sum(one.has_listed for one in found[0].streams) == 2)
        lister = found[0].informers.lister("v1", "pods")
        await until(lambda: server.open_watches == 2)
        settings.watching.inactivity_timeout = -1.0  # no reflector can work with that
        server.end_watches()
        await until(lambda: "it has failed" in reason_of(lister))
        settings.watching.inactivity_timeout = 70.0


async def test_a_namespace_can_be_read_while_another_one_is_refused(server: APIServer) -> None:
    server.ensure_namespace("other")
    server.faults.add(Fault(resource="pods", namespace="other", status=403, times=None))
    registry = registry_of(server, Events())
    found = captured(registry)
    arguments: dict[str, Any] = {"clusterwide": False, "namespaces": ["default", "other"]}

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        pyinformer.kopf.lister("v1", "pods", indexes={"name": "metadata.name"})

    async with operating(registry, **arguments):
        await until(lambda: found and sum(one.has_listed for one in found[0].streams) == 3)
        await until(lambda: "pods" in known_of(found[0]) and len(found[0].streams) == 4)
        lister = found[0].informers.lister("v1", "pods")
        listed = lister.namespace("default").list()
        assert sorted(one.metadata.name for one in listed) == ["a", "b"]
        assert lister.get("default/a") is not None
        (found_by_index,) = lister.namespace("default").by_index("name", "a")
        assert found_by_index.key == "default/a"
        for named in (lister, lister.namespace("other")):
            with pytest.raises(CacheNotSyncedError, match=r"pods\.v1 in namespace other"):
                named.by_index("name", "a")
        for read in (lister.list, lister.namespace("other").list):
            with pytest.raises(CacheNotSyncedError, match=r"pods\.v1 in namespace other"):
                read()


async def test_a_lister_reads_the_streams_of_all_namespaces(server: APIServer) -> None:
    server.ensure_namespace("other")
    server.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "z", "namespace": "other"}}
    )
    registry = registry_of(server, Events())
    found = captured(registry)
    arguments: dict[str, Any] = {"clusterwide": False, "namespaces": ["default", "other"]}
    async with operating(registry, **arguments):
        await until(lambda: found and sum(one.has_listed for one in found[0].streams) == 4)
        lister = found[0].informers.lister("v1", "pods")
        assert sorted(one.metadata.name for one in lister.list()) == ["a", "b", "z"]
        assert lister.get("other/z") is not None
        with pytest.raises(NotCachedError):
            lister.get("third/z")
    with pytest.raises(LifecycleError, match="have ended: the operator is stopping"):
        lister.list()


async def test_a_lister_raises_before_the_first_list(server: APIServer) -> None:
    server.faults.add(Fault(verb="list", resource="pods", hang=True))
    registry = registry_of(server, Events())
    found = captured(registry)
    async with operating(registry):
        await until(lambda: found and "pods" in known_of(found[0]))
        with pytest.raises(CacheNotSyncedError, match="pods"):
            found[0].informers.lister("v1", "pods").list()


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


async def test_the_endpoint_shows_the_streams(server: APIServer) -> None:
    registry, endpoint = registry_of(server, Events()), f"http://127.0.0.1:{free_port()}/healthz"
    found = captured(registry)
    async with (
        operating(registry, liveness_endpoint=endpoint),
        aiohttp.ClientSession() as session,
    ):
        await until(lambda: found and sum(one.has_listed for one in found[0].streams) == 2)
        answer = await session.get(endpoint)
        assert await answer.json() == {"pyinformer": {"streams": 2, "synced": 2, "plain": 0}}


async def test_the_endpoint_is_red_while_a_stream_is_refused(server: APIServer) -> None:
    registry, endpoint = registry_of(server, Events()), f"http://127.0.0.1:{free_port()}/healthz"
    settings = settings_of()
    settings.networking.error_backoffs = (0.01,)
    server.faults.add(Fault(resource="pods", status=403, times=None))
    found, gate = captured(registry), ToggleSet(all)
    async with (
        operating(registry, settings, liveness_endpoint=endpoint),
        aiohttp.ClientSession() as session,
    ):
        await until(lambda: found and found[0].streams and any(problems_of(found[0])))
        answer = await session.get(endpoint)
        assert answer.status == 500
        (problem,) = problems_of(found[0])
        assert problem.startswith("pods.v1 in all namespaces: list pods.v1: 403")
        server.faults.clear()
        await until(lambda: not problems_of(found[0]))
        blocked = await gate.make_toggle(name="the index")
        found[0].gate.toggles = gate
        found[0].gate.check()
        found[0].gate.check()
        assert problems_of(found[0]) == ["the handlers wait for the index"]
        await gate.drop_toggle(blocked)
        assert not problems_of(found[0])


async def test_an_operator_that_is_switched_off_has_kopfs_endpoint_and_gate(
    server: APIServer,
) -> None:
    registry, endpoint = registry_of(server, Events()), f"http://127.0.0.1:{free_port()}/healthz"
    found = captured(registry)

    @kopf.on.startup(registry=registry)
    async def switch_off(settings: Any, **_: Any) -> None:
        settings.pyinformer = False

    async with (
        operating(registry, liveness_endpoint=endpoint),
        aiohttp.ClientSession() as session,
    ):
        await until(lambda: found and found[0].plain == 2)
        answer = await session.get(endpoint)
        assert await answer.json() == {}
        assert found[0].gate.toggles is None
        assert not any("gate" in task.get_name() for task in asyncio.all_tasks())


async def test_a_namespace_that_is_created_in_the_gap_is_served(server: APIServer) -> None:
    """Kopf ignores the namespaces of the first list, for it has fetched them a moment before."""
    registry, events, made = registry_of(server), Events(), list[str]()

    def in_the_gap(request: Any) -> bool:
        is_second = request.verb == "list" and request.resource == "namespaces"
        if is_second:
            made.append("seen")
            if len(made) == 2:
                server.ensure_namespace("gap-1")
        return False

    record_events(registry, events, "pods")
    server.faults.add(Fault(match=in_the_gap, times=None))
    arguments: dict[str, Any] = {"clusterwide": False, "namespaces": ["gap-*"]}
    async with operating(registry, **arguments):
        await until(lambda: len(made) >= 2)
        metadata = {"name": "z", "namespace": "gap-1"}
        server.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
        await until(lambda: events.types_of("z"))


async def test_a_definition_that_comes_and_goes_is_followed(server: APIServer) -> None:
    registry, events = registry_of(server), Events()
    record_events(registry, events, "kopfexamples")

    def example(name: str) -> None:
        metadata = {"name": name, "namespace": "default"}
        server.create({"apiVersion": EXAMPLES, "kind": "KopfExample", "metadata": metadata})

    async with operating(registry):
        await until(lambda: server.open_watches)
        define(server)
        await until(lambda: served(server))
        example("one")
        # A definition that goes between list and watch takes the objects with it, without events.
        await until(lambda: events.types_of("one") and server.open_watches > 1)
        definitions = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
        server.delete(*definitions, "kopfexamples.kopf.dev")
        await until(lambda: "DELETED" in events.types_of("one"))
        await until(lambda: not served(server))
        define(server)
        await until(lambda: served(server))
        example("two")
        await until(lambda: events.types_of("two"))


def define(server: APIServer) -> None:
    """Create the definition of KopfExample."""
    server.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "kopfexamples.kopf.dev"},
            "spec": {
                "group": "kopf.dev",
                "scope": "Namespaced",
                "names": {"plural": "kopfexamples", "kind": "KopfExample"},
                "versions": [{"name": "v1", "served": True, "storage": True}],
            },
        }
    )


def served(server: APIServer) -> bool:
    """Return whether the server serves KopfExamples."""
    try:
        server.list(EXAMPLES, "kopfexamples")
    except InvalidArgumentError:
        return False
    return True


async def test_an_operator_that_cannot_be_recorded_runs_on_plain_kopf(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    class Odd:
        """A memo that nothing can be asked for."""

        def __getattr__(self, name: str) -> object:
            raise ValueError("no attributes here")

    events = Events()
    with caplog.at_level(logging.ERROR, "pyinformer.kopf"):
        async with operating(registry_of(server, events), memo=Odd()):
            await until(lambda: len(events.seen) == 2)
    assert "the operator runs on plain kopf" in caplog.text
    assert all("limit" not in one.query for one in server.requests)


async def test_with_strict_such_an_operator_does_not_start(server: APIServer) -> None:
    class Odd:
        """As above."""

        def __getattr__(self, name: str) -> object:
            raise ValueError("no attributes here")

    pyinformer.kopf.uninstall()
    pyinformer.kopf.install(strict=True)
    with pytest.raises(ConfigurationError, match="cannot be put into this operator"):
        async with operating(registry_of(server), memo=Odd()) as operator:
            await asyncio.wait({operator})


async def test_a_memo_that_takes_no_attributes_is_left_alone(server: APIServer) -> None:
    events = Events()
    async with operating(registry_of(server, events), memo=object()):
        await until(lambda: len(events.seen) == 2)


def names_by_memo(registry: kopf.OperatorRegistry) -> dict[str, list[str]]:
    """Return a dict of what the lister of the memo has, by the pod whose event was handled."""
    found: dict[str, list[str]] = {}

    @kopf.on.event("pods", registry=registry)
    async def event(name: str, memo: Any, **_: Any) -> None:
        lister = memo.informers.lister("v1", "pods")
        found[name] = sorted(one.metadata.name for one in lister.list())

    return found


async def test_a_memo_that_is_used_again_has_the_listers_of_the_new_operator(
    server: APIServer,
) -> None:
    memo, registry = kopf.Memo(), registry_of(server)
    listed = names_by_memo(registry)
    async with operating(registry, memo=memo):
        await until(lambda: listed == {"a": ["a", "b"], "b": ["a", "b"]})
    first = memo.informers
    with APIServer() as other:
        put(other, "z")
        registry = registry_of(other)
        listed = names_by_memo(registry)
        async with operating(registry, memo=memo):
            await until(lambda: listed == {"z": ["z"]})
            assert memo.informers is not first
            lister = memo.informers.lister("v1", "pods")
            assert [one.metadata.name for one in lister.list()] == ["z"]


async def test_operators_that_share_a_memo_have_listers_of_their_own(server: APIServer) -> None:
    memo, registry = kopf.Memo(), registry_of(server)
    mine = names_by_memo(registry)
    with APIServer() as other:
        put(other, "z")
        others_registry = registry_of(other)
        others = names_by_memo(others_registry)
        async with operating(registry, memo=memo), operating(others_registry, memo=memo):
            await until(lambda: mine == {"a": ["a", "b"], "b": ["a", "b"]})
            await until(lambda: others == {"z": ["z"]})
            put(server, "c")
            await until(lambda: mine.get("c") == ["a", "b", "c"])


async def test_uninstall_takes_the_probe_and_the_listers_of_memos_back(server: APIServer) -> None:
    memo, registry = kopf.Memo(), registry_of(server, Events())
    theirs = kopf.Memo(informers="of the user")

    @kopf.on.probe(registry=registry, id="mine")
    async def probe(**_: Any) -> None: ...

    found = captured(registry)
    for each in (memo, theirs):
        async with operating(registry, memo=each):
            await until(lambda: found and found[-1].streams)
    added = activities(registry)
    assert "pyinformer" in added
    assert "informers" in memo
    pyinformer.kopf.uninstall()
    assert added - activities(registry) == {"pyinformer"}
    assert memo == {}
    assert theirs == {"informers": "of the user"}


async def test_two_operators_of_two_servers_may_share_their_settings(server: APIServer) -> None:
    settings, mine, others = settings_of(), Events(), Events()
    with APIServer() as other:
        put(other, "z")
        async with (
            operating(registry_of(server, mine), settings),
            operating(registry_of(other, others), settings),
        ):
            await until(lambda: len(mine.seen) == 2 and len(others.seen) == 1)
            other.stop_accepting()
            other.drop_connections()
            remove(other, "z")
            put(server, "c")
            await until(lambda: mine.types_of("c") == ["ADDED"])
            other.compact()
            other.accept_again()
            await until(lambda: others.types_of("z") == [None, "DELETED"])
    assert mine.types_of("z") == []


@pytest.mark.parametrize("younger", ["watch", "reflector"])
async def test_the_end_of_one_operator_does_not_stop_the_streams_of_another(
    server: APIServer, younger: str
) -> None:
    """An operator of kopf that ends cancels every task of its loop that is younger than itself."""
    mine, others, settings = Events(), Events(), settings_of()
    with APIServer() as other:
        put(other, "z")
        vault, registry = vault_of(other), registry_of(other, others)
        arguments: dict[str, Any] = {"standalone": True, "clusterwide": True, "vault": vault}
        second = kopf.operator(registry=registry, settings=settings_of(), **arguments)
        async with operating(registry_of(server, mine), settings):
            await until(lambda: len(mine.seen) == 2 and pod_watches(server) == 1)
            task = asyncio.create_task(second)
            await until(lambda: len(others.seen) == 1)
            if younger == "reflector":
                settings.watching.label_selectors["pods"] = "team!=x"
            before = len(server.requests)
            server.end_watches()
            await until(lambda: pod_watches(server, since=before))
            task.cancel()  # its stop flag would make kopf wait 5 s for the tasks of the other
            await asyncio.wait({task})
            await vault.close()
            remove(server, "a")
            put(server, "c")
            await until(lambda: mine.types_of("c") and "DELETED" in mine.types_of("a"))


def pod_watches(server: APIServer, *, since: int = 0) -> int:
    """Return how many watches of pods have begun."""
    return sum(one.verb == "watch" and one.resource == "pods" for one in server.requests[since:])


async def test_a_handler_that_changes_its_body_changes_nothing_else(server: APIServer) -> None:
    registry, seen = registry_of(server), []

    @kopf.on.event("pods", registry=registry)
    async def spoil(event: Any, **_: Any) -> None:
        seen.append(event["object"]["metadata"].pop("labels", None))
        event["object"]["metadata"]["labels"] = {"spoiled": "yes"}

    found = captured(registry)
    async with operating(registry):
        await until(lambda: len(seen) == 2)
        lister = found[0].informers.lister("v1", "pods")
        assert lister["default/a"].metadata.labels.get("spoiled") is None
        put(server, "a", team="x")
        await until(lambda: len(seen) == 3)
    assert seen[2] == {"team": "x"}


def peer(server: APIServer, **fields: object) -> None:
    """Write the record of another operator into the peering, or remove it."""
    found: Any = server.get(EXAMPLES, "clusterkopfpeerings", "default")
    record = {"priority": 100, "lastseen": "2100-01-01T00:00:00+00:00", **fields}
    found["status"] = {**found.get("status", {}), "other": record if fields else None}
    found["status"] = {name: each for name, each in found["status"].items() if each}
    server.update(found)


async def test_a_peer_pauses_the_operator_and_what_is_missed_is_reported(
    server: APIServer,
) -> None:
    server.register(EXAMPLES, "ClusterKopfPeering", "clusterkopfpeerings", namespaced=False)
    metadata = {"name": "default"}
    server.create({"apiVersion": EXAMPLES, "kind": "ClusterKopfPeering", "metadata": metadata})
    events = Events()
    async with operating(registry_of(server, events), standalone=False):
        await until(lambda: len(events.seen) == 2 and server.open_watches == 3)
        peer(server, lifetime=3600)
        await until(lambda: server.open_watches == 2)  # CRDs and peerings
        remove(server, "a")
        put(server, "c")
        peer(server)
        await until(lambda: events.types_of("c") and "DELETED" in events.types_of("a"))
    assert events.types_of("a") == [None, "DELETED"]
    assert events.types_of("b") == [None, None]
    assert events.types_of("c") == [None]


async def test_operators_may_run_in_several_threads(server: APIServer) -> None:
    mine, others, stop = Events(), Events(), threading.Event()
    settings = settings_of()
    arguments: dict[str, Any] = {"standalone": True, "clusterwide": True}
    registry = registry_of(server, others)
    operator = kopf.operator(registry=registry, settings=settings, stop_flag=stop, **arguments)
    async with operating(registry_of(server, mine)):
        thread = asyncio.create_task(asyncio.to_thread(asyncio.run, operator))
        await until(lambda: len(mine.seen) == len(others.seen) == 2)
        put(server, "c")
        await until(lambda: len(mine.seen) == len(others.seen) == 3)
        stop.set()
        await thread
        settings.execution.executor.shutdown()


HANDLERS = """
import kopf
import pyinformer.kopf

pyinformer.kopf.install()

@kopf.on.login()
async def login(**_):
    return kopf.ConnectionInfo(server={url!r}, token={token!r}, insecure=True)

@kopf.on.event("pods")
async def event(event, **_):
    with open({seen!r}, "a") as seen:
        print(f"seen {{event['type']}} {{event['object']['metadata']['name']}}", file=seen)
"""


def test_the_line_works_in_kopfs_test_runner(server: APIServer, tmp_path: Path) -> None:
    pyinformer.kopf.uninstall()
    handlers = tmp_path / "handlers_of_the_test.py"
    capture = tmp_path / "seen"
    capture.touch()
    handlers.write_text(HANDLERS.format(url=server.url, token=server.token, seen=str(capture)))
    try:
        with KopfRunner(["run", "--standalone", "-A", str(handlers)], timeout=100) as runner:
            server.wait_for_watches(2, timeout_seconds=100)
            put(server, "c")
            assert poll(lambda: "seen ADDED c" in capture.read_text(), timeout_seconds=100)
    finally:
        sys.modules.pop("handlers_of_the_test", None)
    assert runner.exit_code == 0, runner.output
    assert "run on pyinformer" in runner.output
    assert sorted(capture.read_text().splitlines()) == [
        "seen ADDED c",
        "seen None a",
        "seen None b",
    ]
    assert any("limit" in one.query for one in server.requests)  # kopf itself lists without


def _examples(server: APIServer, count: int) -> list[str]:
    names = [f"ex-{number}" for number in range(count)]
    for name in names:
        metadata = {"name": name, "namespace": "default"}
        server.create({"apiVersion": EXAMPLES, "kind": "KopfExample", "metadata": metadata})
    return names


async def test_what_goes_with_a_definition_is_reported_by_a_silent_stream(
    server: APIServer,
) -> None:
    """When kopf learns that the definition is gone, it ends the stream of its objects."""
    registry, events = registry_of(server), Events()
    record_events(registry, events, "kopfexamples")
    define(server)
    names = _examples(server, 13)
    async with operating(registry):
        await until(lambda: len(events.seen) == 13)
        watches = Fault(verb="watch", resource="kopfexamples.kopf.dev", stall_after_bytes=0)
        server.faults.add(watches)
        server.drop_connections()
        await until(lambda: server.faults.held == 1)
        server.delete(*_DEFINITIONS, "kopfexamples.kopf.dev")
        await until(lambda: all(events.types_of(name)[1:] == ["DELETED"] for name in names))
        server.faults.release()
        define(server)
        await until(lambda: served(server))
        (name, *_) = _examples(server, 1)
        await until(lambda: len(events.types_of(name)) == 3)
        assert "DELETED" not in events.types_of(name)[2:]


async def test_a_definition_that_goes_is_reported_once_for_each_object(server: APIServer) -> None:
    registry, events = registry_of(server), Events()
    record_events(registry, events, "kopfexamples")
    define(server)
    names = _examples(server, 13)
    async with operating(registry):
        await until(lambda: len(events.seen) == 13)
        server.delete(*_DEFINITIONS, "kopfexamples.kopf.dev")
        await until(lambda: all("DELETED" in events.types_of(name) for name in names))
        define(server)
        await until(lambda: served(server))
        (name, *_) = _examples(server, 1)
        await until(lambda: len(events.types_of(name)) == 3)
        assert [kind for kind, _ in events.seen].count("DELETED") == 13


async def test_what_goes_with_a_namespace_is_reported_by_a_silent_stream(
    server: APIServer,
) -> None:
    registry, events = registry_of(server), Events()
    record_events(registry, events, "pods")
    server.ensure_namespace("gap-1")
    metadata = {"name": "z", "namespace": "gap-1"}
    server.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    async with operating(registry, clusterwide=False, namespaces=["gap-*"]):
        await until(lambda: events.types_of("z"))
        server.faults.add(Fault(verb="watch", resource="pods", stall_after_bytes=0))
        server.drop_connections()
        await until(lambda: server.faults.held == 1)
        server.delete("v1", "pods", "z", namespace="gap-1")
        server.delete("v1", "namespaces", "gap-1")
        await until(lambda: events.types_of("z")[1:] == ["DELETED"])
        server.faults.release()


async def test_a_kind_that_a_lagging_server_does_not_have_is_looked_for_again(
    server: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    registry, events = registry_of(server), Events()
    record_events(registry, events, "kopfexamples")
    async with operating(registry):
        await until(lambda: server.open_watches)
        server.faults.add(Fault(match=_is_discovery_of_examples, status=404, times=3))
        define(server)
        await until(lambda: served(server))
        _examples(server, 1)
        await until(lambda: events.types_of("ex-0"))
    assert "kopfexamples.v1.kopf.dev is defined, and the server does not serve it" in caplog.text


async def test_a_kind_that_is_not_served_any_more_is_not_looked_for(
    server: APIServer,
) -> None:
    registry, events = registry_of(server), Events()
    found = captured(registry)
    record_events(registry, events, "kopfexamples")
    async with operating(registry):
        await until(lambda: server.open_watches)
        server.faults.add(Fault(match=_is_discovery_of_examples, status=404, times=None))
        define(server)
        timers = found[0].rescans._timers
        await until(lambda: bool(timers))
        server.faults.clear()
        server.delete(*_DEFINITIONS, "kopfexamples.kopf.dev")
        await until(lambda: not timers)


async def test_a_definition_that_is_recreated_after_the_first_scan_is_followed(
    server: APIServer,
) -> None:
    """Kopf has seen it while it was being deleted: a kind that it does not serve."""
    registry, created = registry_of(server), list[str]()
    record_creations(registry, created)
    server.faults.add(Fault(match=_is_list_of_definitions, hang=True, times=None))
    terminate(server)
    async with operating(registry):
        await until(lambda: server.faults.held)
        recreate(server)
        server.faults.clear()
        server.faults.release()
        _examples(server, 1)
        await until(lambda: created == ["ex-0"])


async def test_a_kind_that_a_lagging_server_takes_for_deleted_is_looked_for_again(
    server: APIServer,
) -> None:
    registry, created = registry_of(server), list[str]()
    record_creations(registry, created)
    kind = {"name": "kopfexamples", "singularName": "", "kind": "KopfExample", "namespaced": True}
    verbs = ["delete", "deletecollection", "get", "list", "watch"]
    old = json.dumps({"kind": "APIResourceList", "resources": [{**kind, "verbs": verbs}]})
    async with operating(registry):
        await until(lambda: server.open_watches)
        server.faults.add(Fault(match=_is_discovery_of_examples, body=old.encode(), times=3))
        define(server)
        _examples(server, 1)
        await until(lambda: created == ["ex-0"])


def record_creations(registry: kopf.OperatorRegistry, created: list[str]) -> None:
    """Add a handler of KopfExamples that kopf calls only if it can patch them."""

    @kopf.on.create("kopfexamples", registry=registry)
    async def record(name: str, **_: Any) -> None:
        created.append(name)


def terminate(server: APIServer) -> None:
    """Create the definition of KopfExample, and delete it while it has an object."""
    define(server)
    metadata = {"name": "last", "namespace": "default", "finalizers": ["kopf.dev/held"]}
    server.create({"apiVersion": EXAMPLES, "kind": "KopfExample", "metadata": metadata})
    server.delete(*_DEFINITIONS, "kopfexamples.kopf.dev")


def recreate(server: APIServer) -> None:
    """End a definition that is being deleted, and create it again."""
    server.patch(EXAMPLES, "kopfexamples", "last", {"metadata": {"finalizers": None}})
    define(server)


_DEFINITIONS = ("apiextensions.k8s.io/v1", "customresourcedefinitions")


def _is_discovery_of_examples(request: Any) -> bool:
    return bool(request.path == "/apis/kopf.dev/v1")


def _is_list_of_definitions(request: Any) -> bool:
    return bool(request.path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
