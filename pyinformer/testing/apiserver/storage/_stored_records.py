"""Objects as the embedded server stores them: immutable Records with their encoded bytes.

Each version of an object is encoded once, in the shape of its resource (see
ResourceType.list_shape), for all lists and watches that send it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from pyinformer.objects import JSONObject, JSONValue, decoder_of
from pyinformer.testing.apiserver.requests import Failure
from pyinformer.testing.apiserver.resources import ResourceType

_METADATA_ORDER = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_FIELD_DEFAULTS = {
    "spec.unschedulable": "false",
    "spec.hostNetwork": "false",
    "status.replicas": "0",
    "status.successful": "0",
}
"""The values of field labels that an object lacks, as Go's zero values read."""
_BODY_ORDER = ("metadata", "spec", "status")
_GO_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = decoder_of(JSONObject)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One version of one object.

    Attributes:
        key: `namespace/name`, or `name` if cluster-scoped.
        revision: its resource version as a number.
        fields: the values of the selectable fields; absent ones are "".
        item: the object as an item of a list.
        written: what was written, if a later definition of its resource shows it otherwise.
    """

    resource: ResourceType
    key: str
    namespace: str
    name: str
    uid: str
    revision: int
    labels: Mapping[str, str]
    fields: Mapping[str, str]
    item: bytes
    written: bytes = b""

    @property
    def full(self) -> bytes:
        """The encoded object with kind and apiVersion, as outside of a list."""
        if self.resource.list_shape == "custom":
            return self.item
        return self.resource.head + self.item[1:]

    def to_dict(self) -> JSONObject:
        """Return a new decoded copy, with kind and apiVersion."""
        return _decode(self.full)

    def at_revision(self, revision: int) -> Record:
        """Return the same content under another resource version."""
        body = self.to_dict()
        body["metadata"]["resourceVersion"] = str(revision)
        return make_record(self.resource, body)


def make_record(resource: ResourceType, body: JSONObject) -> Record:
    """Build the record of an object whose metadata is complete.

    Raises:
        Failure: the labels are not a mapping of strings (400).
    """
    metadata: JSONObject = body["metadata"]
    namespace = str(metadata.get("namespace") or "")
    name = str(metadata["name"])
    return Record(
        resource=resource,
        key=f"{namespace}/{name}" if namespace else name,
        namespace=namespace,
        name=name,
        uid=str(metadata["uid"]),
        revision=int(metadata.get("resourceVersion") or 0),  # a dry run has none
        labels=_labels(resource, metadata),
        fields={path: _field(body, path) for path in resource.selectable_fields},
        item=_item(resource, body),
    )


def read_again(
    record: Record, resource: ResourceType, convert: Callable[[JSONObject], JSONObject]
) -> Record:
    """Return a record as a changed definition of its resource shows it, at the same revision."""
    written = record.written or record.full
    read = make_record(resource, convert(_decode(written)))
    return read if read.full == written else replace(read, written=written)


def key_of(namespace: str, name: str) -> str:
    """Return `namespace/name`, or `name` if there is no namespace."""
    return f"{namespace}/{name}" if namespace else name


def go_json(value: JSONValue) -> bytes:
    """Encode a value as Go encodes maps: sorted, and with escapes that HTML needs."""
    return _escaped(_encode_sorted(value))


def is_same_json(one: JSONValue, other: JSONValue) -> bool:
    """Return whether two values are the same in JSON; for Python 1 and true are equal."""
    return one == other and _encode_sorted(one) == _encode_sorted(other)


def merge_patch(target: JSONValue, patch: JSONValue) -> JSONValue:
    """Apply a JSON merge patch (RFC 7386); neither argument is changed."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def _labels(resource: ResourceType, metadata: JSONObject) -> Mapping[str, str]:
    labels = metadata.get("labels") or {}
    if isinstance(labels, dict) and all(isinstance(value, str) for value in labels.values()):
        return labels
    raise Failure(
        400,
        f'{resource.kind} in version "{resource.version}" cannot be handled as a'
        f" {resource.kind}: metadata.labels must be a mapping of strings",
    )


def _field(body: JSONObject, path: str) -> str:
    value: JSONValue = body
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, dict):  # the field label `source` of events is source.component
        value = value.get("component")
    if isinstance(value, bool):
        return "true" if value else "false"
    return _FIELD_DEFAULTS.get(path, "") if value is None else str(value)


def _item(resource: ResourceType, body: JSONObject) -> bytes:
    if resource.list_shape == "custom":
        return _encode_sorted(body)
    ordered = _ordered(body, _BODY_ORDER)
    ordered["metadata"] = _ordered(body["metadata"], _METADATA_ORDER)
    ordered.pop("kind", None)
    ordered.pop("apiVersion", None)
    return _escaped(_encode(ordered))


def _ordered(source: JSONObject, first: tuple[str, ...]) -> JSONObject:
    ordered = {name: source[name] for name in first if name in source}
    return {**ordered, **source}


def _escaped(raw: bytes) -> bytes:
    # Go's encoder escapes these; they can only occur inside strings.
    for plain, escape in _GO_ESCAPES:
        if plain in raw:
            raw = raw.replace(plain, escape)
    return raw
