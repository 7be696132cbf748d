"""`cleanup=`: what a function with children has made outside of the cluster is removed, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyinformer import Cluster, Operator, Request, Result
from pyinformer.blocking import BlockingCluster
from pyinformer.errors import (
    InvalidArgumentError,
    InvalidTypeError,
    ModelMismatchError,
    TerminalError,
)
from pyinformer.testing import World
from tests.children.desired import DATABASE, OWNED, Database, Desired, config_map
from tests.children.test_sets import KEY, Run, names, owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.children import Children
    from pyinformer.objects import JSONObject

FINALIZER = "cleanup.pyinformer.dev/db-operator.databases"


@pytest.fixture
def world() -> Iterator[World]:
    """A World with one database."""
    with World([DATABASE]) as world:
        yield world


class Provider:
    """What is outside of the cluster."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.made: set[str] = set()
        self.calls: list[set[str]] = []
        """The finalizers of the object at each call of `drop`."""
        self.error: Exception | None = None
        self.result: Result | None = None

    async def drop(self, request: Request, database: Database, cluster: Cluster) -> Result | None:
        """Remove what was made."""
        assert isinstance(database, Database)
        live = await cluster.get("acme.io/v1", "databases", request.key)
        self.calls.append(set(live.metadata.finalizers))
        if self.error is not None:
            raise self.error
        if self.result is None:
            self.made.discard(request.key)
        return self.result


class Making(Desired):
    """An operator that makes something at a provider before its children."""

    def __init__(self, provider: Provider) -> None:
        super().__init__()
        self.provider = provider
        self.held: list[bool] = []
        """Whether the object had the finalizer, at each call."""
        self.stages = {"": [config_map("url")]}

    async def reconcile(self, request: Request, database: Any, children: Children) -> Result | None:
        """Make it, and apply the children."""
        live = await children.cluster.get("acme.io/v1", "databases", request.key)
        self.held.append(FINALIZER in live.metadata.finalizers)
        self.provider.made.add(request.key)
        return await super().reconcile(request, database, children)


def a_run(world: World, **options: Any) -> tuple[Provider, Making, Run]:
    """Return an operator with a provider that has made something."""
    provider = Provider(world)
    making = Making(provider)
    run = Run(world, making, cleanup=provider.drop, **options)
    run.ok()
    return provider, making, run


def ready(world: World) -> tuple[str, str, str]:
    """Return the Ready condition of the database."""
    (found,) = owner(world)["status"]["conditions"]
    return found["status"], found["reason"], found["message"]


def delete(world: World) -> None:
    """Delete the database."""
    world.delete("acme.io/v1", "databases", "orders", namespace="shop")


def test_the_object_is_held_before_the_first_call(world: World) -> None:
    provider, making, _ = a_run(world)
    assert making.held == [True]
    assert provider.calls == []
    assert owner(world)["metadata"]["finalizers"] == [FINALIZER]


def test_cleanup_is_called_before_the_object_is_gone(world: World) -> None:
    provider, _, run = a_run(world)
    delete(world)
    assert world.list("acme.io/v1", "databases")
    run.ok()
    assert provider.made == set()
    assert provider.calls == [{FINALIZER}]
    assert world.list("acme.io/v1", "databases") == []


def test_an_object_at_rest_costs_no_request_for_its_cleanup(world: World) -> None:
    _, _, run = a_run(world)
    run.ok()  # the event of the status
    assert run.verbs() == []


def test_cleanup_that_fails_is_called_again_and_the_object_stays(world: World) -> None:
    provider, _, run = a_run(world)
    provider.error = OSError("the provider is down")
    delete(world)
    assert run().error is provider.error
    assert owner(world)["metadata"]["finalizers"] == [FINALIZER]
    assert names(world) == {"url"}
    provider.error = None
    run.ok()
    assert world.list("acme.io/v1", "databases") == []


def test_cleanup_that_needs_more_time_keeps_the_object(world: World) -> None:
    provider, _, run = a_run(world)
    provider.result = Result(requeue_after_seconds=10)
    delete(world)
    assert run.ok().after_seconds == pytest.approx(10, rel=0.2)
    assert owner(world)["metadata"]["finalizers"] == [FINALIZER]
    provider.result = None
    run.ok()
    assert world.list("acme.io/v1", "databases") == []


