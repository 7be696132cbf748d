"""The stopwatch a peer carries through its two phases: initial sync, then updates.

Garbage is collected and memory read outside the timed spans; the heartbeats that find the longest
block of the loop run during the sync only, so that updates do not pay for it.
"""

from __future__ import annotations

import asyncio
import gc
import http.client
import ssl
import time
from collections.abc import Callable
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from benchmarks.harness.processes import cpu_seconds, peak_rss_bytes, rss_bytes

_HEARTBEAT_SECONDS = 0.001
_CONTROL_SECONDS = 180.0


class Workload(msgspec.Struct, frozen=True):
    """What the server holds, and where."""

    url: str
    objects: int
    updates: int
    last_resource_version: str
    """Of the last update; a peer that saw it has seen everything."""
    api_version: str = "v1"
    resource: str = "pods"
    kind: str = "Pod"
    ca_file: str = ""
    """PEM file with the authority of a server that speaks TLS; empty for plain HTTP."""
    token: str = ""
    """Bearer token; empty for none."""
    handler: str = "metadata"
    """What a peer's own code does with each update: `metadata` (reads a name and, through a
    projection where there is one, a status field), `object` (decodes the whole object, privately
    where the peer can), `queue` (puts the key into a work queue)."""
    handlers: int = 1
    """How many of them there are."""
    indexes: int = 1
    """1: by namespace only; 2: by `spec.nodeName` as well, through a view where there is one."""
    updates_per_second: float = 0.0
    """The rate at which the server sends them; 0: as fast as the peer reads them."""
    load: str = "default"
    """How the initial state is asked for: `default`, `list` or `watch-list`; a peer that has no
    choice ignores it."""
    work: str = "follow"
    """What is measured: `follow` (sync, then updates), `relist` (sync, then everything is listed
    again, unchanged, then updates), `reads` (of a cache that has synced), `starts` (of 1, 10 and
    50 informers), `rest` (of 40 that have synced), `audits`, `metrics` (of queues, reconciles and
    scrapes, then updates)."""
    rest_seconds: float = 0.0
    """How long `rest` is measured."""
    control_url: str = ""
    """Who lets the updates begin, without TLS; empty where it is the server itself."""


class Measurement(msgspec.Struct):
    """One peer's figures of one round; None is a figure this run did not produce."""

    peer: str
    error: str | None = None
    """Why the peer failed; its other figures are then not to be used."""
    objects: int = 0
    sync_wall_seconds: float | None = None
    sync_cpu_seconds: float | None = None
    longest_block_seconds: float | None = None
    longest_gc_pause_seconds: float | None = None
    """Of the peer's own collector, over the whole run."""
    longest_step_seconds: float | None = None
    """The same in CPU time of the loop's own thread."""
    rss_before_bytes: int | None = None
    rss_after_bytes: int | None = None
    peak_rss_bytes: int | None = None
    tracked_before: int | None = None
    tracked_after: int | None = None
    updates: int = 0
    """Update events that the server sent."""
    updates_seen: int | None = None
    """Those that reached the peer's own code; a handler may get several merged into one."""
    update_wall_seconds: float | None = None
    update_cpu_seconds: float | None = None
    extra: dict[str, float] = {}
    """Figures only this peer has, by name."""


class Peer(Protocol):
    """A program to be measured: fills a cache from the server and keeps it up to date."""

    async def __call__(self, phases: Phases) -> None:
        """Run through both phases, and report each to `phases`."""


