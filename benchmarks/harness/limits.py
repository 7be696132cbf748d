"""A bound on the memory of a process, as a pod has one: a cgroup of its own.

The kernel enforces the bound, which includes the file cache and the sockets. If no cgroup can be
made, nothing is bounded, and `why` has the reason. A cgroup is removed after its block.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A cgroup with a bound."""

    folder: Path | None
    why: str = ""
    """Why there is none; empty where there is."""
    peak_file: str = ""

    @property
    def prefix(self) -> list[str]:
        """The command that puts into the cgroup what follows it."""
        if self.folder is None:
            return []
        return [sys.executable, "-m", "benchmarks.harness.limits", str(self.folder)]

    def peak_bytes(self) -> int | None:
        """Return the most that was charged to the cgroup, the file cache included."""
        if self.folder is None:
            return None
        try:
            return int((self.folder / self.peak_file).read_text(encoding="ascii"))
        except OSError:  # an old kernel counts no peak
            return None


@contextlib.contextmanager
def memory_limit(limit_bytes: int, *, cgroups: Path = _CGROUPS) -> Iterator[MemoryLimit]:
    """Make a cgroup whose processes together have so much memory, and no swap.

    Args:
        limit_bytes: how much.
        cgroups: where the kernel shows them.
    """
    parent, wanted, peak_file = _version(cgroups)
    folder = parent / f"pyinformer-benchmark-{os.getpid()}"
    try:
        folder.mkdir()
        for name, value in wanted.items():
            if (folder / name).exists():
                (folder / name).write_text(value.format(limit_bytes), encoding="ascii")
        if not (folder / next(iter(wanted))).exists():
            raise OSError("the memory controller is not enabled for it")
    except OSError as error:
        _remove(folder)
        yield MemoryLimit(None, f"no cgroup can be made: {error}")
        return
    try:
        yield MemoryLimit(folder, peak_file=peak_file)
    finally:
        _remove(folder)


def _version(cgroups: Path) -> tuple[Path, dict[str, str], str]:
    """Return where cgroups are made, which files bound one, and which has the peak."""
    if (cgroups / "memory").is_dir():
        bound = {"memory.limit_in_bytes": "{}", "memory.memsw.limit_in_bytes": "{}"}
        return cgroups / "memory", bound, "memory.max_usage_in_bytes"
    return cgroups, {"memory.max": "{}", "memory.swap.max": "0"}, "memory.peak"


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def main() -> None:
    """Enter the cgroup that the first argument names, and become the program behind it."""
    folder, *command = sys.argv[1:]
    Path(folder, "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    os.execvp(command[0], command)  # noqa: S606  (without a shell, which is what is wanted)


if __name__ == "__main__":
    main()
