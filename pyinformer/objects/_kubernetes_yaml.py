"""YAML as the programs of Kubernetes read it: kubectl, Helm and the API server use go-yaml 2.

Its plain scalars are neither those of PyYAML nor those of YAML 1.2: `y` is a boolean, `08` and
`1e3` are numbers, `22:22` and times are texts. What `load_yaml` returns is what Go reads. What the
others write is read by Go, by PyYAML and by readers of YAML 1.2 as the same values.

Source: go.yaml.in/yaml/v2, resolve.go and decode.go; sigs.k8s.io/yaml; k8s.io/apimachinery
pkg/util/yaml.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, final

import msgspec

from pyinformer.errors import InternalError
from pyinformer.objects._depth import MAX_DEPTH
from pyinformer.objects._json_decoders import JSONObject, JSONValue, decoder_of

if TYPE_CHECKING:
    import yaml

_MAX_VALUES: Final = 4_000_000  # of which it takes a second or two to count
_INDENTED: Final = 50  # levels; deeper ones stand in one line, or indents would be most of the text
_ONE_LINE: Final = 1 << 30  # lines are not folded

_GoScalar: TypeAlias = str | float | bool | None  # an int as well
_WORDS: Final[Mapping[str, _GoScalar]] = {
    **{
        word: True
        for name in ("y", "yes", "true", "on")
        for word in (name, name.title(), name.upper())
    },
    **{
        word: False
        for name in ("n", "no", "false", "off")
        for word in (name, name.title(), name.upper())
    },
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{f"{sign}{word}": math.inf for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[bB](?P<b>[01]+)|0[oO]?(?P<o>[0-7]+)|(?P<d>0|[1-9][0-9]*))"
)
_BASES: Final = {"x": 16, "b": 2, "o": 8, "d": 10}
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_INT64: Final = (1 << 63) - 1
_MAX_UINT64: Final = (1 << 64) - 1

_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "null": (type(None),),
    "timestamp": (str,),
}
# Up to 400,000 values almost all may be of aliases, from 4,000,000 on one in ten.
_FEW_VALUES: Final = 1_000
_MANY_VALUES: Final = (400_000, 4_000_000)
_ALIASES: Final = (0.99, 0.10)

# Characters that are line breaks in YAML or not allowed there, and the same in UTF-8.
_ALTERED: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufffe\uffff]")
_HIDDEN: Final = re.compile("[^ -~]")  # candidates; JSON itself has escaped the line breaks
_LAST_OF_BMP: Final = 0xFFFF
_ALTERED_BYTES: Final = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbf[\xbe\xbf]")
# Escapes of JSON that go-yaml refuses: of a slash, and of half a character.
_REFUSED_ESCAPES: Final = (b"\\/", b"\\ud", b"\\uD")
# In another line than its key, which YAML refuses; each run of blanks is read once.
_LATE_COLON: Final = re.compile(rb"(?<!\s)[^\S\r\n]*+[\r\n]\s*+:")
_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_LONG_INTEGER: Final = b"0" * 19  # perhaps out of range
# A key must not have more than 1,024 characters, with its quotes.
_LONG: Final = 1_000
_LONG_TEXT: Final = re.compile(rb'"[^"]{990}')
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)(\s*+:)?')  # without an end, the rest
_ESCAPE: Final = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)")
_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")
_SLASH: Final = re.compile(r"(?<!\\)(?:\\\\)*\\/")


class YAMLError(ValueError):
    """A text is not YAML that Go reads, or not a value that JSON can express.

    Attributes:
        problem: what is wrong, without the text.
        line: the line, from 1; None if it is not known.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {problem}" if line else problem)
        self.problem = problem
        self.line = line


@final
class YAMLLimitError(YAMLError):
    """A text has more levels or values than the caller allows."""


