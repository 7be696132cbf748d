"""The URL of a server in the form that requests have: one rule for both HTTP clients.

Two clients that read one text by rules of their own reach different servers, or only one of them.
"""

from __future__ import annotations

import re
from posixpath import normpath
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit, urlunsplit

if TYPE_CHECKING:
    from urllib.parse import SplitResult

_QUOTED_ZONE: Final = re.compile(r"(\[[^\]%]*%)25(?=[^\]])")
_ZONE: Final = re.compile(r"(:[^\]%]*)%[^\]]*")
_PATH: Final = "/:@!$&'()*+,;=~"  # what a path may consist of beside letters and digits


def request_url(server: str) -> str:
    """Return a server's URL as requests begin, without a slash at its end.

    The host is in ASCII, as names are looked up and sent. The path is as client-go sends it:
    decoded, cleaned of doubled slashes and of `.` and `..`, and quoted again. A host with a dot at
    its end keeps it: such a name is looked up as it is, without the search list of the system. The
    zone of an IPv6 address is as addresses have it, `%eth0`, and not as URLs quote it, `%25eth0`.

    Args:
        server: the URL of a checked configuration.
    """
    parts = urlsplit(server)
    name, netloc = parts.hostname or "", parts.netloc
    if not name.isascii():
        port = f":{parts.port}" if parts.port is not None else ""
        netloc = f"{_ascii(name)}{port}"
    netloc = _QUOTED_ZONE.sub(r"\1", netloc)
    path = normpath(f"/{unquote(parts.path).lstrip('/')}")
    url = urlunsplit((parts.scheme, netloc, quote(path, safe=_PATH), "", ""))
    return url.rstrip("/")


def name_for_tls(host: str | None) -> str:
    """Return a host as certificates name it: without the dot of an absolute name, as in Go.

    The zone of an IPv6 address is left out, too: it means nothing to another host.
    """
    return without_zone(host or "").removesuffix(".")


def without_zone(host: str) -> str:
    """Return an IPv6 address, alone or in brackets, without its zone; any other host as it is."""
    return _ZONE.sub(r"\1", host)


def host_header(parts: SplitResult) -> str:
    """Return the value of the Host header: the authority of the URL, without such a dot or zone.

    Args:
        parts: the URL of a request.

    Source:
        Go net/http request.go, removeZone.
    """
    name, colon, port = parts.netloc.rpartition(":")
    if not colon or port.endswith("]"):  # of an IPv6 address
        return name_for_tls(parts.netloc)
    return f"{name_for_tls(name)}:{port}"


def _ascii(host: str) -> str:
    """Return a name as DNS has it; one that DNS cannot have is left as it is, and not found."""
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host
