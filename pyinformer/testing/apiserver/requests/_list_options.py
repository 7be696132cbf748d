"""Parse the query of a list or a watch, and check it as the real server does.

What cannot be parsed is refused with 400, an invalid combination of parameters with 422.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyinformer.testing.apiserver.requests.failures import (
    Failure,
    invalid,
    malformed_resource_version,
)

_MATCH_RULES = ("", "Exact", "NotOlderThan")
_FORBIDDEN = "FieldValueForbidden"
_REVISIONS = 1 << 64
_NUMBERS = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """The parsed query of a list or a watch.

    Attributes:
        resource_version: the text; "" if unset.
        match: "", "Exact" or "NotOlderThan".
        limit: objects per page; 0 means all.
        timeout_seconds: the duration of a watch; 0 means that the server chooses.
        send_initial_events: None if unset.
    """

    watch: bool
    resource_version: str
    match: str
    limit: int
    continue_token: str
    label_selector: str
    field_selector: str
    timeout_seconds: int
    allow_bookmarks: bool
    send_initial_events: bool | None

    @property
    def revision(self) -> int:
        """The resource version as a number; 0 if unset.

        Raises:
            Failure: it is not a number (500, as in the real server).
        """
        return parse_revision(self.resource_version)


def parse_revision(text: str) -> int:
    """Parse a resource version; 0 if unset.

    Raises:
        Failure: it is not a number (500, as in the real server).
    """
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise malformed_resource_version(text)
    if int(text) >= _REVISIONS:
        raise malformed_resource_version(text, "value out of range")
    return int(text)


def parse_options(query: Mapping[str, str]) -> ListOptions:
    """Parse a query.

    Raises:
        Failure: a numeric parameter is not a number (400).
    """
    sends = query.get("sendInitialEvents")
    return ListOptions(
        watch=_flag(query.get("watch")),
        resource_version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=_number(query, "limit"),
        continue_token=query.get("continue", ""),
        label_selector=query.get("labelSelector", ""),
        field_selector=query.get("fieldSelector", ""),
        timeout_seconds=_number(query, "timeoutSeconds"),
        allow_bookmarks=_flag(query.get("allowWatchBookmarks")),
        send_initial_events=None if sends is None else _flag(sends),
    )


def check_options(options: ListOptions, *, watch_list: bool) -> None:
    """Refuse combinations of parameters that the API does not allow.

    Args:
        options: the parsed query.
        watch_list: whether the server supports `sendInitialEvents`.

    Raises:
        Failure: 422 with the field and the reason.
    """
    causes = _watch_causes(options, watch_list) if options.watch else _list_causes(options)
    if options.match not in _MATCH_RULES:
        supported = 'supported values: "Exact", "NotOlderThan", ""'
        sentence = f'Unsupported value: "{options.match}": {supported}'
        causes.append(("FieldValueNotSupported", "resourceVersionMatch", sentence))
    if not options.watch:
        _check_revision(options)
    if causes:
        raise invalid("ListOptions", "meta.k8s.io", "", causes)


def _check_revision(options: ListOptions) -> None:
    try:
        _ = options.revision
    except Failure as failure:
        # Lists and watches refuse this with different statuses.
        raise Failure(400, f"invalid resource version: {failure.message}") from None


def _watch_causes(options: ListOptions, watch_list: bool) -> list[tuple[str, str, str]]:  # noqa: FBT001
    sends = options.send_initial_events is not None
    if not watch_list:
        if not sends and not options.match:
            return []
        field = "sendInitialEvents" if sends else "resourceVersionMatch"
        sentence = (
            f"Forbidden: {field} is forbidden for watch unless the WatchList feature gate is"
            " enabled"
        )
        return [(_FORBIDDEN, field, sentence)]
    causes = []
    if options.match and not sends:
        sentence = (
            "Forbidden: resourceVersionMatch is forbidden for watch unless"
            " sendInitialEvents is provided"
        )
        causes.append((_FORBIDDEN, "resourceVersionMatch", sentence))
    if sends and options.match != "NotOlderThan":
        sentence = (
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
        causes.append((_FORBIDDEN, "resourceVersionMatch", sentence))
    if options.continue_token:
        sentence = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        causes.append((_FORBIDDEN, "resourceVersionMatch", sentence))
    return causes


def _list_causes(options: ListOptions) -> list[tuple[str, str, str]]:
    causes = []
    if options.match and not options.resource_version:
        sentence = "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        causes.append((_FORBIDDEN, "resourceVersionMatch", sentence))
    if options.match and options.continue_token:
        sentence = "Forbidden: resourceVersionMatch is forbidden when continue is provided"
        causes.append((_FORBIDDEN, "resourceVersionMatch", sentence))
    if options.match == "Exact" and options.resource_version == "0":
        sentence = 'Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        causes.append((_FORBIDDEN, "resourceVersionMatch", sentence))
    if options.send_initial_events is not None:
        sentence = "Forbidden: sendInitialEvents is forbidden for list"
        causes.append((_FORBIDDEN, "sendInitialEvents", sentence))
    return causes


def _flag(text: str | None) -> bool:
    # A parameter without a value counts as true, as in Kubernetes.
    return text is not None and text.lower() not in ("false", "0")


def _number(query: Mapping[str, str], name: str) -> int:
    return max(parse_number(query.get(name, "0")), 0)


def parse_number(text: str) -> int:
    """Parse a numeric query parameter.

    Raises:
        Failure: it is not a number (400).
    """
    why = "invalid syntax"
    try:
        number = int(text)
    except ValueError:
        pass
    else:
        if -_NUMBERS <= number < _NUMBERS:
            return number
        why = "value out of range"
    raise Failure(400, f'strconv.ParseInt: parsing "{text}": {why}')
