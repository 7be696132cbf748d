"""Models at the edges of what a CustomResourceDefinition can describe.

Each is either refused by the generator, which names the field, or its definition is accepted by the
real server: `tests/integration/test_odd_models.py` asks both.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import math
import uuid
from typing import Annotated, Any, Final, Literal

import msgspec
import pydantic
from msgspec import Meta
from pydantic.alias_generators import to_camel
from pydantic_core import core_schema


class Mode(enum.Enum):
    """A choice."""

    FAST = "fast"
    SAFE = "safe"


class Limits(msgspec.Struct, frozen=True):
    """A value with an optional choice."""

    mode: Mode | None = None
    size: Annotated[int, Meta(ge=1)] = 1
    note: str | None = None


class Outer(msgspec.Struct, frozen=True):
    """A value with another in it."""

    limits: Limits = Limits()
    names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Port:
    """A dataclass."""

    number: int = 80
    protocol: Literal["TCP", "UDP"] | None = None


class Pydantic(pydantic.BaseModel):
    """A pydantic model with a default instance."""

    model_config = pydantic.ConfigDict(frozen=True)

    mode: Mode | None = None
    level: int = pydantic.Field(default=1, ge=1)


class Named(pydantic.BaseModel):
    """A pydantic model that is read and written under the same names, and with the same types."""

    model_config = pydantic.ConfigDict(alias_generator=to_camel, populate_by_name=True)

    max_size: int = 1
    other_name: int = pydantic.Field(default=1, alias="theName")
    of_both: int = pydantic.Field(default=1, validation_alias="same", serialization_alias="same")
    one_of: int = pydantic.Field(default=1, validation_alias=pydantic.AliasChoices("oneOf", "two"))
    rounded: float = 1.0
    text_or_number: int | str = 1
    unknown: int = 1
    size: pydantic.ByteSize | None = None
    inner: list[Pydantic] | None = None

    @pydantic.field_serializer("rounded", "text_or_number")
    def _rounded(self, value: float | str) -> int:
        return round(float(value))

    @pydantic.field_serializer("unknown")
    def _unknown(self, value: Any) -> Any:
        return value

    @pydantic.computed_field
    def computed(self) -> int:
        """Return something that is only written."""
        return self.max_size


class Foreign:
    """A class of another library, of which pydantic knows how it is read."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        """Return how it is read."""
        return core_schema.is_instance_schema(cls)


class WrittenOtherwise(pydantic.BaseModel):
    """A pydantic model that is written under another name than it is read."""

    max_size: int = pydantic.Field(default=1, validation_alias="maxSize")


def struct(kind: Any, *default: Any) -> type:
    """Return a model with one field in its spec."""
    field = ("field", kind, *default)
    spec = msgspec.defstruct("Spec", [field])
    return msgspec.defstruct("Odd", [("spec", spec)])


def text(pattern: str) -> type:
    """Return a model with a pattern, which need not be one of Python's."""
    return extra(str, pattern=pattern)


def extra(kind: Any, *default: Any, **schema: Any) -> type:
    """Return a model with more in the JSON Schema of its field."""
    return struct(Annotated[kind, Meta(extra_json_schema=schema)], *default)


def pydantic_field(kind: Any, **options: Any) -> type:
    """Return a pydantic model with one field in its spec."""
    spec = pydantic.create_model("Spec", field=(kind, pydantic.Field(**options)))
    return pydantic.create_model("Odd", spec=(spec, ...))


def named(name: str) -> type:
    """Return a model whose field has this name in JSON."""
    spec = msgspec.defstruct("Spec", [("field", str, "")], rename={"field": name})
    return msgspec.defstruct("Odd", [("spec", spec)])


_FIELD: Final = "spec.field"
_READ_AS_TEXT: Final = pydantic.WithJsonSchema({"type": "string"}, mode="validation")
_AS_TEXT: Final = pydantic.PlainSerializer(str, return_type=str)

