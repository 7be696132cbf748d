"""The rights of the certificates are enough, and limited to the objects by name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import pyinformer
from pyinformer.admission.certificates import (
    CABundles,
    SelfSignedCertificate,
    Target,
    bundle_accesses,
    secret_accesses,
)
from pyinformer.objects import roles_yaml
from pyinformer.testing import APIServer
from tests.admission.certificates.issuing import HOST
from tests.admission.certificates.replicas import REGISTRATION, VALIDATING, configuration
from tests.waiting import pause, until

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.testing import KubeAPIServer

_NAMESPACE = "limited"
_ACCOUNT = "webhooks"
_TARGET = Target(VALIDATING.kind, "limited.acme.io")
_PLURAL = _TARGET.resource.resource


def test_the_rights_are_those_of_objects_by_name() -> None:
    create, others = secret_accesses("acme", "db-webhooks")
    assert (create.verbs, create.object_name) == (("create",), "")
    assert others.object_name == "db-webhooks"
    assert create.namespaces == others.namespaces == {"acme"}
    definition = Target("CustomResourceDefinition", "databases.acme.io")
    found = bundle_accesses([VALIDATING, definition])
    assert [(one.group, one.resource, one.object_name) for one in found] == [
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "db"),
        ("apiextensions.k8s.io", "customresourcedefinitions", "databases.acme.io"),
    ]
    assert all(one.verbs == ("get", "list", "patch", "watch") for one in found)


async def _renew(kubeconfig: Path, api: APIServer | KubeAPIServer) -> None:
    """Make, publish, lose and make again with these rights alone."""

    def bundle() -> str:
        found = api.get(REGISTRATION, _PLURAL, _TARGET.name)
        return str(found["webhooks"][0]["clientConfig"].get("caBundle", ""))

    async with pyinformer.connect(kubeconfig) as cluster:
        certificate = SelfSignedCertificate(
            cluster, _NAMESPACE, "made", [HOST], is_leader=lambda: True
        )
        bundles = CABundles(
            cluster, [_TARGET], certificate, is_leader=lambda: True, field_manager="db"
        )
        async with certificate, bundles:
            for _ in range(300):
                if first := await asyncio.to_thread(bundle):
                    break
                await pause(0.1)
            await asyncio.to_thread(api.delete, "v1", "secrets", "made", _NAMESPACE)
            await until(lambda: certificate.bundle.count("BEGIN") == 2)
            for _ in range(300):
                if await asyncio.to_thread(bundle) != first:
                    break
                await pause(0.1)
            assert await asyncio.to_thread(bundle) != first
            assert not certificate.warnings
            assert not bundles.warnings


def _grant(api: APIServer | KubeAPIServer) -> None:
    accesses = [*secret_accesses(_NAMESPACE, "made"), *bundle_accesses([_TARGET])]
    account = f"{_NAMESPACE}/{_ACCOUNT}"
    for one in yaml.safe_load_all(roles_yaml(accesses, name="limited", service_account=account)):
        api.create(one)
    manifest = configuration(VALIDATING)
    for one in manifest["webhooks"]:  # of a group that nothing asks
        one["rules"][0]["apiGroups"] = ["limited.acme.io"]
    api.create({**manifest, "metadata": {"name": _TARGET.name}})


async def test_they_are_enough_on_the_embedded_server(tmp_path: Path) -> None:
    with APIServer(rbac=True) as api:
        api.register(REGISTRATION, _TARGET.kind, _PLURAL, namespaced=False)
        api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
        _grant(api)
        token = str(api.token_for_service_account(_ACCOUNT, _NAMESPACE))
        await _renew(api.write_kubeconfig(tmp_path / "kubeconfig", token), api)


@pytest.mark.real
@pytest.mark.timeout(200)
async def test_they_are_enough_on_the_real_server(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    api = kube_apiserver_session
    api.ensure_namespace(_NAMESPACE)
    metadata = {"name": _ACCOUNT, "namespace": _NAMESPACE}
    api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    _grant(api)
    path = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts/{_ACCOUNT}/token"
    body: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    body["spec"] = {"expirationSeconds": 3600}
    token = str(api.request("POST", path, body=body)["status"]["token"])
    kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig", token)
    try:
        await _renew(kubeconfig, api)
    finally:
        api.delete(REGISTRATION, _PLURAL, _TARGET.name)
        api.close_connections()
