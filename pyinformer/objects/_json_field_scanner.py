r"""The fields of a JSON object, read without recursion and in pieces of any size.

The decoder of whole objects fails on objects that are nested too deeply, and objects that are too
long are never held as a whole. Both are read here: nesting is counted, strings are skipped, and
each field is kept up to a limit. Values are not validated, but each ends where its own brackets
end. Reading stops after 10,000 fields of one object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from functools import cache
from itertools import accumulate
from typing import Final, TypeAlias, final

import msgspec
from msgspec import Raw, Struct

from pyinformer.objects._decoding_structs import decode_fields, encode
from pyinformer.objects._json_decoders import decoder_of

Fields: TypeAlias = dict[str, Raw]
"""The fields of a JSON object, by name, not decoded."""

_MOST_BRACKETS: Final = 2 << 20  # a server stores a quarter of it; this many take some two seconds
METADATA_BYTES: Final = 1 << 20
"""How much is kept of the metadata of an object that is too long; annotations end at 256 KiB."""

_SHALLOW_LEVELS: Final = 48
_NAME_BYTES: Final = 16 << 20  # more than a server stores of a whole object
_EVERYTHING: Final = 1 << 62
# Fields are read one by one, in some 10 us of Python code each; no normal object has so many.
_MAX_FIELDS: Final = 10_000
_QUOTE: Final = ord('"')
_OPENING: Final = ord("{")
_CLOSING: Final = ord("}")
_BLANK: Final = b" \t\r\n"
_KIND: Final = ("kind", "apiVersion")
_IDENTITY: Final = ("namespace", "name", "uid", "resourceVersion")

# Possessive throughout: no byte is read twice, whatever the input. A string without an end is read
# to the end of the text, or a search would begin again at each of its quotes.
_STRING: Final = rb'[^"\\]*+(?:\\.[^"\\]*+)*+'
_blank = re.compile(rb"[ \t\r\n]*+").match
_string = re.compile(_STRING, re.DOTALL).match
_scalar = re.compile(rb"[-+.\w]*+").match
_FLAT: Final = rb'[^][{}"]++|"' + _STRING + rb'"'
_UNIT: Final = _FLAT + rb"|[][{}]"
# What is read beyond the end of a container is read again, so a long reach has to be earned.
_reaches = [
    re.compile(rb"(?:%b){1,%d}+" % (_UNIT, reach), re.DOTALL).match for reach in (128, 512, 4096)
]
_STRING_OR_REST: Final = rb'"' + _STRING + rb'(?:"|\\?\Z)'
_brackets = re.compile(rb"[][{}]|" + _STRING_OR_REST, re.DOTALL).finditer
_without_strings = re.compile(_STRING_OR_REST, re.DOTALL).sub
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = [(byte in b"[{") - (byte in b"]}") for byte in range(256)]
_decode_text = decoder_of(str, skims=True)


@cache  # compiled when it is needed, which takes 10 ms: most programs meet nothing deep or long
def _members(name: bytes) -> Callable[[bytes, int], re.Match[bytes] | None]:
    """Return a pattern of members with a comma behind each, none nested deeply."""
    container = rb"[{\[](?:%b)*+[\]}]" % _FLAT
    for _ in range(_SHALLOW_LEVELS - 1):
        container = rb"[{\[](?:%b|%b)*+[\]}]" % (_FLAT, container)
    value = rb'"%b"|[-+.\w]++|%b' % (_STRING, container)
    parts = (rb"", name, rb":", rb"(?:%b)" % value, rb",")
    blank = rb"[ \t\r\n]*+"
    return re.compile(rb"(?:%b){1,2048}+" % blank.join(parts), re.DOTALL).match


_ANY: Final = rb'"%b"' % _STRING
_OTHER: Final = rb'"(?!(?:kind|apiVersion|metadata|object|type)")[^"\\]*+"'
"""The name of any member, and of one that a reader of metadata neither keeps nor looks into."""

_Reading: TypeAlias = Generator[None, None, None]
"""Reads on whenever it is resumed; it pauses where the text at hand ends."""


class _TooManyFieldsError(msgspec.DecodeError):
    """The object has more fields than are read: all of them would block the loop for seconds."""


@final
class _Room:
    """How many bytes may still be kept."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left


