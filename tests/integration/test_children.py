"""Children on both servers: a crash after any write loses none, and kubectl selects them."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import NotFoundError
from pyinformer.client.transport import CURRENT_GUARD
from pyinformer.errors import FencedError, InvalidArgumentError
from tests.foreign.kubectl import Kubectl
from tests.integration.objects import unique
from tests.integration.servers import RealServer
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer import KubeObject, Request, Result
    from pyinformer.children import Children
    from pyinformer.controller import Outcome
    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer
    from tests.integration.servers import Server

_OWNED = [("v1", "secrets"), ("v1", "services")]
_PART_OF = "applyset.kubernetes.io/part-of"
_UNLIMITED = 10_000
_MOST_WRITES = 20
_SECOND_WRITES = 5  # of the change: the owner's marks, one new child, two deletions


class _Writes:
    """Lets a number of writes leave; those after them are of a process that has crashed."""

    def __init__(self, allowed: int) -> None:
        self.left = allowed
        self.has_refused = False

    def check(self) -> None:
        """Refuse if none is left."""
        if self.left <= 0:
            self.has_refused = True
            raise FencedError(lease="suite/crashed", reason="the process has crashed")

    def on_end(self, _: Callable[[], None]) -> Callable[[], None]:
        """Nothing is cut off: each write is answered before the next is sent."""
        return lambda: None

    def record_write(self, _resource: str, _version: str) -> None:
        """Count one that was answered."""
        self.left -= 1

    def record_refusal(self, _: str) -> None:
        """Nothing to do."""


class _Sets:
    """A program whose function wants, for a ConfigMap, what the test says."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.namespace, self.elsewhere = server.namespace(), server.namespace()
        self.team = unique("team")
        self.name = "owner"
        self.owned = _OWNED
        self.stages: dict[str, list[JSONObject]] = {}

    @property
    def key(self) -> str:
        """The key of the owner."""
        return f"{self.namespace}/{self.name}"

    def create_owner(self, name: str) -> None:
        """Create the next owner."""
        self.name = name
        metadata = {"name": name, "namespace": self.namespace, "labels": {"team": self.team}}
        self.server.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    async def reconcile(
        self, request: Request, obj: KubeObject[Any] | None, children: Children
    ) -> Result | None:
        """Apply all stages."""
        for stage, objects in self.stages.items():
            await children.apply(objects, stage=stage)
        return None

    def operator(self) -> pyinformer.Operator:
        """Return a new process's operator."""
        app = pyinformer.Operator("suite-operator")
        app.reconcile("v1", "configmaps", owns=self.owned, label_selector=f"team={self.team}")(
            self.reconcile
        )
        return app

    async def life(
        self, allowed: int = _UNLIMITED, *, done: Callable[[], bool] = lambda: True
    ) -> bool:
        """Reconcile the owner in a new process until all is done, or it crashes.

        Returns:
            Whether it has crashed: it wanted another write than were allowed.
        """
        writes = _Writes(allowed)
        async with self.server.connect() as cluster:
            factory = pyinformer.SharedInformerFactory(cluster)
            (controller,) = self.operator().controllers(cluster, factory)
            async with factory:
                await factory.start()
                await factory.wait_for_cache_sync(timeout_seconds=30)
                token = CURRENT_GUARD.set(writes)
                try:
                    while True:
                        outcome: Outcome = await controller.reconcile_once(self.key)
                        if writes.has_refused:
                            return True
                        if outcome.error is not None:
                            raise outcome.error
                        self.collect()
                        if done():
                            return False
                        await pause(0.05)
                finally:
                    CURRENT_GUARD.reset(token)

    def members(self) -> dict[str, JSONObject]:
        """Return the secrets of the owner's set, by key, of any writer."""
        found = {}
        for namespace in (self.namespace, self.elsewhere):
            for one in self.server.api.list("v1", "secrets", namespace=namespace):
                if _PART_OF in one["metadata"].get("labels", {}):
                    found[f"{namespace}/{one['metadata']['name']}"] = one
        return found

    def collect(self) -> None:
        """Do what a garbage collector does: the server under test may have none."""
        for one in self.members().values():
            meta = one["metadata"]
            if meta.get("deletionTimestamp") and meta.get("finalizers"):
                patch = {"metadata": {"finalizers": None}}
                try:
                    self.server.api.patch(
                        "v1", "secrets", meta["name"], patch, namespace=meta["namespace"]
                    )
                except NotFoundError:  # the embedded server collects as well
                    continue

    def owner_exists(self) -> bool:
        """Return whether the owner is there."""
        try:
            self.server.api.get("v1", "configmaps", self.name, self.namespace)
        except NotFoundError:
            return False
        return True


@pytest.fixture
def sets(server: Server) -> _Sets:
    """A program and its owner."""
    return _Sets(server)


def _secret(name: str, namespace: str = "") -> JSONObject:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, **place}}


def _are(wanted: set[str], members: Callable[[], dict[str, JSONObject]]) -> bool:
    return members().keys() == wanted


