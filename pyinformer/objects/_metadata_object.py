"""Records of metadata alone, which share text with their neighbours.

Such a record keeps its own text and builds the whole text at each read. The pods of one workload
have the same labels and owner: such a text is kept once, from the second time it is seen. Values
that the record has in its fields are not kept twice. A control character, which JSON text cannot
contain, stands for each of them, so every text is restored byte for byte.
"""

from __future__ import annotations

from typing import Any, Final, final

from pyinformer.objects._intern import MAX_TEXT_BYTES, InternTable
from pyinformer.objects._keys_and_kinds import GroupVersionKind
from pyinformer.objects._meta import ObjectMeta
from pyinformer.objects._object import KubeObject, V, refuse_changes, stored_body
from pyinformer.objects._view import View

PARTIAL_HEAD: Final = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{'
"""How API servers begin such an object."""

_LABELS, _OWNERS = b"\1", b"\2"
"""Placeholders for the text of the labels, and of the owners."""
_FIELDS: Final = (
    (b"\3", "name"),
    (b"\4", "uid"),
    (b"\5", "creation_timestamp"),
    (b"\6", "generate_name"),
    (b"\7", "namespace"),
)
"""Placeholders for fields; `generate_name` is the name without its last part."""
_GENERATED, _NAMED, _CREATED = b"\x08", b"\x0b", b"\x0c"
_PHRASES: Final = (
    (
        _GENERATED,
        b'"name":"\3","generateName":"\6","namespace":"\7","uid":"\4","resourceVersion":"',
    ),
    (_NAMED, b'"name":"\3","namespace":"\7","uid":"\4","resourceVersion":"'),
    (_CREATED, b',"creationTimestamp":"\5",'),
)
"""Placeholders for the texts that API servers write around fields, in this order."""
_MARKS: Final = b"".join((_LABELS, _OWNERS, *(mark for mark, _ in (*_FIELDS, *_PHRASES))))
_MAX_TEXTS = 16_384  # of a few hundred bytes each; then the table is emptied
_MAX_SEEN = 65_536  # 64-bit numbers


class MetadataObject(KubeObject[V], frozen=True, gc=False, eq=False):  # type: ignore[misc]  # final for others
    """A KubeObject of which only metadata is known; its content is the same."""

    _labels_text: bytes = b""
    _owners_text: bytes = b""

    @property  # type: ignore[misc]  # as read-only as the field
    def raw(self) -> bytes:
        """The JSON text, put together at each read; it calls itself a PartialObjectMetadata."""
        body: bytes = stored_body.__get__(self)
        for mark, phrase in reversed(_PHRASES):
            body = body.replace(mark, phrase)
        for mark, field in reversed(_FIELDS):
            body = body.replace(mark, _text(self.metadata, field))
        # The text of the owners may hold the placeholder of the labels, which were replaced first.
        body = body.replace(_OWNERS, self._owners_text).replace(_LABELS, self._labels_text)
        return PARTIAL_HEAD + body


refuse_changes(MetadataObject)


@final
class MetadataSharer:
    """Creates the records of one informer, in one thread."""

    def __init__(self) -> None:
        self._texts: InternTable[bytes] = InternTable(bytes, max_entries=_MAX_TEXTS)
        self._seen: set[int] = set()

    def record(  # noqa: PLR0917 - called in the place of KubeObject, for every object
        self,
        key: str,
        metadata: ObjectMeta,
        view: View | None,
        raw: bytes,
        gvk: GroupVersionKind,
        problem: str,
    ) -> KubeObject[Any]:
        """Return the record of an object; the arguments are those of KubeObject."""
        if not raw.startswith(PARTIAL_HEAD) or len(raw.translate(None, _MARKS)) < len(raw):
            return KubeObject(key, metadata, view, raw, gvk, problem)
        body = raw[len(PARTIAL_HEAD) :]
        body, labels = self._share(body, b'"labels":{', b"}", _LABELS)
        body, owners = self._share(body, b'"ownerReferences":[', b"]", _OWNERS)
        body = _without_fields(body, metadata)
        return MetadataObject(key, metadata, view, body, gvk, problem, labels, owners)

    def _share(self, body: bytes, begin: bytes, end: bytes, mark: bytes) -> tuple[bytes, bytes]:
        """Put a placeholder for a text that is shared; return it, too, empty if it is not."""
        start = body.find(begin)
        if start >= 0:
            # It is restored in its place, so it need not be the whole value.
            stop = body.find(end, start) + 1
            if known := self._known(body[start:stop]):
                return body[:start] + mark + body[stop:], known
        return body, b""

    def _known(self, text: bytes) -> bytes | None:
        """Return the shared copy of a text; None if it is seen for the first time."""
        known = self._texts.known.get(text)
        if known is None and len(text) <= MAX_TEXT_BYTES:
            digest = hash(text)
            if digest in self._seen:
                known = self._texts.add(text)
            else:
                if len(self._seen) >= _MAX_SEEN:
                    self._seen.clear()
                self._seen.add(digest)
        return known


def _without_fields(body: bytes, meta: ObjectMeta) -> bytes:
    """Return the text behind the head, without what the record has in its fields."""
    name = meta.name
    place = f'"namespace":"{meta.namespace}","uid":"{meta.uid}","resourceVersion":"'
    prefix = _prefix_of(name)
    text = f'"name":"{name}","generateName":"{prefix}",{place}'.encode()
    if body.startswith(text):
        body = _GENERATED + body[len(text) :]
    elif body.startswith(text := f'"name":"{name}",{place}'.encode()):
        body = _NAMED + body[len(text) :]
    created = f',"creationTimestamp":"{meta.creation_timestamp or ""}",'.encode()
    return body.replace(created, _CREATED, 1)


def _text(metadata: ObjectMeta, field: str) -> bytes:
    if field == "generate_name":
        return _prefix_of(metadata.name).encode()
    value: str | None = getattr(metadata, field)
    return (value or "").encode()


def _prefix_of(name: str) -> str:
    """Return a name without its last part."""
    return name[: name.rfind("-") + 1]
