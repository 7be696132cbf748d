"""A rotation of the authority while clients connect, with sockets, on an embedded API server."""

from __future__ import annotations

import base64
import ssl
from typing import TYPE_CHECKING

import anyio
import pytest

import pyinformer
from pyinformer.admission.certificates import CABundles, SelfSignedCertificate
from tests.admission.certificates.issuing import HOST, serial_of, served
from tests.admission.certificates.replicas import (
    REGISTRATION,
    SECRET,
    VALIDATING,
    configuration,
)
from tests.waiting import pause, until

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_PLURAL = "validatingwebhookconfigurations"


@pytest.mark.slow
async def test_clients_that_trust_what_is_published_verify_each_certificate(
    apiserver: APIServer,
) -> None:
    """The leader waits ten seconds for servers to follow, so the test takes that long."""
    apiserver.register(REGISTRATION, VALIDATING.kind, _PLURAL, namespaced=False)
    apiserver.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "acme"}})
    apiserver.create(configuration(VALIDATING))
    shown: set[str] = set()

    def published() -> str:
        found = apiserver.get(REGISTRATION, _PLURAL, VALIDATING.name)
        encoded = {one["clientConfig"].get("caBundle", "") for one in found["webhooks"]}
        assert len(encoded) == 1
        return base64.b64decode(encoded.pop()).decode()

    async with pyinformer.connect(server=apiserver.url) as cluster:
        certificate = SelfSignedCertificate(
            cluster, "acme", "db-webhooks", [HOST], is_leader=lambda: True
        )
        bundles = CABundles(
            cluster, [VALIDATING], certificate, is_leader=lambda: True, field_manager="db"
        )
        async with certificate, bundles, served(certificate.context) as port:
            await until(published)
            old = published()
            async with anyio.create_task_group() as group:

                async def connect() -> None:
                    while len(shown) < 3:
                        shown.add(await serial_of(port, published()))
                        await pause(0.01)

                for _ in range(3):
                    group.start_soon(connect)
                await until(lambda: shown)
                apiserver.delete(*SECRET)
                await until(lambda: len(shown) == 2)  # the last one of the old authority
                await pause(10.0)
                certificate.wake()
            with pytest.raises(ssl.SSLCertVerificationError):
                await serial_of(port, old)
