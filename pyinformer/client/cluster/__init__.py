"""One API server as a program uses it: finding it, reading and writing objects, discovery."""

from pyinformer.client.cluster._cluster import (
    Cluster,
    Propagation,
    check_cluster,
    claim_loop,
    state_of,
)
from pyinformer.client.cluster._cluster import apply_converted as apply_converted
from pyinformer.client.cluster._condition_merge import by_type as by_type
from pyinformer.client.cluster._condition_merge import with_changed as with_changed
from pyinformer.client.cluster._connect import connect
from pyinformer.client.cluster._discovery import Discovery
from pyinformer.client.cluster._exec_output import ExecResult
from pyinformer.client.cluster._field_manager import writing_as
from pyinformer.client.cluster._fingerprint import fingerprint_of as fingerprint_of
from pyinformer.client.cluster._json_conversion import Body
from pyinformer.client.cluster._json_conversion import body_of as body_of
from pyinformer.client.cluster._json_conversion import whole_body_of as whole_body_of
from pyinformer.client.cluster._log_stream import LogStream
from pyinformer.client.cluster._managed_fields_upgrade import upgrade_managed_fields
from pyinformer.client.cluster._object_list import ObjectList, VersionMatch
from pyinformer.client.cluster._patch_from_edits import edits_of as edits_of
from pyinformer.client.cluster._patch_from_edits import status_body as status_body
from pyinformer.client.cluster._pool import ClusterPool
from pyinformer.client.cluster._pool_entry import PooledClusterStatus
from pyinformer.client.cluster._rate_limited_requests import WriteOptions, WriteStatistics
from pyinformer.client.cluster._retry_on_conflict import (
    Upserted,
    check_attempt,
    create_or_update,
    pause_after_conflict,
    retry_on_conflict,
)
from pyinformer.client.cluster._targets import Parent, head_of
from pyinformer.client.cluster._targets import Target as Target
from pyinformer.client.cluster._targets import check_secret as check_secret
from pyinformer.client.cluster._targets import has_only_metadata as has_only_metadata
from pyinformer.client.cluster._targets import kind_of as kind_of
from pyinformer.client.cluster._targets import parts_of as parts_of
from pyinformer.client.cluster._targets import target_in as target_in
from pyinformer.client.cluster._write_context import (
    CURRENT_CALLER,
    CURRENT_WRITER,
    begin_call,
    context_without_writer,
)
from pyinformer.client.cluster._write_observer import WriteObserver
from pyinformer.client.cluster._write_path import FieldValidation
from pyinformer.client.transport import APIResource

__all__ = [
    "CURRENT_CALLER",
    "CURRENT_WRITER",
    "APIResource",
    "Body",
    "Cluster",
    "ClusterPool",
    "Discovery",
    "ExecResult",
    "FieldValidation",
    "LogStream",
    "ObjectList",
    "Parent",
    "PooledClusterStatus",
    "Propagation",
    "Upserted",
    "VersionMatch",
    "WriteObserver",
    "WriteOptions",
    "WriteStatistics",
    "begin_call",
    "check_attempt",
    "check_cluster",
    "claim_loop",
    "connect",
    "context_without_writer",
    "create_or_update",
    "head_of",
    "pause_after_conflict",
    "retry_on_conflict",
    "state_of",
    "upgrade_managed_fields",
    "writing_as",
]
