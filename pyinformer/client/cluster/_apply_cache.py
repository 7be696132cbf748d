"""What this process applied last, so that unchanged objects are not applied again.

Only the paths in what was applied are compared, with their values in the server's response: the
server's defaults, its spelling of numbers and other managers' fields make no difference. A list or
a map that the server tracks as one field, such as a selector, is owned as a whole. {} and [] are
values: an empty selector selects everything, and an absent one nothing.
An object in the version of the response is unchanged, whatever a transform has cut from it. Three
things cannot be compared: fields that were cut, an object of which only the metadata is known, and
a path that the server does not return (a write-only field, for example). Such an object counts as
changed whenever its resource version is another one.
What the server altered or did not return may be the work of a policy or of a webhook, which ends
without a change of the object: it is applied again after five minutes.
Digests are kept and not the objects; what was dropped for lack of room is applied once more.
So is what was applied before a term of leader election began: another leader may have added fields
under the same field manager meanwhile, which no comparison of these paths shows.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import hashlib
import math
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, TypeAlias, final

import msgspec
from msgspec import Struct

from pyinformer.client.cluster._merge_patch import identity_field, same
from pyinformer.errors import InvalidObjectError
from pyinformer.objects import (
    GroupVersionResource,
    JSONObject,
    JSONValue,
    KubeObject,
    null_as_absent,
)

_MAX_REMEMBERED = 65_536  # about 30 MB; the least recently used are dropped first
_ALTERED_KEPT_SECONDS: Final = 300.0
_SERVERS_OWN = frozenset({"managedFields", "resourceVersion", "uid"})
_SECRETS: Final = GroupVersionResource("", "v1", "secrets")
_EACH: Final = "[]"  # in a path: the elements of a list

_Path: TypeAlias = tuple[str, ...]
_Link: TypeAlias = "tuple[_Link | None, str]"
"""A field and what it is in; of the thousands in a large object few become a path."""

_canonical = msgspec.json.Encoder(order="deterministic").encode


class _Managed(Struct, frozen=True, rename="camel"):
    managed_fields: JSONValue = None


class _Response(Struct, frozen=True):
    metadata: _Managed = _Managed()


_decode_managed = null_as_absent(_Response, skims=False)


class ApplyKey(NamedTuple):
    """An object, and the field manager that applies it."""

    resource: GroupVersionResource
    key: str
    field_manager: str


class _Applied(NamedTuple):
    uid: str
    desired: bytes
    owned: bytes
    whole: frozenset[_Path]
    """The lists of objects, and the maps, that are owned as a whole; few objects have any."""
    version: str
    """The resource version of the response."""
    is_shown: bool
    """Whether the server returned all that was applied."""
    term: object
    """The term of leader election that applied it; None outside of any."""
    until: float
    """When it is applied again, whatever the object is then."""


@final
class ApplyCache:
    """Digests of the last responses to what one process applied.

    Args:
        clock: returns the seconds of a clock.
        limit: how many are kept.
    """

    def __init__(self, *, clock: Callable[[], float], limit: int = _MAX_REMEMBERED) -> None:
        self._clock = clock
        self._limit = limit
        self._applied: dict[ApplyKey, _Applied] = {}  # in the order of their last use
        self._under_way: Counter[ApplyKey] = Counter()
        self._overlapping: set[ApplyKey] = set()

    def __len__(self) -> int:
        return len(self._applied)

    @contextmanager
    def applying(self, identity: ApplyKey) -> Iterator[None]:
        """Forget what was applied: until the block ends, the state on the server is unknown."""
        self._applied.pop(identity, None)
        if self._under_way[identity]:
            self._overlapping.add(identity)
        self._under_way[identity] += 1
        try:
            yield
        finally:
            self._under_way[identity] -= 1
            if not self._under_way[identity]:
                del self._under_way[identity]
                self._overlapping.discard(identity)

    def remember(
        self,
        identity: ApplyKey,
        desired: JSONObject,
        response: KubeObject,
        raw: bytes,
        *,
        term: object = None,
    ) -> None:
        """Record what was applied, and what the server made of it.

        Nothing is recorded of applies that overlap, since their order on the server is unknown, and
        nothing of an object that is nested too deeply.

        Args:
            identity: who applied what.
            desired: what was applied.
            response: the object in the server's response.
            raw: the response, with managedFields. Without them, lists whose elements can be
                distinguished count as owned by element.
            term: the term of leader election in which it was applied; None outside of any.
        """
        self._applied.pop(identity, None)
        if identity in self._overlapping:
            return
        with suppress(InvalidObjectError, RecursionError):
            managed = _decode_managed(raw).metadata.managed_fields
            fields = _fields_of(managed, identity.field_manager)
            own = _own(desired, identity.resource)
            whole = frozenset[_Path]()
            if fields is not None:
                whole = frozenset(_lists(own)) - frozenset(_elements(fields, ()))
                whole |= frozenset(_whole_maps(fields, own, ()))
            wanted = _digest(own)
            image = _image(response.to_dict(), own, whole, ())
            owned = wanted if same(image, own) else _digest(image)
            meta = response.metadata
            shown = _matches(image, own, _are_shown)
            is_altered = owned != wanted and not _matches(image, own, same)
            until = self._clock() + _ALTERED_KEPT_SECONDS if is_altered else math.inf
            while len(self._applied) >= self._limit:
                del self._applied[next(iter(self._applied))]
            self._applied[identity] = _Applied(
                meta.uid, wanted, owned, whole, meta.resource_version, shown, term, until
            )

    def is_due(self, identity: ApplyKey) -> bool:
        """Return whether it is unknown, before it is sent, if an apply changes anything.

        What is unknown for lack of room is applied again each time, and is not due.
        """
        last = self._applied.get(identity)
        if last is None:
            return len(self._applied) < self._limit
        return not last.is_shown or self._clock() >= last.until

    def is_applied(
        self,
        identity: ApplyKey,
        desired: JSONObject,
        current: KubeObject[object],
        *,
        term: object = None,
    ) -> bool:
        """Return whether applying would change nothing that this process owns.

        Args:
            identity: who applies what.
            desired: what would be applied.
            current: the object as it is known now.
            term: the present term of leader election: what was applied before it is forgotten.
                None outside of any.
        """
        last = self._applied.pop(identity, None)
        if last is None or (term is not None and last.term is not term):
            return False
        self._applied[identity] = last
        own = _own(desired, identity.resource)
        if last.uid != current.metadata.uid or last.desired != _digest(own):
            return False
        if self._clock() >= last.until:
            return False
        if last.version == current.metadata.resource_version:
            return True
        if not last.is_shown:
            return False
        # However old `current` may be: an apply too many changes nothing, and after a restore of
        # the server's data an old version is the newest there is.
        try:
            image = _image(current.to_dict(), own, last.whole, ())
            return last.owned == (last.desired if same(image, own) else _digest(image))
        except (InvalidObjectError, RecursionError):  # a tenant must not prevent a repair
            return False


def _own(desired: JSONObject, resource: GroupVersionResource) -> JSONObject:
    """Return what was applied where the server keeps it, without what is the server's own."""
    if resource == _SECRETS:
        desired = _with_encoded_texts(desired)
    metadata = desired.get("metadata")
    if not isinstance(metadata, dict):
        return desired
    return {
        **desired,
        "metadata": {name: value for name, value in metadata.items() if name not in _SERVERS_OWN},
    }


