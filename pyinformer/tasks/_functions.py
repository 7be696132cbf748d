"""What can be told of a user's function before it is called: its name, and whether it can be.

A handler, mapping or reconcile that could not be called is refused when it is registered, by its
name and with what it should look like.
"""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path
from typing import Final

from pyinformer.apimachinery import invalid_handler


def check_callable(
    function: object, shape: str, arguments: int, *, may_generate: bool = False
) -> None:
    """Refuse what cannot be called with this many positional arguments.

    Args:
        function: what a user gave.
        shape: how it should look, for the error: `handler(event)`.
        arguments: how many it will be called with.
        may_generate: whether it may be a plain generator function, whose results are taken.

    Raises:
        InvalidTypeError: by its name, and with the shape.
    """
    if not callable(function) or isinstance(function, type):
        reason = f"a {type(function).__name__} is no function; it must look like {shape}"
        raise invalid_handler(name_of(function), reason)
    generates = inspect.isgeneratorfunction(function) and not may_generate
    if generates or inspect.isasyncgenfunction(function):
        reason = f"it is a generator function, whose body would never run; write {shape}"
        raise invalid_handler(name_of(function), reason)
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some builtins have none; calling them is the only test
        return
    try:
        signature.bind(*(object() for _ in range(arguments)))
    except TypeError as error:
        reason = f"it takes {signature}; it must look like {shape}"
        raise invalid_handler(name_of(function), reason) from error


def name_of(function: object) -> str:
    """Return where a function was defined, as far as it can be told."""
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None)
    qualname = str(getattr(named, "__qualname__", "?"))
    return f"{module}.{qualname}" if module not in {None, "builtins", "__main__"} else qualname


def place_of(error: BaseException) -> str:
    """Return where an error was raised, without its text, which may quote an object.

    That is the user's own line, if there is one: what pyinformer or the standard library raised
    beneath it is told by where it was called.
    """
    traced = error.__traceback__
    if traced is None:
        return "at an unknown place"
    last, found = traced, None
    while traced is not None:
        last, file = traced, traced.tb_frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            if found is not None:
                break
        elif not file.startswith(_LIBRARY) or _INSTALLED in file:
            found = traced
        traced = traced.tb_next
    told = found or last
    code = told.tb_frame.f_code
    return f"at {code.co_filename}:{told.tb_lineno} in {code.co_name}"


_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_LIBRARY: Final = str(Path(os.__file__).parent) + os.sep
_INSTALLED: Final = f"{os.sep}site-packages{os.sep}"  # a folder of the standard library's
