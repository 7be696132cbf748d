"""Whether the cluster and the database agree, and what is wrong if they do not."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from benchmarks.database_user.database import Database, User
from benchmarks.database_user.own_operator import app
from pyinformer import NotFoundError
from pyinformer.testing import KubeAPIServer

NAMESPACE: Final = "apps"
API_VERSION, PLURAL, KIND = "acme.io/v1", "databaseusers", "DatabaseUser"
(_DEFINITION,) = app.custom_resource_definitions()
SCHEMA: Final = _DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]

Body = dict[str, Any]
Problems = dict[str, list[str]]
"""Names by what is wrong with them; empty if all is right."""


def problems(
    objects: Sequence[Body], secrets: Sequence[Body], users: Mapping[str, User]
) -> Problems:
    """Return what is wrong.

    Args:
        objects: the DatabaseUsers.
        secrets: the Secrets of their namespace, without those of deleted owners.
        users: what the database has.
    """
    found: Problems = {}
    by_name = {one["metadata"]["name"]: one for one in secrets}
    expected = {_user_of(one): one for one in objects}
    for user, obj in expected.items():
        secret = by_name.pop(f"{obj['metadata']['name']}-credentials", None)
        for problem in _of_object(obj, secret, user, users.get(user)):
            found.setdefault(problem, []).append(user)
    for user in sorted(users.keys() - expected.keys()):
        found.setdefault("user without an object", []).append(user)
    for name in sorted(by_name):
        found.setdefault("Secret without an object", []).append(name)
    return found


def _user_of(obj: Body) -> str:
    return f"{obj['metadata']['namespace']}.{obj['metadata']['name']}"


def _of_object(obj: Body, secret: Body | None, name: str, user: User | None) -> Iterator[str]:
    meta, wanted = obj["metadata"], obj["spec"]["database"]
    if meta.get("deletionTimestamp"):
        yield "object is not released"
        return
    if user is None:
        yield "user is missing"
    elif user.database != wanted:
        yield "user has another database"
    if secret is None:
        yield "Secret is missing"
    else:
        fields = _fields(secret)
        if (fields.get("user"), fields.get("database")) != (name, wanted):
            yield "Secret has other fields"
        if not fields.get("password") or (user and fields["password"] != user.password):
            yield "passwords differ"
        if meta["uid"] not in _owners(secret):
            yield "Secret has another owner"
    if not _is_ready(obj):
        yield "object is not Ready"


def _fields(secret: Body) -> dict[str, str]:
    data = secret.get("data") or {}
    return {name: base64.b64decode(value).decode() for name, value in data.items()}


def _owners(secret: Body) -> list[str]:
    return [one["uid"] for one in secret["metadata"].get("ownerReferences", [])]


def _is_ready(obj: Body) -> bool:
    status = obj.get("status", {})
    ready = [one["status"] for one in status.get("conditions", []) if one["type"] == "Ready"]
    return ready == ["True"] and status.get("observedGeneration") == obj["metadata"]["generation"]


def find_problems(api: KubeAPIServer, database: Database) -> Problems:
    """Return what is wrong now, after the Secrets of deleted owners were deleted.

    A kube-apiserver alone has no garbage collector, which does that in a cluster.
    """
    objects = api.list(API_VERSION, PLURAL, NAMESPACE)
    known = {one["metadata"]["uid"] for one in objects}
    secrets = []
    for secret in api.list("v1", "secrets", NAMESPACE):
        meta, owners = secret["metadata"], _owners(secret)
        if not owners or known.intersection(owners):
            secrets.append(secret)
            continue
        # An owner that is newer than the first list must not lose its Secret.
        now = {one["metadata"]["uid"] for one in api.list(API_VERSION, PLURAL, NAMESPACE)}
        if not now.intersection(owners):
            with contextlib.suppress(NotFoundError):
                api.delete("v1", "secrets", meta["name"], NAMESPACE, uid=meta["uid"])
    return problems(objects, secrets, database.users())
