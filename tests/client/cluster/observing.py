"""An observer of writes that records its calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyinformer import KubeObject


@dataclass
class RecordedWrites:
    """The calls of an observer, in order: `("wrote", key, resource version)` and so on."""

    events: list[tuple[str, str, str | None]] = field(default_factory=list)
    objects: list[KubeObject] = field(default_factory=list)

    def wrote(self, obj: KubeObject, raw: bytes) -> None:
        """Record the key and the resource version of a write."""
        self.events.append(("wrote", obj.key, obj.metadata.resource_version))
        self.objects.append(obj)

    def deleted(self, key: str, uid: str, resource_version: str | None) -> None:
        """Record the key and the uid of a deletion."""
        self.events.append(("deleted", key, uid))
