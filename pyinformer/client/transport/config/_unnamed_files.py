"""Files without a name: in memory on Linux, where the file system may be read-only."""

from __future__ import annotations

import os
import sys
from typing import IO


def memory_file() -> IO[bytes] | None:
    """Return an empty file in memory that is gone once it is closed; None where there are none."""
    if sys.platform != "linux":
        return None
    try:
        return os.fdopen(os.memfd_create("pyinformer"), "w+b")
    except OSError:  # a sandbox refuses the call
        return None


def temporary_file() -> IO[bytes]:
    """Return an empty file, in memory if no folder can be written to.

    Raises:
        OSError: there is no such folder, and no file in memory.
    """
    import tempfile  # loads much, for the few programs that need it

    try:
        return tempfile.TemporaryFile()
    except OSError:
        found = memory_file()
        if found is None:
            raise
        return found
