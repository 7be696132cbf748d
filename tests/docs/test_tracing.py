"""The page on traces: its operator prints the spans that the text names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyinformer
from tests.docs import pages
from tests.waiting import until

if TYPE_CHECKING:
    import pytest

    from pyinformer.testing import APIServer

_ORDER = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"namespace": "default", "name": "order"},
    "data": {"items": "hunter2"},
}


async def test_the_operator_of_the_page_prints_its_spans(
    apiserver: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {"__name__": "tracing"}
    for block in pages.blocks("docs/howto/tracing.md", "python"):
        if not block.comment:
            exec(compile(block.text, block.page, "exec"), names)  # noqa: S102 - our own page
    apiserver.create(_ORDER)
    app = names["app"]
    async with pyinformer.connect(server=apiserver.url) as cluster, app.running(cluster) as run:
        await until(lambda: run.controllers[0].status().outcomes["success"])
    for provider in ("provider", "sampled", "meters"):
        names[provider].shutdown()
    printed = capsys.readouterr().err
    spans = {span["name"]: span for span in decoded(printed)}
    root, own, write = (
        spans[name] for name in ("reconcile configmaps", "price the order", "PATCH secrets.v1")
    )
    assert root["parent_id"] is None
    assert own["parent_id"] == write["parent_id"] == root["context"]["span_id"]
    assert write["attributes"]["pyinformer.request.name"] == "order-bill"
    assert root["attributes"]["pyinformer.reconcile.outcome"] == "success"
    assert "hunter2" not in printed


def decoded(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects that follow each other in a text."""
    decoder, found = json.JSONDecoder(), []
    while (text := text.lstrip()).startswith("{"):
        span, end = decoder.raw_decode(text)
        found.append(span)
        text = text[end:]
    return found
