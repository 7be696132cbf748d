"""Objects, keys, selectors, resource versions, errors: what all other folders use. No I/O."""

# Pure, as all modules below: it knows no event loop.

from typing import TYPE_CHECKING

from pyinformer._late_names import late_getattr
from pyinformer.apimachinery._backoff import ExponentialBackoff
from pyinformer.apimachinery._checks import (
    check_choice,
    check_encodable,
    check_flag,
    check_hashable,
    check_integer,
    check_iterable,
    check_number,
    check_path,
    check_seconds,
    check_text,
    check_type,
    plain_text,
)
from pyinformer.apimachinery._cluster_scoped import is_built_in_cluster_scoped
from pyinformer.apimachinery._codec import LARGE_BODY_BYTES, ObjectCodec
from pyinformer.apimachinery._compact import CompactObject
from pyinformer.apimachinery._depth import MAX_DEPTH
from pyinformer.apimachinery._diff import ABSENT, Absent, Change, diff
from pyinformer.apimachinery._events import Added, Deleted, Event, Updated
from pyinformer.apimachinery._field_selector import FieldRequirement, FieldSelector
from pyinformer.apimachinery._fields import (
    METADATA_BYTES,
    Identity,
    MetadataReader,
    fields_of,
    identity_in,
)
from pyinformer.apimachinery._identity import key_in
from pyinformer.apimachinery._intern import InternStatistics
from pyinformer.apimachinery._journal import Journal, JournalEntry
from pyinformer.apimachinery._json import (
    JSONObject,
    JSONValue,
    complaint_of,
    decode_object,
    decoder_of,
    null_as_absent,
    without_lone_surrogates,
)
from pyinformer.apimachinery._keys import (
    PARTIAL_OBJECT_METADATA,
    GroupVersionKind,
    GroupVersionResource,
    ObjectKey,
    guess_plural,
    is_namespace_name,
    is_object_name,
    object_key,
    split_api_version,
)
from pyinformer.apimachinery._label_selector import (
    LabelPredicate,
    LabelRequirement,
    LabelSelector,
    Selector,
)
from pyinformer.apimachinery._late_models import check_view_or_model
from pyinformer.apimachinery._meta import Labels, ObjectMeta, OwnerReference
from pyinformer.apimachinery._model_parts import check_parts
from pyinformer.apimachinery._models import (
    WRITTEN_OTHERWISE,
    check_model,
    check_written_names,
    decode_model,
    why_mutable,
)
from pyinformer.apimachinery._near import did_you_mean, near_names
from pyinformer.apimachinery._object import KubeObject, V, converts_itself, stored_bytes
from pyinformer.apimachinery._paths import PathSet, parse_path
from pyinformer.apimachinery._redact import (
    REDACTED,
    masked,
    masked_value,
    redacted,
    redacted_change,
    redacted_warning,
    redacted_words,
    without_quotes,
)
from pyinformer.apimachinery._resource_version import (
    VersionOrder,
    compare_resource_versions,
    older,
    resource_version_is_well_formed,
)
from pyinformer.apimachinery._roles import Access, check_role_name, roles_yaml
from pyinformer.apimachinery._token_bucket import TokenBucket
from pyinformer.apimachinery._transform import BytesTransform, Transform
from pyinformer.apimachinery._view import View, check_view, is_view
from pyinformer.apimachinery._wire import view_path
from pyinformer.apimachinery._zstd import check_compressor, has_compressor

if TYPE_CHECKING:
    from pyinformer.apimachinery._re2 import re2_problem
    from pyinformer.apimachinery._schema_causes import SchemaCause, schema_causes
    from pyinformer.apimachinery._yaml import (
        YAMLError,
        YAMLLimitError,
        dump_yaml,
        dump_yaml_documents,
        json_as_yaml,
        json_for_yaml,
        load_yaml,
        yaml_scalar,
    )

# Loaded when they are first used: their regular expressions take milliseconds to compile.
_HOMES = {
    "SchemaCause": "_schema_causes",
    "YAMLError": "_yaml",
    "YAMLLimitError": "_yaml",
    "dump_yaml": "_yaml",
    "dump_yaml_documents": "_yaml",
    "json_as_yaml": "_yaml",
    "json_for_yaml": "_yaml",
    "load_yaml": "_yaml",
    "re2_problem": "_re2",
    "schema_causes": "_schema_causes",
    "yaml_scalar": "_yaml",
}

__all__ = [
    "ABSENT",
    "LARGE_BODY_BYTES",
    "MAX_DEPTH",
    "METADATA_BYTES",
    "PARTIAL_OBJECT_METADATA",
    "REDACTED",
    "WRITTEN_OTHERWISE",
    "Absent",
    "Access",
    "Added",
    "BytesTransform",
    "Change",
    "CompactObject",
    "Deleted",
    "Event",
    "ExponentialBackoff",
    "FieldRequirement",
    "FieldSelector",
    "GroupVersionKind",
    "GroupVersionResource",
    "Identity",
    "InternStatistics",
    "JSONObject",
    "JSONValue",
    "Journal",
    "JournalEntry",
    "KubeObject",
    "LabelPredicate",
    "LabelRequirement",
    "LabelSelector",
    "Labels",
    "MetadataReader",
    "ObjectCodec",
    "ObjectKey",
    "ObjectMeta",
    "OwnerReference",
    "PathSet",
    "SchemaCause",
    "Selector",
    "TokenBucket",
    "Transform",
    "Updated",
    "V",
    "VersionOrder",
    "View",
    "YAMLError",
    "YAMLLimitError",
    "check_choice",
    "check_compressor",
    "check_encodable",
    "check_flag",
    "check_hashable",
    "check_integer",
    "check_iterable",
    "check_model",
    "check_number",
    "check_parts",
    "check_path",
    "check_role_name",
    "check_seconds",
    "check_text",
    "check_type",
    "check_view",
    "check_view_or_model",
    "check_written_names",
    "compare_resource_versions",
    "complaint_of",
    "converts_itself",
    "decode_model",
    "decode_object",
    "decoder_of",
    "did_you_mean",
    "diff",
    "dump_yaml",
    "dump_yaml_documents",
    "fields_of",
    "guess_plural",
    "has_compressor",
    "identity_in",
    "is_built_in_cluster_scoped",
    "is_namespace_name",
    "is_object_name",
    "is_view",
    "json_as_yaml",
    "json_for_yaml",
    "key_in",
    "load_yaml",
    "masked",
    "masked_value",
    "near_names",
    "null_as_absent",
    "object_key",
    "older",
    "parse_path",
    "plain_text",
    "re2_problem",
    "redacted",
    "redacted_change",
    "redacted_warning",
    "redacted_words",
    "resource_version_is_well_formed",
    "roles_yaml",
    "schema_causes",
    "split_api_version",
    "stored_bytes",
    "view_path",
    "why_mutable",
    "without_lone_surrogates",
    "without_quotes",
    "yaml_scalar",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
