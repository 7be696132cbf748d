"""Thousands of objects of built-in and custom kinds, followed while four writers change them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

import pyinformer
from tests.integration.following import follow
from tests.integration.history import Versions
from tests.integration.objects import CONFIG_MAPS, PODS, SECRETS, WIDGET
from tests.integration.workload import SELECTED, Writer, together
from tests.soak import in_soak

if TYPE_CHECKING:
    from tests.integration.servers import Server

OBJECTS = in_soak(5_000, otherwise=2_000)
KINDS = (CONFIG_MAPS, PODS, SECRETS, WIDGET)


@pytest.mark.soak
@pytest.mark.slow
async def test_caches_and_mirrors_equal_the_server_after_a_storm(server: Server) -> None:
    """Half of the objects are there at the start, the rest comes amid other changes."""
    server.serve_widgets()
    namespace = server.namespace()
    versions = Versions()
    writers = [Writer(server, kind, namespace, versions) for kind in KINDS]
    half = OBJECTS // len(KINDS) // 2
    await together(partial(writer.fill, half) for writer in writers)

    async with server.connect() as cluster, pyinformer.SharedInformerFactory(cluster) as factory:
        followed = [
            # No merging: this handler is to receive every version.
            follow(
                factory,
                kind.api_version,
                kind.plural,
                namespaces=namespace,
                label_selector=selector,
                mailbox_size=100_000,
            )
            for kind in KINDS
            for selector in (None, SELECTED)
        ]
        await factory.start()
        await together(partial(writer.churn, creates=half, others=half) for writer in writers)
        await factory.wait_for_cache_sync(timeout_seconds=100)

        for one in followed:
            truth = await one.settle(server, versions=versions)
            assert len(truth) > OBJECTS // len(KINDS) // 4
        assert len(versions) > OBJECTS
        assert all(one.loads == 1 for one in followed), factory.status()
