"""Validation of metadata, as far as controllers get it wrong: finalizers and owner references.

Values that were stored before are not checked again, since a test may store what a client may not.

Source:
    k8s.io/apimachinery/pkg/api/validation/objectmeta.go; pkg/apis/core/validation/names.go.
"""

from __future__ import annotations

from pyinformer.apimachinery import JSONObject, JSONValue
from pyinformer.testing.apiserver.requests import failures
from pyinformer.testing.apiserver.resources import ResourceType

NOT_TAKEN = (
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "generation",
    "selfLink",
)
"""Metadata of a new object that the server ignores."""
_STANDARD_FINALIZERS = frozenset(("foregroundDeletion", "kubernetes", "orphan"))
_NEEDED_OF_OWNERS = ("apiVersion", "kind", "name", "uid")


def check_metadata(resource: ResourceType, name: str, old: JSONObject, new: JSONObject) -> None:
    """Refuse finalizers without a domain, incomplete owners, and a second controller.

    Raises:
        Failure: 422, with one cause per finding.
    """
    is_custom = resource.list_shape == "custom"  # the real server only warns, in a header
    causes = [] if is_custom else _finalizers(old, new)
    if new.get("ownerReferences") != old.get("ownerReferences"):
        causes += _owners(new.get("ownerReferences") or [])
    if causes:
        raise failures.invalid(resource.kind, resource.group, name, causes)


def _finalizers(old: JSONObject, new: JSONObject) -> list[tuple[str, str, str]]:
    known = {*_STANDARD_FINALIZERS, *(old.get("finalizers") or ())}
    sentence = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        (
            "FieldValueInvalid",
            f"metadata.finalizers[{place}]",
            f'Invalid value: "{one}": {sentence}',
        )
        for place, one in enumerate(new.get("finalizers") or ())
        if one not in known and "/" not in str(one)
    ]


def _owners(found: list[JSONValue]) -> list[tuple[str, str, str]]:
    owners = [one for one in found if isinstance(one, dict)]
    causes = [
        (
            "FieldValueRequired",
            f"metadata.ownerReferences[{place}].{field}",
            "Required value: must not be empty",
        )
        for place, one in enumerate(owners)
        for field in _NEEDED_OF_OWNERS
        if not one.get(field)
    ]
    names = [str(one.get("name")) for one in owners if one.get("controller")]
    if len(names) > 1:
        sentence = (
            "Only one reference can have Controller set to true. Found"
            f' "true" in references for {names[0]} and {names[1]}'
        )
        causes.append(("FieldValueInvalid", "metadata.ownerReferences", sentence))
    return causes
