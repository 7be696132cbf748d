"""The DatabaseUser operator with kopf: `kopf run --all-namespaces --peering=database-users`."""

import base64
import datetime as dt
import os
import random
import secrets
from typing import Any

import aiohttp
import kopf
from kubernetes_asyncio import client, config

USERS = ("acme.io", "v1", "databaseusers")
RETRY_SECONDS = 5.0


@kopf.on.startup()
async def configure(settings: kopf.OperatorSettings, memo: Any, **_: Any) -> None:
    settings.peering.priority = random.randint(0, 32767)
    # The schema of the definition drops unknown fields of the status.
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage()
    await config.load_kube_config()
    memo.core = client.CoreV1Api()


@kopf.on.cleanup()
async def close(memo: Any, **_: Any) -> None:
    await memo.core.api_client.close()


@kopf.on.resume(*USERS, backoff=RETRY_SECONDS)
@kopf.on.create(*USERS, backoff=RETRY_SECONDS)
@kopf.on.update(*USERS, field="spec", backoff=RETRY_SECONDS)
@kopf.timer(*USERS, interval=10.0, idle=10.0, backoff=RETRY_SECONDS)
async def ensure(
    name: str,
    namespace: str | None,
    spec: kopf.Spec,
    meta: kopf.Meta,
    status: kopf.Status,
    memo: Any,
    patch: kopf.Patch,
    **_: Any,
) -> None:
    user, database = f"{namespace}.{name}", spec["database"]
    password = await ensure_secret(memo.core, f"{name}-credentials", namespace, user, database)
    await send("PUT", user, {"password": password, "database": database})
    conditions = {one["type"]: one for one in status.get("conditions", [])}
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions["Ready"] = {
        "type": "Ready",
        "status": "True",
        "reason": "UserCreated",
        "message": "",
        "observedGeneration": meta["generation"],
        "lastTransitionTime": conditions.get("Ready", {}).get("lastTransitionTime", now),
    }
    patch.status["observedGeneration"] = meta["generation"]
    patch.status["conditions"] = list(conditions.values())


@kopf.on.delete(*USERS, backoff=RETRY_SECONDS)
async def drop(name: str, namespace: str | None, **_: Any) -> None:
    await send("DELETE", f"{namespace}.{name}")


async def ensure_secret(
    core: Any, name: str, namespace: str | None, user: str, database: str
) -> str:
    """Make the Secret right, and return its password: a new one if it has none."""
    known: dict[str, str] | None
    try:
        known = (await core.read_namespaced_secret(name, namespace)).data or {}
    except client.ApiException as error:
        if error.status != 404:
            raise
        known = None
    password = base64.b64decode((known or {}).get("password", "")).decode()
    password = password or secrets.token_urlsafe(24)
    fields = {"user": user, "password": password, "database": database}
    body = {"metadata": {"name": name}, "stringData": fields}
    kopf.adopt(body)
    if known is None:
        await core.create_namespaced_secret(namespace, body)
    else:
        await core.replace_namespaced_secret(name, namespace, body)
    return password


async def send(method: str, user: str, body: dict[str, str] | None = None) -> None:
    url = f"{os.environ['DATABASE_URL']}/users/{user}"
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.request(method, url, json=body, timeout=timeout) as response:
        response.raise_for_status()
