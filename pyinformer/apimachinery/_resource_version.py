"""Order of resource versions, by the rule of KEP-5504.

A resource version is well formed if it is a decimal number without sign, space or leading zero,
not zero, and has at most 39 digits. Two well-formed ones of the same resource in the same cluster
compare as numbers; anything else compares only for equality. They are compared as text.
"""

from __future__ import annotations

from typing import Final

from pyinformer.apimachinery._errors import InvalidResourceVersionError

MAX_DIGITS: Final = 39
"""Conformance demands at most 2**128 - 1. The bound also keeps `int()` of one safe and cheap."""


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
