"""Follow the pods of a namespace from a script without an event loop.

    python docs/examples/synchronous_script.py                 # the cluster of your kubeconfig
    python docs/examples/synchronous_script.py http://127.0.0.1:8001   # `pyinformer serve`

It prints what is there, then what happens, until it is interrupted or nothing has happened for a
minute.
"""

import sys
import threading

import pyinformer
from pyinformer.blocking import timeout


class PodSpec(pyinformer.View):
    node_name: str = ""


class PodView(pyinformer.View):
    spec: PodSpec = PodSpec()


busy = threading.Lock()


def added(pod: pyinformer.KubeObject[PodView]) -> None:
    with busy:  # a handler runs in a thread of its own: it may block, and never blocks the cache
        print(f"handler: {pod.key} on {pod.view.spec.node_name or 'no node yet'}")


def main(server: str | None = None, *, quiet_seconds: float = 60.0) -> None:
    with pyinformer.run_in_thread() as runner, runner.connect(server=server) as cluster:
        with cluster.informer_factory() as factory:
            pods = factory.informer("v1", "pods", namespaces="default", model=PodView)
            pods.add_index("node", "spec.nodeName")
            factory.start()
            factory.wait_for_cache_sync(timeout_seconds=30)

            print(f"{len(pods.lister.list())} pods in default")
            print(f"{len(pods.lister.by_index('node', 'node-1'))} of them on node-1")
            pods.add_event_handler(on_add=added).wait_synced()

            with pods.events(initial=False) as events:
                while True:
                    try:
                        with timeout(quiet_seconds):
                            event = next(events)
                    except TimeoutError:
                        print("nothing happens any more")
                        return
                    match event:
                        case pyinformer.Added(pod):
                            print(f"+ {pod.key}")
                        case pyinformer.Updated(_, pod):
                            print(f"~ {pod.key}")
                        case pyinformer.Deleted(pod):
                            print(f"- {pod.key}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:2])
    except KeyboardInterrupt:
        print("interrupted")
