"""The README's pictures show what the command prints today.

`make pictures` draws them again.
"""

from __future__ import annotations

import importlib
import re
import sys
from types import ModuleType

import pytest

from tests.docs import pages

_EXTENSIONS = pages.ROOT / "docs/_extensions"
_CLOCK = re.compile(r"^\d\d:\d\d:\d\d\b")
_AGE = re.compile(r" \d+m?\d*s$")
_CHANGES = "last changes"


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that draws the pictures."""
    monkeypatch.syspath_prepend(str(_EXTENSIONS))
    monkeypatch.delitem(sys.modules, "pictures", raising=False)
    return importlib.import_module("pictures")


def committed(pictures: ModuleType, name: str) -> list[str]:
    """Return the lines of a picture in the repository."""
    lines: list[str] = pictures.lines_of((pictures.FOLDER / name).read_text(encoding="utf-8"))
    return lines


def drawn(pictures: ModuleType, command: str, printed: list[str]) -> list[str]:
    """Return the lines of a picture of what a command printed now."""
    lines: list[str] = pictures.lines_of(pictures.svg("now", command, printed))
    return lines


def without_times(lines: list[str]) -> list[str]:
    """Return lines in which clock times and ages are words."""
    return [_AGE.sub(" AGE", _CLOCK.sub("hh:mm:ss", line)) for line in lines]


def frame_of(lines: list[str]) -> list[str]:
    """Return the demo's table heads, resources and verdict: what is the same in every run."""
    heads = [re.findall(r"[a-z/]+", line) for line in lines if line.startswith(("┃", "│"))]
    words = [" ".join(head[:1] if "watching" in head else head) for head in heads]
    return [lines[0], *words, *lines[-2:]]


def test_the_picture_of_watch_shows_what_it_prints(pictures: ModuleType) -> None:
    now = drawn(pictures, pictures.WATCH, pictures.watch())

    assert without_times(now) == without_times(committed(pictures, "watch.svg"))


def test_the_picture_of_the_demo_shows_what_it_prints(pictures: ModuleType) -> None:
    now = drawn(pictures, pictures.DEMO, pictures.demo(seconds=1))
    shown = committed(pictures, "demo.svg")

    assert frame_of(now) == frame_of(shown)
    assert shown[shown.index(_CHANGES) + 1].startswith("  ")


@pytest.mark.parametrize("name", ["watch.svg", "demo.svg"])
def test_a_picture_loads_nothing(pictures: ModuleType, name: str) -> None:
    """A forge shows a picture without what it would have to load."""
    text = (pictures.FOLDER / name).read_text(encoding="utf-8")

    assert set(re.findall(r"https?://[^\s\"<]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "https://www.textualize.io",
        *re.findall(r"http://127\.0\.0\.1:\d+", text),
    }
