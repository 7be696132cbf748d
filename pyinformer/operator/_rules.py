"""CEL rules of custom resources: their declaration, and where a model has them.

The server evaluates them when an object is written; nothing in Python does.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, is_dataclass
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Final,
    Literal,
    NotRequired,
    Required,
    TypeAlias,
    TypeGuard,
    TypeVar,
    Union,
    final,
    get_args,
    get_origin,
)

import msgspec

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import (
    JSONObject,
    check_choice,
    check_flag,
    check_text,
    field_hints,
    is_typed_dict,
)

if TYPE_CHECKING:
    from pyinformer import policies

RuleReason: TypeAlias = Literal[
    "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"
]
M = TypeVar("M")

_ATTRIBUTE: Final = "__validation_rules__"
_OF_POLICIES: Final = ("pyinformer.policies._rules", "Rule")

FieldPath: TypeAlias = tuple[str, ...]
"""A place in a model: `("spec", "volumes", "[]", "size")`. `*` is each value of a map."""


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """A condition in CEL that the server checks whenever an object is written.

    In the annotation of a field, `self` is its value; as the decorator of a class, the object:

        @Rule("self.minimum <= self.maximum", message="minimum must not exceed maximum")
        class Pool(msgspec.Struct):
            minimum: int = 1
            maximum: Annotated[int, Rule("self <= 100")] = 10
            engine: Annotated[str, Rule("self == oldSelf", message="cannot be changed")] = "pg"

    The server refuses a definition whose rules may cost too much. Give lists, maps and texts that
    a rule reads a maximum length.

    Args:
        expression: in CEL; true for a valid value. A rule with `oldSelf` is checked for updates
            only.
        message: what the server says when it refuses an object; required if the expression has
            several lines.
        message_expression: the same in CEL, instead of `message`.
        reason: the machine-readable reason in the server's answer; None for FieldValueInvalid.
        field_path: which field the answer names, such as `.minimum`; None for the place of the
            rule.
        optional_old_self: check the rule for new objects, too; `oldSelf` is then an optional value.

    Raises:
        InvalidArgumentError: the server does not accept such a rule.

    Source:
        apiextensions.k8s.io/v1, ValidationRule.
    """

    expression: str
    _: KW_ONLY
    message: str | None = None
    message_expression: str | None = None
    reason: RuleReason | None = None
    field_path: str | None = None
    optional_old_self: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.expression, str) or not self.expression.strip():
            reason = f"must be an expression in CEL, such as 'self >= 1', got {self.expression!r}"
            raise InvalidArgumentError("expression", reason)
        for name in ("message", "message_expression", "field_path"):
            if getattr(self, name) is not None:
                check_text(name, getattr(self, name))
        check_flag("optional_old_self", self.optional_old_self)
        if "\n" in self.expression.strip() and not self.message:
            reason = "is required, because the expression has several lines"
            raise InvalidArgumentError("message", reason)
        if self.message is not None and (not self.message.strip() or "\n" in self.message):
            raise InvalidArgumentError("message", f"must be one line, got {self.message!r}")
        if self.message_expression is not None and not self.message_expression.strip():
            reason = f"must be an expression in CEL, got {self.message_expression!r}"
            raise InvalidArgumentError("message_expression", reason)
        if self.reason is not None:
            check_choice("reason", self.reason, get_args(RuleReason))

    def __call__(self, model: type[M]) -> type[M]:
        """Add the rule to a class; returns the same class."""
        setattr(model, _ATTRIBUTE, (self, *vars(model).get(_ATTRIBUTE, ())))
        return model

    def to_dict(self) -> JSONObject:
        """Return the entry of `x-kubernetes-validations`."""
        found: JSONObject = {"rule": self.expression.strip()}
        given = {
            "message": self.message,
            "messageExpression": self.message_expression,
            "reason": self.reason,
            "fieldPath": self.field_path,
            "optionalOldSelf": self.optional_old_self or None,
        }
        found.update({name: value for name, value in given.items() if value is not None})
        return found


def rules_of(model: type) -> Iterator[tuple[FieldPath, Rule | policies.Rule]]:
    """Yield the rules of a model, each with its place, and policies' rules among them.

    Args:
        model: a class with a finite schema; a recursive one would not end.
    """
    return _rules(model, ())


def _rules(hint: object, path: FieldPath) -> Iterator[tuple[FieldPath, Rule | policies.Rule]]:
    origin, arguments = get_origin(hint), get_args(hint)
    named = getattr(hint, "__value__", getattr(hint, "__supertype__", None))
    if named is not None:  # type Port = Annotated[int, ...], NewType
        yield from _rules(named, path)
    elif origin is Annotated:
        yield from _rules(arguments[0], path)
        yield from ((path, each) for each in arguments[1:] if _is_rule(each))
    elif origin in {Union, UnionType, Required, NotRequired, Final}:
        for each in arguments:
            yield from _rules(each, path)
    elif isinstance(kind := origin or hint, type):
        if arguments and issubclass(kind, Mapping):
            yield from _rules(arguments[-1], (*path, "*"))
        elif arguments and issubclass(kind, Collection):
            yield from _rules(arguments[0], (*path, "[]"))
        else:
            yield from _rules_of_class(kind, arguments, path)


def _is_rule(annotation: object) -> TypeGuard[Rule | policies.Rule]:
    kind = type(annotation)  # compared by name: a program without policies does not load these
    return kind is Rule or (kind.__module__, kind.__name__) == _OF_POLICIES


def _rules_of_class(
    model: type, arguments: Sequence[object], path: FieldPath
) -> Iterator[tuple[FieldPath, Rule | policies.Rule]]:
    for base in reversed(model.__mro__):
        yield from ((path, each) for each in vars(base).get(_ATTRIBUTE, ()))
    for name, hint in fields_of(model, arguments):
        yield from _rules(hint, (*path, name))


def fields_of(model: type, arguments: Sequence[object]) -> Iterator[tuple[str, object]]:
    """Yield the fields of a class by their names in JSON; none of a class without fields."""
    if hasattr(model, "model_fields"):  # pydantic, which has resolved the names in annotations
        for name, field in model.model_fields.items():
            alias = field.validation_alias if isinstance(field.validation_alias, str) else None
            yield alias or field.alias or name, _annotated(field.annotation, field.metadata)
        return
    if not (is_dataclass(model) or issubclass(model, msgspec.Struct) or is_typed_dict(model)):
        return
    encoded = {}
    if issubclass(model, msgspec.Struct):
        encoded = dict(zip(model.__struct_fields__, model.__struct_encode_fields__, strict=True))
    for name, hint in field_hints(model, arguments).items():
        yield encoded.get(name, name), hint


def _annotated(hint: object, metadata: Sequence[object]) -> object:
    return Annotated[(hint, *metadata)] if metadata else hint
