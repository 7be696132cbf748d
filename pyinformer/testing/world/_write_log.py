"""The writes of a program under test, in order, refused ones included.

The bodies are dicts that the reader owns.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal, TypeAlias, final

import msgspec

from pyinformer.objects import JSONObject, decoder_of, object_key, redacted
from pyinformer.testing.apiserver.handler import HandlerCall
from pyinformer.testing.apiserver.requests import RequestRecord, parse_route

WriteVerb: TypeAlias = Literal["create", "replace", "patch", "apply", "delete"]
"""The method of `Cluster` that wrote; `status` is a patch of the subresource."""

_VERBS: Final[dict[str, WriteVerb]] = {
    "POST": "create",
    "PUT": "replace",
    "PATCH": "patch",
    "DELETE": "delete",
}
_APPLY: Final = "apply-patch"  # part of the content type of a server-side apply
_FIRST_NO_SUCCESS: Final = 300
_SECRETS: Final = "secrets"
_SECRET: Final = "Secret"  # noqa: S105 - the kind
_decode = decoder_of()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRecord:
    """One write request of a program under test."""

    verb: WriteVerb
    """`create`, `replace`, `patch`, `apply` or `delete`."""
    api_version: str
    """`v1` or `apps/v1`."""
    plural: str
    """`pods`."""
    key: str
    """`namespace/name`, or `name`, with a generated name filled in."""
    subresource: str
    """`status`, or "" for the object itself."""
    body: JSONObject
    """The body of the request: an object, a patch, or the options of a deletion."""
    query: dict[str, str]
    """The query: `fieldManager`, `force`, `dryRun`."""
    status: int
    """The HTTP status of the answer, below 300 if the write succeeded."""

    @property
    def is_refused(self) -> bool:
        """Whether the server refused the write."""
        return self.status >= _FIRST_NO_SUCCESS

    def __repr__(self) -> str:
        # Failed assertions print it; the values of a Secret must not appear.
        shown = {one.name: getattr(self, one.name) for one in fields(self)}
        shown["body"] = redacted(self.body, kind=_SECRET if self.plural == _SECRETS else "")
        return f"WriteRecord({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def verb_of(record: RequestRecord) -> str:
    """Return the verb of any request, as a WriteRecord names it."""
    verb = {"update": "replace"}.get(record.verb, record.verb)
    is_apply = _APPLY in record.headers.get("content-type", "")
    return "apply" if verb == "patch" and is_apply else verb


@final
class WriteLog:
    """Records the writes in order."""

    def __init__(self) -> None:
        self.records: list[WriteRecord] = []
        """All writes; the list is the log itself."""

    async def note(self, call: HandlerCall, status: int, answer: bytes) -> None:
        """Record a request, if it is a write.

        Cancellation:
            Safe; it does not wait.
        """
        verb = _VERBS.get(call.method)
        if verb is None:
            return
        route = parse_route(call.method, call.raw_path, watch=False)
        body = _object(await call.read())
        metadata = _object(answer).get("metadata") or body.get("metadata") or {}
        name = route.name or str(metadata.get("name") or "")
        api_version = f"{route.group}/{route.version}" if route.group else route.version
        record = WriteRecord(
            verb="apply" if _APPLY in call.content_type else verb,
            api_version=api_version,
            plural=route.plural,
            key=object_key(route.namespace, name),
            subresource=route.subresource,
            body=body,
            query=dict(call.query),
            status=status,
        )
        self.records.append(record)


def _object(raw: bytes) -> JSONObject:
    try:
        found = _decode(raw) if raw else {}
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
