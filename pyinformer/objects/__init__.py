"""Objects, keys, selectors, resource versions, errors: what all other folders use. No I/O."""

# Pure, as all modules below: it knows no event loop.

from typing import TYPE_CHECKING

from pyinformer._runtime.late_names import late_getattr
from pyinformer.objects._backoff import ExponentialBackoff as ExponentialBackoff
from pyinformer.objects._checks import check_choice as check_choice
from pyinformer.objects._checks import check_encodable as check_encodable
from pyinformer.objects._checks import check_flag as check_flag
from pyinformer.objects._checks import check_hashable as check_hashable
from pyinformer.objects._checks import check_integer as check_integer
from pyinformer.objects._checks import check_iterable as check_iterable
from pyinformer.objects._checks import check_number as check_number
from pyinformer.objects._checks import check_path as check_path
from pyinformer.objects._checks import check_seconds as check_seconds
from pyinformer.objects._checks import check_text as check_text
from pyinformer.objects._checks import check_type as check_type
from pyinformer.objects._checks import plain_text as plain_text
from pyinformer.objects._cluster_scoped import (
    is_built_in_cluster_scoped as is_built_in_cluster_scoped,
)
from pyinformer.objects._compact import CompactObject as CompactObject
from pyinformer.objects._compiled_paths import PathSet as PathSet
from pyinformer.objects._compiled_paths import parse_path as parse_path
from pyinformer.objects._decoding_structs import view_path as view_path
from pyinformer.objects._depth import MAX_DEPTH as MAX_DEPTH
from pyinformer.objects._diagnostic_journal import DiagnosticJournal, JournalEntry
from pyinformer.objects._did_you_mean import did_you_mean as did_you_mean
from pyinformer.objects._did_you_mean import near_names as near_names
from pyinformer.objects._diff import ABSENT, Absent, Change, diff
from pyinformer.objects._events import Added, Deleted, Event, Updated
from pyinformer.objects._fallback_identity import key_in as key_in
from pyinformer.objects._field_hints import field_hints as field_hints
from pyinformer.objects._field_hints import is_typed_dict as is_typed_dict
from pyinformer.objects._field_selector import FieldRequirement, FieldSelector
from pyinformer.objects._intern import InternStatistics
from pyinformer.objects._json_decoders import JSONObject, JSONValue
from pyinformer.objects._json_decoders import complaint_of as complaint_of
from pyinformer.objects._json_decoders import decode_object as decode_object
from pyinformer.objects._json_decoders import decoder_of as decoder_of
from pyinformer.objects._json_decoders import null_as_absent as null_as_absent
from pyinformer.objects._json_decoders import unbounded_decoder_of as unbounded_decoder_of
from pyinformer.objects._json_decoders import without_lone_surrogates as without_lone_surrogates
from pyinformer.objects._json_field_scanner import METADATA_BYTES as METADATA_BYTES
from pyinformer.objects._json_field_scanner import Identity as Identity
from pyinformer.objects._json_field_scanner import MetadataReader as MetadataReader
from pyinformer.objects._json_field_scanner import fields_of as fields_of
from pyinformer.objects._json_field_scanner import identity_in as identity_in
from pyinformer.objects._keys_and_kinds import PARTIAL_OBJECT_METADATA as PARTIAL_OBJECT_METADATA
from pyinformer.objects._keys_and_kinds import GroupVersionKind, GroupVersionResource, ObjectKey
from pyinformer.objects._keys_and_kinds import guess_plural as guess_plural
from pyinformer.objects._keys_and_kinds import is_namespace_name as is_namespace_name
from pyinformer.objects._keys_and_kinds import is_object_name as is_object_name
from pyinformer.objects._keys_and_kinds import object_key as object_key
from pyinformer.objects._keys_and_kinds import split_api_version as split_api_version
from pyinformer.objects._label_selector import LabelPredicate as LabelPredicate
from pyinformer.objects._label_selector import LabelRequirement, LabelSelector
from pyinformer.objects._label_selector import Selector as Selector
from pyinformer.objects._late_models import check_view_or_model as check_view_or_model
from pyinformer.objects._meta import Labels, ObjectMeta, OwnerReference
from pyinformer.objects._model_checks import check_parts as check_parts
from pyinformer.objects._model_checks import field_names as field_names
from pyinformer.objects._models import WRITTEN_OTHERWISE as WRITTEN_OTHERWISE
from pyinformer.objects._models import check_model as check_model
from pyinformer.objects._models import check_written_names as check_written_names
from pyinformer.objects._models import decode_model as decode_model
from pyinformer.objects._models import why_mutable as why_mutable
from pyinformer.objects._object import KubeObject
from pyinformer.objects._object import V as V
from pyinformer.objects._object import converts_itself as converts_itself
from pyinformer.objects._object import stored_bytes as stored_bytes
from pyinformer.objects._object_codec import LARGE_BODY_BYTES as LARGE_BODY_BYTES
from pyinformer.objects._object_codec import ObjectCodec as ObjectCodec
from pyinformer.objects._redact import REDACTED as REDACTED
from pyinformer.objects._redact import masked as masked
from pyinformer.objects._redact import masked_value as masked_value
from pyinformer.objects._redact import redacted
from pyinformer.objects._redact import redacted_change as redacted_change
from pyinformer.objects._redact import redacted_warning as redacted_warning
from pyinformer.objects._redact import redacted_words as redacted_words
from pyinformer.objects._redact import without_quotes as without_quotes
from pyinformer.objects._resource_version import VersionOrder
from pyinformer.objects._resource_version import (
    compare_resource_versions as compare_resource_versions,
)
from pyinformer.objects._resource_version import older as older
from pyinformer.objects._resource_version import (
    resource_version_is_well_formed as resource_version_is_well_formed,
)
from pyinformer.objects._roles import Access as Access
from pyinformer.objects._roles import check_role_name as check_role_name
from pyinformer.objects._roles import roles_yaml as roles_yaml
from pyinformer.objects._transform import BytesTransform, Transform
from pyinformer.objects._uid_range import UidRange as UidRange
from pyinformer.objects._uid_range import uid_hash as uid_hash
from pyinformer.objects._view import View
from pyinformer.objects._view import check_view as check_view
from pyinformer.objects._view import is_view as is_view
from pyinformer.objects._zstd import check_compressor as check_compressor
from pyinformer.objects._zstd import has_compressor as has_compressor

