"""Regular expressions that Go accepts, and those that it refuses with what is wrong."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

ACCEPTED: Final = (
    "",
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
    r"(?P<x>a)(?<y>b)(?<y>b)(?:c)(?i)d(?s-m:e)(?i)*",
    r"\a\f\n\r\t\v\x41\x{1F600}\012\0\A\b\B\z\pL\p{Greek}\P{^Lu}\.\/\-\_\ ",
    r"[]a][^]a][[a][-a][a-][\d-z][\-\]][[:alpha:]\n][\x41-\x{5A}]",
    r"a{,5}b{x}c{01}{",
    r"a{2}b{2,}?c{2,3}d*?e+?f??",
    r"(?:a{10}){100}(?:b{20,}){50}(?:c*)*",
    r"\Q(?!\E\Q\E\Qrest\d",
    "größe",
)

REFUSED: Final[dict[str, str]] = {
    r"(?!a)": "'(?!a'",
    r"(?=a)": "look-around",
    r"(?<=a)": "'(?<='",
    r"(?<!a)": "look-around",
    r"(?>a)": "groups other than",
    r"(?#a)": "comments",
    r"(?P=x)": "references",
    r"(?(1)a)": "'(?(1'",
    r"(?x)a": "'(?x)'",
    r"(?i-)a": "'(?i-'",
    r"(?P<größe>a)": "'(?P<'",
    r"(a)\1": r"the escape \1 does not exist",
    r"a\Z": r"write $ or \z",
    r"\u00e9": r"write \x{...}",
    r"\N{DOT}": r"the escape \N",
    r"\é": r"the escape \é",
    "a\\": "the escape \\ does not exist",
    r"[\b]": r"the escape \b",
    r"a++": "possessive ones do not exist",
    r"a{2}{3}": "follows another",
    r"a|*": "the repeat * has nothing before it",
    r"({2})": "nothing before it",
    r"a{1001}": "at most 1000",
    r"a{3,2}": "{3,2}",
    r"(?:a{11}){100}": "not 1100",
    r"(a": "a closing parenthesis is missing",
    r"a)": "that was not opened",
    r"[a": "a closing bracket is missing",
    r"[[:foo:]]": "[:foo:]",
    r"[z-a]": "z-a ends before it begins",
    r"[a-\d]": "must end with a character",
}

_TOKENS = [
    *("a", "b", "(", ")", "(?:", "(?P<x>", "(?P<y>", "(?=", "(?!", "(?i)", "(?i:", "(?-s)"),
    *("(?x)", "[", "]", "^", "$", "-", "|", "*", "+", "?", "{", "}", "{2}", "{2,}", "{,3}"),
    *("{3,2}", "{1000}", "{1001}", "{10}", "{01}", r"\d", r"\1", r"\12", r"\0", r"\x41", r"\8"),
    *(r"\x{41}", r"\Z", r"\z", r"\A", r"\b", r"\u", r"\pL", r"\p{Greek}", r"\.", r"\-", r"\]"),
    *(r"\_", "[:alpha:]", "[:foo:]", "a-z", "z-a", "é", r"\é", r"\Q", r"\E", ",", "1", r"\C"),
    *(r"\n", "(?#c)", "(?>", "(?U)", "(?i-)", "(?)"),
]
patterns: Final = st.lists(st.sampled_from(_TOKENS), max_size=8).map("".join)
"""Texts that look like regular expressions; about a fifth of them are."""
