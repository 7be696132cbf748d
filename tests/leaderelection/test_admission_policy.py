"""The server's own fence on the real kube-apiserver: tokens of two pods, and one Lease."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest
import yaml

import pyinformer
from benchmarks.election.replicas import wait
from pyinformer.client.transport import ClusterConfig, StaticCredentials
from pyinformer.errors import ForbiddenError
from pyinformer.leaderelection import admission_policy_yaml
from pyinformer.sharding import sharing_policy_yaml
from pyinformer.testing import KubeAPIServer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyinformer.objects import JSONObject

NAMESPACE = "fenced"
ACCOUNT = "db-operator"
PODS = ("db-operator-a", "db-operator-b")
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
LEASE: JSONObject = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"namespace": NAMESPACE, "name": "leader"},
    "spec": {"leaseDurationSeconds": 15},
}


@pytest.fixture(scope="module")
def prepared(kube_apiserver_session: KubeAPIServer) -> KubeAPIServer:
    """A server with the account, its rights, and two pods."""
    return _prepare(kube_apiserver_session)


@pytest.fixture
def fresh(kube_apiserver_build: bool) -> Iterator[KubeAPIServer]:
    """The same on a server of its own.

    The end of the last policy with parameters of a kind stops the informer of that kind in the
    server. Once, after that, it did not see the parameters of a new one change.
    """
    with KubeAPIServer(build=kube_apiserver_build) as api:
        yield _prepare(api)


def _prepare(api: KubeAPIServer) -> KubeAPIServer:
    api.ensure_namespace(NAMESPACE)
    metadata = {"namespace": NAMESPACE, "name": ACCOUNT}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": ACCOUNT}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    api.create({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{NAMESPACE}-{ACCOUNT}"},
        "subjects": [subject],
        "roleRef": role,
    })  # fmt: skip
    for name in PODS:
        api.create({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": NAMESPACE, "name": name},
            "spec": {
                "serviceAccountName": ACCOUNT,
                "containers": [{"name": "main", "image": "registry.example.com/main:1"}],
            },
        })  # fmt: skip
    api.close_connections()
    return api


@pytest.fixture
def api(prepared: KubeAPIServer) -> Iterator[KubeAPIServer]:
    """The same, for one test."""
    yield prepared
    prepared.close_connections()


def token(api: KubeAPIServer, pod: str | None) -> str:
    """Return a token of the account, bound to a pod or not."""
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod}
    spec: JSONObject = {"expirationSeconds": 3600, **({"boundObjectRef": bound} if pod else {})}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    return str(api.request("POST", path, body=body)["status"]["token"])


def config_map(name: str) -> JSONObject:
    """Return an object that is written."""
    metadata = {"namespace": NAMESPACE, "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def hold(api: KubeAPIServer, holder: str) -> None:
    """Change the holder of the Lease."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/leader"
    body = {"spec": {"holderIdentity": holder}}
    api.request("PATCH", path, body=body, content_type="application/merge-patch+json")


class Account:
    """The account with the token of one pod."""

    def __init__(self, api: KubeAPIServer, pod: str | None) -> None:
        self.client = api.client(token(api, pod))
        self._count = 0

    def may_write(self) -> bool:
        """Return whether the server accepts a new object."""
        self._count += 1
        metadata = {"namespace": NAMESPACE, "generateName": "probe-"}
        try:
            self.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        except ForbiddenError:
            return False
        return True


@contextmanager
def in_force(api: KubeAPIServer, text: str) -> Iterator[None]:
    """Apply a policy for a block."""
    policies = list(yaml.safe_load_all(text))
    for document in policies:
        api.create(document)
    try:
        yield
    finally:
        for document in policies:
            api.delete(
                document["apiVersion"], PLURALS[document["kind"]], document["metadata"]["name"]
            )


