"""`testing.assert_lossless`: it finds what a conversion loses, whatever the models are."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, settings

import pyinformer
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.operator import custom_resource
from pyinformer.testing import assert_lossless

if TYPE_CHECKING:
    from collections.abc import Callable


class Port(msgspec.Struct, rename="camel"):
    number: Annotated[int, msgspec.Meta(ge=1, lt=65536)]
    target_name: Annotated[str, msgspec.Meta(pattern="^[a-z]+$", max_length=5)] = "http"


class OldSpec(msgspec.Struct, rename="camel"):
    size: int = 1
    engine: Literal["postgres", "mysql"] = "postgres"
    ports: list[Port] = []
    limits: dict[str, float] = {}
    free: Any = None
    even: Annotated[int, msgspec.Meta(multiple_of=2, gt=0)] = 2
    ratio: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    port: int | str = 0
    is_on: bool | None = None


@custom_resource("acme.io/v1beta1", "databases", kind="Database", storage=False)
class OldDatabase(msgspec.Struct):
    spec: OldSpec
    metadata: dict[str, Any] = {}
    status: dict[str, str] = {}


@dataclass
class NewSpec:
    old: OldSpec
    more: list[str] = field(default_factory=list)


@custom_resource("acme.io/v1", "databases", kind="Database", versions=[OldDatabase])
@dataclass
class Database:
    spec: NewSpec
    metadata: dict[str, Any] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)


def converting(up: Callable[[Any], Any], down: Callable[[Any], Any]) -> pyinformer.Operator:
    """Return an operator with two functions."""
    app = pyinformer.Operator("db")
    app.convert(OldDatabase, Database)(up)
    app.convert(Database, OldDatabase)(down)
    return app


def up(old: OldDatabase) -> Database:
    """Convert to the new version; a field that the old one lacks is in an annotation."""
    annotations = old.metadata.get("annotations", {})
    more = msgspec.json.decode(annotations.pop("acme.io/more", "[]"))
    return Database(NewSpec(old.spec, more), old.metadata, old.status)


def down(new: Database) -> OldDatabase:
    """Convert to the old version."""
    if new.spec.more:
        text = msgspec.json.encode(new.spec.more).decode()
        new.metadata.setdefault("annotations", {})["acme.io/more"] = text
    return OldDatabase(new.spec.old, new.metadata, new.status)


def test_a_lossless_pair_passes() -> None:
    assert_lossless(converting(up, down), OldDatabase, Database)


def test_what_is_lost_on_the_way_is_named_by_the_smallest_object() -> None:
    def forgetful(new: Database) -> OldDatabase:
        spec = msgspec.structs.replace(new.spec.old, size=min(new.spec.old.size, 100))
        return OldDatabase(spec, new.metadata, new.status)

    with pytest.raises(AssertionError) as raised:
        assert_lossless(converting(up, forgetful), OldDatabase, Database)

    text = str(raised.value)
    way = "acme.io/v1beta1 (OldDatabase) -> acme.io/v1 (Database) -> acme.io/v1beta1 (OldDatabase)"
    assert text.startswith(f"{way} changes {{")
    assert text.splitlines()[1:] == ["    spec.size: 101 -> 100"]
    assert '"ports":[]' in text


def test_the_way_from_the_new_version_is_tested_too() -> None:
    def forgetful(new: Database) -> OldDatabase:
        return OldDatabase(new.spec.old, new.metadata, new.status)

    with pytest.raises(AssertionError, match=r"^acme.io/v1 \(Database\) -> ") as raised:
        assert_lossless(converting(up, forgetful), OldDatabase, Database)

    assert "spec.more" in str(raised.value)


@pytest.mark.parametrize("lost", ["metadata", "status"])
def test_labels_and_a_status_are_found_missing(lost: str) -> None:
    def forgetful(old: OldDatabase) -> Database:
        found = up(old)
        setattr(found, lost, {"labels": {}} if lost == "metadata" else {})
        return found

    with pytest.raises(AssertionError, match="metadata.labels" if lost == "metadata" else lost):
        assert_lossless(converting(forgetful, down), OldDatabase, Database)


def test_a_function_that_raises_fails_the_test_with_its_error() -> None:
    def failing(old: OldDatabase) -> Database:
        raise LookupError(old.spec.engine)

    with pytest.raises(Exception, match="failing raised LookupError") as raised:
        assert_lossless(converting(failing, down), OldDatabase, Database)

    assert isinstance(raised.value.__cause__, LookupError)


def test_objects_that_a_validator_refuses_are_not_tried() -> None:
    class OldEven(pydantic.BaseModel):
        size: int = 0

        @pydantic.field_validator("size")
        @classmethod
        def check(cls, size: int) -> int:
            """Refuse odd sizes, of which a schema says nothing."""
            if size % 2:
                raise ValueError(size)
            return size

    @custom_resource("acme.io/v1beta1", "evens", kind="Even", storage=False)
    class Old(pydantic.BaseModel):
        spec: OldEven

    @custom_resource("acme.io/v1", "evens", kind="Even", versions=[Old])
    class New(pydantic.BaseModel):
        spec: OldEven

    app = pyinformer.Operator("even")
    app.convert(Old, New)(lambda one: New(spec=one.spec))
    app.convert(New, Old)(lambda one: Old(spec=one.spec))
    with settings_of_a_user():
        assert_lossless(app, Old, New)


def settings_of_a_user() -> Any:
    """Let half of the objects be filtered out."""
    name = "lossless"
    settings.register_profile(
        name, settings.get_profile("tests"), suppress_health_check=list(HealthCheck)
    )
    return _Loaded(name)


class _Loaded:
    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        settings.load_profile(self._name)

    def __exit__(self, *_: object) -> None:
        settings.load_profile("tests")


class Numbered(msgspec.Struct):
    number: Annotated[str, msgspec.Meta(pattern=r"^\d+$")]


@custom_resource("acme.io/v1beta1", "shops", kind="Shop", storage=False)
class OldShop(msgspec.Struct):
    spec: Numbered


@custom_resource("acme.io/v1", "shops", versions=[OldShop])
class Shop(msgspec.Struct):
    spec: Numbered


def test_texts_match_their_patterns_as_the_server_reads_them() -> None:
    seen: list[str] = []
    app = pyinformer.Operator("shops")

    @app.convert(OldShop, Shop)
    def up(old: OldShop) -> Shop:
        seen.append(old.spec.number)
        return Shop(old.spec)

    @app.convert(Shop, OldShop)
    def down(new: Shop) -> OldShop:
        return OldShop(new.spec)

    assert_lossless(app, OldShop, Shop)

    assert seen
    assert [one for one in seen if re.fullmatch("[0-9]+", one) is None] == []


def test_models_that_are_not_converted_are_refused() -> None:
    app = converting(up, down)
    with pytest.raises(InvalidArgumentError, match="new: no function of db converts OldSpec"):
        assert_lossless(app, OldDatabase, OldSpec)
    with pytest.raises(InvalidTypeError, match="app"):
        assert_lossless("app", OldDatabase, Database)  # type: ignore[arg-type]  # on purpose


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(InvalidArgumentError, match="pip install hypothesis"):
        assert_lossless(converting(up, down), OldDatabase, Database)
