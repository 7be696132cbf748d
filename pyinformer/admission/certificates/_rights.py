"""The rights that the certificates of webhooks need."""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import TYPE_CHECKING

from pyinformer.objects import Access

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyinformer.admission.certificates._client_configs import Target


def secret_accesses(namespace: str, secret_name: str) -> tuple[Access, ...]:
    """Return the rights to the Secret of a self-made certificate.

    A right to create cannot be limited to a name; everything else is limited to this Secret.

    Args:
        namespace: of the Secret.
        secret_name: its name.
    """
    where = frozenset({namespace})
    return (
        Access("", "secrets", ("create",), where),
        Access("", "secrets", ("get", "list", "update", "watch"), where, secret_name),
    )


def bundle_accesses(targets: Iterable[Target]) -> tuple[Access, ...]:
    """Return the rights to follow these objects, and to write the authorities into them."""
    verbs = ("get", "list", "patch", "watch")
    return tuple(
        Access(one.resource.group, one.resource.resource, verbs, None, one.name) for one in targets
    )
