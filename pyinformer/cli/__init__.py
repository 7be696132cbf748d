"""The command line: `pyinformer demo`, `serve`, `scenes` and `crd`.

What enters are the arguments of the process, what leaves is its exit status. Nothing is loaded
before `main()` is called, and without the extra `cli` that says what to install.
"""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = frozenset(
    {"typer", "click", "rich", "yaml"}
)  # what the extra brings and nothing else here needs
_INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main() -> int:
    """Run the command that the arguments name.

    Returns:
        The exit status; usage errors and `--help` end the process by themselves.
    """
    try:
        from pyinformer.cli._app import run

        return run()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        print(f"{error.name} is not installed: install 'pyinformer[cli]'", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
