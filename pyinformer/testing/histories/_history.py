"""A history: what one run did and saw, one record a line, in the order of its time."""

# Pure: it knows no event loop.

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar, final

import msgspec

from pyinformer._runtime.clock import monotonic
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import decoder_of
from pyinformer.testing.histories._records import UNSTAMPED, Record

_R = TypeVar("_R", bound=Record)


@final
class History:
    """The records of one run, as a context manager; any thread may add one.

    Args:
        path: a file that does not exist yet, to which each record is written as a line of JSON;
            None keeps the records in memory.
        clock: returns the time in seconds, such as that of a World; from any thread.

    Raises:
        FileExistsError: the file exists.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.path: Path | None = None if path is None else Path(path)
        """The file; None if the records are in memory."""
        self._clock = clock
        self._began = clock()
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._encode = msgspec.json.Encoder().encode
        self._file = None if path is None else Path(path).open("xb")  # noqa: SIM115 - close() closes it
        self._count = 0

    def now(self) -> float:
        """Return the monotonic seconds since the history began; from any thread."""
        return self._clock() - self._began

    def add(self, record: _R) -> _R:
        """Append a record; from any thread.

        Args:
            record: without `at_seconds`, or with the time that it has to have.

        Returns:
            The record with its time.
        """
        with self._lock:
            if record.at_seconds == UNSTAMPED:
                record = msgspec.structs.replace(record, at_seconds=self.now())
            self._count += 1
            if self._file is None:
                self._records.append(record)
            else:
                self._file.write(self._encode(record) + b"\n")
        return record

    def __iter__(self) -> Iterator[Record]:
        """Return all records so far, in order."""
        with self._lock:
            if self.path is None:
                return iter(self._records.copy())
            if self._file is not None and not self._file.closed:
                self._file.flush()
        return read_history(self.path)

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        """Write what is buffered, and close the file; idempotent."""
        with self._lock:
            if self._file is not None:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_history(path: str | os.PathLike[str]) -> Iterator[Record]:
    """Yield the records of a file, in order; the last line may be cut off, as by a SIGKILL.

    Raises:
        InvalidArgumentError: another line is not a record.
        OSError: the file cannot be read.
    """
    decode = decoder_of(Record)
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield decode(line)
            except msgspec.DecodeError as error:
                if not line.endswith(b"\n"):
                    return
                reason = f"line {number} must be a record of a history: {error}"
                raise InvalidArgumentError("path", reason) from error
