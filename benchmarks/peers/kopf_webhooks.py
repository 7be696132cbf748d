"""kopf's operator with hooks, served by its WebhookServer, with the certificate of all peers.

Its own certificate needs packages that do not run with the current OpenSSL. Its hooks get dicts.
The server is aiohttp's with its limit of 1 MiB for a body.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import kopf

from benchmarks.data.databases import PLURAL
from benchmarks.harness.operators import READY, OperatorOptions, operator_options
from benchmarks.peers.kopf_operator import registry_of
from benchmarks.peers.reactions import ForeignObject, running


def _fill(body: ForeignObject, patch: ForeignObject, **_: ForeignObject) -> None:
    spec = body["spec"]
    if not spec["image"]:
        patch.spec["image"] = f"{spec['engine']}:17"


def _check(body: ForeignObject, **further: ForeignObject) -> None:
    old = further["old"]
    if old and old["spec"]["engine"] != body["spec"]["engine"]:
        raise kopf.AdmissionError("spec.engine cannot be changed", code=422)


async def _operate(options: OperatorOptions) -> None:
    registry = registry_of(options.workload)
    reconciled, listening = asyncio.Event(), asyncio.Event()
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # as for kopf's other peers
    place = (*options.workload.api_version.split("/"), PLURAL)

    async def seen(**_: ForeignObject) -> None:
        reconciled.set()

    kopf.on.event(*place, registry=registry)(seen)
    if options.port:
        server = kopf.WebhookServer(
            addr="127.0.0.1",
            host="127.0.0.1",
            port=options.port,
            certfile=f"{options.certificates}/tls.crt",
            pkeyfile=f"{options.certificates}/tls.key",
        )

        async def serve(review: ForeignObject) -> AsyncIterator[ForeignObject]:
            async for config in server(review):
                listening.set()
                yield config

        settings.admission.server = serve
        kopf.on.mutate(*place, registry=registry, id="default/databases")(_fill)
        kopf.on.validate(*place, registry=registry, id="validate/databases")(_check)
    else:
        listening.set()
    operator = kopf.operator(
        registry=registry, settings=settings, standalone=True, clusterwide=True
    )
    async with running(operator):
        await reconciled.wait()
        await listening.wait()
        print(READY, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_operate(operator_options()))