def load_yaml(
    text: str | bytes, *, max_depth: int = MAX_DEPTH, max_values: int = _MAX_VALUES
) -> JSONValue:
    """Return the first document of a text, as the API server reads it.

    Numbers become int64 or, if they do not fit, floats; the float 2.0 becomes the integer 2. Keys
    become texts, times stay texts. JSON of the same meaning is read as JSON, which is faster.

    Args:
        text: YAML or JSON; bytes of UTF-8, or of UTF-16 with a mark.
        max_depth: the levels that mappings and sequences may have.
        max_values: the values that it may have, aliases included.

    Returns:
        A value of the caller's own; None for an empty text.

    Raises:
        YAMLError: Go refuses the text, or it is over a limit.
    """
    try:
        raw = text.encode() if isinstance(text, str) else text
        if raw[:1] == b"{" and _is_json_for_yaml(raw):
            with contextlib.suppress(msgspec.DecodeError):  # YAML perhaps
                return _decode_json(raw)
        text = raw.decode("utf-16" if raw[:2] in _UTF_16 else "utf-8-sig")
    except UnicodeError:
        raise YAMLError("must be UTF-8") from None
    return _Reader(text, max_depth=max_depth, max_values=max_values).document()


def dump_yaml(value: JSONValue) -> str:
    """Return a JSON value as one document, without a line of dashes before it.

    All of it is printable. Texts of several lines are blocks, and repeated values are written in
    full.

    Args:
        value: a JSON value.
    """
    return _dump([value], explicit_start=False)


def dump_yaml_documents(documents: Iterable[JSONValue]) -> str:
    """Return documents, each after a line of three dashes; empty text for none."""
    return _dump(documents, explicit_start=True)


def yaml_scalar(text: str) -> str:
    """Return a text as a scalar of one line for a template of YAML, quoted where that is needed."""
    if _is_plain(text) and re.fullmatch(r"[\w/][-\w./@+]*(?::[-\w./@+]+)*", text, re.ASCII):
        return text
    return json_as_yaml(msgspec.json.encode(text))


def json_as_yaml(raw: bytes) -> str:
    """Return JSON as one line of printable YAML of the same value: for what is nested too deeply.

    Args:
        raw: JSON without white space.
    """
    text = _ESCAPE.sub(_unescaped, raw.decode())
    if not text.isprintable():
        text = _HIDDEN.sub(_escaped, text)  # before it is asked which keys are long
    return json_for_yaml(text.encode()).decode()


def _unescaped(found: re.Match[str]) -> str:
    """Return what a pair of surrogates and an escaped slash stand for, and other escapes as is."""
    if found[1]:
        return bytes.fromhex(found[1] + found[2]).decode("utf-16-be")
    return "/" if found[0] == r"\/" else found[0]


def _escaped(found: re.Match[str]) -> str:
    one = found[0]
    if one.isprintable():
        return one
    return f"\\u{ord(one):04x}" if ord(one) <= _LAST_OF_BMP else f"\\U{ord(one):08x}"


def json_for_yaml(raw: bytes) -> bytes:
    """Return JSON that a reader of YAML reads as the same value.

    Args:
        raw: JSON without white space, as msgspec encodes it.

    Returns:
        The same bytes in most cases; otherwise with escapes for the characters that YAML alters or
        refuses, and with a `?` before each key that is too long for it.
    """
    if not raw.isascii() or b"\x7f" in raw:
        raw = _ALTERED.sub(_escaped, raw.decode()).encode()
    if _may_have_long_keys(raw):
        raw = _STRING.sub(lambda found: b"? " + found[0] if _is_long_key(found) else found[0], raw)
    return raw


def _is_json_for_yaml(raw: bytes) -> bool:
    """Return whether text, if it is JSON, is read as the same value by a reader of YAML."""
    if (not raw.isascii() or b"\x7f" in raw) and _ALTERED_BYTES.search(raw):
        return False
    if b"\\" in raw and any(escape in raw for escape in _REFUSED_ESCAPES):
        return False
    if _LONG_INTEGER in raw.translate(_ZEROS) or _LATE_COLON.search(raw):
        return False
    return not (_may_have_long_keys(raw) and any(map(_is_long_key, _STRING.finditer(raw))))


def _may_have_long_keys(raw: bytes) -> bool:
    return len(raw) > _LONG and bool(_LONG_TEXT.search(raw) or b'\\"' in raw)


def _is_long_key(string: re.Match[bytes]) -> bool:
    return string[1] is not None and len(string[0]) > _LONG


# Scalars


def _go_scalar(text: str) -> _GoScalar:
    """Return what go-yaml makes of a plain scalar. An int is of int64 or uint64."""
    first = text[:1]
    if first in "yYnNtTfFoO~.":  # an empty text, too
        if text in _WORDS:
            return _WORDS[text]
        return _finite(text) if first == "." and _FLOAT.fullmatch(text) else text
    if first not in "+-0123456789":
        return text
    if text in _WORDS:
        return _WORDS[text]
    plain = text.replace("_", "")
    integer = _go_integer(plain)
    if integer is not None:
        return integer
    found = _finite(plain) if _FLOAT.fullmatch(plain) else plain
    return text if isinstance(found, str) else found


