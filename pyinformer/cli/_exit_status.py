"""The exit statuses of all commands; the documentation has the same table."""

from __future__ import annotations

import signal
from typing import Final

OK: Final = 0
FAILED: Final = 1
"""An error, with a message on stderr."""
USAGE: Final = 2
"""Invalid options or arguments."""
UNCHECKED: Final = 2
"""A check could not be made."""
TOO_LATE: Final = 3
"""`--timeout-seconds` passed before the cache had synced."""
SIGNALLED: Final = 128
"""Plus the number of the signal, as in shells."""
INTERRUPTED: Final = SIGNALLED + signal.SIGINT
CLOSED_PIPE: Final = 141
"""128 + SIGPIPE: the output was closed; not all platforms define the signal."""

EPILOG: Final = (
    "Exit status: 0 success, 1 an error, 2 wrong usage, 3 not synced before --timeout-seconds,"
    " 129 the terminal was closed, 130 Ctrl-C, 143 SIGTERM, 141 the output was closed."
)


def failure(*, check: bool) -> int:
    """Return the status of an error, which of a check is not that of what a check has found."""
    return UNCHECKED if check else FAILED
