"""What a deletion deletes, of one object and of a collection, on both servers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.places import Place
from tests.integration.test_server_writes import config_map


@pytest.fixture
def path(place: Place) -> str:
    """The path of a collection with three objects."""
    path = place.path("configmaps")
    for name in "abc":
        place.created(path, config_map({}, name, labels={"old": "1"}))
    return path


def left(place: Place, path: str) -> list[str]:
    """Return the names that are left; some servers have a ConfigMap in each namespace."""
    answer = place.send("GET", path, labelSelector="old")
    return answer.names


def test_one_with_a_limit_deletes_one_page(place: Place, path: str) -> None:
    answer = place.send("DELETE", path, labelSelector="old", limit=2)

    assert answer.names == ["a", "b"]
    assert left(place, path) == ["c"]

    token = answer.json["metadata"]["continue"]
    rest = place.send("DELETE", path, labelSelector="old", **{"continue": token})
    assert rest.names == ["c"]
    assert left(place, path) == []


def test_one_at_an_earlier_version_deletes_what_existed_then(place: Place, path: str) -> None:
    version = place.get(path)["metadata"]["resourceVersion"]
    place.created(path, config_map({}, "later", labels={"old": "1"}))
    assert place.send("DELETE", f"{path}/a").status == 200

    exactly = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    answer = place.send("DELETE", path, {}, labelSelector="old", **exactly)

    assert answer.names == ["a", "b", "c"]
    assert answer.json["metadata"]["resourceVersion"] == version
    assert left(place, path) == ["later"]


def test_a_version_in_the_query_is_a_precondition_of_each(place: Place, path: str) -> None:
    """Without a body; `a` is not of that version, and the request ends with it."""
    version = place.get(f"{path}/c")["metadata"]["resourceVersion"]

    exactly = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    answer = place.send("DELETE", path, labelSelector="old", **exactly)

    assert answer.status == 409, answer.json
    assert {"a", "b"} <= set(left(place, path))


@pytest.mark.parametrize("name", ["uid", "resourceVersion"])
def test_a_precondition_may_be_in_the_query(place: Place, path: str, name: str) -> None:
    answer = place.send("DELETE", f"{path}/a", **{name: "1"})

    assert answer.status == 409, answer.json
    assert left(place, path) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "query",
    [
        {"dryRun": "All"},
        {"propagationPolicy": "Foreground"},
        {"orphanDependents": "true"},
        {"gracePeriodSeconds": "x"},
        {"resourceVersion": "1"},
    ],
)
@pytest.mark.parametrize("body", [{}, b"null"])
def test_with_a_body_the_options_of_the_query_do_not_count(
    place: Place, path: str, query: dict[str, str], body: Any
) -> None:
    assert place.send("DELETE", f"{path}/a", body, **query).status == 200

    assert left(place, path) == ["b", "c"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        pytest.param({"limit": "x"}, 400, id="limit"),
        pytest.param({"continue": "x"}, 400, id="token"),
        pytest.param({"resourceVersion": "x"}, 400, id="version"),
        pytest.param({"resourceVersionMatch": "Exact"}, 422, id="match-without-a-version"),
        pytest.param({"resourceVersion": str(1 << 62)}, 504, id="future"),
    ],
)
def test_one_whose_list_is_refused_deletes_nothing(
    place: Place, path: str, query: dict[str, Any], status: int
) -> None:
    answer = place.send("DELETE", path, labelSelector="old", **query)

    assert answer.status == status, answer.json
    assert left(place, path) == ["a", "b", "c"]
