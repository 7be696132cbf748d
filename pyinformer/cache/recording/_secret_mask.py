"""Hides secrets in what is written to a recording; sizes, keys and versions stay as they are.

Nearly every line has nothing to hide, which a few searches show; only the others are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, final

import msgspec

from pyinformer.objects import (
    GroupVersionResource,
    JSONValue,
    decoder_of,
    masked,
    masked_value,
)

if TYPE_CHECKING:
    from pyinformer.cache.recording._line_buffer import LineBuffer

HIDDEN: Final = (
    "data and stringData of Secrets",
    "annotations with a copy of the applied object, such as last-applied-configuration",
    "credentials in use, in the texts of errors",
)
"""What every recording hides, in words."""

_SECRET: Final = b'"Secret'
_APPLIED: Final = b"applied"
_HANDLED: Final = b"handled-configuration"
_ORIGINAL: Final = b'original"'
_ESCAPE: Final = b"\\u00"
_SUSPECT: Final = (_SECRET, _APPLIED, _HANDLED, _ORIGINAL)
# What follows _ESCAPE in all that _escaped_letter matches.
_LETTERS: Final = (b"2d", b"2D", b"2f", b"2F", b"4", b"5", b"6", b"7")
_MOST_ESCAPES: Final = 8  # on average per line; beyond, a search for each of the letters is quicker
# In managedFields the names of annotations have `{}` as their value.
_copy_follows = re.compile(
    rb'(?:applied(?:-config(?:uration)?)?|handled-configuration|original)"\s*+:\s*+(?!\{\})'
)
_escaped_letter = re.compile(rb"\\u00(?:2[dDfF]|[4-7])")  # not Go's \u003c, \u003e and \u0026
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_decode = decoder_of()
_encode = msgspec.json.Encoder().encode


@final
class Mask:
    """Hides the secrets in objects, lists and watch events.

    Args:
        resource: what is recorded.
        kinds: further kinds of which only apiVersion, kind and metadata are shown.
    """

    def __init__(self, resource: GroupVersionResource, kinds: Iterable[str] = ()) -> None:
        self._kinds: Collection[str] = frozenset(kinds)
        kind = "Secret" if resource.resource == "secrets" else ""
        # For an object whose kind neither it nor its list names: the kind that hides most.
        self._unknown_kind = kind or min(self._kinds, default="")
        self._looks_always = bool(self._kinds or kind)

    @property
    def hidden(self) -> list[str]:
        """What is hidden, in words."""
        return [*HIDDEN, *(f"everything but metadata of each {one}" for one in sorted(self._kinds))]

    def is_clean(self, text: bytes) -> bool:
        """Return whether a text has nothing to hide, even if it is not JSON."""
        if self._looks_always or _SECRET in text:
            return False
        has_name = _APPLIED in text or _HANDLED in text or _ORIGINAL in text
        if has_name and _copy_follows.search(text):
            return False
        return _ESCAPE not in text or not _escaped_letter.search(text)

    def suspects(self, buffer: LineBuffer) -> list[tuple[int, int]]:
        """Return the offsets of all lines in a buffer that may have something to hide, in order."""
        if self._looks_always:
            return buffer.lines_with((b"\n",))
        most = _MOST_ESCAPES * buffer.lines
        escaped = buffer.lines_with_suffixes(_ESCAPE, _LETTERS, most=most)
        if escaped is None:
            escaped = buffer.lines_with([_ESCAPE + letter for letter in _LETTERS])
        return sorted({*buffer.lines_with(_SUSPECT), *escaped})

    def line(self, text: bytes) -> bytes | None:
        """Return a watch event as it may be kept; None if it cannot be read."""
        if self.is_clean(text):
            return text
        return self._masked(text, self._unknown_kind, is_event=True)

    def item(self, text: bytes, list_kind: str) -> bytes | None:
        """Return an item of a list as it may be kept; None if it cannot be read."""
        if self.is_clean(text) and list_kind != "SecretList":
            return text if b"\n" not in text else _on_one_line(text)
        return self._masked(text, list_kind.removesuffix("List") or self._unknown_kind)

    def body(self, text: bytes) -> bytes | None:
        """Return the body of a response as it may be kept; None if it cannot be read."""
        return self._masked(text, self._unknown_kind)

    def end(self, entry: dict[str, object]) -> dict[str, object]:
        """Return the end of a response as it may be kept: its error may quote an object."""
        error = entry.get("error")
        status = error.get("status") if isinstance(error, dict) else None
        if not self._kinds or not isinstance(error, dict) or not isinstance(status, dict):
            return entry
        shown = {**status, "message": masked_value(status.get("message"))}
        return {**entry, "error": {**error, "status": shown}}

    def _masked(self, text: bytes, kind: str, *, is_event: bool = False) -> bytes | None:
        try:
            found = _decode(text)
            if self._looks_always and not _has_fields(found, is_event=is_event):
                return None
            if isinstance(found, dict) and found.get("type") == "ERROR":
                _hide_messages(found, is_secret=self._looks_always)
            return _encode(masked(found, kind=kind, kinds=self._kinds))
        except _UNREADABLE:
            return None


def _has_fields(found: JSONValue, *, is_event: bool) -> bool:
    """Return whether JSON is an object, or an event with one; fragments do not name a kind."""
    return isinstance(found, dict) and (not is_event or isinstance(found.get("object"), dict))


def _hide_messages(event: dict[str, JSONValue], *, is_secret: bool) -> None:
    """Hide the messages of an ERROR event about Secrets, which may quote one."""
    status = event.get("object")
    if not is_secret or not isinstance(status, dict):
        return
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for one in (status, *(causes if isinstance(causes, list) else ())):
        if isinstance(one, dict) and "message" in one:
            one["message"] = masked_value(one["message"])


def _on_one_line(text: bytes) -> bytes | None:
    """Return JSON of several lines on one line, as entries must be; None if it cannot be read."""
    try:
        return msgspec.json.format(text, indent=-1)
    except _UNREADABLE:
        return None
