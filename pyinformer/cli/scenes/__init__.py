"""The command `scenes`: known failures, played with a plain informer and with pyinformer.

Every fact in a report is measured on a running server, for both programs.
"""

from __future__ import annotations

__all__: list[str] = []
