"""What changed in a list of conditions is merged into a newer one; other lists are sent whole."""

from __future__ import annotations

from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer.objects import JSONObject, JSONValue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer import Cluster, KubeObject
    from pyinformer.testing import APIServer

_WIDGETS = ("example.com/v1", "widgets", "default/a")


def listed(**states: JSONValue) -> list[JSONValue]:
    return [{"type": name, "status": state} for name, state in states.items()]


def status_of(conditions: JSONValue) -> JSONObject:
    return {} if conditions is None else {"conditions": conditions}


@dataclass
class Shared:
    """An object whose status this client and others write."""

    cluster: Cluster
    others: Cluster
    seen: KubeObject
    """As this client has read it."""

    async def write(self, status: JSONObject) -> KubeObject:
        """Write the status as the client that saw `seen`."""
        return await self.cluster.status(self.seen, status)

    async def write_as_others(self, conditions: JSONValue) -> None:
        """Make the conditions other ones behind the client's back."""
        known = (await self.stored()).to_dict()
        await self.others.replace({**known, "status": status_of(conditions)}, subresource="status")

    async def stored(self) -> KubeObject:
        """Return the object as the server has it."""
        return await self.others.get(*_WIDGETS)


@asynccontextmanager
async def shared(apiserver: APIServer, before: JSONValue) -> AsyncIterator[Shared]:
    """Create an object with conditions, and connect two clients."""
    apiserver.register("example.com/v1", "Widget", "widgets", has_status=True)
    metadata = {"name": "a", "namespace": "default"}
    apiserver.create(
        {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": metadata,
            "status": status_of(before),
        }
    )
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        pyinformer.connect(server=apiserver.url) as others,
    ):
        yield Shared(cluster, others, await cluster.get(*_WIDGETS))


@pytest.mark.parametrize(
    ("before", "after", "newest", "merged"),
    [
        pytest.param(None, listed(A=1), None, listed(A=1), id="first"),
        pytest.param(None, listed(A=1), listed(B=1), listed(B=1, A=1), id="beside-another"),
        pytest.param(
            listed(A=1, B=1), listed(A=2, B=1), listed(B=2, A=1), listed(B=2, A=2), id="changed"
        ),
        pytest.param(listed(A=1), listed(A=2), listed(A=3), listed(A=2), id="by-both"),
        pytest.param(listed(A=1, B=1), listed(A=2, B=1), None, listed(A=2), id="all-removed"),
        pytest.param(listed(A=1), [], listed(A=2, B=1), listed(B=1), id="removed"),
        pytest.param(listed(A=1), None, listed(A=1, B=1), listed(B=1), id="removed-with-its-list"),
        pytest.param(listed(A=1), None, listed(A=1), None, id="removed-as-the-last"),
        pytest.param(listed(A=1), [], listed(A=1), [], id="emptied"),
        pytest.param(None, [], listed(B=1), listed(B=1), id="an-empty-list"),
        pytest.param(None, [], None, [], id="a-first-empty-list"),
        pytest.param(listed(A=1), listed(A=2), ["x"], listed(A=2), id="into-another-list"),
    ],
)
async def test_the_changed_conditions_are_merged_into_the_newest(
    apiserver: APIServer,
    before: JSONValue,
    after: JSONValue,
    newest: JSONValue,
    merged: JSONValue,
) -> None:
    async with shared(apiserver, before) as one:
        await one.write_as_others(newest)
        given, seen = deepcopy(after), one.seen.to_dict()
        await one.write(status_of(after))

        assert (await one.stored()).at("status.conditions", default=None) == merged
        assert (after, one.seen.to_dict()) == (given, seen)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(None, ["A"], id="texts"),
        pytest.param(["A"], None, id="texts-removed"),
        pytest.param(None, [{"type": "A"}, {"type": "A"}], id="one-type-twice"),
        pytest.param([{"type": "A"}, {"type": "A"}], listed(A=1), id="one-type-twice-before"),
        pytest.param(None, [{"type": "A"}, {"name": "B"}], id="no-type"),
        pytest.param(None, [{"type": 1}], id="a-number-as-type"),
        pytest.param(None, {"A": {"type": "A"}}, id="an-object"),
    ],
)
async def test_what_is_not_a_list_of_conditions_is_sent_whole(
    apiserver: APIServer, before: JSONValue, after: JSONValue
) -> None:
    async with shared(apiserver, before) as one:
        await one.write_as_others(listed(B=1))
        await one.write(status_of(after))

        assert (await one.stored()).at("status.conditions", default=None) == after


@pytest.mark.parametrize(
    "after", [listed(B=1, A=1), [{**one, "x": None} for one in listed(B=1, A=1)]]
)
async def test_an_order_and_a_null_are_not_changes(
    apiserver: APIServer, after: list[JSONValue]
) -> None:
    async with shared(apiserver, listed(A=1, B=1)) as one:
        await one.write(status_of(after))

        stored = await one.stored()
        assert stored.metadata.resource_version == one.seen.metadata.resource_version


async def test_a_condition_that_differs_from_one_of_two_states_is_changed(
    apiserver: APIServer,
) -> None:
    """From what the caller sees, or from what it has written since."""
    async with shared(apiserver, listed(A=1, B=2, C=1)) as one:
        await one.write({"conditions": listed(A=2, B=1, C=1, D=1)})
        await one.write_as_others(listed(A=3, B=3, C=3, D=3))
        await one.write({"conditions": listed(A=1, B=1, C=1), "phase": "x"})

        stored = (await one.stored()).to_dict()["status"]
    assert stored == {"conditions": listed(A=1, B=1, C=3), "phase": "x"}
