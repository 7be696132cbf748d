"""The shared, immutable object: the bytes that the server sent, and a record of its metadata.

Any thread may read it. The body is decoded only on request, into a value of the reader's own.
Nothing in it is tracked by the garbage collector, so a large cache costs the collector nothing.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from functools import lru_cache
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    NoReturn,
    cast,
    final,
    get_args,
    overload,
)

from msgspec import Struct
from typing_extensions import TypeVar

from pyinformer._printable import printable
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer.errors import (
    FieldNotFoundError,
    FrozenObjectError,
    InvalidModelError,
    InvalidObjectError,
    InvalidTypeError,
)
from pyinformer.objects._compiled_paths import compile_path
from pyinformer.objects._depth import check_depth
from pyinformer.objects._diff import diff
from pyinformer.objects._json_decoders import (
    DECODE_FAILURES,
    JSONObject,
    JSONValue,
    cause_of,
    complaint_of,
    decode_object,
    decoder_of,
    null_as_absent,
    shown_complaint_of,
)
from pyinformer.objects._keys_and_kinds import GroupVersionKind, ObjectKey
from pyinformer.objects._meta import NO_LABELS, Labels, ObjectMeta
from pyinformer.objects._model_checks import (
    check_parts,
    complete,
    is_pydantic,
    unreadable_model,
)
from pyinformer.objects._redact import hides_content

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

V = TypeVar("V", default=None, covariant=True)
"""What an object is decoded to: a subclass of View, another model, or None."""

_T = TypeVar("_T")
_D = TypeVar("_D")
_MISSING: Any = object()


class _AnnotatedMeta(Struct, frozen=True, gc=False):
    annotations: dict[str, str] | None = None


class _Annotated(Struct, frozen=True, gc=False):
    metadata: _AnnotatedMeta


_decode_annotated = null_as_absent(_Annotated)


class LateView:
    """What an object has in place of a view that is decoded when it is read."""

    __slots__ = ()

    @abstractmethod
    def read(self, obj: KubeObject[Any]) -> object:
        """Return the view of an object.

        Args:
            obj: the object that has this in place of its view.

        Raises:
            ModelMismatchError: it does not fit the model.
        """
        raise NotImplementedError


@final
class KubeObject(Struct, Generic[V], frozen=True, gc=False, eq=False):
    """An object of the cluster as it was at one resource version. Immutable and shared.

    Equality and hash go by kind, uid and resource version; `same_content` compares bodies.
    """

    _key: str
    metadata: ObjectMeta
    _view: V
    raw: bytes
    """The JSON text; apiVersion and kind are always in it. managedFields may be stripped."""
    gvk: GroupVersionKind
    problem: str = ""
    """Why the view or the transform could not read this object; empty if they could."""

    @property
    def key(self) -> ObjectKey:
        """`namespace/name`, or `name` if the object is cluster-scoped."""
        return ObjectKey(self._key)

    @property
    def view(self) -> V:
        """The object as the `model=` of its informer; None without one.

        A View was decoded when the object arrived. Any other model is decoded at the first read
        and shared by all readers if none of them can change it; else each read returns a new one.

        Raises:
            InvalidObjectError: this object does not fit the view.
            ModelMismatchError: it does not fit the model.
        """
        view = self._view
        if isinstance(view, LateView):
            return cast("V", view.read(self))
        if view is None and self.problem:
            raise InvalidObjectError(self._what, self.problem)
        return view

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations, decoded at each read."""
        try:
            found = _decode_annotated(self.raw).metadata.annotations
        except RecursionError:  # a field beside them is nested too deeply
            found = self.at("metadata.annotations", dict[str, str], default=None)
        except DECODE_FAILURES as error:
            raise InvalidObjectError(self._what, f"metadata.annotations: {error}") from error
        return Labels.of(found) if found else NO_LABELS

    def to_dict(self) -> JSONObject:
        """Decode the whole object into a dict of the caller's own; change it as you like.

        To write an object back, start here: typed decodes drop the fields they do not know.

        Raises:
            InvalidObjectError: the body holds something Python cannot represent.
        """
        return decode_object(self.raw, self._what)

    @overload
    def at(self, path: str) -> JSONValue: ...
    @overload
    def at(self, path: str, *, default: object) -> JSONValue: ...
    @overload
    def at(self, path: str, kind: type[_T]) -> _T: ...
    @overload
    def at(self, path: str, kind: type[_T], *, default: _D) -> _T | _D: ...
    def at(self, path: str, kind: Any = Any, *, default: Any = _MISSING) -> Any:
        """Decode one value: `pod.at("spec.nodeName", str, default=None)`.

        Args:
            path: field names with dots, 64 at most; quote a name with dots in it:
                `metadata.annotations['example.com/team']`. A name must not contain a double quote,
                a backslash or a control character.
            kind: the value's type, anything msgspec can decode; without it, plain JSON.
            default: what to return where the value is absent or null.

        Raises:
            FieldNotFoundError: the value is absent and there is no default.
            InvalidArgumentError: the path cannot be read.
            InvalidObjectError: the value is of another type.
            InvalidTypeError: `kind` is not a type.
        """
        try:
            compiled = compile_path(path, kind)
        except TypeError as error:  # they cannot be hashed
            reason = f"cannot read {path!r} as {kind!r}: {error}"
            raise InvalidTypeError("kind", reason) from error
        value = compiled.read(self.raw, self._key, is_known=not self.problem)
        if value is not None:
            return value
        if default is _MISSING:
            raise FieldNotFoundError(key=self._key, path=path)
        return default

    def as_type(self, model: type[_T]) -> _T:
        """Decode the whole object into a model of the caller's own.

        Typed decodes drop unknown fields: to write an object back, start from `to_dict()`.

        Args:
            model: a msgspec Struct, a dataclass, a TypedDict, a pydantic model, a model of
                kubernetes_asyncio, kubernetes or kubernetes.aio, or a class with `from_dict` and
                `to_dict`, such as those of lightkube. A TypedDict is only for reading: it is a
                plain dict, which `patch` takes for the whole object.

        Raises:
            InvalidModelError: a part of the model would be read wrongly; names the field.
            InvalidObjectError: the object does not fit the model.
            InvalidTypeError: nothing can be decoded into such a model.
        """
        decode = _decoder_of(model)
        try:
            return cast("_T", decode(self.raw))
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - validators and generated models raise anything
            name = model.__name__ if isinstance(model, type) else repr(model)
            if hides_content(self.gvk.kind):
                reason = f"does not fit {name}: {_reason_of(error, words='none')}"
                raise InvalidObjectError(self._what, reason) from None
            reason = f"does not fit {name}: {_reason_of(error, words='all')}"
            shown = f"does not fit {name}: {_reason_of(error, words='standard')}"
            raise InvalidObjectError(self._what, reason, shown=shown) from cause_of(error)

    def same_content(self, other: KubeObject[object]) -> bool:
        """Return whether both bodies have the same content, whatever their resource versions.

        A body that cannot be decoded is the same only as one of the same bytes.
        """
        try:
            return self.raw == other.raw or not diff(self, other)
        except InvalidObjectError:
            return False

    @property
    def _what(self) -> str:
        return f"{self.gvk.kind} {self._key!r}"

    @property
    def _identity(self) -> tuple[GroupVersionKind, str, str]:
        meta = self.metadata
        # Objects that servers compute (metrics, for example) have no uid; the key identifies them.
        return self.gvk, meta.uid or self._key, meta.resource_version

    def __eq__(self, other: object) -> bool:
        if isinstance(other, KubeObject):
            return self._identity == other._identity
        return NotImplemented

    if not TYPE_CHECKING:
        __ne__ = object.__ne__  # that of Struct does not call __eq__

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        meta = self.metadata
        what = f"{self.gvk} {self._key} uid={meta.uid} resource_version={meta.resource_version}"
        return f"<{printable(what)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process has its whole text: what records share is not copied.
        fields = (self._key, self.metadata, self._view, self.raw, self.gvk, self.problem)
        return KubeObject, fields

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("_key", self._key), ("metadata", self.metadata)]  # a Struct's own has the body

    if not TYPE_CHECKING:
        # Type checkers refuse these already; at run time the error names what to call instead.
        def __getitem__(self, item: object) -> NoReturn:
            raise FrozenObjectError(key=self._key, operation=f"object[{item!r}]")

        def __setitem__(self, item: object, value: object) -> NoReturn:
            raise FrozenObjectError(key=self._key, operation=f"object[{item!r}] = ...")

        def __delitem__(self, item: object) -> NoReturn:
            raise FrozenObjectError(key=self._key, operation=f"del object[{item!r}]")


