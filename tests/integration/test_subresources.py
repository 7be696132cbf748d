"""Subresources of objects, and what of them is visible elsewhere, on both servers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

import pyinformer
from pyinformer import GroupVersionResource
from pyinformer.errors import (
    APIStatusError,
    ApplyConflictError,
    ConflictError,
    InvalidArgumentError,
    InvalidError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from tests.client.cluster.observing import RecordedWrites
from tests.integration.objects import PODS, pod_on, unique
from tests.integration.servers import RealServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster, KubeObject
    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer
    from tests.integration.servers import Server

_CSR: Final = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWk1JR0FBZ0VBTUI0eEVEQU9CZ05WQkFvTUIy"
    "VjRZVzF3YkdVeENqQUlCZ05WQkFNTUFXRXdXVEFUQmdjcQpoa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVN5eUJp"
    "bld0YkM1YU5PU3A2dXhXN2Z1NnB1S2NlSkRVekdVYmtFCnNVRk02Mm5rdWE5WDJpRE1GY25wTGU0Tk5OazR4cFB3"
    "Njh2eW4wMzdrNmNBQ2syMm9BQXdDZ1lJS29aSXpqMEUKQXdJRFNBQXdSUUlnRmRRcEVHOENwcEVWUUo1cWdxQlFy"
    "aFcwd1dpV0tPeklUZjB2UUZYN1pJb0NJUUN6L2RTSwpGUkV2YXZBZ25GRkdrYVJTV2drK3FUUUQwb21RbjA1czNn"
    "WUxXdz09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="
)
_DEPLOYMENTS: Final = GroupVersionResource.of("apps/v1", "deployments")
_EVICTION: Final[JSONObject] = {"apiVersion": "policy/v1", "kind": "Eviction"}


def deployment(namespace: str, replicas: int = 2) -> JSONObject:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "example.com/web:1"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "web", "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def scaled(scale: KubeObject, replicas: int) -> JSONObject:
    return {**scale.to_dict(), "spec": {"replicas": replicas}}


@pytest.fixture
async def cluster(server: Server) -> AsyncIterator[Cluster]:
    """A connection to either server."""
    async with server.connect() as connected:
        yield connected


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should be able to change typed objects that have a",
    "controller-runtime pkg/client: should be able to read the Scale subresource",
)
async def test_a_scale_is_read_replaced_patched_and_applied(
    server: Server, cluster: Cluster
) -> None:
    web = await cluster.create(deployment(server.namespace()))
    place = ("apps/v1", "deployments", web.key)
    scale = await cluster.get(*place, subresource="scale")
    assert (str(scale.gvk), scale.key) == ("autoscaling/v1/Scale", web.key)
    assert scale.at("spec.replicas", int) == 2
    assert scale.metadata.resource_version == web.metadata.resource_version

    heard = RecordedWrites()
    cluster.observe_writes(_DEPLOYMENTS, heard)
    replaced = await cluster.replace(scaled(scale, 3), subresource="scale", of=web)
    assert (str(replaced.gvk), replaced.at("spec.replicas", int)) == ("autoscaling/v1/Scale", 3)
    patched = await cluster.patch(replaced, scaled(replaced, 4), subresource="scale", of=place)
    assert patched.at("spec.replicas", int) == 4
    same = await cluster.patch(patched, patched.to_dict(), subresource="scale", of=web)
    assert same.raw == patched.raw
    with pytest.raises(ConflictError):
        await cluster.replace(scaled(scale, 9), subresource="scale", of=web)
    with pytest.raises(ConflictError):
        await cluster.patch(
            scale, scaled(scale, 9), subresource="scale", of=web, check_version=True
        )
    wanted: JSONObject = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "spec": {"replicas": 5},
    }
    with pytest.raises(ApplyConflictError) as caught:
        await cluster.apply(wanted, subresource="scale", of=web, field_manager="scaler")
    assert caught.value.conflicts[0].field == ".spec.replicas"
    applied = await cluster.apply(
        wanted, subresource="scale", of=web, field_manager="scaler", force=True
    )
    assert applied.at("spec.replicas", int) == 5

    assert heard.events == []  # a Scale is nothing for a cache of Deployments
    now = await cluster.get(*place)
    assert now.at("spec.replicas", int) == 5
    assert now.metadata.resource_version == applied.metadata.resource_version
    assert ("scaler", "Apply", "scale") in authors(server, *place)


def authors(server: Server, api_version: str, plural: str, key: str) -> set[tuple[str, str, str]]:
    """Return manager, operation and subresource of an object's writes."""
    namespace, _, name = key.rpartition("/")
    stored = server.api.get(api_version, plural, name, namespace)
    return {
        (one["manager"], one["operation"], one.get("subresource", ""))
        for one in stored["metadata"]["managedFields"]
    }


