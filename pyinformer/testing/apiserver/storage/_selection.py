"""Selections: a namespace, selectors, and shares of a hash, compiled to a predicate.

`pyinformer.objects` parses the selectors, so server and client share one grammar. Which
fields a resource offers is decided here, as in a real server.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, final

from pyinformer.errors import InvalidSelectorError
from pyinformer.objects import FieldSelector, LabelSelector, uid_hash
from pyinformer.testing.apiserver.requests import Failure
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage._stored_records import Record

_SHARD_RANGE: Final = re.compile(
    r"shardRange\(object\.metadata\.(uid|namespace), *'(0x[0-9a-f]+)', *'(0x[0-9a-f]+)'\)"
)


@final
class Selection:
    """A compiled predicate over the records of one resource.

    Args:
        resource: the resource of the records.
        namespace: "" for all namespaces.
        label_selector: the query's text; "" selects all.
        field_selector: the query's text; "" selects all.
        shard_selector: the query's text; "" selects all.

    Raises:
        Failure: a selector cannot be parsed, or names a field that the resource does not offer
            (400; 500 for a shard selector, as in the real server).
    """

    def __init__(
        self,
        resource: ResourceType,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        shard_selector: str = "",
    ) -> None:
        self.namespace = namespace
        self._shards = _parsed_shards(shard_selector)
        try:
            self._labels = LabelSelector.parse(label_selector or None)
        except InvalidSelectorError as error:
            raise Failure(400, f"unable to parse requirement: {error.reason}") from error
        try:
            self._fields = FieldSelector.parse(field_selector or None)
        except InvalidSelectorError as error:
            raise Failure(400, f"invalid selector: {error.reason}") from error
        _check_fields(resource, self._fields.paths)

    @property
    def has_selectors(self) -> bool:
        """Whether there is a selector."""
        return not (self._labels.is_empty and self._fields.is_empty and not self._shards)

    @property
    def names_one(self) -> bool:
        """Whether the field selector selects one name, so that a list reads one key."""
        return any(
            each.path == "metadata.name" and each.operator == "="
            for each in self._fields.requirements
        )

    def matches(self, record: Record) -> bool:
        """Return whether a record is selected."""
        if self.namespace and record.namespace != self.namespace:
            return False
        if self._shards and not self._is_in_shards(record):
            return False
        if not self._labels.is_empty and not self._labels.matches(record.labels):
            return False
        if self._fields.is_empty:
            return True
        return self._fields.matches(lambda path: record.fields.get(path, ""))

    def _is_in_shards(self, record: Record) -> bool:
        return any(
            start <= uid_hash(record.uid if field == "uid" else record.namespace) < end
            for field, start, end in self._shards
        )


def _parsed_shards(text: str) -> list[tuple[str, int, int]]:
    """Return the field, the least hash, and the least hash behind it, of each range."""
    ranges: list[tuple[str, int, int]] = []
    for part in filter(None, text.split("||")):
        found = _SHARD_RANGE.fullmatch(part.strip())
        if found is None:
            raise Failure(500, f"invalid shardSelector: {part.strip()}")
        field, start, end = found.groups()
        ranges.append((field, int(start, 16), int(end, 16)))
    return ranges


def _check_fields(resource: ResourceType, paths: Sequence[str]) -> None:
    for path in paths:
        if path in resource.selectable_fields:
            continue
        if resource.has_own_fields:
            raise Failure(400, f"field label not supported: {path}")
        message = (
            f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
        )
        raise Failure(400, message)