def test_cleanup_that_waits_keeps_the_object_until_its_next_call(world: World) -> None:
    provider, _, run = a_run(world)
    provider.result = Result(waiting_for="the last backup")
    delete(world)
    outcome = run.ok()
    assert outcome.result is not None
    assert outcome.result.waiting_for == "the last backup"
    assert ready(world) == ("False", "BeingDeleted", "the last backup")
    provider.result = None
    run.ok()
    assert (provider.made, world.list("acme.io/v1", "databases")) == (set(), [])


def test_a_cleanup_that_fails_is_in_the_status_without_its_words(world: World) -> None:
    provider, _, run = a_run(world)
    assert ready(world)[0] == "True"
    provider.error = OSError("password=s3cret")
    delete(world)
    assert run().error is provider.error
    status, reason, message = ready(world)
    assert (status, reason) == ("False", "CleanupFailed")
    assert "OSError" in message
    assert "s3cret" not in message


def test_an_owner_whose_stages_are_being_deleted_is_not_ready(world: World) -> None:
    desired = Desired()
    desired.stages = {"data": [config_map("data")], "access": [config_map("url")]}
    run = Run(world, desired)
    run.ok()
    delete(world)
    run.ok()
    assert ready(world) == ("False", "BeingDeleted", "ConfigMap shop/url must be gone")


def test_a_cleanup_that_returns_something_else_releases_nothing(world: World) -> None:
    async def drop(request: Request, database: Database, cluster: Cluster) -> Any:
        return "done"

    run = Run(world, Desired(), cleanup=drop)
    run.ok()
    delete(world)
    error = run().error
    assert isinstance(error, InvalidTypeError)
    assert "returned str; it must be None or a Result" in str(error)
    assert owner(world)["metadata"]["finalizers"] == [FINALIZER]


@pytest.mark.parametrize("has_stages", [True, False])
def test_a_predicate_does_not_drop_the_deletion(world: World, has_stages: bool) -> None:
    provider = Provider(world)
    making = Making(provider)
    if has_stages:
        making.stages = {"data": [config_map("data")], "access": [config_map("url")]}

    def comes_or_goes(old: object, new: object) -> bool:
        return old is None or new is None

    options: JSONObject = {} if has_stages else {"cleanup": provider.drop}
    run = Run(world, making, predicate=comes_or_goes, **options)
    run.ok()
    world.enqueued_by(run.controller)
    delete(world)
    assert KEY in {str(one) for one in world.enqueued_by(run.controller)}


def test_cleanup_comes_before_the_stages_are_deleted_and_once(world: World) -> None:
    provider, making, run = a_run(world)
    making.stages = {"data": [config_map("data")], "access": [config_map("url")]}
    run.ok()
    delete(world)
    run.ok()
    world.collect_garbage()
    assert len(provider.calls) == 1
    assert names(world) == {"data"}
    run.ok()
    world.collect_garbage()
    run.ok()
    assert len(provider.calls) == 1
    assert (names(world), world.list("acme.io/v1", "databases")) == (set(), [])


def test_a_write_that_fails_after_the_cleanup_calls_it_again(world: World) -> None:
    provider, _, run = a_run(world)
    delete(world)
    world.fail_on("databases", verb="patch", status=500)
    assert run().error is not None
    assert owner(world)["metadata"]["finalizers"] == [FINALIZER]
    run.ok()
    assert len(provider.calls) == 2
    assert world.list("acme.io/v1", "databases") == []


def test_another_change_meanwhile_does_not_call_it_again(world: World) -> None:
    provider, _, run = a_run(world)
    delete(world)
    world.conflict_on("databases", verb="patch")
    run.ok()
    assert len(provider.calls) == 1
    assert world.list("acme.io/v1", "databases") == []


def test_an_object_that_was_never_reconciled_is_not_cleaned_up(world: World) -> None:
    provider = Provider(world)
    run = Run(world, Making(provider), cleanup=provider.drop)
    world.patch(
        "acme.io/v1",
        "databases",
        "orders",
        {"metadata": {"finalizers": ["acme.io/other"]}},
        namespace="shop",
    )
    delete(world)
    run.ok()
    assert provider.calls == []
    assert owner(world)["metadata"]["finalizers"] == ["acme.io/other"]


