"""kopf, embedded: an operator for one resource in all namespaces, without peering.

Cache: for `run_index`, kopf's index "namespace" -> the bodies of its objects; for `run_event`,
nothing but the calls of its handlers.
Does: scan the API, list (whole, not paged; a watch-list if the workload asks for one), watch, one
queue and one worker task per object, list again after a 410, notice a silent stream after 70 s.
Does not: say what was deleted before it listed again, compare versions, keep objects but by an
index. With an index, its start wakes every waiting object for each that was indexed.
Handlers are asynchronous, as its documentation advises; a synchronous one would run on a
thread. A body is a read-only view of a plain dict, which its nested parts share.
The operator only reacts to events: it writes nothing to objects and posts no events.
"""

from __future__ import annotations

import kopf

from benchmarks.harness.phases import Phases, Workload
from benchmarks.peers.reactions import DICTS, ForeignObject, Handler, Reactions, running

_MOST_OBJECTS = 5_000  # minutes: every object waits for all others, and is woken by each


async def run_event(phases: Phases) -> None:
    """React with @kopf.on.event, without a cache.

    Cancellation:
        Ends the operator.
    """
    await _operate(phases, registry_of(phases.workload))


async def run_index(phases: Phases) -> None:
    """Keep whole objects with @kopf.index, and react with @kopf.on.event.

    Cancellation:
        Ends the operator.
    """
    if phases.workload.objects > _MOST_OBJECTS:
        reason = "its start with an index takes time with the square of the number of objects"
        raise NotImplementedError(f"takes no part above {_MOST_OBJECTS} objects: {reason}")
    registry = registry_of(phases.workload)

    async def by_namespace(
        namespace: str, body: ForeignObject, **_: ForeignObject
    ) -> ForeignObject:
        return {namespace: body}

    index = kopf.index(*_selector(phases.workload), registry=registry)
    index(by_namespace)  # type: ignore[arg-type]  # it takes only some of the keyword arguments
    await _operate(phases, registry)


async def _operate(phases: Phases, registry: kopf.OperatorRegistry) -> None:
    workload = phases.workload
    reactions = Reactions(phases, DICTS)
    _add_event_handlers(registry, reactions, workload)
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True  # no watch for new kinds of resources during the measurement
    settings.watching.initial_streaming = workload.load == "watch-list"
    phases.begin()
    operator = kopf.operator(
        registry=registry, settings=settings, standalone=True, clusterwide=True
    )
    async with running(operator):
        await reactions.wait_for_initial_state()
        phases.synced(workload.objects)
        await reactions.follow_updates()


def registry_of(workload: Workload) -> kopf.OperatorRegistry:
    """Return a registry with the login to the server of a workload."""
    registry = kopf.OperatorRegistry()

    async def login(**_: ForeignObject) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(
            server=workload.url, ca_path=workload.ca_file or None, token=workload.token or None
        )

    kopf.on.login(registry=registry)(login)
    return registry


def _add_event_handlers(
    registry: kopf.OperatorRegistry, reactions: Reactions, workload: Workload
) -> None:
    async def first(event: ForeignObject, body: ForeignObject, **_: ForeignObject) -> None:
        if event["type"] == "MODIFIED":
            reactions.handlers[0](body)
        else:
            reactions.added(body)

    def further(handler: Handler) -> ForeignObject:
        async def react(event: ForeignObject, body: ForeignObject, **_: ForeignObject) -> None:
            if event["type"] == "MODIFIED":
                handler(body)

        return react

    kopf.on.event(*_selector(workload), registry=registry, id="first")(first)
    for number, handler in enumerate(reactions.handlers[1:]):
        kopf.on.event(*_selector(workload), registry=registry, id=f"further-{number}")(
            further(handler)
        )


def _selector(workload: Workload) -> tuple[str, ...]:
    return (*workload.api_version.split("/"), workload.resource)
