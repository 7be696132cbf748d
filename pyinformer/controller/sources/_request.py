"""Requests: which object is to be reconciled, and why.

Two requests for one object are equal, whatever their reasons, so queues merge them. Reasons are for
logs and tests only: a reconcile looks at the state, not at what led to it.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from msgspec import Struct

from pyinformer._printable import printable
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import ObjectKey, check_iterable, is_object_name, plain_text

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

RequestId: TypeAlias = tuple[str, str]
"""A request's key and cluster. A controller's queue and limits know requests by it: they look each
one up a dozen times, and a tuple is hashed and compared without Python calls."""

_SHOWN: Final = 80  # characters of an invalid key in an error


@final
class Reason(Struct, frozen=True, gc=False):
    """Why a request was made; holds no object content."""

    source: str
    """The name of the source, or the text given to `enqueue`."""
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
        cluster: the name of its cluster, as given to `connect`; empty if there is only one.
        reasons: why, the oldest first.

    Raises:
        InvalidTypeError: the key or the cluster is not a string, or `reasons` not a sequence.
        InvalidArgumentError: the key is neither `namespace/name` nor `name`, or an object cannot
            have such a name.
    """

    __slots__ = ("_id", "_reasons")

    def __init__(self, key: str, cluster: str = "", *, reasons: Sequence[Reason] = ()) -> None:
        for argument, value in (("key", key), ("cluster", cluster)):
            if not isinstance(value, str):
                raise InvalidTypeError(argument, f"must be text, not {type(value).__name__}")
        if not _is_key(key):
            reason = f"must be 'namespace/name' or 'name', got {key[:_SHOWN]!r}"
            raise InvalidArgumentError("key", reason)
        self._id: RequestId = (plain_text(key), plain_text(cluster))
        try:
            self._reasons = tuple(reasons)
        except TypeError:  # checked only then: a mapping makes a request for each event
            check_iterable("reasons", reasons, shown="a sequence of Reasons")
            raise

    @property
    def key(self) -> ObjectKey:
        """The object's key, `namespace/name`, or `name` if it is cluster-scoped."""
        return ObjectKey(self._id[0])

    @property
    def cluster(self) -> str:
        """The name of the object's cluster; empty if there is only one."""
        return self._id[1]

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it is reconciled, the oldest reason first; the newest few if there were many."""
        return self._reasons

    @property
    def namespace(self) -> str:
        """The object's namespace; empty if it is cluster-scoped."""
        return self._id[0].rpartition("/")[0]

    @property
    def name(self) -> str:
        """The object's name."""
        return self._id[0].rpartition("/")[2]

    def with_reasons(self, reasons: Sequence[Reason]) -> Request:
        """Return the same request with other reasons.

        Raises:
            InvalidTypeError: they are not a sequence.
        """
        try:
            return request_for(self._id, reasons)
        except TypeError:  # as above
            check_iterable("reasons", reasons, shown="a sequence of Reasons")
            raise

    def __eq__(self, other: object) -> bool:
        return self._id == other._id if isinstance(other, Request) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._id)

    def __reduce__(self) -> tuple[object, ...]:
        return request_for, (self._id, self._reasons)

    def __str__(self) -> str:
        return request_text(self._id)

    def __repr__(self) -> str:
        return f"<Request {self}>"


def request_for(request_id: RequestId, reasons: Sequence[Reason] = ()) -> Request:
    """Return a request for a key that needs no check: a cached object's, or a request's."""
    request = Request.__new__(Request)
    request._id = request_id
    request._reasons = tuple(reasons)  # noqa: SLF001 - the other constructor
    return request


def request_text(request_id: RequestId) -> str:
    """Return `cluster:key`, or the key if there is only one cluster, printable."""
    key, cluster = request_id
    return printable(f"{cluster}:{key}" if cluster else key)


def _is_key(key: str) -> bool:
    first, slash, rest = key.partition("/")
    return is_object_name(first) and (not slash or is_object_name(rest))
