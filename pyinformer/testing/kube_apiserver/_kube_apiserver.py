"""A real kube-apiserver with its etcd, on loopback, with fresh data, for tests.

Nothing else runs: no scheduler, no controllers, no garbage collector. When the object is stopped,
or its process dies, both programs end and their data is removed.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, final

from pyinformer.errors import (
    InformerError,
    InvalidArgumentError,
    KubeAPIServerError,
    LifecycleError,
)
from pyinformer.objects import (
    JSONObject,
    check_integer,
    check_iterable,
    check_seconds,
    check_type,
)
from pyinformer.testing._polling import poll
from pyinformer.testing._tls import kubeconfig_text, write_private
from pyinformer.testing.kube_apiserver._apiserver_process import TOKENS, APIServerProcess
from pyinformer.testing.kube_apiserver._build import KubeBinaries, find_or_build
from pyinformer.testing.kube_apiserver._etcd import Etcd, SavedEtcd
from pyinformer.testing.kube_apiserver._object_calls import ObjectCalls
from pyinformer.testing.kube_apiserver._processes import (
    ProcessGroup,
    ServerProgram,
    check_free,
    free_ports,
)
from pyinformer.testing.kube_apiserver._sync_client import SyncClient

_READY_TIMEOUT_SECONDS: Final = 120.0  # it takes 4 s on an idle machine, 30 s on two busy cores
_START_ATTEMPTS: Final = 3  # another program may take a free port before the server does


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A bearer token that never expires, and its user."""

    token: str
    """The token itself, without commas or quotes."""

    user: str
    """The user's name; it has no rights without an RBAC binding."""

    groups: tuple[str, ...] = ()
    """The user's groups; `system:masters` has all rights."""


@dataclass(slots=True)
class _Running:
    """The processes and clients between `start` and `stop`."""

    group: ProcessGroup
    etcd: Etcd
    replicas: tuple[APIServerProcess, ...]
    saved: list[SavedEtcd] = field(default_factory=list)


class EtcdPath(Protocol):
    """A way to etcd, such as an `EtcdRelay`."""

    def attach(self, port: int) -> int:
        """Lead to this port of loopback, and return the port to connect to."""
        ...


