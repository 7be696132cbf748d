"""Pods that a client writes into a server: a real kube-apiserver, or the embedded one.

The last update has the resource version that was announced before: every write moves the server's
by one, and the last of them come one by one. If the server itself writes in that moment, which
happens about once in five seconds, the peer times out and reports it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

import msgspec

from benchmarks.data.pods import PodGenerator
from benchmarks.harness.phases import Workload
from pyinformer.testing import APIServer, KubeAPIServer

_WRITERS = 8
_ONE_BY_ONE = 30  # updates at the end; what the server itself writes meanwhile is a few
_SAMPLE = 50
_SET_BY_SERVER = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generateName")


class Server(Protocol):
    """The part of a server that writes pods; usable from any thread."""

    def create(self, obj: dict[str, object], *, namespace: str | None = None) -> object: ...

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: dict[str, object],
        namespace: str | None = None,
    ) -> dict[str, object]: ...

    def get(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> dict[str, object]: ...


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    resource_version: str = ""


class _Stored(msgspec.Struct):
    metadata: _Metadata


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server without objects, and how to reach it."""

    server: Server
    url: str
    pid: int | None
    """Of its process, which is this one for the embedded server; None if it has ended."""
    ca_file: str = ""
    token: str = ""


@contextlib.contextmanager
def running(*, is_real: bool) -> Iterator[RunningServer]:
    """Start a server.

    Args:
        is_real: a kube-apiserver with its etcd, which must be built or found; else the embedded
            server of pyinformer.testing.

    Raises:
        KubeAPIServerError: there is no kube-apiserver, and none can be built.
    """
    if is_real:
        with KubeAPIServer(build=True) as real:
            yield RunningServer(real, real.url, real.pid, str(real.ca_file), real.token)
    else:
        with APIServer(tls=True) as embedded:
            yield RunningServer(embedded, embedded.url, os.getpid(), str(embedded.ca_file))


@dataclass(slots=True)
class WrittenPods:
    """A server that holds pods, and how to reach it."""

    running: RunningServer
    names: list[tuple[str, str]]
    """Namespace and name of each."""
    on_release: Callable[[], None] = lambda: None
    """Called when a peer has synced, before its updates begin."""

    def mean_bytes(self) -> float:
        """Return the size of the average pod, as the server now has it."""
        sample = self.names[:: max(1, len(self.names) // _SAMPLE)]
        pods = [
            self.running.server.get("v1", "pods", name, namespace) for namespace, name in sample
        ]
        return sum(len(msgspec.json.encode(pod)) for pod in pods) / len(pods)

    @contextlib.contextmanager
    def workload(self, updates: int) -> Iterator[Workload]:
        """Describe the pods to a peer, whose release lets the updates begin.

        Args:
            updates: how many; a few less, if the server itself writes meanwhile.
        """
        last = self.touch(0) + updates
        numbers = itertools.count(1)

        def write() -> None:
            self.on_release()
            with ThreadPoolExecutor(_WRITERS) as writers:
                at_once = itertools.islice(numbers, max(0, updates - _ONE_BY_ONE))
                list(writers.map(self.touch, at_once))
            while self.touch(next(numbers)) < last:
                pass

        with _control(write) as control_url:
            yield self._workload(updates, str(last), control_url)

    @contextlib.contextmanager
    def endless_workload(self, on_release: Callable[[], None]) -> Iterator[Workload]:
        """Describe the pods to a peer that is to follow until it is ended.

        Args:
            on_release: called on a thread when the peer has synced and follows.
        """
        with _control(on_release) as control_url:
            yield self._workload(sys.maxsize, "none", control_url)

    def _workload(self, updates: int, last: str, control_url: str) -> Workload:
        return Workload(
            url=self.running.url,
            objects=len(self.names),
            updates=updates,
            last_resource_version=last,
            ca_file=self.running.ca_file,
            token=self.running.token,
            control_url=control_url,
        )

    def touch(self, number: int) -> int:
        """Change a pod; return the resource version that it has now."""
        namespace, name = self.names[number % len(self.names)]
        changes: dict[str, object] = {"metadata": {"annotations": {"touched": _unique()}}}
        stored = self.running.server.patch("v1", "pods", name, changes, namespace)
        return int(msgspec.convert(stored, _Stored).metadata.resource_version)


_touches = itertools.count()


def _unique() -> str:
    return str(next(_touches))


@contextlib.contextmanager
def written_pods(objects: int, *, seed: int, is_real: bool) -> Iterator[WrittenPods]:
    """Start a server and write pods into it.

    Args:
        objects: how many.
        seed: of what they hold.
        is_real: a kube-apiserver with its etcd, which must be built or found; else the embedded
            server of pyinformer.testing.

    Raises:
        KubeAPIServerError: there is no kube-apiserver, and none can be built.
    """
    with running(is_real=is_real) as server:
        yield WrittenPods(server, _write(server.server, objects, seed=seed))


@contextlib.contextmanager
def small_collections(count: int, pods: int, *, is_real: bool) -> Iterator[RunningServer]:
    """Start a server and write pods into the namespaces small-0, small-1, and so on.

    Args:
        count: how many namespaces.
        pods: how many pods in each.
        is_real: as for `running`.
    """
    with running(is_real=is_real) as server:
        for number in range(count):
            namespace = f"small-{number}"
            meta = {"name": namespace}
            server.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
            for pod in _pods(PodGenerator(pods, seed=number), pods):
                pod["metadata"]["namespace"] = namespace
                server.server.create(pod)
        yield server


def _pods(generator: PodGenerator, count: int) -> Iterator[dict[str, Any]]:
    """Yield pods as a client writes them, without what the server sets."""
    for number in range(count):
        found = msgspec.json.decode(generator.pod(number, resource_version=1))
        for field in _SET_BY_SERVER:
            found["metadata"].pop(field, None)
        yield found


def _write(server: Server, objects: int, *, seed: int) -> list[tuple[str, str]]:
    def write(body: dict[str, Any]) -> tuple[str, str]:
        metadata = msgspec.convert(body, _Stored).metadata
        server.create(body)
        return metadata.namespace, metadata.name

    generator = PodGenerator(objects, seed=seed)
    for namespace in sorted({pod["metadata"]["namespace"] for pod in _pods(generator, objects)}):
        meta = {"name": namespace}
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    with ThreadPoolExecutor(_WRITERS) as writers:
        return list(writers.map(write, _pods(generator, objects)))


@contextlib.contextmanager
def _control(release: Callable[[], None]) -> Iterator[str]:
    """Serve the measurement's requests: a watch is always waited for, for nothing is lost."""
    released: list[threading.Thread] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if self.path == "/benchmark/release":
                released.append(threading.Thread(target=release))
                released[-1].start()
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, daemon=True)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            for thread in released:
                thread.join()
