"""Packages whose public names are imported when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def late_getattr(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package; it imports a name once and stores it there.

    Args:
        package: the full name of the package, its `__name__`.
        homes: which module has a name, relative to the package: `{"Replay": "replays"}`. A name
            whose module is called like it is that module: `{"config": "config"}`.
    """

    def load(name: str) -> object:
        home = homes.get(name)
        if home is None:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        module = import_module(f"{package}.{home}")
        found: object = module if home == name else getattr(module, name)
        setattr(sys.modules[package], name, found)
        return found

    return load