@pytest.mark.real
@pytest.mark.timeout(300)
def test_only_the_pod_that_holds_the_lease_writes(api: KubeAPIServer) -> None:
    """Objects, deletions and subresources; Leases and Events stay open to all replicas."""
    api.create(LEASE)
    first, second, unbound = (Account(api, pod) for pod in (*PODS, None))
    hold(api, f"{PODS[0]}_1c6e")
    text = admission_policy_yaml(
        lease=f"{NAMESPACE}/leader", service_account=f"{NAMESPACE}/{ACCOUNT}"
    )
    with in_force(api, text):
        wait(lambda: not second.may_write(), "the policy is in force")
        assert first.may_write()
        assert not unbound.may_write()
        with pytest.raises(ForbiddenError, match="which its token does not name"):
            unbound.client.create(config_map("unbound"))
        api.create(config_map("target"))  # another account is not fenced
        with pytest.raises(ForbiddenError, match=r"by 'db-operator-a_1c6e', .* 'db-operator-b'"):
            second.client.delete("v1", "configmaps", "target", NAMESPACE)
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{PODS[0]}/status"
        with pytest.raises(ForbiddenError):
            second.client.request(
                "PATCH",
                path,
                body={"status": {"message": "x"}},
                content_type="application/merge-patch+json",
            )
        second.client.update(api.get("coordination.k8s.io/v1", "leases", "leader", NAMESPACE))

        hold(api, f"{PODS[1]}_77aa")
        wait(lambda: not first.may_write(), "the server saw the hand-over")
        assert second.may_write()
        hold(api, PODS[0])  # an identity of the pod's name alone
        wait(lambda: not second.may_write(), "the server saw the hand-over")
        assert first.may_write()
        hold(api, "")
        wait(lambda: not first.may_write(), "the server saw the release")


@pytest.mark.real
@pytest.mark.timeout(300)
async def test_only_pods_that_own_a_bucket_write(fresh: KubeAPIServer) -> None:
    """The table is that of two replicas; one leaves."""
    api = fresh
    lease = f"{NAMESPACE}/db-operator"
    text = sharing_policy_yaml(lease=lease, service_account=f"{NAMESPACE}/{ACCOUNT}")
    config = ClusterConfig(
        server=api.url,
        ca_file=str(api.ca_file),
        credentials=StaticCredentials.bearer(str(api.token)),
    )
    first, second, unbound = (Account(api, pod) for pod in (*PODS, None))
    async with pyinformer.connect(config=config) as cluster, AsyncExitStack() as closing:
        runs = [_sharing(cluster, f"{pod}_{uuid.uuid4()}") for pod in PODS]
        for run in runs:
            closing.push_async_callback(run.aclose)
        await runs[0].start()
        await until(lambda: runs[0].sharing is not None and runs[0].sharing.open == 128)
        with in_force(api, text):
            await _until(lambda: not second.may_write())
            await _until(first.may_write)  # the server has seen the table, too
            assert not await asyncio.to_thread(unbound.may_write)
            with pytest.raises(ForbiddenError, match="a replica without a bucket may not write"):
                await asyncio.to_thread(second.client.create, config_map("second"))
            await runs[1].start()
            await until(lambda: runs[1].sharing is not None and runs[1].sharing.open == 64)
            await _until(second.may_write)
            await runs[0].aclose()
            await _until(lambda: not first.may_write())
            await _until(second.may_write)


def _sharing(cluster: pyinformer.Cluster, identity: str) -> pyinformer.OperatorRun:
    buckets = pyinformer.Buckets(identity=identity, namespace=NAMESPACE)
    app = pyinformer.Operator("db-operator", sharding=buckets)

    @app.reconcile("v1", "secrets", label_selector="none=such")
    async def reconcile(
        _request: pyinformer.Request, _obj: object, _cluster: pyinformer.Cluster
    ) -> None:
        """Reconcile nothing."""

    return app.running(cluster, namespaces=NAMESPACE)


async def _until(condition: Callable[[], bool]) -> None:
    """Wait, in a thread, until something is true."""
    await asyncio.to_thread(wait, condition, "the server has seen the table")
