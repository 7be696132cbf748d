"""The registry of functions between models, and the conversion of objects by them.

An object keeps its metadata except for labels and annotations, as the server requires it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, final

import msgspec

from pyinformer._printable import Lines
from pyinformer._runtime.clock import monotonic
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import (
    FailureLog,
    check_plain,
    error_text,
    name_of,
    repeats_text,
    trace_text,
)
from pyinformer.admission._answers import Answer
from pyinformer.admission.conversion._reviews import converted, failed, read_request
from pyinformer.admission.conversion._versions import (
    ConvertedVersion,
    ConvertFunction,
    FunctionFailedError,
    Step,
    chain,
    unreachable,
)
from pyinformer.client.cluster import whole_body_of
from pyinformer.errors import InvalidArgumentError, InvalidObjectError
from pyinformer.objects import (
    GroupVersionKind,
    JSONObject,
    KubeObject,
    ObjectMeta,
    check_model,
    complaint_of,
    decode_model,
    decoder_of,
)

_log = get_logger(__name__)

_DECODE_FAILURES: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_CHANGEABLE: Final = ("labels", "annotations")
_NO_VALUE: Final = msgspec.Raw(b"null")


class _Names(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Object(msgspec.Struct):
    """What every object has, and what no model may have to know."""

    api_version: str = msgspec.field(name="apiVersion")
    kind: str
    metadata: msgspec.Raw
    status: msgspec.Raw = _NO_VALUE


_decode: Final = decoder_of(_Object)
_names_of: Final = decoder_of(_Names, skims=True)
_fields_of: Final = decoder_of(dict[str, msgspec.Raw])


@final
class Conversions:
    """Functions between the models of custom resources, which answer ConversionReviews.

    A conversion takes the shortest chain of functions: pairwise, or through a hub.
    """

    def __init__(self) -> None:
        self._versions: dict[tuple[str, str], ConvertedVersion] = {}  # by apiVersion and kind
        self._functions: dict[tuple[ConvertedVersion, ConvertedVersion], ConvertFunction] = {}
        self._chains: dict[tuple[ConvertedVersion, ConvertedVersion], tuple[Step, ...] | None] = {}
        self._failures = FailureLog()

    @property
    def versions(self) -> tuple[ConvertedVersion, ...]:
        """The versions between which functions convert, in the order of their registration."""
        return tuple(self._versions.values())

    def add(
        self, function: ConvertFunction, source: ConvertedVersion, target: ConvertedVersion
    ) -> None:
        """Register a function from one version to another.

        Args:
            function: returns an instance of the target's model for one of the source's. It may
                change its argument.
            source: the version from which it converts.
            target: the version to which it converts.

        Raises:
            InvalidArgumentError: both are not versions of one resource; or a version has another
                model already, or both a function.
            InvalidTypeError: the function is asynchronous, or cannot be called with one argument;
                or a model is not one.
        """
        check_plain(function, "convert(source)", 1)
        check_model(source.model)
        check_model(target.model)
        _check_names(source, target)
        for version in (source, target):
            known = self._versions.get((version.resource.api_version, version.kind), version)
            if known != version:
                reason = f"{known} is converted already, so {version} cannot be"
                raise InvalidArgumentError("convert", reason)
        if (source, target) in self._functions:
            known_name = name_of(self._functions[source, target])
            reason = f"{known_name} already converts {source} to {target}"
            raise InvalidArgumentError("convert", reason)
        for version in (source, target):
            self._versions[version.resource.api_version, version.kind] = version
        self._functions[source, target] = function
        self._chains.clear()

    def check(self, others: Iterable[ConvertedVersion] = ()) -> None:
        """Refuse a resource of which a version cannot be converted to another.

        Args:
            others: further versions; those of resources without conversions are ignored.

        Raises:
            InvalidArgumentError: names the pair for which there is no chain of functions.
        """
        given = tuple(others)
        for name in dict.fromkeys(one.name for one in self.versions):
            every = dict.fromkeys((*self.versions, *given))
            of_one = [one for one in every if one.name == name]
            for source, target in unreachable(self._functions, of_one):
                pair = f"{source.model.__name__}, {target.model.__name__}"
                reason = (
                    f"no function leads from {source} to {target}: register one with"
                    f" @app.convert({pair}); every version must lead to every other one"
                )
                raise InvalidArgumentError("convert", reason)

    def answer(self, body: bytes) -> Answer:
        """Return the answer to a ConversionReview: all of its objects, or why it failed.

        Args:
            body: the body of the request, as JSON.
        """
        request = read_request(body)
        if isinstance(request, Answer):
            return request
        try:
            objects = [self.convert(bytes(one), request.wanted) for one in request.objects or ()]
        except InvalidObjectError as error:
            return failed(request.uid, f"{error.what}: {error.shown}")
        except FunctionFailedError as error:
            self._report(error, request.wanted)
            return failed(request.uid, f"{error}; the log of the operator says more")
        return converted(request.uid, objects)

    def convert(self, obj: bytes, api_version: str) -> bytes:
        """Return an object in another version; the same bytes if it is in that version.

        Fields that its model does not know are dropped, except a status that neither model has.

        Args:
            obj: its JSON text.
            api_version: `group/version`.

        Raises:
            InvalidObjectError: it is not an object of a known version, or does not fit its model.
            FunctionFailedError: a function raised, or returned something else than its target.
        """
        found = _read(obj)
        source = self._version(found.api_version, found.kind)
        target = self._version(api_version, found.kind)
        if source == target:
            return obj
        return _converted(obj, found, source, self._steps(source, target))

    def rewrite(self, obj: bytes) -> bytes:
        """Return an object as its model writes it: with its defaults, without unknown fields.

        Args:
            obj: its JSON text.

        Raises:
            InvalidObjectError: it is not an object of a known version, or does not fit its model.
        """
        found = _read(obj)
        return _converted(obj, found, self._version(found.api_version, found.kind), ())

    def _version(self, api_version: str, kind: str) -> ConvertedVersion:
        found = self._versions.get((api_version, kind))
        if found is None:
            known = ", ".join(f"{kind} of {version}" for version, kind in self._versions)
            reason = f"is not converted here; known: {known or 'none'}"
            raise InvalidObjectError(f"{kind} of {api_version}", reason)
        return found

    def _steps(self, source: ConvertedVersion, target: ConvertedVersion) -> tuple[Step, ...]:
        if (source, target) not in self._chains:
            self._chains[source, target] = chain(self._functions, source, target)
        steps = self._chains[source, target]
        if steps is None:
            raise InvalidObjectError(f"{source}", f"no function leads to {target}")
        return steps

    def _report(self, error: FunctionFailedError, wanted: str) -> None:
        """Log why a function failed, a line in a minute for each kind of failure."""
        cause = error.__cause__
        unlogged = self._failures.due(cause or error, monotonic())
        if unlogged is not None:
            _log.error(
                "%s: %s; a review of objects to be converted to %s has failed%s%s",
                error.args[0],
                error_text(cause) if cause else "it is wrong",
                wanted,
                repeats_text(unlogged),
                Lines(f"\n{trace_text(cause)}") if cause else "",
            )


def _read(obj: bytes) -> _Object:
    try:
        return _decode(obj)
    except _DECODE_FAILURES as error:
        raise InvalidObjectError("an object", complaint_of(error)) from error


def _converted(
    obj: bytes, found: _Object, source: ConvertedVersion, steps: Sequence[Step]
) -> bytes:
    value: object = decode_model(_kube_object(obj, found, source), source.model)
    for step in steps:
        value = step.take(value)
    path = (source, *(step.target for step in steps))
    body = _body(value)
    metadata: object = found.metadata
    if all("metadata" in one.fields for one in path):
        metadata = _changed_metadata(found.metadata, body.get("metadata"))
    if "status" not in source.fields | path[-1].fields and found.status != _NO_VALUE:
        body["status"] = found.status
    api_version = path[-1].resource.api_version
    head = {"apiVersion": api_version, "kind": found.kind, "metadata": metadata}
    return msgspec.json.encode({**head, **body, **head})


def _kube_object(obj: bytes, found: _Object, version: ConvertedVersion) -> KubeObject:
    """Return an object with what a decoder and its errors need of it."""
    try:
        names = _names_of(bytes(found.metadata))
    except _DECODE_FAILURES as error:
        raise InvalidObjectError(f"the metadata of a {found.kind}", complaint_of(error)) from error
    key = f"{names.namespace}/{names.name}" if names.namespace else names.name
    gvk = GroupVersionKind(version.resource.group, version.resource.version, found.kind)
    return KubeObject(key, ObjectMeta(names.namespace, names.name, "", ""), None, obj, gvk)


def _check_names(source: ConvertedVersion, target: ConvertedVersion) -> None:
    mine = (source.resource.group, source.resource.resource, source.kind)
    theirs = (target.resource.group, target.resource.resource, target.kind)
    for word, one, other in zip(("group", "plural name", "kind"), mine, theirs, strict=True):
        if one != other:
            reason = f"{source} and {target} must have one {word}; got {one!r} and {other!r}"
            raise InvalidArgumentError("convert", reason)
    if source.resource == target.resource:
        reason = f"{source} and {target} are one version; each version has one model"
        raise InvalidArgumentError("convert", reason)


def _body(value: object) -> JSONObject:
    try:
        return whole_body_of(value, "model")  # type: ignore[arg-type]  # a model, as checked
    except ENDS_PROGRAM:
        raise
    except BaseException as error:  # a fence: serializers of the user's model
        name = type(value).__name__
        raise FunctionFailedError(f"JSON cannot express a {name} that was returned") from error


def _changed_metadata(metadata: msgspec.Raw, changed: object) -> object:
    """Return the metadata of an object with the labels and annotations that a function set."""
    given = changed if isinstance(changed, dict) else {}
    new = {name: given[name] for name in _CHANGEABLE if name in given}
    if not given.get("name"):  # the function made it without what was there, which stays
        return {**_fields_of(bytes(metadata)), **new} if new else metadata
    kept = {k: v for k, v in _fields_of(bytes(metadata)).items() if k not in _CHANGEABLE}
    return {**kept, **new}
