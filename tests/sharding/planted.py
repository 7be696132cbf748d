"""A replica of the lab with a part of sharing removed.

    python -m tests.sharding.planted BUG SETTINGS

A lab that does not find these bugs would not find others either.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType


class Change(NamedTuple):
    """What is removed from a module."""

    module: str
    line: str
    """A part of its source that occurs once."""
    instead: str


class Bug(NamedTuple):
    """What a replica does wrong, and how the lab reports that."""

    changes: tuple[Change, ...]
    found: str
    """How a violation begins, or what it has in it."""
    late: tuple[str, ...] = ("configmaps",)
    """Of what the watches stall of some replicas: one that sees no renewals must not claim."""


_MEMBERS, _SHARES = "pyinformer.sharding._members", "pyinformer.sharding._bucket_shares"
BUGS: Final = {
    "revoke": Bug(
        (
            Change(
                _SHARES,
                "if not self._is_leaving and (revoke := self._revocation(now, wall_at))",
                "if now < 0 and (revoke := self._revocation(now, wall_at))",
            ),
            Change(
                _MEMBERS,
                "if lease.transitions > owner.transitions:",
                "if lease.transitions > owner.transitions or owner not in self.living(now):",
            ),
            Change(  # a stall of a watch that is shorter shows it, too
                _MEMBERS,
                "return self._seen_at[name] + (",
                "return self._seen_at[name] + 0.5 * (",
            ),
        ),
        found="revision ",
        late=("configmaps", "leases"),
    ),
    "drain": Bug(
        (
            Change(
                _SHARES,
                "for number in give if number not in self.held or not is_busy(number)]",
                "for number in give]",
            ),
        ),
        found="at the same time: ",
    ),
    "memory-of-deletions": Bug(
        (
            Change(
                "pyinformer.operator._recent_deletions",
                "is_its = name == controller.name and is_recent and is_wanted(request._id)",
                "is_its = False",
            ),
        ),
        found=", forgotten by ",
    ),
    "barrier": Bug(
        (
            Change(
                "pyinformer.operator._sharing",
                "found = await caught_up(",
                "found = CaughtUp({}, {}) if True else await caught_up(",
            ),
        ),
        found="too old: ",
    ),
}
"""By what is removed."""


class _Spoiler(SourceFileLoader):
    """Loads one module with other lines."""

    def __init__(self, spec: ModuleSpec, changes: Sequence[Change]) -> None:
        assert spec.origin is not None
        super().__init__(spec.name, spec.origin)
        self._changes = changes

    def get_code(self, fullname: str) -> CodeType:
        """Compile the spoiled source; the bytecode in the cache is that of the source as it is."""
        source = self.get_data(self.path).decode()
        for one in self._changes:
            assert source.count(one.line) == 1, f"the module has changed: {one.line!r}"
            source = source.replace(one.line, one.instead)
        code: CodeType = self.source_to_code(source.encode(), self.path)
        return code


class _Finder:
    """Finds the modules that are changed, and no others."""

    def __init__(self, bug: Bug) -> None:
        self._bug = bug

    def find_spec(
        self, name: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a module is loaded; None for all others."""
        changes = [one for one in self._bug.changes if one.module == name]
        if not changes:
            return None
        spec = PathFinder.find_spec(name, path)
        assert spec is not None
        spec.loader = _Spoiler(spec, changes)
        return spec


def main(name: str, settings: str) -> None:
    """Share with that bug until SIGTERM."""
    bug = BUGS[name]
    assert not any(one.module in sys.modules for one in bug.changes)
    sys.meta_path.insert(0, _Finder(bug))

    from tests.sharding import replica_program

    asyncio.run(replica_program.main(json.loads(settings)))


if __name__ == "__main__":
    main(*sys.argv[1:])
