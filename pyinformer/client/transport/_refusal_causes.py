r"""Why a server refused a request: reasons and field paths, which logs may show.

The server's message may quote the object, and is not shown in logs. Its causes name fields; where
there are none, known phrases of kube-apiserver's messages do. Values are never taken: of a path
such as `.spec.ports[name="a"].port`, what selects an element is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from pyinformer._known_tokens import without_tokens
from pyinformer._printable import shortened
from pyinformer.errors import RefusalCause
from pyinformer.objects import JSONObject, JSONValue

_MOST: Final = 8
_MAX_CHARS: Final = 200  # of a field or a reason
_MAX_SEARCHED: Final = 4_000  # characters of a message

_Read = Callable[["re.Match[str]"], RefusalCause]
# Compiled at the first refusal: that takes as long as ten modules to load.
_PHRASES: Final[tuple[tuple[str, _Read], ...]] = (
    (  # a server-side apply; structured-merge-diff typed/validate.go
        r"(?<!\S)(\.[^\s:]{1,200}): (field not declared in schema)",
        lambda found: RefusalCause(found[2], found[1]),
    ),
    (
        r"(?<!\S)(\.[^\s:]{1,200}): (expected [a-z]{1,20}), got ",
        lambda found: RefusalCause(found[2], found[1]),
    ),
    (  # fieldValidation=Strict
        r'\b(unknown field|duplicate field) "([^"\s]{1,200})"',
        lambda found: RefusalCause(found[1], found[2]),
    ),
    (  # encoding/json
        r"\b(cannot unmarshal [a-z]+) into Go struct field \w+\.([\w.]{1,200})",
        lambda found: RefusalCause(found[1], found[2]),
    ),
    (
        r'\badmission webhook "([-\w.]{1,200})" denied the request',
        lambda found: RefusalCause(f"denied by admission webhook {found[1]}", ""),
    ),
    (
        r"\bValidatingAdmissionPolicy '([-\w.]{1,200})' with binding '[^']+' denied",
        lambda found: RefusalCause(f"denied by ValidatingAdmissionPolicy {found[1]}", ""),
    ),
    (
        r"\bcannot set blockOwnerDeletion\b",
        lambda _: RefusalCause(
            "blockOwnerDeletion needs the right to update finalizers of the owner",
            "metadata.ownerReferences",
        ),
    ),
    (
        r"\bexceeded quota: ([-\w.]{1,200})",
        lambda found: RefusalCause(f"exceeded quota {found[1]}", ""),
    ),
)
# Possessive, and the rest if it has no end: no character is read twice, whatever a webhook writes.
_SELECTED: Final = re.compile(r'\[(?:[^]"]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+(?:\]|\Z)', re.DOTALL)


def refusal_causes(details: JSONObject, message: JSONValue) -> tuple[RefusalCause, ...]:
    """Return the causes of a refusal, at most eight.

    Args:
        details: the details of the Status.
        message: its message.
    """
    found = dict.fromkeys(islice(_named(details), _MOST))
    if isinstance(message, str):
        words = message[:_MAX_SEARCHED]
        for phrase, read in _PHRASES:
            found |= dict.fromkeys(map(read, islice(re.finditer(phrase, words), _MOST)))
    return tuple(islice(map(_safe, found), _MOST))


def _named(details: JSONObject) -> Iterator[RefusalCause]:
    causes = details.get("causes")
    for cause in causes if isinstance(causes, list) else ():
        reason, field = (
            (cause.get("reason"), cause.get("field")) if isinstance(cause, dict) else ("", "")
        )
        reason = reason if isinstance(reason, str) else ""
        field = field if isinstance(field, str) else ""
        if reason or field:
            yield RefusalCause(reason, field)


def _safe(cause: RefusalCause) -> RefusalCause:
    reason, field = cause
    path = _SELECTED.sub(_without_values, field)
    return RefusalCause(_bounded(reason), _bounded(path))


def _without_values(selected: re.Match[str]) -> str:
    what = selected[0]
    return "[]" if '"' in what or "=" in what else what


def _bounded(text: str) -> str:
    return shortened(without_tokens(text), _MAX_CHARS)
