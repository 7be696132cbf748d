"""A connection that stores nothing: the server checks each write, and says what would be stored."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple, final

import msgspec

from pyinformer.client.cluster import parts_of
from pyinformer.client.transport import (
    Body,
    ClusterConfig,
    ConnectionProtocol,
    NetworkConnection,
    Query,
)
from pyinformer.errors import LifecycleError, NotFoundError, ProtocolError
from pyinformer.objects import JSONObject, decoder_of

_decode: Final = decoder_of(dict[str, Any])
_DRY_RUN: Final = ("dryRun", "All")
_SHOWN_AS_ASKED: Final = frozenset({"Status", "TokenRequest"})
IGNORED: Final = "the server has stored it, although it was a dry run; nothing more is written"
_SELECTION: Final = frozenset({"labelSelector", "fieldSelector"})


class Effect(NamedTuple):
    """What one write would do to one object."""

    before: JSONObject | None
    """As the server has it; None if it would be created."""
    after: JSONObject | None
    """As it would be stored; None if it would be deleted."""


@final
class DryRunConnection:
    """Sends every write as a dry run, and keeps what it would have changed.

    It is a ConnectionProtocol and a NetworkConnection, and not more: what cannot be a dry run, such
    as a command in a container, is refused by the cluster.

    Args:
        inner: the connection that is used.
        network: the same connection, by its other type.
    """

    def __init__(self, inner: ConnectionProtocol, network: NetworkConnection) -> None:
        self.effects: list[Effect] = []
        """What the writes so far would have changed, in their order."""
        self._inner = inner
        self._network = network
        self.stored_at: str = ""
        """The request that the server has carried out, although it was a dry run; or nothing."""

    @property
    def config(self) -> ClusterConfig:
        """How the server is reached."""
        return self._inner.config

    def stream(
        self,
        path: str,
        query: Query = (),
        *,
        watch: bool,
        what: str = "",
        deadline_seconds: float | None = None,
        accept: str = "",
        same_server: bool = False,
    ) -> AbstractAsyncContextManager[Body]:
        """Open a GET; see Connection.stream."""
        return self._inner.stream(
            path,
            query,
            watch=watch,
            what=what,
            deadline_seconds=deadline_seconds,
            accept=accept,
            same_server=same_server,
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
        accept: str = "",
    ) -> bytes:
        """Send a request, a write as a dry run; see Connection.request.

        Raises:
            ProtocolError: the server has stored a write, as some that extend the API do; now each
                further write is refused here.
            InformerError: as the connection inside.

        Cancellation:
            Safe.
        """
        found: list[JSONObject] = []
        is_write = method != "GET"
        if is_write:
            if self.stored_at:
                raise ProtocolError(self.stored_at, IGNORED)
            if _subresource_of(path) == "proxy":
                raise LifecycleError(f"{method} {path} is for a workload, which knows no dry run")
            if method != "POST":
                found = await self._live(path, query, timeout_seconds)
            query = (*(one for one in query if one != _DRY_RUN), _DRY_RUN)
            if method == "DELETE":  # of which servers do not read the query if there is a body
                body = msgspec.json.encode(_options(body) | {_DRY_RUN[0]: [_DRY_RUN[1]]})
            accept = ""  # the whole object
        raw = await self._inner.request(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            timeout_seconds=timeout_seconds,
            accept=accept,
        )
        if method == "DELETE":
            self.effects += [Effect(each, _left(each)) for each in found]
            now = await self._live(path, query, timeout_seconds) if found else found
            is_stored = not {*map(_state_of, found)} <= {*map(_state_of, now)}
        elif is_write and (after := _would_be(raw, body)) is not None:
            before, is_stored = await self._before(path, found, after, timeout_seconds)
            self.effects.append(Effect(before, None if _is_released(after) else after))
        else:
            return raw
        if is_stored:
            self.stored_at = f"{method} {path}"
            raise ProtocolError(self.stored_at, IGNORED)
        return raw

    async def _before(
        self,
        path: str,
        found: list[JSONObject],
        after: JSONObject,
        timeout_seconds: float | None,
    ) -> tuple[JSONObject | None, bool]:
        """Return what a dry run began with, and whether the server has stored its result.

        A dry run leaves the version as it is; another client may have changed it meanwhile.
        """
        before = found[0] if found else None
        version = _version_of(after)
        if version in ("", _version_of(before or {})):
            return before, False
        if not found:
            return before, True
        now = await self._live(path, (), timeout_seconds)
        return (now[0] if now else before), now == [after]

    async def _live(
        self, path: str, query: Query, timeout_seconds: float | None
    ) -> list[JSONObject]:
        """Return what the server has at the path of a write: an object, several, or nothing."""
        selection = [one for one in query if one[0] in _SELECTION]
        try:
            raw = await self._inner.request(
                "GET",
                path.removesuffix("/status") if _subresource_of(path) == "status" else path,
                query=selection,
                timeout_seconds=timeout_seconds,
            )
        except NotFoundError:
            return []
        found: JSONObject = _decode(raw)
        if "items" not in found or _name_of(found):
            return [found]
        head = {"apiVersion": found.get("apiVersion"), "kind": found["kind"].removesuffix("List")}
        return [head | each for each in found["items"]]

    async def probe(self, timeout_seconds: float) -> bool:
        """Return whether the server answers.

        Cancellation:
            Safe; the connection is closed.
        """
        return await self._network.probe(timeout_seconds)

    def describe_pending(self, path: str) -> str:
        """Return what the oldest request for a path waits for."""
        return self._network.describe_pending(path)

    async def aclose(self) -> None:
        """Close the connection inside.

        Cancellation:
            As the connection inside.
        """
        await self._inner.aclose()


def folded(effects: Iterable[Effect]) -> list[Effect]:
    """Return one effect for each object, in the order of their first writes.

    A dry run does not see those before it: each began with what the server has. So one that undoes
    an earlier one changes nothing, and the earlier change stays.
    """
    found: dict[tuple[str, ...], Effect] = {}
    for effect in effects:
        named: JSONObject = effect.after or effect.before or {}
        metadata = named["metadata"]
        key = (
            str(named.get("apiVersion")),
            str(named.get("kind")),
            str(metadata.get("namespace")),
            str(metadata["name"]),
        )
        earlier = found.get(key)
        if earlier is None or earlier.after is None or effect.after is None:
            found[key] = effect
        else:
            after: JSONObject = _changed(earlier.after, effect.before or {}, effect.after)
            found[key] = Effect(earlier.before, after)
    return list(found.values())


def _changed(value: Any, before: Any, after: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a value with the changes from one to another; of a list, its items."""
    if value == before:
        return after
    if before is None and isinstance(after, list | dict):  # both writes have made it
        before = type(after)()
    if isinstance(value, list) and isinstance(before, list) and isinstance(after, list):
        kept_items = [one for one in value if one in after or one not in before]
        return kept_items + [one for one in after if one not in before and one not in value]
    if not (isinstance(value, dict) and isinstance(before, dict) and isinstance(after, dict)):
        return value if before == after else after
    kept = {name: each for name, each in value.items() if name in after or name not in before}
    changed = {
        name: _changed(value.get(name), before.get(name), each)
        for name, each in after.items()
        if name not in before or before[name] != each
    }
    return kept | changed


