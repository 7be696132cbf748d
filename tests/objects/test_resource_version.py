"""Resource versions are ordered as KEP-5504 says, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.errors import InvalidResourceVersionError
from pyinformer.objects import (
    compare_resource_versions,
    older,
    resource_version_is_well_formed,
)

MALFORMED = [
    "",
    "0",
    "01",
    "-1",
    "+1",
    "1.0",
    "1e3",
    " 1",
    "1\n",
    "1_0",
    "0x1",
    "a1",
    "1a",
    "\u0661",
    "²",
    "1" + "0" * 39,
    "9" * 5_000,
]


@pytest.mark.covers("apimachinery pkg/util/resourceversion: TestCompareResourceVersion")
@pytest.mark.parametrize("version", MALFORMED)
def test_malformed_versions_are_not_compared(version: str) -> None:
    assert not resource_version_is_well_formed(version)
    for pair in ((version, "1"), ("1", version), (version, version)):
        with pytest.raises(InvalidResourceVersionError) as caught:
            compare_resource_versions(*pair)
        assert caught.value.resource_version == version


@settings(deadline=None)
@given(st.text())
def test_a_version_is_well_formed_if_it_is_a_canonical_number(version: str) -> None:
    """Against another definition: the decimal of a positive number."""
    is_decimal = version.isascii() and version.isdecimal()
    is_short = len(version) <= len(str(2**128 - 1))
    expected = is_decimal and is_short and int(version) > 0 and str(int(version)) == version
    assert resource_version_is_well_formed(version) is expected


_numbers = st.integers(1, 2**128 - 1) | st.integers(1, 200)


@pytest.mark.covers("apimachinery pkg/util/resourceversion: TestCompareResourceVersion")
@settings(deadline=None)
@given(_numbers, _numbers)
def test_versions_are_ordered_as_numbers(first: int, second: int) -> None:
    expected = (first > second) - (first < second)
    assert compare_resource_versions(str(first), str(second)) == expected
    assert older(str(first), str(second)) is (first < second)


@pytest.mark.covers("apimachinery pkg/util/resourceversion: TestCompareResourceVersion")
def test_versions_of_128_bits_are_compared() -> None:
    largest = str(2**128 - 1)
    assert compare_resource_versions(largest, str(2**128 - 2)) == 1
    assert compare_resource_versions(largest, largest) == 0


def test_an_error_shows_only_the_start_of_a_long_version() -> None:
    huge = "x" * 100_000
    with pytest.raises(InvalidResourceVersionError) as caught:
        compare_resource_versions(huge, "1")
    assert len(str(caught.value)) < 300
    assert caught.value.resource_version == huge
