"""Decides what an operator writes into a CustomResourceDefinition that a server has.

It removes neither a version in which objects may be stored nor a conversion, and leaves what a
newer version of the operator has written. What other clients keep in the definition stays.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from pyinformer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

OPERATOR_ANNOTATION: Final = "pyinformer.dev/operator"
"""Names the operator that installs a definition."""
VERSION_ANNOTATION: Final = "pyinformer.dev/operator-version"
"""The version of the operator that has written it last; absent without a version."""

_VERSION: Final = re.compile(r"v?(\d+(?:\.\d+)*)(?:[-+._a-zA-Z].*)?", re.DOTALL)
_OPTIONAL_NAMES: Final = ("shortNames", "categories")
_OPTIONAL_PARTS: Final = ("subresources", "additionalPrinterColumns")
_MAX_VERSION: Final = 100  # characters


@final
class Decision(NamedTuple):
    """What to do with a definition."""

    edited: JSONObject | None
    """The definition to be written; None to leave it as it is."""
    left_because: str = ""
    """Why it is left although it differs, or may differ; empty if it has all that is wanted."""
    kept: tuple[str, ...] = ()
    """Versions that the operator does not have, and that stay, since objects may be stored so."""


def check_version(version: str) -> None:
    """Refuse a version that cannot be compared.

    Raises:
        InvalidArgumentError: it does not begin with numbers.
    """
    if (
        not isinstance(version, str)
        or len(version) > _MAX_VERSION
        or not _VERSION.fullmatch(version)
    ):
        reason = f"must be a version such as '1.4.0', got {version!r:.80}"
        raise InvalidArgumentError("version", reason)


def numbers_of(version: str | None) -> tuple[int, ...]:
    """Return what versions are compared by: 1.4 and 1.4.0rc1 are equal; none is the lowest."""
    found = _VERSION.fullmatch(version or "")
    numbers = [int(one) for one in found[1].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def marked(wanted: JSONObject, operator: str, version: str | None) -> JSONObject:
    """Return a definition with the annotations of the operator that writes it."""
    metadata = wanted["metadata"]
    annotations = {**metadata.get("annotations", {}), OPERATOR_ANNOTATION: operator}
    if version is not None:
        annotations[VERSION_ANNOTATION] = version
    return {**wanted, "metadata": {**metadata, "annotations": annotations}}


def decide(
    current: JSONObject, wanted: JSONObject, *, operator: str, version: str | None
) -> Decision:
    """Decide about a definition that exists.

    Args:
        current: the definition of the server.
        wanted: that of the models.
        operator: the name of the operator.
        version: its version; None if it has none.
    """
    annotations = current["metadata"].get("annotations") or {}
    owner = annotations.get(OPERATOR_ANNOTATION, operator)
    if owner != operator:
        cure = f"remove its annotation {OPERATOR_ANNOTATION} if that has become {operator}"
        return Decision(None, f"it is installed by the operator {owner}: {cure}")
    found = annotations.get(VERSION_ANNOTATION)
    if found is not None and (version is None or numbers_of(found) > numbers_of(version)):
        mine = "which has no version" if version is None else f"a later one than {version}"
        return Decision(None, f"it was written by version {found} of the operator, {mine}")
    spec, kept = _merged(current, wanted)
    written = marked(wanted, operator, version)["metadata"]["annotations"]
    metadata = {**current["metadata"], "annotations": {**annotations, **written}}
    if labels := wanted["metadata"].get("labels"):
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    edited = {**current, "metadata": metadata, "spec": spec}
    return Decision(None if edited == current else edited, kept=kept)


def _merged(current: JSONObject, wanted: JSONObject) -> tuple[JSONObject, tuple[str, ...]]:
    """Return the spec that is written, and the versions that are kept in it."""
    before, after = current["spec"], wanted["spec"]
    names = {**before.get("names", {}), **after["names"]}
    for name in _OPTIONAL_NAMES:
        if name not in after["names"]:
            names.pop(name, None)
    known = {one["name"]: one for one in before.get("versions", ())}
    versions = [_version(known.get(one["name"], {}), one) for one in after["versions"]]
    stored = set((current.get("status") or {}).get("storedVersions") or ())
    mine = {one["name"] for one in versions}
    kept = [one for name, one in known.items() if name not in mine and name in stored]
    versions += [{**one, "storage": False} for one in kept]
    spec = {**before, **after, "names": names, "versions": versions}
    conversion = _conversion(before.get("conversion"), after.get("conversion"))
    if conversion is not None:
        spec["conversion"] = conversion
    return spec, tuple(one["name"] for one in kept)


def _version(known: JSONObject, wanted: JSONObject) -> JSONObject:
    """Return a version with the parts of a model, and with others that the definition has."""
    others = {name: part for name, part in known.items() if name not in _OPTIONAL_PARTS}
    return {**others, **wanted}


def _conversion(before: JSONObject | None, after: JSONObject | None) -> JSONObject | None:
    """Return the conversion: one by a webhook stays, and keeps the authority that is in it."""
    if after is None or after["strategy"] != "Webhook":
        return before or after
    merged: JSONObject = _over(before or {}, after)
    client, wanted = merged["webhook"]["clientConfig"], after["webhook"]["clientConfig"]
    client.pop("service" if "url" in wanted else "url", None)
    return merged


def _over(before: Any, after: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a value over an earlier one: of dicts, what only the earlier one has stays."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return after
    return {**before, **{name: _over(before.get(name), one) for name, one in after.items()}}
