"""The events that a handler received, and whether they are a valid sequence.

A mirror is built from the events alone. Each violation of the promise is collected: a key has the
events `add (update)* delete`, with one uid and growing resource versions, any number of times.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyinformer import Added, Deleted, KubeObject, Updated, diff, redacted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyinformer import Event
    from pyinformer.objects import JSONObject


def content(obj: JSONObject) -> JSONObject:
    """Return an object without its managedFields, which informers leave out."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": metadata}


def key_of(obj: JSONObject) -> str:
    """Return `namespace/name`, or `name`."""
    metadata = obj["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def contents(objects: Iterable[JSONObject]) -> dict[str, JSONObject]:
    """Return what a list says, by key."""
    return {key_of(obj): content(obj) for obj in objects}


def check_same(found: JSONObject, wanted: JSONObject) -> None:
    """Fail unless two objects, or two sets of objects by key, say the same; show no Secret."""
    __tracebackhide__ = True  # pytest would print the arguments
    if found != wanted:
        changes = diff(redacted(found), redacted(wanted), ignore=())
        shown = {str(change): f": {change.old!r}, not {change.new!r}" for change in changes}
        paths = [str(change) for change in diff(found, wanted, ignore=())]
        raise AssertionError("\n".join(f"{path}{shown.get(path, '')}" for path in paths[:20]))


class Versions:
    """Every version that a writer's responses named; any thread may add one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], JSONObject] = {}

    def note(self, obj: JSONObject) -> JSONObject:
        """Take the answer to a write, and return it."""
        metadata = obj["metadata"]
        with self._lock:
            self._known[metadata["uid"], metadata["resourceVersion"]] = content(obj)
        return obj

    def check(self, obj: KubeObject[Any]) -> None:
        """Fail unless a writer made this version, word for word.

        A pod that is deleted on a real server first gets a version that marks it, even without a
        grace period; no response names that one.
        """
        if obj.metadata.deletion_timestamp is not None:
            return
        with self._lock:
            made = self._known.get((obj.metadata.uid, obj.metadata.resource_version))
        assert made is not None, f"never existed: {obj}"
        check_same(content(obj.to_dict()), made)

    def __len__(self) -> int:
        return len(self._known)


@dataclass
class History:
    """The events of one handler, in order.

    Args:
        selective: objects leave and enter by changing, so a uid may come again.
    """

    selective: bool = False
    mirror: dict[str, KubeObject[Any]] = field(default_factory=dict)
    events: list[Event[Any]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    _ended: dict[str, tuple[str, int]] = field(default_factory=dict)
    _was_restored: bool = False

    def __call__(self, event: Event[Any]) -> None:
        """Take an event: this is the handler."""
        self.events.append(event)
        known = self.mirror.get(event.key)
        match event:
            case Added(new):
                self._check(known is None, event, "is added while it lives")
                self._check(self._may_begin(event.key, new), event, "is added after its end")
                self.mirror[event.key] = new
            case Updated(old, new, is_resync):
                self._check(known == old, event, "is updated from a state that was never delivered")
                self._check(old.metadata.uid == new.metadata.uid, event, "changes its uid")
                grows = _version(new) > _version(old) or is_resync or event.may_go_back
                self._check(grows, event, "goes back in its resource version")
                self.mirror[event.key] = new
            case Deleted(last_known):
                same = known is not None and known.metadata.uid == last_known.metadata.uid
                self._check(same, event, "is deleted without living")
                grows = known is None or _version(last_known) >= _version(known)
                self._check(grows, event, "is deleted in an older state")
                self.mirror.pop(event.key, None)
                # What a list lacks after a restore was last seen in a lost history.
                is_lost = self._was_restored and event.final_state_unknown
                ended_at = 0 if is_lost else _version(last_known)
                self._ended[event.key] = last_known.metadata.uid, ended_at

    def server_was_restored(self) -> None:
        """Allow ended objects to live again, and versions to begin again."""
        self._ended.clear()
        self._was_restored = True

    def _may_begin(self, key: str, new: KubeObject[Any]) -> bool:
        uid, version = self._ended.get(key, ("", 0))
        if self.selective and uid == new.metadata.uid:
            return _version(new) > version
        return uid != new.metadata.uid

    def _check(self, holds: bool, event: Event[Any], claim: str) -> None:
        if not holds:
            before = [str(one)[:300] for one in self.of(event.key)[-4:-1]]
            self.violations.append(f"{event.key} {claim}: {event}; before it: {before}")

    def of(self, key: str) -> list[Event[Any]]:
        """Return the events of one key."""
        return [event for event in self.events if event.key == key]

    def positions(self) -> dict[str, tuple[str, str]]:
        """Return uid and resource version by key, as the handler knows them."""
        return positions(self.mirror.values())

    def check(self, versions: Versions | None = None) -> None:
        """Fail unless every life was valid and every version seen is known, word for word."""
        assert not self.violations, "\n".join(self.violations[:10])
        if versions is not None:
            for event in self.events:
                if not isinstance(event, Deleted):
                    versions.check(event.object if isinstance(event, Added) else event.new)


def positions(objects: Iterable[KubeObject[Any]]) -> dict[str, tuple[str, str]]:
    """Return uid and resource version by key."""
    return {obj.key: (obj.metadata.uid, obj.metadata.resource_version) for obj in objects}


def _version(obj: KubeObject[Any]) -> int:
    return int(obj.metadata.resource_version)
