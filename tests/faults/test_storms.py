"""What no real server can be made to show on demand, all of it at once, by seed.

A short watch history, cut bodies, refusals, tokens of pages that expire, restarts with and without
history: whatever happens, each life that a handler receives is valid, every version existed, and at
rest cache, mirror and server agree.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.testing import APIServer, Fault, Token
from tests.integration.following import follow
from tests.integration.history import Versions
from tests.integration.objects import CONFIG_MAPS, WIDGET
from tests.integration.servers import ADMIN, EmbeddedServer
from tests.integration.workload import SELECTED, Writer, together
from tests.soak import in_soak

if TYPE_CHECKING:
    from pyinformer.cache.informer import QueueKind

ROUNDS = in_soak(60, otherwise=4)
SETTLES = 0.4  # how often an informer may catch up before the next blow
FAULTS = (
    Fault(verb="watch", cut_after_bytes=(0, 20_000), times=4, probability=0.7),
    Fault(verb="watch", cut_after_bytes=(0, 5_000), cut="close", times=2, probability=0.5),
    Fault(verb="watch", cut_after_bytes=(0, 5_000), cut="end", times=2, probability=0.5),
    Fault(verb="list", cut_after_bytes=(0, 10_000), times=3, probability=0.5),
    Fault(verb="list", status=500, times=2, probability=0.3),
    Fault(verb="watch", status=429, retry_after_seconds=0, times=2, probability=0.3),
    Fault(verb="list", status=410, skip=2, times=2, probability=0.3),
)


@pytest.mark.soak
@pytest.mark.parametrize(("seed", "queue"), [(1, "direct"), (3, "real_fifo"), (5, "delta_fifo")])
async def test_handlers_receive_valid_histories_of_objects_under_faults(
    seed: int, queue: QueueKind
) -> None:
    rng = random.Random(seed)
    options = pyinformer.cache.ReflectorOptions(
        use_watch_list=bool(seed % 2), page_size=15, rng=random.Random(seed)
    )
    with APIServer(
        tls=True, tokens=[Token(value=ADMIN)], watch_cache_size=30, history_size=60, seed=seed
    ) as api:
        server = EmbeddedServer(api)
        server.serve_widgets()
        namespace, versions = server.namespace(), Versions()
        kinds = (CONFIG_MAPS, WIDGET)
        writers = [Writer(server, kind, namespace, versions, seed=seed) for kind in kinds]
        async with (
            server.connect() as cluster,
            pyinformer.SharedInformerFactory(cluster, options=options) as factory,
        ):
            followed = [
                follow(
                    factory,
                    kind.api_version,
                    kind.plural,
                    namespaces=namespace,
                    label_selector=selector,
                    queue=queue,
                    mailbox_size=100_000,
                )
                for kind in kinds
                for selector in (None, SELECTED)
            ]
            await factory.start()
            api.faults.add(*FAULTS)
            for _ in range(ROUNDS):
                steps = rng.randint(5, 30)
                await together(
                    partial(writer.churn, creates=steps, others=steps) for writer in writers
                )
                match rng.randrange(4):
                    case 0:
                        api.restart(keep_history=True)
                    case 1:
                        api.restart(keep_history=False)
                    case 2:
                        api.compact()
                    case _:
                        api.end_watches()
                if rng.random() < SETTLES:
                    await rng.choice(followed).settle(server, timeout_seconds=100)
            await asyncio.to_thread(api.faults.clear)
            for one in followed:
                await one.settle(server, versions=versions, timeout_seconds=100)
            assert api.faults.struck > 0