@final
class _Kept:
    """The bytes of one value, until they are too many."""

    __slots__ = ("is_whole", "room", "text")

    def __init__(self, room: _Room | None) -> None:
        self.room = room
        self.text = bytearray()
        self.is_whole = room is not None

    def add(self, data: bytes, start: int, end: int) -> None:
        if not self.is_whole or self.room is None:
            return
        if len(self.text) + end - start > self.room.left:
            self.is_whole, self.text = False, bytearray()
        else:
            self.text += memoryview(data)[start:end]


class _ObjectText:
    """The text of an object that arrives in pieces, and where in it the reading is."""

    def __init__(self) -> None:
        self._data = b""
        self._at = 0

    def _next(self) -> Generator[None, None, int]:
        """Return the next byte that is not blank; it is not consumed."""
        while True:
            blank = _blank(self._data, self._at)
            self._at = self._at if blank is None else blank.end()
            if self._at < len(self._data):
                return self._data[self._at]
            yield

    def _expect(self, wanted: bytes) -> Generator[None, None, int]:
        found = yield from self._next()
        if found not in wanted:
            message = f"expected one of {wanted.decode()!r}"
            raise msgspec.DecodeError(message)
        self._at += 1
        return found

    def _object(
        self, read_field: Callable[[str], _Reading], pass_members: Callable[[], None] | None = None
    ) -> _Reading:
        """Read an object.

        Args:
            read_field: reads the value of a field, given its name.
            pass_members: consumes members that are not nested deeply, as many as it can at once:
                an object may have 100,000, and one by one they would take seconds.
        """
        yield from self._expect(b"{")
        if (yield from self._next()) == _CLOSING:
            self._at += 1
            return
        for _ in range(_MAX_FIELDS):
            if pass_members is not None:
                pass_members()
            name = yield from self._name()
            yield from self._expect(b":")
            yield from read_field(name)
            if (yield from self._expect(b",}")) == _CLOSING:
                return
        message = f"it has more than {_MAX_FIELDS} fields"
        raise _TooManyFieldsError(message)

    def _name(self) -> Generator[None, None, str]:
        if (yield from self._next()) != _QUOTE:
            message = "expected the name of a field"
            raise msgspec.DecodeError(message)
        kept = _Kept(_Room(_NAME_BYTES))
        yield from self._rest_of_string(kept)
        text = bytes(kept.text)
        if not kept.is_whole:
            return ""  # nothing that is wanted has such a name
        return _decode_text(text) if b"\\" in text else text[1:-1].decode()

    def _value(self, kept: _Kept) -> _Reading:
        first = yield from self._next()
        if first == _QUOTE:
            yield from self._rest_of_string(kept)
        elif first in b"[{":
            yield from self._container(kept)
        else:
            yield from self._plain(kept)

    def _plain(self, kept: _Kept) -> _Reading:
        """Read a number or a word, up to the byte that ends it."""
        size = 0
        while True:
            end = _end_of(_scalar(self._data, self._at), self._at)
            size += end - self._at
            self._take(kept, end)
            if end < len(self._data):
                break
            yield
        if size == 0:
            message = "expected a value"
            raise msgspec.DecodeError(message)

    def _rest_of_string(self, kept: _Kept) -> _Reading:
        """Read a string, from its first quote to its last."""
        self._take(kept, self._at + 1)
        is_escaped = False
        while True:
            if self._at < len(self._data):
                end = _end_of(_string(self._data, self._at + is_escaped), len(self._data))
                if end < len(self._data) and self._data[end] == _QUOTE:
                    self._take(kept, end + 1)
                    return
                is_escaped = end < len(self._data)  # a backslash is the last byte at hand
                self._take(kept, len(self._data))
            yield

    def _container(self, kept: _Kept) -> _Reading:
        """Read an array or an object, however deep, up to the bracket that closes it."""
        depth = steps = 0
        while True:
            found = _reaches[min(steps, len(_reaches) - 1)](self._data, self._at)
            steps += 1
            if found is None:
                if self._at < len(self._data):  # a string that does not end in here
                    yield from self._rest_of_string(kept)
                else:
                    yield
                continue
            depth, end = _depth_behind(self._data, self._at, found.end(), depth)
            self._take(kept, end)
            if depth == 0:
                return

    def _take(self, kept: _Kept, end: int) -> None:
        kept.add(self._data, self._at, end)
        self._at = end


