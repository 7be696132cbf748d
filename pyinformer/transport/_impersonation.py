"""Acting as somebody else: what the headers of every request say of whom the server is to see.

What enters is a name, its groups and what else an authenticator might have known; what leaves are
pairs of header names and values. Who really asks stays in the credentials, and needs the right to
`impersonate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final
from urllib.parse import quote

# What a header's name may consist of; the rest is written in percents (RFC 9110, 5.6.2).
_MARKS: Final = "!#$&'*+-.^_`|~"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Impersonation:
    """Whom the server is to see instead of who asks."""

    user: str
    """The user's name; of a service account `system:serviceaccount:namespace:name`."""

    groups: tuple[str, ...] = ()
    """The groups to be in. Empty: those that the server gives to everybody, and to the service
    account that `user` may be."""

    uid: str = ""
    """The user's identifier; empty for none."""

    extra: tuple[tuple[str, str], ...] = ()
    """Keys and values of what else is known, such as scopes; a key may come more than once."""

    def problem(self) -> str:
        """Return what is wrong with it, in words; empty if nothing is."""
        if not self.user and (self.groups or self.uid or self.extra):
            return "groups and the like are impersonated only together with a user"
        if not all(value.isprintable() for _, value in self.headers()):
            return "a name to impersonate has line ends or control characters"
        return ""

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers, of which several may have one name.

        Source:
            client-go transport/round_trippers.go, impersonatingRoundTripper.
        """
        if self.user:
            yield "Impersonate-User", self.user
        if self.uid:
            yield "Impersonate-Uid", self.uid
        for group in self.groups:
            yield "Impersonate-Group", group
        for key, value in self.extra:
            yield f"Impersonate-Extra-{quote(key.lower(), safe=_MARKS)}", value
