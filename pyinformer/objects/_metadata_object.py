"""Records of metadata alone, which share text with their neighbours.

Such a record keeps its own text and builds the whole text at each read. The pods of one workload
have the same labels and owner: such a text is kept once, from the second time it is seen. The front
of the text, with the values that the record has in its fields, is not kept at all: it is left out
only if it can be written again byte for byte.
"""

from __future__ import annotations

from typing import Any, Final, final

from pyinformer.objects._intern import MAX_TEXT_BYTES, InternTable
from pyinformer.objects._keys_and_kinds import GroupVersionKind
from pyinformer.objects._meta import ObjectMeta
from pyinformer.objects._object import KubeObject, V, refuse_changes, stored_body
from pyinformer.objects._view import View

_HEAD: Final = '{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{'
PARTIAL_HEAD: Final = _HEAD.encode()
"""How API servers begin such an object."""

_NOTHING: Final = "%.0s"  # takes a value, and writes none of it
_FRONTS: Final = (
    *(
        f'{_HEAD}"name":"%s",{prefix}{place}"uid":"%s","resourceVersion":"%s",{generation}'
        '"creationTimestamp":"%s",'
        for prefix in ('"generateName":"%s",', _NOTHING)
        for place in ('"namespace":"%s",', _NOTHING)
        for generation in ('"generation":%s,', _NOTHING)
    ),
    _HEAD + 7 * _NOTHING,
)
"""How texts begin, up to the creation time, in the order in which API servers write it; the last
one fits every object."""
_HEAD_ONLY: Final = len(_FRONTS) - 1
_MAX_TEXTS = 16_384  # of a few hundred bytes each; then the table is emptied
_MAX_SEEN = 65_536  # 64-bit numbers


class MetadataObject(KubeObject[V], frozen=True, gc=False, eq=False):  # type: ignore[misc]  # final for others
    """A KubeObject of which only metadata is known; its content is the same."""

    _labels_text: bytes = b""
    _owners_text: bytes = b""
    _start: int = _HEAD_ONLY
    """Which front it has, plus the number of fronts for each byte between that and the labels."""
    _owners_rest: int = 0
    """How many bytes follow the owners."""

    @property  # type: ignore[misc]  # as read-only as the field
    def raw(self) -> bytes:
        """The JSON text, put together at each read; it calls itself a PartialObjectMetadata."""
        body: bytes = stored_body.__get__(self)
        before, front = divmod(self._start, len(_FRONTS))
        amid = len(body) - self._owners_rest
        return b"".join(
            (
                _front(self.metadata, front),
                body[:before],
                self._labels_text,
                body[before:amid],
                self._owners_text,
                body[amid:],
            )
        )


refuse_changes(MetadataObject)


@final
class MetadataSharer:
    """Creates the records of one informer, in one thread."""

    def __init__(self) -> None:
        self._texts: InternTable[bytes] = InternTable(bytes, max_entries=_MAX_TEXTS)
        self._seen: set[int] = set()
        self._of: dict[tuple[object, ...], bytes] = {(): b""}
        """The latest shared text of labels, and of owners, whose values are shared as well."""
        self._front = 0  # of the latest object

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
        front, text_of = self._front, self._of.get
        labels = text_of(metadata.labels._flat)  # noqa: SLF001 - its hash is computed in C
        owners = text_of(metadata.owner_references)
        if labels is not None and owners is not None:
            text = _front(metadata, front) + labels
            if raw.startswith(text):
                begin = raw.rfind(owners, at := len(text))
                if begin >= 0:
                    rest = len(raw) - (stop := begin + len(owners))
                    body = raw[at:begin] + raw[stop:]
                    return MetadataObject(
                        key, metadata, view, body, gvk, problem, labels, owners, front, rest
                    )
        if not raw.startswith(PARTIAL_HEAD):
            return KubeObject(key, metadata, view, raw, gvk, problem)
        return self._record_first(key, metadata, view, raw, gvk, problem)

    def _record_first(  # noqa: PLR0917 - as above
        self,
        key: str,
        metadata: ObjectMeta,
        view: View | None,
        raw: bytes,
        gvk: GroupVersionKind,
        problem: str,
    ) -> KubeObject[Any]:
        """Return the record of an object that begins otherwise, or shares other texts."""
        front = next(n for n in range(len(_FRONTS)) if raw.startswith(_front(metadata, n)))
        start = at = len(_front(metadata, front))
        before = rest = 0
        labels = owners = b""
        end = len(raw)
        if len(self._of) > _MAX_TEXTS:
            self._of = {(): b""}
        # A shared text is restored in its place, so it need not be the whole value.
        begin = raw.find(b'"labels":{', start)
        if begin >= 0:
            stop = raw.find(b"}", begin) + 1
            if found := self._known(raw[begin:stop]):
                labels, before, at = found, begin - start, stop
                self._of[metadata.labels._flat] = labels  # noqa: SLF001
        begin = raw.rfind(b'"ownerReferences":[', at)
        if begin >= 0:
            stop = raw.find(b"]", begin) + 1
            if found := self._known(raw[begin:stop]):
                owners, rest, end = found, end - stop, begin
                self._of[metadata.owner_references] = owners
        if front != _HEAD_ONLY:
            self._front = front
        body = raw[start : start + before] + raw[at:end] + raw[len(raw) - rest :]
        places = before * len(_FRONTS) + front, rest
        return MetadataObject(key, metadata, view, body, gvk, problem, labels, owners, *places)

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


def _front(meta: ObjectMeta, which: int) -> bytes:
    """Return the text of an object up to its creation time."""
    name = meta.name
    text = _FRONTS[which] % (
        name,
        name[: name.rfind("-") + 1],  # the prefix of a generated name
        meta.namespace,
        meta.uid,
        meta.resource_version,
        meta.generation,
        meta.creation_timestamp,
    )
    return text.encode()