class Phases:
    """Measure one peer in this process."""

    def __init__(self, peer: str, workload: Workload) -> None:
        self.workload = workload
        self.result = Measurement(peer=peer)
        self._heartbeat = Heartbeat()
        self._own_heartbeat = Heartbeat(time.thread_time)
        self._pauses = Pauses()
        self._wall = self._cpu = 0.0

    def begin(self) -> None:
        """Start the sync's clock; to be called when all is imported and no request was made."""
        gc.collect()
        self._pauses.start()
        self.result.rss_before_bytes = rss_bytes()
        self.result.tracked_before = len(gc.get_objects())
        self._heartbeat.start()
        self._own_heartbeat.start()
        self._start_clocks()

    def synced(self, objects: int) -> None:
        """Stop the sync's clock and weigh the cache, which now holds `objects`."""
        self.result.sync_wall_seconds, self.result.sync_cpu_seconds = self._read_clocks()
        self.result.longest_block_seconds = self._heartbeat.stop()
        self.result.longest_step_seconds = self._own_heartbeat.stop()
        self.result.objects = objects
        self.result.peak_rss_bytes = peak_rss_bytes()
        self._pauses.stop()
        gc.collect()
        self._pauses.start()
        self.result.rss_after_bytes = rss_bytes()
        self.result.tracked_after = len(gc.get_objects())

    async def release_updates(self) -> None:
        """Start the updates' clock and let the server send, once it has a watch of ours.

        Cancellation:
            The server may or may not have begun to send.
        """
        control = Control(self.workload)
        await asyncio.to_thread(control.post, "/benchmark/wait-for-watch")
        self._start_clocks()
        control.post("/benchmark/release")

    def updated(self, *, seen: int) -> None:
        """Stop the updates' clock; `seen` updates reached the peer's own code."""
        self.result.update_wall_seconds, self.result.update_cpu_seconds = self._read_clocks()
        self.result.updates = self.workload.updates
        self.result.updates_seen = seen

    def finished(self) -> Measurement:
        """Close the record."""
        self._pauses.stop()
        if self.result.longest_gc_pause_seconds is None:  # else of a collector that is not ours
            self.result.longest_gc_pause_seconds = self._pauses.longest
        peaks = (self.result.peak_rss_bytes, peak_rss_bytes())  # a relist begins a peak of its own
        self.result.peak_rss_bytes = max((peak for peak in peaks if peak is not None), default=None)
        return self.result

    def _start_clocks(self) -> None:
        self._wall, self._cpu = time.perf_counter(), cpu_seconds()

    def _read_clocks(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, cpu_seconds() - self._cpu


class Control:
    """The blocking connection to the server, or to the process that controls it."""

    def __init__(self, workload: Workload) -> None:
        """Connect to nothing yet."""
        self._target = urlsplit(workload.control_url or workload.url)
        self._ca_file = workload.ca_file

    def get(self, path: str) -> bytes:
        """Return what the server answers."""
        return self._request("GET", path)

    def post(self, path: str) -> None:
        """Ask the server to do something, and wait until it is done."""
        self._request("POST", path)

    def _request(self, method: str, path: str) -> bytes:
        connection = self._connection()
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise RuntimeError(f"{path} answered {answer.status}")
        return body

    def _connection(self) -> http.client.HTTPConnection:
        if self._target.scheme == "https":
            context = ssl.create_default_context(cafile=self._ca_file)
            return http.client.HTTPSConnection(
                self._target.netloc, timeout=_CONTROL_SECONDS, context=context
            )
        return http.client.HTTPConnection(self._target.netloc, timeout=_CONTROL_SECONDS)


class Pauses:
    """Find the longest pause of Python's garbage collector while it is watched."""

    def __init__(self) -> None:
        """Watch nothing yet."""
        self.longest = 0.0
        self._began = 0.0

    def start(self) -> None:
        """Watch, until `stop`."""
        gc.callbacks.append(self._note)

    def stop(self) -> None:
        """Watch no longer; a second call does nothing."""
        if self._note in gc.callbacks:
            gc.callbacks.remove(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.longest = max(self.longest, time.perf_counter() - self._began)


class Heartbeat:
    """Return the longest time during which the event loop did not run the heartbeat."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        """Beat; a clock of the thread's own CPU time leaves out what others took of it."""
        self._clock = clock
        self._pause = _HEARTBEAT_SECONDS if clock is time.perf_counter else 0.0
        self._longest = self._last = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._last = self._clock()
        self._schedule()

    def stop(self) -> float:
        """Stop, and return the longest time in seconds."""
        if self._timer is not None:
            self._timer.cancel()
        self._note()
        return max(0.0, self._longest)

    def _beat(self) -> None:
        self._note()
        self._schedule()

    def _note(self) -> None:
        now = self._clock()
        self._longest = max(self._longest, now - self._last - self._pause)
        self._last = now

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_HEARTBEAT_SECONDS, self._beat)
