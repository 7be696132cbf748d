"""Shared work: the replicas of an operator split its keys, and each key has one of them.

Only the decisions are here so far: the hash, the table, the members, and what each does next.
"""

from pyinformer.sharding._bucket_shares import (
    Bucket,
    BucketShares,
    ReadMember,
    ReadMembers,
    ReadTable,
    Revoke,
    Step,
    WriteTable,
    quotas,
)
from pyinformer.sharding._hashing import By, bucket_of
from pyinformer.sharding._members import Members
from pyinformer.sharding._table import GROUP_LABEL, Owner, Table, freed, read_table, with_table

__all__ = [
    "GROUP_LABEL",
    "Bucket",
    "BucketShares",
    "By",
    "Members",
    "Owner",
    "ReadMember",
    "ReadMembers",
    "ReadTable",
    "Revoke",
    "Step",
    "Table",
    "WriteTable",
    "bucket_of",
    "freed",
    "quotas",
    "read_table",
    "with_table",
]
