"""Expectations: what a controller has written that its cache does not show yet, by owner.

Creations and deletions are recorded before they are sent, so that a reconcile that runs too early
does not repeat them. An expectation is fulfilled when the cache has reached the write, when
complete lists came after it, or when the write failed. One that is never fulfilled times out, which
is logged, counted and returned once. Nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, final

from pyinformer._clock import monotonic
from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
    KubeObject,
    ObjectKey,
    View,
    check_hashable,
    check_integer,
    check_iterable,
    check_seconds,
    check_type,
)
from pyinformer.informer._status import InformerStatus

_log = get_logger(__name__)

_LISTS = 2  # the next one may have begun before the write was sent

ExpectationState: TypeAlias = Literal["fulfilled", "pending", "timed_out"]
"""Whether a cache shows what a controller has done."""

_Owner = TypeVar("_Owner", bound=Hashable)


class Reads(Protocol):
    """What expectations ask of a lister."""

    def get(self, key: str, *, allow_unsynced: bool = False) -> KubeObject[View | None] | None:
        """Return an object as a reader sees it."""
        ...


class Seen(Protocol):
    """What expectations ask of an informer."""

    @property
    def lister(self) -> Reads:
        """What reads its cache."""
        ...

    def has_seen(
        self, resource_version: str | None, *, key: str | None = None, uid: str | None = None
    ) -> bool:
        """Return whether the cache has reached a write."""
        ...

    def status(self) -> InformerStatus:
        """Return how it is doing."""
        ...


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PendingExpectations:
    """The writes of an owner that its cache does not show yet."""

    unanswered_creations: int
    """Creations without an answer yet."""
    creations: tuple[str, ...]
    """The keys of objects that were created and are not in the cache yet."""
    deletions: tuple[str, ...]
    """The keys of objects that are to be deleted and are still in the cache."""
    age_seconds: float


class _Cache(NamedTuple):
    """How often a namespace was listed, and how often its history was another one."""

    loads: int
    epoch: int


@dataclass(slots=True)
class _Expected:
    since: float
    caches: dict[str | None, _Cache]
    """As they were, by namespace; by None if one cache holds all namespaces."""
    unanswered: int = 0
    # By uid: the key, and for a creation the version.
    created: dict[str, tuple[str, str]] = field(default_factory=dict)
    deleted: dict[str, str] = field(default_factory=dict)

    @property
    def is_met(self) -> bool:
        return not (self.unanswered or self.created or self.deleted)

    def drop(self, namespace: str | None) -> None:
        """Expect nothing in a namespace, or anywhere for None, but unanswered creations."""
        for uid, (key, _) in list(self.created.items()):
            if namespace in {None, ObjectKey(key).namespace}:
                del self.created[uid]
        for uid, key in list(self.deleted.items()):
            if namespace in {None, ObjectKey(key).namespace}:
                del self.deleted[uid]


def _checked(
    owner: object, creations: object, deletions: Iterable[KubeObject[View | None]]
) -> list[KubeObject[View | None]]:
    check_hashable("owner", owner)
    check_integer("creations", creations, least=0)
    check_iterable("deletions", deletions, shown="KubeObjects")
    objects = list(deletions)
    for obj in objects:
        check_type("deletions", obj, KubeObject, shown="KubeObjects")
    return objects


@final
class Expectations(Generic[_Owner]):
    """Keeps a controller from acting on a cache that does not show its own acts yet.

    Call it on the event loop: `expect` before the writes, `created` or `failed` after each, and
    `check` at the start of a reconcile, which returns if the answer is `pending`.

    Args:
        informer: follows the objects that are created and deleted.
        timeout_seconds: how long an owner may wait for its expectations.
        clock: returns the time.

    Raises:
        InvalidArgumentError: the timeout is not a duration.

    Source:
        kubernetes pkg/controller/controller_utils.go, ControllerExpectations, which counts events
        instead of versions.
    """

    def __init__(
        self,
        informer: Seen,
        *,
        timeout_seconds: float = 300.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        check_seconds("timeout_seconds", timeout_seconds)
        self._informer = informer
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._owners: dict[_Owner, _Expected] = {}  # the one that was renewed longest ago first
        self._timed_out: dict[_Owner, None] = {}
        self.timeouts: int = 0
        """The number of owners whose expectations timed out."""

    def expect(
        self,
        owner: _Owner,
        *,
        creations: int = 0,
        deletions: Iterable[KubeObject[View | None]] = (),
    ) -> None:
        """Record what is about to be written, in addition to what is expected already.

        Args:
            owner: whose children these are; anything hashable, such as a Request.
            creations: how many objects will be created.
            deletions: the objects that will be deleted, as they were read.

        Raises:
            InvalidArgumentError: a negative number of creations.
            InvalidTypeError: the owner is not hashable, or the deletions are not KubeObjects.
        """
        deletions = _checked(owner, creations, deletions)
        now = self._clock()
        self._expire(now)
        expected = self._owners.pop(owner, None) or _Expected(now, {})
        self._settle(expected)
        expected.since = now
        expected.unanswered += creations
        expected.caches = self._caches()
        expected.deleted.update({obj.metadata.uid: str(obj.key) for obj in deletions})
        self._timed_out.pop(owner, None)
        if not expected.is_met:
            self._owners[owner] = expected

    def created(self, owner: _Owner, written: KubeObject[View | None]) -> None:
        """Record the object that a creation returned; the cache will show it.

        It counts even if nothing is expected any more: the answer may have seemed lost.

        Raises:
            InvalidTypeError: `written` is not a KubeObject, or the owner not hashable.
        """
        check_hashable("owner", owner)
        check_type("written", written, KubeObject)
        expected = self._owners.get(owner)
        if expected is None:
            expected = self._owners[owner] = _Expected(self._clock(), self._caches())
        expected.unanswered = max(0, expected.unanswered - 1)
        meta = written.metadata
        expected.created[meta.uid] = (str(written.key), meta.resource_version)

    def failed(
        self,
        owner: _Owner,
        *,
        creations: int = 0,
        deletions: Iterable[KubeObject[View | None]] = (),
    ) -> None:
        """Expect fewer writes: these were refused, or never sent.

        Do not call this for a write whose answer was lost: the cache, or the timeout, decides.

        Raises:
            InvalidArgumentError: as `expect`.
            InvalidTypeError: as `expect`.
        """
        deletions = _checked(owner, creations, deletions)
        expected = self._owners.get(owner)
        if expected is None:
            return
        expected.unanswered = max(0, expected.unanswered - creations)
        for obj in deletions:
            expected.deleted.pop(obj.metadata.uid, None)

    def check(self, owner: _Owner) -> ExpectationState:
        """Return whether the cache shows everything that was written for an owner.

        Returns:
            `fulfilled`; `pending`: the event that is missing will trigger another reconcile, or
            requeue the request in case it never comes; or `timed_out`, once: nothing is expected
            any more, and the cache is what there is.

        Raises:
            InvalidTypeError: the owner is not hashable.
        """
        self._expire(self._clock())
        try:
            has_timed_out = owner in self._timed_out
        except TypeError:  # checked only then: each reconcile passes here
            check_hashable("owner", owner)
            raise
        if has_timed_out:
            del self._timed_out[owner]
            return "timed_out"
        expected = self._owners.get(owner)
        if expected is None:
            return "fulfilled"
        self._settle(expected)
        if not expected.is_met:
            return "pending"
        del self._owners[owner]
        return "fulfilled"

    def pending(self, owner: _Owner) -> PendingExpectations | None:
        """Return what an owner still waits for; None for nothing."""
        check_hashable("owner", owner)
        expected = self._owners.get(owner)
        if expected is None:
            return None
        self._settle(expected)
        if expected.is_met:
            return None
        return PendingExpectations(
            unanswered_creations=expected.unanswered,
            creations=tuple(key for key, _ in expected.created.values()),
            deletions=tuple(expected.deleted.values()),
            age_seconds=self._clock() - expected.since,
        )

    def forget(self, owner: _Owner) -> None:
        """Drop the expectations of an owner, for example because it is gone."""
        self._owners.pop(owner, None)
        self._timed_out.pop(owner, None)

    def __len__(self) -> int:
        """Return how many owners wait."""
        return len(self._owners)

    def _settle(self, expected: _Expected) -> None:
        has_seen = self._informer.has_seen
        for uid, (key, version) in list(expected.created.items()):
            if has_seen(version, key=key, uid=uid):
                del expected.created[uid]
        for uid, key in list(expected.deleted.items()):
            if has_seen(None, key=key, uid=uid) or self._is_ending(key, uid):
                del expected.deleted[uid]
        if expected.is_met:
            return
        now = self._caches()
        if now and all(_has_listed(expected.caches.get(name), now[name]) for name in now):
            expected.unanswered = 0  # the caches show all creations, answered or not
        for name in now.keys() & expected.caches.keys():
            before = expected.caches[name]
            if now[name].epoch > before.epoch:
                expected.caches[name] = _Cache(before.loads, now[name].epoch)
                expected.drop(name)  # the writes may not exist in the new epoch

    def _caches(self) -> dict[str | None, _Cache]:
        scopes = self._informer.status().namespaces
        return {one.namespace: _Cache(one.loads, one.epoch) for one in scopes}

    def _is_ending(self, key: str, uid: str) -> bool:
        seen = self._informer.lister.get(key, allow_unsynced=True)
        meta = None if seen is None else seen.metadata
        return meta is not None and meta.uid == uid and meta.deletion_timestamp is not None

    def _expire(self, now: float) -> None:
        while self._owners:
            owner, expected = next(iter(self._owners.items()))
            if now - expected.since < self._timeout_seconds:
                return
            self._settle(expected)
            del self._owners[owner]
            if not expected.is_met:
                self._give_up(owner, expected)

    def _give_up(self, owner: _Owner, expected: _Expected) -> None:
        self.timeouts += 1
        self._timed_out[owner] = None
        while len(self._timed_out) > _MAX_TIMED_OUT:
            del self._timed_out[next(iter(self._timed_out))]
        _log.warning(
            "expectations of %s timed out: the cache never showed what was written",
            owner,
            extra={
                "owner": str(owner),
                "unanswered_creations": expected.unanswered,
                "creations": [key for key, _ in expected.created.values()],
                "deletions": list(expected.deleted.values()),
            },
        )


def _has_listed(before: _Cache | None, now: _Cache) -> bool:
    """Return whether enough lists have come since, of a namespace that may be new."""
    # The cache of a namespace that was left and is followed again counts from 0.
    first = before.loads if before is not None and before.loads <= now.loads else 0
    return now.loads >= first + _LISTS


_MAX_TIMED_OUT = 10_000  # owners that no reconcile checks any more
