"""Selects objects by their labels.

Objects of one workload mostly share one record of labels, so the predicate is called once for each
record, which is recognised by its identity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyinformer.objects import KubeObject, LabelPredicate, V

_CHUNK = 1024  # objects between two checks of whether remembering pays
_TRIAL = 4096  # objects before the first check: those of one workload are often adjacent


def select(objects: list[KubeObject[V]], matches: LabelPredicate) -> list[KubeObject[V]]:
    """Return the objects whose labels match, in their order.

    Args:
        objects: the objects; the list keeps them alive during the call.
        matches: the predicate; it depends on the labels alone.
    """
    verdicts: dict[int, bool] = {}
    found: list[KubeObject[V]] = []
    asked = 0
    for start in range(0, len(objects), _CHUNK):
        before, asked = asked, len(verdicts)
        if start >= _TRIAL and asked - before > _CHUNK // 2:  # mostly labels of their own
            rest = objects[start:]
            return found + [obj for obj in rest if matches(obj.metadata.labels)]
        _select_some(objects[start : start + _CHUNK], matches, verdicts, found)
    return found


def _select_some(
    objects: list[KubeObject[V]],
    matches: LabelPredicate,
    verdicts: dict[int, bool],
    found: list[KubeObject[V]],
) -> None:
    known, keep = verdicts.get, found.append
    for obj in objects:
        labels = obj.metadata.labels
        number = id(labels)
        verdict = known(number)
        if verdict is None:
            verdicts[number] = verdict = matches(labels)
        if verdict:
            keep(obj)