ACCEPTED: Final[dict[str, type]] = {
    "default-with-a-choice-that-is-none": struct(Limits, Limits()),
    "default-with-a-choice": struct(Limits, Limits(mode=Mode.SAFE)),
    "default-in-a-default": struct(Outer, Outer()),
    "dataclass-default": struct(Port, Port()),
    "default-list-of-instances": struct(tuple[Limits, ...], (Limits(),)),
    "default-map-of-instances": struct(
        dict[str, Limits], msgspec.field(default_factory=lambda: {"a": Limits()})
    ),
    "default-nested-none": struct(Limits | None, Limits(note=None)),
    "anything-with-none": struct(dict[str, Any], msgspec.field(default_factory=dict)),
    "pattern": text(r"^[a-z]([-a-z0-9]*[a-z0-9])?$"),
    "pattern-classes": text(r"\d+\s\w[^\W\d_](?:a|b)(?i:x)\b"),
    "pattern-named-group": text(r"(?P<year>\d{4})-\d{2}"),
    "pattern-1000": text(r"a{1,1000}"),
    "pattern-lazy": text(r"a+?b*?c??d{1,2}?"),
    "pattern-end": text(r"\Aabc$"),
    "pattern-flags": text(r"(?is)abc"),
    "pattern-unicode": text("^größe[ä-ü]$"),
    "default-matches": struct(Annotated[str, Meta(pattern="^a+$")], "aa"),
    "bound-2-62": struct(Annotated[int, Meta(ge=-(2**62), le=2**62)]),
    "bound-float": struct(Annotated[float, Meta(ge=-1.5, le=2.5)]),
    "bound-zero": struct(Annotated[int, Meta(ge=0)], 0),
    "literal-large": struct(Literal[9007199254740993, 1]),
    "int-default-large": struct(int, 2**63 - 1),
    "int-default-small": struct(int, -(2**63)),
    "float-default-large": struct(float, 1e308),
    "float-default-whole": struct(float, 2.0),
    "default-time": struct(dt.datetime, dt.datetime(2026, 1, 1, tzinfo=dt.UTC)),
    "default-uuid": struct(uuid.UUID, uuid.UUID(int=5)),
    "default-bytes": struct(bytes, b""),
    "default-set": struct(frozenset[str], frozenset({"a", "b"})),
    "int-or-string-default": struct(int | str, "50%"),
    "int-or-string-null": struct(int | str | None, None),
    "name-y": named("y"),
    "name-empty": named(""),
    "name-with-dots": named("a.b/c d"),
    "name-dollar": named("$ref"),
    "pydantic-names": pydantic_field(Named),
    "written-without-a-schema": pydantic_field(Annotated[Foreign, _READ_AS_TEXT]),
    "names-of-the-server": pydantic.create_model(
        "Odd",
        kind=(str, pydantic.Field(default="Odd", exclude=True)),
        metadata=(WrittenOtherwise, pydantic.Field(default_factory=WrittenOtherwise)),
        spec=(Pydantic, ...),
    ),
    "pydantic-instance": pydantic_field(Pydantic, default=Pydantic(level=5)),
    "length": struct(Annotated[str, Meta(min_length=0, max_length=2**31)]),
    "empty-struct": struct(msgspec.defstruct("Empty", [])),
    "list-of-lists": struct(list[list[int]]),
    "map-of-maps": struct(dict[str, dict[str, bool]]),
    "long-description": struct(Annotated[str, Meta(description="x " * 10_000)]),
    "default-ipv4": extra(str, "10.0.0.1", format="ipv4"),
    "default-uri": extra(str, "https://example.com/a", format="uri"),
    "default-email": extra(str, "a@example.com", format="email"),
    "default-hostname": extra(str, "a.example.com", format="hostname"),
    "default-date": struct(dt.date, dt.date(2026, 1, 1)),
    "default-duration": struct(dt.timedelta, dt.timedelta(seconds=5)),
    "default-int32": extra(int, 2**31 - 1, format="int32"),
    "bound-int32": extra(int, 0, format="int32", minimum=-(2**31) + 1, maximum=2**31 - 1),
    "default-null-in-anything": pydantic_field(dict[str, Any], default={"a": None}),
    "default-nul": struct(str, "a\0b"),
    "int-of-whole-float": pydantic_field(int, default=2.0),
    "float-of-large-int": struct(float, 2**70),
    "least-and-most-bounds": struct(Annotated[int, Meta(ge=-(2**63) + 1024, le=2**63 - 1024)], 0),
    "literal-2-63": pydantic_field(Literal[9223372036854775808, 1]),
    "length-most": pydantic_field(str, max_length=2**63 - 1),
    "set-of-floats": struct(set[float]),
    "list-map": extra(
        list[Limits],
        **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["size"]},
    ),
    "map-atomic": extra(dict[str, str], **{"x-kubernetes-map-type": "atomic"}),
    "embedded": extra(dict[str, Any], **{"x-kubernetes-embedded-resource": True}),
    "pattern-empty": text(""),
    "pattern-escapes": text(r"\a\f\v\b\B\0\012\x41\x{1F600}\/\-\_\ [^]a][[a][&&--||~~]"),
    "pattern-braces": text(r"a{,5}b{x}{c{01}"),
    "pattern-only-in-go": text(r"^\p{Greek}(?<x>a)\Q(?!\E[[:alpha:]]\z"),
    "pattern-flags-inside": text(r"a(?i)b(?-i:c)"),
    "default-matches-posix": extra(str, "a-1", pattern="^[[:alpha:]][[:alnum:]-]+$"),
    "default-matches-go": extra(str, "a{,5}b", pattern=r"^(?<x>a)\{,5}[&|~[]?b\z"),
    "default-multiple-of-2": struct(Annotated[float, Meta(multiple_of=2)], 4.0),
    "default-multiple-large": struct(Annotated[int, Meta(multiple_of=3)], 3 * (2**60 + 1)),
    "default-ipv4-with-zeros": extra(str, "010.0.0.1", format="ipv4"),
    "default-ipv4-in-ipv6": extra(str, "::ffff:1.2.3.4", format="ipv4"),
    "default-time-with-any-offset": extra(str, "2026-01-01t00:00:00+99:99", format="date-time"),
    "default-date-of-year-0": extra(str, "0000-02-29", format="date"),
    "default-uri-without-host": extra(str, "mailto:a b", format="uri"),
    "default-hostname-symbol": extra(str, "☺.example.com", format="hostname"),
    "pattern-repeats-of-repeats": text(r"(?:a{10}){100}(?:b*)*"),
}
"""Models whose definitions both servers accept."""

