"""Carry out a write request, from the bytes of its body to the bytes of the answer.

The request is already authorized and routed; the handler reads it and sends the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.patches import (
    APPLY,
    Edit,
    json_object,
    parse_configuration,
    parse_patch,
)
from pyinformer.testing.apiserver.reads import Page, render_page
from pyinformer.testing.apiserver.requests import (
    Failure,
    Reviewer,
    Route,
    WriteParameters,
    failures,
    parse_number,
    parse_write_parameters,
)
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import Record
from pyinformer.testing.apiserver.writes import _decoding
from pyinformer.testing.apiserver.writes._scaling import (
    applied_scale,
    patch_scale,
    replace_scale,
    scale_of,
)
from pyinformer.testing.apiserver.writes._writes import Writes

SCALE: Final = "autoscaling/v1/Scale"
_LARGEST_BODY_BYTES: Final = 3 * 1024 * 1024  # kube-apiserver's limit
_STRICT: Final = "Strict"
_WARN: Final = "Warn"
_OTHER_NAMESPACE: Final = (
    "the namespace of the provided object does not match the namespace sent on the request"
)
_NOTHING: Final = "couldn't get version/kind; json parse error: unexpected end of JSON input"
_JSON = ("application/json", "application/octet-stream")
_YAML = "application/yaml"
_CREATED = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}\n'
"""The answer to a binding and to an eviction."""
_ORPHANING: Final = frozenset({"jobs.batch", "replicationcontrollers"})
"""Resources whose deletion without a policy orphans the dependents, for compatibility."""
_JOB_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to"
    " remove them or set propagationPolicy=Orphan to suppress this warning"
)
_RETURNS_DELETED = ("pods", "serviceaccounts", "services")
"""Resources whose deletion returns the object; all others return a Status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCall:
    """One write request.

    Attributes:
        user_agent: the User-Agent header; it names the field manager if the query does not.
        body: the bytes of the body.
        reviewer: may change or refuse the write; None if it is not reviewed.
        warnings: what the client is warned of; `perform` adds to it.
    """

    resource: ResourceType
    route: Route
    query: Mapping[str, str]
    content_type: str
    user_agent: str
    body: bytes
    reviewer: Reviewer | None = None
    warnings: list[str] = field(default_factory=list)

    def perform(self, writes: Writes) -> tuple[int, bytes]:
        """Carry out the request; `delete_page` carries out the deletion of a collection.

        Returns:
            The HTTP status and the body of the answer.

        Raises:
            Failure: the request is refused.
        """
        _check_length(self.body)
        match self.route.verb, self.route.subresource:
            case (("update" | "patch"), "scale"):
                return self._scale(writes)
            case "create", "binding":
                writes.bind(*self._place, self._object("Binding"), self._options())
                return 201, _CREATED
            case "create", "eviction":
                return self._evict(writes)
            case (("create" | "delete"), subresource) if subresource:
                raise failures.no_such_method()
            case "create", _:
                record = writes.create(
                    self.resource, self.route.namespace, self._new_object(), self._options()
                )
                return 201, _line(record.full)
            case "update", _:
                record, is_new = writes.put(
                    *self._place,
                    self._decoded(self._object()),
                    self._options(),
                    subresource=self.route.subresource,
                )
                return 201 if is_new else 200, _line(record.full)
            case "patch", _:
                return self._patch(writes)
            case "delete", _:
                return self._delete(writes)
        raise failures.no_such_method()

    def _patch(self, writes: Writes) -> tuple[int, bytes]:
        options, subresource = self._options(), self.route.subresource
        if self.content_type == APPLY:
            wanted = parse_configuration(self.body)
            record, is_new = writes.apply(*self._place, wanted, options, subresource=subresource)
            return 201 if is_new else 200, _line(record.full)
        edit = self._decoding(parse_patch(self.content_type, self.body, self.resource))
        record = writes.patch(*self._place, edit, options, subresource=subresource)
        return 200, _line(record.full)

    def _decoding(self, edit: Edit, kind: str = "") -> Edit:
        """Return an edit that decodes what another one makes of an object."""

        def decoded(body: JSONObject) -> JSONObject:
            try:
                return self._decoded(edit(body), kind)
            except _decoding.DecodingFailure as failure:  # it has the whole object
                cause = f"Invalid value: the patched object: {failure.why}"
                raise failures.invalid(
                    "", "", "", [("FieldValueInvalid", "patch", cause)]
                ) from None

        return decoded

    def _evict(self, writes: Writes) -> tuple[int, bytes]:
        eviction = self._object("Eviction")
        _check_eviction(eviction, self.route.namespace)
        options = self._options(eviction.get("deleteOptions") or {})
        writes.evict(*self._place, eviction, options)
        return 201, _CREATED

    def _scale(self, writes: Writes) -> tuple[int, bytes]:
        resource, namespace, name = self._place
        if self.content_type == APPLY:
            wanted = applied_scale(resource, namespace, name, parse_configuration(self.body))
            record, _ = writes.apply(*self._place, wanted, self._options(), subresource="scale")
            return 200, _line(msgspec.json.encode(scale_of(resource, record.to_dict())))
        if self.route.verb == "update":
            edit = replace_scale(resource, name, self._decoded(self._object(), SCALE))
        else:
            change = self._decoding(parse_patch(self.content_type, self.body, resource), SCALE)
            edit = patch_scale(resource, name, change)
        record = writes.patch(*self._place, edit, self._options(), subresource="scale")
        return 200, _line(msgspec.json.encode(scale_of(resource, record.to_dict())))

    def _delete(self, writes: Writes) -> tuple[int, bytes]:
        wanted, dry_run = self._deletion()
        record, is_gone = writes.delete(
            *self._place, wanted, dry_run=dry_run, reviewer=self.reviewer
        )
        return 200, _line(_deleted(record, is_gone=is_gone))

    def delete_page(self, writes: Writes, page: Page) -> tuple[int, bytes]:
        """Delete the objects of a list that the request asked for.

        Returns:
            The HTTP status and the body of the answer, which is the list.

        Raises:
            Failure: the request is refused.

        Source:
            k8s.io/apiserver/pkg/registry/generic/registry/store.go, DeleteCollection.
        """
        _check_length(self.body)
        wanted, dry_run = self._deletion()
        writes.delete_all(
            self.resource, page.records, wanted, dry_run=dry_run, reviewer=self.reviewer
        )
        return 200, b"".join(render_page(self.resource, page))

    @property
    def _place(self) -> tuple[ResourceType, str, str]:
        return self.resource, self.route.namespace, self.route.name

    def _options(
        self,
        deletion: Mapping[str, JSONValue] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> WriteParameters:
        deletion = deletion or {}
        dry_run = deletion.get("dryRun")
        found = parse_write_parameters(
            self.route.verb,
            self.query if query is None else query,
            user_agent=self.user_agent,
            is_apply=self.content_type == APPLY,
            dry_run=[str(one) for one in dry_run] if isinstance(dry_run, list) else [],
            propagation=str(deletion.get("propagationPolicy") or ""),
        )
        return found if self.reviewer is None else replace(found, reviewer=self.reviewer)

    def _deletion(self) -> tuple[JSONObject, bool]:
        """Return the DeleteOptions, those of the query without a body, and whether it is dry."""
        wanted = self._object() if self.body else _delete_options(self.query)
        _check_delete_options(wanted)
        is_default = not wanted.get("propagationPolicy") and wanted.get("orphanDependents") is None
        if is_default and self.resource.qualified_name in _ORPHANING:
            wanted["propagationPolicy"] = "Orphan"
            if self.resource.kind == "Job":
                self.warnings.append(_JOB_WARNING)
        return wanted, self._options(wanted, {} if self.body else self.query).dry_run

    def _new_object(self) -> JSONObject:
        """Return the body of a create; refuse a custom one without a kind."""
        body = self._object()
        if self.resource.list_shape == "custom" and not body.get("kind"):
            raise self._unrecognized(self.resource.kind, "Object 'Kind' is missing")
        return self._decoded(body)

    def _decoded(self, body: JSONObject, kind: str = "") -> JSONObject:
        """Decode a body; refuse its unknown fields, or add a warning of each."""
        decoded = _decoding.decode(self.resource, body, kind)
        validation = self.query.get("fieldValidation") or _WARN
        if validation == _STRICT:
            _decoding.check_known(self.resource, decoded.unknown)
        elif validation == _WARN:
            self.warnings.extend(f'unknown field "{one}"' for one in decoded.unknown)
        return decoded.body

    def _unrecognized(self, kind: str, why: str) -> Failure:
        return Failure(400, f"the object provided is unrecognized (must be of type {kind}): {why}")

    def _object(self, kind: str = "") -> JSONObject:
        """Parse the body, which must be an object of this kind or, for "", of the resource's."""
        if not self.body:
            raise self._unrecognized(kind or self.resource.kind, _NOTHING)
        if self.body.strip() == b"null":  # an object without fields, as for Go
            return {}
        if self.content_type == _YAML:
            return parse_configuration(self.body)
        if self.content_type not in _JSON:
            message = (
                "the body of the request was in an unknown format - accepted media types include:"
                " application/json"
            )
            raise Failure(415, message)
        return json_object(self.body)


def _check_length(body: bytes) -> None:
    if len(body) > _LARGEST_BODY_BYTES:
        raise Failure(413, f"Request entity too large: limit is {_LARGEST_BODY_BYTES}")


def _check_eviction(eviction: JSONObject, namespace: str) -> None:
    """Refuse an eviction of another kind, or for another namespace than that of the URL."""
    kind, metadata = eviction.get("kind"), eviction.get("metadata") or {}
    if kind not in (None, "", "Eviction"):
        message = (
            f'{kind} in version "v1" cannot be handled as a Eviction: converting (v1.{kind}) to'
            " (policy.Eviction): unknown conversion"
        )
        raise Failure(400, message)
    if metadata.get("namespace") not in (None, "", namespace):
        raise Failure(400, _OTHER_NAMESPACE)


def _delete_options(query: Mapping[str, str]) -> JSONObject:
    """Return the DeleteOptions in a query.

    Source:
        k8s.io/apimachinery/pkg/apis/meta/v1/conversion.go, Convert_url_Values_To_v1_DeleteOptions.
    """
    found: JSONObject = {}
    if "gracePeriodSeconds" in query:
        found["gracePeriodSeconds"] = parse_number(query["gracePeriodSeconds"])
    if "orphanDependents" in query:  # sent by older clients
        found["orphanDependents"] = query["orphanDependents"] in ("true", "1")
    if query.get("propagationPolicy"):
        found["propagationPolicy"] = query["propagationPolicy"]
    found["preconditions"] = {
        name: query[name] for name in ("uid", "resourceVersion") if query.get(name)
    }
    return found


def _check_delete_options(options: JSONObject) -> None:
    """Refuse options of another kind or type than DeleteOptions have."""
    kind, seconds = options.get("kind"), options.get("gracePeriodSeconds")
    if kind not in (None, "", "DeleteOptions"):
        message = f'no kind "{kind}" is registered for version "{options.get("apiVersion")}"'
        raise Failure(400, message)
    if seconds is not None and type(seconds) is not int:
        message = (
            "json: cannot unmarshal into Go struct field DeleteOptions.gracePeriodSeconds of type"
            " int64"
        )
        raise Failure(400, message)


def _line(body: bytes) -> bytes:
    return body + b"\n"


def _deleted(record: Record, *, is_gone: bool) -> bytes:
    resource = record.resource
    if not is_gone or resource.qualified_name in _RETURNS_DELETED:
        return record.full
    group = {"group": resource.group} if resource.group else {}
    details = {"name": record.name, **group, "kind": resource.plural, "uid": record.uid}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
    return msgspec.json.encode(status)
