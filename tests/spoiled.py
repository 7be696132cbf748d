"""Copies of a module with one line changed: bugs that a model check has to find."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def spoiled(module: ModuleType, line: str, instead: str, *further: tuple[str, str]) -> ModuleType:
    """Return a copy of a module with another line.

    Args:
        module: the module as it is.
        line: a part of its source that occurs once.
        instead: what it becomes.
        further: other such parts, and what they become.
    """
    source = inspect.getsource(module)
    for before, after in ((line, instead), *further):
        assert source.count(before) == 1, f"the module has changed: {before!r}"
        source = source.replace(before, after)
    name = f"spoiled{module.__name__.rpartition('.')[2]}"
    spec = importlib.util.spec_from_loader(name, loader=None)
    assert spec is not None
    copy = importlib.util.module_from_spec(spec)
    sys.modules[name] = copy  # dataclasses look their module up
    exec(compile(source, name, "exec"), copy.__dict__)  # noqa: S102
    return copy
