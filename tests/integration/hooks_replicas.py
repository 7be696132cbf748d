"""The processes that answer hooks together, and the certificate that they share."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import trustme

import pyinformer
from pyinformer.errors import ConflictError
from tests.integration.replica_processes import ReplicaProcesses
from tests.integration.service import Service
from tests.waiting import now, pause

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyinformer import Cluster

SECRET: Final = ("v1", "secrets", "default/replicated-webhooks")
_LEASE: Final = ("coordination.k8s.io/v1", "leases")
_PROGRAM: Final = "tests.integration.hooks_replica"


async def eventually(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something is true at the server; fail after a minute."""
    for _ in range(600):
        if await condition():
            return
        await pause(0.1)
    pytest.fail(f"not within a minute: {what}")


class Replicas(ReplicaProcesses):
    """Processes behind a Service.

    Args:
        cluster: where their Lease is.
        service: gets their ports.
        settings: of each replica; see `hooks_replica`. Their logs go to the same folder.
    """

    def __init__(self, cluster: Cluster, service: Service, settings: dict[str, Any]) -> None:
        super().__init__(_PROGRAM, Path(settings["folder"]))
        self._cluster = cluster
        self._service = service
        self._settings = settings
        self._ports: dict[str, tuple[int, int]] = {}

    async def start(self, name: str) -> None:
        """Start a replica, and let the Service use it when it is ready.

        One that was killed gets the ports that it had before.
        """
        if name not in self._ports:
            self._ports[name] = (free_port(), free_port())
        port, health_port = self._ports[name]
        if port in self._service.ports:
            self._service.ports.remove(port)
        (self.folder / name).unlink(missing_ok=True)
        own = {"identity": name, "port": port, "health_port": health_port}
        self.launch(name, {**self._settings, **own})

        async def is_ready() -> bool:
            return await asyncio.to_thread(_is_ready, health_port)

        await eventually(is_ready, f"{name} is ready")
        self._service.ports.append(port)

    def answers_slowly(self, name: str) -> bool:
        """Return whether a replica was asked about a slow engine since its start."""
        return (self.folder / name).exists()

    async def leader(self) -> str:
        """Wait until a replica that runs holds the Lease; return it."""
        found = ""

        async def is_held() -> bool:
            nonlocal found
            try:
                lease = await self._cluster.get(
                    *_LEASE, f"{self._settings['namespace']}/replicated"
                )
            except pyinformer.NotFoundError:
                return False
            found = lease.at("spec.holderIdentity", str, default="")
            return found in self.processes

        await eventually(is_held, "a leader")
        return found


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_port() -> int:
    """Return a port of loopback on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


class Certificates:
    """The Secret that the replicas share, and what each of them shows."""

    def __init__(self, cluster: Cluster, service: Service) -> None:
        self._cluster = cluster
        self._service = service

    async def _stored(self) -> dict[str, bytes]:
        try:
            found = await self._cluster.get(*SECRET)
        except pyinformer.NotFoundError:
            return {}
        data = found.at("data", dict, default={})
        return {name: base64.b64decode(text) for name, text in data.items()}

    async def authorities(self) -> list[str]:
        """Return the authorities, the newest first."""
        stored = (await self._stored()).get("ca.crt", b"").decode()
        end = "-----END CERTIFICATE-----"
        return [f"{one}{end}".strip() for one in stored.split(end) if one.strip()]

    async def are_two(self) -> bool:
        """Return whether there is a new authority beside the old one."""
        return len(await self.authorities()) == 2

    async def is_one(self) -> bool:
        """Return whether the old authority has gone."""
        return len(await self.authorities()) == 1

    async def renew_leaf(self) -> None:
        """Have a leaf renewed: one is put into the Secret with two thirds of its life over."""
        due: list[bytes] = []

        async def is_stored() -> bool:
            due[:] = [await self._store_due_leaf()]
            return bool(due[0])

        await eventually(is_stored, "a leaf in the Secret")
        await eventually(lambda: self._is_renewed(due[0]), "a new leaf")

    async def _store_due_leaf(self) -> bytes:
        """Return the leaf; nothing if the Secret has changed meanwhile."""
        found = (await self._cluster.get(*SECRET)).to_dict()
        data = {name: base64.b64decode(text) for name, text in found["data"].items()}
        today = datetime.now(UTC)
        leaf = trustme.CA.from_pem(data["ca.crt"], data["ca.key"]).issue_cert(
            "127.0.0.1",
            not_before=today - timedelta(days=70),
            not_after=today + timedelta(days=20),
        )
        new = {"tls.crt": leaf.cert_chain_pems[0], "tls.key": leaf.private_key_pem}
        for name, blob in new.items():
            found["data"][name] = base64.b64encode(blob.bytes()).decode()
        try:
            await self._cluster.replace(found)
        except ConflictError:
            return b""
        return new["tls.crt"].bytes()

    async def _is_renewed(self, due: bytes) -> bool:
        stored = (await self._stored()).get("tls.crt", due)
        return stored != due and await self.is_shown()

    async def is_shown(self) -> bool:
        """Return whether each replica shows the leaf of the Secret, of its newest authority."""
        leaf = (await self._stored()).get("tls.crt", b"").decode()
        authorities = await self.authorities()
        return bool(authorities) and all(
            [
                await asyncio.to_thread(_shows, port, leaf, authorities[0])
                for port in self._service.ports
            ]
        )

    async def is_rotated(self) -> bool:
        """Return `is_shown`, and have the leader look at once whether it may switch."""
        found = await self._cluster.get(*SECRET)
        edited = found.to_dict()
        edited["metadata"].setdefault("annotations", {})["looked-at"] = str(now())
        await self._cluster.patch(found, edited)
        return await self.is_shown()


def _shows(port: int, leaf: str, authority: str) -> bool:
    context = ssl.create_default_context(cadata=authority)
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
        ):
            return secured.getpeercert(binary_form=True) == ssl.PEM_cert_to_DER_cert(leaf)
    except OSError:  # it does not listen yet, or its authority is another one
        return False
