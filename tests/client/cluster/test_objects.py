"""Arguments that the client refuses at once, and the calls of observers of writes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

import pyinformer
from pyinformer import GroupVersionResource
from pyinformer.client.cluster import create_or_update, retry_on_conflict
from pyinformer.testing import APIServer, Fault
from tests.client.cluster.observing import RecordedWrites

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyinformer import Cluster, KubeObject
    from pyinformer.objects import JSONObject

CONFIG_MAPS = GroupVersionResource.of("v1", "configmaps")


def config_map(name: str = "a", **data: str) -> JSONObject:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@dataclasses.dataclass
class Model:
    """A config map as a dataclass."""

    metadata: dict[str, Any]
    data: dict[str, str]
    apiVersion: str = "v1"  # noqa: N815 - as JSON has it
    kind: str = "ConfigMap"


class Broken:
    """An observer that always raises, with the object in its error."""

    def wrote(self, obj: KubeObject, raw: bytes) -> None:
        """Raise."""
        raise ValueError(obj, raw)

    def deleted(self, key: str, uid: str, resource_version: str | None) -> None:
        """Raise."""
        raise KeyError(key)


async def test_a_cluster_has_a_name_that_its_repr_shows(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url, name="prod") as cluster:
        assert cluster.name == "prod"
        assert "prod" in repr(cluster)
    async with pyinformer.connect(server=apiserver.url) as cluster:
        assert cluster.name == ""


@pytest.mark.covers(
    "client-go rest: TestHTTPMethods", "kube-client src: resolve_typemeta_finds_resource"
)
async def test_dicts_objects_and_models_are_written_alike(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create(Model({"name": "a", "namespace": "default"}, {"a": "1"}))
        model = made.as_type(Model)
        model.data["b"] = "2"
        patched = await cluster.patch(made.to_dict(), model)
        replaced = await cluster.replace(patched)

        assert replaced.at("data", dict) == {"a": "1", "b": "2"}
        assert await cluster.delete(model) is None


async def test_a_model_is_not_an_original_to_patch(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        model = cast("JSONObject", Model({"name": "a"}, {}))
        with pytest.raises(pyinformer.errors.InvalidTypeError, match="may not know all fields"):
            await cluster.patch(model, model)
        with pytest.raises(pyinformer.errors.InvalidTypeError, match="may not know all fields"):
            await cluster.status(model, {})


async def test_an_edit_of_the_original_itself_is_refused(apiserver: APIServer) -> None:
    """The original would have the edit, too, so that nothing would be sent."""
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create(config_map())
        edited: JSONObject = made.to_dict()
        edited["data"] = {"new": "1"}
        edited["status"] = {"phase": "New"}
        sent = cluster.write_statistics().sent

        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match=r"edited: is `obj` itself.*deepcopy"
        ):
            await cluster.patch(edited, edited)
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match=r"status: is the status of `obj` itself"
        ):
            await cluster.status(edited, edited["status"])

        assert cluster.write_statistics().sent == sent


async def test_an_object_that_cannot_be_edited_may_be_patched_with_itself(
    apiserver: APIServer,
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create(config_map())
        assert await cluster.patch(made, made) == made


@pytest.mark.covers(
    "kube-client src: resolve_typemeta_finds_resource",
    "controller-runtime pkg/client: should fail if the object cannot be mapped to a GVK",
)
@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param({"kind": "ConfigMap"}, "must have apiVersion and kind", id="no-version"),
        pytest.param({"apiVersion": "v1"}, "must have apiVersion and kind", id="no-kind"),
        pytest.param({**config_map(), "apiVersion": "v1\r\nX: y"}, "api_version: ", id="header"),
        pytest.param({**config_map(), "apiVersion": "../v1"}, "api_version: ", id="path"),
        pytest.param({**config_map(), "metadata": None}, "must have metadata", id="no-metadata"),
        pytest.param(config_map(""), "must have a name", id="no-name"),
        pytest.param({**config_map(), "metadata": {"name": 3}}, "must be a text", id="number"),
        pytest.param(
            {**config_map(), "metadata": {"name": "a"}}, "namespace: .* must have one", id="nowhere"
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "namespace": "b"}},
            "cluster-scoped",
            id="cluster-scoped",
        ),
    ],
)
async def test_an_object_without_kind_or_name_is_refused(
    apiserver: APIServer, body: JSONObject, words: str
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match=words):
            await cluster.replace(body)


@pytest.mark.covers("kube-client src: scopes_should_allow_correct_interface")
async def test_a_namespace_is_named_once(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match="has another one in its metadata"
        ):
            await cluster.create(config_map(), namespace="other")


@pytest.mark.covers(
    "apimachinery pkg/api/meta: TestErrorMatching",
    "controller-runtime pkg/client: should fail if the object cannot be mapped to a GVK",
    "kube-client src: client_ext_list_get_pods_svcs",
)
async def test_a_kind_that_is_not_served_is_not_found(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        for version in ("v1", "example.com/v1"):
            with pytest.raises(pyinformer.NotFoundError, match=r"discover .*does not serve it"):
                await cluster.create({**config_map(), "apiVersion": version, "kind": "Ghost"})
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.discovery.resource(GroupVersionResource.of("v1", "ghosts"))


@pytest.mark.covers(
    "apimachinery pkg/api/meta: TestRESTMapperVersionAndKindForResource",
    "controller-runtime pkg/client/apiutil: TestLazyRestMapperProvider",
)
async def test_a_group_is_discovered_once_and_again_for_an_unknown_kind(
    apiserver: APIServer,
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        assert cluster.discovery.known(CONFIG_MAPS) is None
        await cluster.discovery.resource(CONFIG_MAPS)
        await cluster.discovery.kind("v1", "Pod")
        known = cluster.discovery.known(CONFIG_MAPS)
        assert known is not None
        assert (str(known.gvk), known.has_status) == ("v1/ConfigMap", False)
        assert len([one for one in apiserver.requests if one.path == "/api/v1"]) == 1


@pytest.mark.parametrize("version", ["", "../v1", "v1?watch=1", "v1/v1/v1"])
async def test_a_malformed_version_is_not_sent(apiserver: APIServer, version: str) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="api_version: "):
            await cluster.discovery.kind(version, "Pod")
        assert not apiserver.requests


@pytest.mark.parametrize("key", ["", "a/", "/a", "a/b/c"])
async def test_an_invalid_key_is_refused(apiserver: APIServer, key: str) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match="'namespace/name' nor 'name'"
        ):
            await cluster.get("v1", "configmaps", key)


@pytest.mark.covers("client-go rest: TestInvalidSegments")
@pytest.mark.parametrize("key", ["default/..", "default/.", "../a", "..", "default/\ud800"])
async def test_a_key_that_would_change_the_url_is_refused(apiserver: APIServer, key: str) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        for call in (cluster.get, cluster.delete):
            with pytest.raises(pyinformer.errors.InvalidArgumentError, match="key: "):
                await call("v1", "configmaps", key)
        namespace, _, name = key.rpartition("/")
        body = {**config_map(), "metadata": {"name": name, "namespace": namespace or "default"}}
        with pytest.raises(pyinformer.errors.InvalidArgumentError):
            await cluster.delete(body)
        assert {one.path for one in apiserver.requests} <= {"/api/v1"}


async def test_a_text_that_is_not_unicode_is_refused(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        for body in (config_map(a="\udcff"), config_map(**{"\udcff": "a"})):
            with pytest.raises(pyinformer.errors.InvalidArgumentError, match=r"obj: .*Unicode"):
                await cluster.create(body)
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match=r"field_manager: .*Unicode"
        ):
            await cluster.create(config_map(), field_manager="\udcff")
        assert apiserver.list("v1", "configmaps") == []


@pytest.mark.covers(
    "controller-runtime pkg/client: should delete an existing object from a go struct"
)
async def test_deleting_an_object_that_cannot_exist_is_an_error(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        for version, plural in (("v1", "configmapz"), ("ghost.example.com/v1", "ghosts")):
            with pytest.raises(pyinformer.NotFoundError, match=plural):
                await cluster.delete(version, plural, "default/a")
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match="key: 'a' must have a namespace"
        ):
            await cluster.delete("v1", "configmaps", "a")
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match=r"key: .* cluster-scoped"):
            await cluster.delete("v1", "nodes", "default/a")
        assert await cluster.delete("v1", "configmaps", "default/a") is None


_MEMBER: JSONObject = {
    "kind": "Status",
    "reason": "NotFound",
    "message": 'clusters.cluster.karmada.io "a" not found',
    "details": {"name": "a", "group": "cluster.karmada.io", "kind": "clusters"},
}


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(
            Fault(verb="delete", status=404, body=b"default backend - 404"), id="page-of-a-gateway"
        ),
        pytest.param(Fault(verb="delete", status=404, reason="NotFound"), id="unserved-resource"),
        pytest.param(
            Fault(verb="delete", status=404, body=msgspec.json.encode(_MEMBER)),
            id="object-of-a-proxy",
        ),
    ],
)
async def test_a_404_that_does_not_name_the_object_does_not_hide_it(
    apiserver: APIServer, fault: Fault
) -> None:
    apiserver.create(config_map())
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        pyinformer.SharedInformer(cluster, "v1", "configmaps") as informer,
    ):
        await informer.wait_for_cache_sync(timeout_seconds=100)
        cached = informer.lister.get("default/a")
        assert cached is not None
        apiserver.faults.add(fault)

        with pytest.raises(pyinformer.NotFoundError) as caught:
            await cluster.delete(cached)

        assert not caught.value.names_object
        assert informer.lister.get("default/a") is cached
        assert await cluster.delete(cached) is None
        assert informer.lister.get("default/a") is None
        assert await cluster.delete(cached) is None, "it is gone, as the answer says"


async def test_an_apply_needs_a_manager_and_the_object_itself(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="field_manager"):
            await cluster.apply(config_map(), field_manager="")
        other = await cluster.create(config_map("b"))
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match=r"current: .*is not 'default/a'"
        ):
            await cluster.apply_if_changed(config_map("a"), other, field_manager="me")


async def test_a_version_check_needs_a_resource_version(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        await cluster.create(config_map())
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="check_version"):
            await cluster.patch(config_map(), config_map(a="1"), check_version=True)


async def test_observers_are_called_only_for_their_resource_and_until_removed(
    apiserver: APIServer,
) -> None:
    heard, others = RecordedWrites(), RecordedWrites()
    async with pyinformer.connect(server=apiserver.url) as cluster:
        cluster.observe_writes(CONFIG_MAPS, heard)
        cluster.observe_writes(CONFIG_MAPS, heard)
        cluster.observe_writes(GroupVersionResource.of("v1", "pods"), others)
        made = await cluster.create(config_map())
        with pytest.raises(pyinformer.ConflictError):
            await cluster.create(config_map())
        cluster.forget_observer(CONFIG_MAPS, heard)
        cluster.forget_observer(CONFIG_MAPS, heard)
        await cluster.delete(made)

    assert heard.events == [("wrote", "default/a", made.metadata.resource_version)]
    assert others.events == []


async def test_an_observer_that_fails_fails_no_write_and_shows_no_content(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    heard = RecordedWrites()
    async with pyinformer.connect(server=apiserver.url) as cluster:
        cluster.observe_writes(CONFIG_MAPS, Broken())
        cluster.observe_writes(CONFIG_MAPS, heard)
        made = await cluster.create(config_map(password="hunter2"))
        await cluster.delete(made)
        assert cluster.write_statistics().observer_failures == 2

    assert len(heard.events) == 2
    assert "write observer failed" in caplog.text
    assert "hunter2" not in caplog.text


async def test_writes_made_elsewhere_can_be_recorded(apiserver: APIServer) -> None:
    heard = RecordedWrites()
    held = apiserver.create(config_map("held") | {"data": {"a": "1"}})
    held["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    held["metadata"]["finalizers"] = ["example.com/a"]
    gone = apiserver.create(config_map("gone"))
    uid = gone["metadata"]["uid"]
    async with pyinformer.connect(server=apiserver.url) as cluster:
        cluster.observe_writes(CONFIG_MAPS, heard)
        cluster.record_write("v1", "configmaps", gone)
        cluster.record_write("v1", "configmaps", msgspec.json.encode(held), deleting=True)
        cluster.record_write("v1", "configmaps", gone, deleting=True)
        cluster.record_delete("v1", "configmaps", "default/gone", uid=uid, resource_version="9")
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="uid"):
            cluster.record_delete("v1", "configmaps", "default/gone", uid="")
        with pytest.raises(pyinformer.errors.InvalidObjectError):
            cluster.record_write("v1", "configmaps", b"{}")

    assert heard.events == [
        ("wrote", "default/gone", gone["metadata"]["resourceVersion"]),
        ("wrote", "default/held", held["metadata"]["resourceVersion"]),
        ("deleted", "default/gone", uid),
        ("deleted", "default/gone", uid),
    ]


@pytest.mark.covers("client-go util/retry: TestRetryOnConflict")
async def test_a_conflict_on_every_write_ends(apiserver: APIServer) -> None:
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise pyinformer.ConflictError(status=409, reason="Conflict")

    with pytest.raises(pyinformer.ConflictError):
        await retry_on_conflict(attempt, attempts=3, backoff_seconds=0.0)
    assert attempts == 3


@pytest.mark.covers("client-go util/retry: TestRetryOnConflict")
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            pyinformer.ConflictError(status=409, reason="AlreadyExists"), id="already-exists"
        ),
        pytest.param(pyinformer.errors.ApplyConflictError(status=409), id="apply"),
        pytest.param(pyinformer.NotFoundError(status=404), id="not-found"),
    ],
)
async def test_an_error_that_no_retry_would_cure_is_not_retried(error: Exception) -> None:
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise error

    with pytest.raises(type(error)):
        await retry_on_conflict(attempt)
    assert attempts == 1


async def test_an_attempt_after_a_conflict_may_succeed() -> None:
    outcomes: list[Callable[[], Awaitable[str]]] = []

    async def conflict() -> str:
        raise pyinformer.ConflictError(status=409, reason="Conflict")

    async def success() -> str:
        return "done"

    outcomes += [conflict, conflict, success]

    def attempt() -> Awaitable[str]:
        return outcomes.pop(0)()

    assert await retry_on_conflict(attempt) == "done"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"attempts": 0}, id="attempts"),
        pytest.param({"backoff_seconds": -1.0}, id="backoff_seconds"),
    ],
)
async def test_zero_attempts_are_refused(options: dict[str, Any]) -> None:
    async def attempt() -> None:
        """Do nothing."""

    with pytest.raises(pyinformer.errors.InvalidArgumentError, match=next(iter(options))):
        await retry_on_conflict(attempt, **options)


async def test_an_attempt_that_cannot_be_awaited_is_refused() -> None:
    wrong: Any = lambda: 3  # noqa: E731 - a user's slip
    with pytest.raises(pyinformer.errors.InvalidTypeError, match=r"attempt: .*int"):
        await retry_on_conflict(wrong)


async def test_losing_the_race_to_create_leads_to_an_update(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        asked: list[str] = []

        def mutate(body: JSONObject) -> None:
            asked.append(str(body["metadata"].get("uid", "")))
            if len(asked) == 1:  # another client writes first
                apiserver.create(config_map(theirs="1"))
            body["data"] = {**body["data"], "mine": "1"}

        found = await create_or_update(cluster, config_map(), mutate)

        assert found.operation == "updated"
        assert found.object.at("data", dict) == {"mine": "1", "theirs": "1"}
        assert asked == ["", found.object.metadata.uid]


async def test_an_update_conflict_is_retried(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        existing = apiserver.create(config_map())
        calls = 0

        def mutate(body: JSONObject) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                apiserver.patch("v1", "configmaps", "a", {"data": {"theirs": "1"}}, "default")
            body["data"] = {**(body.get("data") or {}), "mine": "1"}

        found = await create_or_update(cluster, existing, mutate)

        assert found.object.at("data", dict) == {"mine": "1", "theirs": "1"}
        assert calls == 2


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: errors when MutateFn changes object"
)
async def test_a_mutate_function_that_returns_another_object_is_refused(
    apiserver: APIServer,
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        wrong: Any = lambda body: {**body, "data": {"a": "2"}}  # noqa: E731 - a user's slip
        with pytest.raises(pyinformer.errors.InvalidTypeError, match=r"mutate: .* in place"):
            await create_or_update(cluster, config_map(), wrong)
        same: Any = lambda body: body.update(data={"a": "3"}) or body  # noqa: E731
        found = await create_or_update(cluster, config_map(), same)
        assert found.object.at("data.a", str) == "3"


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: errors when MutateFn changes object"
)
async def test_an_invalid_mutate_function_is_refused(apiserver: APIServer) -> None:
    async def later(body: JSONObject) -> None:
        """Do nothing, asynchronously."""

    def rename(body: JSONObject) -> None:
        body["metadata"]["name"] = "b"

    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(pyinformer.errors.InvalidTypeError, match="mutate: must not be async"):
            await create_or_update(cluster, config_map(), later)  # type: ignore[arg-type] # wrong
        with pytest.raises(
            pyinformer.errors.InvalidArgumentError, match="must not change the name"
        ):
            await create_or_update(cluster, config_map(), rename)
        await create_or_update(cluster, config_map())
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="cannot be changed"):
            await create_or_update(cluster, config_map(), rename)
        assert (await keys(cluster)) == ["default/a"]


async def keys(cluster: Cluster) -> list[str]:
    async with pyinformer.SharedInformer(cluster, "v1", "configmaps") as informer:
        await informer.wait_for_cache_sync(timeout_seconds=100)
        return informer.lister.keys()


@pytest.mark.covers(
    "controller-runtime pkg/client/apiutil: TestLazyRestMapper_fetchGroupVersionResourcesLocked"
)
async def test_a_status_subresource_that_came_later_is_used(apiserver: APIServer) -> None:
    """A definition gets its subresource while the program runs, which knows the kind already."""
    version, metadata = "example.com/v1", {"name": "a", "namespace": "default"}
    apiserver.register(version, "Widget", "widgets", schema={"properties": {"spec": {}}})
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create({"apiVersion": version, "kind": "Widget", "metadata": metadata})
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="no status subresource"):
            await cluster.status(made, {"ready": True})
        apiserver.register(version, "Widget", "widgets", has_status=True)
        stored = await cluster.status(made, {"ready": True})
        assert stored.at("status.ready", bool)
        assert apiserver.requests[-1].path.endswith("/widgets/a/status")


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: errors when MutateFn changes object"
)
@pytest.mark.parametrize(
    ("api_version", "plural", "words"),
    [
        pytest.param("v1", "configmap", r"did you mean v1/configmaps\?", id="resource"),
        pytest.param("apps/v1beta9", "deployments", "does not serve", id="version"),
        pytest.param("appps/v1", "deployments", "does not serve", id="group"),
    ],
)
async def test_a_resource_that_is_not_served_is_not_taken_for_an_absent_object(
    apiserver: APIServer, api_version: str, plural: str, words: str
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(pyinformer.NotFoundError, match=words):
            await cluster.get(api_version, plural, "default/a")
        with pytest.raises(pyinformer.NotFoundError) as caught:
            await cluster.get("v1", "configmaps", "default/a")
    assert "serve" not in str(caught.value)


@pytest.mark.covers(
    "controller-runtime pkg/client/apiutil: TestLazyRestMapper_fetchGroupVersionResourcesLocked"
)
@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(lambda c, w: c.get("example.com/v1", "widgets", w.key), id="get"),
        pytest.param(lambda c, w: c.delete("example.com/v1", "widgets", w.key), id="delete"),
        pytest.param(lambda c, w: c.replace(w.to_dict()), id="replace"),
        pytest.param(lambda c, w: c.patch(w, {**w.to_dict(), "spec": {"x": 1}}), id="patch"),
        pytest.param(lambda c, w: c.status(w, {"ready": True}), id="status"),
        pytest.param(lambda c, w: c.apply(without_version(w), field_manager="test"), id="apply"),
        pytest.param(lambda c, w: c.create(without_version(w)), id="create"),
    ],
)
async def test_each_request_for_a_resource_that_is_no_longer_served_raises(
    apiserver: APIServer, request_of: Callable[[Cluster, KubeObject], Awaitable[object]]
) -> None:
    """The kind is known from before, so only the answer to the request shows it."""
    version, metadata = "example.com/v1", {"name": "a", "namespace": "default"}
    apiserver.register(version, "Widget", "widgets", has_status=True)
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create({"apiVersion": version, "kind": "Widget", "metadata": metadata})
        apiserver.unregister(version, "widgets")
        apiserver.register(version, "Widget", "widgetz")
        with pytest.raises(
            pyinformer.NotFoundError, match=r"does not serve it; did you mean .*/widgetz\?"
        ):
            await request_of(cluster, made)


async def test_an_absent_object_of_a_served_resource_costs_no_discovery(
    apiserver: APIServer,
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(pyinformer.NotFoundError) as caught:
            await cluster.get("v1", "configmaps", "default/a")
    assert caught.value.names_object
    assert [request.path for request in apiserver.requests if request.path == "/api/v1"] == []


def without_version(obj: KubeObject) -> JSONObject:
    """Return an object as its creator writes it."""
    return {
        "apiVersion": obj.gvk.api_version,
        "kind": obj.gvk.kind,
        "metadata": {"name": obj.metadata.name, "namespace": obj.metadata.namespace},
    }
