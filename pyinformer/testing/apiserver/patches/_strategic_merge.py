"""Strategic merge patches: JSON merge patches that merge keyed lists item by item.

No argument is changed. Directives: `$patch` (replace, delete, merge), `$retainKeys`,
`$deleteFromPrimitiveList/<list>`, `$setElementOrder/<list>`.

Source:
    k8s.io/apimachinery pkg/util/strategicpatch/patch.go, mergeMap and mergeSliceHandler.
"""

from __future__ import annotations

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.requests import Failure
from pyinformer.testing.apiserver.resources import BuiltInShape

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge(body: JSONObject, patch: JSONObject, shape: BuiltInShape) -> JSONObject:
    """Return a map with a patch applied.

    Args:
        body: the map.
        patch: the patch of it.
        shape: the merge rules of the map.

    Raises:
        Failure: a directive is invalid (400), or an item of the patch lacks its key (500).
    """
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return _plain(patch)
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise Failure(400, f"unknown patch type found: {directive}")
    merged = dict(body)
    retained = patch.get(_RETAIN)
    if isinstance(retained, list):
        merged = {name: value for name, value in merged.items() if name in retained}
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM) and isinstance(value, list):
            field = name.removeprefix(_DELETE_FROM)
            merged[field] = [one for one in merged.get(field) or () if one not in value]
        elif not name.startswith("$"):
            _merge_field(merged, name, value, shape.field(name))
    for name, value in patch.items():
        field = name.removeprefix(_ORDER)
        if name.startswith(_ORDER) and isinstance(value, list) and field in merged:
            key = shape.field(field).merge_key
            merged[field] = _arranged(merged[field], value, body.get(field), key)
    return merged


def _merge_field(merged: JSONObject, name: str, value: JSONValue, shape: BuiltInShape) -> None:
    old = merged.get(name)
    if value is None:
        merged.pop(name, None)
    elif isinstance(value, dict):
        below = strategic_merge(old if isinstance(old, dict) else {}, value, shape)
        if value.get(_DIRECTIVE) == "delete":
            merged.pop(name, None)
        else:
            merged[name] = below
    elif isinstance(value, list):
        merged[name] = _merge_list(old if isinstance(old, list) else [], value, shape)
    else:
        merged[name] = value


def _merge_list(old: list[JSONValue], patch: list[JSONValue], shape: BuiltInShape) -> JSONValue:
    key = shape.merge_key
    if key is None:
        return [_plain(item) if isinstance(item, dict) else item for item in patch]
    if not key:
        both = old + [item for item in patch if item not in old]
        return _arranged(both, patch, old, key)
    items = [item for item in patch if isinstance(item, dict)]
    if any(item.get(_DIRECTIVE) == "replace" for item in items):
        return [_plain(item) for item in items if item.get(_DIRECTIVE) != "replace"]
    merged = {_key_of(item, key): item for item in old if isinstance(item, dict)}
    for item in items:
        identity = _key_of(item, key)
        if item.get(_DIRECTIVE) == "delete":
            merged.pop(identity, None)
        else:
            merged[identity] = strategic_merge(merged.get(identity) or {}, item, shape.item())
    return _arranged(list(merged.values()), patch, old, key)


def _key_of(item: JSONObject, key: str) -> JSONValue:
    if key not in item:
        shown = " ".join(f"{name}:{value}" for name, value in item.items())
        message = f"map: map[{shown}] does not contain declared merge key: {key}"
        raise Failure(500, message, reason="")
    return item[key]


def _arranged(merged: JSONValue, order: JSONValue, old: JSONValue, key: str | None) -> JSONValue:
    """Order the items of a merged list.

    Items that an order or a patch names are in its order. The others keep their places around
    them, after new items.
    """
    if not (isinstance(merged, list) and isinstance(order, list)) or key is None:
        return merged
    places = {_place(item, key): number for number, item in enumerate(order)}
    before = {_place(item, key): number for number, item in enumerate(old or ())}
    named = [item for item in merged if _place(item, key) in places]
    named.sort(key=lambda item: places[_place(item, key)])
    others = [item for item in merged if _place(item, key) not in places]
    found: list[JSONValue] = []
    for item in named:
        was_at = before.get(_place(item, key), -1)
        while others and before.get(_place(others[0], key), was_at) < was_at:
            found.append(others.pop(0))
        found.append(item)
    return found + others


def _place(item: JSONValue, key: str) -> str:
    return repr(item.get(key) if isinstance(item, dict) else item)


def _plain(patch: JSONObject) -> JSONObject:
    """Return a patch without its directives and without the fields that it removes."""
    return {
        name: _plain(value) if isinstance(value, dict) else value
        for name, value in patch.items()
        if value is not None and not name.startswith("$")
    }
