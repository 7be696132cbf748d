"""`python -m pyinformer.testing.histories FILE...`: judge histories by the log alone."""

# Pure: it knows no event loop.

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pyinformer.errors import InvalidArgumentError
from pyinformer.testing.histories._checker import check_history
from pyinformer.testing.histories._history import read_history
from pyinformer.testing.histories._records import Record


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __iter__(self) -> Iterator[Record]:
        return read_history(self._path)


def main(arguments: Sequence[str]) -> int:
    """Print each verdict; return 1 if one has a violation, 2 if a file is not a history."""
    if not arguments:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    result = 0
    for argument in arguments:
        try:
            verdict = check_history(_File(Path(argument)))
        except (InvalidArgumentError, OSError) as error:
            sys.stderr.write(f"{argument}: {error}\n")
            return 2
        sys.stdout.write(f"{verdict}\n")
        result = result or int(not verdict.holds)
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