async def test_a_custom_scale_is_written_where_its_definition_says(
    server: Server, cluster: Cluster
) -> None:
    kind = f"S{unique('x').partition('-')[2]}"
    version, plural = f"{kind.lower()}.example.com/v1", f"{kind.lower()}s"
    await asyncio.to_thread(server.api.register, version, kind, plural, has_scale=True)
    metadata = {"name": "a", "namespace": server.namespace()}
    made = await cluster.create(
        {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"replicas": 1}}
    )
    scale = await cluster.get(version, plural, made.key, subresource="scale")
    after = await cluster.replace(scaled(scale, 7), subresource="scale", of=made)
    assert (str(after.gvk), after.at("spec.replicas", int)) == ("autoscaling/v1/Scale", 7)
    now = await cluster.get(version, plural, made.key)
    assert now.at("spec.replicas", int) == 7


@pytest.mark.covers("controller-runtime pkg/client: should update status of an existing object")
async def test_a_status_is_replaced_and_applied(server: Server, cluster: Cluster) -> None:
    web = await cluster.create(deployment(server.namespace()))
    heard = RecordedWrites()
    cluster.observe_writes(_DEPLOYMENTS, heard)
    body = web.to_dict()
    body["status"] = {"observedGeneration": 1, "replicas": 2}
    replaced = await cluster.replace(body, subresource="status")
    assert replaced.at("status.replicas", int) == 2
    desired: JSONObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": web.metadata.namespace},
        "status": {"readyReplicas": 1, "replicas": 2},
    }
    applied = await cluster.apply(desired, subresource="status", field_manager="suite")
    assert applied.at("status.readyReplicas", int) == 1
    assert applied.at("spec.replicas", int) == 2
    assert [(name, key) for name, key, _ in heard.events] == [("wrote", web.key)] * 2
    assert heard.objects[-1].at("status.readyReplicas", int) == 1


@pytest.mark.covers(
    "controller-runtime pkg/client: repr.name / write then read",
    "controller-runtime pkg/client: should be able to read the Scale subresource",
    "controller-runtime pkg/client/fake: should delete a pod through the eviction subresource",
    "kube-client src: log_path",
)
async def test_an_eviction_deletes_a_pod(server: Server, cluster: Cluster) -> None:
    pod = await cluster.create(PODS.make("a", server.namespace()))
    heard = RecordedWrites()
    cluster.observe_writes(GroupVersionResource.of("v1", "pods"), heard)
    answer = await cluster.create(_EVICTION, subresource="eviction", of=pod, dry_run=True)
    assert (str(answer.gvk), answer.at("status", str)) == ("v1/Status", "Success")
    await cluster.get("v1", "pods", pod.key)
    answer = await cluster.create(_EVICTION, subresource="eviction", of=("v1", "pods", pod.key))
    assert (str(answer.gvk), answer.key) == ("v1/Status", "")
    with pytest.raises(NotFoundError):
        await cluster.get("v1", "pods", pod.key)
    with pytest.raises(NotFoundError, match='"a" not found'):
        await cluster.create(_EVICTION, subresource="eviction", of=pod)
    assert heard.events == []


