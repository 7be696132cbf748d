"""The paths under which objects are read and written.

The server's discovery decides whether a resource has namespaces. A missing namespace is an error
and never a default: an object in the wrong namespace would not be found.
"""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, final
from urllib.parse import quote, unquote

from pyinformer.client.cluster._json_conversion import NO_UNICODE, Body, body_of
from pyinformer.client.transport import APIResource
from pyinformer.errors import ForbiddenError, InvalidArgumentError, NotFoundError
from pyinformer.objects import (
    PARTIAL_OBJECT_METADATA,
    GroupVersionResource,
    JSONObject,
    JSONValue,
    KubeObject,
    check_text,
    object_key,
    plain_text,
)

if TYPE_CHECKING:
    from pyinformer.client.cluster._discovery import Discovery

Parent: TypeAlias = Body | tuple[str, str, str]
"""The object that a subresource belongs to: the object, or its apiVersion, plural and key."""

_ALONE: Final = PARTIAL_OBJECT_METADATA.kind.encode()
# A namespace has two subresources, whose paths look like those of resources inside it.
_OF_RESOURCE: Final = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)"
    r"/(?:namespaces/(?P<namespace>[^/]+)/(?!(?:status|finalize)$))?(?P<plural>[^/]+)"
    r"(?:/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?)?"
).match
_UP: Final = frozenset({".", ".."})  # a proxy on the way may take them for directories
_STREAMS: Final = (
    "is a conversation over an upgraded connection, which this library does not have: run `kubectl"
    " {0}`, or use kubernetes_asyncio.stream or kr8s"
)
_NOT_OBJECTS: Final = {
    "exec": "is a conversation over an upgraded connection: run the command with exec()",
    "attach": _STREAMS.format("attach"),
    "portforward": _STREAMS.format("port-forward"),
    "log": "is text and not an object: read it with logs()",
    "proxy": "has no objects: send the request with request()",
}
_SECRETS: Final = GroupVersionResource.of("v1", "secrets")
_OF_SUBRESOURCES: Final = {
    "Eviction": ("eviction", "pod that is evicted"),
    "Scale": ("scale", "object that is scaled"),
    "TokenRequest": ("token", "service account"),
}
_needs_no_quotes = re.compile(r"[A-Za-z0-9._-]+").fullmatch
_stream_of_a_pod = re.compile(
    r"/api/v1/namespaces/[^/]+/pods/[^/]+/(exec|attach|portforward)/?"
).fullmatch


class PathParts(NamedTuple):
    """What the path of a request says about it; texts are empty where it says nothing."""

    resource: GroupVersionResource
    namespace: str
    name: str
    subresource: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One object of one resource, or the place for a new one."""

    api: APIResource
    namespace: str
    name: str
    subresource: str = ""
    """The part of the object that is read or written; empty for the object itself."""

    @property
    def resource(self) -> GroupVersionResource:
        """Its resource."""
        return self.api.resource

    @property
    def key(self) -> str:
        """`namespace/name`, or `name`."""
        return object_key(self.namespace, self.name)

    @property
    def path(self) -> str:
        """Its URL's path."""
        return object_path(self.resource, self.key, self.subresource)

    @property
    def of_status(self) -> Target:
        """The place where its status is written."""
        return replace(self, subresource="status" if self.api.has_status else "")

    @property
    def takes_status(self) -> bool:
        """Whether a write there can change the status."""
        return self.subresource == self.of_status.subresource

    @property
    def collection_path(self) -> str:
        """The path by which it is created."""
        return _collection_path(self.resource, self.namespace)


def check_secret(target: Target, body: JSONObject, argument: str = "obj") -> None:
    """Refuse a write of a Secret whose data has plain text.

    The server's own words about it may quote the value, so that they are never shown.

    Args:
        target: what is written.
        body: the object, or a patch of it.
        argument: the argument that has it, for the error.

    Raises:
        InvalidArgumentError: naming the field.
    """
    data = body.get("data") if target.resource == _SECRETS else None
    for name, value in data.items() if isinstance(data, dict) else ():
        if not isinstance(value, str):
            continue  # the server says what is wrong, and does not quote it
        try:
            # As Go reads it, without the ends of lines.
            b64decode(value.replace("\r", "").replace("\n", ""), validate=True)
        except ValueError:
            what = f"{target.api.kind} {target.key!r}"
            reason = f"data.{name} of {what} must be base64; plain text belongs into stringData"
            raise InvalidArgumentError(argument, reason) from None


async def target_of(
    discovery: Discovery,
    body: JSONObject,
    *,
    namespace: str | None = None,
    named: bool = True,
    argument: str = "obj",
) -> Target:
    """Find out where an object belongs.

    Args:
        discovery: the server's.
        body: the object, with apiVersion and kind.
        namespace: for an object that names none.
        named: whether it must have a name.
        argument: the argument that has the object, for errors.

    Raises:
        InvalidArgumentError: it lacks apiVersion, kind, a name or a namespace; or it is metadata
            alone.
        NotFoundError: the server does not serve its kind.

    Cancellation:
        Safe.
    """
    api = await kind_of(discovery, body, argument)
    return await target_in(
        discovery, api, body, namespace=namespace, named=named, argument=argument
    )


