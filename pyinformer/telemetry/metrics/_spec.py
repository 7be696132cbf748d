"""What a metric is: its name, type, help, label names and buckets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Final, Literal, TypeAlias, final

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_iterable, check_number

MetricType: TypeAlias = Literal["counter", "gauge", "histogram"]

DURATION_BUCKETS: Final = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""The default buckets of Prometheus' client libraries, in seconds."""

_SUFFIXES: Final[dict[MetricType, tuple[str, ...]]] = {
    "counter": ("", "_total", "_created"),
    "gauge": ("",),
    "histogram": ("", "_bucket", "_count", "_sum", "_created"),
}

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


@final
@dataclass(frozen=True, slots=True)
class MetricSpec:
    """The definition of one metric.

    Raises:
        InvalidArgumentError: the name, a label or the buckets cannot be those of a metric.
    """

    name: str
    """The name, with its unit, such as `_seconds` or `_bytes`. It ends in `_total` if and only if
    the metric is a counter."""
    type: MetricType
    """What values it has."""
    help: str
    """One sentence for readers of a scrape."""
    labels: tuple[str, ...] = ()
    """The names of its labels, in the order in which they are written."""
    buckets: tuple[float, ...] = DURATION_BUCKETS
    """The upper bounds of a histogram's buckets, ascending, without infinity."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise InvalidArgumentError(
                "name", f"must be letters, digits and underscores, got {self.name!r}"
            )
        if self.name.endswith("_total") != (self.type == "counter"):
            reason = f"must end in _total if and only if it is a counter, got {self.name!r}"
            raise InvalidArgumentError("name", f"{reason} for a {self.type}")
        check_iterable("labels", self.labels, shown="the names of labels")
        check_iterable("buckets", self.buckets, shown="numbers")
        for label in self.labels:
            if (
                not isinstance(label, str)
                or not _NAME.fullmatch(label)
                or label.startswith("__")
                or label == "le"
            ):
                raise InvalidArgumentError("labels", f"cannot be the name of a label: {label!r}")
        for bound in self.buckets:
            check_number("buckets", bound)
        ascends = all(low < high for low, high in pairwise(self.buckets))
        if not ascends or not all(map(isfinite, self.buckets)):
            raise InvalidArgumentError("buckets", "must ascend and be finite")


def scraped_names(spec: MetricSpec) -> tuple[str, ...]:
    """Return the names that a scrape may show for a metric: of its family, and of its samples.

    Source:
        OpenMetrics 1.0, MetricFamily: its name is unique, and clashes with no sample's.
    """
    family = spec.name.removesuffix("_total")
    return tuple(f"{family}{suffix}" for suffix in _SUFFIXES[spec.type])
