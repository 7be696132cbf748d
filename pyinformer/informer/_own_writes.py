"""What an informer learns of its own process's writes: the WriteObserver that feeds an overlay.

The response of a write enters; the object enters the overlay as the informer would have cached it,
with the same projection, transform and memory mode, if it is in the informer's scope. A write that
takes an object out of the scope hides it. Nothing that arrives here ever fails the write itself.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, cast, final

from pyinformer._logging import get_logger
from pyinformer.apimachinery import (
    FieldNotFoundError,
    InformerError,
    KubeObject,
    ObjectCodec,
    Transform,
    V,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.informer._settings import Scope
    from pyinformer.store import Overlay

_log = get_logger(__name__)

_REMEMBERED = 1_024  # writes whose key a barrier finds by their version alone
# What a server says of a field that is absent; where nothing stands here, it says "".
_ABSENT: Final = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
    "status.successful": "0",
}
# Fields that a selector calls otherwise than the object does.
_RENAMED: Final = {("Job", "status.successful"): "status.succeeded"}
# Events: a server works them out of several fields.
_COMPUTED: Final = frozenset({"source", "reportingComponent"})


class WrittenAt(NamedTuple):
    """The object that this process wrote at a resource version."""

    key: str
    uid: str
    is_sole: bool
    """Whether no other key was written at this version; versions of two objects can be the same."""


class _UnknownField(Exception):  # noqa: N818 - control flow within this module
    """Nobody but the server can say what a field selector reads here."""


@final
class OwnWrites(Generic[V]):
    """Takes the responses of writes to one resource.

    Args:
        scope: what the informer follows.
        overlay_of: returns what shows the writes of a key to readers; None if the key is in a
            namespace that is not followed.
        view: the informer's projection.
        strip_managed_fields: as the informer does.
        transform: the user's change to each object.
        metadata_only: keep nothing but the metadata of what was written.
        on_shown: is called with a key when readers may see something else of it.
    """

    def __init__(
        self,
        scope: Scope,
        overlay_of: Callable[[str], Overlay[V] | None],
        *,
        view: type[V] | None = None,
        strip_managed_fields: bool = True,
        transform: Transform | None = None,
        metadata_only: bool = False,
        on_shown: Callable[[str], None] = lambda _key: None,
    ) -> None:
        self._on_shown = on_shown
        self._scope = scope
        self._overlay_of = overlay_of
        # The cluster has decoded the response already; the cache may keep the object otherwise.
        self._is_kept_as_decoded = (
            view is None and strip_managed_fields and transform is None and not metadata_only
        )
        self._codec: ObjectCodec[V] = ObjectCodec(
            scope.resource,
            view=view,
            strip_managed_fields=strip_managed_fields,
            transform=transform,
            metadata_only=metadata_only,
        )
        self._written: OrderedDict[str, WrittenAt] = OrderedDict()
        self.unreadable = 0
        """Responses that were no objects of this resource."""

    def wrote(self, obj: KubeObject, raw: bytes) -> None:
        """Show readers the object of a write's response, as the cache would keep it."""
        try:
            self._take(obj, raw)
        except (InformerError, _UnknownField) as error:
            self._count(error)

    def _take(self, plain: KubeObject, raw: bytes) -> None:
        meta, key = plain.metadata, plain._key
        known = self._written.get(meta.resource_version)
        is_sole = known is None or (known.is_sole and known.key == key)
        self._written[meta.resource_version] = WrittenAt(key, meta.uid, is_sole)
        if len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)
        overlay = self._overlay_of(key)
        if overlay is None:
            return
        if self._selects(plain):
            as_decoded = cast("KubeObject[V]", plain)  # without a view
            kept = self._is_kept_as_decoded
            overlay.put(as_decoded if kept else self._codec.decode(raw, 0, len(raw)))
        else:
            overlay.put_unselected(key, meta.uid, meta.resource_version)
        self._on_shown(key)

    def deleted(self, key: str, uid: str, resource_version: str | None) -> None:
        """Take note that a write's response said that an object is gone."""
        overlay = self._overlay_of(key)
        if uid and overlay is not None:
            overlay.put_tombstone(key, uid, resource_version)
            self._on_shown(key)

    def written_at(self, resource_version: str) -> WrittenAt | None:
        """Return the object that was written at a version, the last one, if it is remembered."""
        return self._written.get(resource_version)

    def _selects(self, plain: KubeObject[None]) -> bool:
        scope = self._scope
        return scope.label_selector.matches(plain.metadata.labels) and scope.field_selector.matches(
            lambda path: _field(plain, path)
        )

    def _count(self, error: Exception) -> None:
        self.unreadable += 1
        if self.unreadable == 1:
            _log.warning(
                "%s: a write's response does not tell what readers should see of it: they see it"
                " when the watch brings it; further ones are counted",
                self._scope,
                extra={"informer": str(self._scope), "error": str(error)[:500]},
            )


def _field(plain: KubeObject[None], path: str) -> str:
    """Return a field as the server's field selectors read it."""
    if path in _COMPUTED:
        raise _UnknownField(path)
    try:
        value = plain.at(_RENAMED.get((plain.gvk.kind, path), path))
    except FieldNotFoundError:
        return _ABSENT.get(path, "")
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    raise _UnknownField(path)
