"""The instrumentation scope: under which name and version spans and metrics are recorded."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

SCOPE: Final = "pyinformer"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the semantic conventions whose names are used."""


def scope_version() -> str:
    """Return the version of this package; empty if it is not installed."""
    try:
        return version("pyinformer")
    except PackageNotFoundError:  # run from a checkout
        return ""
