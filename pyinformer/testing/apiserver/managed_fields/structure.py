"""Compare, merge and prune objects along their merge schema, as server-side apply does.

No argument is changed. A keyed list whose items lack their keys, or repeat them, is treated as one
value.

Source:
    sigs.k8s.io/structured-merge-diff, typed/tofieldset.go, compare.go, merge.go and remove.go.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.managed_fields import field_sets
from pyinformer.testing.apiserver.managed_fields.field_sets import Path
from pyinformer.testing.apiserver.resources import Shape, identity_of


class _Part(NamedTuple):
    value: JSONValue
    shape: Shape
    is_declared: bool  # whether it is a field of the type, not an item or a map key


@dataclass(slots=True)
class Changes:
    """The differences between two versions of an object."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    @property
    def written(self) -> set[Path]:
        """The paths that were added or changed."""
        return self.added | self.modified


def _parts(value: JSONValue, shape: Shape) -> dict[str, _Part] | None:
    """Return the parts of a value by path element; None if the value is atomic."""
    if isinstance(value, dict):
        if shape.is_atomic_map:
            return None
        return {
            field_sets.field(name): _Part(child, shape.field(name), shape.declares(name))
            for name, child in value.items()
        }
    keys = shape.list_keys
    if not isinstance(value, list) or keys is None:
        return None
    found: dict[str, _Part] = {}
    for item in value:
        element = _element(item, keys)
        if element is None or element in found:
            return None
        found[element] = _Part(item, shape.item(), is_declared=False)
    return found


def _element(item: JSONValue, keys: tuple[str, ...]) -> str | None:
    if not keys:
        return None if isinstance(item, (dict, list)) else field_sets.valued(item)
    identity = identity_of(item, keys)
    return None if identity is None else field_sets.keyed(identity)


def item_text(item: JSONValue, shape: Shape, number: int) -> str:
    """Return the place of a list item in messages: `[name="a"]`, or `[0]` in an atomic list."""
    element = None if shape.list_keys is None else _element(item, shape.list_keys)
    return f"[{number}]" if element is None else field_sets.element_text(element)


def fields_of(value: JSONValue, shape: Shape) -> set[Path]:
    """Return the fields that a configuration claims for its author."""
    found: set[Path] = set()

    def walk(part: _Part, path: Path) -> None:
        parts = _parts(part.value, part.shape)
        is_own = parts is None or not part.is_declared or part.value == {}
        if is_own and path:
            found.add(path)
        for element, child in (parts or {}).items():
            walk(child, (*path, element))

    walk(_Part(value, shape, is_declared=True), ())
    return found


def fields_of_new(content: JSONObject, shape: Shape) -> JSONObject:
    """Return, as FieldsV1, the fields of a new object.

    The result is that of `compare` with empty metadata, but faster: most writes of a test are
    creates.
    """
    return {
        field_sets.field(name): _new_fields(content[name], shape.field(name), shape.declares(name))
        for name in sorted(content)
        if name != "metadata" or content[name]
    }


def _new_fields(value: JSONValue, shape: Shape, is_declared: bool) -> JSONObject:  # noqa: FBT001
    if not isinstance(value, (dict, list)):
        return {}
    if isinstance(value, dict):
        if shape.is_atomic_map or not value:
            return {}
        below = {
            field_sets.field(name): _new_fields(
                value[name], shape.field(name), shape.declares(name)
            )
            for name in sorted(value)
            if name != "metadata" or value[name] or not shape.is_implied
        }
    else:
        parts = _parts(value, shape)
        if not parts:
            return {}
        below = {
            element: _new_fields(parts[element].value, parts[element].shape, False)
            for element in sorted(parts)
        }
    return below if is_declared and shape.is_implied else {field_sets.ITSELF: {}, **below}


def compare(before: JSONValue, after: JSONValue, shape: Shape) -> Changes:
    """Return the differences between two versions of an object."""
    changes = Changes()
    _compare(_Part(before, shape, True), _Part(after, shape, True), (), changes)
    return changes


def _compare(before: _Part | None, after: _Part | None, path: Path, changes: Changes) -> None:
    if before is None or after is None:
        _one_sided(before, after, path, changes)
        return
    if before.value == after.value:
        return
    old = _parts(before.value, before.shape)
    new = _parts(after.value, after.shape)
    if type(before.value) is not type(after.value):
        old, new = old or {}, new or {}
        is_null = before.value is None or after.value is None
        if not (is_null and (old or new)):  # beside parts, null is as an empty list or map
            changes.modified.add(path)
    elif old is None or new is None:
        changes.modified.add(path)
        return
    for element in {**old, **new}:
        _compare(old.get(element), new.get(element), (*path, element), changes)


def _one_sided(before: _Part | None, after: _Part | None, path: Path, changes: Changes) -> None:
    part, found = (before, changes.removed) if after is None else (after, changes.added)
    if part is None:
        return
    parts = _parts(part.value, part.shape)
    if not parts or not (part.is_declared and part.shape.is_implied):
        found.add(path)
    for element, child in (parts or {}).items():
        if after is None:
            _one_sided(child, None, (*path, element), changes)
        else:
            _one_sided(None, child, (*path, element), changes)


