"""Validation of metadata and sizes, as far as controllers get them wrong.

Values that were stored before are not checked again, since a test may store what a client may not.

Source:
    k8s.io/apimachinery/pkg/api/validation/objectmeta.go; pkg/apis/core/validation/names.go.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from typing import Final

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.requests import Failure, failures
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import Record, go_json

NOT_TAKEN = (
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "selfLink",
)
"""Metadata of a new object that the server ignores."""
_LARGEST_ANNOTATIONS_BYTES: Final = 256 * 1024
_LARGEST_DATA_BYTES: Final = 1024 * 1024
_LARGEST_OBJECT_BYTES: Final = 1536 * 1024  # etcd's --max-request-bytes
_BOUNDED_DATA: Final = {"configmaps": "[]", "secrets": "data"}
_LONGEST_MANAGER, _LONGEST_SUBRESOURCE = 128, 256
_LONGEST_LABEL, _LONGEST_SUBDOMAIN = 63, 253
_LONGEST_NAMES: Final = {"cronjobs.batch": 52}
_NAMED_BY_LABELS: Final = ("namespaces", "services", "statefulsets.apps")
_RBAC: Final = "rbac.authorization.k8s.io"
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
)
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE_RULE: Final = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character"
)
_NAME_RULE: Final = f"must {_VALUE_RULE}"
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must"
    " start and end with an alphanumeric character"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
    " and must start and end with an alphanumeric character"
)
_STANDARD_FINALIZERS = frozenset(("foregroundDeletion", "kubernetes", "orphan"))
_NOT_OWNER: Final = "/v1, Kind=Event is disallowed from being an owner"
_NEEDED_OF_OWNERS = ("apiVersion", "kind", "name", "uid")


def check_metadata(resource: ResourceType, name: str, old: JSONObject, new: JSONObject) -> None:
    """Refuse metadata that no server stores.

    These are finalizers without a domain, incomplete owners, a second controller, malformed labels,
    annotations that are too large, names of field managers that are too long, and a negative
    generation.

    Raises:
        Failure: 422, with one cause per finding.
    """
    is_custom = resource.list_shape == "custom"  # the real server only warns, in a header
    causes = _malformed_finalizers(old, new) + ([] if is_custom else _finalizers(old, new))
    if (generation := new.get("generation") or 0) < 0:
        sentence = f"Invalid value: {generation}: must be greater than or equal to 0"
        causes.append(("FieldValueInvalid", "metadata.generation", sentence))
    for field in ("labels", "annotations"):
        if new.get(field) != old.get(field):
            causes += _pairs(field, new.get(field) or {})
    causes += _managers(new.get("managedFields") or [])
    if new.get("ownerReferences") != old.get("ownerReferences"):
        causes += _owners(new.get("ownerReferences") or [])
    if causes:
        raise failures.invalid(resource.kind, resource.group, name, causes)


def check_name(resource: ResourceType, name: str) -> None:
    """Refuse the name of a new object if its resource does not allow it.

    Raises:
        Failure: 422.
    """
    why = _why_not_named(resource, name)
    if why:
        cause = ("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {why}')
        raise failures.invalid(resource.kind, resource.group, name, [cause])


def check_deletion_unchanged(resource: ResourceType, old: JSONObject, wanted: JSONObject) -> None:
    """Refuse a write that begins a deletion, or changes its grace period.

    Raises:
        Failure: 422.
    """
    grace, time = wanted.get("deletionGracePeriodSeconds"), wanted.get("deletionTimestamp")
    causes = []
    if time and "deletionTimestamp" not in old:
        sentence = f'Invalid value: "{time}": field is immutable'
        causes.append(("FieldValueInvalid", "metadata.deletionTimestamp", sentence))
    if grace is not None and grace != old.get("deletionGracePeriodSeconds"):
        sentence = f"Invalid value: {grace}: field is immutable"
        causes.append(("FieldValueInvalid", "metadata.deletionGracePeriodSeconds", sentence))
    if causes:
        raise failures.invalid(resource.kind, resource.group, str(old["name"]), causes)


def check_size(resource: ResourceType, name: str, body: JSONObject) -> None:
    """Refuse a ConfigMap or a Secret with more than 1 MiB of data.

    Raises:
        Failure: 422.
    """
    path = _BOUNDED_DATA.get(resource.qualified_name)
    if path is None:
        return
    is_secret = resource.qualified_name == "secrets"
    plain = body.get("stringData" if is_secret else "data") or {}
    encoded = body.get("data" if is_secret else "binaryData") or {}
    size = sum(len(str(one).encode()) for one in plain.values())
    size += sum(len(str(one)) * 3 // 4 for one in encoded.values())
    if size > _LARGEST_DATA_BYTES:
        sentence = f"Too long: may not be more than {_LARGEST_DATA_BYTES} bytes"
        cause = ("FieldValueTooLong", path, sentence)
        raise failures.invalid(resource.kind, resource.group, name, [cause])


def check_stored_size(record: Record) -> None:
    """Refuse an object that is larger than etcd's requests.

    Raises:
        Failure: 500, without a reason.
    """
    if len(record.item) > _LARGEST_OBJECT_BYTES:
        raise Failure(500, "etcdserver: request is too large", reason="")


def _why_not_named(resource: ResourceType, name: str) -> str:
    """Return why a resource does not allow a name, or ""."""
    if resource.group == _RBAC:
        is_path = name in (".", "..") or "/" in name or "%" in name
        return "may not be '.' or '..', and may not contain '/' or '%'" if is_path else ""
    if resource.qualified_name in _NAMED_BY_LABELS:
        if _DNS_LABEL.fullmatch(name) is None:
            return "must not contain dots" if "." in name else _LABEL_RULE
        return "must be no more than 63 characters" if len(name) > _LONGEST_LABEL else ""
    if _DNS_SUBDOMAIN.fullmatch(name) is None:
        return _SUBDOMAIN_RULE
    longest = _LONGEST_NAMES.get(resource.qualified_name, _LONGEST_SUBDOMAIN)
    return f"must be no more than {longest} characters" if len(name) > longest else ""


def _pairs(field: str, found: JSONObject) -> list[tuple[str, str, str]]:
    """Return what is wrong with labels or annotations."""
    path, causes = f"metadata.{field}", []
    for key, value in found.items():
        why = why_not_key(key if field == "labels" else key.lower())
        if why:
            causes.append(("FieldValueInvalid", path, f'Invalid value: "{key}": {why}'))
        if field == "labels":
            why = _why_not_value(str(value))
            if why:
                causes.append(("FieldValueInvalid", path, f'Invalid value: "{value}": {why}'))
    size = sum(len(key.encode()) + len(str(value).encode()) for key, value in found.items())
    if field == "annotations" and size > _LARGEST_ANNOTATIONS_BYTES:
        sentence = f"Too long: may not be more than {_LARGEST_ANNOTATIONS_BYTES} bytes"
        causes.append(("FieldValueTooLong", path, sentence))
    return causes


def why_not_key(key: str) -> str:
    """Return why a text is not a qualified name, such as the key of a label; or ""."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        return f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/'"
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and _DNS_SUBDOMAIN.fullmatch(prefix) is None:
        return f"prefix part {_SUBDOMAIN_RULE}"
    if len(name) > _LONGEST_LABEL:
        return "name part must be no more than 63 bytes"
    if _LABEL_VALUE.fullmatch(name) is None:
        return f"name part {_NAME_RULE}"
    return ""


