"""Objects that can be identified and not read as asked: reported once, their last good state kept.

What enters is each such object, from the codec, before the sink has it; what leaves is a log line,
and for whoever asks the state before it went bad, marked as stale. Nothing here is on the way of a
good object: whether a bad one was mended is looked up when somebody asks. Bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, final

from msgspec import Struct

from pyinformer._logging import get_logger
from pyinformer.apimachinery import KubeObject, V

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_HELD = 256  # beyond, a change of schema is at fault, not objects
_MAX_BYTES = 16 << 20  # of good states and keys: a state may have megabytes
_MAX_LINES = 10  # a new schema can spoil every object at once

_log = get_logger(__name__)


@final
class StaleObject(Struct, Generic[V], frozen=True):
    """The last state of an object that could be read, while its newest state cannot."""

    object: KubeObject[V]
    """Older than what the cache holds."""
    problem: str
    """Why the newest state cannot be read."""
    newest_resource_version: str
    """That of the newest state, which the cache holds as the server sent it."""


class _Held(Struct, Generic[V], frozen=True):
    uid: str
    good: KubeObject[V] | None


@final
class Quarantine(Generic[V]):
    """Knows the bad objects of one reflector.

    Args:
        resource: names them in logs.
        get: returns what is cached of a key.
        count: counts a bad object.
    """

    __slots__ = ("_bytes", "_count", "_get", "_held", "_lines", "_resource")

    def __init__(
        self,
        resource: str,
        get: Callable[[str], KubeObject[V] | None],
        count: Callable[[], None],
    ) -> None:
        self._resource = resource
        self._get = get
        self._count = count
        self._held: OrderedDict[str, _Held[V]] = OrderedDict()
        self._lines = 0
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """How long the good states and the keys are that are held."""
        return self._bytes

    def notice(self, bad: KubeObject[V]) -> None:
        """Take note of an object that cannot be read, before the sink has it."""
        self._count()
        key, uid = bad._key, bad.metadata.uid
        cached, held = self._get(key), self._held.get(key)
        good = None
        if cached is not None and cached.metadata.uid == uid:
            if cached.problem:  # it was bad before
                if held is not None and held.uid == uid:
                    return
            else:
                good = cached
        if held is not None and (held.uid, held.good) == (uid, good):
            return  # a load brought again what is known
        self._hold(key, _Held(uid, good))
        self._say(bad)

    def _hold(self, key: str, held: _Held[V]) -> None:
        self._forget(key)
        size = _size(key, held)
        if size > _MAX_BYTES:
            held, size = _Held(held.uid, None), len(key)
        while self._held and (len(self._held) >= _MAX_HELD or self._bytes + size > _MAX_BYTES):
            spare = filter(self._is_spare, self._held)
            self._forget(next(spare, next(iter(self._held))))
        self._held[key] = held
        self._bytes += size

    def _forget(self, key: str) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self._bytes -= _size(key, held)

    def _is_spare(self, key: str) -> bool:
        """Tell whether nobody would miss what is held of a key.

        While a list is being read, what it brings is not in the cache yet, and the good state is.
        """
        good, cached = self._held[key].good, self._get(key)
        is_mended = cached is not good and (cached is None or not cached.problem)
        return good is None or is_mended

    def _say(self, bad: KubeObject[V]) -> None:
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
        """Return the last state of an object that could be read, if the cached one cannot.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.

        Returns:
            None if what is cached is good, or gone, or was never good as far as is remembered.
        """
        cached, held = self._get(key), self._held.get(key)
        if cached is None or not cached.problem or held is None or held.good is None:
            return None
        if held.uid != cached.metadata.uid:
            return None
        return StaleObject(held.good, cached.problem, cached.metadata.resource_version)

    def keys(self) -> tuple[str, ...]:
        """Return the keys whose cached objects are known to be bad; of many, the latest."""
        cached = ((key, self._get(key)) for key in list(self._held))
        return tuple(key for key, obj in cached if obj is not None and obj.problem)

    def sweep(self) -> None:
        """Let go of states whose objects are good again, or gone; for after a load."""
        bad = set(self.keys())
        for key in [key for key in self._held if key not in bad]:
            self._forget(key)
        if not bad:
            self._lines = 0


def _size(key: str, held: _Held[V]) -> int:
    return len(key) + (0 if held.good is None else len(held.good.raw))
