"""Recordings of what an informer received: written while it runs, read again by the test kit.

`SharedInformer.record` writes them, `pyinformer.testing.replay` reads them.
"""

from pyinformer.cache.recording._connection import RecordingConnection
from pyinformer.cache.recording._format import (
    FORMAT_VERSION,
    Entry,
    Header,
    RecordedError,
    RecordedMassDelete,
    RecordedOptions,
    RecordedShard,
    error_from,
    error_of,
)
from pyinformer.cache.recording._reader import RecordedFile, read_recording
from pyinformer.cache.recording._recorder import Recorder, Tap
from pyinformer.cache.recording._secret_mask import Mask
from pyinformer.cache.recording._writer import RecordingStatistics, RecordingWriter

__all__ = [
    "FORMAT_VERSION",
    "Entry",
    "Header",
    "Mask",
    "RecordedError",
    "RecordedFile",
    "RecordedMassDelete",
    "RecordedOptions",
    "RecordedShard",
    "Recorder",
    "RecordingConnection",
    "RecordingStatistics",
    "RecordingWriter",
    "Tap",
    "error_from",
    "error_of",
    "read_recording",
]
