"""Two operators of two clusters in one process, with one settings object; ends at SIGTERM.

SERVER, OTHER_SERVER: the servers' addresses.
"""

import asyncio
import logging
import os
import signal
from typing import Any

import kopf
import pyinformer.kopf

logging.basicConfig(level=logging.INFO)
pyinformer.kopf.install()


def registry_of(name: str, server: str) -> kopf.OperatorRegistry:
    """Return the handlers of one operator."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=server)

    @kopf.on.event("v1", "configmaps", registry=registry)
    async def seen(event: Any, meta: Any, logger: kopf.Logger, **_: Any) -> None:
        what = "gone" if event["type"] == "DELETED" else "seen"
        logger.info("%s %s %s", name, what, meta["name"])

    return registry


async def main() -> None:
    """Run both until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    settings = kopf.OperatorSettings()
    servers = {"first": os.environ["SERVER"], "second": os.environ["OTHER_SERVER"]}
    await asyncio.gather(
        *(
            kopf.operator(
                registry=registry_of(name, server),
                settings=settings,
                stop_flag=stop,
                standalone=True,
                clusterwide=True,
            )
            for name, server in servers.items()
        )
    )


if __name__ == "__main__":
    asyncio.run(main())
