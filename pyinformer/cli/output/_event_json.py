"""Events as one JSON object per line, for programs: `pyinformer watch -o json | jq`.

The existing objects come first, marked as initial and ended by a SYNCED line, then each event with
its changed paths. Values of Secrets and of last-applied annotations are redacted unless asked for.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import msgspec

from pyinformer._printable import printable_json, shortened
from pyinformer.errors import InvalidObjectError
from pyinformer.objects import (
    Added,
    Deleted,
    Event,
    JSONObject,
    KubeObject,
    Updated,
    diff,
    redacted,
)

_MOST_PATHS: Final = 1000
_PATH_LENGTH: Final = 1024


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRendering:
    """Turns objects and events into JSON lines."""

    what: str
    """The name of the resource, such as `pods.v1`."""
    shows_secrets: bool

    def initial(self, objects: Sequence[KubeObject[Any]]) -> Iterator[str]:
        """Yield a line for each existing object, and the SYNCED line."""
        for obj in objects:
            yield self._object_line("ADDED", obj, {"initial": True})
        yield json_line({"type": "SYNCED", "resource": self.what, "objects": len(objects)})

    def event(self, event: Event[Any]) -> str:
        """Return the line of an event."""
        match event:
            case Added(obj):
                marks: JSONObject = {"initial": True} if event.is_in_initial_list else {}
                return self._object_line("ADDED", obj, marks)
            case Updated(old, new):
                marks = _paths(old, new)
                if event.may_go_back:
                    marks["mayGoBack"] = True
                return self._object_line("MODIFIED", new, marks)
            case Deleted(obj):
                marks = {}
                if event.final_state_unknown:
                    marks["finalStateUnknown"] = True
                if event.may_still_exist:
                    marks["mayStillExist"] = True
                return self._object_line("DELETED", obj, marks)

    def _object_line(self, kind: str, obj: KubeObject[Any], marks: JSONObject) -> str:
        return json_line({"type": kind, **marks, "object": shown(obj, self.shows_secrets)})


def shown(obj: KubeObject[Any], shows_secrets: bool) -> msgspec.Raw:  # noqa: FBT001 - one flag
    """Return the JSON of an object, redacted unless asked for; only its identity if unreadable."""
    try:
        body = obj.to_dict() if shows_secrets else redacted(obj)
        return msgspec.Raw(msgspec.json.encode(body))
    except (InvalidObjectError, RecursionError) as error:
        meta = obj.metadata
        known = {
            "apiVersion": obj.gvk.api_version,
            "kind": obj.gvk.kind,
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "problem": str(error),
        }
        return msgspec.Raw(msgspec.json.encode(known))


def json_line(value: JSONObject | msgspec.Raw) -> str:
    """Return a value as a line of JSON without control characters."""
    return f"{printable_json(msgspec.json.encode(value).decode())}\n"


def _paths(old: KubeObject[Any], new: KubeObject[Any]) -> JSONObject:
    """Return the changed paths, bounded: for an object of 1 MB they could be gigabytes."""
    try:
        changes = diff(old, new)
    except InvalidObjectError:
        changes = ()
    shown = [shortened(str(change), _PATH_LENGTH) for change in changes[:_MOST_PATHS]]
    more = len(changes) - len(shown)
    return {"changedPaths": shown, **({"moreChangedPaths": more} if more else {})}
