"""Serve objects of a cluster with FastAPI's plain endpoints, by the blocking API.

    uvicorn --app-dir docs/examples fastapi_threads:app

Endpoints that are plain functions run in FastAPI's threads, where a blocking call does not delay
other requests. The same works in Flask, Django and other threaded frameworks; see
fastapi_lifespan.py for coroutines. PYINFORMER_EXAMPLE_SERVER names a cluster other than that of
your kubeconfig.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import FastAPI, HTTPException
from fastapi.concurrency import contextmanager_in_threadpool

import pyinformer
from pyinformer.blocking import BlockingCluster, BlockingInformer


class Followed:
    """What the endpoints share: made in the process that serves, never before a fork."""

    cluster: BlockingCluster
    pods: BlockingInformer[None]


followed = Followed()


@contextmanager
def following() -> Iterator[None]:
    server = os.environ.get("PYINFORMER_EXAMPLE_SERVER")
    with pyinformer.run_in_thread() as runner, runner.connect(server=server) as cluster:
        with cluster.informer_factory() as factory:
            followed.cluster = cluster
            followed.pods = factory.informer("v1", "pods")
            factory.start()
            factory.wait_for_cache_sync(timeout_seconds=30)
            yield


app = FastAPI(lifespan=lambda _: contextmanager_in_threadpool(following()))


@app.get("/pods")
def list_pods() -> list[str]:
    return sorted(pod.key for pod in followed.pods.lister.list())


@app.delete("/pods/{namespace}/{name}")
def delete_pod(namespace: str, name: str) -> dict[str, bool]:
    if followed.pods.lister.get(f"{namespace}/{name}") is None:
        raise HTTPException(404)
    left = followed.cluster.delete("v1", "pods", f"{namespace}/{name}")
    return {"deleted": left is None}