def _subresource_of(path: str) -> str:
    parts = parts_of(path)
    return "" if parts is None else parts.subresource


def _would_be(raw: bytes, body: bytes | None) -> JSONObject | None:
    """Return what a write would store, as far as it has a name.

    Args:
        raw: the response. That to an eviction says nothing, and that to a TokenRequest is a secret.
        body: the request, which is shown in place of these.
    """
    found = _decode(raw)
    if body is not None and found.get("kind") in _SHOWN_AS_ASKED:
        found = _decode(body)
    return found if _name_of(found) else None


def _options(body: bytes | None) -> JSONObject:
    options: JSONObject = _decode(body) if body else {}
    return {"apiVersion": "v1", "kind": "DeleteOptions"} | options


def _left(obj: JSONObject) -> JSONObject | None:
    """Return what a deletion leaves of an object: one with finalizers stays for now."""
    metadata = obj["metadata"]
    if not metadata.get("finalizers"):
        return None
    marked = {"deletionTimestamp": metadata.get("deletionTimestamp") or "(now)"}
    return obj | {"metadata": metadata | marked}


def _is_released(obj: JSONObject) -> bool:
    """Return whether nothing holds an object any more that is being deleted."""
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and not (
        metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
    )


def _state_of(obj: JSONObject) -> tuple[object, ...]:
    metadata = obj["metadata"]
    return metadata.get("uid"), metadata.get("deletionTimestamp")


def _version_of(obj: JSONObject) -> str:
    return str((obj.get("metadata") or {}).get("resourceVersion") or "")


def _name_of(obj: JSONObject) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")
