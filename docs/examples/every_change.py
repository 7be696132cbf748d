"""Follow the pods of a cluster: cache them, index them by node, handle every change.

Run it against the cluster of your kubeconfig (KUBECONFIG, else ~/.kube/config), or inside a pod:

    python docs/examples/every_change.py

It prints until it is interrupted.
"""

import asyncio
import contextlib

import pyinformer


class PodSpec(pyinformer.View):
    node_name: str = ""  # spec.nodeName; empty until the pod is scheduled


class PodStatus(pyinformer.View):
    phase: str = ""


class PodView(pyinformer.View):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


def added(pod: pyinformer.KubeObject[PodView]) -> None:
    print(f"+ {pod.key} on {pod.view.spec.node_name or 'no node yet'}")


def updated(old: pyinformer.KubeObject[PodView], new: pyinformer.KubeObject[PodView]) -> None:
    before, now = old.view.status.phase, new.view.status.phase
    if before != now:
        print(f"~ {new.key} {before} -> {now}")


def deleted(pod: pyinformer.KubeObject[PodView]) -> None:
    print(f"- {pod.key}")


async def main() -> None:
    async with pyinformer.connect() as cluster:  # kubeconfig or in-cluster
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            pods = factory.informer("v1", "pods", model=PodView)
            pods.add_index("node", "spec.nodeName")
            pods.add_event_handler(on_add=added, on_update=updated, on_delete=deleted)
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=30)

            web = pods.lister.namespace("default").list(label_selector="app=web")
            on_node = pods.lister.by_index("node", "node-1")
            print(f"{len(web)} web pods in default, {len(on_node)} pods on node-1")

            async with pods.events() as events:
                async for event in events:
                    match event:
                        case pyinformer.Added(pod):
                            print(f"now cached: {pod.key} at {pod.metadata.resource_version}")
                        case pyinformer.Updated(old, new):
                            for change in pyinformer.diff(old, new):
                                print(f"changed in {new.key}: {change}")
                        case pyinformer.Deleted(last_known):
                            print(f"gone: {last_known.key}")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
