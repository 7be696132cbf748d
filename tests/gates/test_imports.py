"""What `import pyinformer` loads, seen from an interpreter of its own."""

from __future__ import annotations

import json
import subprocess
import sys

_PROBE = "import json, sys; import pyinformer; print(json.dumps(sorted(sys.modules)))"


def loaded_modules() -> set[str]:
    """Import pyinformer in a fresh interpreter and return the names in its sys.modules."""
    output = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=True).stdout
    return set(json.loads(output))


def test_import_loads_no_package_that_is_optional_or_slow() -> None:
    tops = {name.partition(".")[0] for name in loaded_modules()}

    assert "pyinformer" in tops
    assert tops.isdisjoint(
        {
            "aiohttp",
            "kopf",
            "kubernetes_asyncio",
            "opentelemetry",
            "pydantic",
            "prometheus_client",
            "pytest",
            "yaml",
            "zstandard",
        }
    )


def test_import_loads_no_registry_of_metrics() -> None:
    loaded = loaded_modules()
    assert "pyinformer.metrics" in loaded
    assert loaded.isdisjoint({"pyinformer.metrics._registry", "pyinformer.metrics._catalogue"})
