"""What a guard remembers of the dead.

Deletions enter; whether a state of an object is from before its death leaves. The memory is bounded
and forgets the oldest first: what is forgotten cannot be proven any more, and is asked about.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import final

from pyinformer.apimachinery import older

_MAX_TOMBSTONES = 10_000  # enough for the replays of a busy namespace, small enough to forget about


@final
class Tombstones:
    """Objects that are dead, and the version of their death."""

    __slots__ = ("_dead",)

    def __init__(self) -> None:
        # By key and uid: a name can have been deleted more than once, each time another object.
        self._dead: OrderedDict[tuple[str, str], str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._dead)

    def has(self, key: str, uid: str) -> bool:
        """Tell whether this object is remembered as dead."""
        return (key, uid) in self._dead

    def bury(self, key: str, uid: str, version: str) -> None:
        """Take note of a death; the latest version known of it counts."""
        known = self._dead.pop((key, uid), version)
        self._dead[key, uid] = known if older(version, known) else version
        if len(self._dead) > _MAX_TOMBSTONES:
            self._dead.popitem(last=False)

    def lift(self, key: str, uid: str) -> None:
        """Forget a death: a selector let the object go and has it back."""
        if self._dead:
            self._dead.pop((key, uid), None)

    def covers(self, key: str, uid: str, version: str) -> bool:
        """Tell whether a state of this object is from before its death."""
        died = self._dead.get((key, uid))
        return died is not None and not older(died, version)

    def newest(self, up_to: str) -> tuple[str, str, str] | None:
        """Return key, uid and version of the latest death not after a version, or None."""
        known = [(len(died), died, name) for name, died in self._dead.items()]
        passed = [one for one in known if not older(up_to, one[1])]
        if not passed:
            return None
        _, died, (key, uid) = max(passed)
        return key, uid, died

    def clear(self) -> None:
        """Forget everything: the dead may live in another history."""
        self._dead.clear()