def _with_encoded_texts(secret: JSONObject) -> JSONObject:
    """Return a Secret with its stringData in its data, as the server stores it."""
    texts, data = secret.get("stringData"), secret.get("data") or {}
    if not (isinstance(texts, dict) and isinstance(data, dict)):
        return secret
    if not all(isinstance(text, str) for text in texts.values()):
        return secret
    encoded = {name: b64encode(text.encode()).decode() for name, text in texts.items()}
    others = {name: value for name, value in secret.items() if name != "stringData"}
    return {**others, "data": {**data, **encoded}}


def _image(found: JSONValue, desired: JSONValue, whole: frozenset[_Path], path: _Path) -> JSONValue:
    """Return what an object has at the paths of another."""
    if found == desired:  # of a large object most is, and this is compared in C
        return found
    if isinstance(desired, dict) and isinstance(found, dict) and path not in whole:
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


def _matches(
    image: JSONValue, desired: JSONValue, agree: Callable[[JSONValue, JSONValue], bool]
) -> bool:
    """Return whether an image has a value at every path, and each agrees with what was applied.

    Servers leave out the false, the zero and the empty of many fields, and return any other value
    that they store there.

    Args:
        image: what an object has at the paths of `desired`.
        desired: what was applied.
        agree: whether two values agree that are there.
    """
    if image == desired:
        return agree(image, desired)
    if image is None:
        if isinstance(desired, dict):
            return all(_matches(None, value, agree) for value in desired.values())
        return not desired
    if isinstance(desired, dict) and isinstance(image, dict):
        return all(_matches(image.get(name), value, agree) for name, value in desired.items())
    if not (isinstance(desired, list) and isinstance(image, list)):
        return agree(image, desired)
    if not any(isinstance(element, dict) for element in desired):
        return agree(image, desired)
    field = identity_field(desired, image)
    if field is not None:
        elements = {element[field]: element for element in image}
        return all(_matches(elements.get(one[field]), one, agree) for one in desired)
    if len(image) != len(desired):
        return False
    return all(_matches(one, other, agree) for one, other in zip(image, desired, strict=True))


