"""A generator for each kind, by the name of its resource.

Nothing is rendered before it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.data.config_maps import ConfigMapGenerator
from benchmarks.data.kinds import Collection
from benchmarks.data.leases import LeaseGenerator
from benchmarks.data.pods import PodGenerator
from benchmarks.data.widgets import WidgetGenerator

_GENERATORS: Mapping[str, Callable[..., Collection]] = {
    "pods": PodGenerator,
    "configmaps": ConfigMapGenerator,
    "leases": LeaseGenerator,
    "widgets": WidgetGenerator,
}
RESOURCES = tuple(_GENERATORS)


def make_collection(resource: str, objects: int, *, seed: int = 0) -> Collection:
    """Lay out `objects` objects of a resource."""
    return _GENERATORS[resource](objects, seed=seed)
