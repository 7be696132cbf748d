"""The record of what was measured: sections with every round's raw figures, machine, versions.

A file is either the old record or the new one, whole. Figures of two machines never stand in one
section: its ratios are of one machine, and it names that if most of the record is of another.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from benchmarks.harness.phases import Measurement
from benchmarks.report.rows import Row

OPENING = "(opening)"
"""Among a section's seconds: what starting servers and building programs took."""

_PACKAGES = ("pyinformer", "aiohttp", "httptools", "msgspec", "kubernetes_asyncio", "anyio")
_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")
_PEERS = Path(__file__).parents[1] / "peers"
_PINNED = re.compile(r"^([A-Za-z0-9_.-]+)==(\S+)", re.MULTILINE)
_GO_MODULE = re.compile(r"^(?:require )?\s*\S+/(client-go|controller-runtime) v(\S+)", re.MULTILINE)


Machine: TypeAlias = dict[str, str | int | None]


class Section(msgspec.Struct):
    """One run: its workload, its rows, its raw figures."""

    title: str
    workload: dict[str, float | int | str]
    rows: list[Row]
    rounds: list[dict[str, Measurement]]
    name: str = ""
    """Of the run, as on the command line."""
    says: str = ""
    """What the run shows, for the page."""
    seconds: dict[str, float] = {}
    """What a turn of each peer took, mean; estimates of later runs begin with it."""
    date: str = ""
    size: str = ""
    machine: Machine = {}
    """Where it ran, if not where the record did."""


class Record(msgspec.Struct):
    """What `--json` writes."""

    date: str
    machine: Machine
    versions: dict[str, str]
    sections: list[Section]
    size: str = ""

    def put(self, section: Section) -> None:
        """Take a section in, in place of the one of the same run."""
        section.date, section.size = section.date or now(), section.size or self.size
        for index, known in enumerate(self.sections):
            if known.name == section.name:
                self.sections[index] = section
                return
        self.sections.append(section)


def make_record(sections: Sequence[Section] = (), *, size: str = "") -> Record:
    """Make a record of the sections, with the date, the machine and the versions."""
    return Record(now(), machine_now(), _versions(), list(sections), size)


def write_json(record: Record, path: Path) -> None:
    """Write the record to `path`, indented."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
    unfinished.replace(path)


def read_json(path: Path) -> Record:
    """Read what `write_json` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Record)


def merged(records: Iterable[Record]) -> Record:
    """Make one record of several; of the same run, the later record's section is kept."""
    first, *others = records
    whole = Record(first.date, first.machine, dict(first.versions), [], first.size)
    for record in (first, *others):
        is_elsewhere = record.machine.get("cpu") != whole.machine.get("cpu")
        whole.date = max(whole.date, record.date)
        whole.versions |= record.versions
        for section in record.sections:
            section.size = section.size or record.size
            section.date = section.date or record.date
            if is_elsewhere:
                section.machine = section.machine or record.machine
            whole.put(section)
    whole.size = ", ".join(dict.fromkeys(section.size for section in whole.sections))
    return whole


def now() -> str:
    """Return the date and time, as records carry it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine_now() -> Machine:
    """Name the machine that this runs on."""
    return {
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}",
    }


def _cpu_model() -> str:
    if _CPUINFO.exists():
        for line in _CPUINFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str | None:
    if not _MEMINFO.exists():
        return None
    kilobytes = int(_MEMINFO.read_text(encoding="ascii").split(maxsplit=2)[1])
    return f"{kilobytes / 1024**2:.1f} GiB"


def _versions() -> dict[str, str]:
    """Name what runs here, and what the other peers are pinned to."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    for module in sorted(_PEERS.glob("*/go.mod")):
        found = dict(_GO_MODULE.findall(module.read_text())) | found
    for pins in sorted((_PEERS / "requirements").glob("*.txt")):
        versions = dict(_PINNED.findall(pins.read_text()))
        name = pins.stem.split("-")[0]
        if name in versions:
            found.setdefault(name, versions[name])
    return found
