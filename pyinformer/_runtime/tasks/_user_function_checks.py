"""Checks of users' functions when they are registered, and their names in errors and logs."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pyinformer.errors import InvalidTypeError, invalid_handler

F = TypeVar("F", bound=Callable[..., Any])

_IN_THREAD: Final = "__pyinformer_in_thread__"
_DECIDES_AT_ONCE: Final = "must not be asynchronous, nor return what would have to be awaited"


def check_callable(
    function: object, shape: str, arguments: int, *, may_generate: bool = False
) -> None:
    """Refuse a function that cannot be called with this many positional arguments.

    Args:
        function: the user's function.
        shape: the signature that it should have, for the error: `handler(event)`.
        arguments: how many arguments it will be called with.
        may_generate: whether it may be a generator function that is not asynchronous.

    Raises:
        InvalidTypeError: the function cannot be called so; the error shows its name and `shape`.
    """
    if not callable(function) or isinstance(function, type):
        reason = f"must be a function like {shape}, got a {type(function).__name__}"
        raise invalid_handler(name_of(function), reason)
    generates = _is(inspect.isgeneratorfunction, function) and not may_generate
    if generates or _is(inspect.isasyncgenfunction, function):
        reason = (
            f"must be a function like {shape}, got a generator function: its body would never run"
        )
        raise invalid_handler(name_of(function), reason)
    signature = signature_of(function, arguments)
    if signature is not None and not _can_be_called(signature, arguments):
        reason = f"must be a function like {shape}, got one that takes {signature}"
        raise invalid_handler(name_of(function), reason)


def signature_of(function: object, arguments: int) -> inspect.Signature | None:
    """Return the signature of a function; None if it has none, as some builtins.

    Of a decorated one it is that of the original, whose arguments have the names that the user has
    given them; or that of the decorator, if it adds arguments and can only itself be called so.

    Args:
        function: the user's function.
        arguments: how many positional arguments it will be called with.
    """
    called: Any = function
    try:
        original = inspect.signature(called)
        outer = inspect.signature(called, follow_wrapped=False)
    except (ValueError, TypeError):
        return None
    passes_on = any(one.kind is one.VAR_POSITIONAL for one in outer.parameters.values())
    if passes_on or _can_be_called(original, arguments) or not _can_be_called(outer, arguments):
        return original
    return outer


def _can_be_called(signature: inspect.Signature, arguments: int) -> bool:
    try:
        signature.bind(*(object() for _ in range(arguments)))
    except TypeError:
        return False
    return True


def check_plain(
    function: object, shape: str, arguments: int, *, may_generate: bool = False
) -> None:
    """Refuse a function that cannot be called so, or whose result would have to be awaited.

    Args:
        function: the user's function.
        shape: the signature that it should have, for the error: `predicate(old, new)`.
        arguments: how many arguments it will be called with.
        may_generate: whether it may be a generator function that is not asynchronous.

    Raises:
        InvalidTypeError: with the function's name and `shape`.
    """
    check_callable(function, shape, arguments, may_generate=may_generate)
    if is_asynchronous(function):
        reason = f"must not be asynchronous: write `def {shape}`, whose result is used at once"
        raise invalid_handler(name_of(function), reason)


def refuse_awaitable(found: object, argument: str, reason: str = _DECIDES_AT_ONCE) -> None:
    """Refuse what a user's function has returned if it would have to be awaited.

    Args:
        found: what it has returned; a coroutine is closed.
        argument: what the function is, for the error: `predicate`.
        reason: why it is refused, and what to do.

    Raises:
        InvalidTypeError: it is awaitable.
    """
    if not inspect.isawaitable(found):
        return
    if inspect.iscoroutine(found):
        found.close()
    raise InvalidTypeError(argument, reason)


def checked_by(check: Callable[..., None]) -> Callable[[F], F]:
    """Check the arguments of a coroutine function at the call, before there is a coroutine.

    A coroutine that is made by mistake, where nothing awaits it, would do nothing without an error.

    Args:
        check: is called with the same arguments; raises for those that cannot work.
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            check(*args, **kwargs)
            return function(*args, **kwargs)

        return cast("F", call)

    return decorate


def mark_in_thread(function: object) -> None:
    """Note of an asynchronous function that it calls a plain one in a thread."""
    setattr(function, _IN_THREAD, True)


def is_in_thread(function: object) -> bool:
    """Return whether an asynchronous function calls a plain one in a thread."""
    return getattr(_without_partials(function), _IN_THREAD, False) is True


def is_asynchronous(function: object) -> bool:
    """Return whether a function, or the call of a callable object, is an `async def`."""
    is_coroutine = _is(inspect.iscoroutinefunction, function)  # noqa: TID251 - the one place
    return is_coroutine or _is(inspect.isasyncgenfunction, function)


def _is(test: Callable[[object], bool], function: object) -> bool:
    """Return whether a test is true of a function, or of the call of a callable object."""
    function = _without_partials(function)
    call = getattr(type(function), "__call__", None)  # noqa: B004 - of a callable object
    return test(function) or test(call)


def name_of(function: object) -> str:
    """Return the module and the qualified name of a function, as far as they are known."""
    function = _without_partials(function)
    named = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None)
    qualname = str(getattr(named, "__qualname__", "?"))
    return f"{module}.{qualname}" if module not in {None, "builtins", "__main__"} else qualname


def _without_partials(function: object) -> object:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def place_of(error: BaseException) -> str:
    """Return where an error was raised, without its text, which may quote an object.

    That is the innermost line of the user's code, if there is one: for an error of pyinformer or of
    the standard library it is the line of the call.
    """
    if isinstance(error, SyntaxError) and error.filename and error.filename[0] != "<":  # a file
        return f"at {error.filename}:{error.lineno}"
    traced = error.__traceback__
    if traced is None:
        return "at an unknown place"
    last, found = traced, None
    while traced is not None:
        last, file = traced, traced.tb_frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            if found is not None:
                break
        elif not file.startswith((_LIBRARY, "<frozen ")) or _INSTALLED in file:
            found = traced
        traced = traced.tb_next
    place = found or last
    code = place.tb_frame.f_code
    return f"at {code.co_filename}:{place.tb_lineno} in {code.co_name}"


_PACKAGE: Final = str(Path(__file__).parents[2]) + os.sep
_LIBRARY: Final = str(Path(os.__file__).parent) + os.sep
_INSTALLED: Final = f"{os.sep}site-packages{os.sep}"  # inside the standard library's folder
