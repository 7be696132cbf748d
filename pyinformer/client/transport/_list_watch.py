"""List and watch one resource in one scope.

A list that names a resource version always says how the version is matched, and a watch always
names the resource version from which it continues, unless it sends the initial state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, cast, final
from urllib.parse import quote

from pyinformer.client.transport._connection_protocol import ConnectionProtocol
from pyinformer.client.transport.http import Body, Query
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import (
    FieldRequirement,
    FieldSelector,
    GroupVersionResource,
    ObjectKey,
    UidRange,
    check_encodable,
    check_type,
)

if TYPE_CHECKING:
    from pyinformer.objects import LabelSelector

WATCH_GRACE_SECONDS: Final = 15.0
"""How long after `timeoutSeconds` a watch may stay open before the client ends it."""

_METADATA_LIST: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)
METADATA_ACCEPT: Final = (
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)
"""The Accept header of watches, reads and writes that are answered with metadata alone."""
_IMPOSSIBLE: Final = "-"
_NAME: Final = "metadata.name"
_NOT_OLDER: Final = "NotOlderThan"


@final
class ListWatch:
    """Lists and watches one resource.

    Args:
        connection: the server.
        resource: the resource.
        namespace: the namespace; None or an empty string for all namespaces and for cluster-scoped
            resources.
        label_selector: which labels; None or empty for all.
        field_selector: which fields; None or empty for all.
        shard_selector: which share of the objects, as KEP-5866 has it; None or empty for all.
        uid_range: which share of the objects, in place of a `shard_selector`. Most servers ignore
            it and send all objects: the reader must leave out those that `is_foreign` names.
        metadata_only: request only the objects' metadata, in lists and in watches. A server that
            cannot do that sends whole objects: the reader must use nothing but their metadata.
    """

    def __init__(
        self,
        connection: ConnectionProtocol,
        resource: GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: LabelSelector | str | None = None,
        field_selector: FieldSelector | str | None = None,
        shard_selector: str | None = None,
        uid_range: UidRange | None = None,
        metadata_only: bool = False,
    ) -> None:
        check_type("resource", resource, GroupVersionResource)
        if namespace is not None:
            check_encodable("namespace", namespace)
        if uid_range is not None:
            check_type("uid_range", uid_range, UidRange)
        self.metadata_only: bool = metadata_only
        """Whether every list and watch requests only metadata."""
        self.shown: str = str(resource)
        """The resource in log lines; after the name of its cluster, where that has one."""
        self.connection = connection
        self.resource = resource
        self.namespace: str | None = namespace or None
        scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        self.path: str = f"{resource.path}{scope}/{resource.resource}"
        self.key: str = ""
        """The only object that is listed; empty for all. A server may ignore it and send others."""
        selectors = {
            "labelSelector": "" if label_selector is None else str(label_selector),
            "fieldSelector": "" if field_selector is None else str(field_selector),
        }
        self.is_selective: bool = any((*selectors.values(), shard_selector))
        """Whether an object can leave without being deleted; its uid does not change."""
        self.uid_range: UidRange | None = uid_range
        """Which share of the objects is read; None for all."""
        self.sends_shard: bool = True
        """Whether requests name the share. A server that refuses that sends all objects."""
        self._shard_selector = shard_selector or ("" if uid_range is None else uid_range.selector)
        self._own_selectors = tuple(_without_empty(selectors))

    @property
    def selectors(self) -> Query:
        """The selectors as names and values of a query."""
        if not (self._shard_selector and self.sends_shard):
            return self._own_selectors
        return (*self._own_selectors, ("shardSelector", self._shard_selector))

    def is_foreign(self, uid: str) -> bool:
        """Return whether an object is in another share, and must be left out."""
        return self.uid_range is not None and not self.uid_range.has(uid)

    def __repr__(self) -> str:
        return f"ListWatch({self.path!r})"

    def describe_pending(self) -> str:
        """Return what a pending list or watch waits for; empty if none is pending.

        Safe from any thread.
        """
        # Of a NetworkConnection; to ask whether it is one takes 20 us, in each status and probe.
        describe = getattr(self.connection, "describe_pending", None)
        return "" if describe is None else cast("str", describe(self.path))

    def list(
        self,
        *,
        resource_version: str = "",
        resource_version_match: str = "",
        limit: int = 0,
        continue_token: str = "",
        own_connection_seconds: float | None = None,
        metadata_only: bool = False,
    ) -> AbstractAsyncContextManager[Body]:
        """Open a list, or a page of one.

        Args:
            resource_version: empty for the newest, `0` for any state that the server has cached.
            resource_version_match: how the version is matched; empty for `NotOlderThan`.
            limit: how many items a page may have; 0 for all items in one page.
            continue_token: the token of the page before; not together with a resource version.
            own_connection_seconds: use a new connection, and end it after so long; None for the
                shared pool.
            metadata_only: request only metadata in this list, even if the other lists do not.

        Returns:
            The stream; entering it raises what `Connection.stream` raises.

        Raises:
            InvalidArgumentError: the server would misinterpret this combination.

        Source:
            apimachinery pkg/apis/meta/internalversion/validation; KEP-2340.
        """
        if limit < 0:
            raise InvalidArgumentError("limit", f"must be 0 (no pages) or more, got {limit}")
        if continue_token and (resource_version or resource_version_match):
            reason = "must not be combined with a resource version: the token has its own"
            raise InvalidArgumentError("continue_token", reason)
        if resource_version_match and not resource_version:
            reason = "needs a resource version to match"
            raise InvalidArgumentError("resource_version_match", reason)
        what = f"list {self.resource}"
        query = {
            "resourceVersion": resource_version,
            "resourceVersionMatch": resource_version and (resource_version_match or _NOT_OLDER),
            "limit": str(limit or ""),
            "continue": continue_token,
        }
        return self.connection.stream(
            self.path,
            (*self.selectors, *_without_empty(query)),
            watch=own_connection_seconds is not None,  # each watch has its own connection
            what=what,
            deadline_seconds=own_connection_seconds,
            accept=_METADATA_LIST if metadata_only or self.metadata_only else "",
        )

    def only(self, key: str) -> ListWatch:
        """Return a ListWatch of one object, if it is in this scope: a GET ignores selectors.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
        """
        wanted = ObjectKey(key)
        selectors = dict(self._own_selectors)
        named = str(FieldRequirement(_NAME, "=", wanted.name))  # a role's name may have a comma
        fields = (selectors.get("fieldSelector"), named)
        one = ListWatch(
            self.connection,
            self.resource,
            namespace=wanted.namespace or self.namespace,
            label_selector=selectors.get("labelSelector"),
            field_selector=",".join(filter(None, fields)),
            shard_selector=self._shard_selector,
            uid_range=self.uid_range,
            metadata_only=self.metadata_only,
        )
        one.key, one.sends_shard = key, self.sends_shard
        return one

    def nothing(self) -> ListWatch:
        """Return a ListWatch of no object: its response holds only the list's kind and version.

        If this one is of one name, so is that: a role may allow nothing else. It contradicts itself
        by the name alone, since not every resource has another field.
        """
        name = FieldSelector.parse(dict(self._own_selectors).get("fieldSelector")).name
        if not name:
            whole = ListWatch(self.connection, self.resource, namespace=self.namespace)
            return whole.only(_IMPOSSIBLE)
        contradiction = FieldSelector(
            (FieldRequirement(_NAME, "=", name), FieldRequirement(_NAME, "!=", name))
        )
        return ListWatch(
            self.connection,
            self.resource,
            namespace=self.namespace,
            field_selector=contradiction,
        )

    def watch(
        self,
        *,
        resource_version: str,
        timeout_seconds: float,
        send_initial_events: bool = False,
        same_server: bool = False,
    ) -> AbstractAsyncContextManager[Body]:
        """Open a watch, with bookmarks.

        Args:
            resource_version: the version to continue from. Empty or `0` only with
                `send_initial_events`: such a watch is neither fresh nor complete otherwise.
            timeout_seconds: after how long the server ends the watch; sent as whole seconds. If the
                server does not, the stream ends with RequestTimeoutError fifteen seconds later.
            send_initial_events: begin with the existing objects, then a bookmark (watch-list).
            same_server: use the connection of the list just before; see Connection.stream.

        Returns:
            The stream; entering it raises what `Connection.stream` raises.

        Raises:
            InvalidArgumentError: there is no version to continue from, or the timeout is not
                greater than 0.

        Source:
            KEP-3157; apimachinery pkg/apis/meta/internalversion/validation.
        """
        if not timeout_seconds > 0:
            reason = f"must be greater than 0, about 200 s is usual, got {timeout_seconds}"
            raise InvalidArgumentError("timeout_seconds", reason)
        if resource_version in {"", "0"} and not send_initial_events:
            reason = f"must be the version of a list, got {resource_version!r}: list first"
            raise InvalidArgumentError("resource_version", reason)
        seconds = max(1, round(timeout_seconds))
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "sendInitialEvents": "true" if send_initial_events else "",
            "resourceVersionMatch": _NOT_OLDER if send_initial_events else "",
            "timeoutSeconds": str(seconds),
        }
        return self.connection.stream(
            self.path,
            (*self.selectors, *_without_empty(query)),
            watch=True,
            what=f"watch {self.resource}",
            deadline_seconds=seconds + WATCH_GRACE_SECONDS,
            accept=METADATA_ACCEPT if self.metadata_only else "",
            same_server=same_server,
        )


def _without_empty(query: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a query, without empty values."""
    return ((name, value) for name, value in query.items() if value)
