"""What is remembered of the fields that servers do not store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyinformer

if TYPE_CHECKING:
    import pytest

    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer

_SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"status": {"type": "object", "properties": {"seen": {"type": "integer"}}}},
}


async def test_unknown_names_are_bounded_in_memory_and_log(
    apiserver: APIServer, caplog: pytest.LogCaptureFixture
) -> None:
    apiserver.register("example.com/v1", "Widget", "widgets", has_status=True, schema=_SCHEMA)
    metadata = {"name": "a", "namespace": "default"}
    async with pyinformer.connect(server=apiserver.url) as cluster:
        made = await cluster.create(
            {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
        )
        for number in range(300):
            unknown: JSONObject = {f"{number}{'x' * 1_000}": 1, "typo": 1}
            made = await cluster.status(made, {"seen": number + 1, **unknown})
        (paths,) = cluster.write_statistics().unstored_fields.values()
    assert len(paths) == 256
    assert sum(map(len, paths)) <= 256 * 200
    lines = [message for message in caplog.messages if "did not store" in message]
    assert len(lines) == 255  # the first has two of them
    assert sum("status.typo" in line for line in lines) == 1
