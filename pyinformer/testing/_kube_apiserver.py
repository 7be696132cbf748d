"""A real kube-apiserver with its etcd, on loopback, with fresh data, for tests.

In goes what shall differ from the defaults; out comes a running server with its address,
credentials, and synchronous calls to arrange what a test needs. Nothing else runs: no scheduler, no
controllers, no garbage collector. When the object stops, or its process dies, both programs are
gone and so is their data.
"""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final

from pyinformer.apimachinery._errors import InformerError, KubeAPIServerError, LifecycleError
from pyinformer.apimachinery._json import JSONObject
from pyinformer.testing._build import KubeBinaries, find_or_build
from pyinformer.testing._object_calls import ObjectCalls
from pyinformer.testing._polling import poll
from pyinformer.testing._processes import ProcessGroup, Program, free_ports
from pyinformer.testing._sync_client import SyncClient
from pyinformer.testing._tls import kubeconfig_text

_READY_TIMEOUT_SECONDS: Final = 120.0  # 4 s on a calm machine, 30 s on two busy cores
_START_ATTEMPTS: Final = 3  # somebody may take a free port before the server does
_QUOTA_BYTES: Final = 8 * 1024**3  # etcd's default of 2 GiB ends large tests with "no space"


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A bearer token that the server accepts for ever, and who comes with it."""

    token: str
    """The secret itself, without commas or quotes."""

    user: str
    """The user's name; it has no rights until an RBAC binding gives some."""

    groups: tuple[str, ...] = ()
    """The user's groups; `system:masters` may do everything."""


@dataclass(slots=True)
class _Running:
    """What exists between start and stop."""

    binaries: KubeBinaries
    group: ProcessGroup
    port: int
    etcd_port: int
    etcd: Program
    server: Program | None = None
    clients: list[SyncClient] = field(default_factory=list)  # the administrator's is first


