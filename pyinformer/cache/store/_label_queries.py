"""Which labels of one cache have an index, and the candidates of a selector by these indexes.

Readers make and maintain the indexes, in any thread, one reader at a time; a reader that would have
to wait for another one looks at all objects instead. The writer never waits.
"""

from __future__ import annotations

import threading
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, final

from pyinformer.cache.store._atomic_copy import copy_at_once
from pyinformer.cache.store._label_index import LabelIndex, LabelIndexes
from pyinformer.objects import V

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyinformer.cache.store._store_state import State
    from pyinformer.objects import KubeObject, LabelRequirement, LabelSelector

_INDEXED: Final = frozenset({"=", "in", "exists"})  # the operators that an index answers
_LABEL_INDEXES: Final = attrgetter("label_indexes")

_MIN_OBJECTS: Final = 500  # looking at fewer takes less than 0.1 ms
_MAX_INDEXES: Final = 4  # of one cache: each takes 20 to 120 bytes per object that has the label
_READS_BEFORE: Final = 3  # making an index takes as long as one or two of them
_IDLE_READS: Final = 1024  # an index that none of so many reads used is dropped
_MAX_COUNTED: Final = 64  # labels without an index whose reads are counted
_POOR: Final = 4  # an index that leaves more than a fourth of the objects may not be the best one
_MIN_LOG: Final = 64
_MAX_LOG: Final = 10_000
_LOG_SHARE: Final = 8  # part of the objects: applying a change takes as long as looking at a few
_ATTEMPTS: Final = 3


class Candidates(NamedTuple, Generic[V]):
    """The objects of a cache that a selector may select."""

    objects: Iterable[KubeObject[V] | None]
    """In the order of the cache; to be copied in one step with `facts`."""
    facts: tuple[Iterable[object], ...]
    """What must be equal to `expected` at the moment of the copy, or the copy is not used."""
    expected: list[object]
    are_exact: bool
    """Whether the selector selects all of them."""


@final
class LabelQueries(Generic[V]):
    """Answers lists by selector from label indexes, of which it keeps a few.

    Args:
        changing: the key whose change is under way in the cache, or an empty one.
    """

    def __init__(self, changing: list[str]) -> None:
        self.lock = threading.Lock()
        """Held by a reader from before it takes candidates until it has copied them."""
        self._changing = changing
        self._reads = 0
        self._counts: dict[str, int] = {}

    def candidates(
        self, state: State[V], selector: LabelSelector, namespace: str | None
    ) -> Candidates[V] | None:
        """Return the candidates by the best index, or None to look at all objects.

        Args:
            state: the cache's present state.
            selector: what all candidates may match, and no other object matches.
            namespace: the only namespace that is read; None for all.

        Raises:
            RuntimeError: the cache changed its size meanwhile; the read must be repeated.
        """
        items = state.items
        many = len(items if namespace is None else state.by_namespace.get(namespace, ()))
        wanted = [one for one in selector.requirements if one.operator in _INDEXED]
        if many < _MIN_OBJECTS or not wanted:
            return None
        self._reads += 1
        if self._reads % _IDLE_READS == 0 and state.label_indexes is not None:
            self._drop_idle(state.label_indexes)
        best = self._best(state, wanted)
        if (best is None or best[0] * _POOR > many) and self._count(state, wanted):
            best = self._best(state, wanted)
        indexes = state.label_indexes
        if best is None or indexes is None or best[0] > many:
            return None
        _, requirement, index = best
        index.last_read = self._reads
        return Candidates(
            index.objects(requirement, items),
            (map(_LABEL_INDEXES, (state,)), map(len, (indexes.changes,))),
            [indexes, 0],
            len(selector.requirements) == 1,
        )

    def _best(
        self, state: State[V], wanted: Sequence[LabelRequirement]
    ) -> tuple[int, LabelRequirement, LabelIndex[V]] | None:
        """Return the requirement that the fewest objects satisfy, of those with an index."""
        indexes = state.label_indexes
        if indexes is None:
            return None
        indexes.catch_up()
        by_label = indexes.by_label
        found = [(one, by_label[one.key]) for one in wanted if one.key in by_label]
        sizes = [(index.size(one), one, index) for one, index in found]
        return min(sizes, key=lambda each: each[0], default=None)

    def _count(self, state: State[V], wanted: Sequence[LabelRequirement]) -> bool:
        """Count a read of labels without an index; return whether one of them has an index now."""
        known = () if state.label_indexes is None else state.label_indexes.by_label
        counts = self._counts
        for label in dict.fromkeys(one.key for one in wanted if one.key not in known):
            if len(counts) >= _MAX_COUNTED:
                counts.clear()
            counts[label] = counts.get(label, 0) + 1
            if counts[label] > _READS_BEFORE and self._make(state, label):
                del counts[label]
                return True
        return False

    def _make(self, state: State[V], label: str) -> bool:
        """Make an index, if there is room; return whether it was made."""
        indexes = state.label_indexes
        if indexes is None:
            indexes = state.label_indexes = LabelIndexes(
                max(_MIN_LOG, min(_MAX_LOG, len(state.items) // _LOG_SHARE))
            )
        elif len(indexes.by_label) >= _MAX_INDEXES:
            return False
        for _ in range(_ATTEMPTS):
            found: list[Any] = copy_at_once(
                state.items.values(), self._changing, map(len, (indexes.changes,))
            )
            logged, changing = found.pop(), found.pop()
            if not changing:  # a change that is under way may be recorded, or may not
                indexes.catch_up(logged)  # this copy has these changes, the other indexes had not
                indexes.by_label[label] = index = LabelIndex(label, found)
                index.last_read = self._reads
                return True
        return False

    def _drop_idle(self, indexes: LabelIndexes[V]) -> None:
        by_label = indexes.by_label
        for label, index in list(by_label.items()):
            if self._reads - index.last_read >= _IDLE_READS:
                del by_label[label]
