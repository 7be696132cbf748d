"""How the requests of a reflector ended, in words that are few enough to be label values.

The words come from this module and from HTTP, never from what a server wrote.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyinformer.cache.reflector.machine import steps
from pyinformer.errors import (
    APIStatusError,
    ConfigurationError,
    InternalError,
    InvalidObjectError,
    ProtocolError,
    RequestTimeoutError,
    TLSVerificationError,
    TransportError,
)

if TYPE_CHECKING:
    from pyinformer.cache.reflector.guard import Counts
    from pyinformer.errors import InformerError

_LEAST_STATUS, _MOST_STATUS = 100, 599
_WORDS: Final = (  # the first that fits
    (RequestTimeoutError, "timeout"),
    (TLSVerificationError, "tls"),
    (TransportError, "connection"),
    (ProtocolError, "protocol"),
    (InvalidObjectError, "protocol"),
    (ConfigurationError, "configuration"),
    (InternalError, "internal"),
)


def count_outcome(counts: Counts, happened: steps.Input) -> None:
    """Count how a watch ended, and the error that ended a request."""
    match happened:
        case steps.LoadFailed(mode, error):
            counts.add("errors", mode.name.lower(), code_of(error))
        case steps.WatchFailed(error, established):
            counts.add("errors", "watch", code_of(error))
            counts.add("watches_ended", "failed" if established else "refused")
        case steps.WatchBroken(breach):
            counts.add("watches_ended", breach.name.lower())
        case steps.WatchStill(is_certain):
            counts.add("watches_ended", "still" if is_certain else "unproven")
        case steps.WatchSilent():
            counts.add("watches_ended", "silent")
        case steps.WatchEnded(early=is_early):
            counts.add("watches_ended", "early" if is_early else "complete")
        case steps.ProofFailed(error):
            counts.add("errors", "proof", code_of(error))
        case steps.Verified(error) if error is not None:
            counts.add("errors", "verify", code_of(error))


def code_of(error: InformerError) -> str:
    """Return the HTTP status of an error, or a word for one without."""
    if isinstance(error, APIStatusError):  # an ERROR event may have any number
        return str(error.status) if _LEAST_STATUS <= error.status <= _MOST_STATUS else "other"
    return next((word for kind, word in _WORDS if isinstance(error, kind)), "other")
