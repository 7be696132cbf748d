"""One kube-apiserver of a real server: its process, its address, and its clients.

It can be killed and started again at the same address. All replicas share one folder, and with it
one certificate, which the first to start writes, and one file of tokens.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Final, final

from pyinformer.errors import InformerError
from pyinformer.testing.kube_apiserver._processes import ProcessGroup, ServerProgram
from pyinformer.testing.kube_apiserver._sync_client import SyncClient

TOKENS: Final = "tokens.csv"
"""The file with the bearer tokens, in the folder of the process group."""

_AS_IN_CLUSTERS: Final = (
    "--authorization-mode=RBAC",
    "--allow-privileged=true",
    "--service-cluster-ip-range=10.96.0.0/12",
    # No controller creates the account `default` of a namespace; without it, no pod is accepted.
    "--disable-admission-plugins=ServiceAccount",
)
"""What kubeadm sets, as far as it matters without nodes and controllers; envtest disables the same
admission plug-in."""

_CERTIFICATES: Final = "certificates"


@final
class APIServerProcess:
    """One kube-apiserver; `spawn` starts it."""

    def __init__(
        self, group: ProcessGroup, executable: Path, *, number: int, port: int, token: str
    ) -> None:
        self.port = port
        self.program: ServerProgram | None = None
        self.was_ready: bool = False
        self._group = group
        self._executable = executable
        self._name = "kube-apiserver" if not number else f"kube-apiserver-{number + 1}"
        self._token = token
        self._clients: list[SyncClient] = []  # the administrator's token is the first

    @property
    def is_up(self) -> bool:
        """Whether its process runs and has become ready."""
        return self.program is not None and self.program.is_running and self.was_ready

    @property
    def ca_file(self) -> Path:
        """The file of its CA certificates."""
        return self._group.folder / _CERTIFICATES / "apiserver.crt"

    def spawn(self, flags: Sequence[str], *, etcd_port: int, issuer_port: int) -> None:
        """Start the process, without waiting until it is ready."""
        # The server writes the key of its certificate before it reads the signing key, so the
        # one file can be both.
        key = f"{_CERTIFICATES}/apiserver.key"
        defaults = [
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--cert-dir={_CERTIFICATES}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--service-account-issuer=https://127.0.0.1:{issuer_port}/",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--token-auth-file={TOKENS}",
            *_AS_IN_CLUSTERS,
        ]
        named = {flag.partition("=")[0] for flag in flags}
        kept = [flag for flag in defaults if flag.partition("=")[0] not in named]
        self.program = self._group.spawn(self._name, [str(self._executable), *kept, *flags])

    def kill(self) -> None:
        """Send SIGKILL, and close the connections of its clients; idempotent."""
        self.was_ready = False
        if self.program is not None:
            self.program.kill()
        self.close_connections()

    def is_ready(self) -> bool:
        """Request its readiness."""
        try:
            self.admin().request_text("GET", "/readyz")
        except (FileNotFoundError, ssl.SSLError):
            return False  # its certificate is missing or incomplete
        except InformerError:
            return False
        self.was_ready = True
        return True

    def admin(self) -> SyncClient:
        """Return the client of the administrator, always the same."""
        return self._clients[0] if self._clients else self.connect(self._token)

    def connect(self, token: str) -> SyncClient:
        """Return a new client for a user."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        client = SyncClient(port=self.port, token=token, context=context)
        self._clients.append(client)
        return client

    def close_connections(self) -> None:
        """Close the kept-alive connections of its clients."""
        for client in self._clients:
            client.close()
