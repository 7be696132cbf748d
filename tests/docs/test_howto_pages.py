"""What the how-to pages show is run from top to bottom: their tests pass, their programs end."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
from docs.examples import backup_operator

import pyinformer
from pyinformer import JSONObject
from pyinformer.testing import APIServer, World

_PAGES = Path(__file__).parents[2] / "docs/howto"
_EXAMPLES = Path(__file__).parents[2] / "docs/examples"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page defines; its blocks are one module."""
    page = _PAGES / request.param
    module = ModuleType(page.stem)
    monkeypatch.syspath_prepend(_EXAMPLES)  # what some pages import
    monkeypatch.setitem(sys.modules, page.stem, module)
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), module.__dict__)  # noqa: S102 - our own page
    return module.__dict__


@pytest.mark.parametrize("shown", ["finalizers-and-events.md"], indirect=True)
@pytest.mark.parametrize(
    "name",
    [
        "test_a_bucket_is_created_and_its_condition_is_ready",
        "test_a_bucket_stays_until_the_provider_has_deleted_it",
        "test_a_bucket_that_cannot_be_read_is_cleaned_up",
    ],
)
def test_the_tests_of_the_page_on_cleaning_up_pass(shown: dict[str, Any], name: str) -> None:
    shown[name]()


@pytest.mark.parametrize("shown", ["finalizers-and-events.md"], indirect=True)
@pytest.mark.parametrize("region", ["us", 5])
def test_the_condition_of_the_page_leaves_the_rest_of_the_status(
    shown: dict[str, Any], region: object
) -> None:
    """Also that of an object that the model cannot read: there, nothing restores the rest."""
    make = shown["make_operator" if region == "us" else "make_careful_operator"]
    bucket = {**shown["BUCKET"], "spec": {"region": region}, "status": {"endpoint": "s3:1"}}
    with World([bucket]) as world:
        (buckets,) = make(shown["Provider"]()).controllers(world.cluster, world.factory)
        world.reconcile(buckets, "default/photos")
        status: Any = world.get("acme.io/v1", "buckets", "photos")["status"]

    assert status["endpoint"] == "s3:1"
    assert [one["type"] for one in status["conditions"]] == ["Ready"]


@pytest.mark.parametrize("spec", [{"database": "db"}, {"database": 5}], ids=["good", "unreadable"])
def test_the_condition_of_the_example_of_backups_leaves_the_rest_of_the_status(
    spec: dict[str, object],
) -> None:
    backup: JSONObject = {
        "apiVersion": "acme.io/v1",
        "kind": "Backup",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": dict[str, Any](spec),
        "status": {"lastBackup": "2026-11-01T00:00:00Z"},
    }
    with World([backup]) as world:
        backups = backup_operator.app.controllers(world.cluster, world.factory)[0]
        world.reconcile(backups, "default/one")
        status: Any = world.get("acme.io/v1", "backups", "one")["status"]

    assert status["lastBackup"] == "2026-11-01T00:00:00Z"
    assert [one["type"] for one in status["conditions"]] == ["Ready"]


@pytest.mark.parametrize("shown", ["work-queue.md"], indirect=True)
def test_the_program_of_the_page_on_queues_does_what_it_was_fed(shown: dict[str, Any]) -> None:
    done = asyncio.run(shown["main"]())

    assert done == {"urgent", "later", *(f"resync-{one}" for one in range(100))}


@pytest.mark.parametrize("shown", ["finalizers-and-events.md"], indirect=True)
def test_the_model_of_the_page_has_a_definition(shown: dict[str, Any]) -> None:
    (definition,) = shown["make_operator"](shown["Provider"]()).custom_resource_definitions()

    assert definition["metadata"]["name"] == "buckets.acme.io"


@pytest.mark.parametrize(
    "page",
    [
        "howto/finalizers-and-events.md",
        "howto/gone-or-unreadable.md",
        "tutorials/operator.md",
        "examples/test_database_operator.py",
    ],
)
def test_the_worlds_of_a_page_have_the_definition_of_its_model(page: str) -> None:
    """Without it a World stores what the definition refuses or drops on a server."""
    text = (_PAGES.parent / page).read_text(encoding="utf-8")
    worlds = re.findall(r"with World\((.*?)\) as world:", text)

    assert worlds
    assert all("*app.custom_resource_definitions()" in one for one in worlds), worlds


@pytest.mark.parametrize("shown", ["storms-and-health.md"], indirect=True)
def test_the_test_of_the_page_on_storms_sees_the_bug(shown: dict[str, Any]) -> None:
    shown["test_the_bug_is_seen"]()


