"""Members of a `class X(str, Enum)` wherever texts go: they are texts whose `str()` differs."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.controller.conventions import EventRecorder
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import FieldSelector, LabelSelector

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer


class Text(str, enum.Enum):  # noqa: UP042 - StrEnum has another str()
    """Texts of a program."""

    API_VERSION = "v1"
    PLURAL = "configmaps"
    NAMESPACE = "default"
    KEY = "default/a"
    NAME = "a"
    FIELD = "metadata.name"
    LABEL = "example.com/team"
    TEAM = "web"
    PROGRAM = "shop"


class Phase(enum.Enum):
    """A choice that is not a text."""

    READY = "ready"


class Number(enum.IntEnum):
    """A choice that is a number."""

    SEVENTH = 7


@dataclass
class Counts:
    """A model with keys that are choices."""

    by_phase: dict[Phase, int] = field(default_factory=dict)


BODY: JSONObject = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default", "labels": {Text.LABEL: Text.TEAM}},
    "data": {Text.NAME: Text.KEY},
}
LABELS: Any = {Text.LABEL: Text.TEAM}
FIELDS: Any = {Text.FIELD: Text.NAME}


async def test_the_text_of_a_member_is_written_and_asked_for(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url, field_manager=Text.PROGRAM) as cluster:
        made = await cluster.apply(BODY)
        assert made.at("data") == {"a": "default/a"}
        assert made.metadata.labels == {"example.com/team": "web"}
        (managed,) = apiserver.get("v1", "configmaps", "a")["metadata"]["managedFields"]
        assert managed["manager"] == "shop"
        found = await cluster.get(Text.API_VERSION, Text.PLURAL, Text.KEY)
        assert found.metadata.uid == made.metadata.uid
        name, place = (Text.API_VERSION, Text.PLURAL), Text.NAMESPACE
        for chosen in ({"label_selector": LABELS}, {"field_selector": FIELDS}):
            assert [one.key async for one in cluster.list(*name, namespace=place, **chosen)]
        edited = found.to_dict()
        edited["data"][Phase.READY] = "1"
        patched = await cluster.patch(found, edited)
        assert patched.at("data") == {"a": "default/a", "ready": "1"}


async def test_an_informer_follows_what_members_name(apiserver: APIServer) -> None:
    apiserver.create(
        BODY | {"metadata": BODY["metadata"] | {"labels": {"example.com/team": "web"}}}
    )
    async with pyinformer.connect(server=apiserver.url) as cluster:
        informer = pyinformer.SharedInformer(
            cluster,
            Text.API_VERSION,
            Text.PLURAL,
            namespaces=Text.NAMESPACE,
            label_selector=LABELS,
            field_selector=FIELDS,
        )
        async with informer:
            await informer.wait_for_cache_sync()
            assert informer.lister.get(Text.KEY) is not None
            assert informer.lister.list(label_selector=LABELS)
            assert informer.lister.namespace(Text.NAMESPACE).get(Text.NAME) is not None
        async with EventRecorder(cluster, Text.PROGRAM) as recorder:
            recorder.event({**BODY, "metadata": {"name": "a", "namespace": "default"}}, "Made")
    (event,) = apiserver.list("events.k8s.io/v1", "events")
    assert event["reportingController"] == "shop"
    assert event["reportingInstance"].startswith("shop-")


def test_texts_of_selectors_and_requests_are_plain() -> None:
    expression = {"key": Text.LABEL, "operator": "In", "values": [Text.TEAM]}
    chosen: Any = {"matchLabels": LABELS, "matchExpressions": [expression]}
    wanted = "example.com/team in (web),example.com/team=web"
    assert set(str(LabelSelector.parse(chosen)).split(",")) == set(wanted.split(","))
    assert str(FieldSelector.parse(FIELDS)) == "metadata.name=a"
    assert str(pyinformer.Request(Text.KEY, Text.PROGRAM)) == "shop:default/a"
    assert str(pyinformer.Request(Text.NAME)) == "a"


async def test_keys_are_written_as_encoders_of_json_write_them(apiserver: APIServer) -> None:
    async with pyinformer.connect(server=apiserver.url, field_manager="m") as cluster:
        apiserver.register("acme.io/v1", "Thing", "things", has_status=True)
        kind = {"apiVersion": "acme.io/v1", "kind": "Thing"}
        keys: Any = {Number.SEVENTH: 1, None: 2, True: 3, 1.5: 4, date(2020, 1, 2): 5}
        place = {"name": "a", "namespace": "default"}
        made = await cluster.create({**kind, "metadata": place, "spec": keys})
        assert made.at("spec") == {"7": 1, "null": 2, "true": 3, "1.5": 4, "2020-01-02": 5}
        stored = await cluster.status(made, Counts({Phase.READY: 3}))
        assert stored.at("status") == {"by_phase": {"ready": 3}}


@pytest.mark.parametrize("keys", [{Phase.READY: 1, "ready": 2}, {1: 1, "1": 2}, {"1": 2, 1: 1}])
async def test_two_keys_of_the_same_text_are_refused(
    apiserver: APIServer, keys: dict[Any, int]
) -> None:
    async with pyinformer.connect(server=apiserver.url) as cluster:
        with pytest.raises(InvalidArgumentError, match="two keys of the same name"):
            await cluster.create({**BODY, "data": keys})
