"""How many web pods there are, then each change of a pod, until it is interrupted."""

import asyncio

import pyinformer


async def main() -> None:
    async with pyinformer.connect() as cluster:  # kubeconfig, or the service account of the pod
        async with pyinformer.SharedInformerFactory(cluster) as factory:
            pods = factory.informer("v1", "pods")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=30)
            print(len(pods.lister.list(label_selector="app=web")), "web pods")  # from memory
            async with pods.events() as events:
                async for event in events:  # the pods that exist, then each change
                    print(type(event).__name__, event.key)


if __name__ == "__main__":
    asyncio.run(main())
