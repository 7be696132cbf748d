"""Small collections: the same hundred objects in each of the namespaces small-0, small-1, ...

Enters: a collection. Leaves: a stock for each namespace, so that many informers can be started.
Invariant: a namespace's objects are written once, when it is first asked for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator

from benchmarks.data.kinds import Collection, Kind
from benchmarks.server.recording import FIRST_RESOURCE_VERSION, JSON_FORM, as_chunk, wire_of
from benchmarks.server.wire import Form

_IS_SMALL = re.compile(r"small-\d+").fullmatch
_NAMESPACE = re.compile(rb'"namespace":"[^"]*"')


class SmallStock:
    """The objects of one namespace, in memory."""

    def __init__(self, kind: Kind, bodies: Iterable[bytes] = ()) -> None:
        """Keep JSON bodies; none at all are the same in every form."""
        self._kind = kind
        self._bodies = {JSON_FORM: list(bodies)}

    def __len__(self) -> int:
        return len(self._bodies[JSON_FORM])

    def add_protobuf(self, render: Callable[[Iterable[bytes]], Iterator[bytes]]) -> None:
        """Keep them in protobuf too."""
        self._bodies[Form(protobuf=True)] = list(render(self._bodies[JSON_FORM]))

    def parts(self, form: Form) -> Iterator[bytes]:
        """Yield the stream of all ADDED events as one part."""
        event = wire_of(self._kind, form).event
        yield b"".join(as_chunk(event("ADDED", b)) for b in self.bodies(form, 0, len(self)))

    def bodies(self, form: Form, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bodies of objects `start` to `stop`."""
        whole = self._bodies.get(Form(protobuf=form.protobuf), [])
        return map(wire_of(self._kind, form).of_whole, whole[start:stop])

    def lengths(self, form: Form, start: int, stop: int) -> Iterable[int]:
        """Yield how long those bodies are."""
        return map(len, self.bodies(form, start, stop))


class SmallNamespaces:
    """All of them."""

    def __init__(
        self,
        collection: Collection,
        objects: int,
        *,
        render: Callable[[Iterable[bytes]], Iterator[bytes]] | None = None,
    ) -> None:
        """Offer `objects` in each namespace.

        Args:
            collection: where they come from.
            objects: how many.
            render: makes protobuf of JSON; None offers none.
        """
        self._collection = collection
        self._bodies = [
            collection.object(number, resource_version=FIRST_RESOURCE_VERSION + number)
            for number in range(objects)
        ]
        self._render = render
        self._lock = threading.Lock()
        self._stocks: dict[str, SmallStock] = {}

    def stock(self, namespace: str) -> SmallStock:
        """Return the objects of a namespace; other namespaces are empty."""
        with self._lock:
            if namespace not in self._stocks:
                self._stocks[namespace] = self._make(namespace)
            return self._stocks[namespace]

    def _make(self, namespace: str) -> SmallStock:
        named = b'"namespace":"%s"' % namespace.encode()
        bodies = self._bodies if _IS_SMALL(namespace) else []
        stock = SmallStock(
            self._collection.kind, [_NAMESPACE.sub(named, body, count=1) for body in bodies]
        )
        if self._render is not None:
            stock.add_protobuf(self._render)
        return stock
