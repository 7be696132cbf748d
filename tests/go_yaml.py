"""Texts of YAML and what Go reads in them: by themselves, and as values of properties.

`tests/foreign/test_yaml.py` asks Go; the other tests rely on it.
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

SCALARS: Final[dict[str, Any]] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True
    ),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False"), False),
    **dict.fromkeys(("~", "null", "Null", "NULL", "", "!!null ~"), None),
    **{
        word: word
        for word in ("yEs", "nULL", "nUll", "tRUE", "oN", "yy", "<<", "=", ".", "+", "-a")
    },
    "08": 8,
    "09.5": 9.5,
    "010": 8,
    "0777": 511,
    "0o17": 15,
    "0O17": 15,
    "0o8": "0o8",
    "0x1F": 31,
    "-0x1f": -31,
    "0b101": 5,
    "-0b1": -1,
    "0b2": "0b2",
    "1_000": 1000,
    "1_": 1,
    "_1": "_1",
    "+7": 7,
    "1e3": 1000,
    "1E3": 1000,
    "7e12": 7_000_000_000_000,
    "1e-7": 1e-7,
    "5.": 5,
    ".5": 0.5,
    ".5e1": 5,
    "-.5": -0.5,
    "._5": "._5",
    "2.0": 2,
    "-0.0": 0,
    "1e400": "1e400",
    "1e-400": 0,
    "22:22": "22:22",
    "1:2:3.5": "1:2:3.5",
    "2026-01-01": "2026-01-01",
    "2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z",
    "9223372036854775807": 2**63 - 1,
    "9223372036854775808": float(2**63),
    "18446744073709551616": float(2**64),
    "-9223372036854775809": float(-(2**63)),
    "1152921504606846976.0": 1152921504606847000,
    "0xffffffffffffffffff": "0xffffffffffffffffff",
    "07777777777777777777777777": 7.777777777777777777777777e24,
    "!!str 08": "08",
    "! 08": "08",
    "!!float 3": 3,
    "!!int '7'": 7,
    "!!bool y": True,
    "!!binary aGk=": "hi",
    "!!binary |\n            aG\n            k=": "hi",
    '!!binary "a\\r\\nGk="': "hi",
    "!mine 08": "08",
    "'08'": "08",
    '"y"': "y",
}
"""Scalars, and their values as the API server has them."""

KEYS: Final[dict[str, str]] = {
    "y": "true",
    "n": "false",
    "1": "1",
    "08": "8",
    "1.50": "1.5",
    "1e3": "1000",
    "1e6": "1e+06",
    "123456789.0": "1.2345679e+08",
    "0.00001": "1e-05",
    "0.1": "0.1",
    "16777217.0": "1.6777216e+07",
    "1e39": ".inf",
    "-1e39": "-.inf",
    ".nan": ".nan",
    "2026-01-01": "2026-01-01",
    "'y'": "y",
}
"""Keys of mappings, and the names that they become."""

DOCUMENTS: Final[dict[str, Any]] = {
    "": None,
    "# nothing\n": None,
    "a: 1\n---\nb: [": {"a": 1},
    "a: 1\n...\n%%%": {"a": 1},
    "a: 1\na: 2": {"a": 2},
    "a: &x [1]\nb: *x": {"a": [1], "b": [1]},
    "a: &x 1\nb: &x 2\nc: *x": {"a": 1, "b": 2, "c": 2},
    "a: 1\n<<: {a: 2}": {"a": 2},
    "<<: {a: 2}\na: 1": {"a": 1},
    "<<: [{a: 1, b: 1}, {a: 2, c: 2}]": {"a": 1, "b": 1, "c": 2},
    "'<<': {a: 2}": {"<<": {"a": 2}},
    '"\\0<<": {a: 1}\nb: 2': {"\0<<": {"a": 1}, "b": 2},
    "!!set {a, b}": {"a": None, "b": None},
    '{"a":\t"x\\u0085\\u2028\\n"}': {"a": "x\x85\u2028\n"},
    '{"a": "x\u0085 y"}': {"a": "x y"},
    '{"a": 1e3, "b": 2.0, "c": 1E-7}': {"a": 1000, "b": 2, "c": 1e-7},
    '{"a": 9223372036854775808}': {"a": float(2**63)},
    '{"y": "n", "<<": {"=": "~"}}': {"y": "n", "<<": {"=": "~"}},
}
"""Documents, and their values."""

REFUSED: Final[tuple[str, ...]] = (
    "a: b: c",
    "a: .inf",
    "a: .nan",
    "? [a]\n: 1",
    "~: 1",
    "18446744073709551615: 1",
    "&a [*a]",
    "a: *nothing",
    "<<: 1",
    "%YAML 1.2\n---\na: 1",
    '{"a": "\\/"}',
    '{"a": "\\ud83d\\ude00"}',
    '{"a": "\x7f"}',
    '{"a": "\ufffe"}',
    '{"a"\n: 1}',
    '{"' + "k" * 1100 + '": 1}',
    "!!int x",
    "!!binary '%'",
    "!!binary 'aG k='",
    "a: &a [" + "1, " * 999 + "]\nb: [" + "*a, " * 500 + "]",
)
"""Texts that Go refuses."""

_ODD = (
    "ab \n\n\t:#-?[]{},&*!|>'\"%@`\\~=<\r\x00\x07\x1b\x7f\x80\x85\xa0\u00e9\u2028\u2029\u202e"
    "\ufeff\ufffe\uffff\ud7ff\ue000\U0001f6000189yn.e_\x0b"
)
_PLAIN_WORDS = [text for text in SCALARS if not text.startswith(("!", "'", '"'))]

texts: Final = st.one_of(
    st.sampled_from(_PLAIN_WORDS),
    st.text(_ODD, max_size=12),
    st.text("0179eExXob_.+-:yYnNtf~ T", max_size=6),
    st.text(max_size=12),
    st.sampled_from(
        ["x" * 130, "k" * 1100, "\u00e9" * 1100, '"' * 600, "a\\" * 600, "---", "...\n"]
    ),
)
"""Texts that a writer of YAML may have to quote."""

_numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values: Final = st.dictionaries(
    texts,
    st.recursive(
        st.none() | st.booleans() | _numbers | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    ),
    max_size=4,
)
"""JSON objects."""

_TOKENS = [
    *("a", "b", " ", "  ", "\n", "\n  ", "\n- ", "- ", ": ", ":", ",", ", ", "[", "]", "{", "}"),
    *('"x y"', "'it''s'", "# c", " # c", "&a ", "*a", "<<: ", "|\n  ", "|-\n  ", ">\n  ", "? "),
    *("!!str ", "!!int ", "!mine ", "! ", "---\n", "...\n", "1", "y", "08", "~", "\t", "%", "@"),
    *('"\\u0041\\/"', "\u00e9", "\u2028", "\u0085", "!!binary ", "aGk=", "!!float ", '"a": '),
]
_BEGINNINGS = ["", "k: ", "- ", "{", "[", "a: &a {x: 1}\nb: ", "a: &a [1, {y: 2}]\nb: "]
documents: Final = st.builds(
    lambda beginning, tokens: beginning + "".join(tokens),
    st.sampled_from(_BEGINNINGS),
    st.lists(st.sampled_from(_TOKENS), max_size=9),
)
"""Texts that look like YAML; about half of them are."""


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same: 1 and True are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        return (
            isinstance(one, int | float)
            and isinstance(other, int | float)
            and float(one) == float(other)
        )
    return type(one) is type(other) and bool(one == other)
