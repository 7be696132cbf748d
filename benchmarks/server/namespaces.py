"""Small collections: the same hundred objects in each of the namespaces small-0, small-1, ...

A namespace's objects are written once, when it is first asked for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator

from benchmarks.data.kinds import Collection, Kind
from benchmarks.server.protobuf import with_namespace
from benchmarks.server.recording import (
    FIRST_RESOURCE_VERSION,
    JSON_FORM,
    PROTOBUF_FORM,
    Render,
    as_chunk,
    wire_of,
)
from benchmarks.server.wire import Form

_IS_SMALL = re.compile(r"small-\d+").fullmatch
_NAMESPACE = re.compile(rb'"namespace":"[^"]*"')


class SmallStock:
    """The objects of one namespace, in memory."""

    def __init__(
        self, kind: Kind, bodies: Iterable[bytes] = (), *, protobuf: Iterable[bytes] = ()
    ) -> None:
        """Keep whole bodies, in JSON and, if there are any, in protobuf."""
        self._kind = kind
        self._bodies = {JSON_FORM: list(bodies), PROTOBUF_FORM: list(protobuf)}

    def __len__(self) -> int:
        return len(self._bodies[JSON_FORM])

    def close(self) -> None:
        """Nothing is held but memory."""

    def parts(self, form: Form) -> Iterator[bytes]:
        """Yield the stream of all ADDED events as one part."""
        event = wire_of(self._kind, form).event
        yield b"".join(as_chunk(event("ADDED", b)) for b in self.bodies(form, 0, len(self)))

    def bodies(self, form: Form, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bodies of objects `start` to `stop`."""
        whole = self._bodies[Form(protobuf=form.protobuf)]
        return map(wire_of(self._kind, form).of_whole, whole[start:stop])

    def lengths(self, form: Form, start: int, stop: int) -> Iterable[int]:
        """Yield how long those bodies are."""
        return map(len, self.bodies(form, start, stop))


class SmallNamespaces:
    """All of them."""

    def __init__(
        self, collection: Collection, objects: int, *, render: Render | None = None
    ) -> None:
        """Offer `objects` in each namespace.

        Args:
            collection: where they come from.
            objects: how many.
            render: makes protobuf of JSON; None offers none.
        """
        self._kind = collection.kind
        self._bodies = [
            collection.object(number, resource_version=FIRST_RESOURCE_VERSION + number)
            for number in range(objects)
        ]
        self._protobuf = list(render(self._bodies)) if render is not None else []
        self._lock = threading.Lock()
        self._stocks: dict[str, SmallStock] = {}

    def stock(self, namespace: str) -> SmallStock:
        """Return the objects of a namespace; other namespaces are empty."""
        if not _IS_SMALL(namespace):
            return SmallStock(self._kind)
        with self._lock:
            if namespace not in self._stocks:
                self._stocks[namespace] = self._make(namespace)
            return self._stocks[namespace]

    def _make(self, namespace: str) -> SmallStock:
        named = b'"namespace":"%s"' % namespace.encode()
        return SmallStock(
            self._kind,
            (_NAMESPACE.sub(named, body, count=1) for body in self._bodies),
            protobuf=(with_namespace(message, namespace) for message in self._protobuf),
        )
