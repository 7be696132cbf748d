"""An honest history against an adversary on the wire: the guard lets nothing wrong through.

The server keeps a log of what really happened. The adversary decides what of it arrives and when:
events twice, replays from any place, deletions that carry an old version, cuts in the middle of a
batch that shares one version. Whatever it does, the position never goes back, each key's history is
a valid life, no state that a handler saw is followed by an older one, and what the reflector holds
after a reconnect, or the list that a suspect stream asks for, is what exists.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyinformer.cache.reflector import EventApplier, Guard, Snapshot, StreamBroken
from pyinformer.cache.reflector.machine.steps import Breach
from tests.cache.reflector.samples import DictSink, bookmark, codec, line, pod_bytes
from tests.soak import examples

NAMES = st.sampled_from("abc")


@dataclass(frozen=True)
class Change:
    """One entry of the log, as a watch with a selector sends it."""

    version: int
    kind: str
    name: str
    uid: str
    version_before: int

    def line(self, *, old_version: bool) -> bytes:
        """Return it as a line; a deletion of an old server carries the version before."""
        version = self.version_before if old_version and self.kind == "DELETED" else self.version
        return line(self.kind, self.name, str(version), self.uid)


@dataclass
class Object:
    """What exists on the server, selected or not."""

    uid: str
    version: int
    is_selected: bool = True


class Wire(RuleBasedStateMachine):
    """A server with a log, an adversary, and the three deciders of a reflector."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 1
        self.uids = 0
        self.log: list[Change] = []
        self.objects: dict[str, Object] = {}
        self.sink = DictSink()
        self.guard = Guard()
        self.guard.loaded("1")
        self.codec = codec()
        self.follower = EventApplier(self.codec, self.guard, self.sink)
        self.cursor = 0
        self.highest = 1
        self.breaches: set[Breach] = set()

    # What happens on the server.

    def _happens(self, kind: str, name: str, obj: Object, *, at_once: bool = False) -> None:
        self.version += not at_once
        self.log.append(Change(self.version, kind, name, obj.uid, obj.version))
        obj.version = self.version

    @rule(name=NAMES, is_selected=st.booleans())
    def write(self, name: str, *, is_selected: bool) -> None:
        """Create or update an object; it may enter or leave the selection."""
        obj = self.objects.get(name)
        if obj is None:
            self.uids += 1
            obj = self.objects[name] = Object(f"uid-{self.uids}", 0, is_selected=False)
        kinds = {(False, True): "ADDED", (True, True): "MODIFIED", (True, False): "DELETED"}
        kind = kinds.get((obj.is_selected, is_selected))
        obj.is_selected = is_selected
        if kind is not None:
            self._happens(kind, name, obj)
        else:
            self.version += 1
            obj.version = self.version

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        obj = self.objects.pop(name, None)
        if obj is not None and obj.is_selected:
            self._happens("DELETED", name, obj)

    @rule(name=NAMES)
    def recreate(self, name: str) -> None:
        self.delete(name)
        self.write(name, is_selected=True)

    @rule()
    def expire_all(self) -> None:
        """Delete everything in one revision, as the end of a lease does."""
        self.version += 1
        for name, obj in self.objects.items():
            if obj.is_selected:
                self._happens("DELETED", name, obj, at_once=True)
        self.objects.clear()

    # What the adversary lets through.

    def _feed(self, data: bytes) -> bool:
        """Let a line arrive; return whether the connection continues."""
        try:
            self.follower.on_line(data, 0, len(data))
        except StreamBroken as broken:
            self.breaches.add(broken.breach)
            self.reload(as_watch_list=self.version % 2 == 0)
            return False
        return True

    @rule(count=st.integers(1, 6), old_version=st.booleans())
    def deliver(self, count: int, *, old_version: bool) -> None:
        for change in self.log[self.cursor : self.cursor + count]:
            self.cursor += 1
            if not self._feed(change.line(old_version=old_version)):
                return

    @rule(arrive=st.integers(1, 3))
    def cut_within_a_batch(self, arrive: int) -> None:
        """Catch up, let a lease end, and lose the connection before all of it has arrived."""
        self.settle()
        self.expire_all()
        self.deliver(arrive, old_version=False)
        self.cut()

    @precondition(lambda self: self.cursor)
    @rule(old_version=st.booleans())
    def duplicate(self, *, old_version: bool) -> None:
        self._feed(self.log[self.cursor - 1].line(old_version=old_version))

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def replay(self, data: st.DataObject) -> None:
        """Continue from an earlier place, on the same connection."""
        self.cursor = data.draw(st.integers(0, self.cursor))

    @precondition(lambda self: self.cursor == len(self.log))
    @rule()
    def send_bookmark(self) -> None:
        self._feed(bookmark(str(self.version)))

    @rule()
    def cut(self) -> None:
        """Lose the connection, and resume where the guard says."""
        resume = int(self.guard.resume_position)
        self.guard.connected()
        self.cursor = next(
            (i for i, change in enumerate(self.log) if change.version > resume), len(self.log)
        )

    @rule(as_watch_list=st.booleans())
    def reload(self, *, as_watch_list: bool) -> None:
        """List everything; the reflector does so when a stream is suspect."""
        snapshot = Snapshot(self.codec, self.sink, self.guard)
        for name, obj in self.objects.items():
            if not obj.is_selected:
                continue
            if as_watch_list:
                data = line("ADDED", name, str(obj.version), obj.uid)
                snapshot.on_line(data, 0, len(data))
            else:
                data = pod_bytes(name, str(obj.version), obj.uid)
                snapshot.on_item(data, 0, len(data))
        objects = snapshot.complete(str(self.version))
        list(self.sink.replace_nowait(objects, str(self.version)))
        assert not self.guard.loaded(str(self.version), rewound=snapshot.rewound)
        self.guard.connected()
        self.cursor = len(self.log)

    @rule()
    def settle(self) -> None:
        """Reconnect to an honest server and read all it has."""
        self.cut()
        while self.cursor < len(self.log):
            self.deliver(len(self.log), old_version=False)
        assert self._held() == self._existing()

    # What always holds.

    def _existing(self) -> dict[str, tuple[str, str]]:
        return {n: (o.uid, str(o.version)) for n, o in self.objects.items() if o.is_selected}

    def _held(self) -> dict[str, tuple[str, str]]:
        metas = {key: obj.metadata for key, obj in self.sink.objects.items()}
        return {key: (meta.uid, meta.resource_version) for key, meta in metas.items()}

    @invariant()
    def the_position_never_goes_back(self) -> None:
        position = int(self.guard.position)
        assert self.highest <= position <= self.version
        assert int(self.guard.resume_position) <= position
        assert self.guard.epoch == 0
        assert self.breaches <= {Breach.SUSPECT}
        self.highest = position

    @invariant()
    def nobody_sees_an_older_state_after_a_newer_one(self) -> None:
        for key, history in self.sink.history.items():
            seen = [int(words.split()[-1]) for words in history if not words.startswith("delete")]
            assert seen == sorted(set(seen)), (key, history)

    def teardown(self) -> None:
        self.settle()


Wire.TestCase.settings = settings(max_examples=examples(75), stateful_step_count=50)
TestTheWire = Wire.TestCase
