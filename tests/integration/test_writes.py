"""Reads and writes of single objects: what each verb does, and what both servers answer to it.

The answers decide what this process's reads will show, so each promise is held against what an
observer of the writes received, too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

import pyinformer
from pyinformer import GroupVersionResource
from pyinformer.client.cluster import create_or_update, retry_on_conflict
from pyinformer.errors import InvalidArgumentError, InvalidError
from tests.client.cluster.observing import RecordedWrites
from tests.integration.objects import CONFIG_MAPS, NODES, PODS, SECRETS, pod_on, unique
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer import Cluster, KubeObject
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

HOLD = "suite.example.com/hold"
_TWO_CONTAINERS = {
    "containers": [
        {"name": "main", "image": "example.com/app:1", "env": [{"name": "A", "value": "1"}]},
        {"name": "side", "image": "example.com/side:1", "args": ["--quiet"]},
    ]
}


class Container(msgspec.Struct):
    """The little that a controller knows of a container."""

    name: str
    image: str


class PodSpec(msgspec.Struct):
    """The little that a controller knows of a pod's spec."""

    containers: list[Container]


class Pod(msgspec.Struct):
    """The little that a controller knows of a pod."""

    spec: PodSpec


def labelless(name: str, namespace: str, **data: str) -> JSONObject:
    """Return a config map without labels: even empty ones are owned by who applies them."""
    made = CONFIG_MAPS.make(name, namespace)
    del made["metadata"]["labels"]
    return {**made, "data": data}


def observed(cluster: Cluster, plural: str) -> RecordedWrites:
    heard = RecordedWrites()
    cluster.observe_writes(GroupVersionResource.of("v1", plural), heard)
    return heard


def wrote(obj: KubeObject) -> tuple[str, str, str]:
    return ("wrote", str(obj.key), obj.metadata.resource_version)


def deleted(obj: KubeObject) -> tuple[str, str, str]:
    return ("deleted", str(obj.key), obj.metadata.uid)


