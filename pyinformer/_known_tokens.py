"""Keep the credentials in use out of error texts.

A server or a proxy may quote the Authorization header in its response. The transport registers the
headers that it sends, and errors remove these credentials from their texts: as they are, in
percent-encoding of any case, and in both alphabets of base64, alone or inside of a longer text. A
credential is forgotten with the connection that used it, and after the next two logins.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from threading import RLock
from typing import Final
from urllib.parse import quote
from weakref import WeakKeyDictionary

REPLACEMENT: Final = "(redacted)"
_SHORTEST: Final = 6  # characters; shorter values may be ordinary words
_PROBE: Final = 16  # characters; to search a long token prepares tables as long as itself
_ESCAPE: Final = re.compile("%[0-9A-Fa-f]{2}")
_URL_SAFE: Final = str.maketrans("+/", "-_")
_KEPT_LOGINS: Final = 2  # a response may arrive after the login was renewed

_lock = RLock()  # a signal handler may create an error while its thread holds the lock
_known: WeakKeyDictionary[object, tuple[tuple[str, ...], ...]] = WeakKeyDictionary()


def remember_tokens(owner: object, headers: Mapping[str, str]) -> None:
    """Register the credentials in the headers that authenticate a request.

    Args:
        owner: the object that sends them; they are forgotten when it is garbage-collected.
        headers: such as `{"Authorization": "Bearer ..."}`.
    """
    found = (one for value in headers.values() for one in _secrets_in(value))
    tokens = tuple(sorted({*found}, key=len, reverse=True))  # a substring of another comes later
    with _lock:
        earlier = _known.get(owner, ())
        _known[owner] = (tokens, *(one for one in earlier if one != tokens))[:_KEPT_LOGINS]


def without_tokens(text: str) -> str:
    """Return a text with each registered credential replaced by `(redacted)`."""
    with _lock:
        known = list(_known.values())
    tokens = [token for logins in known for login in logins for token in login]
    found = _replaced(text, tokens)
    folded = _ESCAPE.sub(lambda escape: escape[0].upper(), found) if "%" in found else found
    without = _replaced(folded, tokens)
    return found if without == folded else without


def _replaced(text: str, tokens: Iterable[str]) -> str:
    for token in tokens:
        if token[:_PROBE] in text and token in text:
            text = text.replace(token, REPLACEMENT)
    return text


def _secrets_in(value: str) -> Iterator[str]:
    scheme, _, credentials = value.partition(" ")
    whole = credentials.strip() or value
    secrets = [whole]
    if scheme.lower() == "basic":
        secrets += _pair_of(whole)
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            yield secret
            yield quote(secret, safe="")
            yield from _in_base64(secret.encode())


def _in_base64(secret: bytes) -> Iterator[str]:
    """Yield the characters that stand for a secret, for each place modulo 3 where it may begin.

    The characters at both ends that also depend on the text around it are left out.
    """
    for offset in range(3):
        bits = 8 * (offset + len(secret))
        text = base64.b64encode(bytes(offset) + secret).decode()[-(-8 * offset // 6) : bits // 6]
        yield text
        yield text.translate(_URL_SAFE)


def _pair_of(encoded: str) -> list[str]:
    """Return `name:password`, and the password alone."""
    try:
        pair = base64.b64decode(encoded).decode()
    except (binascii.Error, UnicodeDecodeError):
        return []
    return [pair, pair.partition(":")[2]]