async def kind_of(discovery: Discovery, body: JSONObject, argument: str = "obj") -> APIResource:
    """Look up the kind of an object.

    Args:
        discovery: the server's.
        body: the object, with apiVersion and kind.
        argument: the argument that has the object, for errors.

    Raises:
        InvalidArgumentError: it lacks apiVersion or kind; or it is metadata alone.
        NotFoundError: the server does not serve its kind.

    Cancellation:
        Safe.
    """
    api_version, kind = body.get("apiVersion"), body.get("kind")
    refuse_metadata_alone(body, argument)
    if not (isinstance(api_version, str) and isinstance(kind, str) and api_version and kind):
        raise InvalidArgumentError(argument, "must have apiVersion and kind")
    try:
        return await discovery.kind(api_version, kind)
    except NotFoundError as error:
        subresource, parent = _OF_SUBRESOURCES.get(kind, ("", ""))
        if not subresource:
            raise
        hint = f"pass subresource={subresource!r} and of=, the {parent}"
        raise error.with_hint(hint) from error


async def target_in(
    discovery: Discovery,
    api: APIResource,
    body: JSONObject,
    *,
    namespace: str | None = None,
    named: bool = True,
    argument: str = "obj",
) -> Target:
    """Find out where an object of a known kind belongs.

    Args:
        discovery: the server's.
        api: what `kind_of` returned.
        body: the object.
        namespace: as for `target_of`.
        named: as for `target_of`.
        argument: as for `target_of`.

    Raises:
        InvalidArgumentError: it lacks a name or a namespace.

    Cancellation:
        Safe.
    """
    kind, metadata = api.kind, body.get("metadata")
    if not isinstance(metadata, dict):
        raise InvalidArgumentError(argument, f"a {kind} must have metadata")
    name = _text(metadata, "name", argument)
    what = f"{kind} {name!r}"
    if named and not name:
        raise InvalidArgumentError(argument, f"a {kind} must have a name in its metadata")
    own = _text(metadata, "namespace", argument)
    _quoted("metadata.name", name)
    given = own or namespace or ""
    check_namespace(given)
    if api.namespaced != bool(given):
        api = await discovery.current(api)
    if api.namespaced and not given:
        raise InvalidArgumentError(
            "namespace", f"{what} must have one, in its metadata or in this argument"
        )
    if namespace and own and own != namespace:
        raise InvalidArgumentError("namespace", f"{what} has another one in its metadata: {own!r}")
    if not api.namespaced and given:
        raise InvalidArgumentError("namespace", f"{what} is cluster-scoped and must not have one")
    return Target(api=api, namespace=given, name=name)


async def subresource_of(
    discovery: Discovery,
    body: JSONObject,
    subresource: str,
    of: Parent | None,
    *,
    argument: str = "obj",
) -> Target:
    """Find out where a subresource of an object belongs.

    Args:
        discovery: the server's.
        body: what is written.
        subresource: such as `scale`.
        of: the object; None if `body` is that object.
        argument: the argument that has `body`, for errors.

    Raises:
        InvalidArgumentError: it is not a subresource with objects; or the object lacks apiVersion,
            kind, a name or a namespace.
        NotFoundError: the server does not serve the resource.

    Cancellation:
        Safe.
    """
    check_subresource(subresource)
    if isinstance(of, tuple):
        target = await _target_at(discovery, *of)
    elif isinstance(of, KubeObject):  # of metadata alone is enough
        target = await target_of(discovery, head_of(of), argument="of")
    elif of is None:
        target = await target_of(discovery, body, argument=argument)
    else:
        target = await target_of(discovery, body_of(of, "of"), argument="of")
    return replace(target, subresource=subresource)


async def _target_at(discovery: Discovery, api_version: str, plural: str, key: str) -> Target:
    """Return the place of an object; its kind is empty if discovery is forbidden."""
    resource = GroupVersionResource.of(api_version, plural)
    object_path(resource, key)  # refuses a malformed key
    namespace, _, name = plain_text(key).rpartition("/")
    try:
        api = await discovery.resource(resource)
    except ForbiddenError:  # the server decides
        api = APIResource(resource=resource, kind="", namespaced=bool(namespace))
    return Target(api=await check_scope(discovery, api, key), namespace=namespace, name=name)


def check_namespace(namespace: str | None) -> None:
    """Refuse a namespace that would change the path of a request.

    Raises:
        InvalidArgumentError: it cannot be a name.
    """
    if namespace is not None:
        check_text("namespace", namespace)
    _quoted("namespace", namespace or "")


