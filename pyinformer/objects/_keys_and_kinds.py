"""Names of resources, kinds and objects, as values that compare, hash and print as Kubernetes does.

Keys are `namespace/name`, or `name` for cluster-scoped objects. Caches hold plain strings: the
garbage collector tracks an instance of a `str` subclass, and not a plain string.
"""

from __future__ import annotations

import re
from typing import Final, final

from msgspec import Struct

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects._checks import check_text, plain_text

_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_PLURAL = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_API_VERSION = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-z]([-a-z0-9]*[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1123
_LONGEST_NAME: Final = 1024  # RBAC sets no limit; every other kind has 253 or less
_NOT_NAMES: Final = frozenset({"", ".", ".."})


@final
class ObjectKey(str):
    """The key of an object: `namespace/name`, or `name` if it is cluster-scoped.

    It is a string, equal to the plain one, with properties for its two parts.
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
    # An f-string would have the name of an Enum's member, not its text.
    return namespace + "/" + name if namespace else plain_text(name)


def guess_plural(kind: str) -> str:
    """Return the likely plural name of a kind: its English plural, in lower case."""
    word = kind.lower()
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith(("s", "x", "z", "ch", "sh")) else f"{word}s"


def is_object_name(text: str) -> bool:
    """Return whether an object or a namespace can have this name.

    API servers accept more than DNS names: RBAC's have colons, those of aggregated APIs spaces. No
    name is empty, a dot, two dots, or has a slash or a percent sign. A Role's name may have control
    characters; such a name is refused here, since it would come from a text in another object.

    Source:
        k8s.io/apimachinery pkg/api/validation/path, IsValidPathSegmentName.
    """
    if len(text) > _LONGEST_NAME or "/" in text or "%" in text or text in _NOT_NAMES:
        return False
    return text.isprintable()


def is_namespace_name(text: str) -> bool:
    """Return whether a namespace can have this name; the objects of any other look absent."""
    return _NAMESPACE.fullmatch(text) is not None


def split_api_version(api_version: str) -> tuple[str, str]:
    """Return the group and the version of an `apiVersion`; the core group is empty.

    The only parser of this text, of objects and owner references alike. A malformed one such as
    `apps/v1/x` has a group that no server has, `apps/v1`; Go refuses it.

    Source:
        apimachinery pkg/runtime/schema/group_version.go, ParseGroupVersion.
    """
    group, _, version = api_version.rpartition("/")
    return group, version


@final
class GroupVersionKind(Struct, frozen=True, gc=False, order=True):
    """The kind of an object: `apps`, `v1`, `Deployment`."""

    group: str
    version: str
    kind: str

    @classmethod
    def of(cls, api_version: str, kind: str) -> GroupVersionKind:
        """Return the kind for the two fields that every object has.

        Args:
            api_version: `v1` or `apps/v1`.
            kind: `Pod`, `Deployment`.

        Raises:
            InvalidTypeError: one of them is not a text.
        """
        check_text("api_version", api_version)
        check_text("kind", kind)
        return cls(*split_api_version(plain_text(api_version)), plain_text(kind))

    @property
    def api_version(self) -> str:
        """The `apiVersion` of its objects: `v1`, or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def group_kind(self) -> str:
        """The kind without its version: `StatefulSet.apps`, or `Secret` of the core group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def __str__(self) -> str:
        return f"{self.api_version}/{self.kind}"


PARTIAL_OBJECT_METADATA: Final = GroupVersionKind("meta.k8s.io", "v1", "PartialObjectMetadata")
"""The kind of an object without its body; servers do not accept it as the whole object."""


@final
class GroupVersionResource(Struct, frozen=True, gc=False, order=True):
    """A resource of a server: `apps`, `v1`, `deployments`."""

    group: str
    version: str
    resource: str

    @classmethod
    def of(cls, api_version: str, plural: str) -> GroupVersionResource:
        """Return the resource for the texts that a user writes.

        Args:
            api_version: `v1` for the core group, else `group/version`.
            plural: the resource's plural name in lower case, as in its URL: `pods`.

        Raises:
            InvalidArgumentError: one of them is malformed, or they are in the wrong order.
            InvalidTypeError: one of them is not a text.
        """
        for argument, value in (("api_version", api_version), ("plural", plural)):
            if not isinstance(value, str):
                raise InvalidTypeError(argument, f"must be a text, not {type(value).__name__}")
        api_version, plural = plain_text(api_version), plain_text(plural)
        if _VERSION.fullmatch(plural.rpartition("/")[2]) and not _looks_versioned(api_version):
            reason = f"arguments swapped: write ({plural!r}, {api_version!r})"
            raise InvalidArgumentError("api_version", reason)
        if not _API_VERSION.fullmatch(api_version):
            reason = f"must be 'v1' or 'group/version', got {api_version!r}"
            raise InvalidArgumentError("api_version", reason)
        if "/" not in api_version and not _looks_versioned(api_version):
            reason = f"must have a version, got {api_version!r}: write '{api_version}/v1'"
            raise InvalidArgumentError("api_version", reason)
        if not _PLURAL.fullmatch(plural):
            reason = f"must be a plural resource name in lower case such as 'pods', got {plural!r}"
            raise InvalidArgumentError("plural", reason)
        return cls(*split_api_version(api_version), plural)

    @property
    def api_version(self) -> str:
        """The text that users write: `v1`, or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """The URL path of the collection over all namespaces, without its last segment."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        name = f"{self.resource}.{self.version}" if self.version else self.resource
        return f"{name}.{self.group}" if self.group else name


def _looks_versioned(api_version: str) -> bool:
    return _VERSION.fullmatch(api_version.rpartition("/")[2]) is not None