def _end_of(match: re.Match[bytes] | None, otherwise: int) -> int:
    return otherwise if match is None else match.end()


def _depth_behind(data: bytes, start: int, end: int, depth: int) -> tuple[int, int]:
    """Return how deep the nesting is at `end`, or 0 and where it came back to the top."""
    marks = _without_strings(b"", data[start:end]).translate(None, _NO_BRACKETS)
    closing = marks.count(b"]") + marks.count(b"}")
    if depth > closing:
        return depth + len(marks) - 2 * closing, end
    depths = list(accumulate(map(_STEPS.__getitem__, marks), initial=depth))
    if 0 not in depths[1:]:
        return depths[-1], end
    wanted = depths.index(0, 1)
    for one in _brackets(data, start, end):
        wanted -= data[one.start()] != _QUOTE
        if wanted == 0:
            return 0, one.end()
    return depths[-1], end


@final
class _Splitter(_ObjectText):
    """Takes a whole text apart."""

    def __init__(self, text: bytes) -> None:
        super().__init__()
        self.fields: Fields = {}
        self._data = text

    def split(self) -> Fields:
        for _ in self._object(self._field, self._pass_members):
            message = "it is cut off"
            raise msgspec.DecodeError(message)
        if self._data[self._at :].strip(_BLANK):
            message = f"something follows it at byte {self._at}"
            raise msgspec.DecodeError(message)
        return self.fields

    def _pass_members(self) -> None:
        while (found := _members(_ANY)(self._data, self._at)) is not None:
            self._at = found.end()
            self.fields.update(decode_fields(b"{%b}" % found[0][:-1]))

    def _field(self, name: str) -> _Reading:
        kept = _Kept(_Room(_EVERYTHING))
        yield from self._value(kept)
        self.fields[name] = Raw(bytes(kept.text))


def fields_of(text: bytes | Raw) -> Fields:
    """Return the fields of a JSON object, however deep its values are.

    Raises:
        msgspec.DecodeError: the text is not exactly one object, or has too many fields beside one
            that is nested too deeply.
        UnicodeDecodeError: the name of a field is not UTF-8.
    """
    try:
        return decode_fields(text)
    except RecursionError:
        whole = bytes(text)
        marks = _without_strings(b"", whole)
        if marks.count(b"[") + marks.count(b"{") > _MOST_BRACKETS:
            message = f"it is nested too deeply, and more than {_MOST_BRACKETS} values have fields"
            raise msgspec.DecodeError(message) from None
        return _Splitter(whole).split()