async def test_a_disruption_budget_refuses_an_eviction_at_once(
    server: Server, cluster: Cluster
) -> None:
    namespace = server.namespace()
    pod = await cluster.create(pod_on("none", "a", namespace, app="a"))
    ready = [{"type": "Ready", "status": "True"}]
    pod = await cluster.status(pod, {"phase": "Running", "conditions": ready})
    sick = await cluster.create(pod_on("none", "sick", namespace, app="a"))
    sick = await cluster.status(sick, {"phase": "Running"})
    metadata = {"name": "budget", "namespace": namespace}
    budget = await cluster.create(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
        }
    )
    with pytest.raises(TooManyRequestsError, match="disruption budget") as caught:
        await cluster.create(_EVICTION, subresource="eviction", of=pod)
    assert caught.value.causes == ("DisruptionBudget",)
    assert caught.value.retry_after_seconds == 10
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    budget = await cluster.replace({**budget.to_dict(), "status": status}, subresource="status")
    with pytest.raises(TooManyRequestsError):
        await cluster.create(_EVICTION, subresource="eviction", of=pod)
    assert cluster.write_statistics().retried == 0
    now = {**_EVICTION, "deleteOptions": {"gracePeriodSeconds": 0}}
    await cluster.create(now, subresource="eviction", of=sick)  # it is not one of the healthy
    allowed = {**budget.to_dict(), "status": {**status, "disruptionsAllowed": 1}}
    await cluster.replace(allowed, subresource="status")
    await cluster.create(now, subresource="eviction", of=pod)
    spent = await cluster.get("policy/v1", "poddisruptionbudgets", budget.key)
    assert spent.at("status.disruptionsAllowed", int) == 0
    assert list(spent.at("status.disruptedPods", dict)) == ["a"]


@pytest.mark.covers("controller-runtime pkg/client: should be able to read the Scale subresource")
async def test_a_pod_is_bound_once(server: Server, cluster: Cluster) -> None:
    pod = await cluster.create(PODS.make("a", server.namespace()))
    binding: JSONObject = {
        "apiVersion": "v1",
        "kind": "Binding",
        "target": {"kind": "Node", "name": "n1"},
    }
    answer = await cluster.create(binding, subresource="binding", of=pod)
    assert str(answer.gvk) == "v1/Status"
    now = await cluster.get("v1", "pods", pod.key)
    assert now.at("spec.nodeName", str) == "n1"
    assert now.metadata.generation == pod.metadata.generation
    with pytest.raises(ConflictError, match="already assigned"):
        await cluster.create(binding, subresource="binding", of=pod)


@pytest.mark.covers(
    "controller-runtime pkg/client: should be able to read the Scale subresource",
    "controller-runtime pkg/client/fake: should delete a pod through the eviction subresource",
)
async def test_a_token_is_created_and_reviewed(server: Server, cluster: Cluster) -> None:
    namespace = server.namespace()
    account = await cluster.create(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "robot", "namespace": namespace},
        }
    )
    heard = RecordedWrites()
    cluster.observe_writes(GroupVersionResource.of("v1", "serviceaccounts"), heard)
    request: JSONObject = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 600},
    }
    token = await cluster.create(request, subresource="token", of=account)
    assert (token.gvk.kind, token.key) == ("TokenRequest", account.key)
    assert heard.events == []  # it is not stored
    review = await cluster.create(
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token.at("status.token", str)},
        }
    )
    who = f"system:serviceaccount:{namespace}:robot"
    assert review.at("status.user.username", str) == who
    with pytest.raises(InvalidError, match="10 minutes"):
        await cluster.create(
            {**request, "spec": {"expirationSeconds": 1}}, subresource="token", of=account
        )


