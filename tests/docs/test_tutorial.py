"""The tutorial shows the files that the tests run, and the tests in it pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

_DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_EXAMPLES = ("database_operator.py", "test_database_operator.py")


def test_the_tutorial_shows_the_examples_as_they_are_and_in_full() -> None:
    tutorial = (_DOCS / "tutorials/operator.md").read_text(encoding="utf-8")
    blocks = [block.strip("\n") for block in _BLOCK.findall(tutorial)]
    sources = [(_DOCS / "examples" / name).read_text(encoding="utf-8") for name in _EXAMPLES]

    bodies = [source.partition('"""\n\n')[2].strip("\n") for source in sources]
    assert "\n\n\n".join(blocks) == "\n\n\n".join(bodies)


def test_the_tests_of_the_tutorial_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", ".", "test_database_operator.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=_DOCS / "examples",
    )

    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
