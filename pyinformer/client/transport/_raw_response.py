"""A response as it arrived, for callers that need more of it than its body."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final


@final
@dataclass(slots=True)
class RawResponse:
    """The newest response to a request; a connection fills it, also when it raises a refusal."""

    status: int = 0
    """The HTTP status; 0 if no response arrived."""

    headers: Mapping[str, str] = field(default_factory=dict)
    """The headers, whose names are case-insensitive."""

    body: bytes = b""
    """The whole body; of a refusal at most 64 KiB."""