def _go_integer(plain: str) -> int | None:
    match = _INTEGER.fullmatch(plain)
    if match is None:
        return None
    (name, digits), *_ = ((name, digits) for name, digits in match.groupdict().items() if digits)
    found = int(digits, _BASES[name]) if len(digits) <= 64 else _MAX_UINT64 + 1  # noqa: PLR2004 - binary
    if match[1] == "-":
        return -found if found <= _MAX_INT64 + 1 else None
    return found if found <= (_MAX_INT64 if match[1] else _MAX_UINT64) else None


def _finite(text: str) -> float | str:
    found = float(text)
    return text if math.isinf(found) else found


def _number(number: float) -> float:
    """Return a number as the API server has it: an int64, or a float."""
    if isinstance(number, float) and not number.is_integer():
        return number
    whole = number if isinstance(number, int) else _whole(number)
    return whole if -_MAX_INT64 - 1 <= whole <= _MAX_INT64 else float(number)


def _whole(number: float) -> int:
    """Return the integer that Go writes for a float: its shortest digits, and zeros."""
    mantissa, _, power = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    zeros = int(power or 0) - len(fraction)
    return int(whole + fraction) * 10**zeros if zeros > 0 else int(number)


def _value_of(scalar: _GoScalar) -> JSONValue:
    if scalar is None or isinstance(scalar, bool | str):
        return scalar
    if not math.isfinite(scalar):
        raise YAMLError("JSON has neither infinity nor NaN")
    return _number(scalar)


def _key_of(scalar: _GoScalar) -> str:
    """Return the text that Kubernetes makes of a key."""
    if isinstance(scalar, str):
        return scalar
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    if isinstance(scalar, float):
        return _go_float32(scalar)
    if scalar is None or scalar > _MAX_INT64:
        raise YAMLError("a key must be a text, a boolean or a number of 64 bits")
    return str(scalar)


def _go_float32(number: float) -> str:
    """Return a float as strconv.FormatFloat(number, 'g', -1, 32) and go-yaml write it."""
    wanted = _float32(number)
    if not math.isfinite(wanted):
        return ".nan" if math.isnan(wanted) else f"{'-' if wanted < 0 else ''}.inf"
    digits = next(n for n in range(9) if n == 8 or _float32(float(f"{wanted:.{n}e}")) == wanted)  # noqa: PLR2004
    mantissa, _, exponent = f"{wanted:.{digits}e}".partition("e")
    power = int(exponent)
    if -4 <= power <= 5:  # noqa: PLR2004 - as Go's 'g' does without a precision
        return f"{wanted:.{max(digits - power, 0)}f}"
    return f"{mantissa}e{power:+03d}"