REFUSED: Final[dict[str, tuple[type, str]]] = {
    "name-of-reading": (pydantic_field(int, validation_alias="read", default=1), "spec.read"),
    "name-of-writing": (pydantic_field(int, serialization_alias="written", default=1), _FIELD),
    "name-of-reading-not-the-first": (
        pydantic_field(int, validation_alias=pydantic.AliasChoices("read", "field"), default=1),
        "spec.read",
    ),
    "name-in-an-object": (pydantic_field(WrittenOtherwise), f"{_FIELD}.maxSize"),
    "name-in-an-optional-object": (
        pydantic_field(WrittenOtherwise | None, default=None),
        f"{_FIELD}.maxSize",
    ),
    "name-in-a-list": (pydantic_field(list[WrittenOtherwise]), f"{_FIELD}[].maxSize"),
    "name-in-a-map": (pydantic_field(dict[str, WrittenOtherwise]), f"{_FIELD}.*.maxSize"),
    "name-at-the-top": (
        pydantic.create_model("Odd", spec=(Pydantic, pydantic.Field(serialization_alias="Spec"))),
        "spec",
    ),
    "name-of-the-server": (
        pydantic.create_model(
            "Odd",
            spec=(Pydantic, ...),
            meta=(dict[str, Any], pydantic.Field(validation_alias="metadata")),
        ),
        "metadata",
    ),
    "never-written": (pydantic_field(int, exclude=True, default=1), _FIELD),
    "written-as-text": (pydantic_field(Annotated[int, _AS_TEXT], default=1), _FIELD),
    "written-as-text-or-null": (pydantic_field(Annotated[int, _AS_TEXT] | None), _FIELD),
    "written-as-text-in-a-list": (pydantic_field(list[Annotated[int, _AS_TEXT]]), f"{_FIELD}[]"),
    "read-from-text": (pydantic_field(pydantic.Json[list[int]]), _FIELD),
    "default-not-a-hostname": (extra(str, "a.1", format="hostname"), _FIELD),
    "default-not-a-uri": (extra(str, "https://a b/c", format="uri"), _FIELD),
    "default-not-a-time": (extra(str, "2026-01-01T23:59:60Z", format="date-time"), _FIELD),
    "pattern-look-ahead": (text(r"^(?!kube-).*$"), _FIELD),
    "pattern-look-ahead-positive": (text(r"^(?=.*\d).*$"), _FIELD),
    "pattern-look-behind": (text(r"(?<=a)b"), _FIELD),
    "pattern-look-behind-not": (text(r"(?<!a)b"), _FIELD),
    "pattern-back-reference": (text(r"(a)\1"), _FIELD),
    "pattern-named-reference": (text(r"(?P<x>a)(?P=x)"), _FIELD),
    "pattern-possessive": (text(r"a++"), _FIELD),
    "pattern-atomic": (text(r"(?>a)"), _FIELD),
    "pattern-conditional": (text(r"(a)?(?(1)b|c)"), _FIELD),
    "pattern-comment": (text(r"a(?#comment)b"), _FIELD),
    "pattern-python-end": (text(r"^a\Z"), _FIELD),
    "pattern-python-escape": (text(r"\u00e9"), _FIELD),
    "pattern-verbose": (text(r"(?x) a b"), _FIELD),
    "pattern-ascii-flag": (text(r"(?a)\w"), _FIELD),
    "pattern-1001": (text(r"a{1001}"), _FIELD),
    "pattern-nested-repeat": (text(r"(?:a{100}){100}"), _FIELD),
    "pattern-malformed": (text(r"(a"), _FIELD),
    "default-under-its-bound": (struct(Annotated[int, Meta(ge=1)], 0), _FIELD),
    "multiple": (struct(Annotated[float, Meta(multiple_of=0.5)], 1.5), _FIELD),
    "default-multiple-of-0.01": (struct(Annotated[float, Meta(multiple_of=0.01)], 0.07), _FIELD),
    "default-multiple-of-0.1": (struct(Annotated[float, Meta(multiple_of=0.1)], 0.3), _FIELD),
    "default-multiple-cut": (struct(Annotated[float, Meta(multiple_of=0.01)], 0.29), _FIELD),
    "default-multiple-negative": (struct(Annotated[float, Meta(multiple_of=0.01)], -0.07), _FIELD),
    "bound-beyond-int64": (struct(Annotated[float, Meta(le=1e300)]), _FIELD),
    "bound-fraction-excluded": (struct(Annotated[float, Meta(lt=2.5)]), _FIELD),
    "bound-fraction-excluded-below": (struct(Annotated[float, Meta(gt=-2.5)]), _FIELD),
    "default-hidden": (
        pydantic_field(pydantic.SecretStr, default=pydantic.SecretStr("x")),
        _FIELD,
    ),
    "default-over-its-bound": (struct(Annotated[int, Meta(lt=5)], 5), _FIELD),
    "default-too-long": (struct(Annotated[str, Meta(max_length=2)], "abc"), _FIELD),
    "default-too-short": (struct(Annotated[str, Meta(min_length=1)], ""), _FIELD),
    "default-does-not-match": (struct(Annotated[str, Meta(pattern="^a+$")], "b"), _FIELD),
    "default-not-a-multiple": (struct(Annotated[int, Meta(multiple_of=5)], 7), _FIELD),
    "default-whole-of-a-half": (struct(Annotated[float, Meta(multiple_of=0.5)], 3), _FIELD),
    "default-not-a-multiple-large": (
        struct(Annotated[int, Meta(multiple_of=3)], 3 * 2**60 + 1),
        _FIELD,
    ),
    "default-with-a-line-feed": (extra(str, "abc\n", pattern="^abc$"), _FIELD),
    "default-not-ascii": (extra(str, "é", pattern=r"^\w$"), _FIELD),
    "default-not-posix": (extra(str, "1]", pattern="^[[:alpha:]]+$"), _FIELD),
    "default-not-a-choice": (pydantic_field(Literal["a", "b"], default="c"), _FIELD),
    "default-of-another-type": (pydantic_field(int, default="x"), _FIELD),
    "default-too-few": (
        struct(Annotated[tuple[str, ...], Meta(min_length=1)], ()),
        _FIELD,
    ),
    "default-in-an-instance": (struct(Limits, Limits(size=0)), f"{_FIELD}.size"),
    "default-in-a-list": (struct(tuple[Limits, ...], (Limits(size=-1),)), f"{_FIELD}[0].size"),
    "pydantic-default-in-an-instance": (
        pydantic_field(Pydantic, default=Pydantic.model_construct(level=0)),
        f"{_FIELD}.level",
    ),
    "float-inf": (struct(float, math.inf), _FIELD),
    "float-minus-inf": (struct(float, -math.inf), _FIELD),
    "float-nan": (struct(float, math.nan), _FIELD),
    "int-default-2-63": (struct(int, 2**63), _FIELD),
    "int-default-under-2-63": (struct(int, -(2**63) - 1), _FIELD),
    "bound-inf": (extra(float, maximum=math.inf), _FIELD),
    "bound-2-63": (pydantic_field(int, le=2**63, default=0), _FIELD),
    "bound-most-of-int64": (pydantic_field(int, le=2**63 - 1, default=0), _FIELD),
    "bound-under-2-63": (pydantic_field(int, ge=-(2**63), default=0), _FIELD),
    "bound-int32": (extra(int, 0, format="int32", maximum=2**31), _FIELD),
    "bound-1e400": (extra(float, maximum=10**400), _FIELD),
    "length-2-63": (pydantic_field(str, max_length=2**63), _FIELD),
    "default-null-in-a-list": (pydantic_field(list[int], default=[None]), f"{_FIELD}[0]"),
    "default-null-in-a-map": (pydantic_field(dict[str, int], default={"a": None}), f"{_FIELD}.a"),
    "default-unknown-field": (
        pydantic_field(Pydantic, default={"level": 1, "other": 2}),
        f"{_FIELD}.other",
    ),
    "default-not-whole": (pydantic_field(int, default=2.5), _FIELD),
    "default-twice-in-a-set": (
        pydantic_field(
            list[str],
            default=["a", "a"],
            json_schema_extra={"x-kubernetes-list-type": "set"},
        ),
        f"{_FIELD}[1]",
    ),
    "pattern-class-escape": (text(r"[\b]"), _FIELD),
    "pattern-class-range": (text(r"[a-\d]"), _FIELD),
    "pattern-unicode-escape": (text("\\\u00e9"), _FIELD),
    "pattern-character-name": (text(r"\N{DIGIT ONE}"), _FIELD),
    "pattern-unicode-flag": (text(r"(?u)a"), _FIELD),
    "pattern-group-name": (text("(?P<gr\u00f6\u00dfe>a)"), _FIELD),
    "pattern-nothing-to-repeat": (text("a|*b"), _FIELD),
    "pattern-range-backwards": (text("[z-a]"), _FIELD),
    "format-int32-default": (extra(int, 2**31, format="int32"), _FIELD),
    "format-uri-default": (extra(str, "", format="uri"), _FIELD),
    "format-email-default": (extra(str, "", format="email"), _FIELD),
    "format-hostname-default": (extra(str, "-", format="hostname"), _FIELD),
    "format-date-default": (extra(str, "2026-13-01", format="date"), _FIELD),
    "format-time-default": (extra(str, "x", format="date-time"), _FIELD),
    "format-ipv6-default": (extra(str, "10.0.0.1", format="ipv6"), _FIELD),
    "format-uuid-default": (extra(str, "x", format="uuid"), _FIELD),
    "list-map-without-keys": (extra(list[Limits], **{"x-kubernetes-list-type": "map"}), _FIELD),
    "list-map-unknown-key": (
        extra(
            list[Limits],
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["nothing"]},
        ),
        _FIELD,
    ),
    "list-map-optional-key": (
        extra(
            list[Limits],
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["note"]},
        ),
        _FIELD,
    ),
    "list-type-unknown": (extra(list[str], **{"x-kubernetes-list-type": "odd"}), _FIELD),
    "list-type-of-a-text": (extra(str, **{"x-kubernetes-list-type": "set"}), _FIELD),
    "map-type-of-a-text": (extra(str, **{"x-kubernetes-map-type": "atomic"}), _FIELD),
    "map-type-unknown": (extra(dict[str, str], **{"x-kubernetes-map-type": "odd"}), _FIELD),
    "embedded-text": (extra(str, **{"x-kubernetes-embedded-resource": True}), _FIELD),
    "format-ipv4-default": (extra(str, "x", format="ipv4"), _FIELD),
}
"""Models that the generator refuses, and the field that it names."""


