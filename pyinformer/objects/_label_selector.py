"""Label selectors: from a text or a mapping to a predicate on labels.

It reads the text that kubectl and the server accept, a mapping of labels, and a LabelSelector as
manifests have it. Selectors are immutable and have a canonical text. Every selector that parses
here is accepted by the server, and selects the same objects there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias, TypeGuard, final

from pyinformer.errors import InvalidSelectorError, InvalidTypeError
from pyinformer.objects._checks import check_iterable, check_text, plain_text
from pyinformer.objects._json_decoders import JSONValue

LabelPredicate: TypeAlias = Callable[[Mapping[str, str]], bool]

Selector: TypeAlias = str | Mapping[str, JSONValue] | None
"""A selector of labels or fields as callers write it; None for all objects."""

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+|\Z)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", ""})  # "": the end of the text
_OPERATORS = {"=": "=", "==": "=", "!=": "!=", ">": ">", "<": "<", "in": "in", "notin": "notin"}
_OBJECT_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NAME_MAX = 63
_PREFIX_MAX = 253
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_PREFIX = re.compile(rf"{_DNS_LABEL}(\.{_DNS_LABEL})*")
_INTEGER = re.compile(r"[+-]?[0-9]{1,63}")  # no label is longer, and int() of anything is slow
_IS_PLAIN = frozenset({str}).issuperset  # a member of an Enum would be shown by its name
_INT64 = range(-(2**63), 2**63)


@final
@dataclass(frozen=True, slots=True, order=True)
class LabelRequirement:
    """One condition on one label.

    Attributes:
        key: the label's key.
        operator: `=`, `!=`, `in`, `notin`, `exists`, `!` (does not exist), `>` or `<`.
        values: sorted, each once; empty for `exists` and `!`.

    Raises:
        InvalidTypeError: one of them is not text.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        values = self.values
        if type(values) is tuple and _IS_PLAIN(map(type, (self.key, self.operator, *values))):
            return  # reads parse their selectors
        check_text("key", self.key)
        check_text("operator", self.operator)
        check_iterable("values", values, shown="a tuple of texts")
        values = tuple(values)
        for value in values:
            check_text("values", value)
        object.__setattr__(self, "key", plain_text(self.key))
        object.__setattr__(self, "operator", plain_text(self.operator))
        object.__setattr__(self, "values", tuple(map(plain_text, values)))

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


@final
@dataclass(frozen=True, slots=True)
class LabelSelector:
    """Selects objects by their labels; built by `parse`, which validates.

    Equal selectors have equal text: requirements are sorted, without repetitions, and `==` is `=`.

    Attributes:
        requirements: the conditions, all of which must hold; without any, everything is selected.
        matches: returns whether labels satisfy all of them; a closure, compiled once.
    """

    requirements: tuple[LabelRequirement, ...] = ()
    matches: LabelPredicate = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            canonical = tuple(sorted(set(self.requirements)))
            compiled = _compile(canonical)
        except (AttributeError, TypeError):  # checked only then: reads parse their selectors
            shown, one = "LabelRequirements", LabelRequirement
            check_iterable("requirements", self.requirements, shown=shown, items=one)
            raise
        object.__setattr__(self, "requirements", canonical)
        object.__setattr__(self, "matches", compiled)

    @classmethod
    def parse(cls, selector: str | Mapping[str, JSONValue] | LabelSelector | None) -> LabelSelector:
        """Return the selector for a text or a mapping.

        Args:
            selector: text (`app=web,tier in (a,b),!canary,weight>5`); a mapping of labels that an
                object must have (`{"app": "web"}`); a mapping with `matchLabels` and
                `matchExpressions`, as in manifests; None or an empty text selects everything.

        Raises:
            InvalidSelectorError: names the problem and its position, counted from 0.
            InvalidTypeError: it is not one of these forms.

        Source:
            apimachinery pkg/labels/selector.go, Parse; pkg/apis/meta/v1/helpers.go,
            LabelSelectorAsSelector (where no selector at all selects nothing).
        """
        match selector:
            case LabelSelector():
                return selector
            case None:
                return cls()
            case str():
                return cls(_TextParser(selector).requirements())
            case Mapping():
                return cls(_MappingReader(selector).requirements())
        reason = f"must be a text, a mapping or None, not {type(selector).__name__}"
        raise InvalidTypeError("label_selector", reason)

    @property
    def is_empty(self) -> bool:
        """Whether everything is selected."""
        return not self.requirements

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __reduce__(self) -> tuple[object, ...]:
        return LabelSelector, (self.requirements,)


