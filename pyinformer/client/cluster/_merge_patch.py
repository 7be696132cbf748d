"""The smallest JSON merge patch that turns one object into another.

An object that was edited through a typed model is first completed: fields that the model does not
know are taken from the original, in elements of lists too. A null is equal to an absent field, as
for Kubernetes. Arguments are never changed.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from typing import Final

import msgspec

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import ABSENT, Absent, JSONObject, JSONValue

_NAMES: Final = ("name", "uid", "id", "type")
"""Fields that identify an element: with another value it is another element."""

_IDENTITIES: Final = (
    *_NAMES,
    "key",
    "ip",
    "mountPath",
    "devicePath",
    "topologyKey",
    "containerPort",
    "port",
)
"""Fields that distinguish the elements of a list, such as the merge keys of Kubernetes' types."""

_SERVERS_OWN: Final = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)

_MAX_COMPARED: Final = 250_000  # pairs of elements, which take 50 ms at most

_encode = msgspec.json.encode
_canonical = msgspec.json.Encoder(order="deterministic").encode


def merge_patch(before: JSONObject, after: JSONObject) -> JSONObject:
    """Return the patch that turns one object into another; empty if they are equal.

    Source:
        RFC 7386.
    """
    patch: JSONObject = {}
    for name, value in after.items():
        old = before.get(name)
        if same(old, value):
            continue
        if isinstance(old, dict) and isinstance(value, dict):
            inner = merge_patch(old, value)
            if inner:
                patch[name] = inner
        elif not _differ_by_nulls(old, value):
            patch[name] = value
    removed = (name for name, old in before.items() if old is not None and name not in after)
    return patch | dict.fromkeys(removed)


def joined_patch(first: JSONObject, second: JSONObject) -> JSONObject:
    """Return the patch that has the effect of both; they turn two objects into the same one."""
    inner = {
        name: joined_patch(first[name], value)
        for name, value in second.items()
        if isinstance(value, dict) and isinstance(first.get(name), dict)
    }
    return {**first, **second, **inner}


def object_patch(before: JSONObject, after: JSONObject) -> JSONObject:
    """Return the patch between two versions of an object, without fields that servers own."""
    patch = merge_patch(before, after)
    metadata = patch.get("metadata")
    if isinstance(metadata, dict):
        theirs = {name: value for name, value in metadata.items() if name not in _SERVERS_OWN}
        patch = {**patch, "metadata": theirs} if theirs else _without(patch, "metadata")
    return patch


def _without(patch: JSONObject, name: str) -> JSONObject:
    return {key: value for key, value in patch.items() if key != name}


def carry_over(whole: JSONValue, seen: JSONValue, edited: JSONValue, path: str = "") -> JSONValue:
    """Return an object with the edits that were made to its model, which shows only a part of it.

    Args:
        whole: the object.
        seen: the part of it that a model knows.
        edited: that part, after the edits.
        path: where this is, for errors.

    Returns:
        `whole`, but where `seen` and `edited` differ it is as in `edited`. Elements of lists are
        recognised by their name, type, port or the like; where they have none, by being equal,
        and else by their place.

    Raises:
        InvalidArgumentError: elements with fields that the model does not know cannot be
            distinguished, so it is unknown which of them was removed.
    """
    if same(seen, edited):
        return whole
    if same(whole, seen):  # the model shows all of it
        return edited
    if isinstance(edited, dict) and isinstance(whole, dict | Absent | None):
        known = seen if isinstance(seen, dict) else {}
        if isinstance(whole, dict) or known:
            return _carry_fields(whole if isinstance(whole, dict) else {}, known, edited, path)
    if isinstance(edited, list) and isinstance(seen, list) and isinstance(whole, list):
        return _carry_elements(whole, seen, edited, path)
    return edited


def same(first: JSONValue | Absent, second: JSONValue | Absent) -> bool:
    """Return whether two values are the same JSON: true is not 1, and 1 is 1.0."""
    if first is second:
        return True
    if isinstance(first, dict | list) and isinstance(second, dict | list):
        if first != second:  # in C: the values of a large object would take long one by one
            return False
        with suppress(OverflowError, RecursionError):  # the rest may be as large as it likes
            if _encode(first) == _encode(second):
                return True
    return _same_one_by_one(first, second)


def _same_one_by_one(first: JSONValue | Absent, second: JSONValue | Absent) -> bool:
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            _same_one_by_one(value, second[name]) for name, value in first.items()
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_same_one_by_one, first, second))
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


def _differ_by_nulls(first: JSONValue, second: JSONValue) -> bool:
    """Return whether two lists are the same but for nulls in their elements."""
    if not (isinstance(first, list) and isinstance(second, list)) or len(first) != len(second):
        return False
    with suppress(OverflowError, RecursionError):
        if b"null" in _encode((first, second)):  # in C: few lists have any
            return same(_without_nulls(first), _without_nulls(second))
    return False


def _without_nulls(value: JSONValue) -> JSONValue:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return list(map(_without_nulls, value)) if isinstance(value, list) else value


def identity_field(*lists: Sequence[JSONValue]) -> str | None:
    """Return the field that distinguishes the elements of all these lists, if there is one."""
    for field in _IDENTITIES:
        if all(map(_is_unique, lists, (field,) * len(lists))):
            return field
    return None


def _is_unique(elements: Sequence[JSONValue], field: str) -> bool:
    values = [element.get(field) for element in elements if isinstance(element, dict)]
    named = [value for value in values if isinstance(value, str | int)]
    return len(elements) == len(named) == len(set(named))


