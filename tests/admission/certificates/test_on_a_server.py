"""Certificates and the real API server, which calls a webhook by what was published."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from aiohttp import web

import pyinformer
from pyinformer.admission.certificates import CABundles, SelfSignedCertificate, Target
from pyinformer.errors import ServerError
from tests.admission.certificates.replicas import REGISTRATION
from tests.waiting import pause

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from pyinformer import Cluster
    from pyinformer.testing import KubeAPIServer

pytestmark = [pytest.mark.real, pytest.mark.timeout(200)]

_PLURAL = "validatingwebhookconfigurations"
_TARGET = Target("ValidatingWebhookConfiguration", "certified.acme.io")


@pytest.fixture
async def cluster(kube_apiserver_session: KubeAPIServer, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The server, with the namespace of the tests and without what they leave."""
    kube_apiserver_session.ensure_namespace("certified")
    kube_apiserver_session.close_connections()
    async with pyinformer.connect(kube_apiserver_session.write_kubeconfig(tmp_path / "k")) as found:
        yield found
        for kind, key in (((REGISTRATION, _PLURAL), _TARGET.name), (("v1", "secrets"), _SECRET)):
            try:
                await found.delete(*kind, key)
            except pyinformer.NotFoundError:
                continue


_SECRET = "certified/webhooks"


def _manifest(port: int, **metadata: Any) -> dict[str, Any]:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
        "operations": ["CREATE"],
    }
    webhook = {
        "name": "one.acme.io",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "certified"}},
        "matchConditions": [{"name": "named", "expression": "object.metadata.name == 'asked'"}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {
        "apiVersion": REGISTRATION,
        "kind": _TARGET.kind,
        "metadata": {"name": _TARGET.name, **metadata},
        "webhooks": [webhook],
    }


@asynccontextmanager
async def _webhook(context: ssl.SSLContext, on_call: Callable[[], object]) -> AsyncIterator[int]:
    """Admit everything, each over a connection of its own; the value is the port."""

    async def admit(request: web.Request) -> web.Response:
        on_call()
        review = await request.json()
        review["response"] = {"uid": review.pop("request")["uid"], "allowed": True}
        return web.json_response(review, headers={"Connection": "close"})

    app = web.Application()
    app.router.add_post("/", admit)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def _running(
    cluster: Cluster, targets: list[Target]
) -> AsyncIterator[tuple[SelfSignedCertificate, CABundles]]:
    certificate = SelfSignedCertificate(
        cluster, "certified", "webhooks", ["127.0.0.1"], is_leader=lambda: True
    )
    bundles = CABundles(
        cluster, targets, certificate, is_leader=lambda: True, field_manager="certified-webhooks"
    )
    async with certificate, bundles:
        yield certificate, bundles


async def _bundle(cluster: Cluster) -> str:
    found = await cluster.get(REGISTRATION, _PLURAL, _TARGET.name)
    return str(found.to_dict()["webhooks"][0]["clientConfig"].get("caBundle", ""))


async def _in_time(condition: Callable[[], Awaitable[object]]) -> None:
    for _ in range(600):
        if await condition():
            return
        await pause(0.1)
    pytest.fail("not within a minute")


async def _admits(cluster: Cluster) -> bool:
    metadata = {"name": "asked", "namespace": "certified"}
    try:
        await cluster.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}, dry_run=True
        )
    except ServerError:  # the webhook failed
        return False
    return True


