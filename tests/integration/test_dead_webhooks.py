"""A webhook that never answers: the real server waits for it longer than most requests take."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
import trustme

import pyinformer
from pyinformer.errors import APIStatusError
from tests.integration.servers import RealServer
from tests.waiting import settle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.objects import JSONObject
    from pyinformer.testing import KubeAPIServer

_LABELS = {"dead-webhook": "yes"}


@pytest.mark.real
@pytest.mark.slow
async def test_the_answer_that_names_a_dead_webhook_is_waited_for(
    kube_apiserver: KubeAPIServer,
) -> None:
    """30 s is the most that a webhook may be given."""
    ca = trustme.CA()
    async with _silent_server(ca) as port:
        bundle = base64.b64encode(ca.cert_pem.bytes()).decode()
        webhook: JSONObject = {
            "name": "silent.acme.io",
            "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
            "timeoutSeconds": 30,
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "objectSelector": {"matchLabels": _LABELS},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                    "operations": ["CREATE"],
                }
            ],
        }
        async with RealServer(kube_apiserver).connect() as cluster:
            configuration = await cluster.create(
                {
                    "apiVersion": "admissionregistration.k8s.io/v1",
                    "kind": "ValidatingWebhookConfiguration",
                    "metadata": {"name": "silent"},
                    "webhooks": [webhook],
                }
            )
            try:
                error = await _refused(cluster)
            finally:
                await cluster.delete(configuration)
    assert 'failed calling webhook "silent.acme.io"' in str(error)


@asynccontextmanager
async def _silent_server(ca: trustme.CA) -> AsyncIterator[int]:
    """Accept TLS, read, and never answer; of a server without TLS another time limit holds."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    over = asyncio.Event()

    async def keep(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.transport.abort()

    server = await asyncio.start_server(keep, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        over.set()
        server.close()
        await settle()


async def _refused(cluster: pyinformer.Cluster) -> APIStatusError:
    """Create objects until the server has read the configuration, which takes it a moment."""
    for number in range(1000):
        metadata = {"name": f"dead-webhook-{number}", "namespace": "default", "labels": _LABELS}
        body: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        try:
            created = await cluster.create(body)
        except APIStatusError as error:
            return error
        await cluster.delete(created)
    raise AssertionError("the server never called the webhook")
