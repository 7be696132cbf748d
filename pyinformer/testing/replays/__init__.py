"""Replays of recordings: an informer receives what was recorded, in virtual time."""

from pyinformer.testing.replays._replay import IncompleteRecordingWarning, Replay, replay

__all__ = [
    "IncompleteRecordingWarning",
    "Replay",
    "replay",
]
