"""Measure how much memory attacks of one tenant take: `python -m benchmarks.tenants`.

With 10,000 updates of each attack it takes about an hour; `--updates 1000` takes some minutes. It
ends with 1 if an attack has taken more than 50 MiB.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
from pathlib import Path
from time import perf_counter

from benchmarks.tenants.attacks import ATTACKS
from benchmarks.tenants.run import victim

_BOUND_MIB = 50.0
_WARM = 50
_PAGE_BYTES = 4096


def _resident_mib() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * _PAGE_BYTES / (1 << 20)


async def _measure(attack: str, updates: int, size: int, limit: int | None) -> tuple[float, float]:
    options = {} if limit is None else {"max_object_bytes": limit}
    async with victim(**options) as one:
        await one.suffer(ATTACKS[attack], range(_WARM), size)
        before, began = _resident_mib(), perf_counter()
        await one.suffer(ATTACKS[attack], range(_WARM, _WARM + updates), size)
        return _resident_mib() - before, perf_counter() - began


def main() -> int:
    """Run the attacks, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=770_000, help="of what is new in each update")
    parser.add_argument("--max-object-bytes", type=int, default=None)
    parser.add_argument("attacks", nargs="*", default=list(ATTACKS), metavar="attack")
    chosen = parser.parse_args()
    is_bounded = True
    for attack in chosen.attacks:
        size, limit = chosen.bytes, chosen.max_object_bytes
        grown, seconds = asyncio.run(_measure(attack, chosen.updates, size, limit))
        is_bounded = is_bounded and grown <= _BOUND_MIB
        line = f"{attack:12} {chosen.updates:6} updates {grown:+8.1f} MiB {seconds:8.1f} s\n"
        sys.stdout.write(line)
        sys.stdout.flush()
    return 0 if is_bounded else 1


if __name__ == "__main__":
    sys.exit(main())
