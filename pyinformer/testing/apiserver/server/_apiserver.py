"""The embedded Kubernetes API server: HTTP on loopback, with a log of changes instead of etcd.

It behaves as a kube-apiserver does, faults included, and can be changed from any thread. It runs
no controllers: pods are not scheduled, and garbage is collected and namespaces are emptied only on
request.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import ssl
import tempfile
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, final

from pyinformer._runtime.clock import monotonic
from pyinformer.errors import ConflictError, InvalidArgumentError, LifecycleError
from pyinformer.objects import check_integer, check_iterable, check_seconds, check_type
from pyinformer.testing import _wall_clock
from pyinformer.testing._tls import kubeconfig_text, server_context, write_private
from pyinformer.testing.apiserver.access import (
    MASTERS,
    Access,
    Token,
    account_token,
    default_objects,
    read_objects,
)
from pyinformer.testing.apiserver.admission import Admission
from pyinformer.testing.apiserver.handler import Backend, ObjectTestAPI
from pyinformer.testing.apiserver.reads import ExpiredWatch, WatchSettings
from pyinformer.testing.apiserver.requests import (
    FaultScript,
    Interceptor,
    Interceptors,
    RequestLog,
    RequestPredicate,
    RequestRecord,
)
from pyinformer.testing.apiserver.resources import Registry
from pyinformer.testing.apiserver.server._http_handler import HTTPHandler
from pyinformer.testing.apiserver.server._server_replica import ServerReplica
from pyinformer.testing.apiserver.server._thread import ServerThread
from pyinformer.testing.apiserver.storage import (
    WATCH_BUFFER_EVENTS,
    ChangeReceiver,
    EventExpiry,
    Record,
    SavedState,
    Storage,
)
from pyinformer.testing.apiserver.writes import Writes, concerns

_HOST = "127.0.0.1"
_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_LARGEST_TICK_SECONDS = 1.0
_TICKS_PER_LIFE = 10


@final
class APIServer(ObjectTestAPI):
    """A Kubernetes API server for tests.

        with APIServer() as server:
            server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
            ... server.url, server.kubeconfig() ...

    Every method may be called from any thread and from inside a running event loop; it blocks
    briefly. Objects may be created before `start`.

    Args:
        watch_cache_size: how many changes per resource a watch may lag when it resumes; older
            positions get 410.
        history_size: how many changes per resource exact lists and continue tokens can go back.
        watch_buffer_events: how many events an open watch may lag before it is closed.
        bookmark_interval_seconds: the time between bookmarks of a watch that asked for them.
        final_bookmark_lead_seconds: how long before its timeout a watch gets a last bookmark.
        default_watch_timeout_seconds: the timeout of watches without one; None draws one
            between 30 and 60 minutes, as a real server does.
        watch_list: whether `sendInitialEvents` works; can be changed later.
        shard_selectors: whether lists and watches follow `shardSelector`; otherwise they ignore it,
            as a real server does without the feature gate ShardedListAndWatch. Can be changed
            later.
        expired_watch: the answer to a watch at an expired position: "event" is an ERROR event
            in a stream with status 200, as a real server does; "status" is HTTP 410.
        patience_seconds: how long a request waits for a resource version that does not exist yet
            before it fails with 504; a real server waits 3 s.
        page_token_lifetime_seconds: the age at which continue tokens expire.
        event_ttl_seconds: how long Events live; None keeps them. Events that are written together
            expire in one resource version.
        strict_namespaces: whether objects need their namespace to exist, as on a real server.
        tls: serve HTTPS with a certificate authority of its own (needs `trustme`).
        tokens: bearer tokens; without tokens and roles every request is allowed.
        rbac: evaluate Roles, ClusterRoles and their bindings, as they are at each request. The
            verbs of a `Token` are allowed in addition; without `tokens` the server creates one
            for an administrator.
        replicas: the number of servers of the same data, this one included; the others can lag,
            see `ServerReplica`.
        garbage_collection: soon after each write, delete the objects whose owners are gone, and
            empty namespaces that are deleted. `collect_garbage()` does so at once, with either
            setting.
        seed: the seed of uids, generated names and the fault script. Objects of two servers with
            the same seed may have the same uids, and are then equal: give each another one.
        port: the TCP port; 0 takes any free one.

    Attributes:
        faults: the fault script.
        watch_list: whether `sendInitialEvents` works; may be changed at any time.
        shard_selectors: whether `shardSelector` is followed; may be changed at any time.
        replicas: the other servers of the same data.
    """

    def __init__(
        self,
        *,
        watch_cache_size: int = 1000,
        history_size: int = 10_000,
        watch_buffer_events: int = WATCH_BUFFER_EVENTS,
        bookmark_interval_seconds: float = 60.0,
        final_bookmark_lead_seconds: float = 2.0,
        default_watch_timeout_seconds: float | None = None,
        watch_list: bool = True,
        shard_selectors: bool = False,
        expired_watch: ExpiredWatch = "event",
        patience_seconds: float = 0.25,
        page_token_lifetime_seconds: float = 300.0,
        event_ttl_seconds: float | None = None,
        strict_namespaces: bool = False,
        tls: bool = False,
        tokens: Sequence[Token] = (),
        rbac: bool = False,
        replicas: int = 1,
        garbage_collection: bool = False,
        seed: int = 0,
        port: int = 0,
    ) -> None:
        check_integer("watch_cache_size", watch_cache_size)
        check_integer("replicas", replicas)
        check_integer("history_size", history_size)
        check_type("seed", seed, int, shown="an integer")
        check_iterable("tokens", tokens, shown="a sequence of tokens", items=Token)
        if event_ttl_seconds is not None:
            check_seconds("event_ttl_seconds", event_ttl_seconds, is_positive=True)
        rng = random.Random(seed)
        self.faults: FaultScript = FaultScript(seed)
        self.watch_list = watch_list
        self.shard_selectors = shard_selectors
        self._port = port
        self._url: str | None = None
        self._ca_folder: tempfile.TemporaryDirectory[str] | None = None
        self._request_log = RequestLog()
        self._interceptors = Interceptors()
        new_storage = partial(
            Storage,
            window_size=watch_cache_size,
            history_size=max(history_size, watch_cache_size),
            watch_buffer_events=watch_buffer_events,
        )
        self._storage = new_storage()
        self._registry = Registry()
        self._access = Access(
            tokens or ([_administrator()] if rbac else ()),
            now=monotonic(),
            read=partial(read_objects, self._storage, self._registry) if rbac else None,
        )
        self._writes = Writes(
            self._storage,
            EventExpiry(event_ttl_seconds),
            self._registry,
            rng=rng,
            monotonic=monotonic,
            timestamp=_wall_clock.timestamp,
            strict_namespaces=strict_namespaces,
        )
        self._admission = Admission(self._storage, self._registry, rng)
        ssl_context: ssl.SSLContext | None = None
        self._ca_pem: bytes | None = None
        if tls:
            ssl_context, self._ca_pem = server_context(_HOST, "localhost")
        backend = Backend(
            storage=self._storage,
            registry=self._registry,
            writes=self._writes,
            admission=self._admission,
            access=self._access,
            request_log=self._request_log,
            faults=self.faults,
            interceptors=self._interceptors,
            settings=WatchSettings(
                bookmark_interval_seconds=bookmark_interval_seconds,
                final_bookmark_lead_seconds=final_bookmark_lead_seconds,
                default_timeout_seconds=default_watch_timeout_seconds or rng.uniform(1800, 3600),
                expired_watch=expired_watch,
                patience_seconds=patience_seconds,
            ),
            token_lifetime_seconds=page_token_lifetime_seconds,
            watch_list=lambda: self.watch_list,
            shard_selectors=lambda: self.shard_selectors,
            now=monotonic,
        )
        self._thread = ServerThread(
            HTTPHandler(backend).handle,
            ssl_context=ssl_context,
            tick=lambda: self._writes.expire(everything=False),
            tick_seconds=_tick_seconds(event_ttl_seconds),
        )
        self.replicas: tuple[ServerReplica, ...] = tuple(
            ServerReplica(
                backend, new_storage(), ssl_context=ssl_context, kubeconfig=self._kubeconfig_of
            )
            for _ in range(replicas - 1)
        )
        self._is_collecting = threading.Event()
        if garbage_collection:
            self._storage.on_write = self._written
        self._create_defaults(with_roles=rbac)

    def _create_defaults(self, *, with_roles: bool) -> None:
        for name in _NAMESPACES:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for one in default_objects() if with_roles else ():
            self.create(one)

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
    def url(self) -> str:
        """The base URL: `http://127.0.0.1:port`, or https.

        Raises:
            LifecycleError: the server has not been started.
        """
        if self._url is None:
            message = "the API server has no URL before start()"
            raise LifecycleError(message)
        return self._url

    @property
    def ca_pem(self) -> bytes | None:
        """The CA certificate that clients must trust, or None without TLS."""
        return self._ca_pem

    @property
    def ca_file(self) -> Path | None:
        """A file with the CA certificate, deleted by `stop`; None without TLS."""
        if self._ca_pem is None:
            return None
        if self._ca_folder is None:
            folder = tempfile.TemporaryDirectory(prefix="pyinformer-ca-")
            Path(folder.name, "ca.pem").write_bytes(self._ca_pem)  # once: a client may be reading
            self._ca_folder = folder
        return Path(self._ca_folder.name, "ca.pem")

    def kubeconfig(self, token: str | None = None) -> str:
        """Return a kubeconfig for this server as YAML text.

        Args:
            token: the bearer token in it; None uses the first token of the server, if any.
        """
        return self._kubeconfig_of(self.url, token)

    def _kubeconfig_of(self, url: str, token: str | None) -> str:
        token = self._access.first() if token is None else token
        return kubeconfig_text(url, ca_pem=self._ca_pem, token=token)

    def write_kubeconfig(self, path: str | Path, token: str | None = None) -> Path:
        """Write `kubeconfig()` to a file that only its owner can read, and return its path."""
        return write_private(Path(path), self.kubeconfig(token))

    def add_token(self, token: Token) -> None:
        """Add a bearer token, or replace its rights; from then on every request needs a token."""
        self._access.add(token, now=monotonic())

    @property
    def token(self) -> str | None:
        """The first bearer token of the server, the administrator's; None without tokens."""
        return self._access.first()

    def token_for(self, user: str, groups: Sequence[str] = ()) -> str:
        """Return a new bearer token of a user, with the rights that roles give, and no others.

        Args:
            user: the user name, such as `jane`.
            groups: the groups, such as `developers`; `system:authenticated` is always one.

        Raises:
            LifecycleError: the server was not created with `rbac=True`.
        """
        self._check_roles()
        value = secrets.token_urlsafe(16)
        self.add_token(Token(value=value, user=user, groups=tuple(groups), verbs=()))
        return value

    def token_for_service_account(self, name: str, namespace: str = "default") -> str:
        """Return a new bearer token of a service account, which is created if it does not exist.

        Raises:
            LifecycleError: the server was not created with `rbac=True`.
        """
        self._check_roles()
        with contextlib.suppress(ConflictError):
            metadata = {"name": name, "namespace": namespace}
            self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        resource = self._registry.find("", "v1", "serviceaccounts")
        account = None if resource is None else self._storage.get(resource, f"{namespace}/{name}")
        if account is None:
            message = f"the service account {name} was deleted while its token was made"
            raise LifecycleError(message)
        now, timestamp = monotonic(), _wall_clock.timestamp
        answer = account_token(account, {}, self._access, now=now, timestamp=timestamp)
        return str(answer["status"]["token"])

    def _check_roles(self) -> None:
        if not self._access.has_roles:
            message = "this API server does not evaluate roles: create it as APIServer(rbac=True)"
            raise LifecycleError(message)

    def expire_token(self, value: str) -> None:
        """Answer 401 to a token from now on; open watches continue."""
        self._access.expire(value)

    def start(self) -> None:
        """Listen on loopback, in a separate thread.

        Raises:
            OSError: the port is not available.
        """
        self._port = self._thread.start(self._port)
        scheme = "http" if self._ca_pem is None else "https"
        self._url = f"{scheme}://{_HOST}:{self._port}"
        for replica in self.replicas:
            replica.start()
        if self._storage.on_write is not None:
            self._thread.call_soon(self._collect)  # for objects that were created before

    def _written(self, record: Record | None) -> None:
        """Schedule a garbage collection if a write needs one; writes soon after share it."""
        if (record is None or concerns(record)) and not self._is_collecting.is_set():
            self._is_collecting.set()
            self._thread.call_soon(self._collect)

    def _collect(self) -> None:
        self._is_collecting.clear()
        self.collect_garbage()

    def stop(self) -> None:
        """Cut every connection and stop listening; does nothing if the server does not run."""
        for replica in self.replicas:
            replica.stop()
        self._thread.stop()
        if self._ca_folder is not None:
            self._ca_folder.cleanup()
            self._ca_folder = None

    def restart(self, *, keep_history: bool) -> None:
        """Cut every connection, and listen on the same port again.

        Args:
            keep_history: False forgets the watch windows, as a new kube-apiserver process does:
                a watch at an older position gets 410.
        """
        self.stop_accepting()
        self.drop_connections()
        if not keep_history:
            self._storage.forget(history=False)
        self.accept_again()

    def stop_accepting(self) -> None:
        """Refuse new connections; open ones stay."""
        self._thread.close_port()

    def accept_again(self) -> None:
        """Undo `stop_accepting`."""
        self._thread.listen()

    def drop_connections(self, *, reset: bool = True) -> None:
        """Cut every open connection with RST, or with FIN inside a body."""
        self._thread.cut(reset=reset)

    def save(self) -> SavedState:
        """Return all objects and the resource version, like a backup of etcd."""
        return self._storage.save()

    def restore(self, saved: SavedState, *, bump_revision: int = 0) -> None:
        """Cut every connection and restore a saved state, its resource version included.

        Args:
            saved: what `save()` returned.
            bump_revision: the number to add to the resource version; if not 0, all older history is
                forgotten, as by `etcdutl snapshot restore --bump-revision N --mark-compacted`.

        Raises:
            InvalidArgumentError: `bump_revision` is negative.
        """
        if bump_revision < 0:
            raise InvalidArgumentError("bump_revision", "must be at least 0")
        self.stop_accepting()
        self.drop_connections()
        for replica in self.replicas:
            replica.drop_connections()
        self._storage.restore(saved, bump_revision=bump_revision)
        self.accept_again()

    def add_receiver(self, receiver: ChangeReceiver) -> None:
        """Call a receiver for the state of now, and then for every change of every object."""
        self._storage.add_receiver(receiver)

    def remove_receiver(self, receiver: ChangeReceiver) -> None:
        """Stop calling a receiver; one that is not called is ignored."""
        self._storage.remove_receiver(receiver)

    def intercept(self, function: Interceptor) -> AbstractContextManager[None]:
        """Call a function for each request, before it is answered: `with apiserver.intercept(f):`.

            def third_write(request: InterceptedRequest) -> Fault | None:
                ...  # Fault(status=500) refuses, Fault(cut_after_bytes=0) loses the answer

        It sees the requests of clients to this server and its replicas, discovery, lists and
        watches included; not the calls of the test, such as `create`. Of several functions each
        sees what those before it have altered.

        Args:
            function: `function(request)`, which returns a Fault to carry out, an altered request
                (`dataclasses.replace(request, body=...)`), or None. What chooses the requests of a
                Fault, such as `times`, is not read. A plain function is called in the server's
                thread and must not block; what an asynchronous one waits for holds the request. It
                runs in the event loop of this call, if there is one, else in the server's.

        Raises:
            InvalidTypeError: it cannot be called so, or, at the end of the block, has returned
                something else.
            Exception: at the end of the block, what the function has raised first. The request was
                answered with 400, and the function not called again.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        return self._interceptors.intercepting(function, loop)

    @property
    def requests(self) -> tuple[RequestRecord, ...]:
        """The requests since the start or the last `clear_requests`, oldest first."""
        return self._request_log.records()

    def clear_requests(self) -> None:
        """Forget the requests so far."""
        self._request_log.clear()

    def wait_for_request(
        self, predicate: RequestPredicate, *, timeout_seconds: float = 10.0
    ) -> RequestRecord:
        """Block until a request satisfies the predicate, now or later.

        Raises:
            TimeoutError: no request satisfied it in time.
        """
        return self._request_log.wait_for(predicate, timeout_seconds)

    @property
    def open_watches(self) -> int:
        """The number of open watches."""
        return len(self._storage.subscriptions())

    def wait_for_watches(self, count: int, *, timeout_seconds: float = 10.0) -> None:
        """Block until exactly this number of watches is open.

        Raises:
            TimeoutError: the number was not reached in time.
        """
        self._storage.wait_for_subscriptions(count, timeout_seconds)


def _administrator() -> Token:
    # Not from `rng`: with its known seed any program on the host could guess the token.
    value = f"admin-{secrets.token_urlsafe(24)}"
    return Token(value=value, user="admin", groups=(MASTERS,), verbs=())


def _tick_seconds(event_ttl_seconds: float | None) -> float:
    if event_ttl_seconds is None:
        return 0.0
    return min(event_ttl_seconds / _TICKS_PER_LIFE, _LARGEST_TICK_SECONDS)
