"""One resource in one scope: the two questions that keep a cache in step with a server.

What enters is where to resume and how; what leaves is a stream of bytes. The rules of the API's
query live here: a list that names a resource version always says how it is meant, and a watch
never starts from nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, final
from urllib.parse import quote

from pyinformer.apimachinery import GroupVersionResource, InvalidArgumentError, ObjectKey
from pyinformer.transport._body import Body
from pyinformer.transport._connection_protocol import ConnectionProtocol, NetworkConnection

if TYPE_CHECKING:
    from pyinformer.apimachinery._field_selector import FieldSelector
    from pyinformer.apimachinery._label_selector import LabelSelector

WATCH_GRACE_SECONDS: Final = 15.0
"""How long after `timeoutSeconds` the server has to end a watch before we do."""

_METADATA_LIST: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)
_METADATA_WATCH: Final = (
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)


_NOBODY: Final = "-"  # no object can have this name


@final
class ListWatch:
    """List and watch one resource.

    Args:
        connection: the server.
        resource: what to list.
        namespace: where; None or an empty string for all namespaces and for cluster-scoped
            resources.
        label_selector: which labels; None or empty for all.
        field_selector: which fields; None or empty for all.
        metadata_only: ask for nothing but the objects' metadata, in lists and in watches; a server
            that cannot sends them whole, so whoever reads them looks at nothing else.
    """

    def __init__(
        self,
        connection: ConnectionProtocol,
        resource: GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: LabelSelector | str | None = None,
        field_selector: FieldSelector | str | None = None,
        metadata_only: bool = False,
    ) -> None:
        self.metadata_only: bool = metadata_only
        """Whether metadata is all that is asked for, in every list and watch."""
        self.connection = connection
        self.resource = resource
        self.namespace: str | None = namespace or None
        scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        self.path: str = f"{resource.path}{scope}/{resource.resource}"
        self.key: str = ""
        """The one object that is listed; empty for all. A server may ignore it and send others."""
        self._selectors = tuple(_selectors(label_selector, field_selector))

    @property
    def is_selective(self) -> bool:
        """Whether a selector is in force, so that an object can leave without being deleted."""
        return bool(self._selectors)

    def __repr__(self) -> str:
        return f"ListWatch({self.path!r})"

    def describe_pending(self) -> str:
        """Return what a list or a watch waits for that has no answer yet; empty if none does.

        Safe from any thread.
        """
        wire = self.connection
        return wire.describe_pending(self.path) if isinstance(wire, NetworkConnection) else ""

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
            resource_version: empty for the newest, `0` for anything the server has at hand.
            resource_version_match: how the version is meant; empty for `NotOlderThan`.
            limit: how many items a page may have; 0 for all in one.
            continue_token: where the page before ended; goes with no resource version.
            own_connection_seconds: ask on a connection of its own, which no earlier request has
                used, and give it up after so long; None for one that is shared.
            metadata_only: leave out all but the items' metadata in this list, if that is not
                asked for anyway.

        Returns:
            The stream; entering it raises what `Connection.stream` raises.

        Raises:
            InvalidArgumentError: the server would misunderstand this combination.

        Source:
            apimachinery pkg/apis/meta/internalversion/validation; KEP-2340.
        """
        if limit < 0:
            raise InvalidArgumentError("limit", f"{limit} is negative; use 0 for no pages")
        if continue_token and (resource_version or resource_version_match):
            reason = "goes with no resource version: the token carries its own"
            raise InvalidArgumentError("continue_token", reason)
        if resource_version_match and not resource_version:
            reason = "needs a resource version to match"
            raise InvalidArgumentError("resource_version_match", reason)
        query = list_query(resource_version, resource_version_match, limit, continue_token)
        what = f"list {self.resource}"
        return self.connection.stream(
            self.path,
            (*self._selectors, *query),
            watch=own_connection_seconds is not None,  # each watch has one
            what=what,
            deadline_seconds=own_connection_seconds,
            accept=_METADATA_LIST if metadata_only or self.metadata_only else "",
        )

    def only(self, key: str) -> ListWatch:
        """Return what lists one object, if it is in this scope: a GET ignores selectors.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
        """
        wanted = ObjectKey(key)
        fields = [value for name, value in self._selectors if name == "fieldSelector"]
        one = ListWatch(
            self.connection,
            self.resource,
            namespace=wanted.namespace or self.namespace,
            label_selector=next(
                (v for name, v in self._selectors if name == "labelSelector"), None
            ),
            field_selector=",".join((*fields, f"metadata.name={wanted.name}")),
            metadata_only=self.metadata_only,
        )
        one.key = key
        return one

    def nothing(self) -> ListWatch:
        """Return what lists no object whole: the list's kind is all that its answer has to say."""
        whole = ListWatch(self.connection, self.resource, namespace=self.namespace)
        return whole.only(_NOBODY)

    def watch(
        self,
        *,
        resource_version: str,
        timeout_seconds: float,
        send_initial_events: bool = False,
    ) -> AbstractAsyncContextManager[Body]:
        """Open a watch, with bookmarks.

        Args:
            resource_version: where to resume. Empty or `0` only with `send_initial_events`: a
                watch from nowhere is neither fresh nor complete.
            timeout_seconds: when the server shall end it; sent as whole seconds. If the server
                does not, the stream ends with RequestTimeoutError fifteen seconds later.
            send_initial_events: begin with what exists, then a bookmark that says so (watch-list).

        Returns:
            The stream; entering it raises what `Connection.stream` raises.

        Raises:
            InvalidArgumentError: nowhere to resume, or no time.

        Source:
            KEP-3157; apimachinery pkg/apis/meta/internalversion/validation.
        """
        if not timeout_seconds > 0:
            reason = f"{timeout_seconds} is no time to watch; use about 200 s"
            raise InvalidArgumentError("timeout_seconds", reason)
        if resource_version in {"", "0"} and not send_initial_events:
            reason = f"{resource_version!r} is nowhere to resume; list first"
            raise InvalidArgumentError("resource_version", reason)
        seconds = max(1, round(timeout_seconds))
        query = watch_query(resource_version, seconds, send_initial_events=send_initial_events)
        return self.connection.stream(
            self.path,
            (*self._selectors, *query),
            watch=True,
            what=f"watch {self.resource}",
            deadline_seconds=seconds + WATCH_GRACE_SECONDS,
            accept=_METADATA_WATCH if self.metadata_only else "",
        )


def list_query(
    resource_version: str, resource_version_match: str, limit: int, continue_token: str
) -> Iterator[tuple[str, str]]:
    """Yield the query of a list, without its selectors."""
    if resource_version:
        yield "resourceVersion", resource_version
        yield "resourceVersionMatch", resource_version_match or "NotOlderThan"
    if limit:
        yield "limit", str(limit)
    if continue_token:
        yield "continue", continue_token


def watch_query(
    resource_version: str, seconds: int, *, send_initial_events: bool
) -> Iterator[tuple[str, str]]:
    """Yield the query of a watch, without its selectors."""
    yield "watch", "true"
    yield "allowWatchBookmarks", "true"
    if resource_version:
        yield "resourceVersion", resource_version
    if send_initial_events:
        yield "sendInitialEvents", "true"
        yield "resourceVersionMatch", "NotOlderThan"
    yield "timeoutSeconds", str(seconds)


def _selectors(
    label_selector: LabelSelector | str | None, field_selector: FieldSelector | str | None
) -> Iterator[tuple[str, str]]:
    if label_selector is not None and str(label_selector):
        yield "labelSelector", str(label_selector)
    if field_selector is not None and str(field_selector):
        yield "fieldSelector", str(field_selector)
