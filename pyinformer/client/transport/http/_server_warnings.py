"""Warnings that a server sends beside its responses, of deprecated or unknown fields for example.

Each text is logged once, and every warning is counted and passed on. What comes from a server is
bounded, escaped, and without secrets.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeAlias, final

from pyinformer._known_tokens import without_tokens
from pyinformer._printable import printable, shortened
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import check_plain, error_text, refuse_awaitable
from pyinformer.client.transport._status import kind_of_request
from pyinformer.objects import redacted_warning, without_quotes

OnWarning: TypeAlias = Callable[[str, str], object]
"""A function of the text of a warning and of the request, such as `POST /api/v1/namespaces`."""

_log = get_logger(__name__)
WARNING_HEADER: Final = "Warning"
_WARNING: Final = re.compile(r'299 [^\s"]{1,100} "((?:[^"\\]|\\.)*)"')  # RFC 7234, section 5.5
_ESCAPED: Final = re.compile(r"\\(.)")
_MAX_HEADER_CHARS: Final = 4_096  # kube-apiserver sends no more in all
_MAX_CHARS: Final = 512  # of one warning
_MAX_OF_RESPONSE: Final = 32
_MAX_LOGGED: Final = 256  # texts; those that quote names would be without end


@final
class ServerWarnings:
    """Reads the warnings in the headers of one server's responses.

    Args:
        on_warning: is called with each warning; None for no function.
        count: counts a warning; None for no count.

    Raises:
        InvalidTypeError: the function cannot be called so.

    Source:
        client-go rest/warnings.go.
    """

    def __init__(self, on_warning: OnWarning | None, count: Callable[[], None] | None) -> None:
        if on_warning is not None:
            check_plain(on_warning, "on_warning(text, request)", 2)
        self._on_warning = on_warning
        self._count = count
        self._logged: set[str] = set()

    def read(self, values: Iterable[str], method: str, path: str) -> None:
        """Record the warnings of a response. Raises what ends the program, and nothing else.

        Args:
            values: those of its Warning headers.
            method: the method of the request.
            path: its path.
        """
        request = f"{method} {path}"
        for text in islice(_texts(values, path), _MAX_OF_RESPONSE):
            if self._count is not None:
                self._count()
            self._log_once(text, request)
            if self._on_warning is None:
                continue
            try:
                refuse_awaitable(self._on_warning(text, request), "on_warning")
            except ENDS_PROGRAM:
                raise
            except BaseException as error:  # noqa: BLE001 - the user's; the request has succeeded
                _log.error("on_warning failed with %s", error_text(error))

    def _log_once(self, text: str, request: str) -> None:
        if text in self._logged or len(self._logged) > _MAX_LOGGED:
            return
        self._logged.add(text)
        if len(self._logged) > _MAX_LOGGED:
            _log.warning("more than %d different warnings: no more are logged", _MAX_LOGGED)
            return
        shown = without_quotes(text)  # on_warning gets what is cut off
        _log.warning(
            "the server warns: %s (%s; logged once)", shown, request, extra={"request": request}
        )


def _texts(values: Iterable[str], path: str) -> Iterator[str]:
    kind = kind_of_request(path)
    for value in values:
        for found in _WARNING.finditer(value[:_MAX_HEADER_CHARS]):
            words = _ESCAPED.sub(r"\1", found[1])
            shown = printable(redacted_warning(without_tokens(words), kind=kind))
            if shown:
                yield shortened(shown, _MAX_CHARS)
