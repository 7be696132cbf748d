"""What Go's regular expressions refuse, whose syntax is that of RE2: the server compiles patterns.

Python's differ in look-around, references, possessive and atomic repeats, in some escapes and
flags, and in the limit of repeats.

Source:
    regexp/syntax/parse.go of Go.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple, final

_MAX_REPEAT: Final = 1000
_REPEAT: Final = re.compile(r"\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\}")
_GROUP: Final = re.compile(r"\(\?(?:P?<[A-Za-z0-9_]+>|[imsU]*(?:-[imsU]+)?(?P<end>[:)]))")
_ESCAPE: Final = re.compile(
    r"\\(?:[dDsSwW]|[pP](?:[A-Z]|\{\^?\w+\})|[afnrtv]|[1-7][0-7]{1,2}|0[0-7]{0,2}"
    r"|x(?:[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]{1,6}\})|[\x00-\x2f\x3a-\x40\x5b-\x60\x7b-\x7f])",
    re.ASCII,
)
_ASSERTION: Final = re.compile(r"\\[AbBz]")
_POSIX: Final = re.compile(r"\[:\^?([a-z]*):\]")
_POSIX_NAMES: Final = frozenset(
    {"alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct"}
    | {"space", "upper", "word", "xdigit"}
)


def re2_problem(pattern: str) -> str | None:
    """Return what Go does not accept in a regular expression; None if it accepts it."""
    try:
        _Scanner(pattern).scan()
    except _RefusedError as refused:
        return str(refused)
    return None


class _RefusedError(Exception):
    """Go refuses the pattern."""


class _Atom(NamedTuple):
    """What a repeat applies to."""

    repeats: int = 1
    """How often its content may be repeated by limits of numbers."""
    is_repeat: bool = False


@final
class _Scanner:
    """Walks over a pattern once."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._groups: list[int] = [1]  # the largest product of repeats in each open group
        self._atom: _Atom | None = None

    def scan(self) -> None:
        """Read the pattern.

        Raises:
            _RefusedError: Go refuses it.
        """
        while self._at < len(self._pattern):
            self._step(self._pattern[self._at])
        if len(self._groups) > 1:
            raise _RefusedError("a closing parenthesis is missing")

    def _step(self, one: str) -> None:
        if one == "(":
            self._open()
        elif one == ")":
            self._close()
        elif one == "|":
            self._at, self._atom = self._at + 1, None
        elif one == "[":
            self._class()
        elif one == "\\":
            self._escape()
        elif one in "*+?":
            self._repeat(self._at + 1, one, 1)
        elif one == "{" and (found := _REPEAT.match(self._pattern, self._at)):
            self._counted(found)
        else:
            self._take(self._at + 1)

    def _take(self, end: int, repeats: int = 1, *, is_repeat: bool = False) -> None:
        """Move past an atom."""
        self._at, self._atom = end, _Atom(repeats, is_repeat)
        self._groups[-1] = max(self._groups[-1], repeats)

    def _open(self) -> None:
        if not self._pattern.startswith("(?", self._at):
            self._at += 1
        else:
            found = _GROUP.match(self._pattern, self._at)
            if found is None:
                what = self._pattern[self._at : self._at + 4]
                raise _RefusedError(
                    f"{what!r}: look-around, references, comments, and groups other than (...),"
                    " (?:...), (?P<name>...) and (?ims) are not supported"
                )
            self._at = found.end()
            if found["end"] == ")":
                if self._atom is not None:  # flags for what follows
                    self._atom = _Atom(self._atom.repeats)
                return
        self._groups.append(1)
        self._atom = None

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise _RefusedError("a parenthesis is closed that was not opened")
        self._take(self._at + 1, self._groups.pop())

    def _counted(self, found: re.Match[str]) -> None:
        least = int(found[1])
        most = int(found[3]) if found[3] else None if found[2] else least
        if max(least, most or 0) > _MAX_REPEAT or (most is not None and most < least):
            raise _RefusedError(f"the repeat {found[0]} must be of at most {_MAX_REPEAT}")
        self._repeat(found.end(), found[0], least if most is None else most)

    def _repeat(self, end: int, text: str, times: int) -> None:
        if self._atom is None:
            raise _RefusedError(f"the repeat {text} has nothing before it")
        if self._atom.is_repeat:
            raise _RefusedError(f"the repeat {text} follows another; possessive ones do not exist")
        product = self._atom.repeats * max(times, 1)
        if product > _MAX_REPEAT:
            raise _RefusedError(f"nested repeats must be of at most {_MAX_REPEAT}, not {product}")
        self._take(end + self._pattern.startswith("?", end), product, is_repeat=True)

    def _escape(self) -> None:
        if self._pattern.startswith(r"\Q", self._at):  # literal text, to its end or \E
            end = self._pattern.find(r"\E", self._at)
            is_empty = end == self._at + 2
            self._at = len(self._pattern) if end < 0 else end + 2
            if not is_empty:
                self._take(self._at)
            return
        found = _ESCAPE.match(self._pattern, self._at) or _ASSERTION.match(self._pattern, self._at)
        self._take(self._checked(found))

    def _checked(self, found: re.Match[str] | None) -> int:
        if found is None:
            what = self._pattern[self._at : self._at + 2]
            hint = {r"\Z": "; write $ or \\z", r"\u": "; write \\x{...}"}.get(what, "")
            raise _RefusedError(f"the escape {what} does not exist{hint}")
        return found.end()

    def _class(self) -> None:
        self._at += 1 + self._pattern.startswith("^", self._at + 1)
        first = self._at
        while not self._pattern.startswith("]", self._at) or self._at == first:
            if self._at >= len(self._pattern):
                raise _RefusedError("a closing bracket is missing")
            posix = _POSIX.match(self._pattern, self._at)
            if posix:
                if posix[1] not in _POSIX_NAMES:
                    raise _RefusedError(f"the class {posix[0]} does not exist")
                self._at = posix.end()
            else:
                self._range()
        self._take(self._at + 1)

    def _range(self) -> None:
        """Read one character of a class, or a range of them."""
        is_set = re.match(r"\\[dDsSwWpP]", self._pattern[self._at : self._at + 2]) is not None
        low = self._character()
        follows = self._pattern[self._at : self._at + 2]
        if is_set or not follows.startswith("-") or follows in {"-", "-]"}:
            return
        self._at += 1
        if re.match(r"\\[dDsSwWpP]", self._pattern[self._at : self._at + 2]):
            raise _RefusedError("a range of a class must end with a character")
        high = self._character()
        if len(low) == len(high) == 1 and low > high:
            raise _RefusedError(f"the range {low}-{high} ends before it begins")

    def _character(self) -> str:
        start = self._at
        if self._pattern[start] != "\\":
            self._at += 1
        else:
            self._at = self._checked(_ESCAPE.match(self._pattern, start))
        return self._pattern[start : self._at]


