"""What is to be reconciled, and why.

What enters is a key, and the name of its cluster where there are several; what leaves is a frozen
value that queues merge: two requests for one object are equal, whatever their reasons. Reasons are
for logs and tests, never for logic: a reconcile looks at the state, not at what led to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from msgspec import Struct

from pyinformer._printable import printable
from pyinformer.apimachinery import (
    InvalidArgumentError,
    InvalidTypeError,
    ObjectKey,
    is_object_name,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

ReasonEvent: TypeAlias = Literal[
    "added",
    "updated",
    "deleted",
    "superseded",
    "initial",
    "resync",
    "timer",
    "enqueued",
    "requeue",
    "retry",
]

_SHOWN: Final = 80  # characters of what cannot be a key


@final
class Reason(Struct, frozen=True, gc=False):
    """Why a request was made; holds no object content."""

    source: str
    """What noticed: a source's name, or the words given to `enqueue`."""
    event: ReasonEvent
    """What happened."""
    key: str = ""
    """The object that it happened to: `namespace/name`, or `name`; empty for a timer."""
    resource_version: str = ""
    """That object's version; empty if there is none."""

    def __str__(self) -> str:
        version = f"@{self.resource_version}" if self.resource_version else ""
        parts = (self.source, self.event, f"{self.key}{version}")
        return printable(" ".join(part for part in parts if part))


@final
class Request:
    """One object to reconcile. Equal and hashed by cluster and key, and by nothing else.

    Args:
        key: `namespace/name`, or `name` if it is cluster-scoped.
        cluster: the name of its cluster, as given to `connect`; empty where there is but one.
        reasons: why, the oldest first.

    Raises:
        InvalidTypeError: the key or the cluster is no text.
        InvalidArgumentError: the key is neither `namespace/name` nor `name`, or no object can have
            such a name.
    """

    __slots__ = ("_cluster", "_hash", "_key", "_reasons")

    def __init__(self, key: str, cluster: str = "", *, reasons: Sequence[Reason] = ()) -> None:
        for argument, value in (("key", key), ("cluster", cluster)):
            if not isinstance(value, str):
                raise InvalidTypeError(argument, f"must be text, not {type(value).__name__}")
        if not _is_key(key):
            shown = key[:_SHOWN]
            raise InvalidArgumentError("key", f"{shown!r} is neither 'namespace/name' nor 'name'")
        self._key = key
        self._cluster = cluster
        self._reasons = tuple(reasons)
        self._hash = hash(key) ^ hash(cluster)

    @property
    def key(self) -> ObjectKey:
        """The object's key, `namespace/name`, or `name` if it is cluster-scoped."""
        return ObjectKey(self._key)

    @property
    def cluster(self) -> str:
        """The name of the object's cluster; empty where there is but one."""
        return self._cluster

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it is reconciled, the oldest reason first; the newest few if there were many."""
        return self._reasons

    @property
    def namespace(self) -> str:
        """The object's namespace; empty if it is cluster-scoped."""
        return self._key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The object's name."""
        return self._key.rpartition("/")[2]

    def with_reasons(self, reasons: Sequence[Reason]) -> Request:
        """Return the same request with other reasons."""
        return request_for(self._key, self._cluster, reasons=reasons)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Request):
            return NotImplemented
        return self._key == other._key and self._cluster == other._cluster

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._key, self._cluster, self._reasons)

    def __str__(self) -> str:
        return printable(f"{self._cluster}:{self._key}" if self._cluster else self._key)

    def __repr__(self) -> str:
        return f"<Request {self}>"


def _is_key(key: str) -> bool:
    first, slash, rest = key.partition("/")
    return is_object_name(first) and (not slash or is_object_name(rest))


def request_for(key: str, cluster: str, *, reasons: Sequence[Reason] = ()) -> Request:
    """Make a request for a key that needs no check: it is a cached object's, or a request's."""
    request = Request.__new__(Request)
    request._key = key
    request._cluster = cluster  # noqa: SLF001 - the other constructor
    request._reasons = tuple(reasons)  # noqa: SLF001 - the other constructor
    request._hash = hash(key) ^ hash(cluster)  # noqa: SLF001 - the other constructor
    return request


def _rebuild(key: str, cluster: str, reasons: tuple[Reason, ...]) -> Request:
    return request_for(key, cluster, reasons=reasons)
