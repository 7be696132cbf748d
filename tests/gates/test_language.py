"""Prose is in plain words: no docstring, comment, message or page has a phrase that is listed here.

Names of variables, functions and modules are not read, and neither is code. `python
tests/gates/test_language.py PATH ...` lists what a file or folder has to change.
"""

from __future__ import annotations

import io
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT: Final = Path(__file__).resolve().parents[2]
_READ: Final = ("pyinformer", "tests", "docs", "benchmarks", "README.md", "CHANGELOG.md")
_READ_TOO: Final = ("CONTRIBUTING.md", "SECURITY.md", "Makefile", ".ci/run")
_SUFFIXES: Final = {".py", ".pyi", ".md"}
_NOT_READ: Final = {Path(__file__).resolve()}  # it has to write the phrases down
_GENERATED: Final = (_ROOT / "docs/reference/api",)
_PROSE: Final = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))


class Banned(NamedTuple):
    """A pattern, and what to write instead."""

    pattern: str
    instead: str


BANNED: Final = (
    Banned(
        r"who(?:m|se)?ever|(?:some|any|every|no)(?:body)\b",
        "name the actor: the caller, reader, handler, server, loop",
    ),
    Banned(r"(?:takes?|took|taking|taken) note", "record"),
    Banned(
        r"(?<!there )(?<!there's )\b(?:is|are|was|were) no\b"
        r"(?! (?:longer|(?:more|less|later|earlier) than))"
        r"(?! (?:smaller|larger|older|newer|faster|slower) than)",
        '"is not a", "must be"',
    ),
    Banned(
        r"what (?:enters?|leaves?|comes in|goes out)\b",
        "say what the module is for, and the invariant it keeps",
    ),
    Banned(r"\blet(?:s|ting)? (?:\w+ )?go\b", "release, stop, drop"),
    Banned(r"\bhear(?:s|ing)?\b|\bheard\b", "receive, observe, be notified"),
    Banned(r"\b(?:go|goes|going|went) on\b", "continue, retry"),
    Banned(r"\b(?:tell|tells|telling|told)\b", "return, report, notify, distinguish"),
    Banned(r"\bsince (?:\d|%|\{)", '"for 5 s" for a span; "since" only with an instant'),
    Banned(r"\bafter all\b", '"finished late", or leave it out'),
    Banned(r"\bas good as\b", "treats it as, is equivalent to"),
    Banned(r"\bfor ever\b", "forever, without a bound, never ends"),
    Banned(r"\bit says so\b|\bsays? so\b", "name what is reported, and to whom"),
    Banned(
        r"\bnor (?:does|do|is|are|can|has|have|was|were|did|will)\b",
        "a sentence of its own with not",
    ),
    Banned(
        r"\bof (?:old|others)\b|\bby and by\b|\bin vain\b|\bas it were\b|\bso to speak\b",
        "a plain word",
    ),
    Banned(r"\ban? own\b", "its own, a separate"),
    Banned(
        r"\b(?:enters|leaves): |\bout comes? ",
        "say what the module is for, and the invariant it keeps",
    ),
    Banned(r"\banew\b", "again, start over"),
    Banned(r"(?<!are )\ball the same\b|\bas ever\b", "still, as in the other modes"),
    Banned(
        r"\bever (?:less|more|slower|longer|later|rarer)\b", "at growing intervals, less and less"
    ),
    Banned(r"\bstands? there\b", "is, occurs, is written"),
)

EXCEPTIONS: Final[dict[str, tuple[str, ...]]] = {
    # The message of the real kube-apiserver.
    "pyinformer/testing/apiserver/writes/_metadata_validation.py": ("nor is",),
    # The names of controller-runtime's tests.
    "docs/reference/conformance-controller-runtime.md": ("told",),
}
"""The phrases that a file keeps, in lower case; a comment beside each says why."""

_COMPILED: Final = tuple(
    (re.compile(rf"\b(?:{one.pattern})", re.IGNORECASE), one.instead) for one in BANNED
)
# One pattern that is tried where a word begins takes an eighth of the time of one after the other.
_ANY: Final = re.compile(
    rf"\b(?=[a-z])(?:{'|'.join(f'(?:{one.pattern})' for one in BANNED)})", re.IGNORECASE
)


def prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file that are prose, with their numbers."""
    if path.suffix not in {".py", ".pyi"}:
        yield from enumerate(text.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _PROSE:
            yield from enumerate(token.string.splitlines(), token.start[0])


def offences(path: Path) -> list[str]:
    """Return a line for each phrase of a file that is banned."""
    text = path.read_text(encoding="utf-8")
    if not _ANY.search(text):
        return []
    name = str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else str(path)
    kept = EXCEPTIONS.get(name, ())
    return [
        f"{name}:{number}: {match[0]!r}: {instead}"
        for number, line in prose(path, text)
        for pattern, instead in _COMPILED
        for match in pattern.finditer(line)
        if match[0].lower() not in kept
    ]


def files(*tops: Path) -> Iterator[Path]:
    """Yield the files below these folders, or these files, that have prose."""
    for top in tops:
        below = sorted(top.rglob("*")) if top.is_dir() else [top]
        for path in below:
            is_read = path == top or path.suffix in _SUFFIXES
            generated = any(path.is_relative_to(folder) for folder in _GENERATED)
            if is_read and path not in _NOT_READ and not generated:
                yield path


def test_prose_is_in_plain_words() -> None:
    tops = (_ROOT / name for name in (*_READ, *_READ_TOO))

    assert [line for path in files(*tops) for line in offences(path)] == []


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("# Whoever closes it first.", id="actor"),
        pytest.param('x = "0 is no number"', id="is-no"),
        pytest.param('x = f"waiting since {seconds:.0f} s"', id="since"),
        pytest.param('"""Take note of it."""', id="record"),
        pytest.param("# It never ends, and goes on.", id="continue"),
    ],
)
def test_a_banned_phrase_is_found(tmp_path: Path, line: str) -> None:
    path = tmp_path / "it.py"
    path.write_text(f"{line}\n", encoding="utf-8")

    assert len(offences(path)) == 1


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("def whoever(nobody): is_no = since", id="names"),
        pytest.param("# There is no such key, and it is no longer than that.", id="there-is-no"),
        pytest.param("# The instant since 12:00.".replace("12", "noon, 12"), id="since-an-instant"),
        pytest.param("# The shearing of a year.", id="inside-of-a-word"),
    ],
)
def test_code_and_other_phrases_are_not_found(tmp_path: Path, line: str) -> None:
    path = tmp_path / "it.py"
    path.write_text(f"{line}\n", encoding="utf-8")

    assert offences(path) == []


if __name__ == "__main__":
    for given in sys.argv[1:]:
        for found_in in files(Path(given).resolve()):
            sys.stdout.writelines(f"{one}\n" for one in offences(found_in))
