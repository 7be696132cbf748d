"""What kopf has seen of resources and namespaces before it watches them.

kopf scans the resources and fetches the namespaces first. An object of the first list that was seen
there is not reported to its observers as new; one that was created in between is.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import msgspec
from kopf._cogs.structs.references import CRDS, NAMESPACES

from pyinformer.objects import null_as_absent

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from kopf._cogs.structs.bodies import RawBody
    from kopf._cogs.structs.references import Resource

    from pyinformer.objects import KubeObject


class _Names(msgspec.Struct, frozen=True):
    plural: str


class _Version(msgspec.Struct, frozen=True):
    name: str
    served: bool = False


class _Spec(msgspec.Struct, frozen=True):
    group: str
    names: _Names
    versions: tuple[_Version, ...] = ()


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] | None = None


class _Definition(msgspec.Struct, frozen=True):
    spec: _Spec
    status: _Status | None = None

    @property
    def served(self) -> tuple[tuple[str, str, str], ...]:
        """Group, version and plural name of each served version."""
        spec = self.spec
        return tuple(
            (spec.group, one.name, spec.names.plural) for one in spec.versions if one.served
        )

    @property
    def is_established(self) -> bool:
        """Whether its names are accepted, so that it is to be served."""
        conditions = (self.status and self.status.conditions) or ()
        return any(one.type == "Established" and one.status == "True" for one in conditions)


_decode: Final = null_as_absent(_Definition, skims=False)


def _decoded(definition: KubeObject[None]) -> _Definition | None:
    try:
        return _decode(definition.raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def established_definition(obj: KubeObject[None]) -> tuple[tuple[str, str, str], ...]:
    """Return group, version and plural name of what an established definition has served.

    Returns:
        Nothing if it is not established, is being deleted, or cannot be read.
    """
    if obj.metadata.deletion_timestamp is not None:
        return ()
    definition = _decoded(obj)
    return definition.served if definition is not None and definition.is_established else ()


def served_kinds(found: Iterable[Resource]) -> frozenset[tuple[str, str, str]]:
    """Return group, version and plural name of what a scan has found.

    A kind without the verb patch is left out: so is one served while its definition is being
    deleted. kopf then has no handlers for it that patch, and has to scan again once the definition
    is back.
    """
    return frozenset((one.group, one.version, one.plural) for one in found if "patch" in one.verbs)


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
        self._resources = served_kinds(found)

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

    def concerns(self, group: str) -> bool:
        """Return whether handlers may be for resources of an API group."""
        return self._groups is None or group in self._groups

    def _has_definition(self, obj: KubeObject[None]) -> bool:
        definition = _decoded(obj)
        if definition is None:
            return False
        if not self.concerns(definition.spec.group):  # kopf scans only the groups of its handlers
            return True
        return all(one in self._resources for one in definition.served)
