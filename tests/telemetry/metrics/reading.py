"""Read a registry in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pyinformer.telemetry.metrics import HistogramValue

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.telemetry.metrics import MetricsRegistry


def series(
    registry: MetricsRegistry, name: str, *labels: str
) -> Mapping[tuple[str, ...], float | HistogramValue]:
    """Return the series of one metric, by the values of some of its labels, in their order."""
    found = (family for family in registry.collect() if family.spec.name == name)
    return {
        tuple(value for label, value in one.labels.items() if not labels or label in labels): (
            one.value
        )
        for family in found
        for one in family.series
    }


def totals(registry: MetricsRegistry, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the values of a counter or a gauge; of a histogram the number of its values."""
    return {key: _number(value) for key, value in series(registry, name, *labels).items()}


def histogram(registry: MetricsRegistry, name: str, *labels: str) -> HistogramValue:
    """Return the only series of a histogram."""
    (value,) = series(registry, name, *labels).values()
    return cast("HistogramValue", value)


def collected(registry: MetricsRegistry, *prefixes: str) -> dict[str, float]:
    """Return the values of all series by names and labels, as a scrape has them.

    Args:
        registry: what is collected.
        prefixes: how the names of the metrics begin; none for all.
    """
    found: dict[str, float] = {}
    for family in registry.collect():
        if not prefixes or family.spec.name.startswith(prefixes):
            for one in family.series:
                text = ",".join(f'{name}="{each}"' for name, each in one.labels.items())
                shown = f"{family.spec.name}{{{text}}}" if text else family.spec.name
                found[shown] = _number(one.value)
    return found


def _number(value: float | HistogramValue) -> float:
    """Return a value; of a histogram the number of its values."""
    return float(value.buckets[-1]) if isinstance(value, HistogramValue) else value
