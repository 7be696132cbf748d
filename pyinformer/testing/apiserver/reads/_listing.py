"""Answer lists: the objects as of one revision, in pages.

All pages of a list show one revision. The continue token holds this revision and the next key, and
expires with the history or with its age. Nothing here waits: the caller first waits for a revision
that does not exist yet.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from pyinformer.objects import JSONObject, decoder_of
from pyinformer.testing.apiserver.requests import Failure, ListOptions
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.storage import HistoryExpiredError, Record, Selection, Storage

_INCONSISTENT = -1
"""The revision in a token that continues a list with the current objects."""

_BLOCK_BYTES = 256 * 1024
"""The bytes of a list per write: few chunks, and the server's loop is not blocked for long."""

_METADATA = ResourceType("meta.k8s.io", "v1", "PartialObjectMetadata", "")


class _Item(msgspec.Struct):
    metadata: msgspec.Raw


_decode_item = decoder_of(_Item, skims=True)
_decode_object = decoder_of(JSONObject)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list.

    Attributes:
        remaining: the number of objects that follow; None where the real server omits it.
    """

    records: Sequence[Record]
    revision: int
    continue_token: str
    remaining: int | None


@dataclass(frozen=True, slots=True)
class _Token:
    revision: int
    start: str
    issued: float


def list_page(
    storage: Storage,
    resource: ResourceType,
    selection: Selection,
    options: ListOptions,
    *,
    now: float,
    token_lifetime_seconds: float,
) -> Page:
    """Answer a list.

    Args:
        storage: holds the objects.
        resource: the resource of the list.
        selection: selects objects.
        options: the checked options; the storage has reached their revision.
        now: monotonic seconds.
        token_lifetime_seconds: the age at which a continue token expires.

    Raises:
        Failure: the token is malformed (400), or the token or the revision is too old (410).
    """
    limit = 0 if selection.names_one else options.limit
    if options.continue_token:
        token = _checked_token(options, now, token_lifetime_seconds)
        records, revision = _state_of_token(storage, resource, token)
        return _cut(records, token, limit, selection, revision)
    if options.revision and (options.match == "Exact" or (limit and not options.match)):
        # For compatibility, a limit with a revision and without a match means Exact.
        records, revision = _exact_state(storage, resource, options.revision)
    else:
        records, revision = storage.state(resource)
        if options.resource_version == "0":
            limit = 0
    return _cut(records, _Token(revision, "", now), limit, selection, revision)


def render_page(
    resource: ResourceType, page: Page, *, metadata_only: bool = False
) -> Iterator[bytes]:
    """Encode a page, in blocks."""
    items: Iterator[bytes] = (record.item for record in page.records)
    if metadata_only:
        resource, items = _METADATA, map(only_metadata, items)
    metadata = list_metadata(resource, page)
    kind = b'"kind":"%s"' % resource.list_kind.encode()
    api_version = b'"apiVersion":"%s"' % resource.api_version.encode()
    if resource.list_shape == "custom":
        meta = msgspec.json.encode(metadata)
        yield b'{%s,"items":[' % api_version
        yield from _blocks(items)
        yield b'],%s,"metadata":%s}\n' % (kind, meta)
    else:
        meta = msgspec.json.encode(metadata)
        yield b'{%s,%s,"metadata":%s,"items":[' % (kind, api_version, meta)
        yield from _blocks(items)
        yield b"]}\n"


def list_metadata(resource: ResourceType, page: Page) -> JSONObject:
    """Return the metadata of a list; the caller owns the dict."""
    version: JSONObject = {"resourceVersion": str(page.revision)}
    metadata: JSONObject = {}
    if page.continue_token or resource.list_shape == "custom":
        metadata["continue"] = page.continue_token
    if page.remaining is not None:
        metadata["remainingItemCount"] = page.remaining
    return {**metadata, **version} if resource.list_shape == "custom" else {**version, **metadata}


def only_metadata(item: bytes) -> bytes:
    """Return an encoded object as a PartialObjectMetadata."""
    return _METADATA.head + b'"metadata":%s}' % bytes(_decode_item(item).metadata)


def _blocks(items: Iterable[bytes]) -> Iterator[bytes]:
    block: list[bytes] = []
    size = 0
    comma = b""
    for item in items:
        block.append(comma + item)
        comma = b","
        size += len(item)
        if size >= _BLOCK_BYTES:
            yield b"".join(block)
            block, size = [], 0
    if block:
        yield b"".join(block)


def _cut(
    records: Sequence[Record], token: _Token, limit: int, selection: Selection, revision: int
) -> Page:
    prefix = f"{selection.namespace}/" if selection.namespace else ""
    first = bisect_left(records, max(token.start, prefix), key=_key)
    # "0" follows "/" in ASCII: the first key after those of the namespace.
    last = bisect_left(records, f"{selection.namespace}0", key=_key) if prefix else len(records)
    chosen: list[Record] = []
    for index in range(first, last):
        if limit and len(chosen) == limit:
            following = _Token(revision, records[index].key, token.issued)
            left = None if selection.has_selectors else last - index
            return Page(chosen, revision, _encode_token(following), left)
        if selection.matches(records[index]):
            chosen.append(records[index])
    return Page(chosen, revision, "", None)


def _key(record: Record) -> str:
    return record.key


def _exact_state(
    storage: Storage, resource: ResourceType, revision: int
) -> tuple[Sequence[Record], int]:
    try:
        return storage.state_at(resource, revision), revision
    except HistoryExpiredError:
        message = "The resourceVersion for the provided list is too old."
        raise Failure(410, message) from None


def _state_of_token(
    storage: Storage, resource: ResourceType, token: _Token
) -> tuple[Sequence[Record], int]:
    if token.revision == _INCONSISTENT:
        return storage.state(resource)
    try:
        return storage.state_at(resource, token.revision), token.revision
    except HistoryExpiredError:
        raise _expired(token) from None


def _checked_token(options: ListOptions, now: float, lifetime_seconds: float) -> _Token:
    if options.resource_version not in ("", "0"):
        message = "specifying resource version is not allowed when using continue"
        raise Failure(400, message)
    token = _decode_token(options.continue_token)
    if token.revision != _INCONSISTENT and now - token.issued >= lifetime_seconds:
        raise _expired(token)
    return token


def _expired(token: _Token) -> Failure:
    going_on = _Token(_INCONSISTENT, token.start, token.issued)
    message = (
        "The provided continue parameter is too old to display a consistent list result. Start a"
        " new list without it, or use the token in this response for an inconsistent rest."
    )
    return Failure(410, message, continue_token=_encode_token(going_on))


def _encode_token(token: _Token) -> str:
    body = {
        "v": "meta.k8s.io/v1",
        "rv": token.revision,
        "start": token.start,
        "issued": token.issued,
    }
    return base64.urlsafe_b64encode(msgspec.json.encode(body)).rstrip(b"=").decode()


def _decode_token(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        body = _decode_object(raw)
        return _Token(int(body["rv"]), str(body["start"]), float(body["issued"]))
    except (binascii.Error, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise Failure(400, f"invalid continue token: continue key is not valid: {error}") from None
