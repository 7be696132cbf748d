"""The replay server, in a process of its own: `python -m benchmarks.server.replay`.

What is sent is rendered before the server says that it is ready. It does so in one JSON line
(address, workload, sizes), and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import socket
import ssl
import sys
import tempfile
import threading
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Self

from benchmarks.data.collections import RESOURCES, make_collection
from benchmarks.data.kinds import Collection, Kind
from benchmarks.data.templates import MAX_RESOURCE_VERSION, TemplatePods
from benchmarks.harness.processes import pin_to_cpu
from benchmarks.server.certificates import server_context
from benchmarks.server.endless import EndlessStock
from benchmarks.server.gate import Gate, Journal
from benchmarks.server.handler import Handler, Shelf
from benchmarks.server.namespaces import SmallNamespaces, SmallStock
from benchmarks.server.recording import FIRST_RESOURCE_VERSION, Recording, Render, Stock
from benchmarks.server.rendering import Renderer, renderer

_STRIDE = 7_919  # prime: updates visit the objects in an order that is not the stored one


@dataclass(frozen=True, slots=True)
class Traffic:
    """All that one server will ever send."""

    kind: Kind
    stock: Stock
    updates: Recording
    small: SmallNamespaces
    has_protobuf: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stock.close()
        self.updates.close()

    @property
    def list_resource_version(self) -> int:
        """The version of the collection before the first update."""
        return FIRST_RESOURCE_VERSION + len(self.stock)

    @property
    def last_resource_version(self) -> int:
        """The version of the last update."""
        return self.list_resource_version + len(self.updates)


class ReplayServer(ThreadingHTTPServer):
    """A server of one recording, on loopback and a free port."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        traffic: Traffic,
        *,
        updates_per_second: float = 0.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Bind to 127.0.0.1; `url` says where."""
        super().__init__(("127.0.0.1", 0), Handler)
        self._tls = tls
        self.updates = traffic.updates
        self.updates_per_second = updates_per_second
        self.has_protobuf = traffic.has_protobuf
        self.gate = Gate()
        self.journal = Journal(updates=len(traffic.updates))
        self._traffic = traffic

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.server_port}"

    def get_request(self) -> tuple[socket.socket, object]:
        """Accept a connection; its own thread shakes hands."""
        accepted, address = super().get_request()
        if self._tls is not None:
            accepted = self._tls.wrap_socket(
                accepted, server_side=True, do_handshake_on_connect=False
            )
        return accepted, address

    def shelf(self, kind: Kind, namespace: str | None) -> Shelf:
        """Return the document at a path."""
        traffic = self._traffic
        version = traffic.list_resource_version
        if kind is not traffic.kind:
            return Shelf(kind, SmallStock(kind), 0, version, is_measured=False)
        if namespace is None:
            return Shelf(kind, traffic.stock, len(traffic.stock), version, has_updates=True)
        small = traffic.small.stock(namespace)
        return Shelf(kind, small, len(small), version)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that go away in the middle of a stream; report all else."""
        if not isinstance(sys.exception(), ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


def record(
    collection: Collection,
    *,
    objects: int,
    updates: int,
    small: int,
    render: Render | None = None,
    metadata: bool = False,
) -> Traffic:
    """Render `objects` ADDED events, or what they are made of, and `updates` MODIFIED events.

    Args:
        collection: where the objects come from.
        objects: how many there are.
        updates: changes after the initial state; update number j has resource version
            `list_resource_version + 1 + j`.
        small: objects in each small namespace.
        render: makes protobuf of JSON, which is recorded then too; None offers JSON only.
        metadata: whether metadata alone is recorded too, not made while it is sent.
    """
    kind = collection.kind
    modified = (
        collection.object(
            number * _STRIDE % objects,
            resource_version=FIRST_RESOURCE_VERSION + objects + 1 + number,
            revision=1 + number // objects,
        )
        for number in range(updates)
    )
    changes = _recorded(Recording(kind, "MODIFIED", modified), render, metadata=metadata)
    stock: Stock
    if isinstance(collection, TemplatePods):
        stock = EndlessStock(collection, render=render, metadata=metadata)
    else:
        added = (
            collection.object(index, resource_version=FIRST_RESOURCE_VERSION + index)
            for index in range(objects)
        )
        stock = _recorded(Recording(kind, "ADDED", added), render, metadata=metadata)
    return Traffic(
        kind,
        stock,
        changes,
        SmallNamespaces(collection, small, render=render),
        has_protobuf=render is not None,
    )


def _recorded(recording: Recording, render: Render | None, *, metadata: bool) -> Recording:
    if render is not None:
        recording.record_protobuf(render)
    if metadata:
        recording.record_metadata()
    return recording


def main() -> None:
    """Render, serve, and stop when the parent closes our standard input."""
    options = _parsed()
    collection = _collection(options)
    with contextlib.ExitStack() as stack:
        render = stack.enter_context(_renderer(options, collection.kind))
        traffic = stack.enter_context(
            record(
                collection,
                objects=options.objects,
                updates=options.updates,
                small=options.small,
                render=None if isinstance(render, str) else render,
                metadata=options.metadata,
            )
        )
        pin_to_cpu(options.cpu)  # only now: what renders may take them all
        gc.freeze()  # no collection looks through the templates while updates are sent
        ca_file = Path(stack.enter_context(tempfile.TemporaryDirectory()), "ca.pem")
        server = stack.enter_context(
            ReplayServer(
                traffic,
                updates_per_second=options.updates_per_second,
                tls=server_context(ca_file) if options.tls else None,
            )
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ready = {
            "url": server.url,
            "ca_file": str(ca_file) if options.tls else "",
            "objects": options.objects,
            "updates": options.updates,
            "last_resource_version": str(traffic.last_resource_version),
            "api_version": traffic.kind.api_version,
            "resource": traffic.kind.resource,
            "kind": traffic.kind.kind,
            "updates_per_second": options.updates_per_second,
            "sizes": asdict(collection.sizes(options.objects)),
            "protobuf": render if isinstance(render, str) else "",
        }
        print(json.dumps(ready), flush=True)
        with contextlib.suppress(KeyboardInterrupt):  # which a terminal sends to all processes
            sys.stdin.read()
        server.shutdown()


def _collection(options: argparse.Namespace) -> Collection:
    if options.endless:
        return TemplatePods(options.objects, seed=options.seed, templates=options.templates)
    return make_collection(options.kind, options.objects, seed=options.seed)


def _renderer(options: argparse.Namespace, kind: Kind) -> AbstractContextManager[Renderer | str]:
    if not options.protobuf:
        return contextlib.nullcontext("not asked for")
    if kind.is_custom:
        return contextlib.nullcontext("custom resources have none")
    return renderer(options.renderer)


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server.replay")
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu", type=int, default=None)
    parser.add_argument("--kind", choices=RESOURCES, default="pods")
    parser.add_argument("--updates-per-second", type=float, default=0.0)
    parser.add_argument("--small", type=int, default=100)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--endless", action="store_true")
    parser.add_argument("--templates", type=int, default=20_000)
    parser.add_argument("--metadata", action="store_true")
    parser.add_argument("--protobuf", action="store_true")
    parser.add_argument("--renderer", default=None)
    options = parser.parse_args()
    if options.endless and options.kind != "pods":
        parser.error("--endless is for pods")
    if FIRST_RESOURCE_VERSION + options.objects + options.updates > MAX_RESOURCE_VERSION:
        parser.error("resource versions have seven digits here: fewer objects and updates, please")
    return options


if __name__ == "__main__":
    main()