def _are_shown(_image: JSONValue, _desired: JSONValue) -> bool:
    """Agree with whatever the server made of a value: a change would be seen in it."""
    return True


def _lists(desired: JSONObject) -> Iterator[_Path]:
    """Yield the paths of all lists of objects."""
    left: list[tuple[JSONValue, _Link | None]] = [(desired, None)]
    while left:
        value, link = left.pop()
        if isinstance(value, dict):
            left += [
                (each, (link, name))
                for name, each in value.items()
                if isinstance(each, dict | list)
            ]
        elif isinstance(value, list) and any(isinstance(element, dict) for element in value):
            yield _path_of(link)
            left += [(element, (link, _EACH)) for element in value]


def _path_of(link: _Link | None) -> _Path:
    names: list[str] = []
    while link is not None:
        link, name = link
        names.append(name)
    return tuple(reversed(names))


def _fields_of(managed: JSONValue, field_manager: str) -> JSONValue:
    """Return the fields that a manager owns by its applies; None without managedFields.

    Source:
        KEP-555; sigs.k8s.io/structured-merge-diff fieldpath/serialize-pe.go.
    """
    for entry in managed if isinstance(managed, list) else ():
        found = entry if isinstance(entry, dict) else {}
        is_ours = found.get("manager") == field_manager and found.get("operation") == "Apply"
        if is_ours and not found.get("subresource"):
            return found.get("fieldsV1")
    return None


def _whole_maps(fields: JSONValue, desired: JSONValue, path: _Path) -> Iterator[_Path]:
    """Yield the paths of the maps that a manager owns as one field: without fields inside."""
    for name, inner in fields.items() if isinstance(fields, dict) else ():
        kind, _, field = name.partition(":")
        if kind == "k" and isinstance(desired, list):
            for element in desired:
                yield from _whole_maps(inner, element, (*path, _EACH))
        elif kind == "f" and isinstance(desired, dict):
            value, below = desired.get(field), (*path, field)
            if isinstance(value, dict) and not inner:
                yield below
            yield from _whole_maps(inner, value, below)


def _elements(fields: JSONValue, path: _Path) -> Iterator[_Path]:
    """Yield the paths of the lists of which a manager owns single elements."""
    for name, inner in fields.items() if isinstance(fields, dict) else ():
        kind, _, field = name.partition(":")
        if kind == "k":
            yield path
        if kind in {"f", "k"}:
            yield from _elements(inner, (*path, field if kind == "f" else _EACH))


def _digest(value: JSONValue) -> bytes:
    return hashlib.blake2b(_canonical(value), digest_size=16).digest()
