"""What a guard remembers of keys beyond what is cached: the dead, and what verifies showed."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer.reflector._readings import Readings
from pyinformer.reflector._tombstones import Tombstones

if TYPE_CHECKING:
    from pyinformer.apimachinery import ObjectMeta


@final
class Memory:
    """The two memories of one guard; both are bounded, and empty in a new epoch."""

    __slots__ = ("dead", "readings")

    def __init__(self) -> None:
        self.dead: Tombstones = Tombstones()
        self.readings: Readings = Readings()

    def is_past(self, key: str, meta: ObjectMeta) -> bool:
        """Tell whether a state is from before its object's death, or from before a verify."""
        version = meta.resource_version
        return self.dead.covers(key, meta.uid, version) or self.readings.cover(key, version)

    def clear(self) -> None:
        """Forget everything: another history begins."""
        self.dead.clear()
        self.readings.clear()
