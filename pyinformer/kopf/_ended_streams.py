"""What streams that have ended had reported to kopf, for the next stream of the same objects.

kopf ends the stream of a kind whose definition goes, and begins another when it is back. It still
has the memories, daemons and index entries of the objects: those that went must be reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, final

from pyinformer._runtime.escaping_loggers import get_logger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kopf._cogs.structs.references import Namespace, Resource

    from pyinformer.kopf._stream_cache import Known

_log = get_logger(__name__)

MAX_OBJECTS: Final = 100_000  # a tenant can define any number of kinds
_Place: TypeAlias = "tuple[str, str, str | None, str]"


@final
class EndedStreams:
    """Keeps what ended streams of one operator had reported, for a limited number of objects.

    Beyond the limit, the stream that ended first is forgotten.

    Args:
        limit: how many objects are kept.
    """

    def __init__(self, *, limit: int = MAX_OBJECTS) -> None:
        self._limit = limit
        self._by_place: dict[_Place, Sequence[Known]] = {}

    def __len__(self) -> int:
        return sum(map(_count, self._by_place.values()))

    def keep(self, resource: Resource, namespace: Namespace, left: Sequence[Known]) -> None:
        """Keep what a stream had reported, in place of what an earlier one left.

        Args:
            resource: what it watched. Streams of two versions report the same objects to the
                handlers of each.
            namespace: where; None for all namespaces.
            left: the objects.
        """
        if not _count(left):
            return
        self._by_place[_place(resource, namespace)] = left
        while len(self) > self._limit:
            group, plural, where, _ = place = next(iter(self._by_place))
            _log.warning(
                "more than %d objects are of kinds or namespaces that are not watched any more;"
                " deletions of the %d %s.%s in %s will not be reported if they are watched again",
                self._limit,
                _count(self._by_place.pop(place)),
                plural,
                group,
                where or "all namespaces",
            )

    def take(self, resource: Resource, namespace: Namespace) -> Sequence[Known]:
        """Return what the last stream of these objects had reported, and forget it.

        If none of this version has left anything, it is a stream of another version, as the
        objects are the same.
        """
        place = _place(resource, namespace)
        if place not in self._by_place:
            same = (other for other in self._by_place if other[:-1] == place[:-1])
            place = next(same, place)
        return self._by_place.pop(place, ())


def _place(resource: Resource, namespace: Namespace) -> _Place:
    return resource.group, resource.plural, namespace, resource.version


def _count(left: Sequence[Known]) -> int:
    return sum(map(len, left))
