"""Answers AdmissionReviews: from the bytes of a request to those of its answer.

The object is decoded from the request's own bytes into the model. Of a default only what the
function changed becomes a patch, so fields that the model does not know stay.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, final

import anyio
import msgspec

from pyinformer._runtime.clock import monotonic
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import FailureLog, error_text, repeats_text
from pyinformer.admission._answers import Answer, refused
from pyinformer.admission._review import Denied, HookOperation, Review, User, shown
from pyinformer.client.cluster import edits_of, fingerprint_of
from pyinformer.errors import ModelMismatchError
from pyinformer.objects import (
    GroupVersionKind,
    JSONObject,
    KubeObject,
    Labels,
    ObjectMeta,
    OwnerReference,
    decode_model,
    decoder_of,
    object_key,
    unbounded_decoder_of,
)

if TYPE_CHECKING:
    from pyinformer.admission._hooks import Hook

_log = get_logger(__name__)

_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
_OPERATIONS: Final[dict[str, HookOperation]] = {
    "CREATE": "create",
    "UPDATE": "update",
    "DELETE": "delete",
}
_LARGE: Final = 64 << 10  # of a larger dict, what is the same as in its text is found faster
_EMPTY: Final = msgspec.Raw(b"null")
_SHARE_OF_TIME: Final = 0.9  # of the server's timeout: the answer has to arrive within it


class _Requester(msgspec.Struct):
    username: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    operation: str
    kind: _Kind
    user_info: _Requester | None = None
    namespace: str | None = None
    name: str | None = None
    sub_resource: str | None = None
    dry_run: bool | None = None
    object: msgspec.Raw = _EMPTY
    old_object: msgspec.Raw = _EMPTY
    options: JSONObject | None = None


class _AdmissionReview(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


class _Meta(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None
    finalizers: tuple[str, ...] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: _Meta | None = None


_decode: Final = decoder_of(_AdmissionReview)
_decode_object: Final = unbounded_decoder_of(_Object)
_UNREADABLE: Final = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


@final
class Reviews:
    """Answers the reviews of one hook.

    Args:
        hook: the hook.
    """

    def __init__(self, hook: Hook) -> None:
        self.hook: Hook = hook
        self._failures = FailureLog()

    async def answer(self, body: bytes, *, timeout_seconds: float | None = None) -> Answer:
        """Answer one review.

        Args:
            body: of the request, a JSON text.
            timeout_seconds: how long the server waits; None for the hook's own timeout.

        Cancellation:
            Reaches the hook's function.
        """
        try:
            review = _decode(body)
        except _UNREADABLE as error:
            return refused(HTTPStatus.BAD_REQUEST, _why_unreadable(error))
        if (review.api_version, review.kind) != (_VERSION, _KIND):
            return refused(HTTPStatus.BAD_REQUEST, f"not an {_KIND} of {_VERSION}")
        request = review.request
        operation = _OPERATIONS.get(request.operation)
        if operation is None:
            return refused(HTTPStatus.BAD_REQUEST, "hooks answer CREATE, UPDATE and DELETE")
        try:
            found = _object_of(request.object)
            old = _object_of(request.old_object)
        except _UNREADABLE as error:
            return refused(HTTPStatus.BAD_REQUEST, _why_unreadable(error))
        written = old if operation == "delete" else found
        if written is None:
            return refused(HTTPStatus.BAD_REQUEST, f"a {request.operation} without its object")
        request.object = request.old_object = _EMPTY
        del body  # it would be kept while the function runs
        return await self._reviewed(request, operation, written, old, timeout_seconds)

    async def _reviewed(
        self,
        request: _Request,
        operation: HookOperation,
        written: KubeObject,
        old: KubeObject | None,
        timeout_seconds: float | None,
    ) -> Answer:
        user, kind = request.user_info or _Requester(), request.kind
        review: Review[Any] = Review(
            uid=request.uid,
            operation=operation,
            kind=GroupVersionKind(kind.group, kind.version, kind.kind),
            namespace=request.namespace or "",
            name=request.name or written.metadata.name,
            subresource=request.sub_resource or "",
            user=User(user.username or "", user.uid or "", user.groups or (), user.extra or {}),
            dry_run=bool(request.dry_run),
            options=request.options or {},
            old_object=old,
            warnings=[],
            decode=self._decoded,
        )
        seconds = min(self.hook.timeout_seconds, timeout_seconds or self.hook.timeout_seconds)
        seconds *= _SHARE_OF_TIME
        patch: Sequence[JSONObject] = ()
        try:
            patch = await self._call(written, review, seconds)
        except Denied as denied:
            return _answered(review, denied=(denied.status, denied.shown))
        except ModelMismatchError as error:
            return _answered(
                review, denied=(HTTPStatus.UNPROCESSABLE_ENTITY, shown(_place_of(error)))
            )
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Not of this review: the function has awaited something that was cancelled.
            return self._failed(review, type(error).__name__, error_text(error))
        except ENDS_PROGRAM:
            raise
        except BaseExceptionGroup as errors:
            refusal = _only_refusal(errors)
            if refusal is not None:
                return _answered(review, denied=(refusal.status, refusal.shown))
            return self._failed(review, type(errors).__name__, error_text(errors))
        except Exception as error:  # noqa: BLE001 - a user's function
            return self._failed(review, type(error).__name__, error_text(error))
        return _answered(review, patch=patch)

    async def _call(
        self, written: KubeObject, review: Review[Any], seconds: float
    ) -> Sequence[JSONObject]:
        is_default = self.hook.kind == "default"
        if is_default and self.hook.model is None:
            given: Any = written.to_dict()
        else:
            given = self._decoded(written)
        is_compared = is_default and (self.hook.model is not None or len(written.raw) < _LARGE)
        before = fingerprint_of(given) if is_compared else None
        returned = self.hook.function(given, review)
        if inspect.isawaitable(returned):
            with anyio.move_on_after(seconds) as limit:
                returned = await returned
            if limit.cancelled_caught:
                raise TimeoutError(f"no answer within {seconds:g} s")
        if returned is not None:
            raise TypeError(f"{self.hook.path} returned a {type(returned).__name__}, not None")
        if not is_default or (before is not None and before == fingerprint_of(given)):
            return ()
        return tuple(_operations(*edits_of(written, given)))

    def _decoded(self, obj: KubeObject) -> Any:  # noqa: ANN401 - the hook's model
        return obj if self.hook.model is None else decode_model(obj, self.hook.model)

    def _failed(self, review: Review[Any], kind: str, why: str) -> Answer:
        """Log why a function failed; the API server gets to know that alone."""
        unlogged = self._failures.due_kind(why, monotonic())
        if unlogged is not None:
            _log.error(
                "%s failed for %s, whose writer gets an error: %s%s",
                self.hook.path,
                object_key(review.namespace, review.name),
                why,
                repeats_text(unlogged),
            )
        return refused(HTTPStatus.INTERNAL_SERVER_ERROR, f"failed with {kind}")


def _operations(obj: JSONObject, patch: JSONObject, path: str = "") -> Iterator[JSONObject]:
    """Yield the operations that have the effect of a merge patch.

    Lists are replaced as a whole: a library that compares them takes the square of their length,
    which a tenant chooses.
    """
    for name, value in patch.items():
        place = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
        if name not in obj:
            if value is not None:
                yield {"op": "add", "path": place, "value": value}
        elif value is None:
            yield {"op": "remove", "path": place}
        elif isinstance(value, dict) and isinstance(obj[name], dict):
            yield from _operations(obj[name], value, place)
        else:
            yield {"op": "replace", "path": place, "value": value}


def _object_of(raw: msgspec.Raw) -> KubeObject | None:
    """Return an object of a review, which may not have a name yet; None for null."""
    text = bytes(raw)
    if text == b"null":
        return None
    head = _decode_object(text)
    meta = head.metadata or _Meta()
    metadata = ObjectMeta(
        namespace=meta.namespace or "",
        name=meta.name or "",
        uid=meta.uid or "",
        resource_version=meta.resource_version or "",
        generation=meta.generation or 0,
        labels=Labels.of(meta.labels or {}),
        owner_references=meta.owner_references or (),
        finalizers=meta.finalizers or (),
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
    )
    key = object_key(metadata.namespace, metadata.name)
    gvk = GroupVersionKind.of(head.api_version, head.kind)
    return KubeObject(key, metadata, None, text, gvk)


def _only_refusal(errors: BaseExceptionGroup[BaseException]) -> Denied | None:
    """Return the refusal that a function has raised inside a task group."""
    matching, rest = errors.split(Denied)
    while rest is None and isinstance(matching, BaseExceptionGroup):
        first = matching.exceptions[0]
        if isinstance(first, Denied):
            return first
        matching = first if isinstance(first, BaseExceptionGroup) else None
    return None


def _why_unreadable(error: BaseException) -> str:
    """Return why a text is not a review, without its content."""
    if isinstance(error, msgspec.ValidationError):
        return f"not an {_KIND} of {_VERSION}: {shown(str(error))}"
    if isinstance(error, RecursionError):
        return "the object is nested too deeply"
    return "the body is not JSON"


def _place_of(error: ModelMismatchError) -> str:
    return f"{error.path or 'the object'}: {error.shown}" if error.path else error.shown


def _answered(
    review: Review[Any],
    *,
    patch: Sequence[Mapping[str, object]] = (),
    denied: tuple[int, str] | None = None,
) -> Answer:
    response: JSONObject = {"uid": review.uid, "allowed": denied is None}
    if denied is not None:
        status, message = denied
        response["status"] = {"code": int(status), "message": message}
    elif patch:
        text = msgspec.json.encode(patch)
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(text).decode()}
    if review.warnings:
        response["warnings"] = review.warnings
    body = {"apiVersion": _VERSION, "kind": _KIND, "response": response}
    return Answer(HTTPStatus.OK, msgspec.json.encode(body))
