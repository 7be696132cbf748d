"""The order of resource versions, by the rule of KEP-5504.

A resource version is well formed if it is a decimal number without sign, space or leading zero,
not zero, and has at most 39 digits. Two well-formed ones of the same resource in the same cluster
compare as numbers; all others compare only for equality. They are compared as text.
"""

from __future__ import annotations

import enum
from typing import Final, final

from pyinformer.errors import InvalidResourceVersionError

MAX_DIGITS: Final = 39
"""Of 2**128 - 1, the most that conformance requires; it also keeps `int()` of one cheap."""


def resource_version_is_well_formed(resource_version: str) -> bool:
    """Return whether a resource version can be compared."""
    return (
        len(resource_version) <= MAX_DIGITS
        and resource_version.isdecimal()
        and resource_version.isascii()
        and not resource_version.startswith("0")
    )


def compare_resource_versions(first: str, second: str) -> int:
    """Compare two resource versions of one resource of one cluster.

    Returns:
        -1, 0 or 1, as the first is older than, equal to or newer than the second.

    Raises:
        InvalidResourceVersionError: one of them is not well formed; compare for equality only.

    Source:
        KEP-5504, apimachinery pkg/util/resourceversion.
    """
    for resource_version in (first, second):
        if not resource_version_is_well_formed(resource_version):
            raise InvalidResourceVersionError(resource_version)
    if first == second:
        return 0
    return -1 if older(first, second) else 1


def older(first: str, second: str) -> bool:
    """Return whether a well-formed resource version is older than another well-formed one."""
    if len(first) != len(second):
        return len(first) < len(second)
    return first < second


@final
class VersionOrder(enum.Enum):
    """Which resource versions of one resource can be compared, and so what one of them proves."""

    GLOBAL = "global"
    """Any two compare, so a cache at a position holds everything up to that version."""
    PER_OBJECT = "per_object"
    """Two of the same object compare; those of different objects prove nothing."""
    OPAQUE = "opaque"
    """Only equality of two versions of the same object means anything."""

    def holds(self, position: str, version: str) -> bool:
        """Return whether a cache at a position holds the change that a version names."""
        return self is VersionOrder.GLOBAL and bool(position) and _reaches(position, version)

    def reaches(self, known_uid: str, known: str, uid: str, version: str) -> bool:
        """Return whether a state of an object is a version of it, or a newer one.

        Args:
            known_uid: the uid of the state's object.
            known: the state's version.
            uid: the uid of the object that has the version.
            version: the version.
        """
        if self is VersionOrder.GLOBAL:
            return _reaches(known, version)
        if known_uid != uid:
            return False
        return known == version if self is VersionOrder.OPAQUE else _reaches(known, version)


def _reaches(known: str, version: str) -> bool:
    if known == version:
        return True
    is_comparable = resource_version_is_well_formed(version)
    return is_comparable and resource_version_is_well_formed(known) and not older(known, version)
