"""The ConversionReview of the API server: its request, and the two kinds of responses.

Source:
    apiextensions.k8s.io/v1, ConversionReview.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from pyinformer._printable import printable, shortened
from pyinformer.admission._answers import Answer, refused
from pyinformer.objects import complaint_of, decoder_of

MAX_BYTES: Final = 128 << 20
"""The most of a review. A list without a limit, with which informers begin, is one review: 10,000
objects of 10 KB. The server refuses an answer that is larger than 128 MiB."""
MAX_OBJECTS: Final = 100_000
"""The most objects of a review: as many as a large cluster has of one kind."""

_API_VERSION: Final = "apiextensions.k8s.io/v1"
_KIND: Final = "ConversionReview"
_MAX_MESSAGE_CHARS: Final = 1_000  # clients show it in one line


class Request(msgspec.Struct):
    """What the server asks for."""

    uid: str
    wanted: str = msgspec.field(name="desiredAPIVersion")
    objects: list[msgspec.Raw] | None = None


class _Review(msgspec.Struct):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    request: Request | None = None


_decode: Final = decoder_of(_Review)


def read_request(body: bytes) -> Request | Answer:
    """Return the request of a review, or the answer to what is none."""
    if len(body) > MAX_BYTES:
        reason = f"the review has {len(body)} bytes; {MAX_BYTES} are the limit"
        return refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, reason)
    try:
        review = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        reason = shortened(printable(complaint_of(error)), _MAX_MESSAGE_CHARS) if body else "empty"
        return _bad(f"the body is not a {_KIND}: {reason}")
    if (review.api_version, review.kind) != (_API_VERSION, _KIND):
        given = shortened(printable(f"{review.api_version} {review.kind}"), _MAX_MESSAGE_CHARS)
        return _bad(f"must be a {_KIND} of {_API_VERSION}, got {given.strip() or 'neither'}")
    if review.request is None:
        return _bad(f"the {_KIND} has no request")
    found = len(review.request.objects or ())
    if found > MAX_OBJECTS:
        return _bad(f"the review has {found} objects; {MAX_OBJECTS} are the limit")
    return review.request


def _bad(reason: str) -> Answer:
    return refused(HTTPStatus.BAD_REQUEST, reason)


def converted(uid: str, objects: Sequence[bytes]) -> Answer:
    """Return the answer with all objects, in their order."""
    raw = [msgspec.Raw(one) for one in objects]
    return _answer(uid, {"result": {"status": "Success"}, "convertedObjects": raw})


def failed(uid: str, message: str) -> Answer:
    """Return the answer that no object was converted.

    Args:
        uid: of the request.
        message: for the server's client; characters that are not printable are escaped.
    """
    words = shortened(printable(message), _MAX_MESSAGE_CHARS)
    return _answer(uid, {"result": {"status": "Failed", "message": words}})


def _answer(uid: str, response: dict[str, object]) -> Answer:
    review = {"apiVersion": _API_VERSION, "kind": _KIND, "response": {"uid": uid, **response}}
    return Answer(HTTPStatus.OK, msgspec.json.encode(review))
