"""Bounds of writes that cannot work are refused where they are written down."""

from __future__ import annotations

import math
from typing import Any

import pytest

from pyinformer.cluster import WriteOptions
from pyinformer.errors import InvalidArgumentError


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"writes_per_second": 0.0}, id="no-rate"),
        pytest.param({"writes_per_second": math.inf}, id="infinite-rate"),
        pytest.param({"writes_per_second": math.nan}, id="nan"),
        pytest.param({"writes_per_second": "fast"}, id="a-word"),
        pytest.param({"burst": 0}, id="no-burst"),
        pytest.param({"burst": math.inf}, id="endless-burst"),
        pytest.param({"retry_limit": math.nan}, id="retries-nan"),
        pytest.param({"retry_limit": -1}, id="negative-retries"),
        pytest.param({"retry_timeout_seconds": -1.0}, id="negative-patience"),
    ],
)
def test_invalid_bounds_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        WriteOptions(**options)