def _float32(number: float) -> float:
    try:
        return cast("float", struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


_decode: Final = decoder_of()
_decode_json: Final = decoder_of(JSONObject, float_hook=lambda text: _number(float(text)))


# Reading


def _copy(value: JSONValue) -> JSONValue:
    return _decode(msgspec.json.encode(value))


@final
class _Anchored:
    """What the aliases of an anchor stand for."""

    __slots__ = ("height", "size", "value")

    def __init__(self, value: JSONValue, size: int) -> None:
        self.value = value
        self.height = 0
        """Its levels."""
        self.size = size
        """Its values, those of aliases included; 0 before its end."""


@final
class _Collection:
    """A mapping or sequence whose end has not come yet."""

    __slots__ = ("anchored", "height", "is_merged", "key", "started", "values")

    def __init__(self, values: JSONValue, anchored: _Anchored | None, started: int) -> None:
        self.values = values
        self.anchored = anchored
        self.started = started
        self.height = 1
        """Its levels so far."""
        self.key: str | None = None
        self.is_merged = False
        """The key is `<<`: the value is merged into these."""


@final
class _Reader:
    """Builds the value of one document from its events, without recursion."""

    def __init__(self, text: str, *, max_depth: int, max_values: int) -> None:
        self._text = text
        self._has_slashes = "\\/" in text
        self._max_depth = max_depth
        self._max_values = max_values
        self._open = [_Collection([], None, 0)]  # which holds the document
        self._anchors: dict[str, _Anchored] = {}
        self._count = self._of_aliases = 0

    def document(self) -> JSONValue:
        """Return the first document; None if there is none."""
        import yaml  # noqa: PLC0415 - 15 ms of an import that few programs need

        takers: dict[type[yaml.Event], Callable[[Any], None]] = {
            yaml.DocumentStartEvent: self._check_version,
            yaml.ScalarEvent: self._scalar,
            yaml.AliasEvent: self._alias,
            yaml.SequenceStartEvent: lambda event: self._begin([], event),
            yaml.MappingStartEvent: lambda event: self._begin({}, event),
            yaml.SequenceEndEvent: self._end,
            yaml.MappingEndEvent: self._end,
        }
        line = None
        try:
            for event in yaml.parse(self._text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
                line = _mark(event.start_mark).line + 1
                if isinstance(event, yaml.DocumentEndEvent):
                    break
                if type(event) in takers:
                    takers[type(event)](event)
        except yaml.reader.ReaderError as error:
            raise YAMLError(str(error.reason)) from None
        except yaml.MarkedYAMLError as error:
            last = self._text.rstrip().count("\n")  # an open bracket is reported behind the end
            mark = error.problem_mark
            number = min(mark.line, last) + 1 if mark else line
            raise YAMLError(error.problem or str(error.context), number) from None
        except YAMLError as error:
            raise type(error)(error.problem, line) from None
        return self._result()

    def _result(self) -> JSONValue:
        values = self._open[0].values
        if not values:
            return None
        return _copy(values[0]) if self._of_aliases else values[0]

    def _check_version(self, event: yaml.DocumentStartEvent) -> None:
        if event.version not in {None, (1, 1)}:
            raise YAMLError("must be of YAML 1.1")

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._add_values(1)
        if event.style == '"' and self._has_slashes:
            written = self._text[_mark(event.start_mark).index : _mark(event.end_mark).index]
            if _SLASH.search(written):
                raise YAMLError("found unknown escape character")
        scalar = _tagged(event)
        if event.anchor:
            self._anchors[event.anchor] = _Anchored(scalar, 1)
        self._place(scalar, is_merge=event.value == "<<" and _is_merge(event))

    def _alias(self, event: yaml.AliasEvent) -> None:
        anchored = self._anchors.get(event.anchor or "")
        if anchored is None:
            raise YAMLError("an alias has no anchor")
        if not anchored.size:
            raise YAMLError("the value of an anchor contains itself")
        self._of_aliases += anchored.size
        self._add_values(1 + anchored.size)
        low, high = _MANY_VALUES
        part = min(max((self._count - low) / (high - low), 0.0), 1.0)
        allowed = _ALIASES[0] + part * (_ALIASES[1] - _ALIASES[0])
        if self._count > _FEW_VALUES and self._of_aliases > allowed * self._count:
            raise YAMLLimitError("contains excessive aliasing")
        self._grow(anchored.height)
        self._place(anchored.value)

    def _begin(self, values: JSONValue, event: yaml.CollectionStartEvent) -> None:
        self._check_depth(1)
        anchored = None
        if event.anchor:
            anchored = self._anchors[event.anchor] = _Anchored(values, 0)
        self._open.append(_Collection(values, anchored, self._count))
        self._add_values(1)

    def _end(self, event: yaml.CollectionEndEvent) -> None:
        del event
        done = self._open.pop()
        if done.anchored is not None:
            done.anchored.size = self._count - done.started
            done.anchored.height = done.height
        self._grow(done.height)
        self._place(done.values)

    def _grow(self, height: int) -> None:
        """Record the levels of a value in the innermost open collection."""
        self._check_depth(height)
        self._open[-1].height = max(self._open[-1].height, 1 + height)

    def _check_depth(self, height: int) -> None:
        if len(self._open) - 1 + height > self._max_depth:
            raise YAMLLimitError(f"must not be nested deeper than {self._max_depth} levels")

    def _add_values(self, number: int) -> None:
        self._count += number
        if self._count > self._max_values:
            reason = f"must not have more than {self._max_values} values, aliases included"
            raise YAMLLimitError(reason)

    def _place(self, found: _GoScalar | JSONValue, *, is_merge: bool = False) -> None:
        """Put a value where it belongs: into a sequence, or beside the key that came before."""
        place = self._open[-1]
        is_scalar = not isinstance(found, list | dict)
        if isinstance(place.values, list):
            place.values.append(_value_of(found) if is_scalar else found)
        elif place.key is None:
            if not is_scalar:
                raise YAMLError("a key must not be a mapping or a sequence")
            place.key, place.is_merged = _key_of(found), is_merge
        elif place.is_merged:
            place.key, place.is_merged = None, False
            for each in reversed(found) if isinstance(found, list) else [found]:
                if not isinstance(each, dict):
                    raise YAMLError("map merge requires map or sequence of maps as the value")
                place.values.update(each)
        else:
            place.values[place.key] = _value_of(found) if is_scalar else found
            place.key = None


def _mark(mark: yaml.error.Mark | yaml._yaml.Mark | None) -> yaml.error.Mark | yaml._yaml.Mark:
    """Return the mark that each event of a parser has."""
    if mark is None:
        raise InternalError("an event of the YAML parser has no mark")
    return mark


def _tagged(event: yaml.ScalarEvent) -> _GoScalar:
    """Return what go-yaml makes of a scalar."""
    tag, text = event.tag, event.value
    if tag is None:
        return _go_scalar(text) if event.implicit[0] else text
    name = tag.removeprefix(_TAG)
    if name == "binary":
        lines = text.replace("\r", "").replace("\n", "")  # which Go passes over, and no blanks
        try:
            return base64.b64decode(lines, validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            raise YAMLError("!!binary value contains invalid base64 data") from None
    types = _TYPES.get(name) if name != tag else None
    if types is None:
        return text
    found = _go_scalar(text)
    if type(found) not in types:
        raise YAMLError(f"a value is not of its type !!{name}")
    return float(found) if name == "float" and isinstance(found, int) else found


def _is_merge(event: yaml.ScalarEvent) -> bool:
    return event.implicit[0] if event.tag is None else event.tag in {"!", f"{_TAG}merge"}


# Writing


def _dump(documents: Iterable[JSONValue], *, explicit_start: bool) -> str:
    import yaml  # noqa: PLC0415 - as above

    given = list(documents)
    text = yaml.emit(
        _stream(given, explicit_start=explicit_start),
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        width=_ONE_LINE,
        allow_unicode=msgspec.json.encode(given).decode().isprintable(),
    )
    return str(text)


def _stream(documents: Iterable[JSONValue], *, explicit_start: bool) -> Iterator[yaml.Event]:
    import yaml  # noqa: PLC0415 - as above

    yield yaml.StreamStartEvent()
    for document in documents:
        yield yaml.DocumentStartEvent(explicit=explicit_start)
        yield from _node(document)
        yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _node(document: JSONValue) -> Iterator[yaml.Event]:
    """Yield the events of a value, without recursion."""
    import yaml  # noqa: PLC0415 - as above

    left: list[Iterator[JSONValue]] = [iter((document,))]
    ends: list[yaml.Event] = []
    while left:
        for value in left[-1]:
            flow = len(left) > _INDENTED
            if isinstance(value, dict):
                yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=flow)
                ends.append(yaml.MappingEndEvent())
                left.append(itertools.chain.from_iterable(value.items()))
                break
            if isinstance(value, list | tuple):
                yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=flow)
                ends.append(yaml.SequenceEndEvent())
                left.append(iter(value))
                break
            text, style = _scalar(value)
            yield yaml.ScalarEvent(None, None, (True, True), text, style=style)
        else:
            left.pop()
            if ends:
                yield ends.pop()


def _scalar(value: JSONValue) -> tuple[str, str | None]:
    """Return a scalar and its style; None where the text itself decides whether it is quoted."""
    if isinstance(value, str):
        if "\n" in value:
            return value, "|"
        return value, None if _is_plain(value) else "'"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value], None
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        point = "" if "." in mantissa else ".0"  # without it, YAML 1.1 reads a text
        return f"{mantissa}{point}{exponent}{power}", None
    return str(value), None


def _is_plain(text: str) -> bool:
    """Return whether a text without quotes is a text by the rules of Go and of YAML 1.1 and 1.2."""
    import yaml  # noqa: PLC0415 - as above

    if not isinstance(_go_scalar(text), str):
        return False
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers.get(text[:1], ())
    return not any(pattern.match(text) for _, pattern in resolvers)
