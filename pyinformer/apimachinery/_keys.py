"""Names of things: resources, kinds and objects.

What enters is text a user or a server gave; what leaves are frozen values that compare, hash and
print the way Kubernetes writes them. Keys are `namespace/name`, or `name` for cluster-scoped
objects. What is stored holds plain strings: an instance of a `str` subclass is tracked by the
garbage collector, a plain string is not.
"""

from __future__ import annotations

import re
from typing import Final, final

from msgspec import Struct

from pyinformer.apimachinery._errors import InvalidArgumentError, InvalidTypeError

_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_PLURAL = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_API_VERSION = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z]([-a-z0-9]*[a-z0-9])?")
_LONGEST_NAME: Final = 1024  # RBAC sets no limit; every other kind has 253 or less
_NOT_NAMES: Final = frozenset({"", ".", ".."})


@final
class ObjectKey(str):
    """The key of an object: `namespace/name`, or `name` if it is cluster-scoped.

    It is a string, equal to the plain one, that also knows its two parts.
    """

    __slots__ = ()

    @property
    def namespace(self) -> str:
        """The namespace, or an empty string for a cluster-scoped object."""
        return self.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The object's name."""
        return self.rpartition("/")[2]


def object_key(namespace: str, name: str) -> str:
    """Return the key of an object as a plain string."""
    return f"{namespace}/{name}" if namespace else name


def is_object_name(text: str) -> bool:
    """Tell whether an object, or a namespace, may have this name, as far as a text can show it.

    API servers take more than DNS names: RBAC's have colons, those of aggregated APIs spaces. None
    is empty, a dot, two dots, or has a slash or a percent sign. A Role's name may even have control
    characters; no program should act on such a name because a text in another object says so.

    Source:
        k8s.io/apimachinery pkg/api/validation/path, IsValidPathSegmentName.
    """
    if len(text) > _LONGEST_NAME or "/" in text or "%" in text or text in _NOT_NAMES:
        return False
    return text.isprintable()


def _split_api_version(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


@final
class GroupVersionKind(Struct, frozen=True, gc=False, order=True):
    """What an object is: `apps`, `v1`, `Deployment`."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Build one from the two fields that every object carries.

        Args:
            api_version: `v1` or `apps/v1`.
            kind: `Pod`, `Deployment`.
        """
        return cls(*_split_api_version(api_version), kind)

    @property
    def api_version(self) -> str:
        """The text objects carry: `v1`, or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"


PARTIAL_OBJECT_METADATA: Final = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")
"""What an object calls itself whose body was left out: no server takes it for the whole."""


@final
class GroupVersionResource(Struct, frozen=True, gc=False, order=True):
    """What a server serves: `apps`, `v1`, `deployments`."""

    group: str
    version: str
    resource: str

    @classmethod
    def of(cls, api_version: str, plural: str) -> GroupVersionResource:
        """Build one from the text a user writes, and refuse what cannot be meant.

        Args:
            api_version: `v1` for the core group, else `group/version`.
            plural: the resource's plural name in lower case, as in its URL: `pods`.

        Raises:
            InvalidArgumentError: one of them is malformed, or they are in the wrong order.
            InvalidTypeError: one of them is no text.
        """
        for argument, value in (("api_version", api_version), ("plural", plural)):
            if not isinstance(value, str):
                raise InvalidTypeError(argument, f"must be text, not {type(value).__name__}")
        if _VERSION.fullmatch(plural.rpartition("/")[2]) and not _looks_versioned(api_version):
            reason = f"arguments swapped: write ({plural!r}, {api_version!r})"
            raise InvalidArgumentError("api_version", reason)
        if not _API_VERSION.fullmatch(api_version):
            reason = f"{api_version!r} is neither 'v1' nor 'group/version'"
            raise InvalidArgumentError("api_version", reason)
        if "/" not in api_version and not _looks_versioned(api_version):
            reason = f"{api_version!r} names no version: write '{api_version}/v1'"
            raise InvalidArgumentError("api_version", reason)
        if not _PLURAL.fullmatch(plural):
            reason = f"{plural!r} is no plural resource name in lower case, such as 'pods'"
            raise InvalidArgumentError("plural", reason)
        return cls(*_split_api_version(api_version), plural)

    @property
    def api_version(self) -> str:
        """The text users write: `v1`, or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The URL path of the collection over all namespaces, without its last segment."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        return ".".join(part for part in (self.resource, self.version, self.group) if part)


def _looks_versioned(api_version: str) -> bool:
    return _VERSION.fullmatch(api_version.rpartition("/")[2]) is not None