TEXTS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "date": (
        ("2024-02-29", "0000-02-29", "2000-02-29"),
        ("2026-02-29", "1900-02-29", "2026-13-01", "2026-1-01", "2026-01-00", "", "2026-01-01Z"),
    ),
    "date-time": (
        (
            "2026-01-01T00:00:00Z",
            "2026-01-01t23:59:59z",
            "2026-01-01T00:00:00.123456789+00:00",
            "2026-01-01T00:00:00+99:99",
            "2026-01-01T00:00:00,5Z",
            "0000-01-01T00:00:00Z",
        ),
        (
            "2026-01-01T23:59:60Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00Z",
            "2026-02-30T00:00:00Z",
        ),
    ),
    "ipv4": (
        ("10.0.0.1", "010.0.0.001", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "00::01.2.3.4"),
        ("256.1.1.1", "1.2.3", "1.2.3.4.5", "::1", "1.2.3.4:80", "1:2.3.4.5", "1.2.3.", ""),
    ),
    "ipv6": (
        ("::", "::1", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::ffff:1.2.3.4"),
        ("fe80::1%eth0", "00001::", "1.2.3.4", "::ffff:01.2.3.4", "1:2:3:4:5:6:7:8::", "1::2::3"),
    ),
    "uuid": (
        ("123E4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"),
        ("123e4567-e89b-12d3-a456-42661417400", "123e4567_e89b-12d3-a456-426614174000"),
    ),
    "hostname": (
        ("a", "a-b", "a-", "1", "a.bc", "ä.öü", "x+y", "☺.com", "1.example", "a" * 63),
        ("", "-a", "a-b-c", "a.b", "1.2.3.4", "a_b", "a..bc", "example.com.", "a" * 64, "a.b+c"),
    ),
    "uri": (
        (
            "https://a:80/b?c%zz",
            "/x y",
            "//x",
            "*",
            "a:b",
            "mailto:a b%",
            "http://",
            "http://ä/",
            "http://u:p@h",
            "http://[fe80::1%25en0]:1/",
            "postgres://a:1,b:2/",
            "http://a<b>",
        ),
        (
            "",
            "a",
            "1a:b",
            ":a",
            "?a",
            "http://a b",
            "http://a/%zz",
            "http://a%20b",
            "http://a#b",
            "http://a:b",
            "http://a:1:2",
            "http://::1/",
            "http://[::1",
            "http://[1.2.3.4]/",
            "http://u^@h",
            "http://a\x7f",
        ),
    ),
}
"""By format, texts that kube-apiserver takes for one, and texts that it refuses."""
