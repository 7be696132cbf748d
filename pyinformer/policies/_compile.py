"""Having a server compile policies, before they are deployed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyinformer.client.cluster import Cluster
from pyinformer.objects import JSONObject, check_type
from pyinformer.policies._yaml import checked_policies

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyinformer.policies._policy import MutatingPolicy, Policy

_MANAGER: Final = "pyinformer-policies"


async def compile_policies(
    cluster: Cluster, policies: Iterable[Policy | MutatingPolicy]
) -> tuple[JSONObject, ...]:
    """Have a server check policies and compile their expressions; nothing is stored.

    For tests: it takes a real API server, such as `pyinformer.testing.KubeAPIServer`, and the right
    to create and patch policies.

    Args:
        cluster: of the server.
        policies: the policies.

    Returns:
        The policies and bindings as the server would store them.

    Raises:
        APIStatusError: the server refuses one. Its text has the expression, the line and the
            column of a mistake; a note names the policy.
        InvalidArgumentError: two of one kind have the same name.
        InvalidTypeError: one of them is not a policy.
        TransportError: the server cannot be reached.

    Cancellation:
        Safe.
    """
    check_type("cluster", cluster, Cluster)
    stored: list[JSONObject] = []
    for one in checked_policies(policies):
        for document in one.to_dicts():
            try:
                found = await cluster.apply(
                    document, field_manager=_MANAGER, force=True, dry_run=True
                )
            except BaseException as error:
                error.add_note(f"policy {one.name}")
                raise
            stored.append(found.to_dict())
    return tuple(stored)
