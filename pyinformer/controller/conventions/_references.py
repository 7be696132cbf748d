"""References to an object, read from a cached object or from a body.

A body without a kind or a name is refused, with the name of the caller's argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias, final

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import (
    JSONObject,
    KubeObject,
    object_key,
    split_api_version,
)

AnyObject: TypeAlias = KubeObject[object] | JSONObject
"""A cached object, or a body as the server or a program wrote it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The identity of an object; `namespace` and `uid` may be empty."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str

    @property
    def key(self) -> str:
        """`namespace/name`, or `name`."""
        return object_key(self.namespace, self.name)

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return split_api_version(self.api_version)[0]

    @classmethod
    def of(cls, obj: AnyObject, argument: str) -> Self:
        """Return the reference to an object.

        Args:
            obj: the object; it is not changed.
            argument: the name of the caller's argument, for errors.

        Raises:
            InvalidTypeError: it is neither a cached object nor a dict.
            InvalidArgumentError: it has no apiVersion, kind or name.
        """
        if isinstance(obj, KubeObject):
            meta = obj.metadata
            return cls(
                api_version=obj.gvk.api_version,
                kind=obj.gvk.kind,
                namespace=meta.namespace,
                name=meta.name,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
        metadata = metadata_of(obj, argument)
        found = cls(
            api_version=_text(obj.get("apiVersion")),
            kind=_text(obj.get("kind")),
            namespace=_text(metadata.get("namespace")),
            name=_text(metadata.get("name")),
            uid=_text(metadata.get("uid")),
            resource_version=_text(metadata.get("resourceVersion")),
        )
        for field, value in (("apiVersion", found.api_version), ("kind", found.kind)):
            if not value:
                raise InvalidArgumentError(argument, f"has no {field}")
        if not (found.name or metadata.get("generateName")):
            raise InvalidArgumentError(argument, "has no metadata.name")
        return found


def metadata_of(obj: JSONObject, argument: str) -> JSONObject:
    """Return the metadata of a body, not a copy; an empty dict if it has none.

    Raises:
        InvalidTypeError: it is not a dict, or its metadata is not one.
    """
    if not isinstance(obj, Mapping):
        reason = f"must be a dict, such as from to_dict(), not {type(obj).__name__}"
        raise InvalidTypeError(argument, reason)
    metadata = obj.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise InvalidTypeError(argument, f"metadata must be a dict, not {type(metadata).__name__}")
    return metadata


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