def _compile(requirements: tuple[LabelRequirement, ...]) -> LabelPredicate:
    if not requirements:
        return lambda _: True
    if len(requirements) == 1:
        return _compile_one(requirements[0])
    if all(requirement.operator == "=" for requirement in requirements):
        return _compile_equalities([(each.key, each.values[0]) for each in requirements])
    return _compile_all(tuple(map(_compile_one, requirements)))


def _compile_equalities(pairs: Sequence[tuple[str, str]]) -> LabelPredicate:
    def matches(labels: Mapping[str, str]) -> bool:
        get = labels.get
        for key, value in pairs:  # noqa: SIM110 - a generator costs more than the comparisons
            if get(key) != value:
                return False
        return True

    return matches


def _compile_all(predicates: tuple[LabelPredicate, ...]) -> LabelPredicate:
    def matches(labels: Mapping[str, str]) -> bool:
        for predicate in predicates:  # noqa: SIM110 - as above
            if not predicate(labels):
                return False
        return True

    return matches


def _compile_one(requirement: LabelRequirement) -> LabelPredicate:
    """Compile one requirement; a label that is absent reads as None, which equals no value."""
    key, values = requirement.key, frozenset(requirement.values)
    value = next(iter(values), "")
    match requirement.operator:
        case "=":
            return lambda labels: labels.get(key) == value
        case "!=":
            return lambda labels: labels.get(key) != value
        case "in":
            return lambda labels: labels.get(key) in values
        case "notin":
            return lambda labels: labels.get(key) not in values
        case "exists":
            return lambda labels: labels.get(key) is not None
        case "!":
            return lambda labels: labels.get(key) is None
        case operator:
            return _compile_comparison(key, int(value), greater=operator == ">")


def _compile_comparison(key: str, limit: int, *, greater: bool) -> LabelPredicate:
    def matches(labels: Mapping[str, str]) -> bool:
        number = _int64(labels.get(key, ""))
        if number is None:
            return False
        return number > limit if greater else number < limit

    return matches


def _int64(text: str) -> int | None:
    """Read an integer as the server does; Python's int() knows more digits and more notations."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INT64 else None


def _key_problem(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _PREFIX_MAX or not _PREFIX.fullmatch(prefix)):
        return (
            f"the prefix of the key {key!r} must be a DNS subdomain in lower case of at most"
            f" {_PREFIX_MAX} characters"
        )
    if len(name) > _NAME_MAX or not _NAME.fullmatch(name):
        return f"the key {key!r} is {_WANTED}"
    return None


def _value_problem(value: str, operator: str) -> str | None:
    if value and (len(value) > _NAME_MAX or not _NAME.fullmatch(value)):
        return f"the value {value!r} is {_WANTED}"
    if operator in {">", "<"} and _int64(value) is None:
        return f"{operator} compares with a 64-bit integer, not with {value!r}"
    return None


_WANTED = (
    f"not 1 to {_NAME_MAX} letters, digits, '-', '_' and '.', with a letter or digit at both ends"
)


class _TextParser:
    """Recursive descent over the tokens of one text.

    `in` and `notin` are operators only where an operator stands: a label may be called `in`.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [(match[1], match.start(1)) for match in _TOKEN.finditer(text)]
        self._next = 0

    def requirements(self) -> tuple[LabelRequirement, ...]:
        if self._peek() == "":
            return ()
        found = [self._requirement()]
        while self._peek():
            self._expect(",")
            found.append(self._requirement())
        return tuple(found)

    def _requirement(self) -> LabelRequirement:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._word("a label's key")
        self._check(_key_problem(key))
        if negated or self._peek() in {",", ""}:
            return LabelRequirement(key, "!" if negated else "exists")
        operator = _OPERATORS.get(self._take())
        if operator is None:
            self._fail_expecting("one of =, ==, !=, in, notin, >, < or ','")
        return LabelRequirement(key, operator, self._values(operator))

    def _values(self, operator: str) -> tuple[str, ...]:
        if operator not in {"in", "notin"}:
            return (self._value(operator, ends={",", ""}),)
        self._expect("(")
        values = {self._value(operator, ends={",", ")"})}
        while self._peek() != ")":
            self._expect(",", "',' or ')'")
            values.add(self._value(operator, ends={",", ")"}))
        self._take()
        return tuple(sorted(values))

    def _value(self, operator: str, *, ends: set[str]) -> str:
        value = "" if self._peek() in ends else self._word("a value")
        self._check(_value_problem(value, operator))
        return value

    def _peek(self) -> str:
        return self._tokens[self._next][0]

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token

    def _word(self, wanted: str) -> str:
        token = self._take()
        if token in _SYMBOLS:
            self._fail_expecting(wanted)
        return token

    def _expect(self, symbol: str, wanted: str = "") -> None:
        if self._take() != symbol:
            self._fail_expecting(wanted or repr(symbol))

    def _fail_expecting(self, wanted: str) -> NoReturn:
        token = self._tokens[self._next - 1][0]
        self._fail(f"expected {wanted}, found {repr(token) if token else 'the end'}")

    def _check(self, problem: str | None) -> None:
        if problem is not None:
            self._fail(problem)

    def _fail(self, problem: str) -> NoReturn:
        """Raise for the token taken last."""
        position = self._tokens[self._next - 1][1]
        raise InvalidSelectorError(self._text, f"at position {position}: {problem}")


