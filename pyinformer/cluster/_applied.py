"""What this process applied last, so that nothing is applied twice in vain.

What enters are applied objects and the server's answers; what leaves is whether an object still is
as this process left it. Only the paths in what was applied count, as the server answered them: its
defaults, its spelling of numbers and what others own make no difference. Nothing, null, {} and []
are alike. Digests are kept and no content; what is forgotten is applied once more.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple, final

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


@final
class AppliedMemory:
    """The last answers to what one process applied.

    Args:
        limit: how many are remembered.
    """

    def __init__(self, *, limit: int = _MAX_REMEMBERED) -> None:
        self._limit = limit
        self._applied: dict[Identity, _Applied] = {}  # in the order of their last use

    def __len__(self) -> int:
        return len(self._applied)

    def remember(
        self, identity: Identity, desired: JSONObject, answer: JSONObject, meta: ObjectMeta
    ) -> None:
        """Take note of what was applied, and of what the server made of it."""
        self._applied.pop(identity, None)
        while len(self._applied) >= self._limit:
            del self._applied[next(iter(self._applied))]
        owned = _owned(answer, desired)
        self._applied[identity] = _Applied(meta.uid, _digest(_own(desired)), _digest(owned))

    def forget(self, identity: Identity) -> None:
        """Take note that it is open what the server has."""
        self._applied.pop(identity, None)

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
        return last.owned == _digest(_owned(current, desired))


def _own(desired: JSONObject) -> JSONObject:
    metadata = desired.get("metadata")
    if not isinstance(metadata, dict):
        return desired
    return {
        **desired,
        "metadata": {name: value for name, value in metadata.items() if name not in _SERVERS_OWN},
    }


def _owned(found: JSONObject, desired: JSONObject) -> JSONValue:
    return _image(found, _own(desired))


def _image(found: JSONValue, desired: JSONValue) -> JSONValue:
    """Return what an object has at the paths of another."""
    if isinstance(desired, dict) and isinstance(found, dict):
        return {name: _image(found.get(name), value) for name, value in desired.items()}
    if isinstance(desired, list) and isinstance(found, list) and desired and found:
        field = identity_field(desired, found)
        if field is not None:
            elements = {element[field]: element for element in found}
            return [_image(elements.get(element[field]), element) for element in desired]
    return found


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
