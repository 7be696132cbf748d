"""Compute `metadata.managedFields`: who owns which fields after a write.

A field may have several owners. A manager that changes a value takes it from all others; only an
apply without force gets a conflict instead.

Source:
    sigs.k8s.io/structured-merge-diff merge/update.go; k8s.io/apimachinery pkg/util/managedfields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pyinformer.objects import JSONObject, JSONValue
from pyinformer.testing.apiserver.managed_fields import field_sets, structure
from pyinformer.testing.apiserver.managed_fields.field_sets import Path
from pyinformer.testing.apiserver.resources import Shape

Operation: TypeAlias = Literal["Apply", "Update"]

_SERVER_METADATA = (
    "name",
    "namespace",
    "creationTimestamp",
    "uid",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
)
_METADATA: Path = (field_sets.field("metadata"),)  # always there, never owned


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Author:
    """A field manager with its operation: the owner of one entry of managedFields.

    Attributes:
        name: the field manager.
        operation: "Apply" or "Update"; a manager that uses both has two entries.
        api_version: the version of its writes; "" for "Apply", which does not depend on it.
        subresource: "" or "status".
    """

    operation: Operation
    name: str
    api_version: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        where = f' with subresource "{self.subresource}"' if self.subresource else ""
        how = f" using {self.api_version}" if self.operation == "Update" else ""
        return f'"{self.name}"{where}{how}'


@dataclass(frozen=True, slots=True)
class Owned:
    """The fields of one author, and when this set last changed."""

    paths: frozenset[Path]
    api_version: str
    time: str


Managed: TypeAlias = Mapping[Author, Owned]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A field that an apply would change, and one of its owners."""

    author: Author
    path: Path


def read(body: JSONObject) -> Managed:
    """Decode an object's managedFields; the body may be empty."""
    managed: dict[Author, Owned] = {}
    for entry in (body.get("metadata") or {}).get("managedFields") or ():
        is_apply = entry.get("operation") == "Apply"
        api_version = str(entry.get("apiVersion", ""))
        author = Author(
            operation="Apply" if is_apply else "Update",
            name=str(entry.get("manager", "")),
            api_version="" if is_apply else api_version,
            subresource=str(entry.get("subresource", "")),
        )
        paths = field_sets.from_fields(entry.get("fieldsV1"))
        managed[author] = Owned(paths, api_version, str(entry.get("time", "")))
    return managed


def with_owners(stored: JSONObject, given: JSONValue) -> JSONObject:
    """Return stored metadata with the owners with which an update of the object begins.

    Args:
        stored: the metadata of the stored object.
        given: the managedFields in the body of the update. `[]` and `[{}]` remove all owners; None
            and entries that cannot be read keep the stored ones.

    Source:
        k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go, decodeLiveOrNew.
    """
    if given in ([], [{}]):
        return {**stored, "managedFields": []}
    if not isinstance(given, list) or not all(map(_is_readable, given)):
        return stored
    return {**stored, "managedFields": given}


def _is_readable(entry: JSONValue) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("operation") in ("Apply", "Update")
        and bool(entry.get("apiVersion"))
        and entry.get("fieldsType") == "FieldsV1"
    )


def before_first_apply(live: JSONObject, shape: Shape, *, api_version: str, now: str) -> Managed:
    """Return the owner of all fields of an object that has no owners when it is applied first.

    Args:
        live: the content of the object.
        shape: its shape.
        api_version: its version.
        now: the current time.
    """
    author = Author(operation="Update", name="before-first-apply", api_version=api_version)
    return updated({}, {"metadata": {}}, live, shape, author, now=now)


def write(managed: Managed) -> list[JSONValue]:
    """Encode managedFields: applies first, then by age."""

    def place(entry: tuple[Author, Owned]) -> tuple[str, str, Author]:
        return entry[0].operation, entry[1].time, entry[0]

    return [_entry(author, owned) for author, owned in sorted(managed.items(), key=place)]


def created(content: JSONObject, shape: Shape, author: Author, *, now: str) -> list[JSONValue]:
    """Encode the managedFields of a new object: one entry, or none if it has no fields.

    Args:
        content: the content of the object.
        shape: its shape.
        author: the creator.
        now: the current time.
    """
    fields = structure.fields_of_new(content, shape)
    return [_entry_of(author, author.api_version, now, fields)] if fields else []


