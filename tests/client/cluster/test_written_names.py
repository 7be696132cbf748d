"""Fields of pydantic that are read under one name and written under another."""

from __future__ import annotations

from typing import Annotated, Any

import pydantic
import pytest

import pyinformer
from pyinformer.client.cluster import Cluster
from pyinformer.errors import InvalidModelError
from pyinformer.testing import World

THING = {
    "apiVersion": "acme.io/v1",
    "kind": "Thing",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"maxSize": 3, "parts": [{"maxSize": 3}]},
}


def thing(field: Any) -> type[Any]:
    """Return a model whose spec has this field."""
    spec = pydantic.create_model("Spec", max_size=(int, field))
    return pydantic.create_model("Thing", spec=(spec, ...))


def write(model: type[Any]) -> dict[str, Any]:
    """Reconcile an object with an edit of the field; return what is stored."""
    app = pyinformer.Operator("test")

    @app.reconcile("acme.io/v1", "things", model=model)
    async def reconcile(request: pyinformer.Request, found: Any, cluster: Cluster) -> None:
        found.spec.max_size = 5
        await cluster.patch(app.object_of(found), found)

    with World([THING]) as world:
        (things,) = app.controllers(world.cluster, world.factory)
        error = world.reconcile(things, "default/a").error
        stored: dict[str, Any] = world.get("acme.io/v1", "things", "a")["spec"]
        if error is not None:
            assert stored == THING["spec"], "nothing is written"
            raise error
        return stored


@pytest.mark.parametrize(
    ("field", "path"),
    [
        pytest.param(pydantic.Field(3, validation_alias="maxSize"), "spec.maxSize", id="reading"),
        pytest.param(
            pydantic.Field(3, validation_alias=pydantic.AliasChoices("maxSize", "max_size")),
            "spec.maxSize",
            id="choices",
        ),
        pytest.param(
            pydantic.Field(3, validation_alias=pydantic.AliasPath("sizes", 0)),
            "spec.sizes.0",
            id="path",
        ),
        pytest.param(
            pydantic.Field(3, serialization_alias="maxSize"), "spec.max_size", id="writing"
        ),
    ],
)
def test_a_field_of_two_names_is_refused_when_it_would_be_written(field: Any, path: str) -> None:
    with pytest.raises(InvalidModelError, match="edits would be lost") as caught:
        write(thing(field))
    assert (caught.value.model, caught.value.path) == ("Thing", path)


class Part(pydantic.BaseModel):
    """A part of a thing."""

    size: int = pydantic.Field(validation_alias="maxSize")


class Parts(pydantic.BaseModel):
    """A spec with parts."""

    max_size: int = pydantic.Field(alias="maxSize")
    parts: list[Annotated[Part, "a part"]] = []


def test_it_is_found_in_a_list_of_models() -> None:
    with pytest.raises(InvalidModelError) as caught:
        write(pydantic.create_model("Thing", spec=(Parts, ...)))
    assert caught.value.path == "spec.parts.maxSize"


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(pydantic.Field(3, alias="maxSize"), id="alias"),
        pytest.param(
            pydantic.Field(
                3,
                validation_alias=pydantic.AliasChoices("maxSize", "max_size"),
                serialization_alias="maxSize",
            ),
            id="both",
        ),
    ],
)
def test_a_field_of_one_name_is_written(field: Any) -> None:
    assert write(thing(field))["maxSize"] == 5


class Renames(pydantic.BaseModel):
    """Reads and writes its field under one name, by a serializer of its own."""

    max_size: int = pydantic.Field(3, validation_alias="maxSize")

    @pydantic.model_serializer
    def write(self) -> dict[str, Any]:
        """Return the field under the name that is read."""
        return {"maxSize": self.max_size}


def test_a_model_that_serializes_itself_is_written() -> None:
    assert write(pydantic.create_model("Thing", spec=(Renames, ...)))["maxSize"] == 5