@final
class MetadataReader(_ObjectText):
    """Read what a JSON object is and its metadata, wherever they stand in a text of any length.

    Args:
        is_event: the text is an event of a watch, whose field `object` is the object.
    """

    def __init__(self, *, is_event: bool = False) -> None:
        super().__init__()
        self.metadata: dict[str, bytes | None] = {}
        """The text of each field of metadata so far; None for one that is too long."""
        self._is_event = is_event
        self._outer: dict[str, bytes] = {}
        self._identity, self._others = _Room(METADATA_BYTES), _Room(METADATA_BYTES)
        self._reading = self._object(
            self._event_field if is_event else self._field, self._pass_members
        )
        self._is_complete = self._is_malformed = False
        self._is_cut = False  # what follows is not read

    @property
    def held_bytes(self) -> int:
        """How many bytes are kept of what was read."""
        return 2 * METADATA_BYTES - self._identity.left - self._others.left

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the text, whatever their number."""
        self._data, self._at = data, 0
        try:
            if not (self._is_complete or self._is_malformed):
                next(self._reading)
        except StopIteration:
            self._is_complete = True
        except _TooManyFieldsError:
            self._is_complete = self._is_cut = True
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._is_malformed = True
        if self._is_complete and not self._is_cut and data[self._at :].strip(_BLANK):
            self._is_malformed = True
        self._data, self._at = b"", 0

    def head(self) -> bytes:
        """Return the object again, as JSON, with its kind and its metadata alone.

        A field of metadata that is too long is null in it, and managedFields are left out. Of an
        object with more than 10,000 fields it has what was read before, and all of its metadata or
        none.

        Returns:
            Nothing if the text was not exactly one object.
        """
        if self._is_malformed or not self._is_complete:
            return b""
        metadata = {name: text or b"null" for name, text in self.metadata.items()}
        outer: dict[str, bytes] = {name: self._outer[name] for name in _KIND if name in self._outer}
        if "metadata" in self._outer:
            outer["metadata"] = _joined(metadata) if metadata else self._outer["metadata"]
        if self._is_event:
            return _joined({"type": self._outer.get("type", b"null"), "object": _joined(outer)})
        return _joined(outer)

    def _pass_members(self) -> None:
        """Skip members that are neither kept nor read."""
        while (found := _members(_OTHER)(self._data, self._at)) is not None:
            self._at = found.end()

    def _event_field(self, name: str) -> _Reading:
        if name == "object":
            yield from self._object(self._field, self._pass_members)
        elif name == "type":
            yield from self._outer_field(name)
        else:
            yield from self._value(_Kept(None))

    def _field(self, name: str) -> _Reading:
        if name == "metadata":
            self.metadata = {}  # of two, the later counts
        if name == "metadata" and (yield from self._next()) == _OPENING:
            self._outer[name] = b"{}"
            try:
                yield from self._object(self._metadata_field)
            except _TooManyFieldsError:  # what identifies the object may be behind them
                del self._outer[name]
                self.metadata = {}
                raise
        elif name in _KIND or name == "metadata":
            yield from self._outer_field(name)
        else:
            yield from self._value(_Kept(None))

    def _outer_field(self, name: str) -> _Reading:
        kept = _Kept(self._identity)
        yield from self._value(kept)
        self._identity.left -= len(kept.text)
        self._outer[name] = bytes(kept.text) or b"null"

    def _metadata_field(self, name: str) -> _Reading:
        room = self._identity if name in _IDENTITY else self._others
        kept = _Kept(None if name == "managedFields" else room)
        yield from self._value(kept)
        if name != "managedFields":
            room.left -= len(kept.text) + len(name)
            self.metadata[name] = bytes(kept.text) if kept.is_whole else None


def _joined(fields: dict[str, bytes]) -> bytes:
    return b"{%s}" % b",".join(b"%s:%s" % (encode(name), text) for name, text in fields.items())


@final
class Identity(Struct, frozen=True, gc=False, rename="camel"):
    """The fields that identify an object; a text is empty if the object has no such field."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


def identity_in(text: bytes) -> Identity:
    """Return the identity of an object, however deep its fields are nested.

    Args:
        text: the object's, or its beginning; it may be anything.

    Returns:
        All empty if one of the four is not a text.
    """
    reader = MetadataReader()
    reader.feed(text)
    found = [reader.metadata.get(name, b'""') for name in _IDENTITY]
    try:
        return Identity(*("" if one == b"null" else _decode_text(one or b"") for one in found))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Identity()
