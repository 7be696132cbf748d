"""Asks an operator's hooks about a write, in process: what they refuse, and complete."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final, get_args

import msgspec

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
    decoder_of,
    guess_plural,
)
from pyinformer.operator import Operator, declared_resource, hooks_of
from pyinformer.testing.apiserver.patches import json_patch

if TYPE_CHECKING:
    from pyinformer.admission import Hook, Reviews
    from pyinformer.client.cluster import Body

_USER: Final = "test"
_decode: Final = decoder_of()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What the hooks of an operator have made of a write."""

    allowed: bool
    status: int
    """The HTTP status at the client: 200, or why it is refused; 500 if a hook failed."""
    message: str
    """What the client gets; empty if it is allowed."""
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
    validate. Nothing is stored, and no server is needed; a hook that reads caches needs a run of
    the operator, see `World`.

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
            the resource, in this version; or a hook has conditions (`when`), which only a real
            server evaluates.
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
    asked = _Asked(
        operation=operation,
        kind=gvk,
        resource=GroupVersionResource.of(gvk.api_version, path),
        subresource=subresource,
        old=None if old is None else body_of(old, "old"),
        user={"username": user, "groups": list(groups)},
        dry_run=dry_run,
    )
    every = hooks_of(app).hooks.reviews().values()
    if not any(asked.is_about(one.hook) for one in every):
        known = ", ".join(dict.fromkeys(str(one.hook.resource) for one in every)) or "none"
        reason = f"no hook is about {asked.shown}, but {known}: plural= names the resource"
        raise InvalidArgumentError("plural", reason)
    reviews = [one for one in every if asked.concerns(one.hook)]
    return await asked.outcome(reviews, written)


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


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One write about which hooks are asked."""

    operation: HookOperation
    kind: GroupVersionKind
    resource: GroupVersionResource
    subresource: str
    old: JSONObject | None
    user: JSONObject
    dry_run: bool

    @property
    def shown(self) -> str:
        """The resource, with the subresource."""
        return f"{self.resource}/{self.subresource}" if self.subresource else str(self.resource)

    def is_about(self, hook: Hook) -> bool:
        """Return whether a hook is about the resource, whatever it is asked about.

        Objects of subresources have kinds of other groups, such as Scale.
        """
        if self.subresource:
            return (hook.resource.resource, hook.subresource) == (
                self.resource.resource,
                self.subresource,
            )
        return hook.resource == self.resource and not hook.subresource

    def concerns(self, hook: Hook) -> bool:
        """Return whether a hook is asked about it.

        Raises:
            InvalidArgumentError: its conditions decide, which only a real server evaluates.
        """
        if not self.is_about(hook):
            return False
        if self.operation not in hook.operations:
            return False
        if hook.when:
            reason = f"{hook.path} has conditions, which only a real server evaluates"
            raise InvalidArgumentError("app", reason)
        return True

    async def outcome(self, reviews: Sequence[Reviews], obj: JSONObject) -> Reviewed:
        """Ask hooks in the order of the API server."""
        defaults = [one for one in reviews if one.hook.kind == "default"]
        validating = [one for one in reviews if one.hook.kind == "validate"]
        warnings: list[str] = []
        again = [*defaults, *(defaults if len(defaults) > 1 else ())]
        for one in (*again, *validating):
            answer = await one.answer(msgspec.json.encode(self._review(obj)))
            if answer.status != 200:  # noqa: PLR2004 - OK
                if one.hook.ignores_failures:
                    continue
                return Reviewed(
                    allowed=False,
                    status=500,
                    message=answer.body.decode(),
                    warnings=warnings,
                    object=obj,
                )
            response = _decode(answer.body)["response"]
            warnings += response.get("warnings", ())
            if not response["allowed"]:
                status = response["status"]
                return Reviewed(
                    allowed=False,
                    status=status["code"],
                    message=status["message"],
                    warnings=warnings,
                    object=obj,
                )
            if "patch" in response:
                obj = _patched(obj, base64.b64decode(response["patch"]))
        return Reviewed(allowed=True, status=200, message="", warnings=warnings, object=obj)

    def _review(self, obj: JSONObject) -> JSONObject:
        metadata = obj.get("metadata") or {}
        resource = self.resource
        is_deletion = self.operation == "delete"
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": str(uuid.uuid4()),
                "kind": {
                    "group": self.kind.group,
                    "version": self.kind.version,
                    "kind": self.kind.kind,
                },
                "resource": {
                    "group": resource.group,
                    "version": resource.version,
                    "resource": resource.resource,
                },
                "subResource": self.subresource,
                "name": metadata.get("name", ""),
                "namespace": metadata.get("namespace", ""),
                "operation": self.operation.upper(),
                "userInfo": self.user,
                "object": None if is_deletion else obj,
                "oldObject": obj if is_deletion else self.old,
                "dryRun": self.dry_run,
                "options": {},
            },
        }


def _patched(obj: JSONObject, patch: bytes) -> JSONObject:
    found: JSONObject = json_patch(obj, _decode(patch))
    return found
