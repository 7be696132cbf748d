"""What the operating system knows about a process: CPU used, memory held, where it runs.

A figure that the platform does not offer is None, never 0.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_SELF = Path("/proc/self")
_SLEEPS = "voluntary_ctxt_switches:"
_PEAK = "5"  # the kernel's number for the peak in proc(5)


def pin_to_cpu(cpu: int | None) -> None:
    """Bind this process to one CPU; None, or a platform without affinity, changes nothing."""
    if cpu is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpu})


def pick_cpus() -> tuple[int | None, int | None]:
    """Choose a CPU for the client and another for the server; None, None where there is one."""
    if not hasattr(os, "sched_getaffinity"):
        return None, None
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else (None, None)


def cpu_seconds() -> float:
    """Return user plus system time of this process, all its threads, since it began.

    Not `getrusage`, whose times some kernels count in ticks of several milliseconds.
    """
    return time.process_time()


def rss_bytes() -> int | None:
    """Return the resident memory now (Linux only)."""
    return _status_bytes(_SELF, "VmRSS")


def open_descriptors() -> int | None:
    """Return how many file descriptors are open now (Linux only)."""
    folder = _SELF / "fd"
    return sum(1 for _ in folder.iterdir()) if folder.exists() else None


def peak_rss_bytes(process: Path = _SELF) -> int | None:
    """Return the largest resident memory so far of a process, a folder of /proc (Linux only).

    Not ru_maxrss: Linux hands that one down from parent to child across exec.
    """
    return _status_bytes(process, "VmHWM")


def reset_peak(process: Path = _SELF) -> bool:
    """Let `peak_rss_bytes` begin again from now; false where that cannot be done."""
    try:
        (process / "clear_refs").write_text(_PEAK, encoding="ascii")
    except OSError:
        return False
    return True


def _status_bytes(process: Path, field: str) -> int | None:
    status = process / "status"
    if not status.exists():
        return None
    for line in status.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return None


@dataclass(frozen=True, slots=True)
class ThreadUse:
    """What the threads of a process have used so far."""

    cpu_seconds: float
    sleeps: int
    """How often one of them has given up its CPU to wait for something."""

    def since(self, earlier: ThreadUse) -> ThreadUse:
        """Return what was used from an earlier moment until this one."""
        return ThreadUse(self.cpu_seconds - earlier.cpu_seconds, self.sleeps - earlier.sleeps)


def thread_use(process: Path) -> ThreadUse | None:
    """Add up what the scheduler has counted for each thread of a process (Linux only).

    In nanoseconds, unlike the ticks of `stat`. A thread that has ended is counted no longer.

    Args:
        process: its folder of /proc.

    Returns:
        None if the process has ended, or the kernel keeps no such count.
    """
    found = [_use_of(thread) for thread in process.glob("task/*")]
    known = [use for use in found if use is not None]
    if not known:
        return None
    return ThreadUse(sum(use.cpu_seconds for use in known), sum(use.sleeps for use in known))


def _use_of(thread: Path) -> ThreadUse | None:
    try:
        nanoseconds = int((thread / "schedstat").read_text(encoding="ascii").split()[0])
        status = (thread / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended meanwhile
        return None
    (sleeps,) = (line for line in status.splitlines() if line.startswith(_SLEEPS))
    return ThreadUse(nanoseconds / 1e9, int(sleeps.split()[1]))


class ServerUse:
    """What a process uses between two moments; without /proc it measures nothing.

    Args:
        pid: the process; None, for one that has ended, measures nothing.
    """

    def __init__(self, pid: int | None) -> None:
        process = Path(f"/proc/{pid}")
        self._process = process if process.exists() else None
        self._began = (0.0, 0)
        self._figures: dict[str, float] = {}

    def start(self) -> None:
        """Record what it has used so far; its peak of memory begins again from now.

        Raises:
            OSError: its peak cannot be reset, so it would be the one of an earlier moment.
        """
        if self._process is not None:
            if not reset_peak(self._process):
                raise OSError(f"the peak memory of {self._process} cannot be reset")
            self._began = _used(self._process)

    def stop(self) -> None:
        """Take the difference; only the first call counts."""
        if self._process is not None and not self._figures:
            cpu, peak = _used(self._process)
            self._figures = {
                "server_cpu_seconds": cpu - self._began[0],
                "server_megabytes": (peak - self._began[1]) / 1e6,
            }

    def figures(self) -> dict[str, float]:
        """Return CPU seconds, and by how many MB its memory was larger than at the start."""
        return self._figures


def _used(process: Path) -> tuple[float, int]:
    fields = (process / "stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    ticks = int(fields[11]) + int(fields[12])  # user and system time, by proc(5)
    return ticks / os.sysconf("SC_CLK_TCK"), peak_rss_bytes(process) or 0
