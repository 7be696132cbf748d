"""The bodies of Kubernetes Events, in `events.k8s.io/v1`.

Names and texts are changed and cut to what an API server accepts. Names never repeat, even if the
clock stands still.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from typing import Final, final

from pyinformer._printable import printable
from pyinformer.controller.conventions._event_correlator import Series
from pyinformer.controller.conventions._references import Reference
from pyinformer.controller.conventions._timestamps import micro_timestamp
from pyinformer.objects import JSONObject

API_VERSION: Final = "events.k8s.io/v1"
_DEFAULT_NAMESPACE: Final = "default"  # of events about cluster-scoped objects, as upstream
_MAX_WORD: Final = 128  # bytes; the server's error message says characters
_MAX_NOTE: Final = 1024
_MAX_NAME: Final = 230  # with a dot and digits after it, below the 253 of a name
_BETWEEN: Final = re.compile(r"[^a-z0-9]+")
_NANOSECONDS: Final = 1_000_000_000
_MAX_SECONDS: Final = 1e11  # a later time comes from a broken clock


@final
class EventBodies:
    """Builds the events of one reporter.

    Args:
        controller: `reportingController`.
        instance: `reportingInstance`.
    """

    def __init__(self, controller: str, instance: str) -> None:
        self._controller = controller
        self._instance = _cut(instance, _MAX_WORD)
        self._last_stamp = 0

    def body(self, series: Series) -> JSONObject:
        """Return the event of a series, with its count if it is more than one."""
        first = series.first
        series.name = series.name or self._name(first.regarding.name, first.happened_at)
        body: JSONObject = {
            "apiVersion": API_VERSION,
            "kind": "Event",
            "metadata": {
                "name": series.name,
                "namespace": first.regarding.namespace or _DEFAULT_NAMESPACE,
            },
            "eventTime": micro_timestamp(first.happened_at),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": first.type,
            "reason": _cut(first.reason, _MAX_WORD),
            "action": _cut(first.action, _MAX_WORD),
            "note": _cut(first.note, _MAX_NOTE),
            "regarding": reference_body(first.regarding),
        }
        if first.related is not None:
            body["related"] = reference_body(first.related)
        if series.count > 1:
            body["series"] = series_body(series)
        return body

    def _name(self, name: str, happened_at: float) -> str:
        seconds = happened_at if 0 <= happened_at < _MAX_SECONDS else 0.0
        stamp = max(int(seconds * _NANOSECONDS), self._last_stamp + 1)
        self._last_stamp = stamp
        readable = _BETWEEN.sub(_separator, name.lower())[:_MAX_NAME].strip(".-") or "object"
        return f"{readable}.{stamp:x}"


def series_body(series: Series) -> JSONObject:
    """Return the count of a series, and its last time."""
    return {"count": series.count, "lastObservedTime": micro_timestamp(series.last_happened_at)}


def reference_body(reference: Reference) -> JSONObject:
    """Return an ObjectReference without its empty fields."""
    fields = {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
        "resourceVersion": reference.resource_version,
    }
    return {name: value for name, value in fields.items() if value}


def _separator(found: re.Match[str]) -> str:
    """Return the separator between two words of a name: a dot, or dashes."""
    kinds = set(found[0])
    if kinds == {"-"}:
        return found[0]
    return "." if kinds == {"."} else "-"


def _cut(text: str, longest: int) -> str:
    """Return a text as one printable line, cut to a number of bytes."""
    return printable(text).encode()[:longest].decode("utf-8", "ignore")