def test_a_function_that_made_nothing_yet_is_cleaned_up_after(world: World) -> None:
    """The process may have ended after the first effect, and before any write."""
    provider = Provider(world)
    making = Making(provider)
    making.error = OSError("the function fails after it has made something")
    run = Run(world, making, cleanup=provider.drop)
    assert run().error is making.error
    assert provider.made == {KEY}
    delete(world)
    run.ok()
    assert provider.made == set()
    assert world.list("acme.io/v1", "databases") == []


def test_a_program_without_the_cleanup_of_its_earlier_version_names_the_cure() -> None:
    metadata = {**DATABASE["metadata"], "finalizers": [FINALIZER]}
    with World([{**DATABASE, "metadata": metadata}]) as world:
        without = Run(world, Desired())
        without.ok()
        delete(world)
        error = without().error
        assert isinstance(error, TerminalError)
        assert FINALIZER in str(error)
        assert owner(world)["metadata"]["finalizers"] == [FINALIZER]


def test_kubectl_that_orphans_the_children_still_cleans_up(world: World) -> None:
    provider, _, run = a_run(world)
    held = {"finalizers": [FINALIZER, "orphan"]}
    world.patch("acme.io/v1", "databases", "orders", {"metadata": held}, namespace="shop")
    delete(world)
    run.ok()
    assert provider.made == set()
    assert names(world) == {"url"}
    assert owner(world)["metadata"]["finalizers"] == ["orphan"]


def test_a_plain_function_gets_the_blocking_cluster(world: World) -> None:
    given: list[object] = []

    def drop(request: Request, database: Database, cluster: BlockingCluster) -> None:
        """Note what it gets."""
        given.extend([request.key, type(database), type(cluster)])

    run = Run(world, Desired(), cleanup=drop)
    run.ok()
    delete(world)
    run.ok()
    assert given == [KEY, Database, BlockingCluster]
    assert world.list("acme.io/v1", "databases") == []


@pytest.mark.parametrize("has_hook", [True, False])
def test_an_object_that_does_not_fit_stays_until_it_is_mended(world: World, has_hook: bool) -> None:
    hooked: list[str] = []

    async def unreadable(request: Request, obj: object, cluster: object, error: object) -> None:
        """Note it."""
        hooked.append(request.key)

    options: JSONObject = {"on_unreadable": unreadable} if has_hook else {}
    provider, _, run = a_run(world, **options)
    world.patch("acme.io/v1", "databases", "orders", {"spec": {"image": 1}}, namespace="shop")
    delete(world)
    outcome = run()
    if has_hook:
        assert (outcome.error, hooked) == (None, [KEY])
    else:
        assert isinstance(outcome.error, ModelMismatchError)
    assert owner(world)["metadata"]["finalizers"] == [FINALIZER]
    world.patch("acme.io/v1", "databases", "orders", {"spec": {"image": "a"}}, namespace="shop")
    run.ok()
    assert (provider.made, world.list("acme.io/v1", "databases")) == (set(), [])


def test_wrong_arguments_are_refused_where_they_are_given() -> None:
    app = Operator("db-operator")

    async def with_cluster(request: Request, database: object, cluster: Cluster) -> None:
        """Without children."""

    async def with_children(request: Request, database: object, children: Children) -> None:
        """With children."""

    async def drop(request: Request, database: object, cluster: Cluster) -> None:
        """Clean up."""

    register = app.reconcile("acme.io/v1", "databases", owns=OWNED, cleanup=drop)
    with pytest.raises(InvalidArgumentError, match="cleanup: is for functions whose third"):
        register(with_cluster)
    wrong: Any = lambda request: None  # noqa: E731 - as a user writes it
    register = app.reconcile("acme.io/v1", "databases", owns=OWNED, cleanup=wrong)
    with pytest.raises(InvalidTypeError, match="cleanup"):
        register(with_children)

    async def drop_children(request: Request, database: object, children: object) -> None:
        """As if it got them."""

    wrong = drop_children
    register = app.reconcile("acme.io/v1", "databases", owns=OWNED, cleanup=wrong)
    with pytest.raises(InvalidTypeError, match="gets the cluster, and no children"):
        register(with_children)
    wrong = "drop"
    register = app.reconcile("acme.io/v1", "databases", owns=OWNED, cleanup=wrong)
    with pytest.raises(InvalidTypeError, match="cleanup"):
        register(with_children)
