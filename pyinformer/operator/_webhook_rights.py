"""What the webhooks of an operator write in the cluster, and the rights for it. Nothing is sent."""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.admission import configuration_name
from pyinformer.admission.certificates import Target, bundle_accesses, secret_accesses

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyinformer.admission import HookSet, Webhooks
    from pyinformer.objects import Access


def secret_of(webhooks: Webhooks, operator: str, namespace: str) -> tuple[str, str]:
    """Return the namespace and the name of the Secret of a self-made certificate.

    Args:
        webhooks: how they are reached; their Service has the namespace.
        operator: its name.
        namespace: that of the Secret if there is no Service.
    """
    where = namespace if webhooks.service is None else webhooks.service.partition("/")[0]
    return where, f"{configuration_name(operator)}-webhooks"


def targets_of(hooks: HookSet, definitions: Iterable[str] = ()) -> list[Target]:
    """Return what needs the authorities: configurations, and definitions that convert."""
    found = [Target(kind, name) for kind, name in hooks.names().items()]
    return [*found, *(Target("CustomResourceDefinition", name) for name in definitions)]


def accesses_of(
    webhooks: Webhooks, operator: str, hooks: HookSet, definitions: Iterable[str], namespace: str
) -> Sequence[Access]:
    """Return the rights of an operator with webhooks.

    Args:
        webhooks: how they are reached.
        operator: its name.
        hooks: its hooks.
        definitions: the names of those whose objects it converts.
        namespace: that of the pod.
    """
    found = bundle_accesses(targets_of(hooks, definitions))
    if webhooks.folder is not None:
        return found
    return (*found, *secret_accesses(*secret_of(webhooks, operator, namespace)))
