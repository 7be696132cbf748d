"""Shows the writes of this process to the readers of an informer, from the server's responses.

The object in a write's response is shown as the informer would cache it, if it is in the informer's
scope; a write that takes an object out of the scope hides it. An error here never fails the write.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, cast, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.cache.informer._settings import InformerSettings
from pyinformer.client.cluster import has_only_metadata
from pyinformer.errors import FieldNotFoundError, InformerError
from pyinformer.objects import KubeObject, ObjectCodec, V

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.cache.informer._settings import Scope
    from pyinformer.cache.store import Overlay

_log = get_logger(__name__)

_REMEMBERED = 1_024  # writes whose key can be found by the version alone
# What a field selector reads from an absent field; "" for every other field.
_ABSENT: Final = {
    "spec.hostNetwork": "false",
    "spec.unschedulable": "false",
    "status.replicas": "0",
    "status.successful": "0",
}
# Fields that have another name in selectors than in the object.
_RENAMED: Final = {("Job", "status.successful"): "status.succeeded"}
# Of Events: the server computes them from several fields.
_COMPUTED: Final = frozenset({"source", "reportingComponent"})
_DEFAULTS: Final = InformerSettings()


class WrittenAt(NamedTuple):
    """The object that this process wrote at a resource version."""

    key: str
    uid: str
    is_sole: bool
    """Whether no other key was written at this version; two objects can have the same version."""


class _UnknownField(Exception):  # noqa: N818 - control flow within this module
    """Only the server knows what a field selector reads here."""


@final
class RecentWrites:
    """The newest writes of this process by resource version, so that a wait needs no key."""

    def __init__(self) -> None:
        self._by_version: OrderedDict[str, WrittenAt] = OrderedDict()

    def add(self, resource_version: str, key: str, uid: str) -> None:
        """Record a write."""
        known = self._by_version.get(resource_version)
        is_sole = known is None or (known.is_sole and known.key == key)
        self._by_version[resource_version] = WrittenAt(key, uid, is_sole)
        if len(self._by_version) > _REMEMBERED:
            self._by_version.popitem(last=False)

    def at(self, resource_version: str) -> WrittenAt | None:
        """Return the object that was last written at a version, if it is remembered."""
        return self._by_version.get(resource_version)


@final
class OwnWrites(Generic[V]):
    """The observer of this process's writes to one resource.

    Args:
        scope: what the informer follows.
        overlay_of: returns the overlay that shows writes of a key to readers; None if the key is in
            a namespace that is not followed.
        settings: how the informer keeps objects.
        recent: where the version of each write is recorded.
        on_shown: called with a key when readers may see another state of it.
    """

    def __init__(
        self,
        scope: Scope,
        overlay_of: Callable[[str], Overlay[V] | None],
        *,
        settings: InformerSettings = _DEFAULTS,
        recent: RecentWrites | None = None,
        on_shown: Callable[[str], None] = lambda _key: None,
    ) -> None:
        self._on_shown = on_shown
        self._scope = scope
        self._overlay_of = overlay_of
        self.recent: RecentWrites = recent or RecentWrites()
        # The cluster has decoded the response already; the cache may keep the object otherwise.
        self._is_kept_as_decoded = (
            settings.model is None
            and settings.transform is None
            and settings.memory in {"strip_managed_fields", "compact"}
        )
        self._codec: ObjectCodec[V] = ObjectCodec(
            scope.resource,
            view=cast("type[V] | None", settings.model),
            strip_managed_fields=settings.memory != "raw",
            transform=settings.transform,
            metadata_only=settings.memory == "metadata",
        )
        fields = (one.path for one in scope.field_selector.requirements)
        self._knows_enough = settings.memory == "metadata" and all(map(_is_of_metadata, fields))
        self.unreadable: int = 0
        """Responses that are not objects of this resource."""

    def wrote(self, obj: KubeObject, raw: bytes) -> None:
        """Show readers the object of a write's response, as the cache would keep it."""
        try:
            self._take(obj, raw)
        except (InformerError, _UnknownField) as error:
            self._count(error)

    def _take(self, plain: KubeObject, raw: bytes) -> None:
        meta, key = plain.metadata, plain._key
        self.recent.add(meta.resource_version, key, meta.uid)
        if not self._knows_enough and has_only_metadata(plain):
            return  # of a patch that asked for no more: the watch brings the rest
        overlay, uid_range = self._overlay_of(key), self._scope.uid_range
        if overlay is None or (uid_range is not None and not uid_range.has(meta.uid)):
            return
        if self._selects(plain):
            self._codec.learn_kind(plain.gvk.kind)  # metadata alone does not name it
            as_decoded = cast("KubeObject[V]", plain)  # without a view
            kept = self._is_kept_as_decoded
            overlay.put(as_decoded if kept else self._codec.decode(raw, 0, len(raw)))
        else:
            overlay.put_unselected(key, meta.uid, meta.resource_version)
        self._on_shown(key)

    def deleted(self, key: str, uid: str, resource_version: str | None) -> None:
        """Hide an object that is gone according to a write's response."""
        overlay = self._overlay_of(key)
        if uid and overlay is not None:
            overlay.put_tombstone(key, uid, resource_version)
            self._on_shown(key)

    def _selects(self, plain: KubeObject[None]) -> bool:
        scope = self._scope
        return scope.label_selector.matches(plain.metadata.labels) and scope.field_selector.matches(
            lambda path: _field(plain, path)
        )

    def _count(self, error: Exception) -> None:
        self.unreadable += 1
        if self.unreadable == 1:
            _log.warning(
                "%s: the response of a write does not show how reads would change: they change when"
                " the watch brings the write; further responses like this are counted silently",
                self._scope,
                extra={"informer": str(self._scope), "error": str(error)[:500]},
            )


def _is_of_metadata(path: str) -> bool:
    return path.startswith("metadata.")


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
