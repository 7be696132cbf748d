"""Creates whose answer has no name: what the server did reaches the caller, and no error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

import pyinformer
from pyinformer import GroupVersionResource
from pyinformer.testing import APIServer, Fault
from tests.client.cluster.observing import RecordedWrites
from tests.integration.objects import NODES, PODS, unique

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server

_GET_PODS: JSONObject = {"resourceAttributes": {"verb": "get", "resource": "pods"}}


def review(kind: str, group: str, spec: JSONObject, **metadata: str) -> JSONObject:
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": spec}


async def test_a_review_is_answered(server: Server) -> None:
    async with server.connect() as cluster:
        heard = RecordedWrites()
        resource = GroupVersionResource.of("authorization.k8s.io/v1", "selfsubjectaccessreviews")
        cluster.observe_writes(resource, heard)

        answer = await cluster.create(
            review("SelfSubjectAccessReview", "authorization.k8s.io", _GET_PODS)
        )
        again = await cluster.create(
            review("SelfSubjectAccessReview", "authorization.k8s.io", _GET_PODS)
        )

        assert (answer.gvk.kind, answer.key) == ("SelfSubjectAccessReview", "")
        assert answer.at("status.allowed", bool) is True
        assert again.at("status.allowed", bool) is True
        assert heard.events == []  # nothing is stored
        statistics = cluster.write_statistics()
        assert (statistics.sent, statistics.unchanged) == (2, 0)


@pytest.mark.parametrize(
    ("kind", "group", "field"),
    [
        pytest.param("SelfSubjectReview", "authentication.k8s.io", "status.userInfo", id="who"),
        pytest.param(
            "SelfSubjectRulesReview", "authorization.k8s.io", "status.incomplete", id="rules"
        ),
    ],
)
async def test_self_subject_reviews_are_answered(
    server: Server, kind: str, group: str, field: str
) -> None:
    async with server.connect() as cluster:
        answer = await cluster.create(review(kind, group, {"namespace": "default"}))
        assert answer.at(field) is not None


async def test_other_reviews_and_bindings_are_answered(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        token = await cluster.create(review("TokenReview", "authentication.k8s.io", {"token": "x"}))
        assert token.at("status.error", str)
        local = await cluster.create(
            review(
                "LocalSubjectAccessReview",
                "authorization.k8s.io",
                {"user": "x", "resourceAttributes": {"verb": "get", "namespace": namespace}},
                namespace=namespace,
            )
        )
        assert (local.metadata.namespace, local.at("status.allowed", bool)) == (namespace, False)
        node = await cluster.create(NODES.make(unique("node")))
        pod = await cluster.create(PODS.make("a", namespace))
        bound = await cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "a", "namespace": namespace},
                "target": {"kind": "Node", "name": node.metadata.name},
            }
        )
        assert (str(bound.gvk), bound.at("status", str)) == ("v1/Status", "Success")
        now = await cluster.get("v1", "pods", pod.key)
        assert now.at("spec.nodeName", str) == node.metadata.name


def test_a_nameless_answer_is_exported() -> None:
    assert issubclass(pyinformer.errors.WriteAnswerError, pyinformer.errors.InvalidObjectError)


@pytest.mark.parametrize(
    ("kind", "api_version"), [("ConfigMapList", "v1"), ("Table", "meta.k8s.io/v1")]
)
async def test_a_list_is_no_answer_to_a_create(
    apiserver: APIServer, kind: str, api_version: str
) -> None:
    """A gateway that turns a POST into a GET, as after a redirect, created nothing."""
    body = msgspec.json.encode({"kind": kind, "apiVersion": api_version, "metadata": {}})
    apiserver.faults.add(Fault(verb="create", status=200, body=body))
    place = {"name": "a", "namespace": "default"}
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(pyinformer.errors.InvalidObjectError):
            await cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place})
