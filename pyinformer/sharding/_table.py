"""The table of a group: which member has which bucket. It is kept in the Lease of the operator.

The Lease names a holder that no replica is, for the longest time there is: replicas that elect a
leader in place of sharing wait for it. Every write has the uid and the version that was read as its
precondition, so a write that arrives late changes nothing.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, final

import msgspec

from pyinformer.errors import InvalidArgumentError
from pyinformer.leaderelection import TABLE_HOLDER, LeaseRecord, released, with_labels
from pyinformer.objects import decoder_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.objects import JSONObject

GROUP_LABEL: Final = "pyinformer.dev/buckets"
"""The label of all Leases of a group, the table among them; its value is the operator's name."""
TABLE_ANNOTATION: Final = "pyinformer.dev/table"
MEMBERS_ANNOTATION: Final = "pyinformer.dev/members"
"""The names of all members that own a bucket, for admission policies: `,a,b,`."""

_FOREVER_SECONDS: Final = 2**31 - 1  # the greatest leaseDurationSeconds
_FORMAT: Final = 1
_HASH: Final = "blake2b-64"
_NO_OWNER: Final = -1


class Owner(NamedTuple):
    """One life of a member, from acquiring its Lease to losing it; it never begins again."""

    lease: str
    """The name of the member's Lease."""
    uid: str
    """Its uid: a Lease that is deleted and created again starts its transitions again at 0."""
    transitions: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Who owns which bucket, and what the next owner has to wait for."""

    by: str
    """What has one bucket: each `key`, all of a `namespace` or `cluster`, or a function's name."""
    owners: tuple[Owner | None, ...]
    """By bucket."""
    dirty: frozenset[int]
    """Buckets of which it is unknown what their owners wrote: the next one lists."""
    written: Mapping[str, str] = field(default_factory=dict)
    """The highest version that an owner of a bucket wrote before it gave it up, by resource."""
    leaving: frozenset[Owner] = frozenset()
    """Members that give all their buckets up, and get none."""
    awaited: frozenset[Owner] = frozenset()
    """Lives that may own buckets by a table that is gone: none is claimed before each of them has
    written to this one, or is over."""

    @classmethod
    def empty(cls, buckets: int, by: str, *, awaited: frozenset[Owner] = frozenset()) -> Table:
        """Return a table in which no bucket has an owner."""
        return cls(
            by=by,
            owners=(None,) * buckets,
            dirty=frozenset(range(buckets)),
            awaited=awaited,
        )

    @property
    def members(self) -> frozenset[Owner]:
        """All lives that it names."""
        owners = frozenset(one for one in self.owners if one is not None)
        return owners | self.leaving | self.awaited

    def of(self, owner: Owner) -> list[int]:
        """Return the buckets of an owner, in order."""
        return [bucket for bucket, its in enumerate(self.owners) if its == owner]


class _Text(msgspec.Struct, omit_defaults=True):
    """The annotation."""

    format: int
    hash: str
    by: str
    members: list[Owner]
    owners: list[int]
    dirty: list[int]
    written: dict[str, str] = {}
    leaving: list[int] = []
    awaited: list[int] = []


class _Kind(msgspec.Struct):
    """What distinguishes the shapes of the annotation."""

    format: int = 0
    hash: str = ""


_decode, _decode_kind = decoder_of(_Text), decoder_of(_Kind)


def read_table(lease: LeaseRecord, *, buckets: int, by: str) -> Table | None:
    """Return the table in a Lease; None if it has none, since it is free or a leader's.

    Args:
        lease: the Lease of the operator.
        buckets: how many buckets this process was given.
        by: what has a bucket in this process.

    Raises:
        InvalidArgumentError: the table is another one than this process was given.
    """
    if lease.holder != TABLE_HOLDER:
        return None
    metadata: Any = lease.body.get("metadata") or {}
    text = (metadata.get("annotations") or {}).get(TABLE_ANNOTATION)
    if not isinstance(text, str):
        return None
    try:
        kind = _decode_kind(text)
        if (kind.format, kind.hash) != (_FORMAT, _HASH):
            theirs = f"a table of format {kind.format} and hash {kind.hash!r}"
            raise _another(lease, theirs, f"this process writes format {_FORMAT} and hash {_HASH}")
        found = _decode(text)
        members = dict(enumerate(found.members))
        owners = tuple(None if at == _NO_OWNER else members[at] for at in found.owners)
        leaving = frozenset(members[at] for at in found.leaving)
        awaited = frozenset(members[at] for at in found.awaited)
    except (msgspec.DecodeError, KeyError) as error:
        raise _another(lease, "a table that cannot be read", f"{error}") from error
    if (len(owners), found.by) != (buckets, by):
        theirs = f"{len(owners)} buckets by {found.by}"
        raise _another(lease, theirs, f"this process has {buckets} by {by}")
    return Table(
        by=by,
        owners=owners,
        dirty=frozenset(found.dirty),
        written=found.written,
        leaving=leaving,
        awaited=awaited,
    )


def _another(lease: LeaseRecord, theirs: str, ours: str) -> InvalidArgumentError:
    reason = (
        f"the running replicas have {theirs} in the Lease {lease.key}, and {ours}. All"
        " replicas need the same: stop the others first, the last one that leaves frees the table"
    )
    return InvalidArgumentError("sharding", reason)


def with_table(lease: LeaseRecord, table: Table, *, group: str, at: float) -> JSONObject:
    """Return the body that writes a table into the Lease of the operator.

    Args:
        lease: the Lease as it is; its version and uid are the preconditions.
        table: the table.
        group: the operator's name.
        at: Unix time in seconds.
    """
    owners = {owner for owner in table.owners if owner is not None}
    members = sorted(table.members)
    places = {owner: place for place, owner in enumerate(members)}
    text = _Text(
        format=_FORMAT,
        hash=_HASH,
        by=table.by,
        members=members,
        owners=[_NO_OWNER if owner is None else places[owner] for owner in table.owners],
        dirty=sorted(table.dirty),
        written=dict(table.written),
        leaving=sorted(places[owner] for owner in table.leaving),
        awaited=sorted(places[owner] for owner in table.awaited),
    )
    names = ",".join(sorted({owner.lease for owner in owners}))
    # Of a released Lease: what an earlier leader wrote says nothing of the members.
    body: Any = with_labels(released(lease, at=at, written=None), {GROUP_LABEL: group})
    body["metadata"]["annotations"] |= {
        TABLE_ANNOTATION: msgspec.json.encode(text).decode(),
        MEMBERS_ANNOTATION: f",{names},",
    }
    body["spec"] |= {"holderIdentity": TABLE_HOLDER, "leaseDurationSeconds": _FOREVER_SECONDS}
    if lease.holder == TABLE_HOLDER:
        body["spec"]["acquireTime"] = lease.acquire_time
    return cast("JSONObject", body)


def freed(lease: LeaseRecord, *, group: str, at: float) -> JSONObject:
    """Return the body that frees the Lease of the operator, without a table.

    Args:
        lease: the Lease as it is; its version and uid are the preconditions.
        group: the operator's name.
        at: Unix time in seconds.
    """
    body: Any = with_labels(released(lease, at=at, written=None), {GROUP_LABEL: group})
    for name in (TABLE_ANNOTATION, MEMBERS_ANNOTATION):
        body["metadata"]["annotations"].pop(name, None)
    return cast("JSONObject", body)
