"""Shared work: the replicas of an operator split its keys, and each key has one of them.

A member holds a Lease of its own, and the table of who has which bucket of keys is another Lease.
"""

from pyinformer.sharding._admission_policy import sharing_policy_yaml
from pyinformer.sharding._bucket_lease import BucketLease as BucketLease
from pyinformer.sharding._bucket_shares import Bucket as Bucket
from pyinformer.sharding._bucket_shares import BucketShares as BucketShares
from pyinformer.sharding._bucket_shares import ReadMember as ReadMember
from pyinformer.sharding._bucket_shares import ReadMembers as ReadMembers
from pyinformer.sharding._bucket_shares import ReadTable as ReadTable
from pyinformer.sharding._bucket_shares import Revoke as Revoke
from pyinformer.sharding._bucket_shares import Step as Step
from pyinformer.sharding._bucket_shares import WriteTable as WriteTable
from pyinformer.sharding._bucket_shares import quotas as quotas
from pyinformer.sharding._group_member import BucketWork as BucketWork
from pyinformer.sharding._group_member import GroupMember as GroupMember
from pyinformer.sharding._hashing import By
from pyinformer.sharding._hashing import bucket_of as bucket_of
from pyinformer.sharding._key_buckets import NO_BUCKET as NO_BUCKET
from pyinformer.sharding._key_buckets import KeyBuckets as KeyBuckets
from pyinformer.sharding._members import Members as Members
from pyinformer.sharding._options import Buckets
from pyinformer.sharding._options import check_group as check_group
from pyinformer.sharding._rbac import group_accesses as group_accesses
from pyinformer.sharding._rbac import shard_accesses as shard_accesses
from pyinformer.sharding._rivals import Rivals as Rivals
from pyinformer.sharding._rivals import rivals_of_shard as rivals_of_shard
from pyinformer.sharding._shard import Shard
from pyinformer.sharding._shard import election_of as election_of
from pyinformer.sharding._shard import shard_named as shard_named
from pyinformer.sharding._shard import uid_range_of as uid_range_of
from pyinformer.sharding._status import SharingStatus
from pyinformer.sharding._table import GROUP_LABEL as GROUP_LABEL
from pyinformer.sharding._table import Owner as Owner
from pyinformer.sharding._table import Table as Table
from pyinformer.sharding._table import freed as freed
from pyinformer.sharding._table import read_table as read_table
from pyinformer.sharding._table import with_table as with_table

__all__ = ["Buckets", "By", "Shard", "SharingStatus", "sharing_policy_yaml"]
