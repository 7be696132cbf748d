"""Which reflectors share a history: only their positions show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pyinformer.cache.reflector.lineage._groups import HistoryGroup, affected_by, history_group
from pyinformer.client.transport import ClusterConfig, Connection, ListWatch
from pyinformer.objects import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyinformer.cache.reflector.lineage import HistorySample

CONNECTION = Connection(ClusterConfig(server="http://127.0.0.1:1"))
CORE, APPS, METRICS, CUSTOM = "v1", "apps/v1", "metrics.k8s.io/v1", "example.com/v1"


@dataclass
class Member:
    """A reflector at a position."""

    list_watch: ListWatch
    position: str
    is_ordered: bool = True

    async def history_samples(self) -> Sequence[HistorySample]:
        """Return nothing."""
        return ()

    def on_history_broken(self, reason: str) -> None:
        raise NotImplementedError


def at(api_version: str, plural: str, position: str) -> Member:
    """Return a reflector."""
    return Member(ListWatch(CONNECTION, GroupVersionResource.of(api_version, plural)), position)


PODS, DEPLOYMENTS = at(CORE, "pods", "900000"), at(APPS, "deployments", "903000")
NEAR = at(CUSTOM, "widgets", "905000")
STALE = at(APPS, "daemonsets", "1000")


def ids(members: Iterable[object]) -> set[int]:
    """Return who they are; equal reflectors are several."""
    return {id(member) for member in members}


@pytest.mark.parametrize("one", [PODS, DEPLOYMENTS, None])
def test_resources_with_close_versions_share_a_history(one: Member | None) -> None:
    members = [PODS, NEAR, DEPLOYMENTS, STALE]
    history = history_group(members, one)
    assert history.name == ""
    assert ids(history.deciding) == ids([PODS, DEPLOYMENTS, STALE])
    assert ids(history.affected) == ids(members)


def test_an_api_that_may_be_aggregated_decides_for_its_own_group_only() -> None:
    """Its versions can be near those of kube-apiserver by chance, or on purpose."""
    sibling = at(CUSTOM, "gadgets", "905001")
    members = [PODS, NEAR, DEPLOYMENTS, sibling]
    assert history_group(members, NEAR) == HistoryGroup(
        "example.com", [NEAR, sibling], [NEAR, sibling]
    )
    assert affected_by(members, NEAR) == [NEAR, sibling]
    assert affected_by(members, PODS) == members


def test_events_never_decide_for_others_nor_others_for_events() -> None:
    """They can have an etcd of their own, and its versions can be near by chance."""
    events = at(CORE, "events", "903001")
    members = [PODS, events, DEPLOYMENTS]
    assert history_group(members, events) == HistoryGroup("events", [events], [events])
    for one in (PODS, None):
        history = history_group(members, one)
        assert ids(history.deciding) == ids([PODS, DEPLOYMENTS])
        assert ids(history.affected) == ids(members)
    assert history_group([events], None) == HistoryGroup("events", [events], [events])


def test_versions_of_a_custom_resource_do_not_split_other_groups() -> None:
    other = at("other.com/v1", "widgets", "895000")
    between = at(CUSTOM, "widgets", "909000")
    history = history_group([PODS, between, other], PODS)
    assert ids(history.affected) == ids([PODS, between, other])


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
    assert history_group(members, apart) == (name, [apart], [apart])
    for one in (PODS, DEPLOYMENTS, None):
        assert history_group(members, one) == ("", [PODS, DEPLOYMENTS], [PODS, DEPLOYMENTS])


def test_without_a_usable_position_the_servers_own_history_is_checked() -> None:
    opaque, other = at(METRICS, "pods", "abc"), at(CUSTOM, "widgets", "5")
    per_object = at(CUSTOM, "gadgets", "900000000")
    per_object.is_ordered = False
    assert history_group([opaque, PODS, other, per_object], opaque) == ("", [PODS], [PODS])
    assert history_group([opaque], opaque) == ("", [], [])


def test_a_version_of_thousands_of_digits_does_not_affect_other_resources() -> None:
    """Python refuses to make an int of so many digits."""
    huge = at(METRICS, "pods", "9" * 5_000)
    for one in (PODS, huge, None):
        assert history_group([huge, PODS, DEPLOYMENTS], one) == ("", *[[PODS, DEPLOYMENTS]] * 2)
