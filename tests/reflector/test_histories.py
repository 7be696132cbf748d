"""Who follows one history: told by the numbers, since nothing else tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pyinformer.apimachinery import GroupVersionResource
from pyinformer.reflector._histories import beside
from pyinformer.transport import ClusterConfig, Connection, ListWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyinformer.reflector._proof import Witness

CONNECTION = Connection(ClusterConfig(server="http://127.0.0.1:1"))
CORE, APPS, METRICS, CUSTOM = "v1", "apps/v1", "metrics.k8s.io/v1", "example.com/v1"


@dataclass
class Member:
    """A reflector at a position."""

    list_watch: ListWatch
    position: str
    is_ordered: bool = True

    async def witnesses(self) -> Sequence[Witness]:
        """Return nothing: nobody is asked."""
        return ()


def at(api_version: str, plural: str, position: str) -> Member:
    """Return a reflector."""
    return Member(ListWatch(CONNECTION, GroupVersionResource.of(api_version, plural)), position)


PODS, DEPLOYMENTS = at(CORE, "pods", "900000"), at(APPS, "deployments", "903000")
NEAR = at(CUSTOM, "widgets", "905000")
STALE = at(APPS, "daemonsets", "1000")


@pytest.mark.parametrize("one", [PODS, DEPLOYMENTS, NEAR, None])
def test_what_has_numbers_near_each_other_has_one_history(one: Member | None) -> None:
    history, found = beside([PODS, NEAR, DEPLOYMENTS, STALE], one)
    assert history == ""
    assert {id(member) for member in found} == {
        id(member) for member in (PODS, NEAR, DEPLOYMENTS, STALE)
    }


@pytest.mark.parametrize("position", ["12", "800000", "1000000", "70000000000"])
@pytest.mark.parametrize(
    ("api_version", "plural", "name"),
    [
        pytest.param(CORE, "events", "events", id="events-in-an-etcd-of-their-own"),
        pytest.param(CUSTOM, "widgets", "example.com", id="aggregated"),
    ],
)
def test_numbers_far_apart_are_of_two_histories(
    api_version: str, plural: str, name: str, position: str
) -> None:
    apart = at(api_version, plural, position)
    members = [PODS, apart, DEPLOYMENTS]
    assert beside(members, apart) == (name, [apart])
    for one in (PODS, DEPLOYMENTS, None):
        assert beside(members, one) == ("", [PODS, DEPLOYMENTS])


def test_who_has_no_position_that_counts_asks_about_the_servers_own() -> None:
    opaque, other = at(METRICS, "pods", "abc"), at(CUSTOM, "widgets", "5")
    per_object = at(CUSTOM, "gadgets", "900000000")
    per_object.is_ordered = False
    assert beside([opaque, PODS, other, per_object], opaque) == ("", [PODS])
    assert beside([opaque], opaque) == ("", [])


def test_a_version_of_thousands_of_digits_harms_no_neighbour() -> None:
    """Python refuses to make an int of so many digits."""
    huge = at(METRICS, "pods", "9" * 5_000)
    for one in (PODS, huge, None):
        assert beside([huge, PODS, DEPLOYMENTS], one) == ("", [PODS, DEPLOYMENTS])
