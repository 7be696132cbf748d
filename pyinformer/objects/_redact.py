"""Hides the values of Secrets, and of annotations with a copy of what was applied, in any output.

Names stay visible: the keys of a Secret are not secret. Every output that can show an object passes
through here. The depth of an object is not limited.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias, overload

import msgspec

from pyinformer.objects._checks import check_text
from pyinformer.objects._diff import ABSENT, Change, HasDict
from pyinformer.objects._json_decoders import JSONObject, JSONValue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

REDACTED: Final = "(redacted)"
"""The text that replaces a hidden value."""

_SECRET: Final = "Secret"  # noqa: S105 - the kind
_HIDDEN_FIELDS: Final = frozenset({"data", "stringData"})
_ANNOTATIONS: Final = "annotations"
# In any domain: kubectl, kapp, Rancher, kopf and other tools keep a copy of the object, Secrets
# included.
_COPIES: Final = frozenset(
    {
        "last-applied-configuration",
        "last-applied-config",
        "last-applied",
        "last-handled-configuration",
        "original",
        "applied",
    }
)
# A copy of a Secret under any other name, such as one that an operator has given kopf.
_SECRET_COPY: Final = re.compile(r'"(?:data|stringData)\\*+"\s*+:')
# Their keys, but not names such as `shop/original-db`: a namespace has no dot, and a key ends.
_COPY_QUOTED: Final = re.compile(
    r"\.[-\w.]{0,253}/(last-(?:applied|handled))"
    r"|(?:last-applied(?:-config(?:uration)?)?|last-handled-configuration"
    r"|(?:/|~1)(?:original|applied))(?!\.?[-\w])"
)
# An object, as JSON or as Go prints it, or a piece of one; but not names such as `data-team`.
_STRUCTURE: Final = re.compile(
    r"[{\[]|(?<![-\w])(?:data|stringData)(?![-\w])|\.\.\.\||(?<=Invalid value: )"
)
# What follows is from a webhook, an admission policy or a plug-in, which can quote the object; the
# server's own words about rights, quotas and namespaces do not.
_BEFORE_FREE_WORDS: Final = re.compile(
    r"denied (?:the )?request: |with binding '[^']*': "
    r"|is forbidden: (?!User \"|exceeded quota|unable to create new content|\w+AdmissionPolicy ')"
)
# Where others than the server may quote an object of any kind; a JSON object is one, or a part.
_QUOTED_OBJECT: Final = re.compile(
    r"with binding '[^']{0,300}': |conversion webhook for [^:]{1,300} failed: |(?=\{)"
)
_OWN_WARNING: Final = re.compile(
    r"(?:unknown|duplicate) field \"|\S+ \S+ is deprecated in |metadata\.\w+: "
)
_ALWAYS_SHOWN: Final = frozenset({"apiVersion", "kind", "metadata"})
_CARRIERS: Final = frozenset({"items", "object"})  # of a list, of a watch event
_IN_METADATA: Final = frozenset({"metadata", _ANNOTATIONS})
_EVENT: Final = frozenset({"type", "object"})

_Hide: TypeAlias = "Callable[[JSONValue], JSONValue]"
_Step: TypeAlias = "tuple[JSONValue, str | int, str, bool]"
"""A container, the place of a value in it, the kind of the value if it does not name one, and
whether it is the annotations of an object."""


@overload
def redacted(obj: HasDict | JSONObject, *, kind: str = "") -> JSONObject: ...
@overload
def redacted(obj: list[JSONValue], *, kind: str = "") -> list[JSONValue]: ...
def redacted(obj: HasDict | JSONValue, *, kind: str = "") -> JSONValue:
    """Return a copy of an object without secret values, which may be shown to any reader.

    Hidden are the values in `data` and `stringData` of Secrets at any depth, and in any object the
    annotations in which tools keep a copy of what they applied; in Secrets also those with a copy
    under another name.

    Args:
        obj: an object, a dict or a list of such, or a watch event; not changed.
        kind: its kind, if it has none: `Secret` for a patch of one or an item of a list.

    Returns:
        A copy of the caller's own.

    Raises:
        InvalidObjectError: the body of an object cannot be decoded.
    """
    check_text("kind", kind)
    return _hidden(obj.to_dict() if isinstance(obj, HasDict) else obj, kind, _without_values)


def masked(obj: JSONValue, *, kind: str = "", kinds: Collection[str] = ()) -> JSONValue:
    """Return a copy of an object in which hidden texts are as long as they were.

    Hidden are the values that `redacted` hides, each text as a row of `A` that has the same size as
    JSON: a Secret has the same keys and sizes, and its data is still base64.

    Args:
        obj: as for `redacted`.
        kind: as for `redacted`.
        kinds: further kinds whose objects keep only apiVersion, kind and metadata as they are.
    """
    return _hidden(obj, kind, masked_value, kinds)


def masked_value(value: JSONValue) -> JSONValue:
    """Return a value in which every text is a row of `A` of the same size, and every number 0."""
    if isinstance(value, str):
        return "A" * (len(msgspec.json.encode(value)) - 2)
    if isinstance(value, dict):
        return {name: masked_value(each) for name, each in value.items()}
    if isinstance(value, list):
        return [masked_value(each) for each in value]
    return value if value is None or isinstance(value, bool) else 0


def _hidden(obj: JSONValue, kind: str, hide: _Hide, kinds: Collection[str] = ()) -> JSONValue:
    root: list[JSONValue] = [obj]
    pending: list[_Step] = [(root, 0, kind, False)]  # a stack: recursion would have an end
    while pending:
        container, place, hint, is_annotations = pending.pop()
        value = container[place]
        if isinstance(value, list):
            container[place] = copies = list(value)
            pending += [(copies, number, hint, False) for number in range(len(copies))]
        elif isinstance(value, dict):
            container[place] = copy = dict(value)
            pending += (
                _hide_annotations(copy, hint, hide)
                if is_annotations
                else _hide_fields(copy, hint, hide, kinds)
            )
    return root[0]


def redacted_change(change: Change, *, kind: str = "") -> Change:
    """Return a change without secret values, which may be shown to any reader.

    Args:
        change: one of `diff`.
        kind: the kind of the two objects, such as `Secret` or `SecretList`.

    Returns:
        The same path, with both values as `redacted` shows them there.
    """
    return Change(
        change.path,
        *(
            value if value is ABSENT else _shown_at(change.path, value, kind)
            for value in (change.old, change.new)
        ),
    )


def redacted_words(words: str, *, kind: str = "") -> str:
    """Return a text of another program about objects, without what it may quote of them.

    Args:
        words: the text, such as the message of a server.
        kind: the kind of the objects; of a Secret, nothing that looks like a part of one is shown.

    Returns:
        The text up to where a hidden value may begin.
    """
    copy = _COPY_QUOTED.search(words)
    starts = [] if copy is None else [copy.start(copy.lastindex or 0)]
    if hides_content(kind):
        starts += (found.start() for found in [_STRUCTURE.search(words)] if found)
        starts += (found.end() for found in [_BEFORE_FREE_WORDS.search(words)] if found)
    return f"{words[: min(starts)]}{REDACTED}" if starts else words


def without_quotes(words: str) -> str:
    """Return words of a server for a log: up to where a policy or a webhook may quote an object."""
    found = _QUOTED_OBJECT.search(words)
    return words if found is None else f"{words[: found.end()]}{REDACTED}"


def redacted_warning(words: str, *, kind: str = "") -> str:
    """Return a warning about objects, of a server or of its admission, as `redacted_words` does.

    Args:
        words: the text.
        kind: the kind of the objects; of a Secret, only the server's own warnings are shown.
    """
    if hides_content(kind) and not _OWN_WARNING.match(words):
        policy = _BEFORE_FREE_WORDS.search(words)
        return f"{words[: policy.end()] if policy else ''}{REDACTED}"
    return redacted_words(words, kind=kind)


def hides_content(kind: str) -> bool:
    """Return whether errors of user code about objects of a kind may quote secrets."""
    return kind == _SECRET


def _hide_fields(copy: JSONObject, hint: str, hide: _Hide, kinds: Collection[str]) -> list[_Step]:
    kind = str(copy.get("kind") or "")
    if kind in kinds or (not kind and hint in kinds and copy.keys() != _EVENT):
        copy.update({one: hide(value) for one, value in copy.items() if one not in _ALWAYS_SHOWN})
    is_secret = _SECRET in {kind, hint}
    carried = _SECRET if is_secret else kind.removesuffix("List") or hint.removesuffix("List")
    steps: list[_Step] = []
    for name, value in copy.items():
        if is_secret and name in _HIDDEN_FIELDS:
            copy[name] = hide(value)
        else:
            carries = carried if name in _CARRIERS or (is_secret and name in _IN_METADATA) else ""
            steps.append((copy, name, carries, name == _ANNOTATIONS))
    return steps


def _hide_annotations(copy: JSONObject, kind: str, hide: _Hide) -> list[_Step]:
    steps: list[_Step] = []
    for name, value in copy.items():
        is_copy = str(name).rpartition("/")[2] in _COPIES or (
            kind == _SECRET and isinstance(value, str) and _SECRET_COPY.search(value) is not None
        )
        if is_copy:
            copy[name] = REDACTED if hide is _without_values else hide(value)
        else:
            steps.append((copy, name, "", False))
    return steps


def _without_values(value: JSONValue) -> JSONValue:
    if isinstance(value, dict):
        return dict.fromkeys(value, REDACTED)
    return value if value is None else REDACTED


def _shown_at(path: tuple[str | int, ...], value: JSONValue, kind: str) -> JSONValue:
    """Return a value as `redacted` shows it at its path in an object of its kind."""
    whole: JSONValue = value
    for step in reversed(path):
        whole = [whole] if isinstance(step, int) else {step: whole}
    shown: JSONValue = redacted(whole, kind=kind)
    for step in path:
        if shown == REDACTED:
            return REDACTED
        shown = shown[0] if isinstance(step, int) else shown[step]
    return shown
