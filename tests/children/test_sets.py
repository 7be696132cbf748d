"""Sets of children: what is applied is there, what has left the set is gone, others' stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.errors import (
    AlreadyOwnedError,
    InvalidArgumentError,
    InvalidTypeError,
    NotFoundError,
)
from pyinformer.testing import World
from tests.children.desired import DATABASE, OWNED, Desired, config_map, stateful_set

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyinformer.children import Children
    from pyinformer.controller import Outcome
    from pyinformer.objects import JSONObject

KEY = "shop/orders"


@pytest.fixture
def world() -> Iterator[World]:
    """A World with one database."""
    with World([DATABASE]) as world:
        yield world


class Run:
    """One operator in a World."""

    def __init__(self, world: World, desired: Desired, **options: Any) -> None:
        app = desired.operator(**options)
        (self.controller,) = app.controllers(world.cluster, world.factory)
        self.world = world

    def __call__(self, key: str = KEY) -> Outcome:
        """Reconcile once."""
        return self.world.reconcile(self.controller, key)

    def ok(self, key: str = KEY) -> Outcome:
        """Reconcile once, without an error."""
        outcome = self(key)
        assert outcome.error is None
        return outcome

    def verbs(self, key: str = KEY) -> list[tuple[str, str, str]]:
        """Reconcile once, and return what was written."""
        self.world.clear_writes()
        self.ok(key)
        return [(one.verb, one.plural, one.key) for one in self.world.writes]


def names(world: World, plural: str = "configmaps", api_version: str = "v1") -> set[str]:
    """Return the names of all objects of a resource."""
    return {one["metadata"]["name"] for one in world.list(api_version, plural)}


def owner(world: World) -> JSONObject:
    """Return the database."""
    return world.get("acme.io/v1", "databases", "orders", namespace="shop")


def test_what_is_applied_is_there_and_a_second_call_writes_nothing(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map(f"part-{number}") for number in range(10)]}
    run = Run(world, desired)
    run.ok()
    assert names(world) == {f"part-{number}" for number in range(10)}
    (first, *_) = world.list("v1", "configmaps")
    (reference,) = first["metadata"]["ownerReferences"]
    assert (reference["uid"], reference["controller"]) == (owner(world)["metadata"]["uid"], True)
    run.ok()  # the event of the owner's marks and status
    assert run.verbs() == []


def test_one_changed_child_is_one_write(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a", color="red"), config_map("b")]}
    run = Run(world, desired)
    run.ok()
    desired.stages = {"": [config_map("a", color="blue"), config_map("b")]}
    assert run.verbs() == [("apply", "configmaps", "shop/a")]


def test_a_child_that_somebody_changed_or_deleted_is_restored(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a", color="red"), config_map("b")]}
    run = Run(world, desired)
    run.ok()
    world.patch("v1", "configmaps", "a", {"data": {"color": "mine"}}, namespace="shop")
    world.delete("v1", "configmaps", "b", namespace="shop")
    assert KEY in {str(one) for one in world.enqueued_by(run.controller)}
    run.ok()
    assert world.get("v1", "configmaps", "a", namespace="shop")["data"] == {"color": "red"}
    assert names(world) == {"a", "b"}


def test_what_left_the_set_is_deleted_after_the_new_ones_are_there(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("old"), config_map("kept")]}
    run = Run(world, desired)
    run.ok()
    desired.stages = {"": [config_map("kept"), config_map("new")]}
    assert run.verbs()[:2] == [
        ("apply", "configmaps", "shop/new"),
        ("delete", "configmaps", "shop/old"),
    ]
    assert names(world) == {"kept", "new"}


@pytest.mark.parametrize("ending", ["error", "waits"])
def test_a_call_that_does_not_succeed_deletes_nothing(world: World, ending: str) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("old")]}
    run = Run(world, desired)
    run.ok()
    desired.stages = {"": [config_map("new")]}
    if ending == "error":
        desired.error = RuntimeError("no bucket")
    else:
        desired.stages = {"": [config_map("new"), stateful_set("slow")]}
        desired.waits = True
    run()
    assert names(world) == {"old", "new"}
    desired.stages, desired.error, desired.waits = {"": [config_map("new")]}, None, False
    run.ok()
    assert names(world) == {"new"}
    assert names(world, "statefulsets", "apps/v1") == set()


def test_a_call_that_applies_nothing_leaves_all_as_it_is(world: World) -> None:
    """As `if database.spec.paused: return None`; an empty `apply` deletes them."""
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    run = Run(world, desired)
    run.ok()
    before = owner(world)
    desired.stages = {}
    run.ok()
    assert names(world) == {"a"}
    assert owner(world)["status"] == before["status"]
    desired.stages = {"": []}
    run.ok()
    assert names(world) == set()


def test_what_was_deleted_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "pyinformer.children")
    desired = Desired()
    desired.stages = {"": [config_map("old")]}
    run = Run(world, desired)
    run.ok()
    desired.stages = {"": [config_map("new")]}
    run.ok()
    assert "ConfigMap shop/old of shop/orders was deleted" in caplog.text


def test_children_under_another_name_are_refused() -> None:
    app = Desired().operator()

    async def reconcile(request: Any, database: Any, kids: Children) -> None:
        """Do nothing."""

    with pytest.raises(InvalidTypeError, match="third argument is called `children`"):
        app.reconcile("acme.io/v1", "backups", owns=OWNED)(reconcile)


def test_a_child_that_moves_to_another_stage_is_not_deleted(world: World) -> None:
    desired = Desired()
    desired.stages = {"first": [config_map("a"), config_map("b")]}
    run = Run(world, desired)
    run.ok()
    uid = world.get("v1", "configmaps", "b", namespace="shop")["metadata"]["uid"]
    desired.stages = {"first": [config_map("a")], "second": [config_map("b")]}
    run.ok()
    assert world.get("v1", "configmaps", "b", namespace="shop")["metadata"]["uid"] == uid


def test_objects_of_others_stay(world: World) -> None:
    """Also those with the label of the set: another function of the owner, an earlier owner."""
    desired, other = Desired(), Desired()
    desired.stages = {"": [config_map("mine")]}
    other.stages = {"": [config_map("of-another-function")]}
    world.create(config_map("nobodys", namespace="shop"))
    run, another = Run(world, desired), Run(world, other, name="backup-operator")
    run.ok()
    another.ok()
    label = world.get("v1", "configmaps", "mine", namespace="shop")["metadata"]["labels"]
    stranger = config_map("labelled-by-a-tenant", namespace="shop")
    stranger["metadata"]["labels"] = dict(label)
    world.create(stranger)
    desired.stages = {"": []}
    run.ok()
    assert names(world) == {"nobodys", "of-another-function", "labelled-by-a-tenant"}


def test_two_owners_cannot_have_one_child(world: World) -> None:
    second = {**DATABASE, "metadata": {"namespace": "shop", "name": "users"}}
    world.create(second)
    desired = Desired()
    desired.stages = {"": [config_map("shared")]}
    run = Run(world, desired)
    run.ok()
    error = run("shop/users").error
    assert isinstance(error, AlreadyOwnedError)
    assert "ConfigMap shop/shared" in str(error)
    assert "Database orders" in str(error)
    users = world.get("acme.io/v1", "databases", "users", namespace="shop")
    assert "Database orders" in users["status"]["conditions"][0]["message"]
    (reference,) = world.get("v1", "configmaps", "shared", namespace="shop")["metadata"][
        "ownerReferences"
    ]
    assert reference["name"] == "orders"


def test_a_child_that_an_owner_of_another_kind_and_the_same_name_controls_is_refused(
    world: World,
) -> None:
    other = {"apiVersion": "acme.io/v1", "kind": "Backup", "metadata": DATABASE["metadata"]}
    uid = world.create(other)["metadata"]["uid"]
    taken = config_map("taken", "shop")
    reference = {"apiVersion": "acme.io/v1", "kind": "Backup", "name": "orders", "uid": uid}
    taken["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    world.create(taken)
    desired = Desired()
    desired.stages = {"": [config_map("taken")]}
    error = Run(world, desired)().error
    assert isinstance(error, AlreadyOwnedError)
    assert "Backup orders" in str(error)


def test_two_functions_of_one_owner_cannot_have_one_child(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("shared")]}
    run, another = Run(world, desired), Run(world, desired, name="backup-operator")
    run.ok()
    error = another().error
    assert isinstance(error, AlreadyOwnedError)
    assert "db-operator.databases" in str(error)


def test_the_marks_are_those_of_an_apply_set(world: World) -> None:
    """KEP-3659; the id is the one that its text gives for this name, checked with openssl."""
    desired = Desired()
    desired.stages = {"": [config_map("a"), stateful_set("b")]}
    Run(world, desired).ok()
    found = owner(world)["metadata"]
    identity = "applyset-Xjt5forgXkJPp_dQRHW8YGB4BGOvZzrOvFVSLGu33Po-v1"
    assert found["labels"]["applyset.kubernetes.io/id"] == identity
    annotations = found["annotations"]
    kinds = annotations["applyset.kubernetes.io/contains-group-kinds"]
    assert kinds == "ConfigMap,StatefulSet.apps"
    assert annotations["applyset.kubernetes.io/tooling"].startswith("pyinformer/")
    child = world.get("apps/v1", "statefulsets", "b", namespace="shop")
    assert child["metadata"]["labels"]["applyset.kubernetes.io/part-of"] == identity


def test_the_marks_name_no_kind_that_is_not_used_any_more(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a"), stateful_set("b")]}
    run = Run(world, desired)
    run.ok()
    desired.stages = {"": [config_map("a")]}
    run.ok()
    run.ok()
    annotations = owner(world)["metadata"]["annotations"]
    assert annotations["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap"


def test_children_of_a_kind_that_is_not_owned_any_more_are_deleted(world: World) -> None:
    """A new version of the program has no cache of that kind, and lists it."""
    desired = Desired()
    desired.stages = {"": [config_map("a"), stateful_set("b")]}
    before, run = Run(world, desired), Run(world, desired, owns=[("v1", "configmaps")])
    before.ok()
    desired.stages = {"": [config_map("a")]}
    run.ok()
    assert names(world, "statefulsets", "apps/v1") == set()
    run.ok()
    assert run.verbs() == []


def test_children_elsewhere_are_found_by_their_marks_and_deleted_with_their_owner(
    world: World,
) -> None:
    """No owner reference can name an owner of another namespace: a finalizer holds it."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    desired = Desired()
    desired.stages = {"": [config_map("here"), config_map("there", "monitoring"), namespace]}
    run = Run(world, desired)
    run.ok()
    found = world.get("v1", "configmaps", "there", namespace="monitoring")["metadata"]
    assert "ownerReferences" not in found
    annotations = owner(world)["metadata"]["annotations"]
    assert annotations["applyset.kubernetes.io/additional-namespaces"] == "monitoring"
    assert owner(world)["metadata"]["finalizers"] == ["pyinformer.dev/db-operator.databases"]

    world.patch("v1", "configmaps", "there", {"data": {"x": "y"}}, namespace="monitoring")
    assert KEY in {str(one) for one in world.enqueued_by(run.controller)}

    desired.stages = {"": [config_map("here"), namespace]}
    run.ok()
    assert names(world) == {"here"}

    world.delete("acme.io/v1", "databases", "orders", namespace="shop")
    for _ in range(2):
        run.ok()
        world.collect_garbage()  # the deletions are in the foreground
    assert names(world, "databases", "acme.io/v1") == set()
    assert "team" not in names(world, "namespaces")


