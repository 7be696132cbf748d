"""Replicas that share keys as processes, at a real kube-apiserver, and everything done to them.

The witness is etcd: the versions of the table and of all objects, in the order of its revisions.
Each write of a replica must fall into a time in which the table names it as the owner of the key.
Some replicas get their objects late, and none may act on an object older than another one's write.
"""

from __future__ import annotations

import base64
import json
import math
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pyinformer.sharding import bucket_of
from pyinformer.testing import Fault, FaultProxy
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyinformer.testing import KubeAPIServer

NAMESPACE = "shop"
TOKEN = "token-of-a-replica"  # of a server on loopback
_GROUP = "db-operator"
BUCKETS = 128
OBJECTS = 60
_PROGRAM, _PLANTED = "tests.sharding.replica_program", "tests.sharding.planted"
_CALM_SECONDS = 60.0  # after the last fault, until everything is done
_GONE_SECONDS = 10.0  # and then until each deletion is reconciled that a replica knows of
_LATE_EVERY = 3  # of so many replicas, one has a watch of the objects that stalls again and again
_STALL_BYTES, _CUT_BYTES = (1, 40_000), (50_000, 100_000)  # of 30 KB/s
_RELEASE_CHANCE = 0.02  # at each write: after 2 s, on the average
_END = "zz-end"
_TABLE, _MARK = b'{"format":', b'{"by": '  # how the texts begin that etcd's protobuf has


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """Those of the Leases, in whole seconds."""

    lease_duration_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_period_seconds: float = 2.0


class Version(NamedTuple):
    """One version of an object in etcd."""

    revision: int
    name: str
    is_deletion: bool
    text: dict[str, Any] | None
    """The table, or the mark of the replica that wrote it; None without one."""


class Reconcile(NamedTuple):
    """One line of a replica's log."""

    replica: str
    key: str
    began_at: float
    ended_at: float
    outcome: str
    read: int
    """The version of the object that it was called with; 0 if there was none."""
    wrote: int
    """The version that it wrote; 0 if it wrote none, or does not know."""


@dataclass(slots=True)
class Report:
    """What a run has shown."""

    violations: list[str] = field(default_factory=list)
    writes: int = 0
    tables: int = 0
    claims: int = 0
    takeovers: int = 0
    """Reconciles of a key that another replica has written before."""
    deletions: int = 0
    unknown: int = 0
    """Deletions that no replica has reconciled, since one that cannot know them had the key."""
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Replica:
    identity: str
    process: subprocess.Popen[bytes]
    is_late: bool
    """Its watch of the objects stalls. What is created and deleted meanwhile, a list may pass."""
    disturbed_at: float = math.inf
    """When it was first stopped or killed, so that its reconciles may outlast its life."""


