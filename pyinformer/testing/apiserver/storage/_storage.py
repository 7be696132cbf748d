"""The storage of the embedded server: objects, revisions, and the log of changes.

It stands for etcd and the watch cache. One lock protects it, so any thread may call; no method
waits but `wait_for_subscriptions`. A state and the subscription taken with it miss nothing and
repeat nothing.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage._changes import BookmarkChange, StoredChange, Subscription
from pyinformer.testing.apiserver.storage._stored_records import Record, make_record, read_again

WATCH_BUFFER_EVENTS = 100_000
"""How many events a watch may lag before it is closed, as a real server closes slow readers."""


class HistoryExpiredError(Exception):
    """A requested revision is older than the remembered history.

    Attributes:
        oldest: the oldest revision that still works.
    """

    def __init__(self, oldest: int) -> None:
        super().__init__(oldest)
        self.oldest = oldest


class _Collection:
    """The objects of one resource, and its part of the log."""

    def __init__(self, *, window_size: int, history_size: int, revision: int) -> None:
        self.records: dict[str, Record] = {}
        self.order: list[str] = []
        self.window: deque[StoredChange] = deque()
        self.history: deque[StoredChange] = deque()
        self.window_start = revision  # the oldest revision at which a watch may resume
        self.history_start = revision  # the oldest state that can be computed
        self.subscriptions: list[Subscription] = []
        self._window_size = window_size
        self._history_size = history_size

    def apply(self, change: StoredChange) -> None:
        if change.new is None:
            del self.records[change.key]
            del self.order[bisect_left(self.order, change.key)]
        else:
            if change.key not in self.records:
                insort(self.order, change.key)
            self.records[change.key] = change.new
        self._log(change)
        for subscription in self.subscriptions:
            subscription.push(change)

    def _log(self, change: StoredChange) -> None:
        self.window.append(change)
        while len(self.window) > self._window_size:
            lost = self.window.popleft().revision
            oldest = self.window[0].revision if self.window else lost + 1
            self.window_start = max(lost, oldest - 1)
        self.history.append(change)
        while len(self.history) > self._history_size:
            self.history_start = self.history.popleft().revision

    def forget(self, revision: int, *, history: bool) -> None:
        self.window.clear()
        self.window_start = revision
        if history:
            self.history.clear()
            self.history_start = revision

    def changes_after(self, revision: int, *, from_history: bool) -> list[StoredChange]:
        start = self.history_start if from_history else self.window_start
        if revision < start:
            raise HistoryExpiredError(start)
        changes: list[StoredChange] = []
        for change in reversed(self.history if from_history else self.window):
            if change.revision <= revision:
                break
            changes.append(change)
        changes.reverse()
        return changes

    def state(self) -> list[Record]:
        return [self.records[key] for key in self.order]

    def state_at(self, revision: int) -> list[Record]:
        records: dict[str, Record | None] = dict(self.records)
        for change in reversed(self.changes_after(revision, from_history=True)):
            records[change.key] = change.old
        return [record for _, record in sorted(records.items()) if record is not None]


@dataclass(frozen=True, slots=True)
class SavedState:
    """All objects and the revision of one moment, for `restore`."""

    revision: int
    records: Mapping[ResourceType, Mapping[str, Record]]


class ChangeReceiver(Protocol):
    """Receives every change of a storage, under its lock; see `Follower`."""

    def take(self, waiting: tuple[ResourceType, StoredChange] | int) -> None:
        """Receive a change, or a revision without one."""
        ...

    def restore(self, saved: SavedState, bump_revision: int) -> None:
        """Receive that a saved state was restored, whose revision is advanced by a number."""
        ...

    def read_again(
        self, resource: ResourceType, convert: Callable[[JSONObject], JSONObject]
    ) -> None:
        """Receive that a definition has changed."""
        ...

    def forget(self) -> None:
        """Receive that all older history is forgotten."""
        ...


class Storage:
    """All objects, one global revision, and the log of changes."""

    def __init__(
        self,
        *,
        window_size: int,
        history_size: int,
        watch_buffer_events: int = WATCH_BUFFER_EVENTS,
    ) -> None:
        self.lock: threading.RLock = threading.RLock()
        self._window_size = window_size
        self._history_size = history_size
        self._watch_buffer_events = watch_buffer_events
        self._collections: dict[ResourceType, _Collection] = {}
        self._revision = 1
        self._start = 1  # new collections begin here
        self._revision_waiters: dict[Callable[[], None], int] = {}
        self._subscriptions_changed = threading.Condition(self.lock)
        self.on_write: Callable[[Record | None], None] | None = None
        """Called under the lock with each stored object, and with None after a deletion."""
        self.followers: tuple[ChangeReceiver, ...] = ()
        """The receivers of every change, called under the lock."""

    @property
    def revision(self) -> int:
        """The revision of the newest write."""
        return self._revision

    def get(self, resource: ResourceType, key: str) -> Record | None:
        """Return the current version of one object, or None."""
        return self._collection(resource).records.get(key)

    def state(self, resource: ResourceType) -> tuple[list[Record], int]:
        """Return all objects in key order, and the current revision."""
        with self.lock:
            return self._collection(resource).state(), self._revision

    def state_at(self, resource: ResourceType, revision: int) -> list[Record]:
        """Return all objects in key order, as of a revision.

        Raises:
            HistoryExpiredError: the revision is older than the history.
        """
        with self.lock:
            return self._collection(resource).state_at(revision)

    def put(self, resource: ResourceType, body: JSONObject) -> Record:
        """Store a new version of an object.

        Args:
            resource: its resource.
            body: the object with complete metadata; its resourceVersion is set here.

        Returns:
            The stored record.
        """
        with self.lock:
            revision = self._revision + 1
            body["metadata"]["resourceVersion"] = str(revision)
            record = make_record(resource, body)
            self._revision = revision
            collection = self._collection(resource)
            old = collection.records.get(record.key)
            self._commit(resource, StoredChange(revision, record.key, record, old))
            self._wake_revision_waiters()
            if self.on_write is not None:
                self.on_write(record)
            return record

    def remove(self, doomed: Iterable[tuple[ResourceType, str]]) -> list[Record]:
        """Delete objects in one revision, as the end of an etcd lease does.

        Args:
            doomed: resources and keys; absent ones are ignored.

        Returns:
            The last state of each, under the revision of the deletion.
        """
        with self.lock:
            gone: list[Record] = []
            revision = self._revision + 1
            for resource, key in doomed:
                collection = self._collection(resource)
                old = collection.records.get(key)
                if old is not None:
                    self._revision = revision
                    change = StoredChange(revision, key, None, old)
                    self._commit(resource, change)
                    gone.append(change.gone or old)
            self._wake_revision_waiters()
            if gone and self.on_write is not None:
                self.on_write(None)
            return gone

    def drop(self, resource: ResourceType) -> None:
        """Delete all objects of a resource, one revision each, and end its watches."""
        with self.lock:
            for record in self._collection(resource).state():
                self.remove([(resource, record.key)])
            for subscription in self._collection(resource).subscriptions:
                subscription.end()

    def read_again(
        self, resource: ResourceType, convert: Callable[[JSONObject], JSONObject]
    ) -> None:
        """Show the objects of a resource as a changed definition does, and end its watches.

        Args:
            resource: the resource as it is now.
            convert: returns an object as it is read, from the one that was written.
        """
        with self.lock:
            collection = self._collection(resource)
            for key, record in collection.records.items():
                collection.records[key] = read_again(record, resource, convert)
            for subscription in collection.subscriptions:
                subscription.end()
            for follower in self.followers:
                follower.read_again(resource, convert)

    def follow(self, resource: ResourceType, change: StoredChange) -> None:
        """Apply a change of another storage; all its changes must come here in order."""
        with self.lock:
            self._revision = change.revision
            self._commit(resource, change)
            self._wake_revision_waiters()

    def advance(self, by: int) -> None:
        """Advance the revision without a change, as writes to other data would."""
        with self.lock:
            self._revision += by
            self._wake_revision_waiters()
            for follower in self.followers:
                follower.take(self._revision)

    def forget(self, *, history: bool) -> None:
        """Forget the watch windows, and on request the history of states."""
        with self.lock:
            self._start = self._revision
            for collection in self._collections.values():
                collection.forget(self._revision, history=history)

    def save(self) -> SavedState:
        """Return the current state, for `restore`."""
        with self.lock:
            records = {
                resource: dict(collection.records)
                for resource, collection in self._collections.items()
            }
            return SavedState(self._revision, records)

    def add_receiver(self, receiver: ChangeReceiver) -> None:
        """Let a receiver restore the state of now, and then take every change."""
        with self.lock:
            receiver.restore(self.save(), 0)
            self.followers = (*self.followers, receiver)

    def remove_receiver(self, receiver: ChangeReceiver) -> None:
        """Stop calling a receiver."""
        with self.lock:
            self.followers = tuple(one for one in self.followers if one is not receiver)

    def restore(self, saved: SavedState, *, bump_revision: int = 0) -> None:
        """Restore a saved state, its revision included, without notifying watches."""
        with self.lock:
            self._revision = saved.revision + bump_revision
            for resource in {*self._collections, *saved.records}:
                collection = self._collection(resource)
                collection.records = dict(saved.records.get(resource, {}))
                collection.order = sorted(collection.records)
            self.forget(history=True)
            for follower in self.followers:
                follower.restore(saved, bump_revision)

    def subscribe(
        self,
        resource: ResourceType,
        wake: Callable[[], None],
        *,
        after: int | None,
        namespace: str = "",
    ) -> tuple[list[Record], int, Subscription]:
        """Follow a resource.

        Args:
            resource: what to follow.
            wake: called under the lock, from any thread, when an entry is pending.
            after: the revision to resume after; None starts with the current state.
            namespace: for `inject` only; changes of all namespaces are delivered.

        Returns:
            The current state (empty when resuming), the current revision, and the subscription,
            which already holds the changes after `after`.

        Raises:
            HistoryExpiredError: `after` is older than the remembered history.
        """
        with self.lock:
            collection = self._collection(resource)
            subscription = Subscription(
                self.lock, wake, namespace=namespace, limit=self._watch_buffer_events
            )
            state: list[Record] = []
            if after is None:
                state = collection.state()
            else:
                from_history = not resource.is_watch_cached
                for change in collection.changes_after(after, from_history=from_history):
                    subscription.push(change)
            collection.subscriptions.append(subscription)
            self._subscriptions_changed.notify_all()
            return state, self._revision, subscription

    def unsubscribe(self, resource: ResourceType, subscription: Subscription) -> None:
        """Stop following."""
        with self.lock:
            subscriptions = self._collection(resource).subscriptions
            if subscription in subscriptions:
                subscriptions.remove(subscription)
                self._subscriptions_changed.notify_all()

    def bookmark(self, subscription: Subscription) -> None:
        """Append a bookmark of the current revision to a subscription."""
        with self.lock:
            subscription.push(BookmarkChange(self._revision))

    def inject(self, resource: ResourceType, line: bytes, *, namespace: str = "") -> int:
        """Send a line to open watches without changing an object.

        Args:
            resource: the resource whose watches send it.
            line: the bytes, sent as they are.
            namespace: if not "", only watches of this namespace and of all namespaces.

        Returns:
            The number of watches that will send it.
        """
        with self.lock:
            chosen = [
                subscription
                for subscription in self._collection(resource).subscriptions
                if not namespace or subscription.namespace in ("", namespace)
            ]
            for subscription in chosen:
                subscription.push(line)
            return len(chosen)

    def subscriptions(self, resource: ResourceType | None = None) -> Sequence[Subscription]:
        """Return the open subscriptions of one resource, or of all."""
        with self.lock:
            chosen = self._collections if resource is None else [resource]
            return [s for one in chosen for s in self._collection(one).subscriptions]

    def wait_for_subscriptions(self, count: int, timeout_seconds: float) -> None:
        """Block until exactly this number of subscriptions is open.

        Raises:
            TimeoutError: the number was not reached in time.
        """
        with self._subscriptions_changed:
            if not self._subscriptions_changed.wait_for(
                lambda: len(self.subscriptions()) == count, timeout_seconds
            ):
                message = f"{len(self.subscriptions())} watches are open, not {count}"
                raise TimeoutError(message)

    def when_revision(self, revision: int, wake: Callable[[], None]) -> None:
        """Call `wake` under the lock when a revision is reached, or at once if it already is."""
        with self.lock:
            self._revision_waiters[wake] = revision
            self._wake_revision_waiters()

    def forget_waiter(self, wake: Callable[[], None]) -> None:
        """Cancel a `when_revision`."""
        with self.lock:
            self._revision_waiters.pop(wake, None)

    def _commit(self, resource: ResourceType, change: StoredChange) -> None:
        self._collection(resource).apply(change)
        for follower in self.followers:
            follower.take((resource, change))

    def _wake_revision_waiters(self) -> None:
        for wake, revision in tuple(self._revision_waiters.items()):
            if revision <= self._revision:
                del self._revision_waiters[wake]
                wake()

    def _collection(self, resource: ResourceType) -> _Collection:
        collection = self._collections.get(resource)
        if collection is None:
            with self.lock:
                collection = self._collections.setdefault(
                    resource,
                    _Collection(
                        window_size=self._window_size,
                        history_size=self._history_size,
                        revision=self._start,
                    ),
                )
        return collection
