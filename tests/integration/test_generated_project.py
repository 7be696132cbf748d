"""What `pyinformer init` writes, on a real kube-apiserver: its manifests, and its operator."""

from __future__ import annotations

import asyncio
import importlib
import secrets
import socket
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import pyinformer
from pyinformer.objects import guess_plural
from tests.cli.projects import importable, init
from tests.waiting import pause, poll

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.testing import Connector, KubeAPIServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def documents(folder: Path, *further: str) -> list[dict[str, Any]]:
    """Return the plain manifests of a project, in the order in which kustomize applies them."""
    order = ["namespace.yaml", "crd.yaml", "rbac.yaml", "deployment.yaml", *further]
    listed = yaml.safe_load((folder / "deploy/kustomization.yaml").read_text(encoding="utf-8"))
    assert sorted(listed["resources"]) == sorted(order)
    return [
        document
        for name in order
        for document in yaml.safe_load_all((folder / "deploy" / name).read_text(encoding="utf-8"))
    ]


def dry_run(server: KubeAPIServer, document: dict[str, Any]) -> None:
    """Have the server check a creation strictly, as `kubectl apply --dry-run=server` does."""
    api_version, metadata = document["apiVersion"], document["metadata"]
    group = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    where = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    path = f"{group}{where}/{guess_plural(document['kind'])}"
    query = {"dryRun": "All", "fieldValidation": "Strict"}
    answer = server.request("POST", path, query=query, body=document)
    assert answer["metadata"]["name"] == metadata["name"]


async def test_the_manifests_are_accepted_and_the_operator_runs_under_its_role(
    tmp_path: Path, kube_apiserver: KubeAPIServer, cluster: Connector
) -> None:
    name, group = f"op-{secrets.token_hex(4)}", f"{secrets.token_hex(4)}.acme.io"
    arguments = (name, "--group", group, "--kind", "Database", "--replicas", "2")
    project = init(tmp_path / "project", *arguments)
    kube_apiserver.ensure_namespace(name)
    found = documents(project)

    for document in found[1:]:  # the namespace of the others has to exist
        dry_run(kube_apiserver, document)
    dry_run(kube_apiserver, {**found[0], "metadata": {"name": f"{name}-2"}})

    for document in found[1:]:
        kube_apiserver.create(document)
    body = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "Database",
        "metadata": {"namespace": name, "name": "first"},
        "spec": {"replicas": 2},
    }
    assert await asyncio.to_thread(
        poll, lambda: _is_created(kube_apiserver, body), timeout_seconds=100
    )
    token = _token_of(kube_apiserver, name)
    with importable(project, name.replace("-", "_")):
        app: pyinformer.Operator = importlib.import_module(f"{name.replace('-', '_')}.operator").app
        async with (
            cluster(kube_apiserver, token=token, namespace=name) as connected,
            app.running(connected),
            cluster(kube_apiserver) as admin,
            pyinformer.SharedInformerFactory(admin) as factory,
        ):
            deployments = factory.informer("apps/v1", "deployments", namespaces=name)
            databases = factory.informer(f"{group}/v1alpha1", "databases", namespaces=name)
            await factory.start()
            child = await deployments.wait_for(
                f"{name}/first", lambda obj: obj is not None, timeout_seconds=100
            )
            assert child is not None
            await admin.status(child, {"replicas": 2, "readyReplicas": 1})
            await databases.wait_for(
                f"{name}/first",
                lambda obj: obj is not None and obj.at("status.ready", int, default=0) == 1,
                timeout_seconds=100,
            )
            scale = f"/apis/{group}/v1alpha1/namespaces/{name}/databases/first/scale"
            answer = await asyncio.to_thread(kube_apiserver.request, "GET", scale)

    assert answer["spec"]["replicas"] == answer["status"]["replicas"] == 2


async def test_the_hooks_of_a_project_answer_under_its_role(
    tmp_path: Path,
    kube_apiserver: KubeAPIServer,
    cluster: Connector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As its README says: the server reaches this machine, and trusts what the program makes."""
    name, group = f"op-{secrets.token_hex(4)}", f"{secrets.token_hex(4)}.acme.io"
    arguments = (name, "--group", group, "--kind", "Database", "--webhooks")
    project = init(tmp_path / "project", *arguments)
    kube_apiserver.ensure_namespace(name)
    for document in documents(project, "webhooks.yaml")[1:]:
        dry_run(kube_apiserver, document)
        if document["kind"] in {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role"} | {
            "RoleBinding"
        }:
            kube_apiserver.create(document)
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("WEBHOOK_URL", f"https://127.0.0.1:{free.getsockname()[1]}")
    token, package = _token_of(kube_apiserver, name), name.replace("-", "_")
    with importable(project, package):
        app: pyinformer.Operator = importlib.import_module(f"{package}.operator").app
        made = [*app.custom_resource_definitions(), *app.webhook_configurations()]
        async with cluster(kube_apiserver) as admin:
            stored = [await admin.create(document) for document in made]
            try:
                async with (
                    cluster(kube_apiserver, token=token, namespace=name) as connected,
                    app.running(connected),
                ):
                    await _hooks_answer(admin, group)
            finally:
                for one in reversed(stored):
                    await admin.delete(one)


async def _hooks_answer(admin: pyinformer.Cluster, group: str) -> None:
    body: dict[str, Any] = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "Database",
        "metadata": {"namespace": "default", "name": "first"},
        "spec": {"image": "nginx", "replicas": 2},
    }
    for _ in range(600):
        try:
            made = await admin.create(body, dry_run=True)
        except pyinformer.APIStatusError:
            await pause(0.1)  # it is not served yet, or its hooks are not trusted yet
            continue
        if made.at("spec.image") == "nginx:stable":
            break
        await pause(0.1)
    made = await admin.create(body)
    edited = made.to_dict()
    edited["spec"]["image"] = "httpd:2"
    with pytest.raises(pyinformer.APIStatusError) as raised:
        await admin.patch(made, edited)
    assert raised.value.status == 422
    assert raised.value.message.endswith("spec.image cannot be changed to another program")
    old = await admin.get(f"{group}/v1alpha0", "databases", "default/first")
    assert old.to_dict()["spec"] == {"image": "nginx:stable", "count": 2}
    await admin.delete(made)


def _token_of(server: KubeAPIServer, name: str) -> str:
    path = f"/api/v1/namespaces/{name}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    answer = server.request("POST", path, body={**body, "spec": {"expirationSeconds": 3600}})
    return str(answer["status"]["token"])


def _is_created(server: KubeAPIServer, body: dict[str, Any]) -> bool:
    try:
        server.create(body)
    except (pyinformer.NotFoundError, pyinformer.errors.InvalidArgumentError):
        return False  # it is served a moment later
    return True
