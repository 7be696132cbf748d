"""Bounds of writes that cannot work are refused where they are written down."""

from __future__ import annotations

import math

import pytest

from pyinformer.apimachinery import InvalidArgumentError
from pyinformer.cluster import WriteOptions


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"writes_per_second": 0.0}, id="no-rate"),
        pytest.param({"writes_per_second": math.inf}, id="infinite-rate"),
        pytest.param({"writes_per_second": math.nan}, id="nan"),
        pytest.param({"burst": 0}, id="no-burst"),
        pytest.param({"retry_limit": -1}, id="negative-retries"),
        pytest.param({"retry_timeout_seconds": -1.0}, id="negative-patience"),
    ],
)
def test_bounds_that_cannot_work_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        WriteOptions(**options)  # type: ignore[arg-type] # one of them is an int