def test_stages_are_deleted_in_reverse_order_each_when_the_next_is_gone(world: World) -> None:
    desired = Desired()
    desired.stages = {"network": [config_map("net")], "data": [stateful_set("db")]}
    run = Run(world, desired)
    run.ok()
    held = {"metadata": {"finalizers": ["example.com/slow"]}}
    world.patch("apps/v1", "statefulsets", "db", held, namespace="shop")
    world.delete("acme.io/v1", "databases", "orders", namespace="shop")
    calls = desired.calls
    outcome = run.ok()
    assert outcome.result is not None
    assert outcome.result.waiting_for == "stage data: StatefulSet shop/db must be gone"
    assert outcome.result.requeue_after_seconds is None
    assert names(world) == {"net"}
    world.patch(
        "apps/v1", "statefulsets", "db", {"metadata": {"finalizers": None}}, namespace="shop"
    )
    world.collect_garbage()
    assert KEY in {str(one) for one in world.enqueued_by(run.controller)}
    run.ok()
    world.collect_garbage()
    assert names(world) == set()
    run.ok()
    assert names(world, "databases", "acme.io/v1") == set()
    assert desired.calls == calls  # the function is not called for it


def test_one_stage_in_the_owners_namespace_needs_no_finalizer(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a"), config_map("b")]}
    run = Run(world, desired)
    run.ok()
    assert "finalizers" not in owner(world)["metadata"]
    world.delete("acme.io/v1", "databases", "orders", namespace="shop")
    world.collect_garbage()
    assert names(world) == set()


def test_a_successor_of_the_owner_takes_its_children_over(world: World) -> None:
    """Before the garbage collector has deleted those of the first."""
    desired = Desired()
    desired.stages = {"": [config_map("a")]}
    run = Run(world, desired)
    run.ok()
    world.delete("acme.io/v1", "databases", "orders", namespace="shop")
    world.create(DATABASE)
    run.ok()
    world.collect_garbage()
    (reference,) = world.get("v1", "configmaps", "a", namespace="shop")["metadata"][
        "ownerReferences"
    ]
    assert reference["uid"] == owner(world)["metadata"]["uid"]


def test_a_refused_child_does_not_keep_its_siblings(world: World) -> None:
    desired = Desired()
    bad = config_map("Not_A_Name")
    desired.stages = {"": [bad, config_map("good")]}
    run = Run(world, desired)
    outcome = run()
    assert outcome.error is not None
    assert names(world) == {"good"}
    (condition,) = owner(world)["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "ChildRefused")
    assert "Not_A_Name" in condition["message"]


_NAMELESS = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"}}
_SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}
_UNKNOWN = {"apiVersion": "gone.example.com/v1", "kind": "Gone", "metadata": {"name": "a"}}
_PLAIN = config_map("plain")
_SCOPED = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "namespace": "b"}}


