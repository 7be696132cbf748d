"""What a server's responses to writes say: the object as it is now, or that it is gone.

A response is decoded once. Whether an object is gone is read from the response alone.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import Final, final

import msgspec
from msgspec import Struct

from pyinformer.client.cluster._object_list import object_splitter
from pyinformer.client.cluster._targets import has_only_metadata
from pyinformer.client.transport import item_kind
from pyinformer.errors import InvalidArgumentError, InvalidObjectError, ProtocolError
from pyinformer.objects import (
    GroupVersionKind,
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    ObjectMeta,
    null_as_absent,
)


class _Details(Struct, frozen=True):
    uid: str = ""


class _Status(Struct, frozen=True):
    kind: str = ""
    details: _Details | None = None


class _Named(Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class _Nameless(Struct, frozen=True, rename="camel"):
    kind: str
    api_version: str
    metadata: _Named = _Named()


_STATUS: Final = "Status"
_decode_status = null_as_absent(_Status)
_decode_nameless = null_as_absent(_Nameless)


@final
class ResponseReader:
    """Decodes the responses of one server."""

    def __init__(self) -> None:
        # By resource and subresource: the Scale of a Deployment is not a Deployment.
        self._codecs: dict[tuple[GroupVersionResource, str], ObjectCodec[None]] = {}

    def read(
        self,
        resource: GroupVersionResource,
        raw: bytes,
        *,
        key: str = "",
        subresource: str = "",
    ) -> KubeObject:
        """Return the object of a response.

        Args:
            resource: the resource.
            raw: the response.
            key: the key of the request; empty if the server chooses the name.
            subresource: the subresource of the request; empty for the object itself.

        Raises:
            InvalidObjectError: it is not an object of this resource, or has another key.
        """
        codec = self._codec_of(resource, subresource, raw)
        try:
            found = codec.decode(raw, 0, len(raw))
        except InvalidObjectError:
            codec.forget_kind()
            try:
                found = codec.decode(raw, 0, len(raw))
            except InvalidObjectError:
                # This response is of another object, or the one was from which the kind is known.
                del self._codecs[resource, subresource]
                raise
        if key and found.key != key:  # such as the late response to another request
            del self._codecs[resource, subresource]
            raise _another(resource, key, found)
        return found

    def _codec_of(
        self, resource: GroupVersionResource, subresource: str, raw: bytes
    ) -> ObjectCodec[None]:
        known = self._codecs.get((resource, subresource))
        expected = _expected(resource, subresource, raw) if subresource else resource
        if known is None or known.resource != expected:
            known = self._codecs[resource, subresource] = ObjectCodec(expected)
        return known

    def read_metadata(
        self, resource: GroupVersionResource, raw: bytes, *, kind: str, key: str
    ) -> KubeObject:
        """Return the metadata of a response, which may have the whole object.

        Args:
            resource: the resource.
            raw: the response.
            kind: the kind of its objects; empty if it is not known.
            key: the key of the request.

        Raises:
            InvalidObjectError: it is not an object of this resource, or has another key.
        """
        codec = ObjectCodec[None](resource, metadata_only=True, share_labels=False)
        codec.learn_discovered_kind(kind)
        found = codec.decode(raw, 0, len(raw))
        if found.key != key:
            raise _another(resource, key, found)
        return found

    def read_list(self, resource: GroupVersionResource, raw: bytes) -> tuple[KubeObject, ...]:
        """Return the objects of a response to a deletecollection; empty if it is a Status.

        Raises:
            InvalidObjectError: one of them is not an object of this resource.
            ProtocolError: the response is neither a list nor a Status.
        """
        found: list[KubeObject] = []
        kind = _status_of(resource, raw).kind
        if kind != _STATUS:
            codec = ObjectCodec[None](resource)
            if kind_of_items := item_kind(kind):  # it may stand behind the items
                codec.learn_kind(kind_of_items)
            splitter = object_splitter(codec, found.append, what=f"delete {resource}")
            splitter.feed(raw)
            splitter.finish()
        return tuple(found)

    def read_created(
        self, resource: GroupVersionResource, raw: bytes, *, key: str = "", subresource: str = ""
    ) -> KubeObject:
        """Return the object of a response to a create, which may have no name.

        A review is answered and not stored, and a Binding is answered by a Status: such an object
        has an empty key.

        Raises:
            InvalidObjectError: the response is neither an object of this resource nor nameless, or
                has another key.
        """
        try:
            return self.read(resource, raw, key=key, subresource=subresource)
        except InvalidObjectError:
            nameless = _nameless(raw)
            if nameless is None:
                raise
            return nameless

    def read_recorded(self, resource: GroupVersionResource, raw: bytes) -> KubeObject:
        """Return the object of a response that the program received by other means.

        Raises:
            InvalidObjectError: it is not an object of this resource as a server returns it.
        """
        found = ObjectCodec[None](resource).decode(raw, 0, len(raw))  # learns nothing from it
        meta, known = found.metadata, self._codecs.get((resource, ""))
        if known is not None and known.gvk not in {None, found.gvk}:
            raise InvalidObjectError(f"{resource} {found.key!r}", f"is a {found.gvk}")
        if not (meta.uid and meta.resource_version):
            reason = "needs a uid and a resourceVersion; pass the server's whole response"
            raise InvalidObjectError(f"{resource} {found.key!r}", reason)
        return found


def _another(resource: GroupVersionResource, key: str, found: KubeObject) -> InvalidObjectError:
    reason = f"the server answered with another object, {found.key!r}"
    return InvalidObjectError(f"{resource} {key!r}", reason)


def deleted_uid(resource: GroupVersionResource, raw: bytes) -> str | None:
    """Return the uid in the Status that answers a deletion; empty if the Status names none.

    Returns:
        None if the response is the object, which finalizers or a grace period may hold.

    Raises:
        ProtocolError: the response is neither of the two.
    """
    status = _status_of(resource, raw)
    if status.kind != _STATUS:
        return None
    return status.details.uid if status.details else ""


def _status_of(resource: GroupVersionResource, raw: bytes) -> _Status:
    try:
        return _decode_status(raw)
    except RecursionError:  # an object or a list; a Status is not nested deeply
        return _Status()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"delete {resource}", f"cannot be decoded: {error}") from error


def _expected(resource: GroupVersionResource, subresource: str, raw: bytes) -> GroupVersionResource:
    """Return what an object of a subresource is decoded as: it may have a version of its own."""
    try:
        api_version = _decode_nameless(raw).api_version
        if api_version == resource.api_version:
            return resource
        return GroupVersionResource.of(api_version, subresource)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidArgumentError):
        return resource  # the codec says what is wrong


def _nameless(raw: bytes) -> KubeObject | None:
    """Return a response that is an object without a name; None if it is something else."""
    try:
        found = _decode_nameless(raw)
        gvk = GroupVersionKind.of(found.api_version, found.kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidArgumentError):
        return None
    is_collection = gvk.kind == "Table" or gvk.kind.endswith("List")  # of a POST that became a GET
    if found.metadata.name or is_collection:
        return None
    return KubeObject("", ObjectMeta(found.metadata.namespace, "", "", ""), None, raw, gvk)


def is_gone(found: KubeObject) -> bool:
    """Return whether a response shows an object that the write removed for good.

    Such a response has the resource version from before the write: the server did not store it.
    """
    return found.metadata.deletion_timestamp is not None and is_released(found)


def is_released(found: KubeObject) -> bool:
    """Return whether the server removes an object that is being deleted in this state.

    Source:
        apiserver pkg/registry/generic/registry/store.go, ShouldDeleteDuringUpdate; namespaces
        have finalizers of their own.
    """
    is_namespace = found.gvk.kind == "Namespace" and not found.gvk.group
    if is_namespace and has_only_metadata(found):
        return False  # whether its spec has finalizers is not known
    if found.metadata.finalizers or found.at("metadata.deletionGracePeriodSeconds", default=0):
        return False
    return not (is_namespace and found.at("spec.finalizers", default=None))
