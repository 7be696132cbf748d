"""The lines of a recording, as docs/howto/record-an-incident.md describes them.

A line is one JSON object. What a later version adds to a format version is optional, so that every
later version of the library reads every earlier recording.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, final

from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from pyinformer.client.transport import status_error_from_object
from pyinformer.errors import (
    APIStatusError,
    InformerError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
)

FORMAT_VERSION: Final = 1
"""The version of the format that this library writes; it reads this one and all before it."""

End = Literal["ended", "closed", "failed", "gap"]
"""How a response ended: completely, closed by the client, by an error, or not in the recording."""


@final
class RecordedMassDelete(Struct, frozen=True, kw_only=True):
    """Which lists a second list confirms, as `MassDeletePolicy`."""

    share: float = 0.5
    at_least: int = 100
    everything: bool = True


@final
class RecordedOptions(Struct, frozen=True, kw_only=True):
    """The options of a reflector that decide which requests it sends."""

    use_watch_list: bool = True
    page_size: int = 500
    consistency: Literal["quorum", "any"] = "quorum"
    watch_timeout_seconds: tuple[float, float] = (180.0, 230.0)
    silence_seconds: float | None = 75.0
    """None if streams are never replaced."""
    order: Literal["auto", "global", "per_object", "opaque"] = "auto"
    poll_seconds: float = 30.0
    mass_delete: RecordedMassDelete | None = RecordedMassDelete()
    """None if no list is confirmed."""


@final
class RecordedShard(Struct, frozen=True, kw_only=True):
    """Which share of the objects an informer follows, as `UidRange`."""

    index: Annotated[int, Meta(ge=0)]
    total: Annotated[int, Meta(ge=1)]


@final
class Header(Struct, frozen=True, kw_only=True):
    """The first line: what was recorded, and by which version."""

    pyinformer_recording: int
    """The version of the format."""
    pyinformer: str
    """The version of the library that wrote it."""
    started_at: str
    """The wall time of the second 0.0."""
    api_version: str
    plural: str
    namespaces: list[str] | None = None
    """The namespaces that were followed at the start of this file; None for all."""
    label_selector: str = ""
    field_selector: str = ""
    shard: RecordedShard | None = None
    """None for all objects."""
    memory: Literal["raw", "strip_managed_fields", "compact", "metadata"] = "strip_managed_fields"
    has_transform: bool = False
    """Whether the informer changed objects before it cached them; snapshots have them changed."""
    options: RecordedOptions = RecordedOptions()
    redacted: list[str] = []
    """What was hidden, in words."""
    file_number: int = 1
    """1 for the first file of the recording; later files begin with a snapshot."""


@final
class RecordedError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error that ended a response or refused a request."""

    type: str
    """The class: `TransportError`, or the one of a refusal."""
    text: str = ""
    status: dict[str, object] | None = None
    """The Status of a refusal."""
    waited_seconds: float = 0.0
    is_unreachable: bool = False


@final
class Entry(Struct, frozen=True, kw_only=True):
    """A line after the first. Which fields it has depends on what happened."""

    at_seconds: float = field(name="t")
    """Seconds since the start of the recording, which may have begun in an earlier file."""
    request: int | None = None
    """A request begins, under this number."""
    method: str = "GET"
    path: str = ""
    query: list[tuple[str, str]] = []
    snapshot: bool = False
    """The request was not sent: its response is the content of the cache at this moment."""
    joined: bool = False
    """The request is a watch that was open already."""
    of: int | None = None
    """The request that the other fields are about."""
    accepted: bool = False
    line: Raw | UnsetType = UNSET
    """A line of a watch, as it arrived."""
    item: Raw | UnsetType = UNSET
    """An item of a list, as it arrived."""
    around: dict[str, object] | UnsetType = field(name="list", default=UNSET)
    """A list without its items: kind, apiVersion and metadata."""
    body: Raw | UnsetType = UNSET
    """The body of another response."""
    unreadable: int | None = None
    """The size of a line or a body that was not JSON, and was not kept."""
    end: End | None = None
    error: RecordedError | None = None
    relist: str | None = None
    """Why everything is listed again, if the server did not cause it."""
    distrust: bool = False
    namespaces: list[str] | None = None
    """The namespaces that are followed from now on."""
    gap: int | None = None
    """How many bytes were dropped here."""
    stop: bool = False
    """The recording was ended; a file without such a line is cut off."""


def error_of(error: BaseException) -> RecordedError:
    """Return an error as it is recorded; the texts of this library's errors have no credentials."""
    if isinstance(error, APIStatusError):
        details: dict[str, object] = {"causes": [{"reason": one} for one in error.causes]}
        if error.retry_after_seconds is not None:
            details["retryAfterSeconds"] = error.retry_after_seconds
        status = {"code": error.status, "reason": error.reason, "message": error.message}
        return RecordedError(
            type=type(error).__name__, text=error.request, status={**status, "details": details}
        )
    reason = getattr(error, "reason", "")
    waited = getattr(error, "waited_seconds", 0.0)
    text = reason if isinstance(reason, str) and reason else str(error)
    return RecordedError(
        type=type(error).__name__,
        text=text,
        waited_seconds=waited,
        is_unreachable=getattr(error, "is_unreachable", False),
    )


def error_from(recorded: RecordedError, what: str) -> InformerError:
    """Return the error that a replay raises; one of an unknown class is a lost connection."""
    if recorded.status is not None:
        return status_error_from_object(recorded.status, request=recorded.text)
    if recorded.type == "RequestTimeoutError":
        return RequestTimeoutError(what, recorded.text, waited_seconds=recorded.waited_seconds)
    if recorded.type in {"ProtocolError", "ListInconsistentError"}:
        return ProtocolError(what, recorded.text)
    return TransportError(what, recorded.text, is_unreachable=recorded.is_unreachable)
