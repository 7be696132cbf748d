"""What a stream has to report to kopf: the sink of its reflector, and a queue of events.

Nothing is dropped, merged or stripped. What a list shows is compared with what was reported before:
new and changed objects are reported, unchanged ones are not, and an object that is gone is reported
as deleted, with the state that was known of it last.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias, cast, final

import msgspec

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.kopf._stream_cache import CachedObjects
from pyinformer.objects import Added, Deleted, Updated, complaint_of, decoder_of, older

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kopf._cogs.structs.bodies import RawBody, RawEvent

    from pyinformer.kopf._stream_cache import Known
    from pyinformer.objects import Event, KubeObject

Kind: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"] | None
_log = get_logger(__name__)
_SLICE = 512  # objects per step
_MAX_WARNED: Final = 1_000  # keys that the log has named
_decode: Final = decoder_of()


class _Pending(NamedTuple):
    kind: Kind
    object: KubeObject[None] | None
    """None at the end of a list."""
    is_missed: bool = False
    """A deletion that no event has shown; the object is what was known of it last."""
    raw: bytes = b""
    """The body of an event, which the object may have only compressed; empty in a list."""
    is_new: bool = False
    """Whether kopf has not received the object before."""


class DeliveryOwner(Protocol):
    """The stream of a delivery."""

    @property
    def is_resetting(self) -> bool:
        """Whether the list that is applied now is of another history of the server.

        There a resource version can stand for another state.
        """
        ...

    def is_in_initial_scan(self, obj: KubeObject[None]) -> bool:
        """Return whether kopf had seen an object before it began to watch.

        It scans the resources and fetches the namespaces first.
        """
        ...

    def wake(self) -> None:
        """Wake the stream: there is something to report."""
        ...

    def deletion_timestamp(self) -> str:
        """Return the time for a deletion that was missed, as Kubernetes writes it."""
        ...


@final
class ReflectorSink:
    """The events of one stream that kopf has not received yet.

    Args:
        known: the objects that were reported.
        owner: the stream.
        is_observer: the stream is one of CRDs, namespaces or peerings. Its reader ignores events
            without a type, so listed objects have one, unless kopf had seen them before. In
            other streams listed objects have no type.
        inherited: what an earlier stream of the same objects had reported; those of them that the
            first list lacks are reported as deleted.
    """

    def __init__(
        self,
        known: Known,
        owner: DeliveryOwner,
        *,
        is_observer: bool,
        inherited: Sequence[Known] = (),
    ) -> None:
        self.known = known
        self._inherited = tuple(inherited)
        self.has_listed: bool = False
        """Whether a list was complete since the stream began."""
        self._is_observer = is_observer
        self._owner = owner
        self._queue: deque[_Pending] = deque()
        self._listed: list[KubeObject[None]] = []
        self._replays = True
        self._is_paused = self._is_listing = False
        self._withheld: set[str] = set()  # keys that are known here, and kopf has never received
        self._warned: set[str] = set()

    def __len__(self) -> int:
        return len(self._queue)

    def pause(self) -> None:
        """Report nothing but deletions until `resume` or `replay`.

        Deletions of what kopf has received are kept. The rest need not be kept: after a pause every
        object is reported again.
        """
        self._is_paused = True
        self._keep_listed()
        self._queue = deque(one for one in self._queue if self._is_kept(one))

    def _is_kept(self, pending: _Pending) -> bool:
        """Return whether an event has to wait for the end of a pause."""
        if pending.object is None:
            return False
        key = pending.object._key
        if pending.kind != "DELETED":
            if pending.is_new:
                self._withheld.add(key)
            return False
        is_unknown = key in self._withheld
        self._withheld.discard(key)
        return not is_unknown

    def resume(self) -> None:
        """Report again: the next list is the first of a new reflector, which reports all of it."""
        self._is_paused = self._is_listing = False
        self._replays = True
        self._keep_listed()

    @property
    def can_replay(self) -> bool:
        """Whether what is known is complete, and has bodies to report."""
        return self.known.has_bodies and self.has_listed and not self._is_listing

    def replay(self) -> None:
        """Report again, beginning with everything that is known, as after a list."""
        self._is_paused = False
        known = self.known
        for key in known.keys():  # noqa: SIM118 - it cannot be iterated itself
            self._put(None, known.get(key))
        self._put(None, None)

    def left(self) -> Sequence[Known]:
        """Return what kopf still takes to exist, at the end of the stream."""
        self._keep_listed()
        untold = CachedObjects()
        for one in self._queue:
            if one.kind == "DELETED" and one.object is not None:
                untold.put(one.object)
        return (self.known, untold, *self._inherited)

    def report_gone(self, resource_version: str) -> None:
        """Report as deleted what is known in an older version: a server has deleted all of it."""
        for key in self.known.keys():  # noqa: SIM118 - it cannot be iterated itself
            was = self.known.get(key)
            if was is not None and older(was.metadata.resource_version, resource_version):
                self.known.pop(key)
                self._put("DELETED", was, is_missed=True)

    def report_again(self, key: str) -> None:
        """Report an object as modified, if it is known."""
        obj = self.known.get(key)
        if obj is not None:
            self._put("MODIFIED", obj)

    def take(self) -> RawEvent | Literal["LISTED"] | None:
        """Return the next event, with a body of its own; None if there is none yet."""
        while self._queue:
            pending = self._queue.popleft()
            if pending.object is None:
                return "LISTED"
            body = self._body_of(pending, pending.object)
            if body is not None:
                return cast("RawEvent", {"type": pending.kind, "object": body})
        return None

    def _body_of(self, pending: _Pending, obj: KubeObject[None]) -> RawBody | None:
        """Return the body of an event; None if kopf must not receive it.

        An object that cannot be decoded is not reported. kopf may have received an earlier state of
        it, so its deletion is, with its identity alone.
        """
        try:
            body = self._missed_body(obj) if pending.is_missed else _body(pending.raw or obj.raw)
        except (ValueError, RecursionError) as error:
            self._warn(obj, error)
            return self._gone(_identity_body(obj)) if pending.kind == "DELETED" else None
        self._warned.discard(obj._key)
        return body

    def _warn(self, obj: KubeObject[None], error: Exception) -> None:
        """Log that an object is not reported, once until it can be read again."""
        if obj._key in self._warned or len(self._warned) >= _MAX_WARNED:
            return
        self._warned.add(obj._key)
        _log.warning(
            "%s %s cannot be decoded: %s; kopf's handlers do not receive this state",
            obj.gvk.kind,
            obj._key,
            complaint_of(error),
        )

    def get(self, key: str) -> KubeObject[None] | None:
        """Return what is known of a key; see Sink."""
        return self.known.get(key)

    def keys(self) -> list[str]:
        """Return every known key; see Sink."""
        return self.known.keys()

    def apply_nowait(self, event: Event[None]) -> None:
        """Report one event of the watch; see Sink."""
        match event:
            case Added(obj):
                self.known.put(obj)
                self._put("ADDED", obj, raw=obj.raw, is_new=True)
            case Updated(_, obj):
                self.known.put(obj)
                self._put("MODIFIED", obj, raw=obj.raw)
            case Deleted(obj):
                self.known.pop(event.key)
                self._put("DELETED", obj, is_missed=event.final_state_unknown)

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[None]], resource_version: str
    ) -> Iterator[None]:
        """Report the difference between what is known and a complete list; see Sink."""
        is_replay, self._replays, self._is_listing = self._replays, False, True
        for number, key in enumerate(self.known.keys()):
            self._miss_if_gone(self.known, key, objects.get(key))
            if number % _SLICE == 0:
                yield
        for inherited in self._inherited:
            for number, key in enumerate(inherited.keys()):
                self._miss_if_gone(inherited, key, objects.get(key))
                if number % _SLICE == 0:
                    yield
        self._inherited = ()
        for number, (key, obj) in enumerate(objects.items()):
            self._report_listed(key, obj, is_replay=is_replay)
            if number % _SLICE == 0:
                yield
        yield from self.known.replace(objects, resource_version)
        self._listed.clear()
        self.has_listed, self._is_listing = True, False
        self._put(None, None)

    def bookmark_nowait(self, resource_version: str) -> None:
        """Do nothing; kopf ignores bookmarks as well."""

    def _miss_if_gone(self, known: Known, key: str, listed: KubeObject[None] | None) -> None:
        was = known.get(key)
        if was is None or (listed is not None and listed.metadata.uid == was.metadata.uid):
            return
        known.pop(key)
        self._put("DELETED", was, is_missed=True)

    def _report_listed(self, key: str, obj: KubeObject[None], *, is_replay: bool) -> None:
        if not obj.raw:  # a known object, as the sink returned it
            return
        was = self.known.get(key)
        is_same = self._is_same(was, obj)
        if is_same and (self._is_observer or not is_replay):
            return
        kind = self._observed_kind(was, obj) if self._is_observer else None
        self._put(kind, obj, is_new=was is None)
        if not is_same and not self._is_paused:
            self._listed.append(obj)

    def _keep_listed(self) -> None:
        """Know what a list has reported that is not complete, and may never be.

        kopf may have these objects already, so a deletion before the next list is to be reported.
        """
        for obj in self._listed:
            self.known.put(obj)
        self._listed.clear()

    def _observed_kind(self, was: KubeObject[None] | None, obj: KubeObject[None]) -> Kind:
        """Return a type only for news: after each, kopf scans, or checks all namespaces."""
        if was is not None:
            return "MODIFIED"
        return None if not self.has_listed and self._owner.is_in_initial_scan(obj) else "ADDED"

    def _is_same(self, was: KubeObject[None] | None, obj: KubeObject[None]) -> bool:
        if was is None or was is obj:
            return was is obj
        before, after = was.metadata, obj.metadata
        is_version = before.resource_version == after.resource_version != ""
        return is_version and before.uid == after.uid and not self._owner.is_resetting

    def _put(
        self,
        kind: Kind,
        obj: KubeObject[None] | None,
        *,
        is_missed: bool = False,
        raw: bytes = b"",
        is_new: bool = False,
    ) -> None:
        if obj is not None and obj._key in self._withheld:  # kopf has not received it yet
            if kind == "DELETED":
                self._withheld.discard(obj._key)
                return
            if not self._is_paused:
                self._withheld.discard(obj._key)
                is_new = True
        pending = _Pending(kind, obj, is_missed, raw, is_new)
        if self._is_paused and not self._is_kept(pending):
            return
        self._queue.append(pending)
        self._owner.wake()

    def _missed_body(self, obj: KubeObject[None]) -> RawBody:
        """Return the body of a deletion that was missed.

        Without a deletion timestamp kopf would keep the daemons of the object.
        """
        return self._gone(_body(obj.raw) if obj.raw else _identity_body(obj))

    def _gone(self, body: RawBody) -> RawBody:
        body["metadata"].setdefault("deletionTimestamp", self._owner.deletion_timestamp())
        return body


def _body(raw: bytes) -> RawBody:
    """Return a body as kopf's own decoder does, which takes three times as long.

    Raises:
        RecursionError: it is nested too deeply.
    """
    try:
        return cast("RawBody", _decode(raw))
    except RecursionError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return cast("RawBody", json.loads(raw))  # noqa: TID251 - shallow; it takes more, such as numbers out of range


def _identity_body(obj: KubeObject[None]) -> RawBody:
    """Return a body with all that is known of an object without one."""
    meta = obj.metadata
    fields = {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
    }
    metadata = {name: value for name, value in fields.items() if value}
    body = {"apiVersion": obj.gvk.api_version, "kind": obj.gvk.kind, "metadata": metadata}
    return cast("RawBody", body)
