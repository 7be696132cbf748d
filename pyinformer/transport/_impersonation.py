"""Acting as somebody else: what the headers of every request say of whom the server is to see.

What enters is a name, its groups and what else an authenticator might have known; what leaves are
pairs of header names and values. Who really asks stays in the credentials, and needs the right to
`impersonate`.
"""

from __future__ import annotations

from typing import Final, Protocol
from urllib.parse import quote

# What a header's name may consist of; the rest is written in percents (RFC 9110, 5.6.2).
_MARKS: Final = "!#$&'*+-.^_`|~"


class Impersonating(Protocol):
    """Says whom the server is to see; as in ClusterConfig."""

    @property
    def impersonate_user(self) -> str | None:
        """The user."""
        ...

    @property
    def impersonate_groups(self) -> tuple[str, ...]:
        """The user's groups."""
        ...

    @property
    def impersonate_uid(self) -> str | None:
        """The user's uid."""
        ...

    @property
    def impersonate_extra(self) -> tuple[tuple[str, str], ...]:
        """What else is known of the user."""
        ...


def impersonation_headers(config: Impersonating) -> tuple[tuple[str, str], ...]:
    """Return the headers of every request, of which several may have one name.

    Source:
        client-go transport/round_trippers.go, impersonatingRoundTripper.
    """
    pairs = [
        ("Impersonate-User", config.impersonate_user),
        ("Impersonate-Uid", config.impersonate_uid),
    ]
    return (
        *((name, value) for name, value in pairs if value),
        *(("Impersonate-Group", group) for group in config.impersonate_groups),
        *(
            (f"Impersonate-Extra-{quote(key.lower(), safe=_MARKS)}", value)
            for key, value in config.impersonate_extra
        ),
    )


def impersonation_problem(config: Impersonating) -> str:
    """Return what is wrong with whom a configuration says to be; empty if nothing is."""
    if isinstance(config.impersonate_groups, str):  # would be one group for each letter
        return "impersonate_groups is a text, and not several"
    if not config.impersonate_user and impersonation_headers(config):
        return "groups and the like are impersonated only together with a user"
    if not all(value.isprintable() for _, value in impersonation_headers(config)):
        return "a name to impersonate has line ends or control characters"
    return ""
