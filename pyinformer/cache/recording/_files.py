"""The two files of a recording, as the thread of its writer sees them: bounded, one after another.

What does not fit is dropped and counted. A file never has a hole: after the first text that did
not fit, nothing is written until the next file begins.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, final

from pyinformer.errors import RecordingFileError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@final
class RecordingFiles:
    """Writes the newest file, and keeps the one before.

    Args:
        path: the newest file; the one before has `.1` before its suffix.
        max_bytes: how much both may have together.
    """

    def __init__(self, path: Path, *, max_bytes: int) -> None:
        self.path: Path = path
        self.max_file_bytes: int = max_bytes // 2
        """How much one file may have."""
        self.written_bytes: int = 0
        """In all files, those that were rotated away included."""
        self.lines: int = 0
        """Lines of watches and items of lists."""
        self.gaps: int = 0
        self.files: int = 0
        """How many files were begun."""
        self.dropped_bytes: int = 0
        """What did not fit, in all files."""
        self.dropped_here_bytes: int = 0
        """What did not fit into the newest file."""
        self.has_overflowed: bool = False
        """Whether the newest file takes nothing but a snapshot any more."""
        self._older = path.with_name(f"{path.stem}.1{path.suffix}")
        self._fd = -1
        self._file_bytes = 0

    def create(self, header: bytes) -> None:
        """Create the first file.

        Raises:
            RecordingFileError: it exists, or cannot be created.
        """
        try:
            for path in (self.path, self._older):
                if path.is_symlink() or path.exists():
                    reason = "it exists, and a recording never replaces a file: name another one"
                    raise RecordingFileError(str(path), reason)
            self._begin(header)
        except OSError as error:
            raise file_error(self.path, error) from error

    def rotate(self, header: bytes) -> None:
        """Begin the next file."""
        if self.dropped_here_bytes:
            self.gaps += 1
        self.close()
        self.path.replace(self._older)
        self.has_overflowed = False
        self.dropped_here_bytes = 0
        self._begin(header)

    def close(self) -> None:
        """Close the newest file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def keep(
        self,
        data: bytes | memoryview,
        lines: int,
        *,
        is_snapshot: bool,
        on_full: Callable[[], object],
    ) -> None:
        """Write lines, or drop and count them if they do not fit.

        Args:
            data: whole lines of the file.
            lines: how many texts of the server are in them.
            is_snapshot: whether they are the content of the cache, with which a file begins.
            on_full: called when the first lines of a file do not fit.

        Raises:
            RecordingFileError: a snapshot does not fit.
        """
        is_full = self._file_bytes + len(data) > self.max_file_bytes
        if is_full or (self.has_overflowed and not is_snapshot):
            if is_snapshot or self._file_bytes + len(data) > 2 * self.max_file_bytes:
                reason = (
                    "the content of the cache alone does not fit: max_bytes must be larger, got"
                    f" {2 * self.max_file_bytes}"
                )
                raise RecordingFileError(str(self.path), reason)
            self.dropped_bytes += len(data)
            self.dropped_here_bytes += len(data)
            if not self.has_overflowed:
                self.has_overflowed = True
                on_full()
            return
        self.write(data)
        self.lines += lines

    def write(self, data: bytes | memoryview) -> None:
        """Write, whether it fits or not."""
        rest = memoryview(data)
        while rest:
            written = os.write(self._fd, rest)
            self._file_bytes += written
            self.written_bytes += written
            rest = rest[written:]

    def _begin(self, header: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        self._fd = os.open(self.path, flags, 0o600)  # it may hold what others must not read
        self._file_bytes = 0
        self.files += 1
        self.write(header)


def file_error(path: Path, error: OSError) -> RecordingFileError:
    """Return the error that a recording ends with."""
    if isinstance(error, RecordingFileError):
        return error
    return RecordingFileError(str(path), error.strerror or str(error))