class _MappingReader:
    """Reads the two forms of a mapping; errors name the path of a problem in it."""

    def __init__(self, selector: Mapping[str, JSONValue]) -> None:
        self._selector = selector

    def requirements(self) -> tuple[LabelRequirement, ...]:
        parts = ("matchLabels", "matchExpressions")
        # Text there would be the value of a label with that name.
        if not any(part in self._selector and not _is_text(self._selector[part]) for part in parts):
            return tuple(self._equalities(self._selector, "the mapping"))
        for name in self._selector.keys() - set(parts):
            self._fail("the mapping", f"has {name!r} beside matchLabels and matchExpressions")
        labels, expressions = (self._selector.get(part) for part in parts)
        if not isinstance(labels, Mapping | None):
            self._fail("matchLabels", "must be a mapping")
        if not isinstance(expressions, list | tuple | None):
            self._fail("matchExpressions", "must be a list")
        return (
            *self._equalities(labels or {}, "matchLabels"),
            *itertools.starmap(self._expression, enumerate(expressions or ())),
        )

    def _equalities(
        self, labels: Mapping[str, JSONValue], where: str
    ) -> Iterator[LabelRequirement]:
        for key, value in labels.items():
            if not _is_text(key) or not _is_text(value):
                self._fail(where, f"has {value!r} for {key!r}, and labels are text")
            self._check(where, _key_problem(key) or _value_problem(value, "="))
            yield LabelRequirement(plain_text(key), "=", (plain_text(value),))

    def _expression(self, number: int, expression: JSONValue) -> LabelRequirement:
        where = f"matchExpressions[{number}]"
        if not isinstance(expression, Mapping):
            self._fail(where, "must be a mapping")
        key, values = expression.get("key"), expression.get("values") or ()
        given = expression.get("operator")
        operator = _OBJECT_OPERATORS.get(given) if _is_text(given) else None
        if operator is None:
            self._fail(where, f"needs an operator, one of {', '.join(_OBJECT_OPERATORS)}")
        if not _is_text(key):
            self._fail(where, "must have a key")
        if not isinstance(values, list | tuple) or not all(map(_is_text, values)):
            self._fail(where, "must have a list of texts as values")
        if bool(values) != (operator in {"in", "notin"}):
            self._fail(where, "needs values with In and NotIn, and none with the other operators")
        self._check(where, _key_problem(key))
        for value in values:
            self._check(where, _value_problem(value, operator))
        texts = tuple(sorted(set(map(plain_text, values))))
        return LabelRequirement(plain_text(key), operator, texts)

    def _check(self, where: str, problem: str | None) -> None:
        if problem is not None:
            self._fail(f"{where}:", problem)

    def _fail(self, where: str, problem: str) -> NoReturn:
        raise InvalidSelectorError(str(dict(self._selector)), f"{where} {problem}")


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)
