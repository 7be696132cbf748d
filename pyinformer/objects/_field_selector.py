"""Field selectors: from `metadata.name=web,spec.nodeName!=n1` to a predicate on fields.

Selectors are immutable and have a canonical text. Only the server knows which fields a resource
supports: it refuses others with 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import final

from pyinformer.errors import InvalidSelectorError, InvalidTypeError
from pyinformer.objects._checks import check_iterable, check_text, plain_text
from pyinformer.objects._json_decoders import JSONValue

_TERM = re.compile(r"(?:[^\\,]|\\(?:.|\Z))+", re.DOTALL)
_OPERATOR = re.compile(r"!=|==?")
_PATH = re.compile(r"[^\s\\,=!]+")
_UNESCAPED = re.compile(r"[,=]|\\(?![\\,=])")
_ESCAPE = re.compile(r"\\([\\,=])")
_SPECIAL = re.compile(r"([\\,=])")
_BACKSLASHED = r"\\\1"


@final
@dataclass(frozen=True, slots=True, order=True)
class FieldRequirement:
    """One condition on one field.

    Attributes:
        path: the field, such as `spec.nodeName`.
        operator: `=` or `!=`.
        value: the value that it is compared with, unescaped.

    Raises:
        InvalidTypeError: one of them is not text.
    """

    path: str
    operator: str
    value: str

    def __post_init__(self) -> None:
        for name in ("path", "operator", "value"):
            given = getattr(self, name)
            if type(given) is not str:  # a member of an Enum would be shown by its name
                check_text(name, given)
                object.__setattr__(self, name, plain_text(given))

    def __str__(self) -> str:
        return f"{self.path}{self.operator}{_SPECIAL.sub(_BACKSLASHED, self.value)}"


@final
@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Selects objects by their fields; built by `parse`, which validates.

    Equal selectors have equal text: requirements are sorted and unique, and `==` becomes `=`.

    Attributes:
        requirements: the conditions, all of which must hold; without any, everything is selected.
    """

    requirements: tuple[FieldRequirement, ...] = ()

    def __post_init__(self) -> None:
        try:
            canonical = tuple(sorted(set(self.requirements)))
        except TypeError:  # checked only then: informers and lists parse their selectors
            shown, one = "FieldRequirements", FieldRequirement
            check_iterable("requirements", self.requirements, shown=shown, items=one)
            raise
        object.__setattr__(self, "requirements", canonical)

    @classmethod
    def parse(cls, selector: str | Mapping[str, str] | FieldSelector | None) -> FieldSelector:
        r"""Return the selector for a text or a mapping.

        Args:
            selector: text, with `\`, `,` and `=` in values escaped by a backslash; a mapping of
                paths to values, not escaped; None or an empty text selects everything.

        Raises:
            InvalidSelectorError: names the problem and its position, counted from 0.
            InvalidTypeError: it is not one of these forms.

        Source:
            apimachinery pkg/fields/selector.go, ParseSelector (which also takes paths that no
            resource can have: empty, or with spaces).
        """
        match selector:
            case FieldSelector():
                return selector
            case None:
                return cls()
            case str():
                return cls(tuple(_parse_text(selector)))
            case Mapping():
                return cls(tuple(_parse_mapping(selector)))
        reason = f"must be a text, a mapping or None, not {type(selector).__name__}"
        raise InvalidTypeError("field_selector", reason)

    def matches(self, get: Callable[[str], str]) -> bool:
        """Return whether an object is selected.

        Args:
            get: returns the value at a path, or an empty string if there is none.
        """
        return all(
            (get(each.path) == each.value) is (each.operator == "=") for each in self.requirements
        )

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that it reads, each once."""
        return tuple(dict.fromkeys(each.path for each in self.requirements))

    @property
    def name(self) -> str:
        """The `metadata.name` that it requires; empty if it requires none, or several."""
        names = {
            each.value
            for each in self.requirements
            if each.path == "metadata.name" and each.operator == "="
        }
        return names.pop() if len(names) == 1 else ""

    @property
    def is_empty(self) -> bool:
        """Whether everything is selected."""
        return not self.requirements

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def _parse_text(text: str) -> Iterator[FieldRequirement]:
    for term in _TERM.finditer(text):
        start = term.start()
        operator = _OPERATOR.search(text, start, term.end())
        if operator is None:
            raise _error(text, start, f"{term[0]!r} must have one of =, == and !=")
        path, value = text[start : operator.start()], text[operator.end() : term.end()]
        if not _PATH.fullmatch(path):
            raise _error(text, start, f"{path!r} is not a field path such as 'metadata.name'")
        stray = _UNESCAPED.search(_ESCAPE.sub("__", value))
        if stray is not None:
            problem = f"{stray[0]!r} in a value: write a backslash before each of '\\', ',' and '='"
            raise _error(text, operator.end() + stray.start(), problem)
        sign = "!=" if operator[0] == "!=" else "="
        yield FieldRequirement(path, sign, _ESCAPE.sub(r"\1", value))


def _error(text: str, position: int, problem: str) -> InvalidSelectorError:
    return InvalidSelectorError(
        text, f"at position {position}: {problem}", argument="field_selector"
    )


def _parse_mapping(selector: Mapping[str, str]) -> Iterator[FieldRequirement]:
    fields: dict[JSONValue, JSONValue] = dict(selector)  # as given, whatever its type promises
    for path, value in fields.items():
        if isinstance(path, str) and isinstance(value, str) and _PATH.fullmatch(path):
            yield FieldRequirement(plain_text(path), "=", plain_text(value))
            continue
        reason = f"it maps {path!r} to {value!r}, not the path of a field to text"
        raise InvalidSelectorError(str(fields), reason, argument="field_selector")
