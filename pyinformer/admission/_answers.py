"""What a request to a webhook is answered with."""

# Pure: it knows no event loop.

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple, final

_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"


@final
class Answer(NamedTuple):
    """A response, without the means to send it: the server and the test kit both use it."""

    status: HTTPStatus
    body: bytes
    content_type: str = _JSON


def refused(status: HTTPStatus, reason: str) -> Answer:
    """Return the answer to a request that is not a review which can be answered.

    Args:
        status: of the response.
        reason: for the API server, which shows it to its client: nothing of ours or of a tenant.
    """
    return Answer(status, reason.encode(), _TEXT)
