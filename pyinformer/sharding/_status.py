"""The state of one member of a group, for status pages."""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SharingStatus:
    """The state of a replica that shares its operator's keys with others."""

    table: str
    """The Lease with the table of all members, `namespace/name`."""
    member: str
    """The name of this replica's own Lease."""
    by: str
    """What has one bucket: each `key`, all keys of a `namespace`, or of a `cluster`; or the name of
    the function that decides."""
    buckets: int
    """How many buckets there are."""
    members: int
    """How many replicas share, as far as it is known here; 0 while this one does not."""
    open: int
    """Buckets whose keys are reconciled here."""
    catching_up: int
    """Buckets that this replica has, and whose keys wait until the caches hold what was written."""
    draining: int
    """Buckets that are given up when their reconciles have ended."""
    without_owner: int
    """Buckets that no living replica has."""
    without_owner_seconds: float
    """For how long there have been such buckets; 0.0 if there are none."""
    is_member: bool
    """Whether this replica's own Lease is valid."""
    is_overdue: bool
    """It works, and its own Lease was not renewed for its whole duration."""
    last_error: str
    """Why the last request for the table failed, or why some keys have no bucket; else empty."""

    def __str__(self) -> str:
        if not self.is_member:
            text = f"{self.member} has no share of {self.table}"
        else:
            text = (
                f"{self.member} has {self.open + self.catching_up + self.draining} of"
                f" {self.buckets} buckets by {self.by} of {self.table}, among {self.members}"
            )
        for number, what in (
            (self.catching_up, "catching up"),
            (self.draining, "draining"),
        ):
            if number:
                text += f"; {number} {what}"
        if self.without_owner:
            text += (
                f"; {self.without_owner} without an owner for {self.without_owner_seconds:.0f} s"
            )
        return f"{text}; last error: {self.last_error}" if self.last_error else text