def _carry_fields(whole: JSONObject, seen: JSONObject, edited: JSONObject, path: str) -> JSONObject:
    result = dict(whole)
    for name in seen:
        if name not in edited:
            result.pop(name, None)
    for name, value in edited.items():
        before = seen.get(name, ABSENT)
        if not same(before, value):
            result[name] = carry_over(whole.get(name, ABSENT), before, value, f"{path}.{name}")
    return result


def _carry_elements(
    whole: list[JSONValue], seen: list[JSONValue], edited: list[JSONValue], path: str
) -> list[JSONValue]:
    if len(whole) != len(seen):  # the model has converted it to something else
        _check_nothing_lost(whole, [ABSENT] * len(whole), path)
        return edited
    origins = _origins(whole, seen, edited, path)
    return [
        # Numbers and texts have no unknown fields; and a model may have sorted a set of them.
        carry_over(whole[origin], seen[origin], value, f"{path}[{place}]")
        if origin is not None and isinstance(value, dict | list)
        else value
        for place, (origin, value) in enumerate(zip(origins, edited, strict=True))
    ]


def _origins(
    whole: list[JSONValue], seen: list[JSONValue], edited: list[JSONValue], path: str
) -> list[int | None]:
    """Return for each edited element the place of the one it was, or None for a new one."""
    field = identity_field(seen, edited)
    if field in _NAMES:
        places = {element[field]: place for place, element in enumerate(seen)}
        return [places.get(element[field]) for element in edited]
    before, after = _texts(seen, field), _texts(edited, field)
    blocks = _blocks(before, after)
    origins: list[int | None] = [None] * len(edited)
    for old, new in blocks:
        if before[old.start : old.stop] == after[new.start : new.stop]:
            origins[new.start : new.stop] = old
    _find_moved(origins, before, after)
    used = set(origins)
    for old, new in blocks:  # no two of them share a place
        left = [place for place in old if place not in used]
        open_places = [place for place in new if origins[place] is None]
        if len(left) == len(open_places):
            for place, origin in zip(open_places, left, strict=True):
                origins[place] = origin
    kept = {origin for origin in origins if origin is not None}
    lost = [place for place in range(len(seen)) if place not in kept]
    if None in origins or _are_alike(lost, origins, before, whole):
        images = [seen[place] for place in lost]
        _check_nothing_lost([whole[place] for place in lost], images, path)
    return origins


def _texts(elements: list[JSONValue], field: str | None) -> list[bytes]:
    """Return the texts by which elements are compared."""
    return [_canonical(element if field is None else element[field]) for element in elements]


def _blocks(before: list[bytes], after: list[bytes]) -> list[tuple[range, range]]:
    """Return which ranges of two lists correspond: equal places if the lengths are equal.

    Lists with long parts between their common ends correspond only at these ends: to compare the
    parts would take the product of their lengths, which a tenant may choose.
    """
    if len(before) == len(after):
        places = [range(place, place + 1) for place in range(len(before))]
        return list(zip(places, places, strict=True))
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    old, new = range(head, len(before) - tail), range(head, len(after) - tail)
    if len(old) * len(new) > _MAX_COMPARED:
        between = [(old, range(head, head)), (range(head, head), new)]
    else:
        matcher = SequenceMatcher(
            None, before[old.start : old.stop], after[new.start : new.stop], autojunk=False
        )
        between = [
            (range(head + a, head + b), range(head + c, head + d))
            for _, a, b, c, d in matcher.get_opcodes()
        ]
    return [
        (range(head), range(head)),
        *between,
        (range(old.stop, len(before)), range(new.stop, len(after))),
    ]


def _common(first: list[bytes], second: list[bytes]) -> int:
    """Return how many elements at the beginning of two lists are equal."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))


def _are_alike(
    lost: list[int], origins: list[int | None], before: list[bytes], whole: list[JSONValue]
) -> bool:
    """Return whether a lost element equals a kept one for the model, and differs from it."""
    kept = {before[origin]: whole[origin] for origin in origins if origin is not None}
    return any(
        before[place] in kept and not same(kept[before[place]], whole[place]) for place in lost
    )


def _find_moved(origins: list[int | None], before: list[bytes], after: list[bytes]) -> None:
    used = set(origins)
    free: dict[bytes, list[int]] = {}
    for place in reversed(range(len(before))):
        if place not in used:
            free.setdefault(before[place], []).append(place)
    for place, text in enumerate(after):
        if origins[place] is None and free.get(text):
            origins[place] = free[text].pop()


def _check_nothing_lost(
    whole: Sequence[JSONValue], images: Sequence[JSONValue | Absent], path: str
) -> None:
    if any(map(_holds_more, whole, images)):
        raise InvalidArgumentError(
            "edited",
            f"the elements of {path.removeprefix('.')} have fields that the model does not know,"
            " and no field that distinguishes them; edit to_dict() instead",
        )


def _holds_more(whole: JSONValue, image: JSONValue | Absent) -> bool:
    """Return whether a value has fields that its image does not show."""
    if isinstance(whole, dict):
        known = image if isinstance(image, dict) else {}
        return any(
            value is not None and (name not in known or _holds_more(value, known[name]))
            for name, value in whole.items()
        )
    if isinstance(whole, list):
        images = image if isinstance(image, list) else []
        images = images if len(images) == len(whole) else [ABSENT] * len(whole)
        return any(map(_holds_more, whole, images))
    return False
