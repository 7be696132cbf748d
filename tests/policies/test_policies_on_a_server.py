"""What policies do on a real API server, which is the only one that evaluates them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.errors import APIStatusError
from pyinformer.policies import (
    MutatingPolicy,
    Mutation,
    Params,
    Policy,
    Rule,
    compile_policies,
    policies_yaml,
)
from tests.waiting import pause

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from pyinformer import Cluster
    from pyinformer.testing import KubeAPIServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]

_MAPS = [("v1", "configmaps")]


def _map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


@pytest.fixture
async def cluster(kube_apiserver_session: KubeAPIServer, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The server, with the namespaces of the tests."""
    for name in ("policed", "free"):
        kube_apiserver_session.ensure_namespace(name)
    kube_apiserver_session.close_connections()
    kubeconfig = kube_apiserver_session.write_kubeconfig(tmp_path / "kubeconfig")
    warned.clear()

    def on_warning(text: str, request: str) -> None:
        warned.append(text)

    async with pyinformer.connect(kubeconfig, on_warning=on_warning) as found:
        yield found


warned: list[str] = []


async def _enforce(cluster: Cluster, policy: Policy | MutatingPolicy) -> Callable[[], Any]:
    """Put a policy into force; return what removes it."""
    stored = [await cluster.create(document) for document in policy.to_dicts()]

    async def remove() -> None:
        for one in stored:
            await cluster.delete(one)

    return remove


async def _in_time(condition: Callable[[], Awaitable[object]]) -> None:
    """Wait: a server takes half a second to follow a policy."""
    for _ in range(500):
        if await condition():
            return
        await pause(0.1)
    pytest.fail("the server does not follow the policy")


async def _refusal(cluster: Cluster, obj: dict[str, Any]) -> str:
    try:
        await cluster.create(obj, dry_run=True)
    except APIStatusError as error:
        return f"{error.status} {error.message}"
    return ""


async def test_a_policy_refuses_in_its_namespaces_with_its_words(cluster: Cluster) -> None:
    policy = Policy(
        "small.acme.io",
        on=_MAPS,
        rules=[
            Rule(
                "int(variables.n) <= int(params.data.most)",
                "too large",
                message_expression="'at most ' + params.data.most + ', not ' + variables.n",
                reason="Forbidden",
            )
        ],
        when={"has-n": "has(object.data) && 'n' in object.data"},
        variables={"n": "object.data.n"},
        namespaces=["policed"],
        params=Params(api_version="v1", kind="ConfigMap", name="limits", namespace="free"),
    )
    await cluster.create(_map("free", "limits", most="5"))
    remove = await _enforce(cluster, policy)
    try:

        async def refuses() -> bool:
            return "at most 5, not 9" in await _refusal(cluster, _map("policed", "x", n="9"))

        await _in_time(refuses)
        assert (await _refusal(cluster, _map("policed", "x", n="9"))).startswith("403 ")
        assert await _refusal(cluster, _map("policed", "x", n="5")) == ""
        assert await _refusal(cluster, _map("policed", "x")) == ""
        assert await _refusal(cluster, _map("free", "x", n="9")) == ""
    finally:
        await remove()


async def test_a_policy_of_deletions_reads_the_old_object(cluster: Cluster) -> None:
    policy = Policy(
        "used.acme.io",
        on=_MAPS,
        operations=["delete"],
        rules=[Rule("!has(oldObject.data) || !('used' in oldObject.data)", "is in use")],
    )
    used = await cluster.create(_map("policed", "used", used="yes"))
    unused = await cluster.create(_map("policed", "unused"))
    remove = await _enforce(cluster, policy)
    try:

        async def refuses() -> bool:
            try:
                await cluster.delete(used, dry_run=True)
            except APIStatusError as error:
                return error.status == 422 and "is in use" in error.message
            return False

        await _in_time(refuses)
        await cluster.delete(unused)
    finally:
        await remove()

    async def is_deleted() -> bool:
        try:
            await cluster.delete(used)
        except APIStatusError:
            return False
        return True

    await _in_time(is_deleted)


async def test_a_policy_that_warns_refuses_nothing(cluster: Cluster) -> None:
    policy = Policy(
        "warned.acme.io",
        on=_MAPS,
        rules=[Rule("!has(object.data)", "data is discouraged")],
        namespaces=["policed"],
        action=["warn", "audit"],
    )
    remove = await _enforce(cluster, policy)
    try:

        async def warns() -> bool:
            assert await _refusal(cluster, _map("policed", "x", n="9")) == ""
            return any("data is discouraged" in text for text in warned)

        await _in_time(warns)
    finally:
        await remove()


async def test_a_policy_changes_what_is_created(cluster: Cluster) -> None:
    policy = MutatingPolicy(
        "owner.acme.io",
        on=_MAPS,
        operations=["create"],
        mutations=[
            Mutation(
                'Object{metadata: Object.metadata{labels: {"by": request.userInfo.username}}}'
            ),
            Mutation(
                '[JSONPatch{op: "add", path: "/metadata/labels/seen", value: "yes"}]',
                patch_type="json",
            ),
        ],
        namespaces=["policed"],
    )
    remove = await _enforce(cluster, policy)
    try:

        async def changes() -> bool:
            made = await cluster.create(_map("policed", "x"), dry_run=True)
            return "by" in made.metadata.labels and made.metadata.labels.get("seen") == "yes"

        await _in_time(changes)
        free = await cluster.create(_map("free", "x"), dry_run=True)
        assert not free.metadata.labels
    finally:
        await remove()


async def test_a_mistake_in_cel_is_named_with_its_place_and_nothing_is_stored(
    cluster: Cluster,
) -> None:
    good = Policy("good.acme.io", on=_MAPS, rules=[Rule("has(object.data)", "no data")])
    wrong = Policy("wrong.acme.io", on=_MAPS, rules=[Rule("objekt.data.size() > 0", "x")])
    stored = await compile_policies(cluster, [good])
    assert [one["kind"] for one in stored] == [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]
    with pytest.raises(APIStatusError, match="undeclared reference to 'objekt'") as raised:
        await compile_policies(cluster, [good, wrong])
    assert raised.value.status == 422
    assert "<input>:1:1" in str(raised.value)
    assert raised.value.__notes__ == ["policy wrong.acme.io"]
    with pytest.raises(pyinformer.NotFoundError):
        await cluster.get(
            "admissionregistration.k8s.io/v1", "validatingadmissionpolicies", "good.acme.io"
        )
    assert policies_yaml([good]).count("kind: ") == 2
