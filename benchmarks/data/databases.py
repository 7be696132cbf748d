"""Databases, a custom resource of about 6 KB with nested fields and lists, and reviews of them."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmarks.data.kinds import timestamp

PLURAL, KIND = "databases", "Database"
NAMESPACE, NAME = "default", "orders"
USERS = 25  # an object of 6 KB
_CREATED = timestamp(0)


def database(api_version: str, *, users: int = USERS) -> dict[str, Any]:
    """Return a database as a client writes it; it grows by 200 bytes with each user."""
    return {
        "apiVersion": api_version,
        "kind": KIND,
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": NAME, "tier": "backend"},
            "annotations": {"example.com/owner": "team-orders@example.com"},
        },
        "spec": {
            "engine": "postgres",
            "image": "",
            "replicas": 3,
            "storage": {
                "tier": "fast",
                "gigabytes": 200,
                "parameters": {"iops": "4000", "encrypted": "true", "fs": "xfs"},
            },
            "users": [_user(number) for number in range(users)],
        },
    }


def _user(number: int) -> dict[str, Any]:
    return {
        "name": f"service-{number:05d}",
        "maxConnections": 10 + number % 90,
        "roles": ["reader", "writer", f"owner-of-schema-{number:05d}"],
        "settings": {
            "search_path": f"schema_{number:05d},public",
            "statement_timeout": f"{number % 60}s",
            "application_name": f"service-{number:05d}",
        },
    }


def review(
    api_version: str, operation: str, written: dict[str, Any], old: dict[str, Any] | None = None
) -> bytes:
    """Render what the API server asks a webhook: the object, and the one before an update."""
    group, version = api_version.split("/")
    place = {"group": group, "version": version}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {**place, "kind": KIND},
        "resource": {**place, "resource": PLURAL},
        "name": NAME,
        "namespace": NAMESPACE,
        "operation": operation,
        "userInfo": {"username": "admin", "uid": "1", "groups": ["system:authenticated"]},
        "object": stored(written),
        "oldObject": None if old is None else stored(old),
        "dryRun": False,
        "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    body = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return msgspec.json.encode(body)


def stored(written: dict[str, Any]) -> dict[str, Any]:
    """Return a database with what the API server adds to its metadata."""
    fields: dict[str, object] = {f"f:{name}": {} for name in written["spec"]}
    managed = {
        "manager": "kubectl",
        "operation": "Update",
        "apiVersion": written["apiVersion"],
        "time": _CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {}}, "f:spec": fields},
    }
    added = {
        "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
        "resourceVersion": "4711",
        "generation": 1,
        "creationTimestamp": _CREATED,
        "managedFields": [managed],
    }
    return {**written, "metadata": {**written["metadata"], **added}}
