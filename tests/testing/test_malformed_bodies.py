"""Whatever a client writes, the embedded server answers with a Status or an object."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from pyinformer.testing import APIServer
from tests.integration.test_manifests import PROJECTS, collection_of, documents
from tests.testing.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ODD: Final[tuple[Any, ...]] = (
    None,
    [],
    {},
    "",
    "x",
    5,
    -1,
    2.5,
    10**30,
    True,
    [None],
    [[]],
    [{}],
    {"a": None},
    {"a": {"b": 1}},
    "2026-01-02T03:04:05Z",
)
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_CASES: Final = 150  # for each seed; enough to reach each kind and each place a few times
_NAMESPACE: Final = "default"


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    members: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        members = enumerate(value)
    for key, below in members:
        yield from _places(below, (*path, key))


def _with(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _with(value[path[0]], path[1:], odd)
    return copied


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_value_of_any_type_in_any_place_gets_an_answer(seed: int) -> None:
    rng = random.Random(seed)
    found = [one for project in PROJECTS for one in documents(project, "a.example", _NAMESPACE)]
    statuses = set()
    with APIServer() as server, Wire(server.url) as wire:
        for one in found:
            if one["kind"] == "CustomResourceDefinition":
                assert wire.request("POST", collection_of(one, _NAMESPACE), one).status == 201
        for _ in range(_CASES):
            original = rng.choice(found)
            place = rng.choice(list(_places(original)))
            body = _with(original, place, rng.choice(_ODD))
            path = collection_of(original, _NAMESPACE)
            name = f"{path}/{original['metadata']['name']}"
            answers = (
                wire.request("POST", path, body, dryRun="All"),
                wire.request("PUT", name, body),
                wire.request("PATCH", name, body, content_type=_MERGE),
                wire.request(
                    "PATCH", name, body, content_type=_APPLY, fieldManager="me", force="true"
                ),
            )
            for answer in answers:
                assert answer.json["kind"], (place, body)
                statuses.add(answer.status)
    assert {201, 400, 422} <= statuses
