"""The import of a program by a command that only reads what it declares: it must not run then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyinformer.errors import LifecycleError

_imported: Final[list[str]] = []  # not a context variable: the module may start threads


@contextmanager
def imported_only(module: str) -> Iterator[None]:
    """Refuse to run controllers while a command imports a module.

    Args:
        module: its name, for the error.
    """
    _imported.append(module)
    try:
        yield
    finally:
        _imported.pop()


def check_not_imported() -> None:
    """Refuse to run controllers during an import of `imported_only`.

    Raises:
        LifecycleError: naming the module.
    """
    if _imported:
        reason = (
            f"{_imported[-1]} runs controllers while it is imported: put the call of run() under"
            " `if __name__ == '__main__':`"
        )
        raise LifecycleError(reason)
