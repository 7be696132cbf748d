"""From the answer of a write to the record that its caller gets, and to those who observe writes.

What enters are the bytes that the server answered; what leaves is a KubeObject, or None for an
object that is gone. Observers hear of it before anybody else, in the same step: a write whose
answer has arrived is never lost on them. Whether an object is gone is read from the answer alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import msgspec
from msgspec import Struct

from pyinformer.apimachinery import (
    GroupVersionKind,
    GroupVersionResource,
    InvalidArgumentError,
    InvalidObjectError,
    KubeObject,
    ObjectCodec,
    ObjectMeta,
    ProtocolError,
)

if TYPE_CHECKING:
    from pyinformer.cluster._write_observer import WriteObservers


class _Details(Struct, frozen=True):
    uid: str = ""


class _Status(Struct, frozen=True):
    kind: str = ""
    details: _Details | None = None


_decode_status = msgspec.json.Decoder(_Status).decode


class _Named(Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class _Nameless(Struct, frozen=True, rename="camel"):
    kind: str
    api_version: str
    metadata: _Named = _Named()


_decode_nameless = msgspec.json.Decoder(_Nameless).decode


@final
class Answers:
    """Reads the answers of one server.

    Args:
        observers: who hears of them.
    """

    def __init__(self, observers: WriteObservers) -> None:
        self._observers = observers
        self._codecs: dict[GroupVersionResource, ObjectCodec[None]] = {}

    def record(self, resource: GroupVersionResource, raw: bytes) -> KubeObject:
        """Return an object; nobody is told.

        Raises:
            InvalidObjectError: it is none of this resource.
        """
        codec = self._codecs.get(resource)
        if codec is None:
            codec = self._codecs[resource] = ObjectCodec(resource)
        return codec.decode(raw, 0, len(raw))

    def wrote(self, resource: GroupVersionResource, raw: bytes) -> KubeObject:
        """Tell of a write, and return what the server has now.

        A write that took the last finalizer of an object that was waiting for it is its end.

        Raises:
            InvalidObjectError: the answer is no object of this resource.
        """
        found = self.record(resource, raw)
        if is_gone(found):
            self._ended(resource, found)
        else:
            self._observers.wrote(resource, raw)
        return found

    def created(self, resource: GroupVersionResource, raw: bytes) -> KubeObject:
        """Tell of a create, and return the server's answer, whose object may have no name.

        A review is answered and not stored, and a Binding is answered by a Status: such an answer
        has an empty key, and no observer is told of it.

        Raises:
            InvalidObjectError: the answer is neither an object of this resource nor nameless.
        """
        try:
            return self.wrote(resource, raw)
        except InvalidObjectError:
            nameless = _nameless(raw)
            if nameless is None:
                raise
            return nameless

    def recorded(self, resource: GroupVersionResource, raw: bytes, *, deleting: bool) -> None:
        """Tell of a write that somebody else made, once it is known to be an answer.

        Raises:
            InvalidObjectError: it is no object of this resource, or not as a server answers.
        """
        found = ObjectCodec[None](resource).decode(raw, 0, len(raw))  # learns nothing from it
        meta, known = found.metadata, self._codecs.get(resource)
        if known is not None and known.gvk not in {None, found.gvk}:
            raise InvalidObjectError(f"{resource} {found.key!r}", f"is a {found.gvk}")
        if not (meta.uid and meta.resource_version):
            reason = "has no uid or no resourceVersion; give the whole answer of the server"
            raise InvalidObjectError(f"{resource} {found.key!r}", reason)
        is_over = deleting or meta.deletion_timestamp is not None
        if is_over and _has_no_reason_to_stay(found):
            self._ended(resource, found)
        else:
            self._observers.wrote(resource, raw)

    def deleted(
        self,
        resource: GroupVersionResource,
        raw: bytes,
        *,
        key: str,
        uid: str,
        version: str | None = None,
    ) -> KubeObject | None:
        """Tell of a deletion, and return what is left.

        Args:
            resource: the resource.
            raw: the answer: a Status if the object is gone; else the object, which is gone too
                unless something holds it.
            key: what was deleted.
            uid: which one that was, if it is known; the answer's word counts more.
            version: at which that one is known to have existed.

        Returns:
            None if the object is gone.

        Raises:
            InvalidObjectError: the answer is no object of this resource.
            ProtocolError: the answer is nothing of the sort.
        """
        try:
            status = _decode_status(raw)
        except RecursionError:  # an object that something holds; a Status is not nested deeply
            status = _Status()
        except msgspec.DecodeError as error:
            raise ProtocolError(f"delete {resource}", f"cannot be decoded: {error}") from error
        if status.kind == "Status":
            named = (status.details.uid if status.details else "") or uid
            self._observers.deleted(resource, key, named, version if named == uid else None)
            return None
        found = self.record(resource, raw)
        if _has_no_reason_to_stay(found):
            self._ended(resource, found)
            return None
        self._observers.wrote(resource, raw)
        return found

    def absent(
        self, resource: GroupVersionResource, *, key: str, uid: str, version: str | None = None
    ) -> None:
        """Tell that an object that was to be deleted is not there."""
        self._observers.deleted(resource, key, uid, version)

    def _ended(self, resource: GroupVersionResource, last: KubeObject) -> None:
        meta = last.metadata
        self._observers.deleted(resource, last.key, meta.uid, meta.resource_version or None)


def _nameless(raw: bytes) -> KubeObject | None:
    """Return an answer that is an object without a name; None if it is something else."""
    try:
        found = _decode_nameless(raw)
        gvk = GroupVersionKind.of(found.api_version, found.kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, InvalidArgumentError):
        return None
    if found.metadata.name:
        return None
    return KubeObject("", ObjectMeta(found.metadata.namespace, "", "", ""), None, raw, gvk)


def is_gone(found: KubeObject) -> bool:
    """Return whether an answer to a write shows an object that this write has let go.

    Such an answer has the resource version of before: it is what was asked for, and not stored.
    """
    return found.metadata.deletion_timestamp is not None and _has_no_reason_to_stay(found)


def _has_no_reason_to_stay(found: KubeObject) -> bool:
    """Return whether the server removes an object that is being deleted in this state.

    Source:
        apiserver pkg/registry/generic/registry/store.go, ShouldDeleteDuringUpdate; namespaces
        have finalizers of their own.
    """
    if found.metadata.finalizers or found.at("metadata.deletionGracePeriodSeconds", default=0):
        return False
    is_namespace = found.gvk.kind == "Namespace" and not found.gvk.group
    return not (is_namespace and found.at("spec.finalizers", default=None))
