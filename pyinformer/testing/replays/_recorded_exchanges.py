"""The exchanges of a recording, and which of them answers a request of the replay.

Lists and watches of what is followed are answered in the order in which they were recorded, and
every other request by the recorded one that is equal to it. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, final

import msgspec
from msgspec import Raw, UnsetType

from pyinformer.cache.recording import Entry, RecordedError, RecordedFile

_SHORT_SECONDS: Final = 10.0  # a watch that ends so soon only checks another one
_NEAR_SECONDS: Final = 15.0  # of equal requests, one that was recorded much later is not meant
_END: Final = {"annotations": {"k8s.io/initial-events-end": "true"}}

Query = Iterable[tuple[str, str]]


class Kind(Enum):
    """What a request asks for; it decides how its recorded exchange is found."""

    LIST = "a list"
    WATCH_LIST = "a watch-list"
    WATCH = "a watch"
    OTHER = "another request"

    @property
    def loads(self) -> bool:
        """Whether the response has all objects."""
        return self in {Kind.LIST, Kind.WATCH_LIST}


@final
@dataclass(slots=True)
class Exchange:
    """A recorded request and its response."""

    number: int
    at: float
    """When it was sent, in seconds since the start of the file."""
    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    kind: Kind
    is_snapshot: bool = False
    is_joined: bool = False
    accepted_at: float | None = None
    lines: list[tuple[float, bytes]] = field(default_factory=list)
    """The lines of a watch, with their times."""
    items: list[bytes] = field(default_factory=list)
    around: dict[str, object] = field(default_factory=dict)
    """A list without its items."""
    body: bytes = b""
    """The body of any other response."""
    unreadable_bytes: int = 0
    """The size of a body that was not kept."""
    ended_at: float | None = None
    """When it ended; None if it was open at the end of the recording."""
    end: str = ""
    error: RecordedError | None = None
    is_used: bool = False

    @property
    def timeout_seconds(self) -> float:
        """How long the server was asked to keep a watch open; its own duration if unknown."""
        asked = dict(self.query).get("timeoutSeconds", "")
        lasted = (self.at if self.ended_at is None else self.ended_at) - self.at
        return float(asked) if asked.isdecimal() else max(_SHORT_SECONDS, lasted)

    @property
    def continue_token(self) -> str:
        """The token of the next page; empty if there is none."""
        return self._in_metadata("continue")

    @property
    def version(self) -> str:
        """The resource version of a list."""
        return self._in_metadata("resourceVersion")

    def _in_metadata(self, name: str) -> str:
        metadata = self.around.get("metadata")
        return str(metadata.get(name, "")) if isinstance(metadata, dict) else ""

    def whole_body(self) -> bytes:
        """Return the body of a response that is not a watch."""
        if self.unreadable_bytes:
            return b"x" * min(self.unreadable_bytes, 1 << 20)
        if self.body:
            return self.body
        items = [Raw(one) for one in self.items]
        return msgspec.json.encode({**self.around, "items": items})

    def __str__(self) -> str:
        return f"{self.kind.value} of {self.path} at {self.at:.3f} s"


@final
@dataclass(slots=True)
class Relist:
    """A recorded request to list everything again, for a reason that is not in a response."""

    at: float
    path: str
    reason: str
    distrust: bool
    is_used: bool = False


class Refusal(Enum):
    """Why the recording has no response for a request, and the status that it gets instead."""

    EXPIRED = "410: the recorded informer listed here"
    NO_WATCH_LIST = "422: the recorded informer used a list here"
    UNKNOWN = "403: not in the recording"
    NOTHING_MORE = "no response: the recording has nothing more"


@final
class RecordedExchanges:
    """The exchanges of one file, in order; it decides which of them answers a request.

    Args:
        recorded: the file.
    """

    def __init__(self, recorded: RecordedFile) -> None:
        header = recorded.header
        self._path_end = f"/{header.plural}"
        self._field_selector = header.field_selector
        self._least_seconds = min(_SHORT_SECONDS, round(header.options.watch_timeout_seconds[0]))
        # A file that was put together may begin with a later time than its second entry has.
        self._first = min((one.at_seconds for one in recorded.entries), default=0.0)
        self._tokens: set[str] = set()  # of the next pages of lists that load everything
        self.exchanges: dict[int, Exchange] = {}
        self.relists: list[Relist] = []
        self.namespaces: list[tuple[float, list[str]]] = []
        """When other namespaces were followed, and which."""
        self.end_seconds: float = 0.0
        """When the recording ends."""
        for entry in recorded.entries:
            self._add(entry)

    @property
    def kind(self) -> str:
        """The kind of the recorded lists, such as `PodList`; empty if there are none."""
        kinds = (str(one.around.get("kind", "")) for one in self.exchanges.values())
        return next(filter(None, kinds), "")

    def main(self, path: str | None = None) -> Iterator[Exchange]:
        """Yield the lists and watches that were not used yet, in order; of one path or of all."""
        for one in self.exchanges.values():
            if one.kind is not Kind.OTHER and not one.is_used and path in {None, one.path}:
                yield one

    def next_timeout_seconds(self) -> float | None:
        """Return what the next watch asks for; None if there is none."""
        watches = (one for one in self.main() if one.kind is not Kind.LIST)
        found = next(watches, None)
        return None if found is None else found.timeout_seconds

    def relist_of(self, path: str, until: float) -> Relist | None:
        """Return a request to list again that was recorded until a time, and was not used."""
        for one in self.relists:
            if one.path == path and one.at <= until and not one.is_used:
                one.is_used = True
                return one
        return None

    def answer(self, method: str, path: str, query: Query, now: float) -> Exchange | Refusal:
        """Return the exchange that answers a request, used from now on, or how to refuse it."""
        query = tuple(query)
        kind = self._kind_of(method, path, query)
        found: Exchange | Refusal
        if kind is Kind.OTHER:
            found = self._equal(method, path, query, now)
        else:
            found = self._next(kind, path)
        if isinstance(found, Exchange):
            found.is_used = True
        return found

    def _next(self, kind: Kind, path: str) -> Exchange | Refusal:
        following = list(self.main(path))
        for one in following:
            if not kind.loads and one.kind.loads:
                return Refusal.EXPIRED
            if kind is Kind.WATCH_LIST and one.is_snapshot:
                return _as_watch_list(one, following[1:])
            if kind is Kind.WATCH_LIST and one.kind is Kind.LIST:
                return Refusal.NO_WATCH_LIST
            if one.kind is kind:
                for skipped in following[: following.index(one)]:
                    skipped.is_used = True
                return one
        return Refusal.NOTHING_MORE

    def _equal(
        self, method: str, path: str, query: tuple[tuple[str, str], ...], now: float
    ) -> Exchange | Refusal:
        wanted = _key(method, path, query)
        for one in self.exchanges.values():
            is_near = one.at <= now + _NEAR_SECONDS
            if not one.is_used and is_near and _key(one.method, one.path, one.query) == wanted:
                return one
        return Refusal.UNKNOWN

    def _kind_of(self, method: str, path: str, query: tuple[tuple[str, str], ...]) -> Kind:
        given = dict(query)
        if method != "GET" or not path.endswith(self._path_end):
            return Kind.OTHER
        if given.get("fieldSelector", "") != self._field_selector:
            return Kind.OTHER  # one object, or none
        if given.get("watch") == "true":
            seconds = given.get("timeoutSeconds", "")
            if seconds.isdecimal() and int(seconds) < self._least_seconds:
                return Kind.OTHER
            return Kind.WATCH_LIST if "sendInitialEvents" in given else Kind.WATCH
        if "continue" in given:
            return Kind.LIST if given["continue"] in self._tokens else Kind.OTHER
        is_load = given.get("resourceVersion", "0") == "0" and given.get("limit") != "1"
        return Kind.LIST if is_load else Kind.OTHER  # audits and proofs name a version, or one item

    def _add(self, entry: Entry) -> None:
        at = max(0.0, entry.at_seconds - self._first)
        self.end_seconds = max(self.end_seconds, at)
        if entry.request is not None:
            query = tuple(entry.query)
            kind = self._kind_of(entry.method, entry.path, query)
            self.exchanges[entry.request] = Exchange(
                entry.request,
                at,
                entry.method,
                entry.path,
                query,
                Kind.LIST if entry.snapshot else kind,
                is_snapshot=entry.snapshot,
                is_joined=entry.joined,
            )
        elif entry.relist is not None:
            self.relists.append(Relist(at, entry.path, entry.relist, entry.distrust))
        elif entry.namespaces is not None:
            self.namespaces.append((at, entry.namespaces))
        elif entry.of is not None and entry.of in self.exchanges:
            exchange = self.exchanges[entry.of]
            _extend(exchange, entry, at)
            if exchange.kind is Kind.LIST:
                self._tokens.add(exchange.continue_token)


def _as_watch_list(snapshot: Exchange, following: list[Exchange]) -> Exchange:
    """Return a snapshot as the watch-list whose watch was open then, or ends with the next one.

    A refused watch-list would be remembered, and change the requests after it.
    """
    at = snapshot.at if snapshot.ended_at is None else snapshot.ended_at
    lines = [(at, b'{"type":"ADDED","object":%b}' % item) for item in snapshot.items]
    bookmark = {**snapshot.around, "metadata": {**_END, "resourceVersion": snapshot.version}}
    lines.append((at, msgspec.json.encode({"type": "BOOKMARK", "object": bookmark})))
    snapshot.is_used = True
    found = Exchange(
        snapshot.number, snapshot.at, "GET", snapshot.path, (), Kind.WATCH_LIST, accepted_at=at
    )
    joined = following[0] if following and following[0].is_joined else None
    if joined is not None:
        joined.is_used = True
        found.lines = lines + joined.lines
        found.end, found.ended_at, found.error = joined.end, joined.ended_at, joined.error
    else:
        found.lines = lines
        found.end, found.ended_at = "ended", following[0].at if following else None
    return found


def _extend(exchange: Exchange, entry: Entry, at: float) -> None:
    if entry.accepted:
        exchange.accepted_at = at
    elif not isinstance(entry.line, UnsetType):
        exchange.lines.append((at, bytes(entry.line)))
    elif not isinstance(entry.item, UnsetType):
        exchange.items.append(bytes(entry.item))
    elif not isinstance(entry.around, UnsetType):
        exchange.around = entry.around
    elif not isinstance(entry.body, UnsetType):
        exchange.body = bytes(entry.body)
    elif entry.unreadable is not None:
        _add_unreadable(exchange, entry.unreadable, at)
    elif entry.end is not None:
        exchange.end, exchange.ended_at, exchange.error = entry.end, at, entry.error


def _add_unreadable(exchange: Exchange, size: int, at: float) -> None:
    if exchange.kind in {Kind.WATCH, Kind.WATCH_LIST}:
        exchange.lines.append((at, b"x" * min(size, 1 << 20)))
    elif not exchange.items:
        exchange.unreadable_bytes = max(size, 1)


def _key(method: str, path: str, query: Iterable[tuple[str, str]]) -> tuple[object, ...]:
    rest: Mapping[str, str] = {name: value for name, value in query if name != "timeoutSeconds"}
    return method, path, tuple(sorted(rest.items()))
