"""Which resources are in namespaces, learned before their caches are built.

A resource that is in none has one cache, whatever namespaces an operator works in, so the caches
cannot be built before it is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import loop_time
from pyinformer.client.cluster import Cluster
from pyinformer.errors import (
    APIStatusError,
    CacheSyncTimeoutError,
    InformerError,
    ProtocolError,
    RequestTimeoutError,
    TransportError,
)
from pyinformer.objects import GroupVersionResource
from pyinformer.operator._reconciler import Reconciler, is_cluster_scoped

_log = get_logger(__name__)

FAILURES_OF_DISCOVERY: Final = (APIStatusError, ProtocolError, TransportError)
"""With these a start continues: informers need no discovery."""

_DISCOVERY_SECONDS: Final = 10.0
"""How long a start waits for discovery: several times what a busy server takes. A group that is
silent for longer must delay no other, and its own informers show what they lack."""

_FIRST_WAIT_SECONDS: Final = 0.5
_LONGEST_WAIT_SECONDS: Final = 5.0


async def discover(
    cluster: Cluster, resources: Iterable[GroupVersionResource]
) -> dict[GroupVersionResource, InformerError]:
    """Load resources into a cluster's discovery, side by side; those of a version share a request.

    Args:
        cluster: where the resources are.
        resources: those to be loaded.

    Returns:
        Why a resource was not loaded, in the order of the resources.

    Cancellation:
        Safe.
    """
    pending = dict.fromkeys(resources)
    failures: dict[GroupVersionResource, InformerError] = {}

    async def ask(resource: GroupVersionResource) -> None:
        """Record what failed."""
        try:
            await cluster.discovery.resource(resource)
        except InformerError as error:
            failures[resource] = error
        del pending[resource]

    asked = tuple(pending)
    with anyio.move_on_after(_DISCOVERY_SECONDS):
        async with anyio.create_task_group() as group:
            for resource in asked:
                group.start_soon(ask, resource)
    for resource in pending:
        failures[resource] = RequestTimeoutError(
            resource.path,
            f"no answer within {_DISCOVERY_SECONDS:g} s",
            waited_seconds=_DISCOVERY_SECONDS,
        )
    return {one: failures[one] for one in asked if one in failures}


async def learn_scopes(
    cluster: Cluster,
    resources: Iterable[GroupVersionResource],
    *,
    namespaces: frozenset[str] | None,
    reconcilers: Iterable[Reconciler],
    timeout_seconds: float,
    unknown: dict[GroupVersionResource, str],
) -> None:
    """Wait until each resource is known to be in namespaces, or in none.

    Discovery names it, or a list in one of the namespaces is answered. Until then any error is
    taken for a passing one, as by caches: a definition may still be installed, and of two servers
    behind a balancer one may not know it yet.

    Args:
        cluster: where the resources are.
        resources: those whose caches are to be built.
        namespaces: those that the operator works in; None for all: then there is nothing to learn.
        reconcilers: have the models, which may declare it.
        timeout_seconds: how long to wait.
        unknown: filled with the resources that are not known yet, each with the reason.

    Raises:
        CacheSyncTimeoutError: some are still unknown then.

    Cancellation:
        Safe.
    """
    functions = tuple(reconcilers)
    known = cluster.discovery.known
    missing = [
        one for one in resources if known(one) is None and not is_cluster_scoped(one, functions)
    ]
    if not namespaces or not missing:
        return
    unknown.update(dict.fromkeys(missing, ""))
    namespace = min(namespaces)
    began = loop_time()
    with anyio.move_on_after(timeout_seconds):
        wait_seconds = 0.0
        while unknown:
            await anyio.sleep(wait_seconds)
            failures = await discover(cluster, unknown)
            async with anyio.create_task_group() as group:
                for resource in tuple(unknown):
                    if (error := failures.get(resource)) is None:
                        del unknown[resource]
                    else:
                        group.start_soon(_learn, cluster, resource, namespace, unknown, str(error))
            wait_seconds = min(max(2 * wait_seconds, _FIRST_WAIT_SECONDS), _LONGEST_WAIT_SECONDS)
    if unknown:
        raise CacheSyncTimeoutError(
            waited_seconds=loop_time() - began, pending=shown_unknown(unknown)
        )


async def _learn(
    cluster: Cluster,
    resource: GroupVersionResource,
    namespace: str,
    unknown: dict[GroupVersionResource, str],
    reason: str,
) -> None:
    """Take a resource off the unknown ones if it can be listed in a namespace.

    Otherwise record why discovery does not know it.
    """
    objects = cluster.list(
        resource.api_version, resource.resource, namespace=namespace, page_size=1
    )
    try:
        await objects.next_page()
    except InformerError:  # discovery has said why
        if reason != unknown[resource]:
            unknown[resource] = reason
            _log.warning("it is not known whether %s is in namespaces: %s", resource, reason)
    else:
        del unknown[resource]


def shown_unknown(unknown: dict[GroupVersionResource, str]) -> list[str]:
    """Return a line for each resource of which it is not known whether it is in namespaces."""
    return [
        f"{resource}: it is not known whether it is in namespaces: {reason or 'asking'}"
        for resource, reason in unknown.items()
    ]
