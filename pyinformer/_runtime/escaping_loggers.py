"""Loggers that escape and shorten the values in a log line.

A name, a message or a reason may come from any tenant of a cluster. A log line that shows it is one
line of printable text of bounded length. Every module gets its logger from `get_logger`; ruff
refuses `logging.getLogger` elsewhere in the package.

The standard library passes on what a filter raises, and some handlers raise as well. That must end
neither an informer nor a controller, so the line is lost. Nor must the report about it, which fails
where stderr is closed, has no reader any more or is on a full disk.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast, final

from pyinformer._printable import Lines, printable, shortened
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM

_LONGEST: Final = 16_384  # characters of one value: a name may have millions
_AS_THEY_ARE: Final = (int, float, Lines, type(None))


def get_logger(module: str) -> Logger:
    """Return the logger of a module's room, such as `pyinformer.cache.reflector`.

    Users configure loggers by these names: that of a room, or of the wing around it. A private
    module, or one in a folder below, can move without their notice.
    """
    rooms = [name for name in module.split(".")[:3] if not name.startswith("_")]
    return Logger(logging.getLogger(".".join(rooms)))


def logger_named(name: str) -> logging.Logger:
    """Return a logger to filter or to listen to, the package's own or another library's."""
    return logging.getLogger(name)


@final
class Logger(logging.LoggerAdapter[logging.Logger]):
    """Writes to a logger of the standard library. Values are escaped, format texts are not."""

    def log(  # type: ignore[override]  # no exc_info: a foreign error's text may quote an object
        self,
        level: int,
        msg: object,
        *args: object,
        extra: Mapping[str, object] | None = None,
        stacklevel: int = 1,
    ) -> None:
        """Write one line if the level is enabled.

        Args:
            level: the level.
            msg: the format text, a constant of pyinformer.
            args: the values; one mapping if the format text names them.
            extra: fields for structured logs; strings in it are escaped as well.
            stacklevel: which caller's line is logged; 1 is the direct caller.
        """
        try:
            if not self.isEnabledFor(level):
                return
            self.logger.log(
                level,
                msg,
                *map(_shown, args),
                extra=None if extra is None else _fields(extra),
                stacklevel=stacklevel + 1,
            )
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - of a filter or a handler of the program
            report_lost(error)


_LIBRARY: Final = str(Path(logging.__file__).parents[1])
_INSTALLED: Final = f"{os.sep}site-packages{os.sep}"
_reported: Final[set[str]] = set()
_MOST_REPORTED: Final = 100


def report_lost(error: BaseException) -> None:
    """Report on stderr, once for each place, that a line was not logged.

    Whatever made the handler fail may make stderr fail as well: then the report is lost, too.
    """
    try:
        _report(error)
    except ENDS_PROGRAM:
        raise
    except BaseException:  # noqa: BLE001 - stderr is what the program has made of it
        return


def _report(error: BaseException) -> None:
    frames = traceback.walk_tb(error.__traceback__)
    places = [f"{frame.f_code.co_filename}:{line}" for frame, line in frames]
    of_program = [
        place for place in places[1:] if _INSTALLED in place or not place.startswith(_LIBRARY)
    ]
    place = (of_program or places)[-1]
    if place in _reported or len(_reported) >= _MOST_REPORTED or not logging.raiseExceptions:
        return
    _reported.add(place)
    if sys.stderr is not None:
        text = f"a filter or a handler of logs raised {type(error).__name__} at {place}"
        print(f"pyinformer: lines of the log are lost: {text}", file=sys.stderr)  # noqa: T201


def _fields(extra: Mapping[str, object]) -> dict[str, object]:
    """Escape strings; other types stay as they are for structured logs."""
    return {
        name: _bounded(value) if isinstance(value, str) else value for name, value in extra.items()
    }


def _shown(value: object) -> object:
    if isinstance(value, _AS_THEY_ARE):
        return value
    if isinstance(value, str):
        return _bounded(value)
    if isinstance(value, Mapping):
        named = cast("Mapping[str, object]", value)
        return {name: _shown(each) for name, each in named.items()}
    return _Shown(value)


def _bounded(text: str) -> str:
    return shortened(printable(text[:_LONGEST]), _LONGEST)


class _Shown:
    """A value that becomes text only if a handler formats the line."""

    __slots__ = ("_value",)

    def __init__(self, value: object) -> None:
        self._value = value

    def __str__(self) -> str:
        return _bounded(str(self._value))

    def __repr__(self) -> str:
        return _bounded(repr(self._value))
