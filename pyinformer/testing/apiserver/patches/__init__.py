"""The four patch formats: each is parsed into an edit of an object."""

# Pure, as all modules below: it knows no event loop.

from pyinformer.testing.apiserver.patches._json_patch import PatchError, json_patch
from pyinformer.testing.apiserver.patches._patches import (
    APPLY,
    Edit,
    json_object,
    merge_patch_edit,
    parse_configuration,
    parse_patch,
)

__all__ = [
    "APPLY",
    "Edit",
    "PatchError",
    "json_object",
    "json_patch",
    "merge_patch_edit",
    "parse_configuration",
    "parse_patch",
]
