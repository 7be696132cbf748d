"""The arguments of commands that name something in a program: `module:name`."""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from pathlib import Path

from pyinformer._runtime.tasks import imported_only, place_of
from pyinformer.errors import InvalidArgumentError, LifecycleError
from pyinformer.operator import Operator


def load_target(target: str) -> object:
    """Import a module and return what a name in it stands for.

    Args:
        target: `module:name`; the module is also looked for in the current folder. What it prints
            goes to stderr.

    Raises:
        InvalidArgumentError: the target is malformed, was not found, or failed while it was
            imported: its error is the cause.
        LifecycleError: the module runs controllers while it is imported.
    """
    module, colon, name = target.partition(":")
    if not (module and colon and name) or module.startswith("."):
        raise InvalidArgumentError(target, "must be module:name, such as my_operator:Database")
    folder = str(Path.cwd())
    if folder not in sys.path:  # as with `python -m`; an installed command does not search it
        sys.path.insert(0, folder)
    try:
        # The output is that of the command, which sends no request.
        with redirect_stdout(sys.stderr), imported_only(module):
            found: object = importlib.import_module(module)
    except LifecycleError:
        raise
    except (Exception, SystemExit) as error:  # else the exit status would be the module's
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            reason = f"module {missing!r} was not found"
        else:
            reason = f"failed {place_of(error)}: {type(error).__name__}: {_text_of(error)}"
        raise InvalidArgumentError(target, reason) from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise InvalidArgumentError(target, f"{part!r} was not found in it") from error
    return found


def _text_of(error: BaseException) -> str:
    """Return the text of an error without the place, in one line."""
    return " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())


def load_operator(target: str) -> Operator:
    """Import a module and return an Operator of it.

    Args:
        target: as for `load_target`.

    Raises:
        InvalidArgumentError: as for `load_target`, or it is something else.
        LifecycleError: as for `load_target`.
    """
    found = load_target(target)
    if not isinstance(found, Operator):
        raise InvalidArgumentError(target, f"must be an Operator, got a {type(found).__name__}")
    return found
