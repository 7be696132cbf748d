"""Change the JSON body of an otherwise correct answer, as a broken cache or proxy would.

A watch is changed line by line, as it passes; a list as a whole, at its end. A body that cannot be
read passes unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, final

import msgspec

from pyinformer.objects import JSONObject, decoder_of

Edit: TypeAlias = Literal[
    "no-bookmarks",
    "no-end-bookmark",
    "no-initial-events",
    "no-items",
    "drop-event",
    "repeat-event",
    "stale-list",
    "older-list",
    "rewound-list",
]
"""What is changed in a body.

Of a watch: `no-bookmarks` leaves out the bookmarks, but that at the end of the initial events;
`no-end-bookmark` leaves out that one; `no-initial-events` leaves out the events before it;
`drop-event` leaves out the first event after it; `repeat-event` sends that event a second time,
after the next one, so that the stream goes back.

Of a list: `no-items` leaves out all items, `stale-list` the one with the newest resource version;
`older-list` has the items of the first list of this kind since the fault began. These three claim
the version of the whole list. `rewound-list` is that first list, with its version.
"""

_END: Final = "k8s.io/initial-events-end"
_OF_LISTS: Final = ("no-items", "stale-list", "older-list", "rewound-list")
_decode = decoder_of(JSONObject)


@final
class BodyEdit:
    """Changes one body.

    Args:
        edit: what is changed.
        has_initial_events: whether the watch begins with the state, as with `sendInitialEvents`.
        first: returns the first body of this kind for a body.
    """

    def __init__(
        self, edit: Edit, *, has_initial_events: bool, first: Callable[[bytes], bytes]
    ) -> None:
        self._edit = edit
        self._first_list = first
        self._is_initial = has_initial_events
        self._rest = b""
        self._first = b""
        self._is_done = False
        self._line: Callable[[bytes, Mapping[str, object]], bytes] = {
            "no-bookmarks": self._no_bookmarks,
            "no-end-bookmark": self._no_end_bookmark,
            "no-initial-events": self._no_initial_events,
            "drop-event": self._drop_event,
            "repeat-event": self._repeat_event,
        }.get(edit, _unchanged)

    def feed(self, data: bytes) -> bytes:
        """Take a piece of the body, and return what may be sent now."""
        self._rest += data
        if self._edit in _OF_LISTS:
            return b""
        *lines, self._rest = self._rest.split(b"\n")
        return b"".join(self._changed(line + b"\n") for line in lines)

    def finish(self) -> bytes:
        """Return what is left at the end of the body."""
        rest, self._rest = self._rest, b""
        return self._list(rest) if self._edit in _OF_LISTS else rest

    def _changed(self, line: bytes) -> bytes:
        try:
            event = _decode(line)
        except msgspec.DecodeError:
            return line
        if not isinstance(event, dict) or "type" not in event:
            return line
        sent = self._line(line, event)
        if _is_end(event):
            self._is_initial = False
        return sent

    @staticmethod
    def _no_bookmarks(line: bytes, event: Mapping[str, object]) -> bytes:
        return b"" if event["type"] == "BOOKMARK" and not _is_end(event) else line

    @staticmethod
    def _no_end_bookmark(line: bytes, event: Mapping[str, object]) -> bytes:
        return b"" if _is_end(event) else line

    def _no_initial_events(self, line: bytes, event: Mapping[str, object]) -> bytes:
        return b"" if self._is_initial and not _is_end(event) else line

    def _drop_event(self, line: bytes, event: Mapping[str, object]) -> bytes:
        if self._is_done or not self._is_change(event):
            return line
        self._is_done = True
        return b""

    def _repeat_event(self, line: bytes, event: Mapping[str, object]) -> bytes:
        if self._is_done or not self._is_change(event):
            return line
        if not self._first:
            self._first = line
            return line
        self._is_done = True
        return line + self._first

    def _is_change(self, event: Mapping[str, object]) -> bool:
        return not self._is_initial and event["type"] in ("ADDED", "MODIFIED", "DELETED")

    def _list(self, body: bytes) -> bytes:
        try:
            listed = _decode(body)
        except msgspec.DecodeError:
            return body
        items = listed.get("items") if isinstance(listed, dict) else None
        if items is None:
            return body
        if self._edit in ("older-list", "rewound-list"):
            first = _decode(self._first_list(body))
            meta = listed["metadata"] if self._edit == "older-list" else first["metadata"]
            return msgspec.json.encode({**first, "metadata": meta})
        if not items:
            return body
        newest = max(items, key=_version)
        kept = [] if self._edit == "no-items" else [one for one in items if one is not newest]
        return msgspec.json.encode({**listed, "items": kept})


def _unchanged(line: bytes, _event: Mapping[str, object]) -> bytes:
    return line


def _is_end(event: Mapping[str, object]) -> bool:
    match event:
        case {"type": "BOOKMARK", "object": {"metadata": {"annotations": {**annotations}}}}:
            return annotations.get(_END) == "true"
    return False


def _version(obj: JSONObject) -> int:
    return int(obj["metadata"]["resourceVersion"])
