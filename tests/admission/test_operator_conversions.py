"""`Operator.convert`: which models it takes, and what the definition says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import pyinformer
from pyinformer.admission import Webhooks
from pyinformer.admission.conversion import with_conversion
from pyinformer.errors import InvalidArgumentError, InvalidModelError, InvalidTypeError
from pyinformer.operator import custom_resource, custom_resource_definition


class OldSpec(msgspec.Struct):
    size: int = 1


class Spec(msgspec.Struct):
    max_size: int = 1


@custom_resource("acme.io/v1beta1", "databases", kind="Database", storage=False)
class OldDatabase(msgspec.Struct):
    spec: OldSpec


@custom_resource("acme.io/v1", "databases", versions=[OldDatabase])
class Database(msgspec.Struct):
    spec: Spec


@custom_resource("acme.io/v1", "lakes")
class Lake(msgspec.Struct):
    spec: Spec


class Undeclared(msgspec.Struct):
    spec: Spec


def upgrade(old: OldDatabase) -> Database:
    """Convert to the new version."""
    return Database(Spec(old.spec.size))


def downgrade(new: Database) -> OldDatabase:
    """Convert to the old version."""
    return OldDatabase(OldSpec(new.spec.max_size))


def converting() -> pyinformer.Operator:
    """Return an operator that converts databases, and reconciles lakes."""
    app = pyinformer.Operator("db")
    assert app.convert(OldDatabase, Database)(upgrade) is upgrade
    app.convert(Database, OldDatabase)(downgrade)

    @app.reconcile("acme.io/v1", "lakes", model=Lake)
    async def reconcile(request: Any, lake: Lake | None, cluster: Any) -> None:
        """Do nothing."""

    return app


def test_the_definition_names_the_service() -> None:
    app = converting()
    plain = app.custom_resource_definitions()
    assert {one["metadata"]["name"]: one["spec"].get("conversion") for one in plain} == {
        "lakes.acme.io": None,
        "databases.acme.io": {"strategy": "None"},
    }

    lakes, databases = with_conversion(plain, app.conversions, Webhooks(service="acme/db"))

    assert lakes == plain[0]
    client = {
        "service": {"namespace": "acme", "name": "db-conversion", "path": "/convert", "port": 443},
    }
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    assert databases["spec"]["conversion"] == {"strategy": "Webhook", "webhook": webhook}
    assert [*databases["spec"]] == [*plain[1]["spec"]]
    assert plain[1]["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize("url", ["https://10.0.2.2:9443/hooks", "https://10.0.2.2:9443/hooks/"])
def test_the_definition_names_the_url(url: str) -> None:
    app = converting()
    definitions = [custom_resource_definition(Database)]

    (found,) = with_conversion(definitions, app.conversions, Webhooks(url=url))

    client = found["spec"]["conversion"]["webhook"]["clientConfig"]
    assert client == {"url": "https://10.0.2.2:9443/hooks/convert"}


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        (Undeclared, Database, "Undeclared must be decorated with @custom_resource"),
        (OldDatabase, dict, "dict must be decorated"),
        (OldDatabase, None, "None must be decorated"),
        (OldDatabase, Lake, "must have one plural name"),
        (Database, Database, "are one version"),
    ],
)
def test_models_of_no_two_versions_are_refused(source: Any, target: Any, words: str) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=words):
        pyinformer.Operator("db").convert(source, target)(lambda one: one)


def test_a_function_without_its_reverse_is_refused_before_anything_runs() -> None:
    app = pyinformer.Operator("db")
    app.convert(OldDatabase, Database)(upgrade)

    with pytest.raises(InvalidArgumentError, match=r"@app.convert\(Database, OldDatabase\)"):
        app.custom_resource_definitions()


async def test_an_operator_does_not_start_without_the_reverse() -> None:
    app = converting()

    @custom_resource("acme.io/v2", "databases", kind="Database", versions=[OldDatabase, Database])
    class Newest(msgspec.Struct):
        spec: Spec

    @app.reconcile("acme.io/v2", "databases", model=Newest)
    async def reconcile(request: Any, database: Newest | None, cluster: Any) -> None:
        """Do nothing."""

    async with pyinformer.connect(server="http://127.0.0.1:1") as cluster:
        with pytest.raises(InvalidArgumentError, match=r"@app.convert\(OldDatabase, Newest\)"):
            app.running(cluster)


def test_versions_that_do_not_name_each_other_are_refused() -> None:
    @custom_resource("acme.io/v2", "databases", kind="Database")
    class Newest(msgspec.Struct):
        spec: Spec

    app = converting()
    app.convert(Newest, Database)(lambda one: Database(one.spec))
    app.convert(Database, Newest)(lambda one: Newest(one.spec))

    with pytest.raises(InvalidModelError, match="are two versions of one resource"):
        app.custom_resource_definitions()
