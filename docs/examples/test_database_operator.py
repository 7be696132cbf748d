"""Tests of the operator for databases. They need no server: `pytest test_database_operator.py`."""

from database_operator import app

from pyinformer import ForbiddenError, Request
from pyinformer.errors import ModelMismatchError
from pyinformer.testing import World

DATABASE = {
    "apiVersion": "acme.io/v1",
    "kind": "Database",
    "metadata": {"namespace": "default", "name": "orders"},
    "spec": {"replicas": 2},
}


def test_a_database_gets_a_stateful_set() -> None:
    with World([*app.custom_resource_definitions(), DATABASE]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)

        outcome = world.reconcile(databases, "default/orders")

        assert outcome.error is None
        child = world.get("apps/v1", "statefulsets", "orders")
        assert child["spec"]["replicas"] == 2
        assert child["metadata"]["ownerReferences"][0]["name"] == "orders"


def test_a_change_of_the_stateful_set_enqueues_the_database() -> None:
    with World([*app.custom_resource_definitions(), DATABASE]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)
        world.reconcile(databases, "default/orders")
        world.enqueued_by(databases)  # its own writes

        world.patch("apps/v1", "statefulsets", "orders", {"status": {"readyReplicas": 2}})

        assert world.enqueued_by(databases) == [Request("default/orders")]
        world.reconcile(databases, "default/orders")
        assert world.get("acme.io/v1", "databases", "orders")["status"]["ready"] == 2


def test_nothing_is_created_for_a_database_that_is_being_deleted() -> None:
    with World([*app.custom_resource_definitions(), DATABASE]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)
        key = "default/orders"
        world.run(
            lambda: world.cluster.delete("acme.io/v1", "databases", key, propagation="Foreground")
        )

        world.reconcile(databases, key)

        assert world.list("apps/v1", "statefulsets") == []


def test_a_second_reconcile_writes_nothing() -> None:
    with World([*app.custom_resource_definitions(), DATABASE]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)
        world.reconcile(databases, "default/orders")
        world.clear_writes()

        world.reconcile(databases, "default/orders")

        assert world.writes == ()


def test_a_refused_write_is_retried() -> None:
    with World([*app.custom_resource_definitions(), DATABASE]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)
        world.fail_on("statefulsets", status=403)

        outcome = world.reconcile(databases, "default/orders")

        assert isinstance(outcome.error, ForbiddenError)
        assert outcome.after_seconds is not None


def test_an_invalid_database_names_the_field() -> None:
    odd = {**DATABASE, "spec": {"replicas": "many"}}
    with World([*app.custom_resource_definitions(), odd]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)

        outcome = world.reconcile(databases, "default/orders")

        assert isinstance(outcome.error, ModelMismatchError)
        assert outcome.error.path == "spec.replicas"
        assert [write.subresource for write in world.writes] == ["status"]  # Ready is False
