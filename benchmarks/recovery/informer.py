"""The Python peer: prints each change of a cache of ConfigMaps as a line, until it is killed.

It runs with the pyinformer that comes first on its path, so that an earlier one can take part. It
imports names from where an earlier one has them, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys

import pyinformer
from pyinformer.client.transport import ClusterConfig, TokenFileCredentials


async def main(server: dict[str, str], namespace: str, *audits_seconds: str) -> None:
    """Follow the ConfigMaps of a namespace, with audits if a period is given."""

    def show(event: pyinformer.Event) -> None:
        """Print a name and its resource version, or a name and that it is gone."""
        name = event.key.rpartition("/")[2]
        match event:
            case pyinformer.Added(obj) | pyinformer.Updated(_, obj):
                version = obj.metadata.resource_version
            case _:
                version = "-"
        print(name, version, flush=True)

    config = ClusterConfig(
        server=server["url"],
        ca_file=server["ca_file"],
        credentials=TokenFileCredentials(server["token_file"]),
    )
    async with (
        pyinformer.connect(config=config) as cluster,
        pyinformer.SharedInformer(cluster, "v1", "configmaps", namespaces=namespace) as informer,
    ):
        informer.add_event_handler(show)
        while audits_seconds:
            await asyncio.sleep(float(audits_seconds[0]))
            with contextlib.suppress(pyinformer.InformerError):
                await informer.audit()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1]), *sys.argv[2:]))
