"""Frozen records of a fleet's state, for status pages and tests."""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, final

from pyinformer._printable import printable

if TYPE_CHECKING:
    from pyinformer.sharding import SharingStatus

FleetClusterState: TypeAlias = Literal["opening", "starting", "working", "ending", "failed"]
"""The state of a cluster: it is being opened; its controllers wait for their caches; it is used; it
is being closed; it could not be opened, or broke, and is tried again."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FleetClusterStatus:
    """The state of one cluster of a fleet."""

    name: str
    state: FleetClusterState
    state_seconds: float
    """For how long it has been in this state."""
    reason: str
    """What it waits for, or why it failed last; empty while it works."""
    retry_after_seconds: float | None
    """Seconds until it is tried again; None unless it failed."""
    age_seconds: float | None
    """How long ago the oldest cache of its controllers was last proven to be current; None if that
    is unknown, or there are none."""

    def line(self) -> str:
        """Return the state in one line, for people."""
        text = f"fleet: cluster {self.name}: {self.state} for {self.state_seconds:.0f} s"
        if self.retry_after_seconds is not None:
            text += f", tried again in {self.retry_after_seconds:.0f} s"
        if self.age_seconds is not None:
            text += f", proven {self.age_seconds:.0f} s ago"
        return printable(f"{text}: {self.reason}" if self.reason else text)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FleetStatus:
    """The state of a fleet."""

    clusters: tuple[FleetClusterStatus, ...]
    """Those that this process uses; with sharding, others have the rest."""
    known: int
    """How many names there are."""
    sharing: SharingStatus | None
    """Its share of the clusters; None if it has all."""
    waits_for: str
    """What the names wait for: those that cannot be read are not known yet, or kept."""
    failure: str
    """Why it does not follow the names, or takes no share, any more; empty while it does."""

    def __str__(self) -> str:
        text = f"{len(self.clusters)} of {self.known} clusters are used here"
        because = self.failure or self.waits_for
        return printable(f"{text}; {because}" if because else text)


def without_address(name: str, why: str) -> FleetClusterStatus:
    """Return the state of a cluster whose address could not be computed yet."""
    return FleetClusterStatus(
        name=name,
        state="failed",
        state_seconds=0.0,
        reason=why,
        retry_after_seconds=None,
        age_seconds=None,
    )
