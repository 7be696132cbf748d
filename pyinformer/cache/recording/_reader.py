"""Reads a recording: its header, then its entries, up to the end or to where it was cut off."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import msgspec
from msgspec import Raw, Struct

from pyinformer.cache.recording._format import FORMAT_VERSION, Entry, Header
from pyinformer.errors import RecordingFileError, RecordingFormatError, RecordingVersionError
from pyinformer.objects import check_path, decoder_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

_MAX_SECONDS: Final = 1e10  # three centuries: a replay passes each day of it
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_not_json = re.compile(rb'\{"t":(\d+\.\d+),"of":(\d+),"line":(.*)\}', re.DOTALL).fullmatch


class _Version(Struct):
    pyinformer_recording: int
    pyinformer: str = "unknown"


_decode_version = decoder_of(_Version, skims=True)
_decode_header = decoder_of(Header, skims=True)
_decode_entry = decoder_of(Entry, skims=True)


@final
@dataclass(frozen=True, slots=True)
class RecordedFile:
    """What a file of a recording contains."""

    path: Path
    header: Header
    entries: tuple[Entry, ...]
    problems: tuple[str, ...]
    """Sentences that say what is missing; empty if the recording is complete."""


def read_recording(path: str | PathLike[str]) -> RecordedFile:
    """Read a recording.

    Raises:
        RecordingFileError: the file cannot be read.
        RecordingFormatError: it is not a recording, or damaged before its end.
        RecordingVersionError: a later version of pyinformer wrote it, in a later format.
    """
    check_path("path", path)
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordingFileError(str(path), error.strerror or str(error)) from error
    first, *lines = data.split(b"\n")
    if not lines:  # no line end: a cut header, or a foreign file
        raise RecordingFormatError(str(path), 1, _NOT_A_RECORDING)
    header = _header(path, first)
    *whole, rest = lines
    entries = tuple(_entries(path, whole))
    return RecordedFile(path, header, entries, tuple(_problems(entries, rest)))


_NOT_A_RECORDING = "this is not a recording of pyinformer: its first line is not a header"


def _header(path: Path, line: bytes) -> Header:
    try:
        version = _decode_version(line)
    except _UNREADABLE as error:
        raise RecordingFormatError(str(path), 1, _NOT_A_RECORDING) from error
    if version.pyinformer_recording > FORMAT_VERSION:
        raise RecordingVersionError(
            str(path),
            found=version.pyinformer_recording,
            supported=FORMAT_VERSION,
            written_by=version.pyinformer,
        )
    try:
        return _decode_header(line)
    except _UNREADABLE as error:
        raise RecordingFormatError(str(path), 1, f"the header cannot be read: {error}") from error


def _entries(path: Path, lines: list[bytes]) -> Iterator[Entry]:
    for number, line in enumerate(lines, 2):
        try:
            entry = _decode_entry(line)
        except _UNREADABLE as error:
            found = _not_json(line)
            if found is None:
                reason = f"the entry cannot be read: {error}"
                raise RecordingFormatError(str(path), number, reason) from error
            entry = Entry(at_seconds=float(found[1]), of=int(found[2]), line=Raw(found[3]))
        if not 0 <= entry.at_seconds <= _MAX_SECONDS:
            reason = f"t must be 0 to {_MAX_SECONDS:.0e} s, got {entry.at_seconds:g}"
            raise RecordingFormatError(str(path), number, reason)
        yield entry


def _problems(entries: tuple[Entry, ...], rest: bytes) -> Iterator[str]:
    latest = max((one.at_seconds for one in entries), default=None)
    last = "its header" if latest is None else f"{latest:.3f} s"
    if rest:
        yield f"its last line is cut off: the recording is read up to {last}"
    elif not entries or not entries[-1].stop:
        yield f"it was not ended properly: the recording is read up to {last}"
    for entry in entries:
        if entry.gap is not None:
            at = f"{entry.at_seconds:.3f} s"
            yield f"it has a gap at {at}, after which it continues with a snapshot"
