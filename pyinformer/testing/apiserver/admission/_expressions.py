"""Evaluates the expressions in CEL of definitions, policies and webhooks.

The library evaluates the language itself, and the functions for texts. What only Kubernetes has, as
`quantity()` or `object.?field`, is refused: a test must not pass where a real server refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from pyinformer.testing.apiserver.admission._patterns import from_go
from pyinformer.testing.apiserver.requests import Failure

if TYPE_CHECKING:
    import cel

_FROM_LIBRARY: Final = (
    "charAt",
    "join",
    "lowerAscii",
    "max",
    "min",
    "replace",
    "split",
    "substring",
    "sum",
    "upperAscii",
)
"""The functions of Kubernetes that the library implements in Python."""
_OURS: Final = {"size": "code_points", "matches": "matches_go"}
"""Functions of the language, and those that are called instead.

The library's own count the bytes of a text, and match letters and digits of all scripts.
"""
_OF_TIME: Final = (
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
)
_OF_LANGUAGE: Final = (
    *("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"),
    *("contains", "endsWith", "startsWith"),
    *("hasValue", "none", "of", "or", "orValue", "value"),
)
_INDEXES: Final = ("indexOf", "lastIndexOf")  # also of items in lists
_KNOWN: Final = frozenset(
    ("trim", *_INDEXES, *_OURS.values(), *_FROM_LIBRARY, *_OF_TIME, *_OF_LANGUAGE)
)
_OUR_CALL: Final = re.compile(
    r"""(?P<text>[rR]?(?:'''.*?'''|\"{3}.*?\"{3}|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))"""
    r"|\b(?:size|matches)(?=\s*\()",
    re.DOTALL,
)
_NOT_SPACES: Final = "\x1c\x1d\x1e\x1f"  # for Go; they are for Python
_SPACES: Final = "".join(
    one for one in map(chr, range(0x3001)) if one.isspace() and one not in _NOT_SPACES
)
_UNDEFINED: Final = "Undefined variable or function"
_COMPILED: Final = 1024
_LONGEST_MESSAGE: Final = 5120  # bytes of one that an expression makes
_SHOWN: Final = 100


class EvaluationError(Exception):
    """An expression failed, as it would on a real server: for lack of a field, say."""


def evaluate(expression: str, variables: Mapping[str, object]) -> object:
    """Return the value of an expression.

    Args:
        expression: the text.
        variables: by their names; mappings are read like objects.

    Raises:
        EvaluationError: it fails for these variables.
        Failure: only a real server can evaluate it (501).
    """
    program, context = _compiled(expression)(dict(variables))
    try:
        return program.execute(context)
    except RuntimeError as error:
        if _UNDEFINED in str(error):
            raise not_evaluated(expression, _first_line(error)) from None
        raise EvaluationError(_first_line(error)) from None
    except KeyError as error:
        raise EvaluationError(f"no such key: {error.args[0]}") from None
    except (ValueError, TypeError, ArithmeticError, IndexError) as error:
        raise EvaluationError(_first_line(error)) from None


def message_of(rule: Mapping[str, object], known: Mapping[str, object]) -> str:
    """Return the text of a rule that is broken; "" if it has none.

    Args:
        rule: with a `message`, and perhaps a `messageExpression`, whose failure a server only logs.
        known: the variables by their names.

    Raises:
        Failure: only a real server can evaluate the expression (501).
    """
    text = str(rule.get("message") or "")
    if not rule.get("messageExpression"):
        return text
    try:
        found = evaluate(str(rule["messageExpression"]), known)
    except EvaluationError:
        return text
    if not isinstance(found, str) or not found.strip() or "\n" in found:
        return text
    return found if len(found.encode()) <= _LONGEST_MESSAGE else text


def reads(expression: str, variable: str) -> bool:
    """Return whether an expression reads a variable.

    Raises:
        Failure: only a real server can evaluate it (501).
    """
    program, _ = _compiled(expression)({})
    return variable in program.variables()


def not_evaluated(expression: str, why: str) -> Failure:
    """Return the refusal of a write about which only a real server can decide."""
    shown = expression if len(expression) <= _SHOWN else f"{expression[:_SHOWN]}..."
    message = (
        f"the test server cannot evaluate {shown!r}: {why}; test it on a real API server, with"
        " pyinformer.testing.KubeAPIServer"
    )
    return Failure(501, message, reason="NotImplemented")


@lru_cache(maxsize=_COMPILED)
def _compiled(
    expression: str,
) -> Callable[[dict[str, Any]], tuple[cel.Program, cel.Context]]:
    """Return what makes the program and a context of variables."""
    try:
        import cel
        import cel.stdlib
    except ImportError:  # who has no rules needs no library
        why = "that needs common-expression-language: pip install 'pyinformer[testing]'"
        raise not_evaluated(expression, why) from None
    try:
        program = cel.compile(_OUR_CALL.sub(_renamed, expression))
    except (ValueError, RuntimeError) as error:
        raise not_evaluated(expression, _first_line(error)) from None
    unknown = sorted({one for one in program.functions() if one[0].isalpha()} - _KNOWN)
    if unknown:
        raise not_evaluated(expression, f"it has no function {unknown[0]!r}")
    library = cel.Context()
    cel.stdlib.add_stdlib_to_context(library)
    functions = {name: library.functions[name] for name in _FROM_LIBRARY} | _functions()
    return lambda variables: (program, cel.Context(variables, functions))


def _renamed(found: re.Match[str]) -> str:
    return found["text"] or _OURS[found[0]]


@cache
def _functions() -> dict[str, Callable[..., object]]:
    """Return those that the library lacks, or that differ in it."""
    import cel

    program = cel.compile("text.matches(pattern)")

    def matches(text: str, pattern: str) -> object:
        """Return whether a pattern of Go is found in a text."""
        return program.execute({"text": text, "pattern": from_go(pattern)})

    def index(of: str | list[object], one: object, start: int = 0) -> int:
        """Return where a text is in another one, or an item in a list; -1 if it is not."""
        if isinstance(of, str):
            return of.find(str(one), start)
        return next((place for place, item in enumerate(of) if item == one), -1)

    def last_index(of: str | list[object], one: object, *end: int) -> int:
        """Return the last place."""
        if isinstance(of, str):
            sought = str(one)
            return of.rfind(sought, 0, *(number + len(sought) for number in end))
        return next((place for place in reversed(range(len(of))) if of[place] == one), -1)

    return {
        _OURS["size"]: len,
        _OURS["matches"]: matches,
        "indexOf": index,
        "lastIndexOf": last_index,
        "trim": lambda text: text.strip(_SPACES),
    }


def _first_line(error: Exception) -> str:
    text = (str(error).splitlines() or [type(error).__name__])[0]
    return text.removesuffix(" in CEL expression")