@pytest.mark.covers("controller-runtime pkg/client: should be able to read the Scale subresource")
async def test_a_signing_request_is_approved_and_stays_so(server: Server, cluster: Cluster) -> None:
    made = await cluster.create(
        {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": unique("csr")},
            "spec": {
                "request": _CSR,
                "signerName": "example.com/signer",
                "usages": ["digital signature"],
            },
        }
    )
    condition = {"type": "Approved", "status": "True", "reason": "Known", "message": "asked"}
    edited = {**made.to_dict(), "status": {"conditions": [condition], "certificate": "eA=="}}
    approved = await cluster.replace(edited, subresource="approval")
    (stored,) = approved.at("status.conditions", list)
    assert stored == {**stored, **condition}
    assert stored["lastUpdateTime"]
    assert approved.at("status.certificate", default=None) is None
    for subresource in ("approval", "status"):
        with pytest.raises(InvalidError, match="may not remove a condition"):
            await cluster.replace(
                {**approved.to_dict(), "status": {"conditions": []}}, subresource=subresource
            )
    await cluster.delete(approved)


async def test_debug_containers_are_added_and_nothing_else_is_written(
    server: Server, cluster: Cluster
) -> None:
    pod = await cluster.create(PODS.make("a", server.namespace()))
    heard = RecordedWrites()
    cluster.observe_writes(GroupVersionResource.of("v1", "pods"), heard)
    edited = pod.to_dict()
    edited["metadata"]["labels"] = {"changed": "1"}
    edited["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "example.com/sh:1"}]
    after = await cluster.patch(pod, edited, subresource="ephemeralcontainers")
    assert [one["name"] for one in after.at("spec.ephemeralContainers", list)] == ["debug"]
    assert after.metadata.labels == {}
    assert heard.events == [("wrote", pod.key, after.metadata.resource_version)]
    read = await cluster.get("v1", "pods", pod.key, subresource="ephemeralcontainers")
    assert read == after
    less = after.to_dict()
    del less["spec"]["ephemeralContainers"]
    with pytest.raises(InvalidError, match='"debug" may not be removed'):
        await cluster.replace(less, subresource="ephemeralcontainers")


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should delete a pod through the eviction subresource"
)
@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.covers("kube-client src: resize_path")
async def test_a_pod_is_resized_on_a_real_server(kube_apiserver: KubeAPIServer) -> None:
    """The embedded server has no such subresource; the library passes any name on."""
    server = RealServer(kube_apiserver)
    async with server.connect() as cluster:
        made = PODS.make("a", server.namespace())
        resources = {"requests": {"cpu": "1"}}
        made["spec"] = {"containers": [{**made["spec"]["containers"][0], "resources": resources}]}
        pod = await cluster.create(made)
        edited = pod.to_dict()
        edited["metadata"]["labels"] = {"changed": "1"}
        edited["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}

        resized = await cluster.patch(pod, edited, subresource="resize")

        (container,) = resized.at("spec.containers", list)
        assert container["resources"]["requests"] == {"cpu": "2"}
        assert resized.metadata.labels == {}
        assert await cluster.get("v1", "pods", pod.key) == resized


async def test_an_unknown_subresource_is_refused_with_those_there_are(
    server: Server, cluster: Cluster
) -> None:
    pod = await cluster.create(PODS.make("a", server.namespace()))
    with pytest.raises(NotFoundError, match=r"eviction.*did you mean eviction") as caught:
        await cluster.create(_EVICTION, subresource="evictions", of=pod)
    assert not caught.value.names_object
    with pytest.raises(NotFoundError, match="does not serve the subresource 'scale' of pods"):
        await cluster.get("v1", "pods", pod.key, subresource="scale")
    server.serve_widgets()
    widget: JSONObject = {
        "apiVersion": "suite.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": pod.metadata.namespace},
    }
    made = await cluster.create(widget)
    with pytest.raises(NotFoundError, match="it has: none"):  # though servers say it is not there
        await cluster.replace(made, subresource="status")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(_EVICTION, "pass subresource='eviction' and of=", id="eviction"),
        pytest.param(
            {"apiVersion": "autoscaling/v1", "kind": "Scale"}, "of=, the object", id="scale"
        ),
    ],
)
async def test_a_body_without_its_object_is_refused_with_the_call_for_it(
    cluster: Cluster, body: JSONObject, words: str
) -> None:
    with pytest.raises(NotFoundError, match=words):
        await cluster.create({**body, "metadata": {"name": "a", "namespace": "default"}})