# What the two write differently, or Python warns of: escapes, classes, ends, and names of groups.
_DIFFERENT: Final = re.compile(
    r"\\.|\[\^?\]?(?:\[:\^?[a-z]*:\]|\\.|[^\]\\])*\]|\$|\(\?<|\{,", re.DOTALL
)
_IN_CLASS: Final = re.compile(r"\[:(\^?[a-z]*):\]|\\.|--|[\[&|~]", re.DOTALL)
_IN_PYTHON: Final[dict[str, str]] = {r"\z": r"\Z", "(?<": "(?P<", "{,": r"\{,"}
_POSIX_IN_PYTHON: Final[dict[str, str]] = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_LINES: Final = re.compile(r"\(\?[isU]*m")


@lru_cache(maxsize=512)
def re2_compiled(pattern: str) -> re.Pattern[str] | None:
    """Return Python's expression for one of Go's; None if Go refuses it, or Python has none."""
    if re2_problem(pattern) is not None:
        return None
    # Without the flag m, Go's $ is the end of the text, and Python's also before a last line feed.
    end = "$" if _LINES.search(pattern) else r"\Z"

    def in_python(found: re.Match[str]) -> str:
        """Return how Python writes it."""
        text = found[0]
        if text == "$":
            return end
        if text.startswith("["):
            return text[0] + _IN_CLASS.sub(_of_class, text[1:])
        return _IN_PYTHON.get(text, text)

    try:
        return re.compile(_DIFFERENT.sub(in_python, pattern), re.ASCII)
    except (re.error, KeyError):  # \pL, \Q...\E, (?U), a negated class in a class, or --
        return None


def _of_class(found: re.Match[str]) -> str:
    text = found[0]
    if found[1] is not None or text == "--":  # Python warns of the latter, a range to or from "-"
        return _POSIX_IN_PYTHON[found[1] or text]
    return text if text.startswith("\\") else f"\\{text}"