@pytest.mark.covers(
    "controller-runtime pkg/client: should create a new object from a go struct",
    "controller-runtime pkg/client: should fetch an existing object for a go struct",
    "controller-runtime pkg/client/fake: mutating operations return the updated object",
    "kube-client src: client_ext_list_get_pods_svcs",
    "controller-runtime pkg/client: should delete an existing object from a go struct",
    "controller-runtime pkg/client: should update an existing object from a go struct",
)
async def test_an_object_is_created_read_replaced_and_deleted(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        heard = observed(cluster, "configmaps")

        created = await cluster.create(CONFIG_MAPS.make("a"), namespace=namespace)
        read = await cluster.get("v1", "configmaps", f"{namespace}/a")
        body = created.to_dict()
        body["data"] = {"key": "other"}
        replaced = await cluster.replace(body)
        again = await cluster.replace(replaced)

        assert read == created
        assert replaced.at("data.key", str) == "other"
        assert replaced.metadata.resource_version != created.metadata.resource_version
        assert again.metadata.resource_version == replaced.metadata.resource_version
        assert cluster.write_statistics().unchanged == 1
        assert await cluster.delete(again) is None
        assert await cluster.delete(again) is None
        assert await cluster.delete("v1", "configmaps", created.key) is None
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.get("v1", "configmaps", created.key)
        assert heard.events == [
            wrote(created),
            wrote(replaced),
            wrote(replaced),
            deleted(created),
            deleted(created),
        ]


@pytest.mark.covers("controller-runtime pkg/client: should create a new object from a go struct")
async def test_a_name_is_generated_and_a_name_that_exists_is_a_conflict(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        body = CONFIG_MAPS.make("", namespace)
        body["metadata"] = {"generateName": "made-", "namespace": namespace}
        created = await cluster.create(body)

        assert created.metadata.name.startswith("made-")
        with pytest.raises(pyinformer.ConflictError) as raised:
            await cluster.create(CONFIG_MAPS.make(created.metadata.name, namespace))
        assert raised.value.reason == "AlreadyExists"


@pytest.mark.covers(
    "controller-runtime pkg/client: should update an existing object from a go struct"
)
async def test_a_replace_of_an_old_version_is_a_conflict(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        old = await cluster.create(CONFIG_MAPS.make("a", namespace))
        await cluster.patch(old, {**old.to_dict(), "data": {"key": "newer"}})

        with pytest.raises(pyinformer.ConflictError) as raised:
            await cluster.replace(old)
        assert raised.value.reason == "Conflict"
        edited = {**old.to_dict(), "data": {"key": "mine"}}
        with pytest.raises(pyinformer.ConflictError):
            await cluster.patch(old, edited, check_version=True)
        assert (await cluster.patch(old, edited)).at("data.key", str) == "mine"


async def test_an_edit_through_a_model_keeps_unknown_fields(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        before = await cluster.create(PODS.make("a", namespace, spec=_TWO_CONTAINERS))
        pod = before.as_type(Pod)
        pod.spec.containers[1].image = "example.com/side:2"

        after = await cluster.patch(before, pod)

        assert {str(change) for change in pyinformer.diff(before, after)} <= {
            "spec.containers[1].image",
            "metadata.generation",
        }
        assert after.at("spec.containers", list[Container])[1].image == "example.com/side:2"
        assert await cluster.patch(after, after.as_type(Pod)) == after
        assert cluster.write_statistics().skipped == 1


@pytest.mark.covers(
    "controller-runtime pkg/client: should update status of an existing object",
    "controller-runtime pkg/client/fake: mutating operations return the updated object",
)
async def test_a_status_is_written_by_itself_and_only_its_differences(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        heard = observed(cluster, "pods")
        pod = await cluster.create(PODS.make("a", namespace))
        other = {**(pod.to_dict().get("status") or {}), "message": "mine"}

        written = await cluster.status(pod, other)
        same = await cluster.status(written, written.to_dict()["status"])

        assert written.at("status.message", str) == "mine"
        assert same == written
        edited = written.to_dict()
        edited["status"]["message"] = "through patch"
        with pytest.raises(pyinformer.errors.InvalidArgumentError, match="status"):
            await cluster.patch(written, edited)
        assert heard.events == [wrote(pod), wrote(written)]


@pytest.mark.covers(
    "controller-runtime pkg/client: should delete an existing object from a go struct"
)
async def test_an_object_with_finalizers_goes_with_the_last_of_them(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        heard = observed(cluster, "configmaps")
        body = CONFIG_MAPS.make("a", namespace)
        body["metadata"]["finalizers"] = [HOLD]
        created = await cluster.create(body)

        held = await cluster.delete(created)

        assert held is not None
        assert held.metadata.deletion_timestamp is not None
        assert heard.events == [wrote(created), wrote(held)]
        freed = held.to_dict()
        freed["metadata"]["finalizers"] = []
        last = await cluster.patch(held, freed)
        assert last.metadata.uid == created.metadata.uid
        assert heard.events[2:] == [deleted(created)]
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.get("v1", "configmaps", created.key)


async def test_a_pod_with_a_grace_period_stays_until_that_is_over(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        heard = observed(cluster, "pods")
        idle = await cluster.create(PODS.make("idle", namespace))
        bound = await cluster.create(pod_on("node-1", "bound", namespace))
        del heard.events[:]

        assert await cluster.delete(idle) is None
        ending = await cluster.delete(bound)
        assert ending is not None
        assert await cluster.delete(ending, grace_period_seconds=0) is None

        assert heard.events == [deleted(idle), wrote(ending), deleted(bound)]


async def test_a_deletion_answered_with_the_object_may_be_final(
    server: Server,
) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        heard = observed(cluster, "services")
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
        body["spec"] = {"ports": [{"port": 80}], "clusterIP": "None"}
        service = await cluster.create(body, namespace=namespace)

        assert await cluster.delete(service) is None
        assert heard.events[1:] == [deleted(service)]


async def test_a_namespace_that_ends_is_still_there(server: Server) -> None:
    name = server.namespace()
    async with server.connect() as cluster:
        heard = observed(cluster, "namespaces")
        namespace = await cluster.get("v1", "namespaces", name)

        ending = await cluster.delete(namespace)

        assert ending is not None
        assert heard.events == [wrote(ending)]


async def test_a_deletion_spares_a_successor_and_a_newer_version(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        first = await cluster.create(CONFIG_MAPS.make("a", namespace))
        assert await cluster.delete(first) is None
        second = await cluster.create(CONFIG_MAPS.make("a", namespace))
        heard = observed(cluster, "configmaps")

        with pytest.raises(pyinformer.ConflictError):
            await cluster.delete(first)
        newer = await cluster.patch(second, {**second.to_dict(), "data": {"key": "newer"}})
        with pytest.raises(pyinformer.ConflictError):
            await cluster.delete(second, check_version=True)
        assert await cluster.delete(first, check_uid=False) is None

        assert heard.events == [wrote(newer), deleted(second)]


async def test_an_edit_of_an_object_does_not_hit_its_successor(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        first = await cluster.create(PODS.make("a", namespace))
        assert await cluster.delete(first) is None
        second = await cluster.create(PODS.make("a", namespace))
        edited = first.to_dict()
        edited["metadata"]["labels"] = {"app": "web"}

        with pytest.raises(pyinformer.ConflictError, match="another object of that name"):
            await cluster.patch(first, edited)
        with pytest.raises(pyinformer.ConflictError, match="another object of that name"):
            await cluster.status(first, {"message": "mine"})
        with pytest.raises(pyinformer.ConflictError):
            await cluster.replace(first)

        assert await cluster.get("v1", "pods", first.key) == second
        patched = await cluster.patch(first, edited, check_uid=False)
        assert patched.metadata.uid == second.metadata.uid


@pytest.mark.covers(
    "controller-runtime pkg/client: should not create a new object, global option",
    "controller-runtime pkg/client/fake: with the DryRun option / should not create a new",
    "controller-runtime pkg/client: should not create an object",
)
async def test_a_dry_run_is_checked_and_changes_nothing(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        kept = await cluster.create(CONFIG_MAPS.make("kept", namespace))
        heard = observed(cluster, "configmaps")

        await cluster.create(CONFIG_MAPS.make("a", namespace), dry_run=True)
        changed = {**kept.to_dict(), "data": {"key": "x"}}
        answers = [
            await cluster.replace(changed, dry_run=True),
            await cluster.patch(kept, changed, dry_run=True),
        ]
        await cluster.delete(kept, dry_run=True)
        await cluster.delete_collection("v1", "configmaps", namespace=namespace, dry_run=True)

        assert [one.at("data.key", str) for one in answers] == ["x", "x"]
        assert await cluster.get("v1", "configmaps", kept.key) == kept
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.get("v1", "configmaps", f"{namespace}/a")
        assert heard.events == []


@pytest.mark.covers("controller-runtime pkg/client: should not create an object")
async def test_a_dry_run_changes_no_status(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        kept = await cluster.create(pod_on("none", "a", namespace))
        heard = observed(cluster, "pods")
        status: JSONObject = {"message": "x"}
        identity = {"apiVersion": "v1", "kind": "Pod"}
        applied = {**identity, "metadata": {"name": "a", "namespace": namespace}, "status": status}

        answers = [
            await cluster.status(kept, status, dry_run=True),
            await cluster.replace(
                {**kept.to_dict(), "status": status}, subresource="status", dry_run=True
            ),
            await cluster.apply(applied, subresource="status", field_manager="suite", dry_run=True),
        ]

        assert [one.at("status.message", str) for one in answers] == ["x", "x", "x"]
        assert await cluster.get("v1", "pods", kept.key) == kept
        assert heard.events == []


@pytest.mark.covers("controller-runtime pkg/client: should refuse a create request for an invalid")
async def test_a_dry_run_refuses_what_is_invalid(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        kept = await cluster.create(CONFIG_MAPS.make("kept", namespace))
        edited = kept.to_dict()
        edited["metadata"]["labels"] = {"x": "not a label"}

        with pytest.raises(InvalidError, match="Not_A_Name"):
            await cluster.create(CONFIG_MAPS.make("Not_A_Name", namespace), dry_run=True)
        with pytest.raises(InvalidError, match="not a label"):
            await cluster.patch(kept, edited, dry_run=True)


@pytest.mark.covers(
    "controller-runtime pkg/client: should create and update a configMap using SSA",
    "controller-runtime pkg/client/fake: mutating operations return the updated object",
)
async def test_an_apply_creates_changes_and_leaves_the_rest_to_others(server: Server) -> None:
    namespace = server.namespace()
    desired = labelless("a", namespace, mine="1")
    async with server.connect() as cluster:
        created = await cluster.apply(desired, field_manager="suite")
        again = await cluster.apply(desired, field_manager="suite")
        theirs = again.to_dict()
        theirs["data"]["theirs"] = "1"
        both = await cluster.patch(again, theirs, field_manager="other")
        desired["data"] = {"mine": "2"}
        after = await cluster.apply(desired, field_manager="suite")
        del desired["data"]
        without = await cluster.apply(desired, field_manager="suite")

        assert again.metadata.resource_version == created.metadata.resource_version
        assert both.at("data", dict) == {"mine": "1", "theirs": "1"}
        assert after.at("data", dict) == {"mine": "2", "theirs": "1"}
        assert without.at("data", dict) == {"theirs": "1"}


@pytest.mark.covers("controller-runtime pkg/client: should create and update a configMap using SSA")
async def test_an_apply_of_what_others_own_is_a_typed_conflict(server: Server) -> None:
    namespace = server.namespace()
    desired = labelless("a", namespace, mine="1")
    async with server.connect() as cluster:
        await cluster.apply(desired, field_manager="first")
        desired["data"] = {"mine": "2"}

        with pytest.raises(pyinformer.errors.ApplyConflictError) as raised:
            await cluster.apply(desired, field_manager="second")

        assert raised.value.conflicts == (pyinformer.errors.FieldConflict(".data.mine", "first"),)
        forced = await cluster.apply(desired, field_manager="second", force=True)
        assert forced.at("data.mine", str) == "2"


async def test_an_unchanged_configuration_is_not_applied_again(server: Server) -> None:
    namespace = server.namespace()
    desired = PODS.make("a", namespace, spec=_TWO_CONTAINERS)
    async with server.connect() as cluster:
        first = await cluster.apply_if_changed(desired, None, field_manager="suite")
        sent = cluster.write_statistics().sent

        foreign = first.to_dict()
        foreign["metadata"]["annotations"] = {"suite.example.com/n": "1"}
        changed = await cluster.patch(first, foreign, field_manager="other")
        current = await cluster.get("v1", "pods", first.key)
        for known in (first, changed, current):
            assert await cluster.apply_if_changed(desired, known, field_manager="suite") == known
        assert cluster.write_statistics().sent == sent + 1

        foreign["spec"]["containers"][0]["image"] = "example.com/theirs:1"
        stolen = await cluster.patch(changed, foreign, field_manager="other")
        mended = await cluster.apply_if_changed(desired, stolen, field_manager="suite", force=True)
        assert mended.at("spec.containers", list[Container])[0].image == "example.com/app:1"


async def test_a_foreign_change_of_a_secret_that_was_applied_as_text_is_undone(
    server: Server,
) -> None:
    """Servers return no stringData, so its values are looked for where the server keeps them."""
    namespace = server.namespace()
    desired = SECRETS.make("a", namespace, stringData={"password": "good"})
    good = {"key": "c2VjcmV0", "password": "Z29vZA=="}
    async with server.connect() as cluster:
        known = await cluster.apply_if_changed(desired, None, field_manager="suite")
        for theirs in ({**good, "password": "ZXZpbA=="}, {"key": "c2VjcmV0"}):
            sent = cluster.write_statistics().sent
            assert await cluster.apply_if_changed(desired, known, field_manager="suite") == known
            assert cluster.write_statistics().sent == sent
            changed = await cluster.patch(
                known, {**known.to_dict(), "data": theirs}, field_manager="other"
            )

            known = await cluster.apply_if_changed(
                desired, changed, field_manager="suite", force=True
            )
            assert known.at("data", dict) == good


async def test_a_map_that_is_owned_as_a_whole_has_no_room_for_others(server: Server) -> None:
    """A selector is one field; labels are not."""
    namespace = server.namespace()
    desired: JSONObject = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a", "namespace": namespace, "labels": {"app": "web"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    async with server.connect() as cluster:
        known = await cluster.apply_if_changed(desired, None, field_manager="suite")
        labelled = known.to_dict()
        labelled["metadata"]["labels"]["team"] = "a"
        known = await cluster.patch(known, labelled, field_manager="other")
        assert await cluster.apply_if_changed(desired, known, field_manager="suite") == known

        misled = known.to_dict()
        misled["spec"]["selector"]["no"] = "pod"
        changed = await cluster.patch(known, misled, field_manager="other")
        mended = await cluster.apply_if_changed(desired, changed, field_manager="suite", force=True)
        assert mended.at("spec.selector", dict) == {"app": "web"}
        assert mended.at("metadata.labels", dict) == {"app": "web", "team": "a"}


async def test_a_list_that_is_owned_as_a_whole_has_no_room_for_others(server: Server) -> None:
    """The subjects of a role binding are one field; those who add to it change ours."""
    namespace = server.namespace()
    group = "rbac.authorization.k8s.io"
    desired: JSONObject = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "a", "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "ours"}],
    }
    async with server.connect() as cluster:
        first = await cluster.apply_if_changed(desired, None, field_manager="suite")
        assert await cluster.apply_if_changed(desired, first, field_manager="suite") == first
        edited = first.to_dict()
        edited["subjects"].append({"apiGroup": group, "kind": "User", "name": "theirs"})
        added = await cluster.patch(first, edited, field_manager="other")

        mended = await cluster.apply_if_changed(desired, added, field_manager="suite", force=True)
        assert [one["name"] for one in mended.to_dict()["subjects"]] == ["ours"]


@pytest.mark.parametrize("before", [True, False], ids=["dropped", "added"])
async def test_an_empty_selector_is_not_an_absent_one(server: Server, *, before: bool) -> None:
    """It lets all namespaces in, where an absent one lets in the policy's own."""

    def policy(*, all_namespaces: bool) -> JSONObject:
        peer: JSONObject = {"podSelector": {"matchLabels": {"a": "b"}}}
        if all_namespaces:
            peer["namespaceSelector"] = {}
        spec = {"podSelector": {}, "ingress": [{"from": [peer]}], "policyTypes": ["Ingress"]}
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": "a", "namespace": namespace},
            "spec": spec,
        }

    def is_open(obj: KubeObject) -> bool:
        return "namespaceSelector" in obj.to_dict()["spec"]["ingress"][0]["from"][0]

    namespace = server.namespace()
    async with server.connect() as cluster:
        first = await cluster.apply_if_changed(
            policy(all_namespaces=before), None, field_manager="suite"
        )
        desired = policy(all_namespaces=not before)
        second = await cluster.apply_if_changed(desired, first, field_manager="suite")
        assert (is_open(first), is_open(second)) == (before, not before)
        assert await cluster.apply_if_changed(desired, second, field_manager="suite") == second
        edited = first.to_dict()
        changed = await cluster.patch(
            second, {**second.to_dict(), "spec": edited["spec"]}, field_manager="other"
        )
        assert is_open(changed) is before
        third = await cluster.apply_if_changed(desired, changed, field_manager="suite", force=True)
        assert is_open(third) is not before


async def test_an_object_that_a_transform_has_cut_is_applied_again_only_after_a_change(
    server: Server,
) -> None:
    """The rest cannot be compared, but the version of the last response stands for all of it."""

    def cut(body: JSONObject) -> JSONObject:
        return {**body, "data": {}}

    namespace = server.namespace()
    desired = labelless("a", namespace, mine="1")
    async with server.connect() as cluster:
        informer = pyinformer.SharedInformer(
            cluster, "v1", "configmaps", namespaces=namespace, transform=cut
        )
        async with informer:
            await informer.wait_for_cache_sync(timeout_seconds=100)

            async def applied_at(version: str) -> str:
                """Apply once the cache has a version, and return the version in the response."""
                await until(lambda: cached_version() == version)
                current = informer.lister[f"{namespace}/a"]
                assert current.at("data", dict) == {}
                found = await cluster.apply_if_changed(desired, current, field_manager="suite")
                return found.metadata.resource_version

            def cached_version() -> str | None:
                found = informer.lister.get(f"{namespace}/a")
                return None if found is None else found.metadata.resource_version

            made = await cluster.apply_if_changed(desired, None, field_manager="suite")
            version = made.metadata.resource_version
            sent = cluster.write_statistics().sent
            for _ in range(3):
                assert await applied_at(version) == version
            assert cluster.write_statistics().sent == sent

            changed = {"metadata": {"labels": {"by": "others"}}}
            theirs = server.api.patch("v1", "configmaps", "a", changed, namespace)
            version = theirs["metadata"]["resourceVersion"]
            for _ in range(3):
                assert await applied_at(version) == version
            assert cluster.write_statistics().sent == sent + 1


async def test_after_a_restart_everything_is_applied_once(server: Server) -> None:
    namespace = server.namespace()
    desired = CONFIG_MAPS.make("a", namespace)
    async with server.connect() as cluster:
        first = await cluster.apply_if_changed(desired, None, field_manager="suite")
    async with server.connect() as cluster:
        for _ in range(2):
            after = await cluster.apply_if_changed(desired, first, field_manager="suite")
            assert after.metadata.resource_version == first.metadata.resource_version
        statistics = cluster.write_statistics()
        assert (statistics.sent, statistics.unchanged, statistics.skipped) == (1, 1, 1)


@pytest.mark.covers(
    "controller-runtime pkg/controller/controllerutil: creates a new object if one doesn't",
    "kube-client src: entry_create_missing_object",
    "client-go rest: TestWasCreated",
)
async def test_an_object_is_created_updated_and_then_left_alone(server: Server) -> None:
    namespace = server.namespace()
    desired = CONFIG_MAPS.make("a", namespace)

    def mutate(body: JSONObject) -> None:
        body.setdefault("data", {})["key"] = "new"

    async with server.connect() as cluster:
        created = await create_or_update(cluster, desired, mutate)
        same = await create_or_update(cluster, desired, mutate)
        await cluster.patch(same.object, {**same.object.to_dict(), "data": {"key": "x", "b": "1"}})
        updated = await create_or_update(cluster, desired, mutate)

        assert [one.operation for one in (created, same, updated)] == [
            "created",
            "unchanged",
            "updated",
        ]
        assert updated.object.at("data", dict) == {"key": "new", "b": "1"}


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should allow concurrent patches to a configMap"
)
async def test_no_concurrent_increment_is_lost(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        start = CONFIG_MAPS.make("a", namespace)
        start["data"] = {"n": "0"}
        key = (await cluster.create(start)).key

        async def count() -> None:
            read = await cluster.get("v1", "configmaps", key)
            body = read.to_dict()
            body["data"]["n"] = str(int(body["data"]["n"]) + 1)
            await cluster.replace(body)

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(retry_on_conflict(count, attempts=50))

        assert (await cluster.get("v1", "configmaps", key)).at("data.n", str) == "8"


async def test_discovery_finds_kinds_resources_and_new_definitions(server: Server) -> None:
    async with server.connect() as cluster:
        nodes = await cluster.discovery.resource(GroupVersionResource.of("v1", "nodes"))
        pods = await cluster.discovery.kind("v1", "Pod")
        assert (nodes.kind, nodes.namespaced, nodes.has_status) == ("Node", False, True)
        assert (str(pods.resource), pods.namespaced) == ("pods.v1", True)

        kind = f"New{unique('x').partition('-')[2]}"
        version = f"{kind.lower()}.example.com/v1"
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.discovery.kind(version, kind)
        await asyncio.to_thread(
            server.api.register, version, kind, f"{kind.lower()}s", namespaced=False
        )
        found = await cluster.discovery.kind(version, kind)
        assert found.resource.resource == f"{kind.lower()}s"
        made = await cluster.create(
            {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {"size": 1}}
        )
        made = await cluster.status(made, {"ready": True})  # it has no subresource
        assert made.at("status.ready", bool)


@pytest.mark.covers(
    "controller-runtime pkg/client: should update an existing object from a go struct",
    "controller-runtime pkg/client: should fetch an existing object for a go struct",
)
async def test_a_cluster_scoped_object_has_no_namespace(server: Server) -> None:
    async with server.connect() as cluster:
        node = await cluster.create(NODES.make(unique("node")))
        assert "/" not in node.key
        assert await cluster.delete("v1", "nodes", node.key) is None


async def test_no_secret_is_in_an_error_or_a_repr(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        secret = await cluster.create(SECRETS.make("a", namespace))
        with pytest.raises(pyinformer.ConflictError) as raised:
            await cluster.create(SECRETS.make("a", namespace))

        texts = (repr(secret), repr(raised.value), repr(cluster), caplog.text)
        assert not [text for text in texts if "c2VjcmV0" in text]


async def test_an_error_names_an_object_that_is_called_like_an_annotation(server: Server) -> None:
    namespace = server.namespace()
    body = CONFIG_MAPS.make("original-db", namespace)
    async with server.connect() as cluster:
        with pytest.raises(pyinformer.NotFoundError, match='"original-db" not found'):
            await cluster.get("v1", "configmaps", f"{namespace}/original-db")
        await cluster.create(body)
        with pytest.raises(pyinformer.ConflictError, match='"original-db" already exists'):
            await cluster.create(body)


async def test_an_apply_with_a_status_that_is_written_apart_is_refused(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        body = PODS.make("a", namespace)
        wanted = {**body, "status": {"phase": "Running"}}
        with pytest.raises(InvalidArgumentError, match=r"subresource='status'.*nothing was sent"):
            await cluster.apply(wanted, field_manager="m")
        assert [one async for one in cluster.list("v1", "pods", namespace=namespace)] == []

        empty = await cluster.apply({**body, "status": {"conditions": []}}, field_manager="m")
        with pytest.raises(InvalidArgumentError, match=r"status\(\)"):
            await cluster.apply_if_changed(wanted, empty, field_manager="m")
        wanted["metadata"] = {"name": "a", "namespace": namespace}
        applied = await cluster.apply(wanted, field_manager="m", subresource="status")
        assert applied.at("status.phase", str) == "Running"


@pytest.mark.parametrize("verb", ["create", "replace"])
async def test_a_status_that_a_write_of_the_object_drops_is_reported_once(
    server: Server, verb: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with server.connect() as cluster:
        body = PODS.make("a", server.namespace())
        if verb == "replace":
            body = (await cluster.create(body)).to_dict()
            await cluster.replace(body)  # with the status that it has
        assert not cluster.write_statistics().unstored_fields
        write = getattr(cluster, verb)
        body = {**body, "status": {**body.get("status", {}), "message": "mine", "reason": ""}}
        written = await write(body, dry_run=True)
        await write(body, dry_run=True)
        assert written.at("status.message", default=None) is None
        assert cluster.write_statistics().unstored_fields == {"pods.v1": ("status.message",)}
        warnings = [one.message for one in caplog.records if "status.message" in one.message]
        assert len(warnings) == 1
        assert "status()" in warnings[0]


_ODD_TEXTS = ["", "\r\n", "cGFz\ncw==", "cGFzcw==", "cGFzcw", "cGFzcw=", "QR==", "QQ==QQ==", "===="]


@pytest.mark.parametrize("value", [*_ODD_TEXTS, "pass", "p@ss word", "ab-_", "é", "A"])
async def test_what_is_no_base64_in_a_secret_is_refused_as_the_server_would(
    server: Server, value: str
) -> None:
    """The error names the field; that of the server may quote the value."""
    namespace, name = server.namespace(), unique("login")
    body = {**SECRETS.make(name, namespace), "data": {"password": value}}
    async with server.connect() as cluster:
        try:
            await cluster.request("POST", f"/api/v1/namespaces/{namespace}/secrets", body=body)
        except pyinformer.errors.APIStatusError:
            with pytest.raises(InvalidArgumentError, match=r"data\.password of .*stringData"):
                await cluster.apply(body, field_manager="suite")
        else:
            await cluster.apply(body, field_manager="suite", force=True)


async def test_a_secret_is_deleted_by_a_manifest_with_plain_text(server: Server) -> None:
    """What is not written is not checked; a patch is."""
    namespace, name = server.namespace(), unique("login")
    manifest = {**SECRETS.make(name, namespace), "data": {"password": "p@ss word"}}
    async with server.connect() as cluster:
        found = await cluster.create({**manifest, "data": {"password": "cGFzcw=="}})
        with pytest.raises(InvalidArgumentError, match=r"data\.password of .*stringData"):
            await cluster.patch(found, {**found.to_dict(), "data": {"password": "p@ss word"}})
        await cluster.delete(manifest)
        with pytest.raises(pyinformer.NotFoundError):
            await cluster.get("v1", "secrets", f"{namespace}/{name}")
