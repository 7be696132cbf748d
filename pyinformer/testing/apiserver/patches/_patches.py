"""Parse the body of a PATCH request into an edit of an object.

For server-side apply the result is the configuration. A body that cannot be parsed is a Failure;
an edit does not change its argument.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import msgspec

from pyinformer.objects import JSONObject, JSONValue, YAMLError, decoder_of, load_yaml
from pyinformer.testing.apiserver.patches._json_patch import PatchError, json_patch
from pyinformer.testing.apiserver.patches._strategic_merge import strategic_merge
from pyinformer.testing.apiserver.requests import Failure
from pyinformer.testing.apiserver.resources import BuiltInShape, ResourceType
from pyinformer.testing.apiserver.storage import merge_patch

APPLY = "application/apply-patch+yaml"
JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

_MOST_OPERATIONS: Final = 10_000

_decode_object = decoder_of(JSONObject)
_decode_operations = decoder_of(list[JSONObject])

Edit: TypeAlias = Callable[[JSONObject], JSONObject]


def json_object(raw: bytes) -> JSONObject:
    """Parse a JSON object.

    Raises:
        Failure: it is not a JSON object (400).
    """
    try:
        return _decode_object(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Failure(400, f"the object provided is unrecognized: {error}") from None


def parse_configuration(raw: bytes) -> JSONObject:
    """Parse the body of a server-side apply, which is YAML or JSON.

    Raises:
        Failure: it is not an object (400).
    """
    try:
        found = load_yaml(raw)
    except YAMLError as error:
        is_like_json = raw.lstrip().startswith(b"{")  # which is not converted for admission
        step = "decoding patch: error converting YAML to JSON" if is_like_json else "encoding patch"
        raise Failure(400, f"error {step}: yaml: {error}") from None
    if not isinstance(found, dict | None):
        kind = {list: "array", str: "string", bool: "bool"}.get(type(found), "number")
        message = (
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot"
            f" unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
        raise Failure(400, message)
    return found or {}


def parse_patch(content_type: str, raw: bytes, resource: ResourceType) -> Edit:
    """Parse the body of any other patch.

    Raises:
        Failure: it cannot be parsed (400), or the resource does not support this format (415).
    """
    shape = resource.shape
    if content_type == MERGE:
        return merge_patch_edit(json_object(raw))
    if content_type == JSON:
        return _json_patch_edit(raw)
    if content_type == STRATEGIC and isinstance(shape, BuiltInShape):
        return partial(strategic_merge, patch=json_object(raw), shape=shape)
    if content_type == STRATEGIC:
        message = (
            "the body of the request was in an unknown format - accepted media types include:"
            f" {JSON}, {MERGE}, {APPLY}"
        )
        raise Failure(415, message)
    raise Failure(415, "415: Unsupported Media Type", details={})


def _json_patch_edit(raw: bytes) -> Edit:
    """Return the edit of a JSON patch (RFC 6902)."""
    try:
        operations = _decode_operations(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Failure(400, f"error decoding patch: {error}") from None
    if len(operations) > _MOST_OPERATIONS:
        message = (
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {_MOST_OPERATIONS}, got {len(operations)}"
        )
        raise Failure(413, message)

    def edit(body: JSONObject) -> JSONObject:
        try:
            patched = json_patch(body, operations)
        except PatchError:  # the real server does not send the reason, either
            message = "the server rejected our request due to an error in our request"
            raise Failure(422, message, details={}) from None
        return patched if isinstance(patched, dict) else {}

    return edit


def merge_patch_edit(patch: JSONObject) -> Edit:
    """Return the edit of a JSON merge patch (RFC 7386)."""

    def edit(body: JSONObject) -> JSONObject:
        patched: JSONValue = merge_patch(body, patch)
        return patched if isinstance(patched, dict) else {}

    return edit