def _why_not_value(value: str) -> str:
    if len(value.encode()) > _LONGEST_LABEL:
        return "must be no more than 63 bytes"
    if value and _LABEL_VALUE.fullmatch(value) is None:
        return f"a valid label must be an empty string or {_VALUE_RULE}"
    return ""


def _managers(found: list[JSONValue]) -> list[tuple[str, str, str]]:
    limits = (("manager", _LONGEST_MANAGER), ("subresource", _LONGEST_SUBRESOURCE))
    return [
        (
            "FieldValueTooLong",
            f"metadata.managedFields[{place}].{field}",
            f"Too long: may not be more than {limit} bytes",
        )
        for place, entry in enumerate(found)
        for field, limit in limits
        if isinstance(entry, dict) and len(str(entry.get(field) or "").encode()) > limit
    ]


def _malformed_finalizers(old: JSONObject, new: JSONObject) -> list[tuple[str, str, str]]:
    return [
        ("FieldValueInvalid", "metadata.finalizers", f'Invalid value: "{one}": {why}')
        for one in new.get("finalizers") or ()
        if one not in (old.get("finalizers") or ()) and (why := why_not_key(str(one)))
    ]


def _finalizers(old: JSONObject, new: JSONObject) -> list[tuple[str, str, str]]:
    known = {*_STANDARD_FINALIZERS, *(old.get("finalizers") or ())}
    sentence = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        (
            "FieldValueInvalid",
            f"metadata.finalizers[{place}]",
            f'Invalid value: "{one}": {sentence}',
        )
        for place, one in enumerate(new.get("finalizers") or ())
        if one not in known and "/" not in str(one)
    ]


def _owners(found: list[JSONValue]) -> list[tuple[str, str, str]]:
    owners = [one for one in found if isinstance(one, dict)]
    causes = [
        (
            "FieldValueRequired",
            f"metadata.ownerReferences[{place}].{field}",
            "Required value: must not be empty",
        )
        for place, one in enumerate(owners)
        for field in _NEEDED_OF_OWNERS
        if not one.get(field)
    ]
    causes += [
        (
            "FieldValueInvalid",
            f"metadata.ownerReferences[{place}]",
            f"Invalid value: {go_json(one).decode()}: {_NOT_OWNER}",
        )
        for place, one in enumerate(owners)
        if (one.get("apiVersion"), one.get("kind")) == ("v1", "Event")
    ]
    names = [str(one.get("name")) for one in owners if one.get("controller")]
    if len(names) > 1:
        sentence = (
            "Only one reference can have Controller set to true. Found"
            f' "true" in references for {names[0]} and {names[1]}'
        )
        causes.append(("FieldValueInvalid", "metadata.ownerReferences", sentence))
    return causes
