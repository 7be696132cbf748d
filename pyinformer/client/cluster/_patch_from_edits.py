"""The merge patch for an object that the caller has edited, as a dict or in a model.

A patch has only what was edited. Edits that the server would ignore or misunderstand are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, cast

from pyinformer.client.cluster._condition_merge import StatusChange
from pyinformer.client.cluster._edited_parts import decode_fields, edited_fields, edited_parts
from pyinformer.client.cluster._json_conversion import (
    TOO_DEEP,
    Body,
    body_of,
    encode_body,
    is_model,
    is_plain_model,
    whole_body_of,
    whole_fields_of,
)
from pyinformer.client.cluster._merge_patch import (
    carry_over,
    joined_patch,
    merge_patch,
    object_patch,
    same,
)
from pyinformer.errors import InvalidArgumentError, InvalidObjectError, InvalidTypeError
from pyinformer.objects import ABSENT, JSONObject, KubeObject

_WHOLE: Final = {"apiVersion", "kind", "metadata"}
_IDENTITY: Final = (("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace"))
_UID: Final = ("metadata", "uid")


@contextmanager
def _within_the_limit(argument: str) -> Iterator[None]:
    """Refuse edits that are compared one field in another until the stack ends."""
    try:
        yield
    except RecursionError as error:
        raise InvalidArgumentError(argument, TOO_DEEP) from error


def patch_of(before: KubeObject[object], edited: Body) -> JSONObject:
    """Return the patch for an edited object.

    Args:
        before: the object as it was.
        edited: the whole object, edited: as a dict or in a model.

    Raises:
        InvalidObjectError: the object does not fit the model.
        InvalidArgumentError: the edited object is another one, or a dict that is not its copy; or
            elements of a list that the model does not fully know cannot be distinguished.
        InvalidTypeError: `edited` is not an object.
    """
    return edits_of(before, edited)[1]


def edits_of(before: KubeObject[object], edited: Body) -> tuple[JSONObject, JSONObject]:
    """Return the edited fields of an object as they were, and the merge patch for its edits.

    Args:
        before: the object as it was.
        edited: the whole object, edited: as a dict or in a model.

    Raises:
        InvalidObjectError: as for `patch_of`.
        InvalidArgumentError: as for `patch_of`.
        InvalidTypeError: as for `patch_of`.
    """
    whole, after = _before_and_after(before, edited)
    with _within_the_limit("edited"):
        return whole, object_patch(whole, after)


def _before_and_after(before: KubeObject[object], edited: Body) -> tuple[JSONObject, JSONObject]:
    """Return an object, and the same with the edits: its model may not know all of its fields.

    Fields at the top are left out of both if they are the same, as are those of its spec.
    """
    with _within_the_limit("edited"):
        if is_model(edited):
            whole, after = _edits_of_model(before, edited)
        elif type(edited) is dict:
            whole, changed = edited_parts(before, edited)
            after = body_of(changed, "edited")
        else:
            whole, after = before.to_dict(), body_of(edited, "edited")
    for path in _IDENTITY:
        if not _at(after, path) and _at(whole, path):
            reason = f"has no {'.'.join(path)}: pass the whole object with the edits in it"
            raise InvalidArgumentError("edited", reason)
        if _at(after, path) != _at(whole, path):
            reason = (
                f"{'.'.join(path)} cannot be changed: it would be another object than {before!r}"
            )
            raise InvalidArgumentError("edited", reason)
    if _at(whole, _UID) and not _at(after, _UID):
        reason = (
            "has no metadata.uid, so it is not the object with edits in it, and what it lacks would"
            " be removed: edit obj.to_dict(), or pass a model itself"
        )
        raise InvalidArgumentError("edited", reason)
    return whole, after


def status_change_of(
    before: KubeObject[object], status: Body, *, known: JSONObject | None = None
) -> StatusChange:
    """Return what is new in a status, whether or not the current one fits the model.

    Args:
        before: the object as its caller knows it.
        status: the new status: all of it as a dict, or what a model knows of it.
        known: the status of `before` with what the caller has written since; None if that is
            nothing. What is new beside either is sent.

    Raises:
        InvalidArgumentError: it is a whole object; or elements of a list cannot be distinguished.
        InvalidTypeError: `status` is not a status.
    """
    seen = _status_in(before)
    whole = seen if known is None else known
    after = _status_after(before, whole, status)
    with _within_the_limit("status"):
        patch = merge_patch(whole, after)
        if known is not None:
            patch = joined_patch(merge_patch(seen, after), patch)
        whole_patch: JSONObject = {"status": patch} if patch else {}
        return StatusChange.of(whole_patch, {"status": seen}, {"status": whole})


def status_body(before: KubeObject[object], status: Body) -> JSONObject:
    """Return the whole new status of an object: what a model does not know of it stays.

    Args:
        before: the object as its caller knows it.
        status: the new status: all of it as a dict, or what a model knows of it.

    Raises:
        InvalidArgumentError: it is a whole object; or elements of a list cannot be distinguished.
        InvalidTypeError: `status` is not a status.
    """
    return _status_after(before, _status_in(before), status)


def _status_in(obj: KubeObject[object]) -> JSONObject:
    found = obj.to_dict().get("status")
    return found if isinstance(found, dict) else {}


def _status_after(before: KubeObject[object], whole: JSONObject, status: Body) -> JSONObject:
    if isinstance(status, KubeObject) or (isinstance(status, Mapping) and status.keys() >= _WHOLE):
        raise InvalidArgumentError("status", "must be the new status, not a whole object")
    image = KubeObject(before.key, before.metadata, None, encode_body(whole), before.gvk)
    with _within_the_limit("status"):
        try:
            return _edited(image, whole, status, argument="status", level=2)
        except InvalidObjectError:  # there is none yet, or one of an older version of the model
            return {**whole, **body_of(status, "status", level=2)}


def _edits_of_model(before: KubeObject[object], edited: Body) -> tuple[JSONObject, JSONObject]:
    seen, after = _shown_before_and_after(before, edited)
    for name in [name for name, value in after.items() if same(seen.get(name, ABSENT), value)]:
        del seen[name], after[name]
    whole = decode_fields(before, seen.keys() | after.keys())
    return whole, cast("JSONObject", carry_over(whole, seen, after))  # of objects it makes one


def _shown_before_and_after(
    before: KubeObject[object], edited: Body
) -> tuple[JSONObject, JSONObject]:
    """Return what a model shows of an object: at least the fields that were edited."""
    model = type(edited)
    if not is_plain_model(model):
        after = whole_body_of(edited, "edited")  # refuses what is not a model
        _check_not_generic(model, "edited")
        return whole_body_of(before.as_type(model), "edited"), after
    _check_not_generic(model, "edited")
    fields = edited_fields(before.as_type(model), edited)
    seen, after = (whole_fields_of(one, "edited", model=model) for one in fields)
    return seen, after


def _edited(
    before: KubeObject[object],
    whole: JSONObject,
    edited: Body,
    argument: str = "edited",
    level: int = 1,
) -> JSONObject:
    if not is_model(edited):
        return body_of(edited, argument, level=level)
    after = whole_body_of(edited, argument, level=level)  # refuses what is not a model
    _check_not_generic(type(edited), argument)
    seen = whole_body_of(before.as_type(type(edited)), argument, level=level)
    return cast("JSONObject", carry_over(whole, seen, after))  # of objects it makes an object


def _check_not_generic(model: type[object], argument: str) -> None:
    if getattr(model, "__parameters__", ()):
        reason = (
            f"is of the generic class {model.__name__}, and does not know what {model.__name__} was"
            " parametrized with, so what it lacks would be removed: use a subclass as the model,"
            f" `class Sub({model.__name__}[...])`"
        )
        raise InvalidTypeError(argument, reason)


def _at(body: JSONObject, path: tuple[str, ...]) -> object:
    value: object = body
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value or None
