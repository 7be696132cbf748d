"""Projects of `pyinformer init` in folders of tests, whose modules are imported and forgotten."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.cli.command_line import here

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A plural that cannot be guessed, and a variable that the program has already.
ELECTED = ("pool-operator", "--group", "acme.io", "--kind", "Cluster", "--plural", "acmeclusters")
PLAIN = ("database-operator", "--group", "acme.io", "--kind", "Database")


def init(directory: Path, *arguments: str) -> Path:
    """Write a project into a new folder, and return that."""
    done = here("init", *arguments, "--directory", str(directory))
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return directory


def files_of(folder: Path) -> dict[str, str]:
    """Return the text of each file in a folder by its path."""
    return {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@contextmanager
def importable(folder: Path, package: str) -> Iterator[None]:
    """Import a package from a folder, and forget its modules."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        forget(package)


def forget(package: str) -> None:
    """Forget the modules of a package, as a new process has none of them."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == package:
            del sys.modules[name]
