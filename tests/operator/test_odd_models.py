"""Models at the edges: a definition, or an error that names the field and not less."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import msgspec
import pydantic
import pytest

from pyinformer.errors import InvalidArgumentError, InvalidModelError
from pyinformer.operator import custom_resource, custom_resource_definition
from pyinformer.testing import World
from tests.operator.odd_models import ACCEPTED, REFUSED, Limits, Outer, struct


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    generation: int = 0
    since: Annotated[dt.datetime, msgspec.Meta(tz=True)] | None = None


class _Status(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class Conditioned(msgspec.Struct):
    """A model with conditions."""

    status: _Status = _Status()


def _definition(model: type) -> msgspec.Raw:
    declared: type = custom_resource("odd.example.com/v1", "odds", kind="Odd")(model)
    return msgspec.Raw(msgspec.json.encode(custom_resource_definition(declared)))


@pytest.mark.parametrize("name", ACCEPTED)
def test_it_has_a_definition(name: str) -> None:
    assert b"CustomResourceDefinition" in bytes(_definition(ACCEPTED[name]))


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_and_the_field_is_named(name: str) -> None:
    model, field = REFUSED[name]

    with pytest.raises(InvalidModelError) as raised:
        _definition(model)

    assert raised.value.path == field
    assert f"field {field}: " in str(raised.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param(
            "name-of-reading",
            "is written under another name than it is read, or not at all, so that edits would be"
            " lost; `alias` sets the name for both",
            id="name",
        ),
        pytest.param(
            "written-as-text",
            "is read as integer and written as string, which the server would refuse",
            id="type",
        ),
    ],
)
def test_a_field_that_is_written_otherwise_than_it_is_read_is_explained(
    name: str, words: str
) -> None:
    model, field = REFUSED[name]

    with pytest.raises(InvalidModelError) as raised:
        _definition(model)

    assert str(raised.value).endswith(f"field {field}: {words}")


def test_none_in_a_default_is_absent_where_the_field_may_not_be_null() -> None:
    model: type = custom_resource("odd.example.com/v1", "odds", kind="Odd")(struct(Outer, Outer()))

    (version,) = custom_resource_definition(model)["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    field = spec["properties"]["field"]
    assert field["default"] == {"limits": {"size": 1, "note": None}, "names": []}
    assert field["properties"]["limits"]["default"] == {"size": 1, "note": None}
    assert field["properties"]["limits"]["properties"]["note"]["nullable"]


def test_a_default_is_the_models_own() -> None:
    given = Limits(size=5)

    definition = custom_resource_definition(
        custom_resource("odd.example.com/v1", "odds", kind="Odd")(struct(Limits, given))
    )

    assert b'"default":{"size":5,"note":null}' in msgspec.json.encode(definition)
    assert given == Limits(size=5)


def test_a_group_of_kubernetes_itself_states_that_it_is_not_approved() -> None:
    model: type = custom_resource("odd.k8s.io/v1", "odds", kind="Odd")(struct(int))

    assert custom_resource_definition(model)["metadata"] == {
        "name": "odds.odd.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved"},
    }


@pytest.mark.parametrize(
    "api_version", ["odd..com/v1", f"odd.example.com/v{'1' * 63}", f"{'a.' * 124}example.com/v1"]
)
def test_a_group_or_version_that_is_not_a_name_is_refused(api_version: str) -> None:
    with pytest.raises(InvalidArgumentError, match="api_version"):
        custom_resource(api_version, "odds", kind="Odd")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ('status.conditions[?(@.type=="Ready")].status', "string"),
        (".status.conditions[?(@.type == 'Ready')].since", "date"),
        ("status.conditions[0].generation", "integer"),
        ("status.conditions[*].type", "string"),
        ("status.conditions", "string"),
        ("metadata.creationTimestamp", "date"),
        ("metadata.annotations.owner", "string"),
    ],
)
def test_a_column_shows_a_field_of_an_item(path: str, kind: str) -> None:
    model: type = custom_resource("odd.example.com/v1", "odds", columns={"A": path})(Conditioned)

    (version,) = custom_resource_definition(model)["spec"]["versions"]
    column, _ = version["additionalPrinterColumns"]
    assert column == {"name": "A", "type": kind, "jsonPath": f".{path.removeprefix('.')}"}


@pytest.mark.parametrize(
    "path",
    [
        'status.conditions[?(@.type=="Ready")].state',
        'status.conditions[?(@.kind=="Ready")].status',
        'status.condition[?(@.type=="Ready")].status',
        "status.conditions[?(@.type=Ready)].status",
        "status.conditions[-].status",
        "status.conditions[0",
        "status.conditions.status",
        "",
    ],
)
def test_a_column_of_a_field_that_no_item_has_is_refused(path: str) -> None:
    model: type = custom_resource("odd.example.com/v1", "odds", columns={"A": path})(Conditioned)

    with pytest.raises(InvalidModelError) as raised:
        custom_resource_definition(model)
    assert raised.value.path == path


def test_a_column_has_a_title_and_the_age_stands_once() -> None:
    untitled: type = custom_resource("odd.example.com/v1", "odds", columns={"": "spec"})(
        struct(int)
    )
    aged: type = custom_resource(
        "odd.example.com/v1", "odds", columns={"Age": "metadata.creationTimestamp"}
    )(Conditioned)

    with pytest.raises(InvalidModelError, match="a column must have a title"):
        custom_resource_definition(untitled)
    (version,) = custom_resource_definition(aged)["spec"]["versions"]
    assert version["additionalPrinterColumns"] == [
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    ]


class _Summary(pydantic.BaseModel):
    text: str


class _ComputedStatus(pydantic.BaseModel):
    ready: int = 0
    wanted: int = 1

    @pydantic.computed_field
    def healthy(self) -> bool:
        """Return whether all are ready."""
        return self.ready >= self.wanted

    @pydantic.computed_field
    def summary(self) -> _Summary:
        """Return it in words."""
        return _Summary(text=f"{self.ready} of {self.wanted}")


class _Computed(pydantic.BaseModel):
    status: _ComputedStatus = _ComputedStatus()


def test_the_server_stores_a_computed_field_like_every_other() -> None:
    model: type = custom_resource("odd.example.com/v1", "odds", kind="Odd")(_Computed)
    created = {"apiVersion": "odd.example.com/v1", "kind": "Odd", "metadata": {"name": "a"}}

    with World([custom_resource_definition(model), created]) as world:

        async def write() -> None:
            """Write a status as the tutorial does."""
            odd = await world.cluster.get("odd.example.com/v1", "odds", "default/a")
            await world.cluster.status(odd, _ComputedStatus(ready=1))

        world.run(write)
        status = world.get("odd.example.com/v1", "odds", "a")["status"]

    summary = {"text": "1 of 1"}
    assert status == {"ready": 1, "wanted": 1, "healthy": True, "summary": summary}
