"""Replay: an informer gets again what a recording has, in virtual time."""

from pyinformer.testing.replays._replay import IncompleteRecordingWarning, Replay, replay

__all__ = [
    "IncompleteRecordingWarning",
    "Replay",
    "replay",
]
