"""An operator for `kopf run` that watches ConfigMaps.

PYINFORMER_LINE: "yes" if the line is there. SERVER: the server's address.
"""

import asyncio
import os
from typing import Any

import kopf

if os.environ["PYINFORMER_LINE"] == "yes":
    import pyinformer.kopf

    pyinformer.kopf.install()


@kopf.on.login()
async def login(**_: Any) -> kopf.ConnectionInfo:
    """Connect to the test's server."""
    return kopf.ConnectionInfo(server=os.environ["SERVER"])


@kopf.on.event("v1", "configmaps")
async def seen(event: kopf.RawEvent, name: str, logger: kopf.Logger, **_: Any) -> None:
    """Log each event, and do not return from those of some objects."""
    logger.info("gone %s" if event["type"] == "DELETED" else "seen %s", name)
    if name.startswith("busy"):
        await asyncio.Event().wait()


@kopf.daemon("v1", "configmaps", labels={"daemon": "yes"})
async def accompany(stopped: kopf.DaemonStopped, name: str, logger: kopf.Logger, **_: Any) -> None:
    """Run until the operator or the object ends."""
    logger.info("accompanied %s", name)
    if await stopped.wait():
        logger.info("left %s", name)
