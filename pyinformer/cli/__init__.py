"""The command line: `pyinformer watch`, `get`, `demo`, `serve`, `scenes`, `init` and others.

Nothing is loaded before `main()` is called. Without the extra `cli`, it prints what to install.
"""

from __future__ import annotations

import sys

from pyinformer_command import ended_at_once_by_signals

__all__ = ["main"]

_EXTRA = frozenset(
    {"typer", "click", "rich", "yaml"}
)  # installed by the extra `cli`, and used only here


def main() -> int:
    """Run the command that the arguments name.

    Returns:
        The exit status; usage errors and `--help` raise SystemExit.
    """
    with ended_at_once_by_signals():
        try:
            from pyinformer.cli._shutdown import reopen_standard_streams

            reopen_standard_streams()
            from pyinformer.cli._app import run

            return run()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in _EXTRA:
                raise
            print(f"{error.name} is not installed: install 'pyinformer[cli]'", file=sys.stderr)
            return 1