stored_body: Final[Any] = KubeObject.__dict__["raw"]
"""Reads and writes the field of a record, whatever a subclass makes of its name."""
stored_view: Final[Any] = KubeObject.__dict__["_view"]
"""The same of its view."""


@final
class _Refused:
    """An attribute that objects do not have; the error names where the value is."""

    __slots__ = ("_instead", "_name")

    def __init__(self, name: str, instead: str) -> None:
        self._name = name
        self._instead = instead

    def __get__(self, obj: KubeObject[Any] | None, owner: object = None) -> NoReturn:
        if obj is None:
            message = f"type object 'KubeObject' has no attribute {self._name!r}"
            raise AttributeError(message)
        raise FrozenObjectError(
            key=obj._key, operation=f"object.{self._name}", instead=self._instead
        )


# One by one: a __getattr__ would make existing attributes three times as slow.
_ELSEWHERE = {
    "spec": "",
    "status": "",
    "data": "",
    "string_data": "",
    "name": "obj.metadata.name",
    "namespace": "obj.metadata.namespace",
    "labels": "obj.metadata.labels",
    "kind": "obj.gvk.kind",
}
for _name, _instead in _ELSEWHERE.items():
    type.__setattr__(KubeObject, _name, _Refused(_name, _instead))


def _refuse_assignment(obj: KubeObject[Any], name: str, _value: object) -> NoReturn:
    raise FrozenObjectError(key=obj._key, operation=f"object.{name} = ...")