def check_subresource(subresource: str) -> None:
    """Refuse a subresource that is not an object.

    Raises:
        InvalidArgumentError: it is not; the message has the call for it.
    """
    check_text("subresource", subresource)
    reason = _NOT_OBJECTS.get(subresource)
    if reason is not None:
        raise InvalidArgumentError("subresource", f"{subresource!r} {reason}")


def check_no_stream(path: str) -> None:
    """Refuse the path of a request that cannot be one request and one response.

    Raises:
        InvalidArgumentError: it is; the message has alternatives.
    """
    found = _stream_of_a_pod(path)
    if found is not None:
        raise InvalidArgumentError("path", f"{found[1]!r} {_NOT_OBJECTS[found[1]]}")


def is_metadata_alone(body: JSONObject) -> bool:
    """Return whether an object is a PartialObjectMetadata, as metadata-only informers keep it."""
    named = (body.get("apiVersion"), body.get("kind"))
    return named == (PARTIAL_OBJECT_METADATA.api_version, PARTIAL_OBJECT_METADATA.kind)


def has_only_metadata(obj: KubeObject[object]) -> bool:
    """Return whether the body of an object is a PartialObjectMetadata."""
    return _ALONE in obj.raw and is_metadata_alone(obj.to_dict())  # most need no decode


def refuse_metadata_alone(body: JSONObject, argument: str = "obj") -> None:
    """Refuse an object that is metadata alone where it would be written as the whole object.

    Raises:
        InvalidArgumentError: it is metadata alone.
    """
    if is_metadata_alone(body):
        reason = (
            "is metadata alone, of an informer with memory='metadata': written as the whole it"
            " would wipe the rest; patch() the cached object, or get() the whole one first"
        )
        raise InvalidArgumentError(argument, reason)


def head_of(obj: KubeObject[object]) -> JSONObject:
    """Return what identifies an object and its version, without a look at its body."""
    meta = obj.metadata
    place = {"namespace": meta.namespace} if meta.namespace else {}
    version = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    named = {"apiVersion": obj.gvk.api_version, "kind": obj.gvk.kind}
    return {**named, "metadata": {"name": meta.name, **place, **version}}


async def check_scope(discovery: Discovery, api: APIResource, key: str) -> APIResource:
    """Refuse a key of the wrong scope, for which servers answer that the object does not exist.

    Returns:
        The description of the resource; a newer one if the kept one does not fit the key.

    Raises:
        InvalidArgumentError: it lacks a namespace, or has one where the resource has none.

    Cancellation:
        Safe.
    """
    if api.namespaced != ("/" in key):
        api = await discovery.current(api)
    if api.namespaced and "/" not in key:
        raise InvalidArgumentError("key", f"{key!r} must have a namespace: write 'namespace/name'")
    if not api.namespaced and "/" in key:
        reason = f"{key!r} has a namespace, but {api.kind} is cluster-scoped"
        raise InvalidArgumentError("key", reason)
    return api


def object_path(resource: GroupVersionResource, key: str, subresource: str = "") -> str:
    """Return the path of an object, or of a subresource of it.

    Raises:
        InvalidArgumentError: the key is neither `namespace/name` nor `name`, or a part of it
            cannot be a name.
    """
    check_text("key", key)
    namespace, slash, name = plain_text(key).rpartition("/")
    if not name or "/" in namespace or bool(slash) != bool(namespace):
        raise InvalidArgumentError("key", f"{key!r} is neither 'namespace/name' nor 'name'")
    below = f"/{_quoted('subresource', subresource)}" if subresource else ""
    return f"{_collection_path(resource, namespace)}/{_quoted('key', name)}{below}"


def resource_of(path: str) -> GroupVersionResource | None:
    """Return the resource that a request to a path changes; None if it is not one of the API."""
    parts = parts_of(path)
    return None if parts is None else parts.resource


def parts_of(path: str) -> PathParts | None:
    """Return what a path says about a request; None if it is not one of a resource."""
    found = _OF_RESOURCE(path)
    if found is None:
        return None
    resource = GroupVersionResource(found["group"] or "", found["version"], found["plural"])
    rest = (unquote(found[part] or "") for part in ("namespace", "name", "subresource"))
    return PathParts(resource, *rest)


def _collection_path(resource: GroupVersionResource, namespace: str) -> str:
    scope = f"/namespaces/{_quoted('key', namespace)}" if namespace else ""
    return f"{resource.path}{scope}/{resource.resource}"


def _quoted(argument: str, name: str) -> str:
    """Return a name as one segment of a path."""
    if name in _UP or "/" in name:
        raise InvalidArgumentError(argument, f"{name!r} cannot be a name")
    if _needs_no_quotes(name):
        return name
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(argument, f"{name!r} {NO_UNICODE}") from error


def _text(metadata: JSONObject, field: str, argument: str) -> str:
    value: JSONValue = metadata.get(field)
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(argument, f"metadata.{field} must be a text")
    return value or ""
