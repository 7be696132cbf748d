"""What kopf has seen of resources and namespaces before it watches them.

kopf scans the resources and fetches the namespaces first. An object of the first list that was seen
there is not reported to its observers as new; one that was created in between is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import msgspec
from kopf._cogs.structs.references import CRDS, NAMESPACES

from pyinformer.apimachinery import decoder_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kopf._cogs.structs.bodies import RawBody
    from kopf._cogs.structs.references import Resource

    from pyinformer.apimachinery import KubeObject


class _Names(msgspec.Struct, frozen=True):
    plural: str


class _Version(msgspec.Struct, frozen=True):
    name: str
    served: bool = False


class _Spec(msgspec.Struct, frozen=True):
    group: str
    names: _Names
    versions: tuple[_Version, ...] = ()


class _Definition(msgspec.Struct, frozen=True):
    spec: _Spec


_decode: Final = decoder_of(_Definition)


@final
class InitialScan:
    """What the first scan and the fetch of one operator have shown."""

    def __init__(self) -> None:
        self._has_scanned = False
        self._groups: frozenset[str] | None = None
        self._resources: frozenset[tuple[str, str, str]] = frozenset()
        self._namespaces: set[str] = set()

    def on_scan(self, groups: Collection[str] | None, found: Iterable[Resource]) -> None:
        """Record the result of the first scan.

        Args:
            groups: what was scanned: the API groups of all handlers, or None for every group.
            found: the resources that the server serves.
        """
        self._has_scanned = True
        self._groups = None if groups is None else frozenset(groups)
        self._resources = frozenset((one.group, one.version, one.plural) for one in found)

    def on_fetch(self, resource: Resource, found: Iterable[RawBody]) -> None:
        """Record a page of a fetch; only namespaces count."""
        if NAMESPACES.check(resource):
            self._namespaces.update(one["metadata"].get("uid", "") for one in found)

    def includes(self, resource: Resource, obj: KubeObject[None]) -> bool:
        """Return whether kopf had seen an object of the first list before it watched."""
        if obj.metadata.deletion_timestamp is not None:
            return False
        if NAMESPACES.check(resource):
            return obj.metadata.uid in self._namespaces
        return CRDS.check(resource) and self._has_scanned and self._has_definition(obj)

    def _has_definition(self, definition: KubeObject[None]) -> bool:
        try:
            spec = _decode(definition.raw).spec
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        is_relevant = self._groups is None or spec.group in self._groups
        if not is_relevant:  # kopf scans only the groups of its handlers
            return True
        served = [one.name for one in spec.versions if one.served]
        return all((spec.group, name, spec.names.plural) in self._resources for name in served)
