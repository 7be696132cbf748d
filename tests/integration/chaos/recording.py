"""A record of what controllers did, and the checks of it.

It holds the start and the end of every reconcile, each answer to a write of this process, and every
later read. The checks find keys that were reconciled twice at once, and reads that missed such a
write.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyinformer.objects import older
from tests.integration.chaos.claims import ready_claims

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from pyinformer import KubeObject, Lister, Reconcile, Request, SharedInformer
    from pyinformer.objects import JSONObject
    from pyinformer.testing.histories import Recorder

_Place = tuple[str, str]
"""What kind of object, and its key."""


@dataclass
class Record:
    """The notes of one run; all of them are taken on one event loop.

    Args:
        recorder: writes reconciles and caches to a history as well; None does not.
    """

    recorder: Recorder | None = None

    intervals: dict[_Place, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    missed: list[str] = field(default_factory=list)
    _written: dict[_Place, tuple[str, str]] = field(default_factory=dict)
    _deleted: dict[_Place, str] = field(default_factory=dict)
    _unseen: list[tuple[_Place, str]] = field(default_factory=list)

    @property
    def reconciles(self) -> int:
        """How many there were."""
        return sum(map(len, self.intervals.values()))

    @property
    def writes(self) -> int:
        """To how many objects we wrote."""
        return len(self._written) + len(self._deleted)

    def recorded(
        self,
        name: str,
        reconcile: Reconcile[Any],
        primary: SharedInformer[Any],
        *,
        indexes: Mapping[str, str] | None = None,
    ) -> Reconcile[Any]:
        """Follow a controller's primary informer, and return its function as it is recorded."""
        if self.recorder is None:
            return reconcile
        self.recorder.follow(primary, indexes=indexes, claims=ready_claims(primary))
        return self.recorder.reconciling(name, reconcile, primary)

    @contextmanager
    def reconciling(self, controller: str, request: Request) -> Iterator[None]:
        """Write down when a reconcile ran, however it ends."""
        begun = perf_counter()
        try:
            yield
        finally:
            self.intervals[controller, str(request)].append((begun, perf_counter()))

    def wrote(self, kind: str, answer: KubeObject[Any], lister: Lister[Any]) -> None:
        """Remember what the server answered to a write of ours, and read it back at once."""
        place = (kind, str(answer.key))
        self._written[place] = (answer.metadata.uid, answer.metadata.resource_version)
        self._deleted.pop(place, None)
        self.read(kind, answer.key, lister.get(answer.key))

    def wrote_status(
        self, answer: KubeObject[Any], status: JSONObject, *, based_on: KubeObject[Any]
    ) -> None:
        """Record that the server has answered the write of a widget's status."""
        if self.recorder is not None:
            self.recorder.wrote_status(answer, status, plural="widgets", based_on=based_on)

    def deleted(self, kind: str, obj: KubeObject[Any], lister: Lister[Any]) -> None:
        """Remember that the server said that an object is gone, and look at once whether it is."""
        place = (kind, str(obj.key))
        self._written.pop(place, None)
        self._deleted[place] = obj.metadata.uid
        self.read(kind, obj.key, lister.get(obj.key))

    def read(self, kind: str, key: str, found: KubeObject[Any] | None) -> None:
        """Judge what a reconcile reads: at least what we wrote."""
        place = (kind, key)
        if found is not None and self._deleted.get(place) == found.metadata.uid:
            self.missed.append(f"{kind} {key} came back after our own deletion")
        uid, version = self._written.get(place, ("", ""))
        if not uid or (found is not None and found.metadata.uid != uid):
            return
        if found is None:  # right if another writer deleted it: judged at the end
            self._unseen.append((place, uid))
        elif older(found.metadata.resource_version, version):
            self.missed.append(f"{kind} {key} was read older than our own write")

    def overlaps(self) -> list[str]:
        """Name the keys that were reconciled by two workers at once."""
        return [
            f"{controller} {key}"
            for (controller, key), intervals in self.intervals.items()
            if any(later[0] < former[1] for former, later in pairwise(sorted(intervals)))
        ]

    def unseen(self, live_uids: Collection[str]) -> list[str]:
        """Name the objects that we wrote, that live, and that a later reconcile found missing."""
        return [f"{kind} {key}" for (kind, key), uid in self._unseen if uid in live_uids]
