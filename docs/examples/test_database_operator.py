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
    with World([DATABASE]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)

        outcome = world.reconcile(databases, "default/orders")

        assert outcome.error is None
        child = world.get("apps/v1", "statefulsets", "orders")
        assert child["spec"]["replicas"] == 2
        assert child["metadata"]["ownerReferences"][0]["name"] == "orders"


def test_a_database_hears_of_its_stateful_set() -> None:
    with World([DATABASE]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)
        world.reconcile(databases, "default/orders")
        world.enqueued_by(databases)  # its own writes

        world.patch("apps/v1", "statefulsets", "orders", {"status": {"readyReplicas": 2}})

        assert world.enqueued_by(databases) == [Request("default/orders")]
        world.reconcile(databases, "default/orders")
        assert world.get("acme.io/v1", "databases", "orders")["status"] == {"ready": 2}


def test_a_write_that_is_refused_is_tried_again() -> None:
    with World([DATABASE]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)
        world.fail_on("statefulsets", status=403)

        outcome = world.reconcile(databases, "default/orders")

        assert isinstance(outcome.error, ForbiddenError)
        assert outcome.after_seconds is not None


def test_a_database_that_makes_no_sense_names_the_field() -> None:
    with World([{**DATABASE, "spec": {"replicas": "many"}}]) as world:
        (databases,) = app.controllers(world.cluster, world.factory)

        outcome = world.reconcile(databases, "default/orders")

        assert isinstance(outcome.error, ModelMismatchError)
        assert outcome.error.path == "spec.replicas"
        assert world.writes == ()
