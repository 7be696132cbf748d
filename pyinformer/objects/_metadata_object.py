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

_MARKS: Final = (b"\1", b"\2")
"""Placeholders for the text of the labels, and of the owners."""
_FIELDS: Final = (
    (b"\3", "name"),
    (b"\4", "uid"),
    (b"\5", "creation_timestamp"),
    (b"\6", "generate_name"),
    (b"\7", "namespace"),
)
"""Placeholders for fields; `generate_name` is the name without its last part."""
_PHRASES: Final = (
    (b"\x08", b'"name":"\3","generateName":"\6","namespace":"\7","uid":"\4","resourceVersion":"'),
    (b"\x0b", b'"name":"\3","namespace":"\7","uid":"\4","resourceVersion":"'),
    (b"\x0c", b',"creationTimestamp":"\5",'),
)
"""Placeholders for the texts that API servers write in between."""
_ALL_MARKS: Final = (*_MARKS, *(mark for mark, _ in (*_FIELDS, *_PHRASES)))
_SHARED: Final = ((b'"labels":{', b"}"), (b'"ownerReferences":[', b"]"))
_WORTH_IT = 8  # characters; a shorter text costs more time than it saves bytes
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
        body = body.replace(_MARKS[0], self._labels_text).replace(_MARKS[1], self._owners_text)
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
        if not raw.startswith(PARTIAL_HEAD) or any(mark in raw for mark in _ALL_MARKS):
            return KubeObject(key, metadata, view, raw, gvk, problem)
        body = raw[len(PARTIAL_HEAD) :]
        shared = [b"", b""]
        for place, (begin, end) in enumerate(_SHARED):
            # The text is restored in its place, so it need not be the whole value.
            start = body.find(begin)
            text = body[start : body.find(end, start) + 1] if start >= 0 else b""
            known = self._known(text) if text else None
            if known is not None:
                body = body.replace(known, _MARKS[place], 1)
                shared[place] = known
        for mark, field in _FIELDS:
            text = _text(metadata, field)
            if len(text) >= _WORTH_IT:
                body = body.replace(text, mark)
        for mark, phrase in _PHRASES:
            body = body.replace(phrase, mark)
        return MetadataObject(key, metadata, view, body, gvk, problem, *shared)

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


def _text(metadata: ObjectMeta, field: str) -> bytes:
    if field == "generate_name":
        head, dash, _ = metadata.name.rpartition("-")
        return f"{head}{dash}".encode()
    value: str | None = getattr(metadata, field)
    return (value or "").encode()
