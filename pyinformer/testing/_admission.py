"""Asks an operator's hooks about a write, in process: what they refuse, and complete."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final, get_args

from pyinformer.admission import HookOperation
from pyinformer.client.cluster import body_of
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import (
    GroupVersionKind,
    GroupVersionResource,
    JSONObject,
    check_choice,
    check_encodable,
    check_flag,
    check_iterable,
    check_text,
    guess_plural,
)
from pyinformer.operator import Operator, declared_resource, hooks_of
from pyinformer.testing.apiserver.admission import Admission, WriteReview
from pyinformer.testing.apiserver.admission.in_process import InProcessHooks
from pyinformer.testing.apiserver.requests import Failure
from pyinformer.testing.apiserver.resources import Registry, ResourceType
from pyinformer.testing.apiserver.storage import Storage

if TYPE_CHECKING:
    from pyinformer.admission import Hook
    from pyinformer.client.cluster import Body

_USER: Final = "test"
_DENIED: Final = " denied the request: "


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What the hooks of an operator have made of a write."""

    allowed: bool
    status: int
    """The HTTP status at the client: 200, or why it is refused; 500 if a hook failed."""
    message: str
    """What the client gets, without the name of the hook; empty if it is allowed."""
    warnings: Sequence[str]
    """What the client is warned of."""
    object: JSONObject
    """The object with the defaults, as it would be stored."""


async def review(
    app: Operator,
    operation: HookOperation,
    obj: Body,
    *,
    old: Body | None = None,
    plural: str | None = None,
    user: str = _USER,
    groups: Sequence[str] = (),
    dry_run: bool = False,
) -> Reviewed:
    """Ask the hooks of an operator about a write, as the API server would, and return the outcome.

        found = await review(app, "create", {"apiVersion": "acme.io/v1", "kind": "Database", ...})
        assert found.object["spec"]["image"] == "postgres:17"

    Defaults are asked first, and asked again if another one has changed the object; then all that
    validate. Conditions in `when` are evaluated. Nothing is stored, and no server is needed; a hook
    that reads caches needs a run of the operator: see `use_hooks` of `World` and `APIServer`.

    Args:
        app: the operator.
        operation: the write.
        obj: the object that is written or deleted, whole.
        old: the object before an update.
        plural: the plural name, with a subresource if that is written; None takes the one that a
            hook's model declares for the kind, or the likely one.
        user: who writes.
        groups: the groups of the user.
        dry_run: whether nothing would be stored.

    Raises:
        InvalidArgumentError: an update without `old`, or an unknown operation; or no hook is about
            the resource, in this version.
        InvalidTypeError: an argument is of another type.

    Cancellation:
        Reaches the hook's function.
    """
    if not isinstance(app, Operator):
        raise InvalidTypeError("app", f"must be an Operator, got {type(app).__name__}")
    check_choice("operation", operation, get_args(HookOperation))
    check_encodable("user", user)
    if plural is not None:
        check_text("plural", plural)
    check_iterable("groups", groups, shown="names of groups", items=str)
    for one in groups:
        check_encodable("groups", one)
    check_flag("dry_run", dry_run)
    if (old is None) == (operation == "update"):
        reason = "must be the object before the update" if old is None else "is for updates only"
        raise InvalidArgumentError("old", reason)
    written = deepcopy(body_of(obj))
    gvk = _kind_of(written)
    path, _, subresource = (plural or _plural_of(gvk, hooks_of(app).hooks)).partition("/")
    resource = _resource_of(gvk, path, subresource, list(hooks_of(app).hooks))
    admission = Admission(Storage(window_size=1, history_size=1), Registry(), random.Random())
    admission.add(InProcessHooks(app, None))
    asked = WriteReview(admission, {"username": user, "groups": list(groups)})
    before = None if old is None else body_of(old, "old")

    def write() -> None:
        """Complete and check the object, as a server does that stores it."""
        if operation == "delete":
            asked.check(resource, written, None, subresource=subresource, dry_run=dry_run)
            return
        made = asked.mutated(resource, before, written, subresource=subresource, dry_run=dry_run)
        outcome[:] = [made]
        asked.check(resource, before, made, subresource=subresource, dry_run=dry_run)

    outcome = [written]
    try:
        await asked.perform(write)
        status, message = 200, ""
    except Failure as failure:
        status, message = failure.code, failure.message
    return Reviewed(
        allowed=not message,
        status=status,
        message=message.partition(_DENIED)[2] or message,
        warnings=asked.warnings,
        object=outcome[0],
    )


def _resource_of(
    gvk: GroupVersionKind, plural: str, subresource: str, hooks: Sequence[Hook]
) -> ResourceType:
    """Return what is written, which a hook must be about, for whatever operation.

    Objects of subresources have kinds of other groups, such as Scale.
    """
    for one in hooks:
        of = one.resource
        is_version = bool(subresource) or of.api_version == gvk.api_version
        if is_version and (of.resource, one.subresource) == (plural, subresource):
            return ResourceType(of.group, of.version, gvk.kind, plural)
    known = ", ".join(dict.fromkeys(str(one.resource) for one in hooks)) or "none"
    asked = GroupVersionResource.of(gvk.api_version, plural)
    shown = f"{asked}/{subresource}" if subresource else str(asked)
    reason = f"no hook is about {shown}, but {known}: plural= names the resource"
    raise InvalidArgumentError("plural", reason)


def _kind_of(obj: JSONObject) -> GroupVersionKind:
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not isinstance(kind, str) or not kind:
        raise InvalidArgumentError("obj", "must have an apiVersion and a kind")
    return GroupVersionKind.of(api_version, kind)


def _plural_of(gvk: GroupVersionKind, hooks: Iterable[Hook]) -> str:
    """Return the plural name that a model declares for a kind, or else the likely one."""
    for hook in hooks:
        declared = None if hook.model is None else declared_resource(hook.model)
        if declared and (declared.resource.group, declared.kind) == (gvk.group, gvk.kind):
            return declared.resource.resource
    return guess_plural(gvk.kind)
