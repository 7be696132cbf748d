"""What the generator lets through, servers accept: definitions of odd models, and their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from pyinformer.errors import APIStatusError, InvalidError, InvalidModelError
from pyinformer.operator import custom_resource, custom_resource_definition
from tests.integration.definitions import is_created, served
from tests.integration.objects import unique
from tests.integration.places import Place
from tests.integration.test_server_strictness import TABLE
from tests.operator.odd_models import ACCEPTED, TEXTS, extra, struct
from tests.waiting import poll, until

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server


class Condition(msgspec.Struct, frozen=True):
    """A condition."""

    type: str
    status: str


class Status(msgspec.Struct, frozen=True):
    """A status with conditions."""

    conditions: tuple[Condition, ...] = ()


_COLUMNS = {
    "Ready": 'status.conditions[?(@.type=="Ready")].status',
    "First": ".status.conditions[0].type",
    "Age": "metadata.creationTimestamp",
}


class Engine(msgspec.Struct):
    """An object whose condition is a column."""

    status: Status = Status()


async def test_the_definition_of_each_odd_model_is_accepted(server: Server) -> None:
    models: dict[str, type[Any]] = {
        **ACCEPTED,
        "long-kind": struct(int),
        "protected-group": struct(int),
    }
    declared = {"long-kind": ("odd.example.com/v1", "K" + "x" * 58)}
    declared["protected-group"] = ("odd.k8s.io/v1", "Odd")
    refused = {}
    async with server.connect() as cluster:
        for name, model in models.items():
            api_version, kind = declared.get(name, ("odd.example.com/v1", "Odd"))
            declared_model: type[Any] = custom_resource(api_version, "odds", kind=kind)(model)
            try:
                await cluster.create(custom_resource_definition(declared_model), dry_run=True)
            except APIStatusError as error:
                refused[name] = error.message

    assert refused == {}


@pytest.mark.parametrize("form", TEXTS)
async def test_servers_take_texts_for_a_format_as_the_generator_does(
    server: Server, form: str
) -> None:
    """The generator is asked by a default that has the text."""
    plural = unique("forms").replace("-", "")
    group = f"{plural}.example.com"
    taken, refused = TEXTS[form]

    def declared(*default: str) -> type[Any]:
        declare = custom_resource(f"{group}/v1", plural, kind="Form")
        return declare(extra(str, *default, format=form))

    def generates(text: str) -> bool:
        try:
            return bool(custom_resource_definition(declared(text)))
        except InvalidModelError:
            return False

    namespace = server.namespace()

    def body(name: str, text: str) -> JSONObject:
        metadata = {"name": name, "namespace": namespace}
        what = {"apiVersion": f"{group}/v1", "kind": "Form", "metadata": metadata}
        return {**what, "spec": {"field": text}}

    async def stores(text: str) -> bool:
        try:
            return bool(await cluster.create(body("b", text), dry_run=True))
        except InvalidError:
            return False

    async with served(server, custom_resource_definition(declared())), server.connect() as cluster:
        await until(lambda: is_created(server, body("a", taken[0])), timeout_seconds=100)
        stored = [text for text in (*taken, *refused) if await stores(text)]

    assert stored == list(taken)
    assert [text for text in (*taken, *refused) if generates(text)] == list(taken)


def test_a_column_shows_a_condition(place: Place) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    group = f"{unique('engines')}.example.com"
    declare = custom_resource(f"{group}/v1", "engines", columns=_COLUMNS)
    place.created(definitions, custom_resource_definition(declare(Engine)))
    path = place.path("engines", api_version=f"{group}/v1")
    assert poll(lambda: place.send("GET", path).status == 200, timeout_seconds=100)
    body = {"apiVersion": f"{group}/v1", "kind": "Engine", "metadata": {"name": "a"}}
    place.created(path, body)
    conditions = [{"type": "Synced", "status": "True"}, {"type": "Ready", "status": "False"}]
    place.patched(f"{path}/a/status", {"status": {"conditions": conditions}})

    answer = place.send("GET", f"{path}/a", headers={"Accept": TABLE})

    names = [column["name"] for column in answer.json["columnDefinitions"]]
    assert names == ["Name", "Ready", "First", "Age"]
    cells = answer.json["rows"][0]["cells"]
    assert cells[:3] == ["a", "False", "Synced"]
    assert answer.json["columnDefinitions"][3]["type"] == "date"
    place.send("DELETE", f"{definitions}/engines.{group}")
