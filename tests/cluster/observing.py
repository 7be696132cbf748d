"""An observer of writes that keeps what it hears."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec


@dataclass
class Heard:
    """What an observer was told, in order: `("wrote", key, resource version)` and so on."""

    events: list[tuple[str, str, str | None]] = field(default_factory=list)

    def wrote(self, raw: bytes) -> None:
        """Keep the key and the resource version of a write."""
        metadata = msgspec.json.decode(raw)["metadata"]
        key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        self.events.append(("wrote", key, metadata["resourceVersion"]))

    def deleted(self, key: str, uid: str, resource_version: str | None) -> None:
        """Keep the key and the uid of a deletion."""
        self.events.append(("deleted", key, uid))
