"""One kopf operator at the replay server, in a process of its own; it prints its figures."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import tracemalloc

import kopf
import msgspec

from benchmarks.harness.phases import Measurement, Phases, Workload
from benchmarks.harness.processes import pin_to_cpu
from benchmarks.peers.reactions import DICTS, ForeignObject, Reactions, running

SCENES = ("events", "namespaces", "index", "memory")
SIDES = ("plain", "line", "keys")
_IDLE_SECONDS = 0.5  # after which the worker of an object ends


async def operate(scene: str, workload: Workload) -> Measurement:
    """Run an operator until it has seen the initial state, and all updates if there are any.

    Args:
        scene: "events" and "namespaces" react to each event; "index" keeps an index besides;
            "memory" weighs what is held when no event is being handled.
        workload: what the server holds; of "namespaces", `handlers` is their number.

    Returns:
        The figures.

    Cancellation:
        Ends the operator.
    """
    namespaces = [f"small-{number}" for number in range(workload.handlers)]
    workload = msgspec.structs.replace(workload, handlers=1)
    phases = Phases(scene, workload)
    reactions = Reactions(phases, DICTS)
    scope = {"namespaces": namespaces} if scene == "namespaces" else {"clusterwide": True}
    operator = kopf.operator(
        registry=_registry(workload, reactions, is_indexed=scene == "index"),
        settings=_settings(),
        standalone=True,
        **scope,
    )
    before = _traced() if scene == "memory" else 0
    phases.begin()
    async with running(operator):
        await reactions.wait_for_initial_state()
        phases.synced(workload.objects)
        if scene == "memory":
            phases.result.extra["held_bytes"] = await _held() - before
        await reactions.follow_updates()
    return phases.finished()


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.queueing.idle_timeout = _IDLE_SECONDS
    return settings


def _registry(
    workload: Workload, reactions: Reactions, *, is_indexed: bool
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    resource = (*workload.api_version.split("/"), workload.resource)

    async def login(**_: ForeignObject) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=workload.url)

    async def seen(event: ForeignObject, body: ForeignObject, **_: ForeignObject) -> None:
        if event["type"] == "MODIFIED":
            reactions.handlers[0](body)
        else:
            reactions.added(body)

    async def names(name: str, namespace: str | None, **_: ForeignObject) -> dict[str | None, str]:
        return {namespace: name}

    kopf.on.login(registry=registry)(login)
    kopf.on.event(*resource, registry=registry, id="seen")(seen)
    if is_indexed:
        kopf.index(*resource, registry=registry, id="names")(names)
    return registry


async def _held() -> int:
    """Return what is held when all workers have ended, which they do without notice."""
    tasks, before = len(asyncio.all_tasks()), -1
    while tasks != before:
        await asyncio.sleep(2 * _IDLE_SECONDS)
        tasks, before = len(asyncio.all_tasks()), tasks
    return _traced()


def _traced() -> int:
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def main() -> None:
    """Run one operator, and print its figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scene", choices=SCENES, required=True)
    parser.add_argument("--side", choices=SIDES, required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--cpu", type=int)
    given = parser.parse_args()
    pin_to_cpu(given.cpu)
    logging.disable(logging.CRITICAL)
    if given.side != "plain":
        import pyinformer.kopf

        pyinformer.kopf.install(bodies=False if given.side == "keys" else None)
    workload = msgspec.json.decode(given.workload, type=Workload)
    found = asyncio.run(operate(given.scene, workload))
    print(msgspec.json.encode(found).decode(), flush=True)


if __name__ == "__main__":
    main()