def _with(**metadata: Any) -> JSONObject:
    """Return a ConfigMap with metadata that no server accepts."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", **metadata}}


@pytest.mark.parametrize(
    ("objects", "error", "text"),
    [
        ([_NAMELESS], InvalidArgumentError, "must have metadata.name"),
        ([_SERVICE], InvalidArgumentError, 'owns=[("v1", "services")]'),
        ([config_map("a"), config_map("a")], InvalidArgumentError, "applied before"),
        ([{"metadata": {"name": "a"}}], InvalidArgumentError, "apiVersion and kind"),
        (config_map("a"), InvalidArgumentError, "a list of objects"),
        ([3], InvalidTypeError, "objects[0]"),
        ([_PLAIN, _with(name=5)], InvalidArgumentError, "name"),
        ([_PLAIN, _with(name="..")], InvalidArgumentError, "'..' cannot be a name"),
        ([_PLAIN, _with(name="a/b")], InvalidArgumentError, "'a/b' cannot be a name"),
        ([_PLAIN, _with(namespace=5)], InvalidArgumentError, "namespace"),
        ([_PLAIN, _with(namespace="a/b")], InvalidArgumentError, "'a/b' cannot be a name"),
        ([_PLAIN, _with(labels=["a"])], InvalidTypeError, "objects[1]: must be an object whose"),
        ([_PLAIN, _with(annotations="a")], InvalidTypeError, "annotations are a dict"),
        ([_PLAIN, _SCOPED], InvalidArgumentError, "is cluster-scoped"),
        ([_UNKNOWN], NotFoundError, "gone.example.com"),
    ],
)
def test_a_child_that_cannot_be_one_is_refused_before_the_first_write(
    world: World, objects: Any, error: type[Exception], text: str
) -> None:
    desired = Desired()
    desired.stages = {"": objects}
    run = Run(world, desired)
    world.clear_writes()
    found = run().error
    assert isinstance(found, error)
    assert text in str(found)
    assert [one for one in world.writes if one.plural != "databases"] == []
    if isinstance(objects, list):
        (condition,) = owner(world)["status"]["conditions"]
        assert condition["reason"] == "ChildRefused"


def test_a_stage_has_a_word_for_a_name(world: World) -> None:
    desired = Desired()
    desired.stages = {"no spaces": [config_map("a")]}
    error = Run(world, desired)().error
    assert isinstance(error, InvalidArgumentError)
    assert "stage" in str(error)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda children: children.ready(timeout_seconds=-1), "timeout_seconds"),
        (lambda children: children.ready(rules={"Pod": None}), "rules"),
        (lambda children: children.apply(None), "objects"),
        (lambda children: children.apply([], stage=3), "stage"),
    ],
)
def test_wrong_arguments_are_named(world: World, call: Any, text: str) -> None:
    desired = Desired()

    async def reconcile(request: Any, database: Any, children: Any) -> None:
        await children.apply([config_map("a")])
        await call(children)

    desired.reconcile = reconcile  # type: ignore[method-assign]
    error = Run(world, desired)().error
    assert isinstance(error, InvalidArgumentError | InvalidTypeError)
    assert str(error).startswith(text)


def test_a_status_that_is_none_is_named(world: World) -> None:
    desired = Desired()

    async def reconcile(request: Any, database: Any, children: Any) -> Any:
        return children.status(5)

    desired.reconcile = reconcile  # type: ignore[method-assign]
    error = Run(world, desired)().error
    assert isinstance(error, InvalidTypeError)
    assert str(error).startswith("status")


def test_more_namespaces_than_the_owner_has_room_for_are_refused(world: World) -> None:
    desired = Desired()
    desired.stages = {"": [config_map("a", f"{number:0>60}") for number in range(2_200)]}
    error = Run(world, desired)().error
    assert isinstance(error, InvalidArgumentError)
    assert "annotations" in str(error)
    assert names(world) == set()


def test_a_plain_function_is_refused_since_it_cannot_wait() -> None:
    desired = Desired()
    app = desired.operator()

    def reconcile(request: Any, database: Any, children: Any) -> None:
        """Do nothing."""

    with pytest.raises(InvalidTypeError, match="async def"):
        app.reconcile("acme.io/v1", "backups", owns=OWNED)(reconcile)


def test_a_child_outside_of_the_followed_namespaces_is_refused() -> None:
    with World([DATABASE]) as world:
        desired = Desired()
        desired.stages = {"": [config_map("a", "elsewhere")]}
        app = desired.operator()
        (controller,) = app.controllers(world.cluster, world.factory, namespaces="shop")
        error = world.reconcile(controller, KEY).error
        assert isinstance(error, InvalidArgumentError)
        assert "does not follow" in str(error)


def test_the_rights_have_the_marks_of_owners() -> None:
    rights = Desired().operator().required_rbac()
    assert "databases\n  verbs:\n  - get\n  - list\n  - patch\n  - watch" in rights
