"""The command `scenes`: known failures, played with a plain informer and with pyinformer.

Every fact in a report is measured on a running server, for both programs.
"""

from __future__ import annotations

from pyinformer.cli.scenes._registry import SCENES
from pyinformer.cli.scenes._run import find, list_scenes, play

__all__ = ["SCENES", "find", "list_scenes", "play"]
