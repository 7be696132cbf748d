"""Decodes the bytes of one object into the shared record: the hottest code of the library.

The body of a record always has apiVersion and kind, and no managedFields if those are stripped. The
fast path decodes the two shapes that API servers write, in one pass; everything that it cannot
prove goes to the slow path, which rebuilds the object field by field.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Generic, final

from msgspec import Raw, ValidationError

from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.errors import InvalidObjectError
from pyinformer.objects._compact import BodyPacker
from pyinformer.objects._decoding_structs import (
    WireMeta,
    decode_labels,
    decode_owners,
    decode_wire_meta,
    decode_wire_object,
    encode,
    skip_object,
    tail_decoder,
    view_builder,
    wire_decoder,
)
from pyinformer.objects._depth import (
    MAX_DEPTH,
    SKIPPED_BYTES,
    check_complete_depth,
    check_skipped_depth,
    is_nested_too_deeply,
)
from pyinformer.objects._fallback_identity import (
    identity_of,
    known_by_metadata,
    metadata_of,
    named_kind,
    unreadable,
)
from pyinformer.objects._intern import InternStatistics, InternTable
from pyinformer.objects._json_decoders import (
    DECODE_FAILURES,
    TOO_DEEP,
    shown_complaint_of,
    without_lone_surrogates,
    without_nulls,
)
from pyinformer.objects._json_field_scanner import Fields, fields_of
from pyinformer.objects._keys_and_kinds import (
    PARTIAL_OBJECT_METADATA,
    GroupVersionKind,
    GroupVersionResource,
)
from pyinformer.objects._late_models import late_model
from pyinformer.objects._meta import NO_LABELS, Labels, ObjectMeta, OwnerReference
from pyinformer.objects._metadata_object import PARTIAL_HEAD, MetadataSharer
from pyinformer.objects._object import KubeObject, V
from pyinformer.objects._transform import Transform, apply_transform
from pyinformer.objects._view import is_view

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects._view import View

_MANAGED_FIELDS = b',"managedFields":['  # a list, so that no longer value begins with a shorter one
_BEFORE_LIST = len(_MANAGED_FIELDS) - 1
_LAST_OF_METADATA = b']},"'  # behind the list: metadata ends, and another field follows
_LAST_OF_ALL = b"]}}"  # behind the list: metadata ends, and with it the object
_COMMA, _OPENING, _CLOSING = b",{}"
_CUT_SPREAD = 64  # metadata of one kind differs in length: most objects fit the first of them
_NO_OWNERS: tuple[OwnerReference, ...] = ()
_BARE_HEAD = b'{"metadata":{'
_IMPOSSIBLE_HEAD = b"\0"
_PARTIAL_KIND = b'"PartialObjectMetadata"'
_PARTIAL_NAMES = (PARTIAL_OBJECT_METADATA.kind, PARTIAL_OBJECT_METADATA.api_version)
LARGE_BODY_BYTES: Final = 16 << 10
"""Most objects are shorter: a pod has 4 to 8 KiB. Buffers count bytes only of longer ones."""
_FLAT_GROUPS: Final = frozenset(
    {"", "batch", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io"}
)
"""The busiest groups of which the API server checks every field: no value can be nested deeply.

