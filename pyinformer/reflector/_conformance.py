"""Whose resource versions are certain to be ordered: those of the server's own API groups."""

from __future__ import annotations

from typing import Final

_WITHOUT_DOMAIN: Final = frozenset({"", "apps", "autoscaling", "batch", "extensions", "policy"})
_AGGREGATED: Final = frozenset(
    {"metrics.k8s.io", "custom.metrics.k8s.io", "external.metrics.k8s.io"}
)


def is_built_in(group: str) -> bool:
    """Return whether a group is one of kube-apiserver itself, whose order is a promise.

    Source:
        KEP-5504: versions of built-in and custom resources compare; aggregated APIs may differ.
    """
    return group in _WITHOUT_DOMAIN or (group.endswith(".k8s.io") and group not in _AGGREGATED)
