"""The formats of texts in a schema, as kube-apiserver reads them.

What it takes for an address or a time is wider than the format's name says: `010.0.0.1` is an IPv4
address, and `+99:99` an offset. Of email addresses only what is surely wrong is refused.

Source:
    k8s.io/kube-openapi/pkg/validation/strfmt; k8s.io/utils/net, ParseIPSloppy; net/url,
    ParseRequestURI.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from calendar import monthrange
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import unquote

_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile(
    r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})"
)
_LEAP_YEAR: Final = 2000  # what year 0 is, which Python does not have
_MOST: Final = ("23", "59", "59")

_DECIMAL: Final = re.compile(r"[0-9]+")
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]+")
_GROUPS: Final = 8
_MAX_BYTE: Final = 0xFF
_MAX_GROUP: Final = 0xFFFF
_MAX_DIGITS: Final = 4_000  # int() refuses more of them; zeros in front are allowed

_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")

_HOSTNAME: Final = re.compile(
    r"[a-zA-Z0-9](?:-?[a-zA-Z0-9]{0,62})?"
    r"|(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}"
)
_MAX_HOSTNAME: Final = 255
_MAX_LABEL: Final = 63

_BASE64: Final = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"
)
_GO_DURATION: Final = re.compile(
    r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|\xb5s|\u03bcs|ms|s|m|h))+)"
)
_WITH_UNIT: Final = re.compile(r"([0-9]+)[ \t\n\f\r]*([A-Za-z\xb5]+)")
_UNITS: Final = frozenset({"ns", "us", "\xb5s", "ms", "s", "m", "h", "hr", "d", "w"})
_LONG_UNITS: Final = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_MAX_INT64: Final = (1 << 63) - 1

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:")
_ESCAPED: Final = re.compile(r"(?:[^%]|%[0-9a-fA-F]{2})*")
_USER: Final = re.compile(r"[a-zA-Z0-9._:~!$&'()*+,;=%@-]*")
_HOST: Final = re.compile(
    r"(?:[a-zA-Z0-9._~!$&'()*+,;=:<>\"\[\]-]|[^\x00-\x7f]|%25|%[89a-fA-F][0-9a-fA-F])*"
)
_IN_ZONE: Final = re.compile(r"%[0-9a-fA-F]{2}|[^%]")
_PORT: Final = re.compile(r"(?::[0-9]*)?")
_STRICT_SCHEMES: Final = {"http", "https"}


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    return 1 <= month <= 12 and 1 <= day <= monthrange(year or _LEAP_YEAR, month)[1]  # noqa: PLR2004


def _is_time(text: str) -> bool:
    date, *rest = text.lower().split("t")
    found = _TIME.fullmatch(rest[0]) if rest and _is_date(date) else None
    return found is not None and all(
        part <= most for part, most in zip(found.groups(), _MOST, strict=True)
    )


def _is_ipv4(text: str) -> bool:
    """Return whether a text is an address with dots, which may be one of IPv6 that ends so."""
    before, dot, _ = text.partition(".")
    return bool(dot) and (_is_sloppy(text) if ":" in before else _is_dotted(text))


def _is_dotted(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(_is_number(part, 10, _MAX_BYTE) for part in parts)  # noqa: PLR2004


def _is_number(text: str, base: int, most: int) -> bool:
    digits = _DECIMAL if base == 10 else _HEXADECIMAL  # noqa: PLR2004
    return bool(digits.fullmatch(text)) and int(text.lstrip("0")[:_MAX_DIGITS] or "0", base) <= most


def _is_sloppy(text: str) -> bool:
    """Return whether a text is an address of IPv6 whose numbers may begin with zeros."""
    halves = text.split("::")
    groups = [part for half in halves for part in half.split(":") if half]
    count = len(groups)
    if groups and "." in groups[-1]:
        if not _is_dotted(groups.pop()):
            return False
        count += 1
    is_complete = count == _GROUPS if len(halves) == 1 else count < _GROUPS
    return (
        len(halves) <= 2  # noqa: PLR2004
        and is_complete
        and not (text.endswith(".") or (text.endswith(":") and not text.endswith("::")))
        and all(_is_number(group, 16, _MAX_GROUP) for group in groups)
    )


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return "%" not in text


def _is_hostname(text: str) -> bool:
    if not _HOSTNAME.fullmatch("".join(map(_as_ascii, text))):
        return False
    parts = text.encode("utf-8", "replace").split(b".")
    return sum(map(len, parts)) + len(parts) - 1 <= _MAX_HOSTNAME and all(
        len(part) <= _MAX_LABEL for part in parts
    )


def _as_ascii(character: str) -> str:
    """Return a letter for a letter, and a digit for a symbol: as one it may not end a name."""
    if character.isascii() and (character.isalnum() or character in "-."):
        return character
    kind = unicodedata.category(character)[0]
    return {"L": "a", "S": "0"}.get(kind, " ")


def _is_duration(text: str) -> bool:
    """Return whether a text is a duration of Go, or has a number with a unit anywhere."""
    found = _WITH_UNIT.findall(text)
    if any(int(number[:_MAX_DIGITS]) > _MAX_INT64 for number, _ in found):
        return False
    units = (unit.lower() for _, unit in found)
    has_unit = any(unit in _UNITS or unit.startswith(_LONG_UNITS) for unit in units)
    return has_unit or _GO_DURATION.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    if _CONTROL.search(text):
        return False
    if text == "*":
        return True
    found = _SCHEME.match(text)
    scheme = "" if found is None else found[0][:-1].lower()
    rest = (text if found is None else text[found.end() :]).partition("?")[0]
    if not rest.startswith("/"):
        return bool(scheme)
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _is_authority(scheme, authority) and _is_escaped(slash + path)
    return _is_escaped(rest)


def _is_escaped(text: str) -> bool:
    return _ESCAPED.fullmatch(text) is not None


def _is_authority(scheme: str, authority: str) -> bool:
    user, at, host = authority.rpartition("@")
    if at and not (_USER.fullmatch(user) and _is_escaped(user)):
        return False
    if "[" in host:
        return _is_literal(host)
    name, colon, port = host.partition(":")
    if ":" in port:
        if scheme in _STRICT_SCHEMES:
            return False
        name, colon, port = host.rpartition(":")
    return bool(_PORT.fullmatch(colon + port)) and bool(_HOST.fullmatch(name))


def _is_literal(host: str) -> bool:
    """Return whether a host with a bracket is an address of IPv6 in brackets, and a port."""
    inner, bracket, port = host.rpartition("]")
    if host.rfind("[") != 0 or not bracket or not _PORT.fullmatch(port):
        return False
    address, percent, zone = inner[1:].partition("%25")
    if percent and not zone:
        return False
    parts = _IN_ZONE.findall(zone)
    return "".join(parts) == zone and all(map(_may_be_in_zone, parts)) and _is_ipv6(address)


def _may_be_in_zone(part: str) -> bool:
    """Return whether a character, or what it is escaped as, may be in the zone of an address."""
    if part in {"%25", "%20"}:
        return True
    character = unquote(part)
    return _HOST.fullmatch(character) is not None and (character == part or character.isascii())


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "date-time": _is_time,
    "date": _is_date,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
    "email": lambda text: "@" in text,
    "hostname": _is_hostname,
    "uri": _is_uri,
    "byte": lambda text: _BASE64.fullmatch(text) is not None,
    "duration": _is_duration,
}
"""Whether a text has a format, by the format's name."""