@pytest.mark.parametrize("shown", ["storms-and-health.md"], indirect=True)
async def test_the_program_of_the_page_on_health_becomes_ready(
    shown: dict[str, Any], apiserver: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = asyncio.Event()
    ended.set()
    async with pyinformer.connect(server=apiserver.url) as cluster, asyncio.timeout(100):
        await shown["main"](cluster, ended, port=0)

    assert "/readyz: HealthVerdict(is_ok=True, reasons=(), notes=())" in capsys.readouterr().out


@pytest.mark.parametrize("shown", ["gone-or-unreadable.md"], indirect=True)
async def test_the_program_of_the_page_on_missing_objects_explains_them(
    shown: dict[str, Any], apiserver: APIServer
) -> None:
    long = {**pod("shop", "huge"), "spec": {"nodeName": "x" * 150_000}}
    apiserver.create(pod("shop", "web-1"))
    size = len(msgspec.json.encode(apiserver.create(long)))
    async with pyinformer.connect(server=apiserver.url) as cluster, asyncio.timeout(100):
        said = await shown["main"](cluster)

    assert said[0] == "0 widgets: absent"
    problem = f"it has {size} bytes, over the limit: only its metadata is kept"
    assert said[1:] == [f"shop/huge: {problem} (good before: nothing)"]


@pytest.mark.parametrize("shown", ["namespaces-and-clusters.md"], indirect=True)
async def test_the_program_of_the_page_on_clusters_counts_and_names_the_dead(
    shown: dict[str, Any], apiserver: APIServer
) -> None:
    apiserver.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "a"}}
    )
    servers = {"good": apiserver.url, "dead": "http://127.0.0.1:9"}
    async with asyncio.timeout(100):
        good, dead, again = await shown["main"](servers, "good", "dead", "good")

    assert good == again == "good: 1 pods"
    assert dead.startswith("dead: not synced: dead: pods.v1: ")
    assert "cannot connect to 127.0.0.1:9: Connection refused" in dead


def pod(namespace: str, name: str, **labels: str) -> dict[str, Any]:
    """Return a pod to create."""
    metadata = {"namespace": namespace, "name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


def without_instants(text: str) -> str:
    """Return a text whose times and ages are all the same."""
    return re.sub(r"\d+ s ago", "0 s ago", re.sub(r"20[-0-9]+ [:0-9]+ UTC", "then", text))


_WHY = "running-program.md"


@pytest.mark.parametrize("shown", [_WHY], indirect=True)
@pytest.mark.parametrize(
    ("number", "key"), [(0, "shop/web-1"), (1, "shop/db-1"), (2, "bank/web-1")]
)
async def test_the_answers_of_the_page_on_explanations_are_those_that_are_given(
    shown: dict[str, Any], number: int, key: str
) -> None:
    text = (_PAGES / _WHY).read_text(encoding="utf-8")
    printed = re.findall(r"^```text\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)[number]
    with APIServer() as server:
        server.create(pod("shop", "web-1", app="web"))
        server.create(pod("shop", "db-1", app="db"))
        server.create(pod("bank", "web-1", app="web"))
        async with pyinformer.connect(server=server.url) as cluster, asyncio.timeout(100):
            said = await shown["explain"](cluster, key)

    assert without_instants(said) == without_instants(printed)


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("shown", ["finalizers-and-events.md"], indirect=True)
def test_a_reconcile_that_waits_for_a_deletion_has_to_keep_the_finalizer(
    shown: dict[str, Any], *, is_kept: bool
) -> None:
    """As that page and the map of controller-runtime say."""
    app = pyinformer.Operator("buckets", writes=[("acme.io/v1", "buckets", "patch")])

    @app.reconcile("acme.io/v1", "buckets")
    async def reconcile(
        request: pyinformer.Request, bucket: pyinformer.KubeObject | None, cluster: Any
    ) -> pyinformer.Result | None:
        del request
        name = shown["FINALIZER"]
        async with pyinformer.controller.finalizer(cluster, bucket, name) as held:
            if held.phase == "deleting":
                if is_kept:
                    held.keep()
                return pyinformer.Result(requeue_after_seconds=10)
        return None

    with World([shown["BUCKET"]]) as world:
        (buckets,) = app.controllers(world.cluster, world.factory)
        world.reconcile(buckets, "default/photos")
        world.delete("acme.io/v1", "buckets", "photos")
        outcome = world.reconcile(buckets, "default/photos")

        assert outcome.error is None
        assert outcome.after_seconds == 10.0
        assert len(world.list("acme.io/v1", "buckets")) == is_kept
