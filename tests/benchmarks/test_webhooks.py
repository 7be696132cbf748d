"""The run of admission webhooks, at its smallest size."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.data.databases import database, review, stored
from benchmarks.peers.own_webhooks import Database, make_operator
from benchmarks.report.rows import make_rows
from benchmarks.runs.figures import OWN
from benchmarks.runs.run import Setting, Size
from benchmarks.runs.webhooks import WEBHOOKS
from pyinformer import Webhooks
from pyinformer import testing as kit

_VERSION = "own.hooks.example.com/v1"


@pytest.mark.timeout(300)
def test_our_own_peer_yields_every_row() -> None:
    with WEBHOOKS.open(Setting(Size.SMOKE)) as bench:
        rows = make_rows(WEBHOOKS.specs(bench.known), [OWN], [{OWN: bench.measure(OWN)}])
    assert len(rows) > 15
    assert [row for row in rows if row.median is None] == []


def test_a_database_has_6_kb_and_the_fields_of_the_model() -> None:
    found = stored(database(_VERSION))
    assert 5_800 < len(msgspec.json.encode(found)) < 6_200
    model = msgspec.convert(found, Database)
    assert msgspec.to_builtins(model.spec) == found["spec"]
    body = msgspec.json.decode(review(_VERSION, "UPDATE", found, found))
    assert body["request"]["object"] == body["request"]["oldObject"]


async def test_the_operator_of_the_run_decides_as_the_others_do() -> None:
    app = make_operator(_VERSION, Webhooks(url="https://127.0.0.1:9443"))
    made = await kit.review(app, "create", database(_VERSION))
    assert made.object["spec"]["image"] == "postgres:17"
    moved = database(_VERSION)
    moved["spec"]["engine"] = "mysql"
    refused = await kit.review(app, "update", moved, old=made.object)
    assert (refused.status, refused.message) == (422, "spec.engine cannot be changed")
