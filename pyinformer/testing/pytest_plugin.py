"""The pytest plugin under the name by which it is loaded by hand.

pytest finds it by itself. Where that is switched off, `-p pyinformer.testing.pytest_plugin` loads
it; it is one and the same module as `pyinformer_pytest`, so that nothing is registered twice.
"""

from __future__ import annotations

import sys

import pyinformer_pytest

sys.modules[__name__] = pyinformer_pytest