def _entry(author: Author, owned: Owned) -> JSONObject:
    return _entry_of(author, owned.api_version, owned.time, field_sets.to_fields(owned.paths))


def _entry_of(author: Author, api_version: str, time: str, fields: JSONObject) -> JSONObject:
    entry: JSONObject = {
        "manager": author.name,
        "operation": author.operation,
        "apiVersion": api_version,
        **({"time": time} if time else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if author.subresource:
        entry["subresource"] = author.subresource
    return entry


def content(body: JSONObject) -> JSONObject:
    """Return a copy of an object without the fields that have no owners; the body may be empty."""
    metadata = {
        name: value
        for name, value in (body.get("metadata") or {}).items()
        if name not in _SERVER_METADATA
    }
    kept = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
    return {**kept, "metadata": metadata}


def updated(
    managed: Managed,
    before: JSONObject,
    after: JSONObject,
    shape: Shape,
    author: Author,
    *,
    now: str,
) -> Managed:
    """Return the owners of fields after a create, an update or a patch.

    Args:
        managed: the owners before.
        before: the content before; only empty metadata if the object is created.
        after: the content after.
        shape: the shape of both.
        author: the writer, which takes every field that changed.
        now: the time.
    """
    changes = structure.compare(before, after, shape)
    taken = changes.written
    result = _without(managed, changes.written | changes.removed)
    if taken:
        own = managed.get(author)
        kept = own.paths - changes.removed if own else frozenset()
        result[author] = Owned(frozenset(kept | taken), author.api_version, now)
    return result


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of an apply.

    Attributes:
        content: the object's new content; what has lost all its parts is null.
        managed: the owners of fields after it.
        conflicts: the fields of other managers that it would change; empty if it was forced.
    """

    content: JSONObject
    managed: Managed
    conflicts: tuple[Conflict, ...]


def applied(
    managed: Managed,
    live: JSONObject,
    wanted: JSONObject,
    shape: Shape,
    author: Author,
    *,
    api_version: str,
    now: str,
) -> Applied:
    """Merge a configuration into an object, and remove fields that its author dropped.

    Args:
        managed: the owners before.
        live: the content before; only empty metadata if the object is created.
        wanted: the content of the configuration.
        shape: the shape of both.
        author: the applier.
        api_version: the version of the configuration.
        now: the current time.
    """
    claimed = frozenset(structure.fields_of(wanted, shape)) - {_METADATA}
    last = managed.get(author)
    merged = structure.merge(live, wanted, shape)
    others = {one: owned for one, owned in managed.items() if one != author}
    if last is not None and not last.paths <= claimed:  # it has dropped something
        held = claimed.union({_METADATA}, *(owned.paths for owned in others.values()))
        merged = structure.pruned(merged, last.paths, held, shape)
    after: JSONObject = merged if isinstance(merged, dict) else {}
    if not after.get("metadata"):  # upstream's has the name, so it never goes
        after = {**after, "metadata": {}}
    changes = structure.compare(live, after, shape)
    conflicts = tuple(
        Conflict(one, path)
        for one, owned in sorted(others.items())
        for path in field_sets.in_order(owned.paths & changes.written)
    )
    result = _without(others, changes.written | changes.removed)
    if claimed:
        time = now
        if _stored(after) == _stored(live):  # a claim that changes nothing has no time
            time = last.time if last is not None and last.paths == claimed else ""
        result[author] = Owned(claimed, api_version, time)
    return Applied(after, result, conflicts)


def _stored(body: JSONObject) -> JSONObject:
    """Return content as it is stored: without empty metadata."""
    return {**body, "metadata": {name: one for name, one in body["metadata"].items() if one}}


def _without(managed: Managed, lost: set[Path]) -> dict[Author, Owned]:
    if not lost:
        return dict(managed)
    kept = {
        author: Owned(owned.paths - lost, owned.api_version, owned.time)
        for author, owned in managed.items()
    }
    return {author: owned for author, owned in kept.items() if owned.paths}