if TYPE_CHECKING:
    from pyinformer.objects._kubernetes_yaml import YAMLError as YAMLError
    from pyinformer.objects._kubernetes_yaml import YAMLLimitError as YAMLLimitError
    from pyinformer.objects._kubernetes_yaml import dump_yaml as dump_yaml
    from pyinformer.objects._kubernetes_yaml import dump_yaml_documents as dump_yaml_documents
    from pyinformer.objects._kubernetes_yaml import json_as_yaml as json_as_yaml
    from pyinformer.objects._kubernetes_yaml import json_for_yaml as json_for_yaml
    from pyinformer.objects._kubernetes_yaml import load_yaml as load_yaml
    from pyinformer.objects._kubernetes_yaml import yaml_scalar as yaml_scalar
    from pyinformer.objects._re2_syntax_check import re2_compiled as re2_compiled
    from pyinformer.objects._re2_syntax_check import re2_problem as re2_problem
    from pyinformer.objects._schema_validation import SchemaCause as SchemaCause
    from pyinformer.objects._schema_validation import schema_causes as schema_causes

# Loaded when they are first used: their regular expressions take milliseconds to compile.
_HOMES = {
    "SchemaCause": "_schema_validation",
    "YAMLError": "_kubernetes_yaml",
    "YAMLLimitError": "_kubernetes_yaml",
    "dump_yaml": "_kubernetes_yaml",
    "dump_yaml_documents": "_kubernetes_yaml",
    "json_as_yaml": "_kubernetes_yaml",
    "json_for_yaml": "_kubernetes_yaml",
    "load_yaml": "_kubernetes_yaml",
    "re2_compiled": "_re2_syntax_check",
    "re2_problem": "_re2_syntax_check",
    "schema_causes": "_schema_validation",
    "yaml_scalar": "_kubernetes_yaml",
}

__all__ = [
    "ABSENT",
    "Absent",
    "Added",
    "BytesTransform",
    "Change",
    "Deleted",
    "DiagnosticJournal",
    "Event",
    "FieldRequirement",
    "FieldSelector",
    "GroupVersionKind",
    "GroupVersionResource",
    "InternStatistics",
    "JSONObject",
    "JSONValue",
    "JournalEntry",
    "KubeObject",
    "LabelRequirement",
    "LabelSelector",
    "Labels",
    "ObjectKey",
    "ObjectMeta",
    "OwnerReference",
    "Transform",
    "Updated",
    "VersionOrder",
    "View",
    "diff",
    "redacted",
]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
