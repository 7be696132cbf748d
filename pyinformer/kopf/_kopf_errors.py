"""kopf's errors, whose constructors differ between its versions."""

from __future__ import annotations

import inspect
from typing import Any, Final, TypeVar

from kopf._cogs.clients import errors

_E = TypeVar("_E", bound=errors.APIError)
_has_headers = "headers" in inspect.signature(errors.APIError.__init__).parameters
_HEADERS: Final[dict[str, Any]] = {"headers": {}} if _has_headers else {}  # from kopf 1.42 on


def new_error(kind: type[_E], text: str, status: int) -> _E:
    """Return an error of kopf's.

    Args:
        kind: its class.
        text: its message.
        status: the HTTP status.
    """
    payload: Any = {"kind": "Status", "message": text, "code": status}
    return kind(payload, status=status, **_HEADERS)
