"""What a program claims of its caches, so that the checker judges it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyinformer.cache.reflector import ReflectorState
from pyinformer.operator import Health, HealthOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyinformer import SharedInformer

STALE_SECONDS: Final = 10.0  # faults last up to 20 s: readiness ends in many of them


def ready_claims(informer: SharedInformer[Any]) -> Mapping[str, Callable[[], float | None]]:
    """Return what readiness promises of a cache: that it is at most `STALE_SECONDS` old."""
    options = HealthOptions(stale_seconds=STALE_SECONDS)
    health = Health(informer, options=options)

    def promised() -> float | None:
        # A program is ready while a resource is not served, however old its cache is.
        is_served = informer.state is not ReflectorState.ABSENT
        return STALE_SECONDS if health.ready().is_ok and is_served else None

    return {"ready": promised}
