"""The page on four operators: it shows the program that is measured, which does what it says."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from benchmarks.database_user.__main__ import lines_table
from benchmarks.database_user.database import Database, User
from benchmarks.database_user.frameworks import FRAMEWORKS
from benchmarks.database_user.own_operator import app
from benchmarks.database_user.scenes import SCENES
from pyinformer.errors import NotFoundError
from pyinformer.testing import World
from tests.docs import pages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer import Controller
    from pyinformer.objects import JSONObject

PAGE = "docs/explanation/four-operators.md"
KEY = "apps/ann"
USER: JSONObject = {
    "apiVersion": "acme.io/v1",
    "kind": "DatabaseUser",
    "metadata": {"namespace": "apps", "name": "ann"},
    "spec": {"database": "orders"},
}


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    with Database() as found:
        monkeypatch.setenv("DATABASE_URL", found.url("0"))
        yield found


@pytest.fixture
def world(database: Database) -> Iterator[World]:
    with World([*app.custom_resource_definitions(), USER]) as found:
        yield found


@pytest.fixture
def users(world: World) -> Controller:
    (found,) = app.controllers(world.cluster, world.factory)
    return found


def password_of(world: World) -> str:
    data = world.get("v1", "secrets", "ann-credentials", "apps")["data"]
    fields = {name: base64.b64decode(value).decode() for name, value in data.items()}
    assert fields.keys() == {"user", "password", "database"}
    assert (fields["user"], fields["database"]) == ("apps.ann", "orders")
    return fields["password"]


def is_ready(world: World) -> bool:
    found = world.get("acme.io/v1", "databaseusers", "ann", "apps")
    status = found.get("status", {})
    return [one["status"] for one in status.get("conditions", [])] == ["True"]


def test_the_page_shows_the_program_that_is_measured() -> None:
    program = (pages.ROOT / "benchmarks/database_user/own_operator.py").read_text()
    (block,) = pages.blocks(PAGE, "python")

    assert block.text.strip() == program.partition('"""\n\n')[2].strip()


def test_the_page_has_the_lines_as_they_are_counted_and_every_scene() -> None:
    text = pages.read(PAGE)

    assert lines_table([*FRAMEWORKS]) in text
    assert all(f"| {scene} |" in text for scene in SCENES)


def test_a_user_is_made_with_its_secret_and_its_status(
    database: Database, world: World, users: Controller
) -> None:
    assert world.reconcile(users, KEY).error is None

    assert database.users() == {"apps.ann": User(password_of(world), "orders")}
    assert len(password_of(world)) > 20
    secret = world.get("v1", "secrets", "ann-credentials", "apps")
    assert [one["name"] for one in secret["metadata"]["ownerReferences"]] == ["ann"]
    assert is_ready(world)


def test_a_second_reconcile_changes_nothing(
    database: Database, world: World, users: Controller
) -> None:
    world.reconcile(users, KEY)
    before = database.users()
    world.clear_writes()

    assert world.reconcile(users, KEY).error is None

    assert (world.writes, database.users()) == ((), before)


def test_a_secret_that_is_lost_gets_a_new_password_that_the_database_has(
    database: Database, world: World, users: Controller
) -> None:
    world.reconcile(users, KEY)
    before = password_of(world)
    world.enqueued_by(users)  # by its own writes

    world.delete("v1", "secrets", "ann-credentials", namespace="apps")

    assert [one.key for one in world.enqueued_by(users)] == [KEY]
    assert world.reconcile(users, KEY).error is None
    assert password_of(world) != before
    assert database.users()["apps.ann"].password == password_of(world)


def test_a_secret_that_was_changed_is_set_right(
    database: Database, world: World, users: Controller
) -> None:
    world.reconcile(users, KEY)
    changed = {"stringData": {"user": "eve", "password": "changed"}}
    world.patch("v1", "secrets", "ann-credentials", changed, namespace="apps")

    assert world.reconcile(users, KEY).error is None

    assert database.users()["apps.ann"].password == password_of(world)


def test_the_user_is_dropped_before_its_object_is_gone(
    database: Database, world: World, users: Controller
) -> None:
    world.reconcile(users, KEY)
    world.delete("acme.io/v1", "databaseusers", "ann", namespace="apps")

    database.is_down = True
    refused = world.reconcile(users, KEY)
    assert refused.error is not None
    assert refused.after_seconds is not None
    assert world.get("acme.io/v1", "databaseusers", "ann", "apps")["metadata"]["finalizers"]

    database.is_down = False
    assert world.reconcile(users, KEY).error is None
    assert database.users() == {}
    with pytest.raises(NotFoundError):
        world.get("acme.io/v1", "databaseusers", "ann", "apps")


def test_a_database_that_is_down_is_retried_and_the_object_is_not_ready(
    database: Database, world: World, users: Controller
) -> None:
    database.is_down = True

    outcome = world.reconcile(users, KEY)

    assert outcome.error is not None
    assert outcome.after_seconds is not None
    assert not is_ready(world)
    database.is_down = False
    assert world.reconcile(users, KEY).error is None
    assert is_ready(world)
