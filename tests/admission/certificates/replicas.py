"""Replicas of an operator in a World whose time is virtual, and configurations of webhooks."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

from pyinformer.admission.certificates import CABundles, SelfSignedCertificate, Target
from pyinformer.client.cluster import Cluster, WriteOptions
from tests.admission.certificates.issuing import HOST
from tests.leaderelection.electing import Line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyinformer.admission.certificates import ServingCertificate
    from pyinformer.testing import World

SECRET = ("v1", "secrets", "db-webhooks", "acme")
VALIDATING = Target("ValidatingWebhookConfiguration", "db")
MUTATING = Target("MutatingWebhookConfiguration", "db")
DEFINITION = Target("CustomResourceDefinition", "databases.acme.io")
REGISTRATION = "admissionregistration.k8s.io/v1"
BEGUN = 1_800_000_000.0
DAY = 86_400.0


class Replica:
    """A certificate of one replica, on a line of its own."""

    def __init__(self, world: World, *, leads: bool = True, targets: Iterable[Target] = ()) -> None:
        self.line = Line(world.cluster.connection)
        self.leads = leads
        self.now = BEGUN
        cluster = Cluster(
            world.cluster.config,
            name="",
            write_options=WriteOptions(writes_per_second=None, retry_limit=0),
            connection=self.line,
        )
        self.certificate = SelfSignedCertificate(
            cluster,
            "acme",
            "db-webhooks",
            [HOST],
            is_leader=lambda: self.leads,
            wall_clock=lambda: self.now,
        )
        self.bundles = CABundles(
            cluster,
            targets,
            self.certificate,
            is_leader=lambda: self.leads,
            field_manager="db-webhooks",
        )

    async def start(self) -> None:
        """Start the certificate and what publishes it.

        Cancellation:
            What was started stays.
        """
        await self.certificate.start()
        await self.bundles.start()

    async def aclose(self) -> None:
        """Close both.

        Cancellation:
            As that of each.
        """
        await self.bundles.aclose()
        await self.certificate.aclose()


def serial(certificate: ServingCertificate, *, at: str = "") -> str:
    """Return which certificate a context shows, by a handshake in memory.

    Args:
        certificate: of the server.
        at: a bundle that has to verify it; empty for none. Its times are not checked.

    Raises:
        ssl.SSLError: the bundle does not verify it.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=at or certificate.bundle)
    context.verify_flags |= ssl.VerifyFlags(_NO_CHECK_TIME)
    client = context.wrap_bio(to_client, to_server, server_hostname=HOST)
    server = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(5):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = client.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME


def configuration(target: Target, bundle: str | None = None, **metadata: Any) -> dict[str, Any]:
    """Return a configuration with two webhooks, as `kubectl apply` creates it.

    Args:
        target: its kind and name.
        bundle: the caBundle of its webhooks; None for none.
        **metadata: more of its metadata.
    """
    client: dict[str, Any] = {"service": {"name": "db", "namespace": "acme", "path": "/x"}}
    if bundle is not None:
        client["caBundle"] = bundle
    return {
        "apiVersion": REGISTRATION,
        "kind": target.kind,
        "metadata": {"name": target.name, **metadata},
        "webhooks": [
            {
                "name": f"{name}.acme.io",
                "clientConfig": client,
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "rules": [
                    {
                        "apiGroups": ["acme.io"],
                        "apiVersions": ["v1"],
                        "resources": [name],
                        "operations": ["CREATE"],
                    }
                ],
            }
            for name in ("databases", "users")
        ],
    }


def definition(*, converts: bool = True) -> dict[str, Any]:
    """Return a definition whose versions the operator converts."""
    conversion: dict[str, Any] = {"strategy": "None"}
    if converts:
        client = {"service": {"name": "db", "namespace": "acme", "path": "/convert"}}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        conversion = {"strategy": "Webhook", "webhook": webhook}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION.name},
        "spec": {
            "group": "acme.io",
            "names": {"kind": "Database", "plural": "databases", "singular": "database"},
            "scope": "Namespaced",
            "conversion": conversion,
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