Their levels are not counted when they arrive, unless there are too many to skip them on any stack:
it would take a tenth of the time of an update. A value that is nested deeply, from a server of
another kind, is refused when it is read.
"""
_MAX_NAMESPACES = 65_536
_MAX_NAMESPACE_LENGTH = 63  # of a DNS label, so at most 4 MiB are kept


def _builder_of(model: type) -> Callable[[Any], Any]:
    """Return what makes the view of an object from its decoded struct."""
    if is_view(model):
        return view_builder(model)
    late = late_model(model)
    return lambda _wire: late


@final
class ObjectCodec(Generic[V]):
    """Decodes the objects of one resource, whose kind and shape it learns from the first one.

    Args:
        resource: the resource whose objects these are.
        view: what an object is decoded to: a View at once, another model when it is read; checked
            by `check_view_or_model`. None for neither.
        strip_managed_fields: leave `metadata.managedFields` out of what is kept.
        compact: keep bodies compressed; needs a compressor (`has_compressor`).
        transform: the user's change to each object before it is kept.
        metadata_only: keep an object's metadata alone, as a PartialObjectMetadata, even if the
            server sent the whole object.
        share_labels: keep one copy of the labels and the owner references that several objects
            have; False if the objects are not kept.
        on_problem: called with each object that can be identified but not decoded as requested,
            before it is returned.
        on_large: called for each object whose body is longer than `LARGE_BODY_BYTES`, before the
            object is returned.
    """

    def __init__(
        self,
        resource: GroupVersionResource,
        *,
        view: type[V] | None = None,
        strip_managed_fields: bool = True,
        compact: bool = False,
        transform: Transform | None = None,
        metadata_only: bool = False,
        share_labels: bool = True,
        on_problem: Callable[[KubeObject[V]], None] | None = None,
        on_large: Callable[[], None] | None = None,
    ) -> None:
        self.resource = resource
        self.gvk: GroupVersionKind | None = None
        """The kind of the objects, whatever their bodies say; None until it is known."""
        self._strip = strip_managed_fields
        self._make: Callable[..., KubeObject[V]] = BodyPacker().record if compact else KubeObject
        if metadata_only:
            self._make = MetadataSharer().record
        self._transform = transform
        self._metadata_only = metadata_only
        self._on_problem = on_problem
        self._on_large = on_large
        self._view: type[View] | None = view if is_view(view) else None
        self._is_settled = False  # whether gvk is from an object, not guessed from a list's kind
        self._decode_any = wire_decoder(self._view)
        self._decode_wire = self._decode_any
        self._decode_tail = self._decode_any  # until the kind is known; no head is known before
        self._build_view = None if view is None else _builder_of(view)
        sizes = {} if share_labels else {"max_entries": 1}
        is_flat = resource.group in _FLAT_GROUPS
        self._counted_bytes = sys.maxsize if is_flat else 2 * MAX_DEPTH  # a level takes two bytes
        self._labels: InternTable[Labels] = InternTable(decode_labels, **sizes)
        self._owners: InternTable[tuple[OwnerReference, ...]] = InternTable(decode_owners, **sizes)
        self._namespaces: dict[str, str] = {}
        self._namespace_misses = self._namespace_clears = 0
        self._head = _IMPOSSIBLE_HEAD
        self._fill = b""
        self._cut_offset = 0

    def decode(self, data: bytes | bytearray, start: int, end: int) -> KubeObject[V]:
        """Decode the object in `data[start:end]`, without keeping a reference to `data`.

        Raises:
            InvalidObjectError: it is not a JSON object, has no name, or is of another kind. An
                object that can be identified is not refused; it gets a `problem` instead.
        """
        head = self._head
        if data.startswith(head, start):
            fill, body, inner = b"", start, start + len(head)
        elif self._fill and data.startswith(_BARE_HEAD, start):
            fill, body, inner = self._fill, start + 1, start + len(_BARE_HEAD)
        else:
            return self._decode_slowly(bytes(memoryview(data)[start:end]))
        try:
            if not self._strip:
                text = memoryview(data)
                check_skipped_depth(text[start:end])
                wire = self._decode_wire(text[start:end])
                raw = fill + text[body:end] if fill else bytes(text[body:end])
                return self._record(wire.metadata, wire, raw, self.gvk)
            # The search starts before the smallest offset so far; what it finds is proven below,
            # and an object with a far smaller offset takes the slow path once.
            cut = data.find(_MANAGED_FIELDS, start + self._cut_offset, end)
            close = data.find(b"]", cut, end) if cut > 0 else -1
            if close > 0 and data.startswith(_LAST_OF_METADATA, close):
                if isinstance(data, bytearray):
                    found = self._decode_parts(data, body, inner, cut, close, end, fill)
                else:
                    copy, at = bytearray(memoryview(data)[start:end]), start
                    places = body - at, inner - at, cut - at, close - at, end - at
                    found = self._decode_parts(copy, *places, fill)
            elif self._metadata_only and close > 0 and data[close:end] == _LAST_OF_ALL:
                found = self._decode_alone(data, body, inner, cut)
            else:
                found = self._decode_whole(data, start, body, inner, cut, end, fill)
        except ENDS_PROGRAM:
            raise
        except BaseException:  # noqa: BLE001 - of the decoder, or of a view's __post_init__
            found = None
        if found is not None:
            return found
        return self._decode_slowly(bytes(memoryview(data)[start:end]))

    def _decode_parts(  # noqa: PLR0917 - a tuple of the places would cost a percent
        self, data: bytearray, body: int, inner: int, cut: int, close: int, end: int, fill: bytes
    ) -> KubeObject[V] | None:
        """Decode the text before managedFields and the text after metadata, each as an object.

        So no byte is read twice, and dropped bytes are not read at all. If both parts are complete
        objects, the dropped text is a field of metadata itself: metadata closed at `cut` is one
        level deep there; the rest closes exactly one level; and no other list can end between the
        start of this one and the first closing bracket. The bracket cannot be inside a string:
        that would leave an odd number of quotes after it.
        """
        text = memoryview(data)
        if end - close + cut - body > SKIPPED_BYTES:
            check_skipped_depth(text[body:cut])
            check_skipped_depth(text[close:end])
        try:
            data[cut], data[close + 2] = _CLOSING, _OPENING  # instead of copies with these in them
            meta = decode_wire_meta(text[inner - 1 : cut + 1])
            wire = self._decode_tail(text[close + 2 : end])
        finally:
            data[cut] = data[close + 2] = _COMMA
        if meta.managed_fields or wire._metadata:  # noqa: SLF001 - a name that views cannot have
            return None
        raw = b"".join((fill, text[body:cut], text[close + 1 : end]))
        return self._record(meta, wire, raw, self.gvk)

    def _decode_alone(
        self, data: bytes | bytearray, body: int, inner: int, cut: int
    ) -> KubeObject[V] | None:
        """Decode an object that is metadata alone and ends with managedFields, up to those.

        The text before them is one object if closed there; after them only two brackets follow,
        and no other list ends earlier. So their bytes need not be read.
        """
        raw = b"".join((memoryview(data)[body:cut], b"}}"))
        text = memoryview(raw)[inner - body - 1 : -1]
        if cut - inner > SKIPPED_BYTES:
            check_skipped_depth(text)
        meta = decode_wire_meta(text)
        if meta.managed_fields:
            return None
        return self._record(meta, None, raw, self.gvk)

    def _decode_whole(  # noqa: PLR0917 - as above
        self,
        data: bytes | bytearray,
        start: int,
        body: int,
        inner: int,
        cut: int,
        end: int,
        fill: bytes,
    ) -> KubeObject[V] | None:
        """Decode an object in one pass, and cut out managedFields if there are any."""
        text = memoryview(data)
        check_skipped_depth(text[start:end])
        wire = self._decode_wire(text[start:end])
        managed = wire.metadata.managed_fields
        if cut < 0:
            if managed:
                return None
            raw = fill + text[body:end] if fill else bytes(text[body:end])
        else:
            rest = cut + _BEFORE_LIST + len(managed)
            if not managed or not data.startswith(managed, cut + _BEFORE_LIST):
                return None
            # The text before the cut is one object if closed here, so the cut is a field of
            # metadata itself and not of an object in it.
            skip_object(data[inner - 1 : cut] + b"}")
            raw = b"".join((fill, text[body:cut], text[rest:end]))
        return self._record(wire.metadata, wire, raw, self.gvk)

    def decode_head(self, head: bytes, size_bytes: int) -> KubeObject[V]:
        """Return the record of an object that is too long to be kept, from its kind and metadata.

        It has its metadata, a `problem` that states the length, and no body.

        Args:
            head: what `MetadataReader.head` has returned.
            size_bytes: how long the whole is.

        Raises:
            InvalidObjectError: it has no metadata, or no name in it.
        """
        fields = self._fields_of(head)
        gvk = self._kind_of(fields, head)
        meta = metadata_of(self.resource, fields, head)
        left_out = [name for name in meta if name in _LONG and meta[name] == _NULL]
        meta = {name: value for name, value in meta.items() if name not in left_out}
        raw = self._rebuild(PARTIAL_OBJECT_METADATA if self._metadata_only else gvk, {}, meta)
        problem = f"it has {size_bytes} bytes, over the limit: only its metadata is kept"
        if left_out:
            problem += f", without {', '.join(left_out)}"
        record = self._record_or_problem(raw, gvk, meta, problem)
        if self._on_problem is not None:
            self._on_problem(record)
        return record

    def _record(
        self,
        meta: WireMeta,
        wire: Any,  # noqa: ANN401 - a struct made for the view
        raw: bytes,
        gvk: GroupVersionKind | None,
        problem: str = "",
    ) -> KubeObject[V]:
        if not problem and not raw.isascii():
            raw.decode()  # the decoder does not check the text that it skips
        if len(raw) > self._counted_bytes and not problem:
            check_complete_depth(raw)
        if len(raw) > LARGE_BODY_BYTES and self._on_large is not None:
            self._on_large()
        namespace, name = meta.namespace, meta.name
        namespace = self._namespaces.get(namespace) or self._intern_namespace(namespace)
        labels, owners = NO_LABELS, _NO_OWNERS
        if meta.labels:
            text = bytes(meta.labels)
            found = self._labels.known.get(text)  # compared with None: truth asks for the length
            labels = self._labels.add(text) if found is None else found
        if meta.owner_references:
            text = bytes(meta.owner_references)
            owners = self._owners.known.get(text) or self._owners.add(text)
        build = self._build_view
        return self._make(
            f"{namespace}/{name}" if namespace else name,
            ObjectMeta(
                namespace,
                name,
                meta.uid,
                meta.resource_version,
                meta.generation,
                labels,
                owners,
                meta.finalizers or (),
                meta.creation_timestamp,
                meta.deletion_timestamp,
            ),
            None if build is None or problem else build(wire),
            raw,
            gvk,  # where none is known yet, nothing comes here
            problem,
        )

    def _intern_namespace(self, namespace: str) -> str:
        known = self._namespaces
        if len(namespace) > _MAX_NAMESPACE_LENGTH:
            return namespace
        if namespace not in known:  # the empty one may be known although it is falsy
            self._namespace_misses += 1
            if len(known) >= _MAX_NAMESPACES:
                known.clear()
                self._namespace_clears += 1
            known[namespace] = namespace
        return known[namespace]

    def learn_kind(self, kind: str) -> None:
        """Record the kind of objects that name none, from the kind of their list.

        It holds until an object names another one: a custom resource may choose its list's kind.

        Args:
            kind: the kind of the items, `Pod` for a `PodList`; that of metadata alone is ignored.
        """
        is_mute = self._metadata_only and kind == PARTIAL_OBJECT_METADATA.kind
        if not (self._is_settled or is_mute):
            self.gvk = GroupVersionKind(self.resource.group, self.resource.version, kind)
            self._expect_partial()

    def learn_discovered_kind(self, kind: str) -> None:
        """Record the kind that discovery names for the resource; empty if it names none."""
        if kind:
            self.learn_kind(kind)
        else:
            self.learn_no_kind()

    def forget_kind(self) -> None:
        """Take the kind that the next object names, if this is a custom resource.

        Its definition may have been deleted, and created again with another kind.
        """
        if "." in self.resource.group and not self._metadata_only:
            self._is_settled = False

    def names_new_kind(self, text: bytes) -> bool:
        """Return whether an object that was refused names another kind than is known.

        That may be the kind by now if this is a custom resource; `forget_kind` takes it.
        """
        if "." not in self.resource.group or self._metadata_only or self.gvk is None:
            return False
        try:
            kind, found = named_kind(self.resource, self._fields_of(text), text)
        except InvalidObjectError:
            return False
        return found == self.resource.api_version and kind not in {"", self.gvk.kind}

    def unlearn_kind(self, kind: str) -> None:
        """Learn the kind and the shape again, if this is the kind and it was wrong."""
        if self.gvk is not None and self.gvk.kind == kind:
            self.gvk, self._is_settled = None, False
            self._decode_wire = self._decode_tail = self._decode_any
            self._head, self._fill, self._cut_offset = _IMPOSSIBLE_HEAD, b"", 0

    def keep_kind(self) -> None:
        """Refuse every other kind again, if an object has named one."""
        if self._decode_tail is not self._decode_any:
            self._is_settled = True

    def learn_no_kind(self) -> None:
        """Record that neither the list nor its items name the kind of the objects."""
        if self.gvk is None:
            self.gvk = PARTIAL_OBJECT_METADATA
            self._expect_partial()

    def _expect_partial(self) -> None:
        if self._metadata_only and self._transform is None:
            self._decode_wire = wire_decoder(self._view, PARTIAL_OBJECT_METADATA)
            self._head = PARTIAL_HEAD

    def _settle(self, gvk: GroupVersionKind) -> None:
        """Accept only this kind from now on, wherever in an object it is named."""
        self.gvk, self._is_settled = gvk, True
        if self._metadata_only:
            self._expect_partial()
            return
        self._decode_wire = wire_decoder(self._view, gvk)
        self._decode_tail = tail_decoder(self._view, gvk)
        if self._transform is None:
            named = encode(gvk.kind), encode(gvk.api_version)
            self._fill = b'{"kind":%s,"apiVersion":%s,' % named

    def _learn_head(self, text: bytes) -> None:
        """Learn the order in which this server writes kind and apiVersion."""
        if self._transform is not None or self.gvk is None or self._metadata_only:
            return
        kind, api_version = encode(self.gvk.kind), encode(self.gvk.api_version)
        for head in (
            b'{"kind":%s,"apiVersion":%s,"metadata":{' % (kind, api_version),
            b'{"apiVersion":%s,"kind":%s,"metadata":{' % (api_version, kind),
        ):
            if text.startswith(head):
                self._head = head
        cut = text.find(_MANAGED_FIELDS)
        if cut > 0:
            least = max(0, cut - _CUT_SPREAD)
            self._cut_offset = min(least, self._cut_offset or least)

    def _decode_slowly(self, text: bytes) -> KubeObject[V]:
        text = without_lone_surrogates(text)
        fields = self._fields_of(text)
        gvk = self._kind_of(fields, text)
        meta = metadata_of(self.resource, fields, text)
        if not self._is_settled:
            self._settle(gvk)
        self._learn_head(text)
        raw = text
        stripped = self._strip and meta.pop("managedFields", None) is not None
        if self._metadata_only and (stripped or not _is_partial(fields)):
            raw = self._rebuild(PARTIAL_OBJECT_METADATA, {}, meta)
        elif stripped or any(fields.get(name, _NULL) == _NULL for name in ("kind", "apiVersion")):
            raw = self._rebuild(gvk, fields, meta)
        problem = ""
        if self._transform is not None:
            raw, problem = apply_transform(self._transform, raw)
        record = self._record_or_problem(raw, gvk, meta, problem)
        if record.problem and self._on_problem is not None:
            self._on_problem(record)
        return record

    def _fields_of(self, text: bytes) -> Fields:
        try:
            return fields_of(text)
        except DECODE_FAILURES as error:
            raise unreadable(self.resource, text, f"cannot be decoded: {error}") from error

    def _kind_of(self, fields: Fields, text: bytes) -> GroupVersionKind:
        expected, known = self.resource.api_version, self.gvk
        kind, found = named_kind(self.resource, fields, text)
        if self._metadata_only and known is not None and (kind, found) == _PARTIAL_NAMES:
            return known
        if found == expected and kind and not self._is_settled:
            return GroupVersionKind(self.resource.group, self.resource.version, kind)
        if found == expected and known is not None and kind in {"", known.kind}:
            return known
        wanted = f"{expected}/{known.kind}" if known else f"an object of {expected}"
        reason = f"is {found}/{kind or '(no kind)'} where {wanted} was expected"
        raise unreadable(self.resource, text, reason)

    @staticmethod
    def _rebuild(gvk: GroupVersionKind, fields: Fields, meta: Fields) -> bytes:
        rest = {name: value for name, value in fields.items() if name not in _REBUILT}
        head = {"kind": gvk.kind, "apiVersion": gvk.api_version, "metadata": meta}
        return encode({**head, **rest})

    def _record_or_problem(
        self, raw: bytes, gvk: GroupVersionKind, meta: Fields, problem: str
    ) -> KubeObject[V]:
        """Build the record from the fields of the object that can be decoded."""
        given, has_null = problem, bytes(_NULL) in raw
        ways: tuple[tuple[Callable[[], Any], bool], ...] = (  # and whether nothing is left out
            (lambda: self._decode_view(raw), True),
            (lambda: self._decode_view(without_nulls(raw)) if has_null else None, True),
            (lambda: decode_wire_object(raw), False),
            (lambda: decode_wire_object(without_nulls(raw)) if has_null else None, False),
            (lambda: known_by_metadata(meta), False),  # if another field is nested too deeply
            (lambda: identity_of(self.resource, meta, raw), False),
        )
        is_counted = len(raw) > self._counted_bytes or len(raw) > SKIPPED_BYTES
        if is_counted and is_nested_too_deeply(raw):
            problem, ways = problem or f"cannot be read as asked: {TOO_DEEP}", ways[4:]
        for decode, is_whole in ways:
            try:
                wire = decode()
                if wire is None:
                    continue
                said = given if is_whole else problem
                record = self._record(wire.metadata, wire, raw, gvk, said)
            except DECODE_FAILURES as error:
                problem = problem or f"cannot be read as asked: {shown_complaint_of(error)}"
                continue
            return record
        raise InvalidObjectError(str(self.resource), problem)

    def _decode_view(self, raw: bytes) -> Any:  # noqa: ANN401 - a struct made for the view
        try:
            return self._decode_any(raw)
        except (*DECODE_FAILURES, *ENDS_PROGRAM):
            raise
        except BaseException as error:  # of a view's __post_init__; its text may quote the object
            raise ValidationError(type(error).__name__) from error

    def statistics(self) -> dict[str, InternStatistics]:
        """Return the counters of shared labels, owner references and namespaces."""
        return {
            "labels": self._labels.statistics(),
            "owners": self._owners.statistics(),
            "namespaces": InternStatistics(
                len(self._namespaces), self._namespace_misses, self._namespace_clears
            ),
        }


_REBUILT = frozenset({"kind", "apiVersion", "metadata"})
_LONG = frozenset({"labels", "annotations", "ownerReferences", "finalizers"})
_NULL = Raw(b"null")


def _is_partial(fields: Fields) -> bool:
    """Return whether an object is a PartialObjectMetadata as servers write it."""
    return fields.keys() == _REBUILT and bytes(fields["kind"]) == _PARTIAL_KIND
