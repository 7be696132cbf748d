"""Moves the ownership of fields from updates to server-side apply.

Fields that a program wrote by updates, or `kubectl apply` without `--server-side`, belong to
another manager than those that it applies: what it leaves out of an apply is not removed. After the
move they belong to the apply. Only `metadata.managedFields` changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pyinformer._runtime.tasks import checked_by
from pyinformer.client.cluster._cluster import Cluster, check_cluster, moving_fields
from pyinformer.client.cluster._field_manager import apply_manager_of, checked_field_manager
from pyinformer.client.cluster._retry_on_conflict import retry_on_conflict
from pyinformer.client.cluster._targets import object_path
from pyinformer.errors import InvalidObjectError
from pyinformer.objects import (
    GroupVersionResource,
    JSONObject,
    JSONValue,
    KubeObject,
    check_iterable,
    check_text,
    decode_object,
)

_JSON_PATCH: Final = "application/json-patch+json"
_MEMBER: Final = "."  # in FieldsV1: the field itself belongs to the set, beside fields below it
_UPDATE: Final = "Update"
_APPLY: Final = "Apply"


@checked_by(check_cluster)
async def upgrade_managed_fields(
    cluster: Cluster,
    api_version: str,
    plural: str,
    key: str,
    *,
    managers: Sequence[str],
    field_manager: str | None = None,
    subresource: str = "",
) -> KubeObject:
    """Let the fields that managers own by updates belong to a manager's server-side applies.

    Call it once for each object, before or after the first apply. The next apply then removes what
    it leaves out. It cannot be undone.

        await pyinformer.controller.upgrade_managed_fields(
            cluster, "apps/v1", "deployments", "shop/web", managers=["kubectl-client-side-apply"]
        )

    Args:
        cluster: where.
        api_version: `v1`, or `group/version`.
        plural: the resource's plural name, as in its URL.
        key: `namespace/name`, or `name` if it is cluster-scoped.
        managers: the field managers whose fields move: `kubectl-client-side-apply` for what
            `kubectl apply` wrote, `pyinformer` for updates of a program that named no manager.
            What other managers own, they still own.
        field_manager: the manager that applies; None as for `Cluster.apply`.
        subresource: which entries move: those of this subresource, `status` for example; empty for
            those of the object itself.

    Returns:
        The object as the server has it now; nothing is written if no entry has to move.

    Raises:
        NotFoundError: the object does not exist.
        ConflictError: other clients changed it before each attempt.
        InvalidArgumentError: an argument is malformed, or there is no field manager.
        InvalidTypeError: `managers` is a text, or has something else than texts; or
            `cluster` is the cluster of a plain function, which calls
            `pyinformer.blocking.upgrade_managed_fields`.
        InvalidObjectError: the server's managedFields cannot be read.
        APIStatusError: the server refused.
        TransportError: no response arrived; it may have been written or not.

    Cancellation:
        It may have been written or not.

    Source:
        client-go util/csaupgrade/upgrade.go.
    """
    check_iterable("managers", managers, shown="a sequence of texts", items=str)
    check_text("subresource", subresource)
    names = tuple(dict.fromkeys(managers))
    for name in names:
        checked_field_manager(name, "managers")
    target = apply_manager_of(field_manager, cluster.field_manager)
    resource = GroupVersionResource.of(api_version, plural)
    path = object_path(resource, key)

    async def attempt() -> None:
        """Read the object, and write its new managedFields."""
        raw = await cluster.request("GET", path)
        version, entries = _read(raw, f"{resource} {key!r}")
        upgraded = _upgraded(entries, names, target, subresource)
        if upgraded == entries:
            return
        # A replaced version, where a test would be 422: the server answers 409 if it is old.
        patch: JSONValue = [
            {"op": "replace", "path": "/metadata/managedFields", "value": upgraded},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        with moving_fields(cluster, resource, key, target):
            written = await cluster.request(
                "PATCH", path, body=msgspec.json.encode(patch), content_type=_JSON_PATCH
            )
        cluster.record_write(api_version, plural, written)

    await retry_on_conflict(attempt)
    return await cluster.get(api_version, plural, key)


def _read(raw: bytes, what: str) -> tuple[str, list[JSONObject]]:
    """Return the resource version and the managedFields of an object."""
    metadata = decode_object(raw, what).get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    entries = metadata.get("managedFields") or []
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise InvalidObjectError(what, "its managedFields must be a list of objects")
    return str(metadata.get("resourceVersion") or ""), entries


def _upgraded(
    entries: Sequence[JSONObject], managers: Sequence[str], target: str, subresource: str
) -> list[JSONObject]:
    """Return managedFields in which the entries of managers belong to the target's apply."""
    found = list(entries)
    for manager in managers:
        updates = list(_entries(found, manager, _UPDATE, subresource))
        if not updates:
            continue
        applied = next(_entries(found, target, _APPLY, subresource), None)
        merged = {**(updates[0] if applied is None else applied)}
        merged |= {"manager": target, "operation": _APPLY}
        same = (one for one in updates if one.get("apiVersion") == merged.get("apiVersion"))
        moved = next(same, None)  # of another version the paths cannot be compared
        if moved is not None:
            merged["fieldsV1"] = _union(merged.get("fieldsV1"), moved.get("fieldsV1"))
        place = found.index(updates[0] if applied is None else applied)
        found[place] = merged
        found = [one for one in found if one is merged or one not in updates]
    return found


def _entries(
    entries: Sequence[JSONObject], manager: str, operation: str, subresource: str
) -> Iterator[JSONObject]:
    wanted = (manager, operation, subresource)
    for one in entries:
        if (one.get("manager"), one.get("operation"), one.get("subresource") or "") == wanted:
            yield one


def _union(first: JSONValue, second: JSONValue) -> JSONObject:
    """Return the fields of two sets; an empty set has none."""
    one = first if isinstance(first, dict) else {}
    other = second if isinstance(second, dict) else {}
    result = dict(one)
    for name, below in other.items():
        result[name] = _united(result[name], below) if name in result else below
    return result


def _united(first: JSONValue, second: JSONValue) -> JSONObject:
    """Return what is below one field in two sets; if nothing is, the field itself is meant."""
    united = _union(first, second)
    return united if not united or (first and second) else {_MEMBER: {}, **united}