def merge(live: JSONValue, wanted: JSONValue, shape: Shape) -> JSONValue:
    """Return the live value with the wanted one merged into it."""
    old, new = _parts(live, shape), _parts(wanted, shape)
    if old is None or new is None or type(live) is not type(wanted):
        return wanted
    if isinstance(live, dict) and isinstance(wanted, dict):
        laid: JSONObject = {
            name: merge(live[name], value, shape.field(name)) if name in live else value
            for name, value in wanted.items()
        }
        return {**live, **laid}
    merged = {
        element: merge(old[element].value, part.value, part.shape) if element in old else part.value
        for element, part in new.items()
    }
    return [merged[one] if one in merged else old[one].value for one in _order(list(old), new)]


def _order(old: list[str], new: Collection[str]) -> list[str]:
    """Order the items of both lists: wanted items in their order, the others in place."""
    order: list[str] = []
    waiting = list(new)
    shared = [element for element in new if element in old]
    for element in old:
        if element not in new:
            order.append(element)
        elif element == shared[0]:  # wanted items are placed later
            length = waiting.index(element) + 1
            order += waiting[:length]
            del waiting[:length], shared[0]
            if not shared:
                shared.append("")
    return order + waiting


def ambiguity(value: JSONValue, shape: Shape) -> tuple[Path, str | None] | None:
    """Find a keyed list whose items lack their keys or repeat them.

    Returns:
        The path of the list and the repeated item, or None for an item without its keys; None if
        there is no such list.
    """

    def walk(part: _Part, path: Path) -> tuple[Path, str | None] | None:
        keys = part.shape.list_keys
        if isinstance(part.value, list) and keys is not None:
            seen: set[str] = set()
            for item in part.value:
                element = _element(item, keys)
                if element is None or element in seen:
                    return path, element
                seen.add(element)
        for element, child in (_parts(part.value, part.shape) or {}).items():
            found = walk(child, (*path, element))
            if found is not None:
                return found
        return None

    return walk(_Part(value, shape, is_declared=True), ())


def pruned(
    merged: JSONValue, last: Collection[Path], held: Collection[Path], shape: Shape
) -> JSONValue:
    """Return a merged value without the parts that its applier has dropped.

    What the applier owned goes, unless a manager holds it. A declared field is held by any field
    below it, but an item of a list or a key of a map only by its own path. It goes as a whole, with
    the fields below it that other managers own: without its keys, the rest would not be an item.

    Args:
        merged: the live value with the configuration merged into it.
        last: the fields that the applier owned before.
        held: the fields that any manager owns with this configuration.
        shape: the shape of the value.

    Source:
        sigs.k8s.io/structured-merge-diff merge/update.go, prune.
    """
    everything = _with_declared(fields_of(merged, shape), shape)
    owned, needed = _with_declared(last, shape), _with_declared(held, shape)
    others = _with_declared(fields_of(without(merged, owned, shape), shape), shape)
    rest = without(merged, everything - others - needed, shape)
    kept = _with_declared(fields_of(rest, shape), shape)
    return without(merged, (everything - kept) & owned, shape)  # what has no owner stays


def _with_declared(paths: Collection[Path], shape: Shape) -> set[Path]:
    """Return paths together with the declared fields that lead to them.

    Source:
        sigs.k8s.io/structured-merge-diff fieldpath/set.go, EnsureNamedFieldsAreMembers.
    """
    found = set(paths)
    shapes: dict[Path, Shape] = {(): shape}
    for path in paths:
        for length in range(1, len(path)):
            part = path[:length]
            if part not in shapes:
                above = shapes[part[:-1]]
                kind, _, name = part[-1].partition(":")
                shapes[part] = above.field(name) if kind == "f" else above.item()
                if kind == "f" and above.declares(name):
                    found.add(part)
    return found


def without(value: JSONValue, doomed: Collection[Path], shape: Shape) -> JSONValue:
    """Return a value without the parts at these paths; what loses all its parts is null.

    Source:
        sigs.k8s.io/structured-merge-diff typed/remove.go.
    """

    def walk(part: _Part, path: Path) -> JSONValue:
        parts = _parts(part.value, part.shape)
        if not parts:
            return part.value
        kept = {
            element: walk(child, (*path, element))
            for element, child in parts.items()
            if (*path, element) not in doomed
        }
        return _whole(part.value, kept) if kept else None

    return walk(_Part(value, shape, is_declared=True), ())


def without_nulls(value: JSONValue, shape: Shape) -> JSONValue:
    """Return a value without its null fields; atomic parts keep theirs."""
    parts = _parts(value, shape)
    if not parts:
        return value
    kept = {
        element: without_nulls(part.value, part.shape)
        for element, part in parts.items()
        if part.value is not None
    }
    return _whole(value, kept)


def _whole(value: JSONValue, parts: dict[str, JSONValue]) -> JSONValue:
    """Return a list or a map like the value, of these parts."""
    if isinstance(value, list):
        return list(parts.values())
    return {element.removeprefix("f:"): part for element, part in parts.items()}
