"""One connection of a client: its lists, watch-lists and watches, and the measurement's orders.

Updates are sent to a watch only after the measurement released them, so that no update is paid for
during a sync.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from benchmarks.data.kinds import Kind
from benchmarks.server.discovery import discover, find_kind
from benchmarks.server.gate import Pace, Signal
from benchmarks.server.recording import Stock, as_chunk, wire_of
from benchmarks.server.wire import Form, Page, accepted_form

if TYPE_CHECKING:
    from benchmarks.server.replay import ReplayServer

_COLLECTION = re.compile(r"(/api/[^/]+|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)")
_FLUSH_BYTES = 1 << 16
_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Shelf:
    """A collection that a path leads to."""

    kind: Kind
    stock: Stock
    objects: int
    resource_version: int
    has_updates: bool = False
    is_measured: bool = True


class Handler(BaseHTTPRequestHandler):
    """Answer one connection's requests, one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # an update leaves at once, whatever was sent before it
    server: ReplayServer

    def do_GET(self) -> None:
        """Answer what clients ask for."""
        url = urlsplit(self.path)
        found = _COLLECTION.fullmatch(url.path)
        kind = find_kind(found[1], found[3]) if found else None
        if found and kind:
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            self._collection(self.server.shelf(kind, found[2]), query)
        elif url.path == "/benchmark/send-times":
            self._answer(json.dumps(self.server.journal.send_times()).encode())
        elif url.path == "/benchmark/requests":
            self._answer(json.dumps(self.server.journal.counts()).encode())
        elif (document := discover(url.path)) is None:
            self.send_error(404)
        elif accepted_form(self.headers.get("Accept", ""), protobuf=False) is None:
            self._refuse()  # all groups in one document, which old servers did not have either
        else:
            self._answer(document)

    def do_POST(self) -> None:
        """Obey the measurement."""
        gate = self.server.gate
        match self.path:
            case "/benchmark/wait-for-watch":
                self._answer(b"{}", status=200 if gate.wait_for_watch() else 504)
            case "/benchmark/release":
                gate.release()
                self._answer(b"{}")
            case "/benchmark/expire" if gate.was_released and len(self.server.updates):
                # the collection would have to be listed as the updates left it
                self._answer(b'{"message":"updates were released"}', status=409)
            case "/benchmark/expire":
                self._answer(b'{"watches":%d}' % gate.expire())
            case _:
                self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (named by http.server)
        """Say nothing."""

    def _collection(self, shelf: Shelf, query: dict[str, str]) -> None:
        form = accepted_form(
            self.headers.get("Accept", ""),
            protobuf=self.server.has_protobuf and not shelf.kind.is_custom,
        )
        if form is None:
            self._refuse()
        elif query.get("watch", "").lower() in {"1", "true"}:
            self._watch(shelf, form, query)
        else:
            self._list(shelf, form, query)

    def _refuse(self) -> None:
        self._answer(b'{"kind":"Status","status":"Failure","code":406}', status=406)

    def _watch(self, shelf: Shelf, form: Form, query: dict[str, str]) -> None:
        is_watch_list = query.get("sendInitialEvents") == "true"
        self._count(shelf, "watch_lists" if is_watch_list else "watches")
        wire = wire_of(shelf.kind, form)
        with self.server.gate.visit() as visit:
            self._begin_stream(wire.stream_type)
            if is_watch_list or query.get("resourceVersion", "0") == "0":
                self._send_all(shelf, shelf.stock.parts(form))
            if is_watch_list:
                self._send(shelf, as_chunk(wire.end_bookmark(shelf.resource_version)))
            signal = Signal.RELEASED
            if shelf.has_updates:
                signal = self.server.gate.wait_for_release(visit, self.connection)
                if signal is Signal.RELEASED:
                    self._send_updates(shelf, form)
            if signal is Signal.RELEASED:
                signal = self.server.gate.wait_for_end(visit, self.connection)
        if signal is Signal.EXPIRED:
            self._send(shelf, as_chunk(wire.expired()) + _LAST_CHUNK)
        else:
            self.close_connection = True

    def _send_updates(self, shelf: Shelf, form: Form) -> None:
        per_second = self.server.updates_per_second
        times, pace = self.server.journal.begin_updates(), Pace(per_second)
        updates = self.server.updates.numbered_parts(form, one_by_one=per_second > 0)
        for first, stop, part in updates:
            pace.wait()
            self.server.journal.note_sent(times, first, stop)
            self._send(shelf, part)

    def _list(self, shelf: Shelf, form: Form, query: dict[str, str]) -> None:
        self._count(shelf, "lists")
        # The watch cache of a server knows no pages: at version 0 it sends all it has.
        limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit", "0"))
        start = int(query.get("continue", "0"))
        stop = min(shelf.objects, start + limit) if limit else shelf.objects
        page = Page(shelf.resource_version, stop, shelf.objects - stop)
        wire = wire_of(shelf.kind, form)
        bodies = shelf.stock.bodies(form, start, stop)
        lengths = shelf.stock.lengths(form, start, stop)
        self._begin_stream(wire.list_type)
        self._send_body(shelf, wire.page(page, bodies, lengths))

    def _send_body(self, shelf: Shelf, parts: Iterable[bytes]) -> None:
        held = bytearray()
        for part in parts:
            held += part
            if len(held) >= _FLUSH_BYTES:
                self._send(shelf, as_chunk(held))
                held.clear()
        self._send(shelf, (as_chunk(held) if held else b"") + _LAST_CHUNK)

    def _begin_stream(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send_all(self, shelf: Shelf, parts: Iterable[bytes]) -> None:
        for part in parts:
            self._send(shelf, part)

    def _send(self, shelf: Shelf, part: bytes) -> None:
        self.connection.sendall(part)
        self._count(shelf, "bytes_sent", len(part))

    def _count(self, shelf: Shelf, name: str, amount: int = 1) -> None:
        if shelf.is_measured:
            self.server.journal.count(name, amount)

    def _answer(self, body: bytes, *, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
