"""The conditions of a status, of which each type may have another writer.

A merge patch sends a list as a whole, which would remove what other clients have added meanwhile.
Of a list of conditions only the types that the caller has changed count, and they are merged into
the newest list. Arguments are never changed.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self, final

from pyinformer.client.cluster._merge_patch import merge_patch
from pyinformer.objects import JSONObject, JSONValue

CONDITIONS: Final = "conditions"
"""The field that is a list of conditions, by the API conventions of Kubernetes."""


def by_type(conditions: JSONValue) -> dict[str, JSONObject] | None:
    """Return conditions by their type; None if this is not a list in which each has its own."""
    if conditions is None:
        return {}
    if not isinstance(conditions, list):
        return None
    found: dict[str, JSONObject] = {
        one["type"]: one
        for one in conditions
        if isinstance(one, dict) and isinstance(one.get("type"), str)
    }
    return found if len(found) == len(conditions) else None


def with_changed(conditions: JSONValue, changed: Mapping[str, JSONValue]) -> list[JSONValue]:
    """Return conditions with others in their place, new ones last; None stands for a removed one.

    Args:
        conditions: what `by_type` accepts.
        changed: the other conditions by type.
    """
    found: dict[str, JSONValue] = {**(by_type(conditions) or {}), **changed}
    return [one for one in found.values() if one is not None]


@final
@dataclass(frozen=True, slots=True)
class StatusChange:
    """What a caller has changed in the status of an object."""

    patch: JSONObject
    """The merge patch of the object, in which lists are whole; empty if nothing has changed."""
    written: JSONObject
    """The same, but with the types of the changed conditions in place of their list."""

    @classmethod
    def of(cls, patch: JSONObject, *before: JSONObject) -> Self:
        """Return what a patch changes.

        Args:
            patch: the merge patch of the object.
            before: the object as the caller knows it; a condition that is another one beside any of
                these is changed.
        """
        return cls(*_split(patch, before))

    @property
    def has_conditions(self) -> bool:
        """Whether the patch has conditions, which are to be merged into the newest ones."""
        return self.written != self.patch

    @property
    def unmerged(self) -> JSONObject:
        """The patch if it is sent as it is; empty with conditions, which depend on the newest."""
        return {} if self.has_conditions else self.patch

    def onto(self, newest: JSONObject) -> JSONObject:
        """Return the patch for the newest object: its conditions, with the changed ones."""
        return _merged(self.patch, self.written, newest)


def _split(patch: JSONObject, before: Sequence[JSONValue]) -> tuple[JSONObject, JSONObject]:
    kept: JSONObject = {}
    written: JSONObject = {}
    for name, value in patch.items():
        old = [one.get(name) if isinstance(one, dict) else None for one in before]
        types = _changed_types(value, old) if name == CONDITIONS else None
        if types is not None:
            if types or old.count(None) == len(old):  # their order alone is not a change
                kept[name] = value
        elif isinstance(value, dict) and value:
            inner, types = _split(value, old)
            if inner:
                kept[name] = inner
        else:
            kept[name] = written[name] = value
        if types:
            written[name] = types
    return kept, written


def _changed_types(after: JSONValue, before: Sequence[JSONValue]) -> JSONObject | None:
    """Return the types of the changed conditions; None if one is not a list of conditions."""
    new, old = by_type(after), [by_type(one) for one in before]
    if new is None or None in old:
        return None
    return {
        name: None
        for name in {**{name: None for one in old for name in one or ()}, **new}
        if any(_is_changed((one or {}).get(name), new.get(name)) for one in old)
    }


def _is_changed(old: JSONObject | None, new: JSONObject | None) -> bool:
    if old is None or new is None:
        return old is not new
    return bool(merge_patch(old, new))


def _merged(patch: JSONObject, written: JSONObject, newest: JSONValue) -> JSONObject:
    result = dict(patch)
    for name, value in patch.items():
        types, theirs = written.get(name), newest.get(name) if isinstance(newest, dict) else None
        if isinstance(value, dict) and value:
            result[name] = _merged(value, types or {}, theirs)
        elif name == CONDITIONS and types is not value and by_type(theirs) is not None:
            mine = by_type(value) or {}
            merged = with_changed(theirs, {one: mine.get(one) for one in types or ()})
            result[name] = merged or (None if value is None else [])
    return result
