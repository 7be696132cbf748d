"""Made-up runs: a store, and an informer that follows it, with all that a recorder would write.

The informer is right. When the test calls it, it applies what it has not seen yet, one change after
the other or all at once like a list, and claims only what is so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from pyinformer.testing.histories import (
    FollowedRecord,
    HandledRecord,
    ReadRecord,
    ReconciledRecord,
    ReconcilingRecord,
    Record,
    ResourcesRecord,
    RestedRecord,
    RestoredRecord,
    RunRecord,
    SampledRecord,
    TruthRecord,
    Version,
    WaitedRecord,
    WaitingRecord,
)

RESOURCE = "configmaps"
CACHE, HANDLER, READER, CONTROLLER = "cache", "handler", "reader", "controller"
COMMAND = "make chaos SEED=5"


@dataclass
class Run:
    """One run; each method is a step, and time passes only by `wait`."""

    label_selector: str = ""
    records: list[Record] = field(default_factory=list)
    now: float = 0.0
    live: dict[str, TruthRecord] = field(default_factory=dict)
    cached: dict[str, TruthRecord] = field(default_factory=dict)
    pending: list[TruthRecord] = field(default_factory=list)
    epoch: int = 0
    revision: int = 0
    position: int = 0
    uids: int = 0
    numbers: int = 0
    _sampled: dict[str, Version] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.add(RunRecord(command=COMMAND, seed="5"))
        self.add(ResourcesRecord(when="baseline", tasks=["main"], sockets=2, rss_bytes=1 << 20))
        for who in (CACHE, HANDLER, READER, CONTROLLER):
            self.add(
                FollowedRecord(
                    who=who,
                    resource=RESOURCE,
                    namespaces=["a"],
                    label_selector=self.label_selector,
                    role=who,  # type: ignore[arg-type]  # the names are those of the roles
                    cache="" if who == CACHE else CACHE,
                )
            )

    def add(self, record: Record) -> Record:
        """Append a record at this moment."""
        stamped = msgspec.structs.replace(record, at_seconds=self.now)
        self.records.append(stamped)
        return stamped

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    # The store.

    def put(self, name: str, **labels: str) -> TruthRecord:
        """Create or update an object."""
        key = f"a/{name}"
        self.revision += 1
        if key not in self.live:
            self.uids += 1
        uid = self.live[key].uid if key in self.live else f"uid-{self.uids}"
        return self._commit(
            TruthRecord(
                at_seconds=self.now,
                revision=self.revision,
                resource=RESOURCE,
                key=key,
                uid=uid,
                labels=labels,
                digest=f"content-{self.revision}",
            )
        )

    def delete(self, name: str) -> TruthRecord:
        """Delete an object, if it lives."""
        key = f"a/{name}"
        self.revision += 1
        uid = self.live[key].uid
        return self._commit(
            TruthRecord(
                at_seconds=self.now,
                revision=self.revision,
                resource=RESOURCE,
                key=key,
                uid=uid,
                verb="delete",
            )
        )

    def _commit(self, record: TruthRecord) -> TruthRecord:
        self.records.append(record)
        if record.verb == "put":
            self.live[record.key] = record
        else:
            del self.live[record.key]
        self.pending.append(record)
        return record

    def restore(self, saved: dict[str, TruthRecord], revision: int) -> None:
        """Put the store back to what it was at a revision; the informer does not know yet."""
        self.add(RestoredRecord(revision=revision, puts=len(saved)))
        self.live, self.revision, self.pending = dict(saved), revision, []
        for record in saved.values():
            self.add(record)

    # The informer.

    def selects(self, record: TruthRecord) -> bool:
        """Return whether the informer selects a state."""
        name, _, value = self.label_selector.partition("=")
        return not name or record.labels.get(name) == value

    def watch(self, count: int = 1) -> None:
        """Apply the oldest changes."""
        for _ in range(min(count, len(self.pending))):
            record = self.pending.pop(0)
            self.position = record.revision
            self._apply(record)

    def relist(self) -> None:
        """Replace the cache by what the store has."""
        self.pending.clear()
        self.position = self.revision
        for key in [*self.cached]:
            if key not in self.live or self.live[key].uid != self.cached[key].uid:
                self.gone(key, self.cached[key].revision)
        for record in self.live.values():
            if self.cached.get(record.key) is not record:
                self._apply(record)

    def notice_restore(self) -> None:
        """Begin a new epoch, by a list."""
        self.epoch += 1
        self.relist()

    def _apply(self, record: TruthRecord) -> None:
        known = self.cached.get(record.key)
        if record.verb == "delete" or not self.selects(record):
            if known is not None:
                self.gone(record.key, record.revision)
            return
        if known is None:
            self.handled("add", record)
        else:
            self.handled("update", record, known)
        self.cached[record.key] = record
        self.reconcile(record.key)

    def gone(self, key: str, revision: int) -> None:
        """Let the cache lose an object, and a handler get its deletion."""
        known = self.cached.pop(key)
        self.add(
            HandledRecord(
                who=HANDLER,
                event="delete",
                key=key,
                uid=known.uid,
                resource_version=str(revision),
                epoch=self.epoch,
            )
        )
        self.reconcile(key)

    def handled(self, event: str, new: TruthRecord, old: TruthRecord | None = None) -> None:
        """Let a handler get an object."""
        self.add(
            HandledRecord(
                who=HANDLER,
                event=event,  # type: ignore[arg-type]  # add or update
                key=new.key,
                uid=new.uid,
                resource_version=str(new.revision),
                old_uid=old.uid if old else "",
                old_version=str(old.revision) if old else "",
                epoch=self.epoch,
            )
        )

    def reconcile(self, key: str) -> None:
        """Reconcile an object."""
        self.numbers += 1
        known = self.cached.get(key)
        self.add(
            ReconcilingRecord(
                who=CONTROLLER,
                number=self.numbers,
                key=key,
                uid=known.uid if known else "",
                resource_version=str(known.revision) if known else "",
            )
        )
        self.add(ReconciledRecord(number=self.numbers, how="done"))

    def age(self) -> float:
        """Return how old the cache is, at least."""
        return self.now - self.pending[0].at_seconds if self.pending else 0.0

    def read(self, name: str) -> None:
        """Read an object, promised to be as young as it is."""
        known = self.cached.get(f"a/{name}")
        self.add(
            ReadRecord(
                who=READER,
                key=f"a/{name}",
                uid=known.uid if known else "",
                resource_version=str(known.revision) if known else "",
                epoch=self.epoch,
                max_age_seconds=self.age(),
            )
        )

    def sample(self) -> SampledRecord:
        """Sample the cache."""
        now = {key: _version(record) for key, record in self.cached.items()}
        changed: dict[str, Version | None] = {
            key: version for key, version in now.items() if self._sampled.get(key) != version
        }
        changed |= dict.fromkeys(self._sampled.keys() - now.keys())
        self._sampled = now
        record = SampledRecord(
            who=CACHE,
            state="watching",
            position=str(self.position),
            epoch=self.epoch,
            ages={"age": self.age()},
            changed=changed,
        )
        self.add(record)
        return record

    def wait_for(self, name: str) -> None:
        """Wait for something, which happens at once."""
        self.numbers += 1
        self.add(WaitingRecord(number=self.numbers, name=name))
        self.add(WaitedRecord(number=self.numbers, how="done"))

    def rest(self) -> list[Record]:
        """Apply everything, and record all views; return the whole history."""
        self.watch(len(self.pending))
        self.wait(1.0)
        self.sample()
        shown = {key: _version(one, one.digest) for key, one in self.cached.items()}
        for who, what in (
            (CACHE, "cache"),
            (CACHE, "lister"),
            (CACHE, "index:tier"),
            (HANDLER, "mirror"),
        ):
            position = str(self.position) if what == "cache" else ""
            self.add(RestedRecord(who=who, what=what, objects=shown, position=position))
        self.add(ResourcesRecord(when="rest", tasks=["main"], sockets=2, rss_bytes=2 << 20))
        return self.records


def _version(record: TruthRecord, digest: str = "") -> Version:
    return Version(record.uid, str(record.revision), digest)


def usual_run() -> Run:
    """Return a run in which objects come, change, go and come again, not at rest yet."""
    run = Run()
    run.put("x")
    run.put("y")
    run.relist()
    run.sample()
    run.wait(1.0)
    run.put("x")
    run.watch()
    run.read("x")
    run.wait_for("a write")
    run.wait(1.0)
    run.delete("y")
    run.watch()
    run.sample()
    run.put("y")
    run.watch()
    run.wait(1.0)
    run.sample()
    return run
