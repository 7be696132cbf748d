"""The move from updates to server-side apply, with kubectl's own move as the witness."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.controller.conventions import upgrade_managed_fields
from tests.foreign import clients
from tests.foreign.kubectl import Kubectl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.servers import Server

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(300)]

_CLIENT_SIDE = "kubectl-client-side-apply"


def deployment(name: str, *, labels: dict[str, str], args: list[str]) -> dict[str, Any]:
    """Return a deployment with a list that is merged by name."""
    pods = {"app": name}
    container = {
        "name": "c",
        "image": "nginx:1",
        "args": args,
        "env": [{"name": "A", "value": "1"}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": pods},
            "template": {"metadata": {"labels": pods}, "spec": {"containers": [container]}},
        },
    }


def owned(found: dict[str, Any], manager: str) -> list[Any]:
    """Return what a manager owns, without the copy of the object that only kubectl keeps."""
    entries = [one for one in found["metadata"]["managedFields"] if one["manager"] == manager]
    for one in entries:
        one["fieldsV1"].get("f:metadata", {}).pop("f:annotations", None)
    return [(one["operation"], one["fieldsV1"]) for one in entries]


async def test_an_object_of_kubectl_apply_is_moved_as_kubectl_moves_it(
    server: Server, kubeconfig: Path, tmp_path: Path
) -> None:
    program = clients.kubectl("path")
    if isinstance(program, str):
        pytest.skip(program)
    kubectl = Kubectl(program, kubeconfig, tmp_path, server.namespace())
    before = {"labels": {"a": "1", "b": "2"}, "args": ["x"]}
    after = {"labels": {"a": "1"}, "args": ["x"]}
    for name in ("theirs", "ours"):
        body = deployment(name, **before)  # type: ignore[arg-type]
        await asyncio.to_thread(kubectl, "apply", "-f", "-", body=body)

    theirs = deployment("theirs", **after)  # type: ignore[arg-type]
    words = ("apply", "--server-side", "--field-manager=shop", "-f", "-")
    await asyncio.to_thread(kubectl, *words, body=theirs)
    place = ("apps/v1", "deployments", f"{kubectl.namespace}/ours")
    async with pyinformer.connect(kubeconfig, field_manager="shop") as cluster:
        moved = await upgrade_managed_fields(cluster, *place, managers=[_CLIENT_SIDE])
        again = await upgrade_managed_fields(cluster, *place, managers=[_CLIENT_SIDE])
        assert again.metadata.resource_version == moved.metadata.resource_version
        ours = deployment("ours", **after)  # type: ignore[arg-type]
        ours["metadata"]["namespace"] = kubectl.namespace
        await cluster.apply(ours)

    get = ("get", "deployment", "--show-managed-fields")
    witness = await asyncio.to_thread(kubectl.json, *get, "theirs")
    found = await asyncio.to_thread(kubectl.json, *get, "ours")
    assert found["metadata"]["labels"] == witness["metadata"]["labels"] == {"a": "1"}
    assert owned(found, _CLIENT_SIDE) == owned(witness, _CLIENT_SIDE) == []
    assert owned(found, "shop") == owned(witness, "shop")
    assert found["spec"]["template"]["spec"]["containers"][0]["args"] == ["x"]
