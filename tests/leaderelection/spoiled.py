"""Copies of the state machine with one line changed: bugs that the model check has to find."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from typing import TYPE_CHECKING

from tests.leaderelection.model import Bugs

if TYPE_CHECKING:
    from types import ModuleType


def spoiled(line: str, instead: str) -> ModuleType:
    """Return a copy of the module with another line.

    Args:
        line: a part of the source that occurs once.
        instead: what it becomes.
    """
    source = inspect.getsource(Bugs().election)
    assert source.count(line) == 1, f"the module has changed: {line!r}"
    spec = importlib.util.spec_from_loader("spoiled_election", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    exec(compile(source.replace(line, instead), spec.name, "exec"), module.__dict__)  # noqa: S102
    return module
