"""The replay server, in a process of its own: `python -m benchmarks.server.replay`.

Enters: HTTP requests of an informer for pods, and of the measurement for control. Leaves:
pre-rendered bytes: lists (paged or whole), watch-lists with their end bookmark, watches.
Invariant: updates are sent to a watch only after the measurement released them, so that no
update is paid for during a sync. Prints one JSON line (address, workload) when it is ready;
ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import sys
import threading
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from benchmarks.data.pods import PodGenerator
from benchmarks.harness.processes import pin_to_cpu
from benchmarks.server.recording import Recording, Span, as_chunk

_PODS_PATH = "/api/v1/pods"
_EMPTY_PATH = "/api/v1/configmaps"  # a collection without objects, to warm a client up
_METADATA_LIST = "as=PartialObjectMetadataList"
_WAIT_SECONDS = 60.0
_HANG_UP_POLL_SECONDS = 0.05  # a watch whose client is gone must not count as one that waits
_FLUSH_BYTES = 1 << 16
_VERSION = b'{"major":"1","minor":"37","gitVersion":"v1.37.1"}'
_RESOURCES = (
    b'{"kind":"APIResourceList","groupVersion":"v1","resources":['
    b'{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod",'
    b'"verbs":["get","list","watch"]},'
    b'{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap",'
    b'"verbs":["get","list","watch"]}]}'
)
_EMPTY_LIST = (
    b'{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}\n'
)
_EMPTY_BOOKMARK = (
    b'{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":'
    b'{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}\n'
)


class Gate:
    """Hold watches back until the measurement wants their updates."""

    def __init__(self) -> None:
        """Start with nobody waiting."""
        self._changed = threading.Condition()
        self._releases = 0
        self._waiting = 0

    def wait_for_release(self, client: socket.socket) -> bool:
        """Block a watch until the next release; false if its client went away instead."""
        with self._changed:
            seen = self._releases
            self._waiting += 1
            self._changed.notify_all()
            try:
                while not self._changed.wait_for(
                    lambda: self._releases > seen, timeout=_HANG_UP_POLL_SECONDS
                ):
                    if _has_hung_up(client):
                        return False
                return True
            finally:
                self._waiting -= 1

    def wait_for_watch(self) -> bool:
        """Block until a watch waits; false if none came within a minute."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting > 0, timeout=_WAIT_SECONDS)

    def release(self) -> None:
        """Let all waiting watches send their updates."""
        with self._changed:
            self._releases += 1
            self._changed.notify_all()


class ReplayServer(ThreadingHTTPServer):
    """A server of one recording, on loopback and a free port."""

    daemon_threads = True

    def __init__(self, recording: Recording) -> None:
        """Bind to 127.0.0.1; `server_port` says where."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.recording = recording
        self.gate = Gate()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that go away in the middle of a stream; report all else."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ReplayServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        watching = query.get("watch", "").lower() in {"1", "true"}
        match url.path:
            case path if path == _PODS_PATH and watching:
                self._watch(initial=query.get("sendInitialEvents") == "true")
            case path if path == _PODS_PATH:
                self._list(
                    limit=int(query.get("limit", "0")),
                    start=int(query.get("continue", "0")),
                    only_metadata=_METADATA_LIST in self.headers.get("Accept", ""),
                )
            case path if path == _EMPTY_PATH and watching:
                self._begin_stream()
                self.wfile.write(as_chunk(_EMPTY_BOOKMARK))
                self._wait_for_hang_up()
            case path if path == _EMPTY_PATH:
                self._answer(_EMPTY_LIST)
            case "/version":
                self._answer(_VERSION)
            case "/api/v1":
                self._answer(_RESOURCES)
            case _:
                self.send_error(404)

    def do_POST(self) -> None:
        match self.path:
            case "/benchmark/wait-for-watch":
                self._answer(b"{}", status=200 if self.server.gate.wait_for_watch() else 504)
            case "/benchmark/release":
                self.server.gate.release()
                self._answer(b"{}")
            case _:
                self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (named by http.server)
        pass

    def _watch(self, *, initial: bool) -> None:
        recording = self.server.recording
        self._begin_stream()
        if initial:
            self._send_span(recording.added)
            self.wfile.write(recording.end_bookmark())
        if self.server.gate.wait_for_release(self.connection):
            self._send_span(recording.modified)
        self._wait_for_hang_up()

    def _list(self, *, limit: int, start: int, only_metadata: bool) -> None:
        recording = self.server.recording
        stop = min(recording.objects, start + limit) if limit else recording.objects
        self._begin_stream()
        held = bytearray()
        for part in recording.page(start, stop, only_metadata=only_metadata):
            held += part
            if len(held) >= _FLUSH_BYTES:
                self.wfile.write(as_chunk(held))
                held.clear()
        self.wfile.write((as_chunk(held) if held else b"") + b"0\r\n\r\n")

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send_span(self, span: Span) -> None:
        for part in self.server.recording.parts(span):
            self.connection.sendall(part)

    def _wait_for_hang_up(self) -> None:
        self.close_connection = True
        while self.connection.recv(1024):
            pass

    def _answer(self, body: bytes, *, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _has_hung_up(client: socket.socket) -> bool:
    readable, _, _ = select.select([client], [], [], 0)
    return bool(readable) and not client.recv(1, socket.MSG_PEEK)


def main() -> None:
    """Render, serve, and stop when the parent closes our standard input."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server.replay")
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu", type=int, default=None)
    options = parser.parse_args()
    pin_to_cpu(options.cpu)
    generator = PodGenerator(options.objects, seed=options.seed)
    sizes = generator.sizes(options.objects)
    recording = Recording(generator, objects=options.objects, updates=options.updates)
    with ReplayServer(recording) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ready = {
            "url": f"http://127.0.0.1:{server.server_port}",
            "objects": options.objects,
            "updates": options.updates,
            "last_resource_version": str(recording.last_resource_version),
            "sizes": asdict(sizes),
        }
        print(json.dumps(ready), flush=True)
        sys.stdin.read()
        server.shutdown()


if __name__ == "__main__":
    main()
