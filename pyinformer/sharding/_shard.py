"""A fixed number of shares of an operator's objects, each of one process."""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import final

from pyinformer.errors import InvalidArgumentError
from pyinformer.leaderelection import LeaderElection, LeaderElectionOptions
from pyinformer.objects import UidRange, check_integer


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One of a fixed number of shares of an operator's objects, by a hash of their uids.

        index = int(os.environ["POD_INDEX"])
        app = pyinformer.Operator(
            "db-operator", sharding=pyinformer.Shard(index=index, total=4)
        )

    The caches of what the operator reconciles hold the objects of this share alone. The process
    works while it holds the Lease of the share, which has the operator's name and `.0-of-4`, for
    example: of two processes with one index, the second one waits. All processes need the same
    `total`.

    Raises:
        InvalidArgumentError: a value is invalid.
    """

    index: int
    """Which share this process has, from 0 on; the ordinal of a pod of a StatefulSet."""

    total: int
    """How many shares there are. To change it, stop all processes first."""

    namespace: str | None = None
    """The namespace of the Leases; None for that of the pod, and `default` outside of a pod."""

    identity: str | None = None
    """The name of this process; no two may have the same. As in `LeaderElection`."""

    options: LeaderElectionOptions = field(default_factory=LeaderElectionOptions)
    """The durations of the Lease."""

    ends_process: bool | None = None
    """As in `LeaderElection`: whether a thread ends the process if work outlives the Lease."""

    def __post_init__(self) -> None:
        check_integer("total", self.total)
        check_integer("index", self.index, least=0)
        if self.index >= self.total:
            reason = f"must be less than total, which is {self.total}, got {self.index}"
            raise InvalidArgumentError("index", reason)
        election_of(self, "operator")  # checks the rest


def uid_range_of(shard: Shard) -> UidRange:
    """Return which objects are in a share."""
    return UidRange(shard.index, shard.total)


def election_of(shard: Shard, group: str) -> LeaderElection:
    """Return which Lease the processes of a share compete for.

    Args:
        shard: the share.
        group: the operator's name.
    """
    return LeaderElection(
        name=f"{group}.{shard.index}-of-{shard.total}",
        namespace=shard.namespace,
        identity=shard.identity,
        options=shard.options,
        ends_process=shard.ends_process,
    )


def shard_named(lease: str, group: str) -> UidRange | None:
    """Return the share that a Lease with this name stands for; None if it stands for none."""
    found = re.fullmatch(r"(0|[1-9]\d*)-of-([1-9]\d*)", lease.removeprefix(f"{group}."))
    return None if found is None else UidRange(int(found[1]), int(found[2]))
