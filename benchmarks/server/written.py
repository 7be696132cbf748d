"""Pods that a client writes into a server: a real kube-apiserver, or the embedded one.

The last update has the resource version that was announced before: every write moves the server's
by one, and the last of them come one by one. If the server itself writes in that moment, which
happens about once in five seconds, the peer times out and reports it.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol

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


@dataclass(slots=True)
class WrittenPods:
    """A server that holds pods, and how to reach it."""

    server: Server
    names: list[tuple[str, str]]
    """Namespace and name of each."""
    url: str
    ca_file: str = ""
    token: str = ""

    def mean_bytes(self) -> float:
        """Return the size of the average pod, as the server now has it."""
        sample = self.names[:: max(1, len(self.names) // _SAMPLE)]
        pods = [self.server.get("v1", "pods", name, namespace) for namespace, name in sample]
        return sum(len(msgspec.json.encode(pod)) for pod in pods) / len(pods)

    @contextlib.contextmanager
    def workload(self, updates: int) -> Iterator[Workload]:
        """Describe the pods to a peer, whose release lets the updates begin.

        Args:
            updates: how many; a few less, if the server itself writes meanwhile.
        """
        last = self._touch(0) + updates
        numbers = itertools.count(1)

        def write() -> None:
            with ThreadPoolExecutor(_WRITERS) as writers:
                at_once = itertools.islice(numbers, max(0, updates - _ONE_BY_ONE))
                list(writers.map(self._touch, at_once))
            while self._touch(next(numbers)) < last:
                pass

        with _control(write) as control_url:
            yield Workload(
                url=self.url,
                objects=len(self.names),
                updates=updates,
                last_resource_version=str(last),
                ca_file=self.ca_file,
                token=self.token,
                control_url=control_url,
            )

    def _touch(self, number: int) -> int:
        """Change a pod; return the resource version that it has now."""
        namespace, name = self.names[number % len(self.names)]
        changes: dict[str, object] = {"metadata": {"annotations": {"touched": _unique()}}}
        stored = self.server.patch("v1", "pods", name, changes, namespace)
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
    if is_real:
        with KubeAPIServer(build=True) as real:
            names = _write(real, objects, seed=seed)
            yield WrittenPods(real, names, real.url, str(real.ca_file), real.token)
    else:
        with APIServer() as embedded:
            yield WrittenPods(embedded, _write(embedded, objects, seed=seed), embedded.url)


def _write(server: Server, objects: int, *, seed: int) -> list[tuple[str, str]]:
    generator = PodGenerator(objects, seed=seed)

    def pod(number: int) -> dict[str, object]:
        found = msgspec.json.decode(generator.pod(number, resource_version=1))
        for field in _SET_BY_SERVER:
            found["metadata"].pop(field, None)
        return found  # type: ignore[no-any-return]

    def write(number: int) -> tuple[str, str]:
        body = pod(number)
        metadata = msgspec.convert(body, _Stored).metadata
        server.create(body)
        return metadata.namespace, metadata.name

    places = {msgspec.convert(pod(n), _Stored).metadata.namespace for n in range(objects)}
    for namespace in sorted(places):
        meta = {"name": namespace}
        server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    with ThreadPoolExecutor(_WRITERS) as writers:
        return list(writers.map(write, range(objects)))


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