@final
class KubeAPIServer(ObjectCalls):
    """A private kube-apiserver with its etcd, as a context manager.

    `start()` or `with` starts the programs. After `stop()` they can be started again, with fresh
    data. The methods that read and write objects are synchronous and usable from any thread; with
    several replicas they use the first one that is ready.

    Attributes:
        token: the administrator's bearer token.
    """

    def __init__(
        self,
        *,
        build: bool = False,
        port: int = 0,
        replicas: int = 1,
        tokens: Sequence[StaticToken] = (),
        event_ttl_seconds: float | None = None,
        watch_list: bool = True,
        feature_gates: Mapping[str, bool] | None = None,
        extra_args: Sequence[str] = (),
        etcd_relays: Sequence[EtcdPath] = (),
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Describe a server.

        Args:
            build: whether missing programs may be built, which takes minutes.
            port: the port of the first replica on 127.0.0.1; 0 is any free port.
            replicas: the number of kube-apiservers of the one etcd, each with its own port.
            tokens: further users.
            event_ttl_seconds: how long Events live, in whole seconds; None is the server's default,
                an hour.
            watch_list: whether a watch can send the initial state (`sendInitialEvents`).
            feature_gates: feature gates by name; they take precedence over `watch_list`.
            extra_args: further flags of kube-apiserver, as `--name=value`; each replaces a flag of
                the same name that the kit sets itself. `--disable-admission-plugins=` enables
                ServiceAccount, which refuses pods in namespaces without the account `default`.
            etcd_relays: the relays through which replicas reach etcd, in their order; those that
                have none reach it directly. They must run before the server is started.
            progress: receives one line for each step of a build.

        Raises:
            InvalidArgumentError: `replicas` is less than 1, or `event_ttl_seconds` is not positive.
            InvalidTypeError: an argument is of another type.
        """
        check_integer("replicas", replicas)
        check_iterable("tokens", tokens, shown="a sequence of tokens", items=StaticToken)
        check_iterable("extra_args", extra_args, shown="a sequence of texts", items=str)
        check_iterable("etcd_relays", etcd_relays, shown="a sequence of relays")
        if event_ttl_seconds is not None:
            check_seconds("event_ttl_seconds", event_ttl_seconds, is_positive=True)
        if feature_gates is not None:
            check_type("feature_gates", feature_gates, Mapping, shown="a mapping")
        check_iterable("etcd_relays", etcd_relays, shown="a sequence of EtcdRelay")
        super().__init__()
        self.token: str = secrets.token_hex(16)
        self._build = build
        self._wanted_port = port
        self._count = replicas
        self._progress = progress
        self._etcd_relays = tuple(etcd_relays)
        self._tokens = (StaticToken(self.token, "pyinformer-admin", ("system:masters",)), *tokens)
        gates = {"WatchList": watch_list, **(feature_gates or {})}
        self._extra_args = [
            "--feature-gates=" + ",".join(f"{name}={on}" for name, on in gates.items()),
            *([] if event_ttl_seconds is None else [f"--event-ttl={event_ttl_seconds:.0f}s"]),
            # All have the address 127.0.0.1: each would overwrite the others' endpoint every 10 s.
            *(["--endpoint-reconciler-type=none"] if replicas > 1 else []),
            *extra_args,
        ]
        self._state: _Running | None = None

    def start(self) -> None:
        """Start all programs and wait until every replica is ready.

        Raises:
            KubeAPIServerNotFoundError: the programs were not found and may not be built.
            KubeAPIServerError: the port is in use, or the build or the start failed; then the text
                ends with the logs.
            LifecycleError: it already runs.
        """
        if self._state is not None:
            raise LifecycleError("this KubeAPIServer already runs: call stop() before start()")
        check_free(self._wanted_port)
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
        """Kill all programs and remove their data; idempotent.

        A graceful end would take a minute with open watches, and the data is not needed.
        """
        state, self._state = self._state, None
        if state is None:
            return
        for replica in state.replicas:
            replica.close_connections()
        state.group.close()

    def kill(self, replica: int | None = None) -> None:
        """Kill kube-apiserver, as if its machine failed; etcd and the data stay.

        Args:
            replica: the index of the replica, from 0; None is all of them.

        Raises:
            InvalidArgumentError: there is no such replica.
        """
        for one in self._chosen(replica):
            one.kill()

    def restart(self, replica: int | None = None) -> None:
        """Start kube-apiserver again, at the same address, and wait until it is ready.

        A running one is killed first. Its certificate and tokens stay the same; its memory, such as
        the history in the watch cache, is lost.

        Args:
            replica: the index of the replica, from 0; None is all of them.

        Raises:
            InvalidArgumentError: there is no such replica.
            KubeAPIServerError: it did not become ready; the text ends with the logs.
        """
        chosen = self._chosen(replica)
        self.kill(replica)
        self._start_servers(self._running, chosen)

    def pause(self, replica: int | None = None) -> None:
        """Stop kube-apiserver with SIGSTOP: connections stay open, and no request is answered.

        Args:
            replica: the index of the replica, from 0; None is all of them.

        Raises:
            InvalidArgumentError: there is no such replica.
            KubeAPIServerError: it has ended.
        """
        for one in self._chosen(replica):
            if one.program is not None:
                one.program.pause()

    def resume(self, replica: int | None = None) -> None:
        """Continue after `pause`.

        Raises:
            InvalidArgumentError: there is no such replica.
        """
        for one in self._chosen(replica):
            if one.program is not None:
                one.program.resume()

    @property
    def etcd_url(self) -> str:
        """The address of etcd, and of its JSON gateway, such as `http://127.0.0.1:40002`."""
        return self._running.etcd.url

    def pause_etcd(self) -> None:
        """Stop etcd with SIGSTOP until `resume_etcd`.

        Raises:
            KubeAPIServerError: it has ended.
        """
        self._running.etcd.program.pause()

    def resume_etcd(self) -> None:
        """Continue after `pause_etcd`."""
        self._running.etcd.program.resume()

    def restart_etcd(self) -> None:
        """Kill etcd with SIGKILL, and start it again with its data; kube-apiserver keeps running.

        Raises:
            KubeAPIServerError: it did not start; the text ends with its log.
        """
        self._running.etcd.restart()

    def compact(self) -> int:
        """Let etcd forget every revision before the newest, as it does every five minutes.

        Watches, exact lists and continue tokens of before then get 410, unless the memory of
        kube-apiserver reaches so far back.

        Returns:
            The revision that is the oldest now.

        Raises:
            KubeAPIServerError: etcd did not do it.
        """
        return self._running.etcd.compact()

    def save(self) -> SavedEtcd:
        """Copy etcd's data for `restore`, like a backup.

        The server keeps running: requests wait for some tenths of a second, and connections stay
        open.

        Returns:
            The copy, in the server's folder: `stop()` removes it.

        Raises:
            KubeAPIServerError: etcd has ended.
        """
        state = self._running
        state.saved.append(state.etcd.save())
        return state.saved[-1]

    def restore(self, saved: SavedEtcd, *, bump_revision: int = 0) -> None:
        """Restore saved data, resource versions included, and wait until the server is ready.

        All programs are killed, the data is replaced, and they start again at the same addresses,
        as after a disaster in production.

        Args:
            saved: a result of `save()` of this server since its start; it can be used repeatedly.
            bump_revision: the number to add to the revision, with all older history compacted, so
                that watches must start over: `etcdutl snapshot restore --bump-revision N
                --mark-compacted`. 0 restores the old revision.

        Raises:
            InvalidArgumentError: another server saved it, or `bump_revision` is negative.
            KubeAPIServerError: etcdutl is needed and missing, or failed; or the server did not
                become ready, and the text ends with the logs.
        """
        state = self._running
        if saved not in state.saved:
            reason = "must be a result of save() of this server since its start"
            raise InvalidArgumentError("saved", reason)
        if bump_revision < 0:
            raise InvalidArgumentError("bump_revision", "must be at least 0")
        if bump_revision:
            state.etcd.check_tool()
        self.kill()
        state.etcd.restore(saved, bump_revision=bump_revision)
        self._start_servers(state, state.replicas)

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
        """The port of the first replica on 127.0.0.1."""
        return self.ports[0]

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of all replicas on 127.0.0.1."""
        return tuple(replica.port for replica in self._running.replicas)

    @property
    def url(self) -> str:
        """The server's address, such as `https://127.0.0.1:40001`."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca_file(self) -> Path:
        """The file of CA certificates in PEM; `stop()` removes it."""
        return self._running.replicas[0].ca_file

    @property
    def pid(self) -> int | None:
        """The process id of the first kube-apiserver, for measurements; None if it is killed."""
        program = self._running.replicas[0].program
        return program.pid if program is not None and program.is_running else None

    def logs(self, lines: int = 50) -> str:
        """Return the last lines that each program printed."""
        state = self._running
        programs = [state.etcd.program, *(one.program for one in state.replicas)]
        return _logs([one for one in programs if one is not None], lines)

    def kubeconfig(self, token: str | None = None) -> str:
        """Return a self-contained kubeconfig as YAML.

        Args:
            token: the bearer token in it; None is the administrator's.
        """
        return kubeconfig_text(
            self.url, ca_pem=self.ca_file.read_bytes(), token=token or self.token
        )

    def write_kubeconfig(self, path: Path | str, token: str | None = None) -> Path:
        """Write a kubeconfig that only its owner can read, and return its path."""
        return write_private(Path(path), self.kubeconfig(token))

    def client(self, token: str | None = None, *, replica: int = 0) -> SyncClient:
        """Return a new client for a user; `stop()` and `kill()` close its connections.

        Args:
            token: one of the tokens given at construction; None is the administrator's.
            replica: the index of the replica that it uses, from 0.
        """
        (one,) = self._chosen(replica)
        return one.connect(token or self.token)

    def close_connections(self) -> None:
        """Close the kept-alive connections of all clients; the next call opens a new one."""
        for replica in self._running.replicas:
            replica.close_connections()

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
        replicas = self._running.replicas
        replica = next((one for one in replicas if one.is_up), replicas[0])
        return replica.admin().request(
            method, path, query=query, body=body, content_type=content_type
        )

    @property
    def _running(self) -> _Running:
        if self._state is None:
            raise LifecycleError("this KubeAPIServer does not run: call start(), or use `with`")
        return self._state

    def _chosen(self, replica: int | None) -> tuple[APIServerProcess, ...]:
        replicas = self._running.replicas
        if replica is None:
            return replicas
        if not 0 <= replica < len(replicas):
            raise InvalidArgumentError("replica", f"is {replica}, and there are {len(replicas)}")
        return (replicas[replica],)

    def _start_once(self, binaries: KubeBinaries) -> None:
        etcd_port, peer_port, *ports = free_ports(2 + self._count)
        ports[0] = self._wanted_port or ports[0]
        group = ProcessGroup(prefix="pyinformer-kube-apiserver-")
        try:
            etcd = Etcd(binaries, group, port=etcd_port, peer_port=peer_port)
        except BaseException:
            group.close()
            raise
        replicas = tuple(
            APIServerProcess(
                group, binaries.kube_apiserver, number=number, port=port, token=self.token
            )
            for number, port in enumerate(ports)
        )
        self._state = _Running(group, etcd, replicas)
        tokens = group.folder / TOKENS
        tokens.touch(mode=0o600)
        tokens.write_text("".join(map(_token_line, enumerate(self._tokens))))
        self._start_servers(self._state, replicas[:1])  # it writes the certificate for all
        self._start_servers(self._state, replicas[1:])

    def _start_servers(self, state: _Running, replicas: Sequence[APIServerProcess]) -> None:
        paths = dict(zip(state.replicas, self._etcd_relays, strict=False))
        for one in replicas:
            port = paths[one].attach(state.etcd.port) if one in paths else state.etcd.port
            one.spawn(self._extra_args, etcd_port=port, issuer_port=self.port)
        for one in replicas:
            _wait_until_ready(state, one)
        # The server creates this one itself, a moment after it reports that it is ready.
        if not poll(self._has_default_namespace, timeout_seconds=_READY_TIMEOUT_SECONDS):
            self.ensure_namespace("default")

    def _has_default_namespace(self) -> bool:
        with contextlib.suppress(InformerError):  # etcd may be in trouble just now
            self.ensure_namespace("default")
            return True
        return False


def _token_line(numbered: tuple[int, StaticToken]) -> str:
    number, token = numbered
    return f'{token.token},{token.user},{number},"{",".join(token.groups)}"\n'


def _wait_until_ready(state: _Running, replica: APIServerProcess) -> None:
    programs = [one for one in (state.etcd.program, replica.program) if one is not None]

    def ended() -> str:
        """Return the name of a program that has ended, or None."""
        return next((one.name for one in programs if not one.is_running), "")

    ready = poll(lambda: ended() or replica.is_ready(), timeout_seconds=_READY_TIMEOUT_SECONDS)
    name = ended()
    if not ready or name:
        reason = f"{name} ended" if name else f"not ready in {_READY_TIMEOUT_SECONDS:.0f} s"
        raise KubeAPIServerError(
            "kube-apiserver cannot be used", f"{reason}; its logs end with\n{_logs(programs, 15)}"
        )


def _logs(programs: Sequence[ServerProgram], lines: int) -> str:
    return "\n".join(f"{one.name}:\n{one.last_lines(lines)}" for one in programs)
