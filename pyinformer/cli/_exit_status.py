"""How commands end, as numbers: the same for all of them, and the table of the documentation."""

from __future__ import annotations

import signal
from typing import Final

OK: Final = 0
FAILED: Final = 1
"""An error that was said in words."""
USAGE: Final = 2
"""Options or arguments that cannot be meant."""
TOO_LATE: Final = 3
"""`--timeout-seconds` was over before the cache had synced."""
SIGNALLED: Final = 128
"""Plus the signal's number, as shells count."""
INTERRUPTED: Final = SIGNALLED + signal.SIGINT
CLOSED_PIPE: Final = 141
"""128 + SIGPIPE: whoever read the output has gone; the name of the signal is not everywhere."""

EPILOG: Final = (
    "Exit status: 0 well, 1 an error, 2 wrong usage, 3 not synced before --timeout-seconds,"
    " 129 its terminal was closed, 130 Ctrl-C, 143 SIGTERM, 141 the reader of the output has gone."
)
