"""A connection does not need the loop's own threads, which a program may keep busy."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pyinformer
from pyinformer.client.transport import ClusterConfig
from pyinformer.testing import APIServer
from tests.waiting import until


async def test_a_server_given_by_its_address_is_reached_while_all_threads_are_busy() -> None:
    """An address needs no lookup; only names do, in a thread."""
    busy, done = threading.Event(), threading.Event()
    threads = ThreadPoolExecutor(max_workers=1)
    asyncio.get_running_loop().set_default_executor(threads)

    def block() -> None:
        busy.set()
        done.wait()

    with APIServer(tls=True) as server:
        blocked = asyncio.create_task(asyncio.to_thread(block))
        await until(busy.is_set)
        config = ClusterConfig(server=server.url, ca_file=str(server.ca_file))
        try:
            async with (
                pyinformer.connect(config=config) as cluster,
                pyinformer.SharedInformerFactory(cluster) as factory,
            ):
                factory.informer("v1", "configmaps")
                await factory.start()
                await factory.wait_for_cache_sync(timeout_seconds=100)
        finally:
            done.set()
            await blocked
