"""The requests for the Leases of a namespace, on a connection of their own.

No other request may delay a renewal, or wait for a connection before it. No term guards them: an
elector that runs inside of a term of another Lease releases its own after that term has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import anyio
import msgspec
from msgspec import Raw

from pyinformer.client.cluster import state_of
from pyinformer.client.transport import (
    Connection,
    ConnectionProtocol,
    ConnectionTimeouts,
    ListWatch,
    Query,
    unguarded,
)
from pyinformer.errors import InformerError, InvalidObjectError, RequestTimeoutError
from pyinformer.leaderelection._election import Read, Write
from pyinformer.leaderelection._lease import LeaseRecord, read_lease
from pyinformer.objects import (
    FieldSelector,
    GroupVersionResource,
    decoder_of,
    fields_of,
    object_key,
)

if TYPE_CHECKING:
    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import JSONObject

_LEASES: Final = GroupVersionResource.of("coordination.k8s.io/v1", "leases")
_CLOSE_SECONDS: Final = 5.0
_decode = decoder_of(dict)


def _decoded(raw: bytes) -> JSONObject:
    """Return a Lease; without managedFields, which can be nested without end, where they are.

    A tenant with rights on the Lease writes them, and servers keep them at the leader's own writes.

    Raises:
        DecodeError: it is not a JSON object.
    """
    try:
        return _decode(raw)
    except RecursionError:
        fields = fields_of(raw)
        metadata = fields_of(fields.get("metadata", Raw(b"{}")))
        metadata.pop("managedFields", None)
        return _decode(msgspec.json.encode({**fields, "metadata": metadata}))


@final
class LeaseRequests:
    """Sends what an election decides.

    Args:
        cluster: where the Leases are.
        namespace: their namespace.
        timeout_seconds: how long one request may take.
    """

    def __init__(self, cluster: Cluster, namespace: str, *, timeout_seconds: float) -> None:
        self.connection: ConnectionProtocol = cluster.connection
        """Their connection; without a network it is that of the cluster."""
        self._is_own = isinstance(cluster.connection, Connection)
        if self._is_own:
            timeouts = ConnectionTimeouts(connect_seconds=timeout_seconds)
            metrics = state_of(cluster).request_metrics
            self.connection = Connection(cluster.config, timeouts=timeouts, metrics=metrics)
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._server = self.connection.config.server
        self._namespace = namespace
        self._timeout_seconds = timeout_seconds

    async def send(self, name: str, request: Read | Write) -> LeaseRecord:
        """Send one request for a Lease; return the Lease of the response.

        Args:
            name: of the Lease.
            request: what to send.

        Raises:
            APIStatusError: the server refuses it.
            RequestTimeoutError: it was not answered in time.
            InformerError: it was not answered.
            DecodeError: the response is not a JSON object.
            InvalidObjectError: it is not this Lease.

        Cancellation:
            Safe; whether a write was carried out is unknown.
        """
        path, method, body = f"{self._collection}/{name}", "GET", None
        if isinstance(request, Write):
            method, body = "PUT", msgspec.json.encode(request.body)
            if request.creates:
                path, method = self._collection, "POST"
        return read_lease(self._checked(name, _decoded(await self._send(method, path, body))))

    async def list(self, label: str, value: str) -> dict[str, LeaseRecord]:
        """Return the Leases with a label, by name.

        Raises:
            APIStatusError: the server refuses it.
            RequestTimeoutError: it was not answered in time.
            InformerError: it was not answered.
            DecodeError: the response is not a JSON object.
            InvalidObjectError: it is not a list of Leases.

        Cancellation:
            Safe.
        """
        query = (("labelSelector", f"{label}={value}"),)
        body: Any = _decoded(await self._send("GET", self._collection, None, query))
        if body.get("kind") != "LeaseList":
            raise InvalidObjectError(f"{_LEASES}", "the server answered with something else")
        found: dict[str, LeaseRecord] = {}
        for item in body.get("items") or ():
            lease = read_lease({**item, "apiVersion": _LEASES.api_version, "kind": "Lease"})
            if lease.labels.get(label) == value:  # a server may ignore selectors
                found[lease.name] = lease
        return found

    async def delete(self, lease: LeaseRecord) -> None:
        """Delete a Lease, if it is in this version.

        Raises:
            APIStatusError: the server refuses it.
            RequestTimeoutError: it was not answered in time.
            InformerError: it was not answered.

        Cancellation:
            Safe; whether it was carried out is unknown.
        """
        kept = {"uid": lease.uid, "resourceVersion": lease.resource_version}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": kept}
        path = f"{self._collection}/{lease.name}"
        await self._send("DELETE", path, msgspec.json.encode(options))

    async def _send(self, method: str, path: str, body: bytes | None, query: Query = ()) -> bytes:
        seconds = self._timeout_seconds
        try:
            with unguarded(), anyio.fail_after(seconds):  # also where a connection has no deadlines
                return await self.connection.request(
                    method, path, query=query, body=body, timeout_seconds=seconds
                )
        except TimeoutError as error:
            if isinstance(error, InformerError):
                raise
            reason = f"no answer within {seconds:g} s"
            if body is not None:
                reason += f"; whether the server carried out the {method} is not known"
            url = self._server + path
            raise RequestTimeoutError(url, reason, waited_seconds=seconds) from None

    def _checked(self, name: str, body: JSONObject) -> JSONObject:
        """Refuse an answer that is not the Lease: a proxy's would look like one that is free.

        Raises:
            InvalidObjectError: it is not this Lease.
        """
        metadata = body.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        found = (body.get("kind"), metadata.get("namespace"), metadata.get("name"))
        if found != ("Lease", self._namespace, name):
            what = f"{_LEASES} {object_key(self._namespace, name)!r}"
            raise InvalidObjectError(what, "the server answered with something else")
        return body

    def list_watch(self, *, name: str = "", label_selector: str = "") -> ListWatch:
        """Return the list and the watch of one Lease, or of those with a label."""
        return ListWatch(
            self.connection,
            _LEASES,
            namespace=self._namespace,
            label_selector=label_selector or None,
            field_selector=FieldSelector.parse(f"metadata.name={name}") if name else None,
        )

    async def aclose(self) -> None:
        """Close the connection, if it is their own.

        Cancellation:
            Takes effect at once.
        """
        if self._is_own:
            with anyio.move_on_after(_CLOSE_SECONDS):
                await self.connection.aclose()