def _refuse_deletion(obj: KubeObject[Any], name: str) -> NoReturn:
    raise FrozenObjectError(key=obj._key, operation=f"del object.{name}")


def refuse_changes(kind: type[KubeObject[Any]]) -> None:
    """Install errors that name what to call instead of assigning to or deleting an attribute.

    A frozen Struct overwrites them with its own whenever a subclass is created.
    """
    type.__setattr__(kind, "__setattr__", _refuse_assignment)
    type.__setattr__(kind, "__delattr__", _refuse_deletion)


refuse_changes(KubeObject)


def stored_bytes(obj: KubeObject[Any]) -> int:
    """Return the size of an object's body as it is kept, compressed or not."""
    return len(stored_body.__get__(obj))


def _decoder_of(model: Any) -> Callable[[bytes], object]:  # noqa: ANN401 - any kind of model
    try:
        return _model_decoder(cast("Hashable", model))
    except InvalidModelError:
        raise
    except (NameError, SyntaxError) as error:
        raise unreadable_model(model, error) from error
    except TypeError as error:
        reason = f"nothing can be decoded into {model!r}: {error}"
        raise InvalidTypeError("model", reason) from error


def _reason_of(error: BaseException, *, words: Literal["all", "standard", "none"]) -> str:
    """Return what is wrong in one line, without values that a model's message quotes.

    Args:
        error: the error.
        words: which words are shown beside field paths and classes: all; not those of user code,
            such as a validator, which may quote the object; or none of a pydantic model.
    """
    problems: Any = getattr(error, "errors", None)  # pydantic's
    if not callable(problems):
        return complaint_of(error) if words == "all" else shown_complaint_of(error)
    standard = _standard_problems() if words == "standard" else frozenset[str]()
    found = problems(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, each['loc']))}:"
        f" {each['msg'] if words == 'all' or each['type'] in standard else each['type']}"
        for each in found
    )


@lru_cache(maxsize=1)
def _standard_problems() -> frozenset[str]:
    """Return the types of problems that pydantic words itself, in which validators say nothing."""
    kinds = importlib.import_module("pydantic_core.core_schema").ErrorType
    return frozenset(get_args(kinds)) - {"value_error", "assertion_error"}


def converts_itself(model: object) -> bool:
    """Return whether a model has `from_dict` and `to_dict` of its own, as those of lightkube."""
    return all(callable(getattr(model, name, None)) for name in ("from_dict", "to_dict"))


@lru_cache(maxsize=256)  # models are classes of the program; bounded for those made on the fly
def _model_decoder(model: Any) -> Callable[[bytes], object]:  # noqa: ANN401 - any kind of model
    # Before pydantic: models of the official client forbid fields that are newer than they are,
    # but their `from_dict` leaves them out.
    if converts_itself(model):
        decode_any = decoder_of()
        return lambda raw: model.from_dict(decode_any(raw))
    if hasattr(model, "openapi_types"):
        return _bounded(_client_decoder(model))
    check_parts(model)
    if is_pydantic(model):
        complete(model)
        return _bounded(model.model_validate_json)
    return decoder_of(model)


def _bounded(decode: Callable[[bytes], object]) -> Callable[[bytes], object]:
    def bounded(raw: bytes) -> object:
        check_depth(raw)
        return decode(raw)

    return bounded


def _client_decoder(model: Any) -> Callable[[bytes], object]:  # noqa: ANN401 - a generated class
    """Return the decoder of the generated client that the model comes from."""
    package = model.__module__.partition(".models")[0]
    module = importlib.import_module(package)
    bare = module.ApiClient.__new__(module.ApiClient)  # its constructor would open connections
    bare.configuration = module.Configuration()  # older versions hand it to each model

    def decode(raw: bytes) -> object:
        found: object = bare.deserialize(SimpleNamespace(data=raw.decode()), model)
        return found

    return decode
