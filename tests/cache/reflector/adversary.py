"""An adversary on the wire between a server and a reflector's deciders, without any waiting.

The adversary decides what of the server's history arrives and when. The client is the guard, the
follower and the snapshot, driven as the reflector drives them, with a proof of the server's history
after each unclean end. A script of actions, each with one number, says what happens, so that any
run can be repeated and shrunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pyinformer.cache.reflector import EventApplier, Guard, Snapshot, StreamBroken
from pyinformer.cache.reflector.machine.steps import Breach
from pyinformer.errors import ListInconsistentError
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from tests.cache.reflector.restorable import LINE, NAMES, Server
from tests.cache.reflector.samples import bookmark, codec

_MAX_REQUESTS = 12  # an honest server answers all that is left to ask within so many requests
_SUSPECT_CONNECTIONS = 2

Identity = tuple[str, int]


class CheckingSink:
    """A store that fails where a handler would see an impossible life, or the past."""

    def __init__(self) -> None:
        self.objects: dict[str, KubeObject[None]] = {}
        self.newest: dict[str, int] = {}
        """The newest version that was applied to each key, in this history."""
        self.may_go_back = False
        self.told = 0
        self.get = self.objects.get

    def keys(self) -> list[str]:
        """Return every key."""
        return list(self.objects)

    def apply_nowait(self, event: Event[None]) -> None:
        """Take one change, and fail if it is none that can follow."""
        self.told += 1
        key = event.key
        known = self.objects.get(key)
        match event:
            case Added(new):
                assert known is None, f"{new!r} is added while {known!r} is there"
                self._apply(key, new)
            case Updated(old, new):
                assert known is old, f"{new!r} replaces {old!r}, which is not there"
                assert old.metadata.uid == new.metadata.uid
                self._apply(key, new)
            case Deleted(last):
                assert known is not None, f"{last!r} is deleted and was not there"
                assert known.metadata.uid == last.metadata.uid
                del self.objects[key]

    def _apply(self, key: str, new: KubeObject[None]) -> None:
        version = int(new.metadata.resource_version)
        before = self.newest.get(key, 0)
        assert version > before, f"{new!r} was applied after version {before}"
        self.newest[key] = version
        self.objects[key] = new

    def replace_nowait(
        self, objects: Mapping[str, KubeObject[None]], resource_version: str
    ) -> Iterator[None]:
        """Replace the content by a complete list, and apply the differences."""
        assert resource_version
        if self.may_go_back:
            self.newest.clear()
        for key, old in list(self.objects.items()):
            if key not in objects:
                self.apply_nowait(Deleted(old, final_state_unknown=True))
        yield
        for key, new in objects.items():
            known = self.objects.get(key)
            if known is new:
                continue
            if known is not None and known.metadata.uid == new.metadata.uid:
                self.apply_nowait(Updated(known, new, may_go_back=self.may_go_back))
                continue
            if known is not None:
                self.apply_nowait(Deleted(known, final_state_unknown=True))
            self.apply_nowait(Added(new))

    def bookmark_nowait(self, resource_version: str) -> None:
        """Ignore it."""

    def identities(self) -> dict[str, Identity]:
        """Return uid and version of each object."""
        metas = {key: obj.metadata for key, obj in self.objects.items()}
        return {key: (meta.uid, int(meta.resource_version)) for key, meta in metas.items()}


@dataclass
class World:
    """A server, an adversary and a client; each action takes one number that says how."""

    server: Server = field(default_factory=Server)
    sink: CheckingSink = field(default_factory=CheckingSink)
    guard: Guard = field(default_factory=Guard)
    """Of a resource that expires: else the first batch of all could be cut unnoticed."""

    def __post_init__(self) -> None:
        self.codec = codec()
        self.follower = EventApplier(self.codec, self.guard, self.sink, selective=True)
        self.cursor = 0
        self.lines = 0
        """How much has arrived: events, bookmarks and items of lists."""
        self.requests = 0
        self.is_rewound = False
        """The history was replaced, and the client has not had the chance to find out."""
        self.is_quiet = False
        self.restores = 0
        self.may_differ = False
        """A rewind was healed without a proof: one version may stand for two contents."""
        self._lag = -1
        self._suspect = 0
        self._highest = 0
        self._epoch = 0
        self.load(as_watch_list=False)

    def run(self, script: Iterable[tuple[str, int]]) -> None:
        """Perform a script, then let an honest server have the last word."""
        for action, number in script:
            ACTIONS[action](self, number)
            self.check()
        self.settle(0)

    # What happens on the server.

    def write(self, number: int) -> None:
        """Write, most times into the selection."""
        self.server.write(NAMES[number % 7], is_selected=number % 5 != 0)

    def delete(self, number: int) -> None:
        """Delete an object."""
        self.server.delete(NAMES[number % 7])

    def recreate(self, number: int) -> None:
        """Delete an object and create another under its name."""
        self.server.delete(NAMES[number % 7])
        self.server.write(NAMES[number % 7], is_selected=True)

    def expire(self, number: int) -> None:
        """Delete several objects in one revision."""
        self.server.expire(name for i, name in enumerate(NAMES) if number >> i & 1)

    def compact(self, number: int) -> None:
        """Forget the history up to some revision: watches from before it are gone."""
        self.server.compacted = max(self.server.compacted, self.server.revision - number % 20)

    def restore(self, number: int) -> None:
        """Restore a backup, write more or less of a new history, and restart the server.

        One out of five times the connection seems to end properly, so no proof is requested.
        """
        server = self.server
        self.is_quiet = number % 5 == 0
        self.may_differ = self.may_differ or self.is_quiet
        server.restore(max(1, server.revision - 1 - number % 40), bump=number % 4 == 0)
        for step in range(number // 40 % 60):
            self.write(number // 7 + step * 3)
        self.sink.newest.clear()
        self.is_rewound = True
        self.restores += 1
        self.cut(int(self.is_quiet))

    # What the adversary lets through.

    def deliver(self, number: int) -> None:
        """Let some events arrive."""
        self._deliver(1 + number % 30)

    def deliver_old_deletes(self, number: int) -> None:
        """Let some events arrive, deletions with the version of the last update."""
        self._deliver(1 + number % 30, old_version=True)

    def duplicate(self, number: int) -> None:
        """Let an event arrive again."""
        if self.cursor:
            at = max(0, self.cursor - 1 - number % 3)
            self._feed(self.server.log[at].line(old_version=number % 2 == 0))

    def haunt(self, number: int) -> None:
        """Repeat any earlier event, such as one of an object whose deletion a list has shown."""
        if self.cursor:
            self._feed(self.server.log[number % self.cursor].line())

    def replay(self, number: int) -> None:
        """Continue from any earlier place, on the same connection."""
        self.cursor = number % (self.cursor + 1)

    def replay_lately(self, number: int) -> None:
        """Continue from a little earlier, on the same connection."""
        self.cursor = max(0, self.cursor - number % 8)

    def bookmark(self, number: int) -> None:
        """Send a bookmark; one out of seven is from the past."""
        if self.cursor == len(self.server.log):
            back = 0 if number % 7 else number % 50
            self._feed(bookmark(str(max(1, self.server.revision - back))))

    def cut(self, number: int) -> None:
        """Lose the connection; every other time properly."""
        if number % 2 == 0:
            self.prove()
        self.connect()

    def lag(self, number: int) -> None:
        """Let the next answer of a list come from a peer that is behind."""
        self._lag = max(1, self.server.revision - number % 30)

    def expired(self, number: int) -> None:
        """Say 410, whether it is true or not."""
        self.load(as_watch_list=number % 2 == 0)

    def too_large(self, number: int) -> None:
        """Say that the position is in the future, so often that the client gives up on it."""
        del number
        self.prove()
        self.load(as_watch_list=False)

    def settle(self, number: int) -> None:
        """Reconnect to an honest server, read all it has, and compare."""
        del number
        self._lag = -1
        self.requests = 0
        self.is_quiet = False
        self.connect()
        while self.cursor < len(self.server.log):
            self._deliver(len(self.server.log))
        held = self.sink.identities()
        existing = self.server.selected(self.server.revision)
        assert held == {name: (one.uid, one.revision) for name, one in existing.items()}
        if not self.may_differ:
            written = {key: obj.at("spec.nodeName", str) for key, obj in self.sink.objects.items()}
            assert written == {name: str(one.written) for name, one in existing.items()}
        assert self.requests <= _MAX_REQUESTS, self.requests

    # What the client does.

    def _deliver(self, count: int, *, old_version: bool = False) -> None:
        log = self.server.log
        for change in log[self.cursor : self.cursor + count]:
            self.cursor += 1
            if not self._feed(change.line(old_version=old_version)):
                return

    def _feed(self, data: bytes) -> bool:
        """Let a line arrive; return whether the connection continues."""
        self.lines += 1
        try:
            self.follower.on_line(data, 0, len(data))
        except StreamBroken as broken:
            self._on_broken(broken)
            return False
        return True

    def _on_broken(self, broken: StreamBroken) -> None:
        assert broken.breach in {Breach.SUSPECT, Breach.BOOKMARK}, broken
        settled = True
        if broken.verify:
            settled = self._verify(broken.verify)
        if broken.breach is Breach.BOOKMARK or not settled:
            self.prove()
        self._suspect += broken.breach is Breach.SUSPECT
        if self._suspect >= _SUSPECT_CONNECTIONS:
            self.load(as_watch_list=self.lines % 2 == 0)
        else:
            self.connect()

    def _verify(self, name: str) -> bool:
        self.requests += 1
        read_at = self._answering()
        state = self.server.at(name, read_at)
        found = None
        if state.is_selected:
            body = state.body(name)
            found = self.codec.decode(body, 0, len(body))
        return self.follower.on_verified(name, found, str(read_at))

    def _answering(self) -> int:
        """Return the revision at which the next list is answered; a peer lags once at most."""
        lag, self._lag = self._lag, -1
        return min(lag, self.server.revision) if lag > 0 else self.server.revision

    def connect(self) -> None:
        """Open a watch where the guard says; there may be nothing left of that."""
        self.requests += 1
        if self.is_rewound and not self.is_quiet:
            self.is_rewound = False
            self.prove()
            self._audit()
        resume = int(self.guard.resume_position)
        if resume < self.server.compacted:
            self.load(as_watch_list=self.lines % 2 == 0)
            return
        self.guard.connected()
        self.cursor = self.server.index_after(resume)

    def prove(self) -> None:
        """Prove that the history is still the same: a probe, then the samples."""
        self.requests += 1
        if not int(self.guard.position) <= self.server.revision or not self._samples_agree():
            self.load(as_watch_list=False, broken=True)

    def _samples_agree(self) -> bool:
        complete = int(self.guard.resume_position)
        if complete < self.server.compacted:
            return True  # it cannot be asked
        cached = [(v, key, uid) for key, (uid, v) in self.sink.identities().items()]
        position = int(self.guard.position)
        version, key, uid = max((one for one in cached if one[0] <= position), default=(0, "", ""))
        if key:
            state = self.server.at(key, max(complete, version))
            if (state.uid, state.revision, state.is_selected) != (uid, version, True):
                return False
        buried = self.guard.newest_tombstone()
        if buried is None:
            return True
        state = self.server.at(buried[0], max(complete, int(buried[2])))
        return not (state.is_selected and state.uid == buried[1])

    def _audit(self) -> None:
        """Compare all at the position; nothing else finds a history that looks the same."""
        self.requests += 1
        complete = int(self.guard.resume_position)
        epoch = self.guard.epoch
        shown = self.server.selected(complete)
        states = {name: (one.uid, one.revision) for name, one in shown.items()}
        if self.sink.identities() != states or complete < self.server.compacted:
            self.load(as_watch_list=False)
        self.may_differ = self.may_differ or self.guard.epoch == epoch == self._epoch

    def load(self, *, as_watch_list: bool, broken: bool = False) -> None:
        """List everything, as the reflector does; what contradicts itself is listed again."""
        self.requests += 1
        self._suspect = 0
        self._lag = -1 if broken else self._lag  # a lagging peer proves no break
        read_at = self._answering()
        snapshot = Snapshot(self.codec, self.sink, self.guard, distrust=broken)
        for name, state in self.server.selected(read_at).items():
            self.lines += 1
            body = state.body(name)
            if as_watch_list:
                line = LINE % (b"ADDED", body)
                snapshot.on_line(line, 0, len(line))
            else:
                snapshot.on_item(body, 0, len(body))
        version = str(read_at)
        try:
            objects = snapshot.complete(version)
        except ListInconsistentError:
            self.load(as_watch_list=False, broken=broken)
            return
        if self.guard.is_behind(version) and not broken:
            self.prove()  # it loads if the history is broken; if it lags, the next list is better
            if self.guard.is_behind(version):
                self.load(as_watch_list=False)
            return
        rewound = snapshot.rewound
        self.sink.may_go_back = self.guard.begin_load(version, rewound=rewound, broken=broken)
        for _ in self.sink.replace_nowait(objects, version):
            pass
        assert self.guard.loaded(version, rewound=rewound, broken=broken) == self.sink.may_go_back
        self.sink.may_go_back = False
        self.guard.connected()
        self.cursor = self.server.index_after(read_at)

    # What always holds.

    def check(self) -> None:
        """Check what is true after each action."""
        guard = self.guard
        position = int(guard.position)
        if guard.epoch != self._epoch:
            assert self.restores, "a new epoch without a restore"
            self._epoch, self._highest = guard.epoch, 0
        assert position >= self._highest, "the position went back within an epoch"
        assert int(guard.resume_position) <= position
        assert int(guard.resume_position) <= position
        assert self.restores or position <= self.server.revision, "the position was never sent"
        self._highest = position


_ACTIONS: tuple[Callable[[World, int], None], ...] = (
    World.write,
    World.delete,
    World.recreate,
    World.expire,
    World.compact,
    World.restore,
    World.deliver,
    World.deliver_old_deletes,
    World.duplicate,
    World.haunt,
    World.replay,
    World.replay_lately,
    World.bookmark,
    World.cut,
    World.lag,
    World.expired,
    World.too_large,
    World.settle,
)
ACTIONS = {action.__name__: action for action in _ACTIONS}
