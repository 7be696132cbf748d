"""The official Python client's informer, following the config maps of a namespace.

The arguments are a kubeconfig and a namespace; each line of input prints the cache. It prints lines
of JSON, as the client-go informer beside it does. It runs in the client's own environment, so it
cannot import the tests.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

from kubernetes import client, config
from kubernetes.informer import ADDED, DELETED, MODIFIED, SharedInformer

_printing = threading.Lock()


def say(line: dict[str, Any]) -> None:
    """Print one line; handlers and the main thread do."""
    with _printing:
        print(json.dumps(line), flush=True)  # noqa: T201 - its output


def telling(kind: str) -> Any:
    """Return a handler that prints one kind of event."""

    def tell(obj: Any) -> None:
        metadata = obj.metadata
        say({"event": kind, "name": metadata.name, "version": metadata.resource_version})

    return tell


def main(kubeconfig: str, namespace: str) -> None:
    """Follow until the input ends."""
    config.load_kube_config(kubeconfig)
    listed = client.CoreV1Api().list_namespaced_config_map
    informer = SharedInformer(list_func=listed, namespace=namespace)
    for kind in (ADDED, MODIFIED, DELETED):
        informer.add_event_handler(kind, telling(kind))
    informer.start()  # never stopped: its thread is a daemon, and stop() may never return
    for _ in sys.stdin:
        cached = informer.cache.list()
        say({"cache": {one.metadata.name: one.metadata.resource_version for one in cached}})


if __name__ == "__main__":
    main(*sys.argv[1:])
