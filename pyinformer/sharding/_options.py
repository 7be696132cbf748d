"""How the replicas of an operator share its keys."""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast, final, get_args

from pyinformer._runtime.tasks import check_plain, name_of
from pyinformer.errors import InvalidArgumentError
from pyinformer.leaderelection import LeaderElectionOptions, check_identity, check_lease_name
from pyinformer.objects import check_choice, check_flag, check_integer, check_seconds
from pyinformer.sharding._hashing import By

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.controller.sources import Request

_BUCKETS: Final = 128  # the largest of six shares is 1.04 of the mean, and the table 1.2 KB
_MAX_BUCKETS: Final = 4096  # 12 KB of table, written at each move
_MAX_LABEL: Final = 63


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """Shares the keys of an operator among its replicas, in buckets that a hash fills evenly.

        app = pyinformer.Operator("db-operator", sharding=pyinformer.Buckets())

    Replicas join and leave at any time: each finds the others by Leases in the same namespace, and
    the table of who has which bucket is the Lease with the operator's name. All replicas need the
    same `count` and `by`.

    Raises:
        InvalidArgumentError: a value is invalid.
    """

    count: int = _BUCKETS
    """How many buckets there are: many more than replicas, so that their shares are equal."""

    by: By | Callable[[Request], str] = "key"
    """What has one bucket, so that one replica handles it: each `key`, all keys of a `namespace`,
    or all of a `cluster`. Large namespaces make shares by namespace unequal. A function gets a
    request, without reasons, and returns the text of what has one bucket, such as a tenant. It must
    return the same in every replica at any time; it is called in any thread, and must not wait."""

    namespace: str | None = None
    """The namespace of the Leases; None for that of the pod, and `default` outside of a pod."""

    identity: str | None = None
    """The name of this replica; no two replicas may have the same. None for the name of the pod
    with a random suffix, as in `LeaderElection`."""

    drain_seconds: float = 20.0
    """How long the reconciles of a bucket that is given up may take, before they are cancelled. No
    other replica handles its keys meanwhile."""

    options: LeaderElectionOptions = field(default_factory=LeaderElectionOptions)
    """The durations of the Leases: a replica that crashed is replaced after
    `lease_duration_seconds`."""

    ends_process: bool | None = None
    """As in `LeaderElection`: whether a thread ends the process if work outlives the Lease."""

    def __post_init__(self) -> None:
        check_integer("count", self.count)
        if self.count > _MAX_BUCKETS:
            reason = f"must be at most {_MAX_BUCKETS}, got {self.count}: each is in the table"
            raise InvalidArgumentError("count", reason)
        if callable(self.by):
            check_plain(self.by, "by(request)", 1)
        else:
            check_choice("by", self.by, cast("tuple[str, ...]", get_args(By)))
        check_seconds("drain_seconds", self.drain_seconds)
        if self.namespace is not None:
            check_lease_name("namespace", self.namespace)
        if self.identity is not None:
            check_identity(self.identity)
        if self.ends_process is not None:
            check_flag("ends_process", self.ends_process)


def by_name(by: By | Callable[[Request], str]) -> str:
    """Return what the table says has one bucket; a function has its module and name."""
    if not callable(by):
        return by
    name = name_of(by)
    return name if "." in name else f"__main__.{name}"  # the other choices have no dot


def check_group(argument: str, value: str) -> None:
    """Refuse a name of an operator that cannot be that of a Lease and the value of a label.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    check_lease_name(argument, value)
    if len(value) > _MAX_LABEL:
        reason = f"must have at most {_MAX_LABEL} characters with sharding, since Leases are"
        raise InvalidArgumentError(argument, f"{reason} labelled with it, got {len(value)}")