async def test_no_write_fails_while_the_authority_is_rotated(cluster: Cluster) -> None:
    called, ended = anyio.Event(), anyio.Event()
    async with (
        _running(cluster, [_TARGET]) as (certificate, bundles),
        _webhook(certificate.context, called.set) as port,
    ):
        manifest = _manifest(port)  # with the bundle: no call before it is there has to fail
        encoded = base64.b64encode(certificate.bundle.encode()).decode()
        manifest["webhooks"][0]["clientConfig"]["caBundle"] = encoded
        await cluster.create(manifest)

        async def is_called() -> bool:
            return await _admits(cluster) and called.is_set()

        await _in_time(is_called)
        old, written = certificate.bundle, 0
        async with anyio.create_task_group() as group:

            async def write() -> None:
                nonlocal written
                while not ended.is_set():  # a cancelled write would leave a handshake half done
                    assert await _admits(cluster)
                    written += 1

            for _ in range(3):
                group.start_soon(write)
            await cluster.delete("v1", "secrets", _SECRET)

            async def is_added() -> bool:
                return certificate.bundle != old

            await _in_time(is_added)
            new = certificate.bundle.removesuffix(old)

            async def is_published() -> bool:
                return bundles.is_published(new)

            await _in_time(is_published)
            certificate.wake()
            await pause(3.0)
            before = written
            await pause(2.0)
            assert written > before
            ended.set()
        shown = await asyncio.to_thread(_shown, port, new)
        assert shown


def _shown(port: int, authority: str) -> bool:
    import socket
    import ssl

    context = ssl.create_default_context(cadata=authority)
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        return bool(secured.getpeercert())


async def test_a_manifest_that_is_applied_again_keeps_the_bundle(
    cluster: Cluster, kube_apiserver_session: KubeAPIServer
) -> None:
    """The two managers own different fields: neither takes anything from the other."""
    async with _running(cluster, [_TARGET]):
        await cluster.apply(_manifest(9443), field_manager="kubectl")
        await _in_time(lambda: _bundle(cluster))
        bundle = await _bundle(cluster)
        for label in ("a", "b"):
            manifest = _manifest(9443, labels={"version": label})
            applied = await cluster.apply(manifest, field_manager="kubectl")
            assert applied.to_dict()["webhooks"][0]["clientConfig"]["caBundle"] == bundle
        version = applied.metadata.resource_version
        await pause(2.0)
        found = kube_apiserver_session.get(REGISTRATION, _PLURAL, _TARGET.name)["metadata"]
        kube_apiserver_session.close_connections()
        assert found["resourceVersion"] == version
        owners = {one["manager"]: json.dumps(one["fieldsV1"]) for one in found["managedFields"]}
        assert "caBundle" not in owners["kubectl"]
        assert "caBundle" in owners["certified-webhooks"]
        assert "f:rules" not in owners["certified-webhooks"]

        await cluster.replace(_manifest(9443, resourceVersion=version))
        assert await _in_time_again(cluster, bundle)


async def _in_time_again(cluster: Cluster, bundle: str) -> bool:
    async def is_back() -> bool:
        return await _bundle(cluster) == bundle

    await _in_time(is_back)
    return True


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
async def test_kubectl_apply_keeps_the_bundle(
    cluster: Cluster, kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    kubeconfig = kube_apiserver_session.write_kubeconfig(tmp_path / "kubectl")
    file = tmp_path / "webhooks.json"

    async def apply(**labels: str) -> None:
        file.write_text(json.dumps(_manifest(9443, labels=labels)))
        program = await asyncio.create_subprocess_exec(
            "kubectl",
            *("apply", "-f", str(file), "--kubeconfig", str(kubeconfig)),
            stdout=asyncio.subprocess.PIPE,
        )
        await program.communicate()
        assert program.returncode == 0

    async with _running(cluster, [_TARGET]):
        await apply()
        await _in_time(lambda: _bundle(cluster))
        bundle = await _bundle(cluster)
        await apply(version="b")
        assert await _bundle(cluster) == bundle


async def test_what_cert_manager_injects_is_left_to_it(cluster: Cluster) -> None:
    annotations = {"cert-manager.io/inject-ca-from": "certified/webhooks"}
    async with _running(cluster, [_TARGET]):
        made = await cluster.create(_manifest(9443, annotations=annotations))
        await pause(3.0)
        found = await cluster.get(REGISTRATION, _PLURAL, _TARGET.name)
        assert found.metadata.resource_version == made.metadata.resource_version
