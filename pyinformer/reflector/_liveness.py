"""How a reflector knows that it is alive: what it heard last, and when."""

from __future__ import annotations

from typing import final

from msgspec import Struct


@final
class Liveness(Struct):
    """The facts about one reflector's freshness; instants are the loop's, None for never."""

    observed_resource_version: str = ""
    """Up to where every change is in the sink."""
    last_event_at: float | None = None
    """When the last change arrived."""
    last_bookmark_at: float | None = None
    """When the last bookmark arrived."""
    last_proof_at: float | None = None
    """When anything last proved that what is cached is what the server has: a change, a bookmark,
    a complete list, or a proof of the server's history that was followed by a watch."""
    takeovers: int = 0
    """How often a stream went silent and a second one took its place."""
