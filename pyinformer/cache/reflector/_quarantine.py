"""Objects that can be identified but not decoded as requested, and their last good states.

The codec reports each such object before the sink has it. Good objects never pass through here:
whether a bad object was repaired is looked up when a caller asks. What is held is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, final

from msgspec import Struct

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.objects import KubeObject, V

if TYPE_CHECKING:
    from pyinformer.cache.reflector._sink import Sink
    from pyinformer.cache.reflector.guard import Guard

_MAX_HELD = 256  # beyond that, a change of schema is at fault, not objects
_MAX_BYTES = 16 << 20  # of good states and keys: a state may have megabytes
_MAX_LINES = 10  # a new schema can make every object unreadable at once

_log = get_logger(__name__)


@final
class StaleObject(Struct, Generic[V], frozen=True):
    """The last readable state of an object whose newest state is unreadable."""

    object: KubeObject[V]
    """The readable state; it is older than the cached one."""
    problem: str
    """Why the newest state cannot be read."""
    newest_resource_version: str
    """The version of the newest state, which the cache holds as the server sent it."""


class _Held(Struct, Generic[V], frozen=True):
    uid: str
    good: KubeObject[V] | None


@final
class Quarantine(Generic[V]):
    """The unreadable objects of one reflector.

    Args:
        resource: its name in logs.
        sink: has the cached objects.
        guard: counts the unreadable ones.
    """

    def __init__(self, resource: str, sink: Sink[V], guard: Guard) -> None:
        self._resource = resource
        self._get = sink.get
        self._guard = guard
        self._held: OrderedDict[str, _Held[V]] = OrderedDict()
        self._lines = 0
        self.held_bytes: int = 0
        """The size of the good states and keys that are held."""

    def record(self, bad: KubeObject[V]) -> None:
        """Record an unreadable object, before the sink has it."""
        self._guard.counts.add("undecodable", "kept")
        key, uid = bad._key, bad.metadata.uid
        cached, held = self._get(key), self._held.get(key)
        good = None
        if cached is not None and cached.metadata.uid == uid:
            if cached.problem:  # it was unreadable before
                if held is not None and held.uid == uid:
                    return
            else:
                good = cached
        if held is not None and (held.uid, held.good) == (uid, good):
            return  # a load has brought the same object again
        self._hold(key, _Held(uid, good))
        self._log(bad)

    def _hold(self, key: str, held: _Held[V]) -> None:
        self._forget(key)
        size = _size(key, held)
        if size > _MAX_BYTES:
            held, size = _Held(held.uid, None), len(key)
        while self._held and (len(self._held) >= _MAX_HELD or self.held_bytes + size > _MAX_BYTES):
            spare = filter(self._is_spare, self._held)
            self._forget(next(spare, next(iter(self._held))))
        self._held[key] = held
        self.held_bytes += size

    def _forget(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self.held_bytes -= _size(key, held)

    def _is_spare(self, key: str) -> bool:
        """Return whether what is held of a key is useless.

        While a list is read, its objects are not in the cache yet, and the good state still is.
        """
        good, cached = self._held[key].good, self._get(key)
        is_repaired = cached is not good and (cached is None or not cached.problem)
        return good is None or is_repaired

    def _log(self, bad: KubeObject[V]) -> None:
        self._lines += 1
        if self._lines > _MAX_LINES:
            return
        more = "; further ones are only counted" if self._lines == _MAX_LINES else ""
        _log.error(
            "%s %r is in the cache with a problem: %s%s",
            self._resource,
            bad._key,
            bad.problem,
            more,
            extra={"resource": self._resource, "key": bad._key},
        )

    def last_good(self, key: str) -> StaleObject[V] | None:
        """Return the last readable state of an object whose cached state is unreadable.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Returns:
            None if the cached state is readable, or no readable state is remembered.
        """
        cached, held = self._get(key), self._held.get(key)
        if cached is None or not cached.problem or held is None or held.good is None:
            return None
        if held.uid != cached.metadata.uid:
            return None
        return StaleObject(held.good, cached.problem, cached.metadata.resource_version)

    def keys(self) -> tuple[str, ...]:
        """Return the keys whose cached objects are unreadable; of many, the latest."""
        cached = ((key, self._get(key)) for key in list(self._held))
        return tuple(key for key, obj in cached if obj is not None and obj.problem)

    def sweep(self) -> None:
        """Release the states of objects that are readable again, or gone; called after a load."""
        bad = set(self.keys())
        for key in [key for key in self._held if key not in bad]:
            self._forget(key)
        if not bad:
            self._lines = 0


def _size(key: str, held: _Held[V]) -> int:
    return len(key) + (0 if held.good is None else len(held.good.raw))
