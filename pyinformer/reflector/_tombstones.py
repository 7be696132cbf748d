"""What a guard remembers of the dead.

Deletions enter; whether a state of an object is from before its death leaves. The memory is bounded
and forgets the oldest first: what is forgotten cannot be proven any more, and is asked about.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import final

from pyinformer.apimachinery import older

_MAX_TOMBSTONES = 10_000  # enough for the replays of a busy namespace, small enough to forget about
_MAX_BYTES = 4 << 20  # of keys, uids and versions: some 100 each, but a Role's name has no limit


@final
class Tombstones:
    """Objects that are dead, and the version of their death."""

    __slots__ = ("_bytes", "_dead", "_undated")

    def __init__(self) -> None:
        # By key and uid: a name can have been deleted more than once, each time another object.
        self._dead: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._undated: set[tuple[str, str]] = set()
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """How long the texts are that are remembered."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._dead)

    def has(self, key: str, uid: str) -> bool:
        """Tell whether this object is remembered as dead."""
        return (key, uid) in self._dead

    def bury(self, key: str, uid: str, version: str, *, is_dated: bool = True) -> None:
        """Take note of a death; the latest version known of it counts.

        Args:
            key: `namespace/name`, or `name`.
            uid: of the object.
            version: of its death, or of its last state before it.
            is_dated: whether it is that of its death: servers have sent deletions with the last
                state's version, and what died then may still have lived for a while.
        """
        name = (key, uid)
        if is_dated:
            self._undated.discard(name)
        elif name not in self._dead:
            self._undated.add(name)
        known = self._forget(name)
        known = version if known is None else known
        self._dead[name] = died = known if older(version, known) else version
        self._bytes += _size(name, died)
        while self._dead and (len(self._dead) > _MAX_TOMBSTONES or self._bytes > _MAX_BYTES):
            oldest = next(iter(self._dead))
            self._forget(oldest)
            self._undated.discard(oldest)

    def _forget(self, name: tuple[str, str]) -> str | None:
        died = self._dead.pop(name, None)
        if died is not None:
            self._bytes -= _size(name, died)
        return died

    def lift(self, key: str, uid: str) -> None:
        """Forget a death: a selector let the object go and has it back."""
        if self._dead:
            self._forget((key, uid))
            self._undated.discard((key, uid))

    def covers(self, key: str, uid: str, version: str) -> bool:
        """Tell whether a state of this object is from before its death."""
        died = self._dead.get((key, uid))
        return died is not None and not older(died, version)

    def newest(self, up_to: str) -> tuple[str, str, str] | None:
        """Return key, uid and version of the latest dated death not after a version, or None."""
        dated = ((name, died) for name, died in self._dead.items() if name not in self._undated)
        known = [(len(died), died, name) for name, died in dated]
        passed = [one for one in known if not older(up_to, one[1])]
        if not passed:
            return None
        _, died, (key, uid) = max(passed)
        return key, uid, died

    def died_at(self, key: str) -> str:
        """Return the version of the latest death under a key, or nothing; slow."""
        dead = list(self._dead.items())  # in one go: whoever asks may be in another thread
        deaths = [died for (name, _), died in dead if name == key]
        return max(deaths, key=lambda died: (len(died), died), default="")

    def clear(self) -> None:
        """Forget everything: the dead may live in another history."""
        self._dead.clear()
        self._undated.clear()
        self._bytes = 0


def _size(name: tuple[str, str], died: str) -> int:
    return len(name[0]) + len(name[1]) + len(died)
