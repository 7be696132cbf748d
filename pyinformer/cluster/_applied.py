"""What this process applied last, so that nothing is applied twice in vain.

What enters are applied objects and the server's answers; what leaves is whether an object still is
as this process left it. Only the paths in what was applied count, as the server answered them: its
defaults, its spelling of numbers and what others own make no difference; a list that the server
counts as one field is owned as a whole. Nothing, null, {} and [] are alike. Digests are kept and no
content; what is forgotten is applied once more.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias, final

import msgspec

from pyinformer.apimachinery import (
    GroupVersionResource,
    JSONObject,
    JSONValue,
    ObjectMeta,
)
from pyinformer.cluster._patches import identity_field

_MAX_REMEMBERED = 65_536  # about 30 MB; the one that was asked for longest ago goes first
_SERVERS_OWN = frozenset({"managedFields", "resourceVersion", "uid"})
_EACH: Final = "[]"  # in a path: the elements of a list

_Path: TypeAlias = tuple[str, ...]

_canonical = msgspec.json.Encoder(order="deterministic").encode


class Identity(NamedTuple):
    """Who applies what."""

    resource: GroupVersionResource
    key: str
    field_manager: str


class _Applied(NamedTuple):
    uid: str
    desired: bytes
    owned: bytes
    whole: frozenset[_Path]
    """The lists of objects that are owned as a whole; few objects have any."""


@final
class AppliedMemory:
    """The last answers to what one process applied.

    Args:
        limit: how many are remembered.
    """

    def __init__(self, *, limit: int = _MAX_REMEMBERED) -> None:
        self._limit = limit
        self._applied: dict[Identity, _Applied] = {}  # in the order of their last use
        self._under_way: Counter[Identity] = Counter()
        self._overlapping: set[Identity] = set()

    def __len__(self) -> int:
        return len(self._applied)

    def begin(self, identity: Identity) -> None:
        """Take note that an apply is under way: until `end` it is open what the server has."""
        self._applied.pop(identity, None)
        if self._under_way[identity]:
            self._overlapping.add(identity)
        self._under_way[identity] += 1

    def end(self, identity: Identity) -> None:
        """Take note that an apply is over, whatever came of it."""
        self._under_way[identity] -= 1
        if not self._under_way[identity]:
            del self._under_way[identity]
            self._overlapping.discard(identity)

    def remember(
        self,
        identity: Identity,
        desired: JSONObject,
        answer: JSONObject,
        meta: ObjectMeta,
        managed: JSONValue = None,
    ) -> None:
        """Take note of what was applied, and of what the server made of it.

        Nothing is noted of applies that overlap: which of them was carried out last is not known.

        Args:
            identity: who applied what.
            desired: what was applied.
            answer: the object in the server's answer.
            meta: its metadata.
            managed: its `metadata.managedFields`. Without them, lists whose elements can be told
                apart count as owned by element.
        """
        self._applied.pop(identity, None)
        if identity in self._overlapping:
            return
        while len(self._applied) >= self._limit:
            del self._applied[next(iter(self._applied))]
        shared = _shared_lists(managed, identity.field_manager)
        whole = frozenset[_Path]() if shared is None else frozenset(_lists(desired)) - shared
        owned = _digest(_owned(answer, desired, whole))
        self._applied[identity] = _Applied(meta.uid, _digest(_own(desired)), owned, whole)

    def has_room_for(self, identity: Identity) -> bool:
        """Return whether it is not known what was applied, but will be from the next answer on.

        What is not known for lack of room is written in vain again and again.
        """
        return identity not in self._applied and len(self._applied) < self._limit

    def is_applied(
        self, identity: Identity, desired: JSONObject, current: JSONObject, meta: ObjectMeta
    ) -> bool:
        """Return whether applying would change nothing that this process owns.

        Args:
            identity: who applies what.
            desired: what would be applied.
            current: the object as it is known now.
            meta: its metadata.
        """
        last = self._applied.pop(identity, None)
        if last is None:
            return False
        self._applied[identity] = last
        if last.uid != meta.uid or last.desired != _digest(_own(desired)):
            return False
        # However old `current` may be: an apply too many changes nothing, and after a restore of
        # the server's data an old version is the newest there is.
        return last.owned == _digest(_owned(current, desired, last.whole))


def _own(desired: JSONObject) -> JSONObject:
    metadata = desired.get("metadata")
    if not isinstance(metadata, dict):
        return desired
    return {
        **desired,
        "metadata": {name: value for name, value in metadata.items() if name not in _SERVERS_OWN},
    }


def _owned(found: JSONObject, desired: JSONObject, whole: frozenset[_Path]) -> JSONValue:
    return _image(found, _own(desired), whole, ())


def _image(found: JSONValue, desired: JSONValue, whole: frozenset[_Path], path: _Path) -> JSONValue:
    """Return what an object has at the paths of another."""
    if isinstance(desired, dict) and isinstance(found, dict):
        return {
            name: _image(found.get(name), value, whole, (*path, name))
            for name, value in desired.items()
        }
    both = isinstance(desired, list) and isinstance(found, list) and desired and found
    if both and path not in whole:
        field = identity_field(desired, found)
        if field is not None:
            elements = {element[field]: element for element in found}
            inner = (*path, _EACH)
            return [_image(elements.get(one[field]), one, whole, inner) for one in desired]
    return found


def _lists(value: JSONValue, path: _Path = ()) -> Iterator[_Path]:
    """Yield the paths of all lists of objects."""
    if isinstance(value, dict):
        for name, field in value.items():
            yield from _lists(field, (*path, name))
    if isinstance(value, list) and any(isinstance(element, dict) for element in value):
        yield path
        for element in value:
            yield from _lists(element, (*path, _EACH))


def _shared_lists(managed: JSONValue, field_manager: str) -> frozenset[_Path] | None:
    """Return the lists of which a manager owns single elements; None if the server does not say.

    Source:
        KEP-555; sigs.k8s.io/structured-merge-diff fieldpath/serialize-pe.go.
    """
    for entry in managed if isinstance(managed, list) else ():
        found = entry if isinstance(entry, dict) else {}
        is_ours = found.get("manager") == field_manager and found.get("operation") == "Apply"
        if is_ours and not found.get("subresource"):
            return frozenset(_elements(found.get("fieldsV1"), ()))
    return None


def _elements(fields: JSONValue, path: _Path) -> Iterator[_Path]:
    for name, inner in fields.items() if isinstance(fields, dict) else ():
        kind, _, field = name.partition(":")
        if kind == "k":
            yield path
        if kind in {"f", "k"}:
            yield from _elements(inner, (*path, field if kind == "f" else _EACH))


def _digest(value: JSONValue) -> bytes:
    return hashlib.blake2b(_canonical(_dense(value)), digest_size=16).digest()


def _dense(value: JSONValue) -> JSONValue:
    """Return a value without the fields that say nothing."""
    if isinstance(value, dict):
        dense = ((name, _dense(field)) for name, field in value.items())
        return {name: field for name, field in dense if field is not None} or None
    if isinstance(value, list):
        return [_dense(element) for element in value] or None
    return value
