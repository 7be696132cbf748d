"""An etcd of the tests' own, as far as `EtcdTruth` uses its JSON gateway: range and watch."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Gateway:
    """The store behind the gateway; tests write into it."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.revision = 1
        self.compacted = 0
        self.live: dict[str, tuple[int, bytes]] = {}
        self.events: list[tuple[int, str, bytes | None]] = []
        self.epoch = 0
        """How often every connection was cut."""
        self.fails = False
        self.closed = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def put(self, key: str, value: Any) -> int:
        """Write a key; an object is written as JSON."""
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        with self.changed:
            self.revision += 1
            self.live[key] = (self.revision, raw)
            self.events.append((self.revision, key, raw))
            self.changed.notify_all()
            return self.revision

    def delete(self, key: str) -> int:
        """Delete a key."""
        with self.changed:
            self.revision += 1
            del self.live[key]
            self.events.append((self.revision, key, None))
            self.changed.notify_all()
            return self.revision

    def cut(self) -> None:
        """End every watch."""
        with self.changed:
            self.epoch += 1
            self.changed.notify_all()

    def close(self) -> None:
        """End every watch, those as well whose requests are still being read."""
        self.closed = True
        self.cut()

    def save(self) -> tuple[int, dict[str, tuple[int, bytes]], list[tuple[int, str, bytes | None]]]:
        """Copy everything."""
        with self.changed:
            return self.revision, dict(self.live), list(self.events)

    def restore(
        self, saved: tuple[int, dict[str, tuple[int, bytes]], list[tuple[int, str, bytes | None]]]
    ) -> None:
        """Go back to a copy."""
        with self.changed:
            self.revision, self.live, self.events = saved[0], dict(saved[1]), list(saved[2])
            self.epoch += 1
            self.changed.notify_all()

    def compact(self) -> None:
        """Forget the events so far."""
        with self.changed:
            self.compacted = self.revision
            self.events = []


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, store: Gateway) -> None:
        self.store = store
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.store.fails:
            self.send_error(503)
        elif self.path == "/v3/kv/range":
            self._range()
        else:
            self._watch(int(body["create_request"]["start_revision"]))

    def _range(self) -> None:
        store = self.server.store
        with store.changed:
            kvs = [_kv(key, *found) for key, found in store.live.items()]
            answer = {"header": {"revision": str(store.revision)}, "kvs": kvs}
        raw = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _watch(self, start: int) -> None:
        store = self.server.store
        self.send_response(200)
        self.end_headers()  # until the connection ends
        self.close_connection = True
        with store.changed:
            epoch, sent = store.epoch, 0
            if start <= store.compacted:
                self._line(canceled=True)
                return
            self._line(created=True)
            while epoch == store.epoch and not store.closed:
                events = [one for one in store.events[sent:] if one[0] >= start]
                sent = len(store.events)
                if events:
                    self._line(events=[_event(*one) for one in events])
                store.changed.wait()

    def _line(self, **result: Any) -> None:
        header = {"revision": str(self.server.store.revision)}
        line = {"result": {"header": header, **result}}
        self.wfile.write(json.dumps(line).encode() + b"\n")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def gateway() -> Iterator[Gateway]:
    """Serve a store on loopback."""
    store = Gateway()
    with _Server(store) as server:
        store.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield store
        finally:
            store.close()
            server.shutdown()
            thread.join()


def _kv(key: str, revision: int, value: bytes | None = None) -> dict[str, str]:
    found = {"key": base64.b64encode(key.encode()).decode(), "mod_revision": str(revision)}
    if value is not None:
        found["value"] = base64.b64encode(value).decode()
    return found


def _event(revision: int, key: str, value: bytes | None) -> dict[str, Any]:
    kv = _kv(key, revision, value)
    return {"kv": kv} if value is not None else {"kv": kv, "type": "DELETE"}
