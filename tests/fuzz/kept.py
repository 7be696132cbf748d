"""The kept corpus: inputs that a fuzzer has found to reach new behaviour, one in each line."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"


def kept(target: str) -> list[bytes]:
    """Return the inputs of a target; empty before its first run."""
    path = CORPUS / f"{target}.txt"
    lines = path.read_text(encoding="ascii").splitlines() if path.is_file() else []
    return [base64.b64decode(line) for line in lines]
