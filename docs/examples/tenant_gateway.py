"""A gateway to the clusters of tenants, which are paused, resumed and moved while it runs.

Each tenant is a Secret of the management cluster, in the namespace `tenants` and with the label
`example.com/tenant`, whose `kubeconfig` reaches the tenant's cluster. The gateway follows all of
them: a request reads a cache, says how old that is, and never waits for another tenant.

    pip install fastapi uvicorn
    uvicorn --app-dir docs/examples tenant_gateway:app

The management cluster is the one of your kubeconfig; PYINFORMER_EXAMPLE_SERVER names another one.
`/tenants` has the state of each cluster, `/tenants/{name}/configmaps` what is in it.
"""

import base64
import math
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response

import pyinformer
from pyinformer.errors import ClusterUnavailableError

LABEL = "example.com/tenant"
NAMESPACE = "tenants"

Maps = pyinformer.SharedInformer[None]


@asynccontextmanager
async def connect(tenants: Maps, name: str) -> AsyncIterator[pyinformer.Cluster]:
    """Connect with the kubeconfig of a tenant, which may name no command and no file of ours."""
    data = tenants.lister[name].at("data", dict[str, str])
    with tempfile.TemporaryDirectory() as directory:  # only this user can read it
        kubeconfig = Path(directory) / "kubeconfig"
        kubeconfig.write_bytes(base64.b64decode(data["kubeconfig"]))
        async with pyinformer.connect(
            kubeconfig, kubeconfig_policy="data-only", name=name
        ) as cluster:
            yield cluster


@asynccontextmanager
async def follow(cluster: pyinformer.Cluster) -> AsyncIterator[Maps]:
    """Follow what the gateway serves of one tenant."""
    async with pyinformer.SharedInformerFactory(cluster) as factory:
        maps = factory.informer("v1", "configmaps")
        await factory.start()
        yield maps


async def synced(maps: Maps, timeout_seconds: float) -> None:
    await maps.wait_for_cache_sync(timeout_seconds=timeout_seconds)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Follow the tenants as long as the application runs, in its own event loop."""
    server = os.environ.get("PYINFORMER_EXAMPLE_SERVER")
    async with (
        pyinformer.connect(server=server, name="management") as management,
        pyinformer.SharedInformerFactory(management) as factory,
    ):
        tenants = factory.informer(
            "v1", "secrets", namespaces=NAMESPACE, label_selector=LABEL, memory="raw"
        )
        await factory.start()
        async with (
            pyinformer.ClusterPool(follow, connect=partial(connect, tenants), ready=synced) as pool,
            pyinformer.Fleet(pool, None, tenants) as fleet,
        ):
            app.state.tenants, app.state.pool, app.state.fleet = tenants, pool, fleet
            yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(ClusterUnavailableError)
async def unavailable(_: Request, error: Exception) -> Response:
    """Say why, and when the cluster is tried again; the fleet needs no caller for that."""
    wait = getattr(error, "retry_after_seconds", None)
    headers = {} if wait is None else {"Retry-After": str(math.ceil(wait))}
    return Response(str(error), status_code=503, headers=headers)


@app.exception_handler(pyinformer.CacheNotSyncedError)
async def not_synced(_: Request, error: Exception) -> Response:
    return Response(str(error), status_code=503)  # the tenants themselves are not known yet


@app.get("/tenants")
def list_tenants(request: Request) -> list[dict[str, Any]]:
    return [asdict(one) for one in request.app.state.fleet.status().clusters]


@app.get("/tenants/{tenant}/configmaps")
async def list_config_maps(request: Request, tenant: str) -> dict[str, Any]:
    name = f"{NAMESPACE}/{tenant}"
    if name not in request.app.state.tenants.lister:
        raise HTTPException(404)
    maps: Maps = await request.app.state.pool.get(name, timeout_seconds=2.0)
    return {
        "age_seconds": maps.age_seconds(),  # of a paused tenant it grows
        "stale_because": maps.lister.staleness,
        "configmaps": sorted(one.key for one in maps.lister.list()),
    }