class Lab:
    """One run.

    Args:
        api: the server, which accepts `TOKEN`.
        folder: where the replicas log.
        seed: what happens and when.
        durations: of the Leases.
        fault_seconds: for how long there are faults.
        planted: the bug of all replicas, one of `planted.BUGS`; empty for none.
        late: the resources whose watches stall, of some replicas.
    """

    def __init__(
        self,
        api: KubeAPIServer,
        folder: Path,
        *,
        seed: int,
        durations: Durations,
        fault_seconds: float,
        planted: str = "",
        late: Sequence[str] = ("configmaps",),
    ) -> None:
        self.report = Report()
        self._api, self._folder = api, folder
        self._rng = random.Random(seed)
        self._durations = durations
        self._fault_seconds = fault_seconds
        self._program = [sys.executable, "-m", *([_PLANTED, planted] if planted else [_PROGRAM])]
        self._replicas: list[_Replica] = []
        self._all: list[_Replica] = []
        self._wanted: dict[str, int] = {}
        self._deleted_at: dict[str, float] = {}
        self._tables_deleted_at: list[float] = []
        self._made = 0
        self._proxy = FaultProxy(api, reads_requests=True, seed=seed)
        for resource in late:
            fault = Fault(
                verb="watch",
                resource=resource,
                times=None,
                stall_after_bytes=_STALL_BYTES,
                cut_after_bytes=_CUT_BYTES,
            )
            self._proxy.faults.add(fault)
        self._lock = threading.RLock()  # the API server is restarted by one thread at a time
        self._is_calm = threading.Event()

    def run(self) -> Report:
        """Play the run, and judge it."""
        with self._proxy:
            self._play()
        self._judge()
        return self.report

    def _play(self) -> None:
        self._api.ensure_namespace(NAMESPACE)
        for _ in range(OBJECTS):
            self._make()
        writer = threading.Thread(target=self._write)
        try:
            self._resize(2)
            writer.start()
            self._disturb(self._fault_seconds / 3)
            self._resize(6)
            self._disturb(self._fault_seconds / 3)
            self._resize(3)
            self._disturb(self._fault_seconds / 3)
            self._is_calm.set()
            writer.join()
            self._proxy.heal_requests()
            is_done = poll(self._is_done, timeout_seconds=_CALM_SECONDS, interval_seconds=0.5)
            if not is_done:
                self.report.violations.append(f"not done: {self._undone()}")
            poll(lambda: not self._forgotten(), timeout_seconds=_GONE_SECONDS, interval_seconds=0.5)
        finally:
            self._is_calm.set()
            if writer.is_alive():
                writer.join()
            for one in self._all:
                one.process.kill()
                one.process.wait()

    def _make(self) -> None:
        self._made += 1
        name = f"m{self._made}"
        self._request("POST", "configmaps", {"metadata": {"name": name}, "data": {"wanted": "0"}})
        self._wanted[name] = 0

    def _write(self) -> None:
        """Change, delete and create objects until it is calm."""
        rng = random.Random(self._rng.random())
        while not self._is_calm.wait(0.04):
            if rng.random() < _RELEASE_CHANCE:
                self._proxy.faults.release()
            name = rng.choice(list(self._wanted))
            if rng.random() < 0.1:
                self._request("DELETE", f"configmaps/{name}", None)
                del self._wanted[name]
                self._deleted_at[f"{NAMESPACE}/{name}"] = time.monotonic()
                self._make()
                continue
            self._wanted[name] += 1
            body = {"data": {"wanted": str(self._wanted[name])}}
            self._request("PATCH", f"configmaps/{name}", body)

    def _request(self, method: str, path: str, body: dict[str, Any] | None) -> Any:
        path = f"/api/v1/namespaces/{NAMESPACE}/{path}"
        with self._lock:
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            return self._api.request(method, path, body=body, content_type=kind)

    def _disturb(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        faults = (self._stop, self._stop, self._kill, self._kill, self._end, self._restart_server)
        while (left := until - time.monotonic()) > 0:
            self._is_calm.wait(min(left, self._rng.uniform(1, 5)))
            self._rng.choice((*faults, self._delete_lease))()
        for one in self._replicas:
            one.process.send_signal(signal.SIGCONT)

    def _stop(self) -> None:
        """Stop a replica for a while: perhaps for longer than its Lease lasts."""
        one = self._rng.choice(self._replicas)
        one.disturbed_at = min(one.disturbed_at, time.monotonic())
        seconds = self._rng.uniform(0.3, 1.5) * self._durations.lease_duration_seconds
        one.process.send_signal(signal.SIGSTOP)
        self._note(f"stop {one.identity} for {seconds:.1f} s")
        timer = threading.Timer(seconds, one.process.send_signal, (signal.SIGCONT,))
        timer.daemon = True
        timer.start()

    def _kill(self) -> None:
        one = self._rng.choice(self._replicas)
        one.disturbed_at = min(one.disturbed_at, time.monotonic())
        self._note(f"kill {one.identity}")
        one.process.kill()
        one.process.wait()
        self._replicas.remove(one)
        self._start()

    def _end(self) -> None:
        one = self._rng.choice(self._replicas)
        self._note(f"end {one.identity}")
        one.process.send_signal(signal.SIGCONT)
        one.process.terminate()
        self._replicas.remove(one)
        self._start()

    def _restart_server(self) -> None:
        with self._lock:
            self._note("restart the server")
            self._api.kill()
            self._is_calm.wait(self._rng.uniform(0, 3))
            self._api.restart()

    def _delete_lease(self) -> None:
        """Delete the table, or the Lease of a replica."""
        with self._lock:
            path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
            leases = [one["metadata"]["name"] for one in self._api.request("GET", path)["items"]]
            if leases:
                name = self._rng.choice(leases)
                self._note(f"delete the Lease {name}")
                if name == _GROUP:
                    self._tables_deleted_at.append(time.monotonic())
                self._api.request("DELETE", f"{path}/{name}")

    def _note(self, what: str) -> None:
        self.report.faults.append(f"{time.monotonic():.1f}: {what}")

    def _resize(self, count: int) -> None:
        while len(self._replicas) < count:
            self._start()
        while len(self._replicas) > count:
            self._note(f"end {self._replicas[0].identity}")
            self._replicas.pop(0).process.terminate()

    def _start(self) -> None:
        identity = f"r{len(self._all) + 1}"
        is_late = (len(self._all) + 1) % _LATE_EVERY == 0
        server = self._proxy if is_late else self._api
        settings = {
            "url": server.url,
            "ca_file": str(server.ca_file),
            "token": TOKEN,
            "namespace": NAMESPACE,
            "identity": identity,
            "drain_seconds": 4.0,
            "durations": asdict(self._durations),
            "log": str(self._folder / f"{identity}.log"),
        }
        errors = (self._folder / f"{identity}.err").open("wb")
        process = subprocess.Popen([*self._program, json.dumps(settings)], stderr=errors)
        errors.close()
        replica = _Replica(identity, process, is_late)
        self._note(f"start {identity}")
        self._all.append(replica)
        self._replicas.append(replica)

    def _undone(self) -> list[str]:
        return [
            name
            for name, wanted in self._wanted.items()
            if json.loads(
                self._request("GET", f"configmaps/{name}", None)["data"].get("mark", "{}")
            ).get("done")
            != str(wanted)
        ]

    def _is_done(self) -> bool:
        return not self._undone()

    def _judge(self) -> None:
        """Find writes of replicas that the table did not name as owners."""
        owners: list[str] = [""] * BUCKETS
        marks: dict[str, dict[str, Any]] = {}
        handlers: dict[str, set[str]] = {}  # of deleted objects, the owners since then
        for one in self._versions():
            if one.name == _GROUP:
                before, owners = owners, _owners(one.text)
                self.report.tables += 1
                for key, its in handlers.items():
                    its.add(owners[bucket_of(key, "", buckets=BUCKETS)])
                self.report.claims += sum(
                    bool(new) and new != old for old, new in zip(before, owners, strict=True)
                )
            elif one.is_deletion:
                key = f"{NAMESPACE}/{one.name}"
                handlers[key] = {owners[bucket_of(key, "", buckets=BUCKETS)]}
            elif one.text is not None and one.text != marks.get(one.name):
                marks[one.name] = one.text
                self.report.writes += 1
                key = f"{NAMESPACE}/{one.name}"
                owner = owners[bucket_of(key, "", buckets=BUCKETS)]
                if owner not in {"", f"{_GROUP}.{one.text['by']}"}:
                    text = f"revision {one.revision}: {one.text} of {key}, which {owner} has"
                    self.report.violations.append(text)
        self._judge_reconciles()
        self._judge_versions()
        self._judge_deletions(handlers)

    def _judge_deletions(self, handlers: dict[str, set[str]]) -> None:
        """Find deletions that were not reconciled, though all owners since then had seen them.

        A replica that has started later cannot know them, nor one that was late for both events.
        """
        late = {one.identity for one in self._all if one.is_late}
        ready_at = {
            f"{_GROUP}.{one.replica}": one.began_at
            for one in self._reconciles()
            if one.outcome == "ready" and one.replica not in late
        }
        self.report.deletions = len(handlers)
        for key in self._forgotten():
            at, its = self._deleted_at[key], handlers.get(key, set()) - {""}
            if all(ready_at.get(owner, math.inf) < at for owner in its):
                self.report.violations.append(f"{key}, deleted at {at:.1f}, forgotten by {its}")
            else:
                self.report.unknown += 1

    def _judge_reconciles(self) -> None:
        """Find reconciles of one key at the same time in two replicas that were not disturbed.

        What a deletion of the table has cancelled may still be ending, and writes nothing.
        """
        calm = {one.identity for one in self._all if one.disturbed_at == math.inf}
        by_key: dict[str, list[Reconcile]] = {}
        for one in self._reconciles():
            by_key.setdefault(one.key, []).append(one)
        for found in by_key.values():
            found.sort(key=lambda one: one.began_at)
            for before, after in pairwise(found):
                is_calm = {before.replica, after.replica} <= calm and not any(
                    before.began_at - 1.0 < at < before.ended_at for at in self._tables_deleted_at
                )
                if is_calm and before.replica != after.replica and after.began_at < before.ended_at:
                    self.report.violations.append(f"at the same time: {before}, {after}")

    def _judge_versions(self) -> None:
        """Find reconciles with an object that is older than what another replica wrote before.

        One that was stopped may have had the object for long when its function began.
        """
        calm_until = {one.identity: one.disturbed_at for one in self._all}
        done: dict[str, list[Reconcile]] = {}
        found = sorted(self._reconciles(), key=lambda one: one.began_at)
        for one in found:
            if one.wrote:
                done.setdefault(one.key, []).append(one)
        for one in found:
            before = [
                other
                for other in done.get(one.key, ())
                if other.replica != one.replica and other.ended_at < one.began_at
            ]
            if before and one.read and one.began_at < calm_until[one.replica]:
                self.report.takeovers += 1
                last = max(before, key=lambda other: other.wrote)
                if one.read < last.wrote:
                    self.report.violations.append(f"too old: {one}, after {last}")

    def _forgotten(self) -> list[str]:
        gone = {one.key for one in self._reconciles() if one.outcome == "gone"}
        return sorted(self._deleted_at.keys() - gone)

    def _reconciles(self) -> Iterator[Reconcile]:
        for one in self._all:
            log = self._folder / f"{one.identity}.log"
            for line in log.read_text(encoding="utf-8").splitlines() if log.exists() else ():
                if line.endswith("]"):  # of a process that was killed the last may be cut
                    yield Reconcile(one.identity, *json.loads(line))

    def _versions(self) -> list[Version]:
        """Return all versions of the table and of the objects, as etcd has them."""
        end = {"metadata": {"name": _END}}
        self._request("POST", "configmaps", end)
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **end}
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
        self._api.request("POST", path, body=lease)
        tables = [one for one in self._followed("leases", _TABLE) if one.name == _GROUP]
        return sorted((*tables, *self._followed("configmaps", _MARK)), key=lambda one: one.revision)

    def _followed(self, plural: str, begins: bytes) -> Iterator[Version]:
        """Yield the versions of a resource, from the first to that of the end."""
        prefix = f"/registry/{plural}/{NAMESPACE}/".encode()
        beyond = prefix[:-1] + bytes([prefix[-1] + 1])
        wanted = {
            "key": base64.b64encode(prefix).decode(),
            "range_end": base64.b64encode(beyond).decode(),
            "start_revision": "1",
        }
        body = json.dumps({"create_request": wanted}).encode()
        request = urllib.request.Request(f"{self._api.etcd_url}/v3/watch", body)  # noqa: S310
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            for line in answer:
                for event in json.loads(line)["result"].get("events", ()):
                    kept = event["kv"]
                    name = base64.b64decode(kept["key"])[len(prefix) :].decode()
                    if name == _END:
                        return
                    value = base64.b64decode(kept.get("value", ""))
                    is_deletion = event.get("type") == "DELETE"
                    text = _text_in(value, begins)
                    yield Version(int(kept["mod_revision"]), name, is_deletion, text)


def _text_in(value: bytes, begins: bytes) -> dict[str, Any] | None:
    """Return the JSON that begins so inside of a protobuf; None if it has none."""
    at = value.find(begins)
    if at < 0:
        return None
    found, _ = json.JSONDecoder().raw_decode(value[at:].decode(errors="replace"))
    return dict(found)


def _owners(table: dict[str, Any] | None) -> list[str]:
    """Return the Lease of the owner of each bucket; empty for none."""
    if table is None:
        return [""] * BUCKETS
    members = [lease for lease, _uid, _transitions in table["members"]]
    return ["" if at < 0 else members[at] for at in table["owners"]]
