"""A server that keeps what really happened, by revision, and can be restored from a backup.

Writes enter; the log of a watch with a selector, and lists as of any revision, leave. After a
restore the same revisions are given again, to other contents.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

NAMES = ("a", "b", "c", "d", "e", "f", "g")
_POD = (
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%s","uid":"%s","resourceVersion":"%d"},'
    b'"spec":{"nodeName":"%d"}}'
)
LINE = b'{"type":"%s","object":%s}'


@dataclass(frozen=True, slots=True)
class State:
    """What a name stands for from one revision on; a uid of "" is nothing."""

    revision: int
    uid: str = ""
    is_selected: bool = False
    written: int = 0
    """Distinguishes one content from another, in all histories."""

    def body(self, name: str, version: int = 0) -> bytes:
        """Return it as a server sends it."""
        version = version or self.revision
        return _POD % (name.encode(), self.uid.encode(), version, self.written)


@dataclass(frozen=True, slots=True)
class Change:
    """One event of the selection."""

    revision: int
    kind: str
    name: str
    state: State
    version_before: int

    def line(self, *, old_version: bool = False) -> bytes:
        """Return it as a watch sends it; a deletion of an old server has the version before."""
        is_old = old_version and self.kind == "DELETED"
        version = self.version_before if is_old else self.revision
        return LINE % (self.kind.encode(), self.state.body(self.name, version))


class Server:
    """What really happened, in one history."""

    def __init__(self) -> None:
        self.revision = 1
        self.compacted = 0
        self.log: list[Change] = []
        self.states: dict[str, list[State]] = {name: [] for name in NAMES}
        self._revisions: dict[str, list[int]] = {name: [] for name in NAMES}
        self._uids = 0
        self._written = 0
        self._newest = 1

    def write(self, name: str, *, is_selected: bool) -> None:
        """Create or update an object; it may enter or leave the selection."""
        before = self.now(name)
        uid = before.uid
        if not uid:
            self._uids += 1
            uid = f"uid-{self._uids}"
        self._written += 1
        self.revision += 1
        self._become(name, State(self.revision, uid, is_selected, self._written))

    def delete(self, name: str, *, at_once: bool = False) -> None:
        """Delete an object, perhaps in the revision of the one before."""
        if self.now(name).uid:
            self.revision += not at_once
            self._become(name, State(self.revision))

    def expire(self, names: Iterable[str]) -> None:
        """Delete objects in one revision, as the end of a lease does."""
        self.revision += 1
        for name in names:
            self.delete(name, at_once=True)

    def _become(self, name: str, state: State) -> None:
        before = self.now(name)
        self.states[name].append(state)
        self._revisions[name].append(state.revision)
        self._newest = max(self._newest, self.revision)
        if state.is_selected:
            kind = "MODIFIED" if before.is_selected else "ADDED"
            self.log.append(Change(self.revision, kind, name, state, 0))
        elif before.is_selected:
            # A deleted object is sent with its last state; one that leaves, with its new one.
            sent = state if state.uid else before
            self.log.append(Change(self.revision, "DELETED", name, sent, before.revision))

    def now(self, name: str) -> State:
        """Return the present state of a name."""
        states = self.states[name]
        return states[-1] if states else State(0)

    def at(self, name: str, revision: int) -> State:
        """Return the state of a name at a revision."""
        number = bisect_right(self._revisions[name], revision)
        return self.states[name][number - 1] if number else State(0)

    def selected(self, revision: int) -> dict[str, State]:
        """Return what a list shows at a revision."""
        states = {name: self.at(name, revision) for name in NAMES}
        return {name: state for name, state in states.items() if state.is_selected}

    def index_after(self, revision: int) -> int:
        """Return where a watch that resumes there begins in the log."""
        return bisect_right(self.log, revision, key=lambda change: change.revision)

    def restore(self, revision: int, *, bump: bool) -> None:
        """Restore a backup; with a bump, revisions continue far beyond all earlier ones."""
        for name in NAMES:
            keep = bisect_right(self._revisions[name], revision)
            del self.states[name][keep:], self._revisions[name][keep:]
        del self.log[self.index_after(revision) :]
        self.revision = revision
        self.compacted = min(self.compacted, revision)
        if bump:
            self.revision = self.compacted = self._newest + 1_000
            self._newest = self.revision