@final
class KubeAPIServer(ObjectCalls):
    """A kube-apiserver and an etcd of one's own, as a context manager.

    Construction starts nothing; `start()` or `with` does. After `stop()` it can be started again,
    with fresh data. The calls that read and write objects are synchronous and usable from any
    thread.

    Attributes:
        token: the administrator's bearer token.
    """

    def __init__(
        self,
        *,
        build: bool = False,
        port: int = 0,
        tokens: Sequence[StaticToken] = (),
        event_ttl_seconds: float | None = None,
        watch_list: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
        extra_args: Sequence[str] = (),
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Describe a server.

        Args:
            build: whether the programs may be built if they are not found, which takes minutes.
            port: where to listen on 127.0.0.1; 0 is any free port.
            tokens: more users beside the administrator.
            event_ttl_seconds: how long Events live, in whole seconds; None is the server's hour.
            watch_list: whether a watch can send the initial state (`sendInitialEvents`).
            feature_gates: switches of the server, by name; they win over `watch_list`.
            extra_args: more flags of kube-apiserver; they come last, so they win.
            progress: hears one line for each step of a build.
        """
        super().__init__()
        self.token: str = secrets.token_hex(16)
        self._build = build
        self._wanted_port = port
        self._progress = progress
        self._tokens = (StaticToken(self.token, "pyinformer-admin", ("system:masters",)), *tokens)
        gates = {"WatchList": watch_list, **(feature_gates or {})}
        self._extra_args = [
            "--feature-gates=" + ",".join(f"{name}={on}" for name, on in gates.items()),
            *([] if event_ttl_seconds is None else [f"--event-ttl={event_ttl_seconds:.0f}s"]),
            *extra_args,
        ]
        self._state: _Running | None = None

    def start(self) -> None:
        """Start both programs and wait until the server is ready.

        Raises:
            KubeAPIServerNotFoundError: the programs were not found, and may not be built.
            KubeAPIServerError: the build or the start failed; the text ends with the logs.
            LifecycleError: it is running.
        """
        if self._state is not None:
            raise LifecycleError("this KubeAPIServer is running; stop() it before start()")
        binaries = find_or_build(build=self._build, progress=self._progress)
        for attempt in range(1, _START_ATTEMPTS + 1):
            try:
                self._start_once(binaries)
                return
            except BaseException as error:
                self.stop()
                if attempt == _START_ATTEMPTS or "address already in use" not in str(error):
                    raise

    def stop(self) -> None:
        """End both programs and remove their data. Idempotent.

        They are killed: their data is thrown away, and a graceful end takes a minute when there
        are open watches.
        """
        state, self._state = self._state, None
        if state is None:
            return
        _close(state.clients)
        state.group.close()

    def kill(self) -> None:
        """Kill kube-apiserver, as when its machine dies; etcd and the data stay."""
        state = self._running
        if state.server is not None:
            state.server.kill()
        _close(state.clients)

    def restart(self) -> None:
        """Start kube-apiserver again, at the same address, and wait until it is ready.

        Kills it first if it runs. Its certificate and tokens stay the same; what it kept in memory
        (the watch cache's history) is new.

        Raises:
            KubeAPIServerError: it did not become ready; the text ends with the logs.
        """
        self.kill()
        self._start_server(self._running)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def port(self) -> int:
        """The port of the server on 127.0.0.1."""
        return self._running.port

    @property
    def url(self) -> str:
        """The server's address, such as `https://127.0.0.1:40001`."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        """The certificates that verify the server; PEM, gone after stop()."""
        return self._running.group.folder / "certificates" / "apiserver.crt"

    @property
    def pid(self) -> int | None:
        """The process id of kube-apiserver, for measurements; None while it is killed."""
        server = self._running.server
        return server.pid if server is not None and server.is_running else None

    def logs(self, lines: int = 50) -> str:
        """Return the last lines that both programs printed."""
        return _logs(self._running, lines)

    def kubeconfig(self, token: str | None = None) -> str:
        """Return a kubeconfig as YAML, complete in itself.

        Args:
            token: the bearer token to put into it; None is the administrator's.
        """
        return kubeconfig_text(
            self.url, ca_pem=self.ca_file.read_bytes(), token=token or self.token
        )

    def write_kubeconfig(self, path: Path | str, token: str | None = None) -> Path:
        """Write a kubeconfig that only the user can read, and return its path."""
        target = Path(path)
        target.touch(mode=0o600)
        target.write_text(self.kubeconfig(token))
        return target

    def client(self, token: str | None = None) -> SyncClient:
        """Return a client of its own for a user; `stop()` and `kill()` close its connections.

        Args:
            token: one of the tokens given at construction; None is the administrator's.
        """
        state = self._running
        context = ssl.create_default_context(cafile=str(self.ca_file))
        client = SyncClient(port=state.port, token=token or self.token, context=context)
        state.clients.append(client)
        return client

    def close_connections(self) -> None:
        """Close the kept-alive connections of all clients; the next call opens a new one."""
        _close(self._running.clients)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JSONObject | None = None,
        content_type: str = "application/json",
    ) -> JSONObject:
        """Send one request as the administrator; see `ObjectCalls.request`."""
        state = self._running
        if not state.clients:
            raise LifecycleError("this KubeAPIServer never became ready")
        return state.clients[0].request(
            method, path, query=query, body=body, content_type=content_type
        )

    @property
    def _running(self) -> _Running:
        if self._state is None:
            raise LifecycleError("this KubeAPIServer is not running; start() it, or use `with`")
        return self._state

    def _start_once(self, binaries: KubeBinaries) -> None:
        port, etcd_port, peer_port = free_ports(3)
        group = ProcessGroup(prefix="pyinformer-kube-apiserver-")
        try:
            etcd = group.spawn("etcd", _etcd_command(binaries, etcd_port, peer_port))
        except BaseException:
            group.close()
            raise
        port = self._wanted_port or port
        self._state = _Running(binaries, group, port=port, etcd_port=etcd_port, etcd=etcd)
        tokens = group.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text("".join(map(_token_line, enumerate(self._tokens))))
        self._start_server(self._state)

    def _start_server(self, state: _Running) -> None:
        command = _server_command(state)
        state.server = state.group.spawn("kube-apiserver", [*command, *self._extra_args])
        ready = poll(
            lambda: _has_ended(state) or self._is_ready(state),
            timeout_seconds=_READY_TIMEOUT_SECONDS,
        )
        if not ready or _has_ended(state):
            ended = _has_ended(state)
            reason = f"{ended} ended" if ended else f"not ready in {_READY_TIMEOUT_SECONDS:.0f} s"
            raise KubeAPIServerError(
                "kube-apiserver cannot be used", f"{reason}; its logs end with\n{_logs(state, 15)}"
            )
        # The server makes this one by itself, a moment after it says that it is ready.
        self.ensure_namespace("default")

    def _is_ready(self, state: _Running) -> bool:
        try:
            client = state.clients[0] if state.clients else self.client()
            client.request_text("GET", "/readyz")
        except (FileNotFoundError, ssl.SSLError):
            return False  # the server has not written its certificate, or not all of it
        except InformerError:
            return False
        return True


def _close(clients: Sequence[SyncClient]) -> None:
    for client in clients:
        client.close()


def _token_line(numbered: tuple[int, StaticToken]) -> str:
    number, token = numbered
    return f'{token.token},{token.user},{number},"{",".join(token.groups)}"\n'


def _etcd_command(binaries: KubeBinaries, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(binaries.etcd),
        "--data-dir=etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={_QUOTA_BYTES}",
        "--log-level=warn",
    ]


def _server_command(state: _Running) -> list[str]:
    # The server makes the key of its own certificate before it reads the signing key, so the one
    # file serves both.
    key = "certificates/apiserver.key"
    return [
        str(state.binaries.kube_apiserver),
        f"--etcd-servers=http://127.0.0.1:{state.etcd_port}",
        "--cert-dir=certificates",
        "--bind-address=127.0.0.1",
        f"--secure-port={state.port}",
        f"--service-account-issuer=https://127.0.0.1:{state.port}/",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount,Priority",
    ]


def _has_ended(state: _Running) -> str:
    """Return the name of a program that has ended, or nothing."""
    programs = (state.etcd, state.server)
    return next((one.name for one in programs if one is not None and not one.is_running), "")


def _logs(state: _Running, lines: int) -> str:
    programs = [one for one in (state.etcd, state.server) if one is not None]
    return "\n".join(f"{one.name}:\n{one.last_lines(lines)}" for one in programs)
