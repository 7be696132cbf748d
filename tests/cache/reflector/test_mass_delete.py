"""Which lists are too bad to be believed at once."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec import json

from pyinformer.cache.reflector import MassDeletePolicy
from pyinformer.errors import InvalidArgumentError
from pyinformer.testing import APIServer, Fault
from tests.cache.reflector.running import is_load, options, reflecting

DEFAULT = MassDeletePolicy()


def _list(server: APIServer, gone: int, *, is_empty: bool) -> bytes:
    """Return a list that lacks objects; where all are gone, others have their names."""
    pods = server.list("v1", "pods")
    kept = pods[gone:]
    if not kept and not is_empty:
        kept = [{**pod, "metadata": {**pod["metadata"], "uid": "other"}} for pod in pods]
    metadata = {"resourceVersion": server.resource_version}
    return json.encode({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": kept})


async def is_held(
    cached: int, gone: int, policy: MassDeletePolicy | None, *, is_empty: bool = False
) -> bool:
    """Return whether a reflector asks again when it gets a list that lacks so many objects."""
    with APIServer() as server:
        for number in range(cached):
            metadata = {"name": f"p{number}", "namespace": "default"}
            server.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
        async with reflecting(server, with_options=options(mass_delete=policy)) as running:
            await running.until_watching()
            body = _list(server, gone, is_empty=is_empty)
            server.faults.add(Fault(verb="watch", status=410))
            server.faults.add(Fault(match=is_load, body=body))
            server.end_watches()
            await running.until_watching(loads=2)
            return "mass_deletes:held" in running.counts()


@pytest.mark.parametrize(
    ("cached", "gone", "expected"),
    [
        pytest.param(100, 50, False, id="half-of-a-hundred"),
        pytest.param(100, 51, True, id="more-than-half-of-a-hundred"),
        pytest.param(99, 98, False, id="too-few-for-a-share"),
        pytest.param(99, 99, True, id="everything"),
        pytest.param(10, 10, True, id="everything-of-ten"),
        pytest.param(9, 9, False, id="everything-of-a-few"),
        pytest.param(0, 0, False, id="nothing-of-nothing"),
        pytest.param(1_000, 0, False, id="nothing"),
        pytest.param(1_000, 501, True, id="more-than-half-of-many"),
    ],
)
async def test_the_default_suspects_more_than_half_of_a_hundred_or_everything(
    cached: int, gone: int, expected: bool
) -> None:
    assert await is_held(cached, gone, DEFAULT) is expected


@pytest.mark.parametrize("cached", [1, 9, 10])
async def test_the_default_suspects_every_list_of_nothing(cached: int) -> None:
    assert await is_held(cached, cached, DEFAULT, is_empty=True)


async def test_an_empty_cache_loses_nothing() -> None:
    assert not await is_held(0, 0, DEFAULT, is_empty=True)


async def test_without_a_policy_every_list_is_accepted() -> None:
    assert not await is_held(200, 200, None)


async def test_a_policy_can_accept_every_loss() -> None:
    assert not await is_held(99, 99, MassDeletePolicy(everything=False))
    assert await is_held(100, 100, MassDeletePolicy(everything=False))


async def test_a_share_of_zero_suspects_any_loss() -> None:
    policy = MassDeletePolicy(share=0, at_least=1, everything=False)

    assert await is_held(5, 1, policy)
    assert not await is_held(5, 0, policy)


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("share", -0.1, "must be a number >= 0 and < 1"),
        ("share", 1, "must be a number >= 0 and < 1"),
        ("share", 1.5, "must be a number >= 0 and < 1"),
        ("share", math.nan, "must be a number >= 0 and < 1"),
        ("share", "half", "must be a number >= 0 and < 1"),
        ("share", True, "must be a number >= 0 and < 1"),
        ("at_least", 0, "must be an integer >= 1"),
        ("at_least", -5, "must be an integer >= 1"),
        ("at_least", 1.5, "must be an integer >= 1"),
        ("at_least", True, "must be an integer >= 1"),
        ("everything", 1, "must be True or False"),
    ],
)
def test_an_invalid_policy_is_refused_when_it_is_made(
    setting: str, value: Any, reason: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=reason) as caught:
        MassDeletePolicy(**{setting: value})
    assert setting in str(caught.value)
