"""What 404s and discovery's answers mean for a cache, and the question itself over real HTTP."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import json

from pyinformer.cache.reflector._availability import (
    Availability,
    DiscoveryAnswer,
    DiscoveryOutcome,
    ask_discovery,
)
from pyinformer.client.transport import ClusterConfig, Connection, ListWatch, NoCredentials
from pyinformer.errors import APIStatusError, InvalidArgumentError, ProtocolError
from pyinformer.objects import GroupVersionResource
from pyinformer.testing import APIServer, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDGETS = GroupVersionResource.of("example.com/v1", "widgets")


def followed(policy: Any = "wait") -> Availability:
    """Return the presence of a resource that was loaded, and is answered with 404 now."""
    presence = Availability("widgets.example.com/v1", policy)
    presence.loaded()
    presence.not_found()
    return presence


def test_a_404_alone_keeps_the_cache() -> None:
    presence = followed()
    presence.not_found()

    assert presence.is_absent
    assert not presence.is_confirmed


@pytest.mark.parametrize("policy", ["wait", "optional"])
def test_the_cache_is_emptied_by_two_answers_ten_seconds_apart(policy: str) -> None:
    presence = followed(policy)

    assert presence.answered(DiscoveryAnswer(is_served=False), 100.0) is DiscoveryOutcome.KEEP
    assert presence.answered(DiscoveryAnswer(is_served=False), 109.9) is DiscoveryOutcome.KEEP
    assert presence.answered(DiscoveryAnswer(is_served=False), 110.0) is DiscoveryOutcome.EMPTY


def test_the_cache_is_emptied_once() -> None:
    presence = followed()
    found = [presence.answered(DiscoveryAnswer(is_served=False), 10.0 * n) for n in range(5)]

    assert found.count(DiscoveryOutcome.EMPTY) == 1


def test_a_discovery_answer_that_lists_the_resource_resets_the_count() -> None:
    presence = followed()
    presence.answered(DiscoveryAnswer(is_served=False), 100.0)

    assert presence.answered(DiscoveryAnswer(is_served=True), 105.0) is DiscoveryOutcome.SERVED
    assert presence.answered(DiscoveryAnswer(is_served=False), 120.0) is DiscoveryOutcome.KEEP
    assert presence.answered(DiscoveryAnswer(is_served=False), 130.0) is DiscoveryOutcome.EMPTY


def test_a_required_resource_is_never_emptied_once_it_was_loaded() -> None:
    presence = followed("require")
    found = {presence.answered(DiscoveryAnswer(is_served=False), 10.0 * n) for n in range(50)}

    assert found == {DiscoveryOutcome.KEEP}
    assert not presence.fails_sync


def test_a_required_resource_that_never_existed_fails_the_wait() -> None:
    presence = Availability("widgets", "require")
    presence.not_found()
    assert not presence.fails_sync  # a 404 may come from a replica that lags behind

    assert presence.answered(DiscoveryAnswer(is_served=False), 0.0) is DiscoveryOutcome.KEEP
    assert presence.fails_sync
    presence.answered(DiscoveryAnswer(is_served=True), 1.0)
    assert not presence.fails_sync


def test_an_optional_resource_that_never_existed_is_empty_at_the_first_answer() -> None:
    presence = Availability("widgets", "optional")
    presence.not_found()

    assert presence.answered(DiscoveryAnswer(is_served=False), 0.0) is DiscoveryOutcome.EMPTY
    assert presence.answered(DiscoveryAnswer(is_served=False), 60.0) is DiscoveryOutcome.KEEP


def test_a_resource_that_is_waited_for_stays_unknown() -> None:
    presence = Availability("widgets", "wait")
    presence.not_found()
    found = {presence.answered(DiscoveryAnswer(is_served=False), 10.0 * n) for n in range(5)}

    assert found == {DiscoveryOutcome.KEEP}
    assert not presence.fails_sync


def test_discovery_that_lacks_a_served_resource_is_eventually_ignored() -> None:
    """An aggregated API server need not say all that it serves: now and then a list is tried."""
    presence = Availability("widgets.v1.example.com")
    presence.loaded()
    presence.not_found()
    tried = list[int]()
    for number in range(1, 13):
        presence.answered(DiscoveryAnswer(is_served=False), 10.0 * number)
        if presence.tries_load:
            tried.append(number)
    assert tried == [6, 12]


def test_a_resource_that_returned_can_disappear_again() -> None:
    presence = followed()
    presence.answered(DiscoveryAnswer(is_served=False), 0.0)
    presence.answered(DiscoveryAnswer(is_served=False), 10.0)
    presence.loaded()
    assert not presence.is_absent

    presence.not_found()
    assert presence.answered(DiscoveryAnswer(is_served=False), 500.0) is DiscoveryOutcome.KEEP
    assert presence.answered(DiscoveryAnswer(is_served=False), 510.0) is DiscoveryOutcome.EMPTY


def test_a_resource_served_soon_after_the_start_is_loaded_before_ten_seconds() -> None:
    presence = Availability("widgets")
    waits = []
    for number in range(6):
        waits.append(presence.retry_seconds)
        presence.answered(DiscoveryAnswer(is_served=False), float(number))

    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert followed().retry_seconds == 10.0


def test_absence_and_return_are_one_log_line_each(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    presence = followed()
    for number in range(5):
        presence.not_found()
        presence.answered(DiscoveryAnswer(is_served=False), 10.0 * number)
    presence.loaded()
    presence.loaded()

    said = [record.getMessage().partition(" ")[2] for record in caplog.records]
    assert [words.partition(":")[0] for words in said] == [
        "is not served (404)",
        "is served again",
    ]


def test_a_namespace_too_much_is_the_only_line(caplog: pytest.LogCaptureFixture) -> None:
    presence = Availability("widgets")
    for number in range(2):
        presence.not_found()
        presence.answered(DiscoveryAnswer(is_served=True, is_misplaced=True), float(number))
    (line,) = caplog.messages
    assert "is cluster-scoped and cannot be followed in a namespace" in line

    presence.not_found()
    presence.answered(DiscoveryAnswer(is_served=False), 3.0)
    assert "is not served (404)" in caplog.messages[-1]


def test_an_absence_is_logged_if_discovery_does_not_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    presence = Availability("widgets")
    for _ in range(2):
        presence.not_found()
        presence.unanswered()
    (line,) = caplog.messages
    assert "is not served (404)" in line


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="require, wait, optional, got 'maybe'"):
        Availability("widgets", "maybe")  # type: ignore[arg-type] # what is refused


@pytest.fixture
def server() -> Iterator[APIServer]:
    with APIServer() as running:
        yield running


async def ask(server: APIServer, resource: GroupVersionResource = WIDGETS) -> bool:
    """Ask discovery."""
    return (await answer_of(server, resource)).is_served


async def answer_of(server: APIServer, resource: GroupVersionResource) -> DiscoveryAnswer:
    """Ask discovery, and what comes near."""
    connection = Connection(ClusterConfig(server=server.url, credentials=NoCredentials()))
    try:
        return await ask_discovery(ListWatch(connection, resource))
    finally:
        await connection.aclose()


async def test_discovery_lists_served_resources(server: APIServer) -> None:
    assert not await ask(server)  # its group is not there at all
    server.register("example.com/v1", "Gadget", "gadgets")
    assert not await ask(server)
    server.register("example.com/v1", "Widget", "widgets")
    assert await ask(server)
    assert await ask(server, GroupVersionResource.of("v1", "pods"))
    assert not await ask(server, GroupVersionResource.of("v1", "widgets"))


@pytest.mark.parametrize(
    ("api_version", "plural", "near"),
    [
        pytest.param("v1", "pod", ("v1/pods",), id="singular"),
        pytest.param("v1", "po", ("v1/pods",), id="short-name"),
        pytest.param("v1", "ConfigMaps", ("v1/configmaps",), id="case"),
        pytest.param("apps/v1", "deployment", ("apps/v1/deployments",), id="of-a-group"),
        pytest.param("app/v1", "deployments", ("apps/v1",), id="group"),
        pytest.param("v1", "widgets", (), id="nothing"),
        pytest.param("v1", "pods", (), id="served"),
    ],
)
async def test_discovery_suggests_similar_names(
    server: APIServer, api_version: str, plural: str, near: tuple[str, ...]
) -> None:
    answer = await answer_of(server, GroupVersionResource(*_parts(api_version), plural))
    assert answer.near[: len(near) or None] == near


def _parts(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version


def test_similar_names_are_requested_once_and_only_before_the_first_load(
    caplog: pytest.LogCaptureFixture,
) -> None:
    presence = Availability("pod.v1")
    presence.not_found()
    for number in range(3):
        presence.answered(DiscoveryAnswer(is_served=False, near=("v1/pods",)), float(number))
    assert presence.hint == "did you mean v1/pods?"
    assert caplog.messages[1:] == ["pod.v1 has never been served; did you mean v1/pods?"]

    presence.loaded()
    assert presence.hint == ""
    presence.not_found()
    presence.answered(DiscoveryAnswer(is_served=False, near=("v1/pods",)), 10.0)
    assert presence.hint == ""


def test_a_required_resource_that_is_not_served_suggests_similar_names() -> None:
    presence = Availability("pod.v1", "require")
    presence.not_found()
    presence.answered(DiscoveryAnswer(is_served=False, near=("v1/pods",)), 0.0)
    assert presence.remedy.endswith('or use "wait" or "optional"; did you mean v1/pods?')


def test_a_required_resource_without_a_similar_name_ends_its_error_with_the_policies() -> None:
    presence = Availability("widgets.v1", "require")
    presence.not_found()
    presence.answered(DiscoveryAnswer(is_served=False), 0.0)
    assert presence.remedy.endswith('or use "wait" or "optional"')


def _resources(**changes: object) -> bytes:
    body = {"kind": "APIResourceList", "groupVersion": "example.com/v1", "resources": []}
    return json.encode({**body, **changes})


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(body=b"{}"), id="empty-object"),
        pytest.param(Fault(body=b""), id="nothing"),
        pytest.param(Fault(body=b"[1"), id="cut-off"),
        pytest.param(Fault(body=b"\xff\xfe"), id="no-text"),
        pytest.param(Fault(body=_resources(kind="Status")), id="another-kind"),
        pytest.param(Fault(body=_resources(groupVersion="example.com/v2")), id="another-version"),
        pytest.param(Fault(body=_resources(resources=[{}])), id="a-resource-without-a-name"),
        pytest.param(Fault(body=_resources(resources=[{"name": "x"}] * 20_001)), id="too-many"),
        pytest.param(Fault(status=404, times=None), id="a-balancer-without-servers"),
    ],
)
async def test_an_invalid_discovery_answer_is_not_an_absence(
    server: APIServer, fault: Fault
) -> None:
    server.faults.add(fault)
    with pytest.raises((ProtocolError, APIStatusError)):
        await ask(server)


async def test_contradictory_discovery_documents_are_not_an_answer(
    server: APIServer,
) -> None:
    """A definition is being removed or added at this moment, or two replicas disagree."""
    server.register("example.com/v1", "Widget", "widgets")
    server.faults.add(Fault(status=404))

    with pytest.raises(ProtocolError, match=r"it names example\.com/v1"):
        await ask(server)


async def test_discovery_without_the_core_group_is_not_an_answer(server: APIServer) -> None:
    server.faults.add(Fault(status=404))

    with pytest.raises(ProtocolError, match="core resources"):
        await ask(server, GroupVersionResource.of("v1", "pods"))


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_a_refusal_proves_nothing_about_the_resource(server: APIServer, status: int) -> None:
    server.faults.add(Fault(status=status, times=None))

    with pytest.raises(APIStatusError) as caught:
        await ask(server)
    assert caught.value.status == status
