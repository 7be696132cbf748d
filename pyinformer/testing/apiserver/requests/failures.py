"""Refusals of the embedded server, as the `Status` objects that Kubernetes sends.

A Failure becomes the body of an HTTP answer, the ERROR event of a watch, or the typed error that a
test catches when it calls the server directly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pyinformer.errors import APIStatusError, status_error_class
from pyinformer.objects import JSONObject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyinformer.testing.apiserver.resources import ResourceType

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Failure(Exception):  # noqa: N818 - the server answers with it; only the client sees an error
    """A refused request, with the content of its Status.

    Attributes:
        code: the HTTP status.
        reason: the machine-readable reason; None uses the code's usual reason, "" sends none.
        details: the details of the Status; None sends none.
        continue_token: the token with which an expired list can be continued inconsistently.
        warnings: what the client is warned of, beside the refusal.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        details: JSONObject | None = None,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason: str = _REASONS.get(code, "") if reason is None else reason
        self.details = details
        self.continue_token = continue_token
        self.warnings: Sequence[str] = ()

    @property
    def retry_after_seconds(self) -> int | None:
        """The seconds that the client is asked to wait, or None."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        return seconds if isinstance(seconds, int) else None

    def status(self) -> JSONObject:
        """Return the Status object; the caller owns the dict."""
        metadata = {"continue": self.continue_token} if self.continue_token else {}
        status: JSONObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status

    def body(self) -> bytes:
        """Return the Status as the body of an HTTP answer."""
        return msgspec.json.encode(self.status()) + b"\n"

    def event(self) -> bytes:
        """Return the Status as the ERROR event of a watch."""
        return msgspec.json.encode({"type": "ERROR", "object": self.status()}) + b"\n"

    def typed(self, request: str) -> APIStatusError:
        """Return the typed error for a caller in the same process."""
        found: Sequence[JSONObject] = (self.details or {}).get("causes", ())
        causes = [str(cause.get("reason", "")) for cause in found]
        return status_error_class(self.code, causes)(
            status=self.code,
            reason=self.reason,
            message=self.message,
            request=request,
            causes=causes,
            retry_after_seconds=self.retry_after_seconds,
            names_object=bool(self.details and self.details.get("name")),
        )


def _details(resource: ResourceType, name: str = "") -> JSONObject:
    details: JSONObject = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    return {**details, "kind": resource.plural}


def not_found(resource: ResourceType, name: str) -> Failure:
    """Return the 404 for a name that no object has."""
    message = f'{resource.qualified_name} "{name}" not found'
    return Failure(404, message, details=_details(resource, name))


def already_exists(resource: ResourceType, name: str, *, is_being_deleted: bool = False) -> Failure:
    """Return the 409 for a name that an object already has."""
    message = f'{resource.qualified_name} "{name}" already exists'
    if is_being_deleted:
        message = f"object is being deleted: {message}"
    return Failure(409, message, reason="AlreadyExists", details=_details(resource, name))


def terminating(resource: ResourceType, namespace: str, name: str) -> Failure:
    """Return the 403 for an object whose namespace is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    details = {**_details(resource, name), "causes": [cause]}
    return Failure(403, f'{resource.qualified_name} "{name}" is forbidden: {why}', details=details)


def definition_terminating(resource: ResourceType, name: str) -> Failure:
    """Return the 403 for an object whose definition is being deleted."""
    why = "create not allowed while custom resource definition is terminating"
    return forbidden(resource, name, why)


def forbidden(resource: ResourceType, name: str, why: str) -> Failure:
    """Return the 403 of an admission plug-in."""
    message = f'{resource.qualified_name} "{name or "Unknown"}" is forbidden: {why}'
    return Failure(403, message, details=_details(resource, name))


def conflict(resource: ResourceType, name: str, why: str) -> Failure:
    """Return the 409 for a write whose precondition does not hold."""
    message = f'Operation cannot be fulfilled on {resource.qualified_name} "{name}": {why}'
    return Failure(409, message, details=_details(resource, name))


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> Failure:
    """Return the 409 for an apply that would change fields of other managers.

    Args:
        conflicts: each owner, as messages name it, and the field.
    """
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
        for owner, path in conflicts
    ]
    if len(conflicts) == 1:
        text = f"1 conflict: conflict with {conflicts[0][0]}: {conflicts[0][1]}"
    else:
        lines: list[str] = []
        for one in dict.fromkeys(owner for owner, _ in conflicts):
            lines.append(f"conflicts with {one}:")
            lines.extend(f"- {path}" for owner, path in conflicts if owner == one)
        text = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    return Failure(409, f"Apply failed with {text}", details={"causes": causes})


def invalid(kind: str, group: str, name: str, causes: Sequence[tuple[str, str, str]]) -> Failure:
    """Return the 422 for a request with invalid content.

    Args:
        kind: the kind of the invalid object.
        group: its API group.
        name: its name; may be empty.
        causes: the machine-readable reason, the field and the sentence of each cause.
    """
    sentences = [f"{field}: {sentence}" for _, field, sentence in causes]
    text = sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: JSONObject = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = kind
    details["causes"] = [
        {"reason": reason, "message": sentence, "field": field}
        for reason, field, sentence in causes
    ]
    return Failure(422, f'{qualified} "{name}" is invalid: {text}', details=details)


def no_such_resource() -> Failure:
    """Return the 404 for a path that does not name a resource."""
    return Failure(404, "the server could not find the requested resource", details={})


def no_such_method() -> Failure:
    """Return the 405 for a verb that a resource does not have."""
    message = "the server does not allow this method on the requested resource"
    return Failure(405, message, details={})


def resource_version_too_large(wanted: int, current: int) -> Failure:
    """Return the 504 for a resource version that the server has not reached."""
    return Failure(
        504,
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={
            "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            ],
            "retryAfterSeconds": 1,
        },
    )


def malformed_resource_version(text: str, why: str = "invalid syntax") -> Failure:
    """Return the 500 without a reason for a resource version that is not a number."""
    message = (
        f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {why}'
    )
    return Failure(500, message, reason="")


def no_upgrade() -> Failure:
    """Return the 400 for a request that has to be upgraded, and does not ask for it."""
    return Failure(400, "Upgrade request required")


def unknown_protocols(offered: Sequence[str], known: Sequence[str]) -> Failure:
    """Return the 403 for a conversation in a protocol that the server does not speak."""
    message = f"requested protocol(s) are not supported: {[*offered]}; supports {[*known]}"
    return Failure(403, message, reason="")


def nested_too_deeply() -> Failure:
    """Return the 400 for a body with more levels than the server can process.

    Source:
        encoding/json of Go, whose limit is 10,000 levels; ours is below 512.
    """
    return Failure(400, "exceeded max depth: the body is nested too deeply")
