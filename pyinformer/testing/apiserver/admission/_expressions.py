"""Evaluates the expressions in CEL of definitions, policies and webhooks.

The library evaluates the language itself, and the functions for texts. What only Kubernetes has, as
`quantity()` or `object.?field`, is refused: a test must not pass where a real server refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pyinformer.testing.apiserver.requests import Failure

if TYPE_CHECKING:
    import cel

_FROM_LIBRARY: Final = (
    "charAt",
    "indexOf",
    "join",
    "lastIndexOf",
    "lowerAscii",
    "max",
    "min",
    "replace",
    "split",
    "substring",
    "sum",
    "trim",
    "upperAscii",
)
"""The functions of Kubernetes that the library implements in Python."""
_SIZE: Final = "code_points"  # the library's own `size` counts the bytes of a text
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
    *("contains", "endsWith", "matches", "startsWith"),
    *("hasValue", "none", "of", "or", "orValue", "value"),
)
_KNOWN: Final = frozenset((_SIZE, *_FROM_LIBRARY, *_OF_TIME, *_OF_LANGUAGE))
_SIZE_CALL: Final = re.compile(
    r"""(?P<text>[rR]?(?:'''.*?'''|\"{3}.*?\"{3}|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"))"""
    r"|\bsize(?=\s*\()",
    re.DOTALL,
)
_UNDEFINED: Final = "Undefined variable or function"
_COMPILED: Final = 1024
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
        program = cel.compile(_SIZE_CALL.sub(_renamed, expression))
    except (ValueError, RuntimeError) as error:
        raise not_evaluated(expression, _first_line(error)) from None
    unknown = sorted({one for one in program.functions() if one[0].isalpha()} - _KNOWN)
    if unknown:
        raise not_evaluated(expression, f"it has no function {unknown[0]!r}")
    library = cel.Context()
    cel.stdlib.add_stdlib_to_context(library)
    functions = {name: library.functions[name] for name in _FROM_LIBRARY} | {_SIZE: len}
    return lambda variables: (program, cel.Context(variables, functions))


def _renamed(found: re.Match[str]) -> str:
    return found["text"] or _SIZE


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