@pytest.mark.covers(
    "controller-runtime pkg/client/fake: should be able to change typed objects that have a"
)
@pytest.mark.parametrize(
    ("subresource", "body", "status", "message"),
    [
        pytest.param(
            "eviction",
            {**_EVICTION, "metadata": {"name": "other"}},
            400,
            "name in URL does not match name in Eviction object",
            id="eviction-of-another",
        ),
        pytest.param(
            "binding",
            {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "other"}},
            400,
            "name in URL does not match name in Binding object",
            id="binding-of-another",
        ),
        pytest.param(
            "binding",
            {"apiVersion": "v1", "kind": "Binding", "target": {"name": ""}},
            500,
            "target.name: Required value",
            id="binding-to-nothing",
        ),
        pytest.param(
            "status",
            {"apiVersion": "v1", "kind": "Pod"},
            405,
            "the server does not allow this method on the requested resource",
            id="create-a-status",
        ),
    ],
)
async def test_both_servers_refuse_alike(  # noqa: PLR0917 - two are fixtures
    server: Server,
    cluster: Cluster,
    subresource: str,
    body: JSONObject,
    status: int,
    message: str,
) -> None:
    pod = await cluster.create(PODS.make("a", server.namespace()))
    with pytest.raises(APIStatusError) as caught:
        await cluster.create(body, subresource=subresource, of=pod)
    assert (caught.value.status, caught.value.message) == (status, message)


async def test_both_servers_list_the_same_subresources(cluster: Cluster) -> None:
    """Other conversations than exec, proxies and the resize of pods are not in the embedded one."""
    of_pods = (await cluster.find_resource("v1/pods")).subresources
    absent = {"attach", "portforward", "proxy", "resize"}
    known = {"binding", "ephemeralcontainers", "eviction", "exec", "log", "status"}
    assert of_pods - absent == known
    of_requests = await cluster.find_resource("certificates.k8s.io/v1/certificatesigningrequests")
    assert of_requests.subresources == {"approval", "status"}
    assert "csr" in of_requests.short_names
    accounts = await cluster.find_resource("v1/serviceaccounts")
    assert accounts.subresources == {"token"}


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward", "log", "proxy"])
async def test_what_is_not_an_object_is_refused_with_an_alternative(
    subresource: str,
) -> None:
    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match=r"kubectl|exec\(\)|logs\(\)|request\(\)"):
            await cluster.get("v1", "pods", "default/a", subresource=subresource)
        if subresource not in {"log", "proxy"}:
            path = f"/api/v1/namespaces/default/pods/a/{subresource}"
            with pytest.raises(InvalidArgumentError, match=r"kubectl|exec\(\)"):
                await cluster.request("POST", path, query=[("command", "ls")])


async def test_the_scale_of_a_custom_resource_is_patched_and_cannot_be_applied(
    server: Server, cluster: Cluster
) -> None:
    """As docs/howto/read-and-write.md says; of a Deployment it can, see above."""
    kind = f"K{unique('x').partition('-')[2]}"
    version, plural = f"{kind.lower()}.example.com/v1", f"{kind.lower()}s"
    await asyncio.to_thread(server.api.register, version, kind, plural, has_scale=True)
    metadata = {"name": "a", "namespace": server.namespace()}
    body = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"replicas": 1}}
    made = await cluster.create(body)
    scale = await cluster.get(version, plural, made.key, subresource="scale")
    edited = {**scale.to_dict(), "spec": {"replicas": 2}}
    after = await cluster.patch(scale, edited, subresource="scale", of=made)
    assert after.at("spec.replicas", int) == 2
    wanted = {
        "apiVersion": scale.gvk.api_version,
        "kind": "Scale",
        "metadata": metadata,
        "spec": {"replicas": 3},
    }
    with pytest.raises(ServerError):
        await cluster.apply(
            wanted, subresource="scale", of=made, field_manager="scaler", force=True
        )
