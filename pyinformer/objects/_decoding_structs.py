"""The structs into which an object is decoded in one pass: metadata, and the fields of a view.

They exist only during one decode. Values that are expensive or shared (labels, owners, managed
fields) stay raw, to be looked up by their text or cut out by their length.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Raw, Struct
from msgspec import inspect as msginspect

from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.objects._json_decoders import decoder_of, unbounded_decoder_of
from pyinformer.objects._meta import NO_LABELS, Labels, OwnerReference

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects._keys_and_kinds import GroupVersionKind
    from pyinformer.objects._view import View

    _Decoder: TypeAlias = Callable[[bytes | memoryview], Any]

_decoders: WeakKeyDictionary[type[Struct], dict[tuple[GroupVersionKind | None, str], _Decoder]]
_decoders = WeakKeyDictionary()
"""For each view those of its kinds, of whole objects and of what follows their metadata."""
_NO_RAW = Raw(b"")
_AS_WRITTEN = (
    msginspect.StrType,
    msginspect.IntType,
    msginspect.BoolType,
    msginspect.NoneType,
    msginspect.LiteralType,
    msginspect.EnumType,
)


class WireMeta(Struct, frozen=True, gc=False, rename="camel"):
    """`metadata` as it stands in an object."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    """Without a name an object has no key: the slow path raises the error."""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: Raw = _NO_RAW
    owner_references: Raw = _NO_RAW
    finalizers: tuple[str, ...] | None = ()
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    managed_fields: Raw = _NO_RAW


class WireObject(Struct, frozen=True, gc=False):
    """An object without a view."""

    metadata: WireMeta


class _Nothing(Struct, frozen=True, gc=False):
    """Any JSON object; none of its fields are read."""


decode_wire_object = unbounded_decoder_of(WireObject)
decode_wire_meta = unbounded_decoder_of(WireMeta)
skip_object = unbounded_decoder_of(_Nothing)
"""These three, and the decoders below, are for texts whose depth the codec has checked."""
decode_fields = decoder_of(dict[str, Raw], skims=True)
encode = msgspec.json.Encoder().encode

_decode_labels = unbounded_decoder_of(dict[str, str] | None)
_decode_owners = unbounded_decoder_of(tuple[OwnerReference, ...] | None)


def decode_labels(text: bytes) -> Labels:
    """Decode the value of `metadata.labels`."""
    found = _decode_labels(text)
    return Labels.of(found) if found else NO_LABELS


def decode_owners(text: bytes) -> tuple[OwnerReference, ...]:
    """Decode the value of `metadata.ownerReferences`."""
    found: tuple[OwnerReference, ...] | None = _decode_owners(text)
    return found or ()


def wire_decoder(view: type[View] | None, gvk: GroupVersionKind | None = None) -> _Decoder:
    """Return a decoder for objects that also decodes the view's fields.

    It is made once, so that informers of one kind share it.

    Args:
        view: the view of each object, or None.
        gvk: refuse an object that names another kind, also after its metadata.
    """
    return _kept(view, gvk, ("metadata", WireMeta))


def tail_decoder(view: type[View] | None, gvk: GroupVersionKind) -> _Decoder:
    """Return a decoder for an object of the fields after metadata; see `wire_decoder`.

    Its result has `_metadata` if there is a second field of that name.
    """
    again = ("_metadata", Raw, msgspec.field(name="metadata", default=_NO_RAW))
    return _kept(view, gvk, again)


def _kept(view: type[View] | None, gvk: GroupVersionKind | None, metadata: Any) -> _Decoder:  # noqa: ANN401 - a field, as msgspec takes it
    """Return the decoder of a view and a kind; the name of the field of metadata says which one."""
    of_view = _decoders.setdefault(_Nothing if view is None else _struct(view), {})
    key = gvk, metadata[0]
    if key not in of_view:
        of_view[key] = _decoder_of([*_only(gvk), metadata], view)
    return of_view[key]


def _decoder_of(fields: list[Any], view: type[View] | None) -> _Decoder:
    for field in () if view is None else msgspec.structs.fields(_struct(view)):
        options = {
            name: value
            for name, value in (
                ("default", field.default),
                ("default_factory", field.default_factory),
            )
            if value is not msgspec.NODEFAULT
        }
        fields.append((field.name, field.type, msgspec.field(name=field.encode_name, **options)))
    wire = msgspec.defstruct("WireWithView", fields, kw_only=True, frozen=True, gc=False)
    return unbounded_decoder_of(wire)


def _only(gvk: GroupVersionKind | None) -> list[Any]:
    """Return fields that accept one kind; decoding them is as fast as skipping them."""
    if gvk is None:
        return []
    literal: Any = Literal
    return [
        (f"_{name}", literal[text], msgspec.field(name=name, default=text))
        for name, text in (("kind", gvk.kind), ("apiVersion", gvk.api_version))
    ]


def view_builder(view: type[View]) -> Callable[[Any], Any]:
    """Return a function that builds the view from a decoded object.

    This is hot code: a lambda generated for the view's fields, as dataclasses do it.
    """
    names = [field.name for field in msgspec.structs.fields(_struct(view))]
    if not names:
        empty = view()
        return lambda _wire: empty
    arguments = ", ".join(f"{name}=wire.{name}" for name in names)
    # Every name is an identifier: Python accepted it as the name of a class attribute.
    builder: Callable[[Any], Any] = eval(f"lambda wire: view({arguments})", {"view": view})  # noqa: S307
    return _fenced(builder) if hasattr(view, "__post_init__") else builder


def _fenced(builder: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a builder that raises a decoder's errors, as nested views do."""

    def build(wire: Any) -> Any:  # noqa: ANN401 - as the builder
        try:
            return builder(wire)
        except ENDS_PROGRAM:
            raise
        except BaseException as error:
            raise msgspec.ValidationError(str(error)) from error

    return build


def view_path(view: type[View], steps: tuple[str, ...]) -> str | None:
    """Return the dotted attributes of a path in a view; None if the view does not have the path."""
    names: list[str] = []
    current: Any = view
    for step in steps:
        fields = msgspec.structs.fields(current) if _is_struct(current) else ()
        field = next((f for f in fields if f.encode_name == step), None)
        if field is None:
            return None
        names.append(field.name)
        current = field.type
    return ".".join(names) if _reads_as_written(msginspect.type_info(current)) else None


def _reads_as_written(info: msginspect.Type) -> bool:
    """Return whether a value of this type is the JSON value itself, not one converted from it."""
    if isinstance(info, msginspect.UnionType):
        return all(map(_reads_as_written, info.types))
    if isinstance(info, msginspect.VarTupleType):
        return _reads_as_written(info.item_type)
    return isinstance(info, _AS_WRITTEN)


def _is_struct(kind: Any) -> bool:  # noqa: ANN401 - any type expression
    return isinstance(kind, type) and issubclass(kind, Struct)


def _struct(view: type[View]) -> Any:  # noqa: ANN401
    """A view is a Struct at run time; type checkers see a dataclass."""
    return view