async def test_a_crash_after_any_write_leaves_nothing_behind_when_the_set_changes(
    sets: _Sets,
) -> None:
    """Every cut of the first set, and every cut of the change to the second one."""
    here, there = sets.namespace, sets.elsewhere
    for first_cut in range(_MOST_WRITES):
        sets.create_owner(f"changed-{first_cut}")
        name = sets.name
        first = {
            "network": [_secret(f"{name}-net"), _secret(f"{name}-old")],
            "data": [_secret(f"{name}-there", there), _secret(f"{name}-db")],
        }
        second = {"network": [_secret(f"{name}-net")], "data": [_secret(f"{name}-new", there)]}
        sets.stages = first
        is_cut = await sets.life(first_cut)
        sets.stages = second
        await sets.life(first_cut % _SECOND_WRITES)
        wanted = {f"{here}/{name}-net", f"{there}/{name}-new"}
        await sets.life(done=partial(_are, wanted, sets.members))
        await sets.life()
        assert sets.members().keys() == wanted
        for one in sets.members().values():
            meta = one["metadata"]
            sets.server.api.delete("v1", "secrets", meta["name"], namespace=meta["namespace"])
        if not is_cut:
            return
    pytest.fail("the set needs more writes than were cut")


async def test_a_crash_after_any_write_leaves_nothing_behind_when_the_owner_is_deleted(
    sets: _Sets,
) -> None:
    """What has an owner reference is left to the garbage collector, all else is gone."""
    there = sets.elsewhere
    for cut in range(_MOST_WRITES):
        sets.create_owner(f"deleted-{cut}")
        name = sets.name
        sets.stages = {
            "network": [_secret(f"{name}-net"), _secret(f"{name}-there", there)],
            "data": [_secret(f"{name}-db")],
        }
        is_cut = await sets.life(cut)
        sets.server.api.delete("v1", "configmaps", name, namespace=sets.namespace)
        await sets.life(cut % _SECOND_WRITES)
        await sets.life(done=lambda: not sets.owner_exists())
        left = [one["metadata"] for one in sets.members().values()]
        assert all(one.get("ownerReferences") for one in left)
        for one in left:
            sets.server.api.delete("v1", "secrets", one["name"], namespace=one["namespace"])
        if not is_cut:
            return
    pytest.fail("the set needs more writes than were cut")


async def test_children_of_an_owner_that_is_deleted_as_orphans_stay(sets: _Sets) -> None:
    """`kubectl delete --cascade=orphan`, while the operator runs."""
    sets.create_owner("orphaned")
    sets.stages = {"network": [_secret("net")], "data": [_secret("db", sets.elsewhere)]}
    await sets.life()
    async with sets.server.connect() as cluster:
        found = await cluster.get("v1", "configmaps", sets.key)
        assert await cluster.delete(found, propagation="Orphan") is not None
    await sets.life()
    assert not any(one["metadata"].get("deletionTimestamp") for one in sets.members().values())
    assert sets.members().keys() == {f"{sets.namespace}/net", f"{sets.elsewhere}/db"}


@pytest.mark.real
@pytest.mark.timeout(200)
async def test_a_child_of_a_kind_that_is_owned_in_two_versions_stays(
    kube_apiserver: KubeAPIServer,
) -> None:
    """Both caches have the child that one of its versions was applied in."""
    sets = _Sets(RealServer(kube_apiserver))
    sets.create_owner("owner")
    versions = [f"autoscaling/{each}" for each in ("v1", "v2")]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    child = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": target},
    }
    sets.owned = [(each, "horizontalpodautoscalers") for each in versions]
    sets.stages = {"": [child]}

    def uid() -> str:
        found = sets.server.api.get(*sets.owned[0], "web", sets.namespace)
        return str(found["metadata"]["uid"])

    await sets.life()
    first = uid()
    await sets.life()  # a new process, whose caches show the child at its start
    assert uid() == first
    sets.stages = {"": [child], "again": [{**child, "apiVersion": versions[1]}]}
    with pytest.raises(InvalidArgumentError, match="which was applied before"):
        await sets.life()
    sets.stages = {"": []}
    await sets.life()
    with pytest.raises(NotFoundError):
        uid()


@pytest.mark.real
@pytest.mark.timeout(200)
async def test_kubectl_selects_the_children_of_a_set_and_leaves_it_to_its_tool(
    kube_apiserver: KubeAPIServer, tmp_path: Path
) -> None:
    program = shutil.which("kubectl")
    assert program
    sets = _Sets(RealServer(kube_apiserver))
    kubeconfig = kube_apiserver.write_kubeconfig(tmp_path / "kubeconfig")
    kubectl = Kubectl(Path(program), kubeconfig, tmp_path, sets.namespace)
    sets.create_owner("owner")
    sets.stages = {"": [_secret("a"), _secret("b")]}
    assert not await sets.life()
    owner = sets.server.api.get("v1", "configmaps", "owner", sets.namespace)
    identity = owner["metadata"]["labels"]["applyset.kubernetes.io/id"]
    names = kubectl("get", "secrets", "-l", f"{_PART_OF}={identity}", "-o", "name").split()
    assert names == ["secret/a", "secret/b"]
    refusal = kubectl.fails(
        *("apply", "--prune", "--applyset=configmaps/owner", "-f", "-"), body=_secret("c")
    )
    assert 'is managed by tooling "pyinformer"' in refusal
    assert sets.members().keys() == {f"{sets.namespace}/a", f"{sets.namespace}/b"}
