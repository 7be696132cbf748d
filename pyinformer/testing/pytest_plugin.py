"""The pytest plugin, under the name for loading it explicitly.

pytest finds the plugin by itself. With autoloading disabled, use
`-p pyinformer.testing.pytest_plugin`. This is the same module as `pyinformer_pytest`, so nothing
is registered twice.
"""

from __future__ import annotations

import sys

import pyinformer_pytest

sys.modules[__name__] = pyinformer_pytest
