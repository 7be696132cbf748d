"""Serve what is in a cluster with FastAPI, from a cache that its lifespan keeps up to date.

    pip install fastapi uvicorn
    uvicorn --app-dir docs/examples fastapi_lifespan:app

The cluster is the one of your kubeconfig; PYINFORMER_EXAMPLE_SERVER names another one. `/pods` and
`/pods/{namespace}/{name}` read the cache, POST `/pods/{namespace}/{name}/labels` writes to the
cluster, and `/readyz` is for a probe.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request, Response

import pyinformer

Pods = pyinformer.SharedInformer[None]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Connect once, and follow as long as the application runs, in its own event loop."""
    server = os.environ.get("PYINFORMER_EXAMPLE_SERVER")
    async with pyinformer.connect(server=server) as cluster:
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            app.state.pods = factory.informer("v1", "pods")
            await factory.start()  # the application serves at once; /readyz says when it can answer
            app.state.health = pyinformer.operator.Health(factory)
            yield


app = FastAPI(lifespan=lifespan)


def pods_of(request: Request) -> Pods:
    informer: Pods = request.app.state.pods
    return informer


FollowedPods = Annotated[Pods, Depends(pods_of)]


@app.exception_handler(pyinformer.CacheNotSyncedError)
async def not_synced(_: Request, error: Exception) -> Response:
    return Response(str(error), status_code=503)  # never an empty list before the first sync


@app.get("/readyz")
async def readyz(request: Request, response: Response) -> list[str]:
    verdict = request.app.state.health.ready()
    response.status_code = 200 if verdict.is_ok else 503
    return list(verdict.reasons)


@app.get("/pods")
def list_pods(pods: FollowedPods, label_selector: str | None = None) -> list[str]:
    """Run in a thread of FastAPI, as every plain function does; any thread may read a lister."""
    return sorted(pod.key for pod in pods.lister.list(label_selector=label_selector))


@app.get("/pods/{namespace}/{name}")
async def get_pod(pods: FollowedPods, namespace: str, name: str) -> pyinformer.JSONObject:
    pod = pods.lister.get(f"{namespace}/{name}")
    if pod is None:
        raise HTTPException(404)
    return pyinformer.redacted(pod.to_dict())


@app.post("/pods/{namespace}/{name}/labels")
async def label_pod(
    pods: FollowedPods, namespace: str, name: str, labels: dict[str, str]
) -> dict[str, str]:
    pod = pods.lister.get(f"{namespace}/{name}")
    if pod is None:
        raise HTTPException(404)
    edited = pod.to_dict()
    edited["metadata"]["labels"] = labels
    written = await pods.cluster.patch(pod, edited)  # the next read shows it
    return dict(written.metadata.labels)
