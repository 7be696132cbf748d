"""What a program claims of its caches and holds of its machine, so that the checker judges it."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec.structs import replace

from pyinformer.health import Health, HealthOptions
from pyinformer.reflector import ReflectorState
from pyinformer.testing.histories._resources import held_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyinformer import SharedInformer
    from pyinformer.testing.histories import ResourcesRecord

STALE_SECONDS: Final = 10.0  # faults last up to 20 s: readiness ends in many of them
_TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_DESCRIPTORS: Final = Path("/proc/self/fd")


def ready_claims(informer: SharedInformer[Any]) -> Mapping[str, Callable[[], float | None]]:
    """Return what readiness promises of a cache: that it is at most `STALE_SECONDS` old."""
    options = HealthOptions(stale_seconds=STALE_SECONDS, recovery_seconds=1.0)
    health = Health(informer, options=options)

    def promised() -> float | None:
        # A program is ready while a resource is not served, however old its cache is.
        is_served = informer.state is not ReflectorState.ABSENT
        return STALE_SECONDS if health.ready().is_ok and is_served else None

    return {"ready": promised}


def held(when: Literal["baseline", "rest"], port: int) -> ResourcesRecord:
    """Return what the process holds; of its sockets those to a port.

    Proxy, writers and truth share the process: only what is connected to the proxy is the
    program's. The memory is that of all of them, without what the C library keeps free: of several
    threads, that was half of what a storm added.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)
    return replace(held_now(when), sockets=sockets_to(port))


def sockets_to(port: int) -> int:
    """Return how many sockets of this process are connected to a port, by the kernel's tables."""
    gc.collect()  # a connection that only its garbage holds is closed, if late
    own = set(_own_sockets())
    lines = (line.split() for table in _TABLES if table.exists() for line in _rows(table))
    return sum(int(row[2].rpartition(":")[2], 16) == port and row[9] in own for row in lines)


def _rows(table: Path) -> list[str]:
    return table.read_text().splitlines()[1:]


def _own_sockets() -> Iterator[str]:
    for link in _DESCRIPTORS.iterdir():
        try:
            target = str(link.readlink())
        except OSError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            yield target.removeprefix("socket:[").removesuffix("]")
