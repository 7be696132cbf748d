"""Bounds of writes that cannot work are refused; what writes say of unknown fields."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, cast

import pytest

import pyinformer
from pyinformer.client.cluster import FieldValidation, WriteOptions, create_or_update
from pyinformer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyinformer.testing import APIServer


@pytest.mark.covers("client-go rest: TestRESTClientLimiter")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"writes_per_second": 0.0}, id="no-rate"),
        pytest.param({"writes_per_second": math.inf}, id="infinite-rate"),
        pytest.param({"writes_per_second": math.nan}, id="nan"),
        pytest.param({"writes_per_second": "fast"}, id="a-word"),
        pytest.param({"retry_limit": math.nan}, id="retries-nan"),
        pytest.param({"retry_limit": -1}, id="negative-retries"),
    ],
)
def test_invalid_bounds_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        WriteOptions(**options)


_BODY: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "a", "namespace": "default"},
}


@pytest.mark.covers("controller-runtime pkg/client: TestWithStrictFieldValidation")
@pytest.mark.parametrize("validation", ["Ignore", "Warn", "Strict", None])
async def test_each_write_says_what_happens_to_unknown_fields(
    apiserver: APIServer, validation: FieldValidation | None
) -> None:
    apiserver.register("example.com/v1", "Widget", "widgets", has_status=True)
    async with pyinformer.connect(server=apiserver.url, field_manager="test") as cluster:

        def mutate(body: dict[str, Any]) -> None:
            body["spec"] = {"size": body.get("spec", {}).get("size", 0) + 1}
            body["status"] = {"size": body["spec"]["size"]}

        apiserver.clear_requests()
        for _ in range(2):
            await create_or_update(cluster, _BODY, mutate, field_validation=validation)
        found = await cluster.get("example.com/v1", "widgets", "default/a")
        edited = {**found.to_dict(), "spec": {"size": 8}}
        found = await cluster.patch(found, edited, field_validation=validation)
        found = await cluster.replace(found, field_validation=validation)
        found = await cluster.status(found, {"size": 9}, field_validation=validation)
        await cluster.apply(_BODY, field_validation=validation)
    writes = [one for one in apiserver.requests if one.method != "GET"]
    assert len(writes) == 8
    assert [one.query.get("fieldValidation") for one in writes] == [validation] * 8


async def test_another_validation_is_refused(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(InvalidArgumentError, match="field_validation"):
            await cluster.create(
                {**_BODY, "kind": "ConfigMap", "apiVersion": "v1"},
                field_validation=cast("FieldValidation", "strict"),
            )
