"""Projections: what can be one, and what is refused because a reader could change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast
from uuid import UUID

import msgspec
import pytest

from pyinformer.errors import InvalidTypeError
from pyinformer.objects import View, check_view, view_path
from tests.objects.samples import POD, meta, pod


class Mutable(msgspec.Struct):
    """A Struct of the user's own that can be changed."""

    name: str = ""


class Tracked(msgspec.Struct, frozen=True):
    """Frozen, and still walked by the garbage collector."""

    name: str = ""


class Thawed(View, frozen=False):
    """A view whose author switched immutability off."""

    name: str = ""


class Plain:
    """A class that JSON knows nothing about."""


@dataclass(frozen=True)
class Data:
    """A dataclass."""

    name: str = ""


class Typed(TypedDict):
    """A dict by another name."""

    name: str


class Pair(NamedTuple):
    """A tuple that the collector tracks permanently."""

    name: str


def view_of(kind: Any, **options: Any) -> type[View]:
    """Make a view whose `spec` has one field of a type."""
    namespace = {"__annotations__": {"field": kind}, "__module__": __name__, **options}
    inner = cast("Any", type(View))("Inner", (View,), namespace)
    made = cast("Any", type(View))(
        "Made", (View,), {"__annotations__": {"spec": inner}, "__module__": __name__}
    )
    return cast("type[View]", made)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        pytest.param(list[str], "list", id="list"),
        pytest.param(dict[str, str], "dict", id="dict"),
        pytest.param(set[str], "set", id="set"),
        pytest.param(frozenset[str], "frozenset", id="frozenset"),
        pytest.param(bytearray, "bytearray", id="bytearray"),
        pytest.param(UUID, "uuid", id="uuid"),
        pytest.param(msgspec.Raw, "raw", id="raw"),
        pytest.param(Any, "any", id="any"),
        pytest.param(object, "object", id="object"),
        pytest.param(Plain, "Plain", id="class"),
        pytest.param(Data, "Data", id="dataclass"),
        pytest.param(Typed, "Typed", id="typed-dict"),
        pytest.param(Pair, "Pair", id="named-tuple"),
        pytest.param(Mutable, "Mutable", id="struct"),
        pytest.param(Tracked, "Tracked", id="tracked-struct"),
        pytest.param(Thawed, "Thawed", id="thawed-view"),
        pytest.param(tuple[list[str], ...], "list", id="list-in-a-tuple"),
        pytest.param(tuple[str, dict[str, str]], "dict", id="dict-in-a-tuple"),
        pytest.param(list[str] | None, "list", id="optional-list"),
        pytest.param(tuple[Mutable, ...] | None, "Mutable", id="optional-tuple-of-structs"),
    ],
)
def test_a_field_that_could_be_changed_is_refused_by_name(kind: Any, word: str) -> None:
    with pytest.raises(InvalidTypeError, match=rf"Made.*spec\.field.* (a|an|into) {word}"):
        check_view(view_of(kind))


@pytest.mark.parametrize("default", [[], {}, set()], ids=["list", "dict", "set"])
def test_a_default_that_could_be_changed_is_refused(default: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"spec\.field has a .* as its default"):
        check_view(view_of(tuple[str, ...], field=default))


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(Plain, id="class"),
        pytest.param(Tracked, id="struct"),
        pytest.param(dict, id="dict"),
        pytest.param("PodView", id="text"),
        pytest.param(None, id="none"),
    ],
)
def test_a_value_that_is_not_a_view_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"must be a subclass of pyinformer\.View"):
        check_view(bad)


@pytest.mark.parametrize(
    ("field", "encoded", "advice"),
    [
        pytest.param("metadata", "metadata", "obj.metadata", id="metadata"),
        pytest.param("metadata", "spec", "obj.metadata", id="metadata-by-name"),
        pytest.param("meta", "metadata", "obj.metadata", id="metadata-by-rename"),
        pytest.param("kind", "kind", "obj.gvk", id="kind"),
        pytest.param("api_version", "apiVersion", "obj.gvk", id="api-version"),
    ],
)
def test_view_fields_that_every_object_has_are_refused(
    field: str, encoded: str, advice: str
) -> None:
    namespace = {
        "__annotations__": {field: str},
        "__module__": __name__,
        field: msgspec.field(name=encoded, default=""),
    }
    made = cast("Any", type(View))("Made", (View,), namespace)
    with pytest.raises(InvalidTypeError, match=f"is on every object already: use {advice}"):
        check_view(made)


def test_a_type_that_cannot_be_resolved_is_refused() -> None:
    with pytest.raises(InvalidTypeError, match=r"its types cannot be decoded: .*Missing"):
        check_view(view_of("Missing"))


class Phase(Enum):
    """A phase by name."""

    RUNNING = "Running"
    FAILED = "Failed"


class Port(View):
    """Deep inside."""

    container_port: int


class Container(View):
    """In a list of the server's, a tuple of ours."""

    name: str
    image: str = ""
    ports: tuple[Port, ...] = ()


class Spec(View):
    """Nested."""

    node_name: str | None = None
    host_name: str = msgspec.field(name="hostIP", default="none")
    containers: tuple[Container, ...] = ()
    priority: int | float = 0
    restart_policy: Literal["Always", "Never"] = "Always"


class Status(View):
    """With types that are decoded."""

    phase: Phase
    start_time: datetime | None = None
    pair: tuple[int, str] | None = None


class Full(View):
    """Everything that is allowed."""

    status: Status
    spec: Spec = msgspec.field(default_factory=Spec)


class Node(View):
    """Refers to itself."""

    name: str = ""
    next: Node | None = None


class Chain(View):
    """Holds a view that refers to itself."""

    spec: Node = Node()


class Snake(View, rename=None):
    """Fields named as they are written."""

    some_field: str = ""


class Checked(View):
    """A field with a constraint and a description."""

    name: Annotated[str, msgspec.Meta(max_length=9, description="a name", title="Name")] = ""


class Empty(View):
    """Nothing at all."""


@pytest.mark.parametrize("view", [Full, Chain, Snake, Checked, Empty])
def test_views_of_immutable_parts_are_accepted(view: type[View]) -> None:
    check_view(view)


def test_a_view_has_the_values_of_the_object() -> None:
    body = {**POD, "status": {"phase": "Running", "startTime": "2026-01-02T03:04:05Z"}}
    view = pod(body, view=Full).view

    assert view == Full(
        spec=Spec(
            node_name="node-1",
            containers=(Container(name="c", image="x:1", ports=(Port(container_port=80),)),),
            priority=5,
        ),
        status=Status(phase=Phase.RUNNING, start_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    )


def test_absent_fields_have_their_defaults() -> None:
    view = pod({**meta(), "status": {"phase": "Failed"}}, view=Full).view
    assert view == Full(status=Status(phase=Phase.FAILED))
    assert view.spec.host_name == "none"


def test_a_required_field_that_is_missing_is_a_problem_of_that_object() -> None:
    assert "status" in pod(meta(), view=Full).problem
    assert "phase" in pod({**meta(), "status": {}}, view=Full).problem


def test_unknown_fields_are_ignored_and_names_are_camel_case() -> None:
    view = pod({**meta(), "spec": {"containers": [{"name": "c", "x": 1}], "y": 2}}, view=Chain).view
    assert view.spec == Node()
    snake = pod({**meta(), "some_field": "a", "someField": "b"}, view=Snake).view
    assert snake.some_field == "a"
    assert pod(meta(), view=Empty).view == Empty()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda view: setattr(view, "spec", None), id="field"),
        pytest.param(lambda view: setattr(view.spec, "node_name", "x"), id="nested"),
        pytest.param(lambda view: setattr(view, "other", 1), id="new"),
        pytest.param(lambda view: delattr(view, "spec"), id="delete"),
    ],
)
def test_a_view_cannot_be_changed(change: Callable[[Any], None]) -> None:
    view = pod({**POD, "status": {"phase": "Failed"}}, view=Full).view
    with pytest.raises(AttributeError):
        change(view)


def test_a_view_takes_keywords_only() -> None:
    make: Any = Spec
    with pytest.raises(TypeError):
        make("node-1")


def test_equal_views_are_equal_and_hash_alike() -> None:
    assert Spec(node_name="a") == Spec(node_name="a")
    assert len({Spec(node_name="a"), Spec(node_name="a"), Spec(node_name="b")}) == 2


@pytest.mark.parametrize(
    ("steps", "attributes"),
    [
        pytest.param(("spec", "nodeName"), "spec.node_name", id="optional-text"),
        pytest.param(("spec", "hostIP"), "spec.host_name", id="renamed"),
        pytest.param(("status", "phase"), "status.phase", id="enum"),
        pytest.param(("spec", "restartPolicy"), "spec.restart_policy", id="literal"),
        pytest.param(("spec",), None, id="structure"),
        pytest.param(("spec", "containers"), None, id="structures"),
        pytest.param(("spec", "node_name"), None, id="attribute-name"),
        pytest.param(("spec", "missing"), None, id="missing"),
        pytest.param(("spec", "nodeName", "deeper"), None, id="below-text"),
        pytest.param(("spec", "priority"), None, id="float"),
        pytest.param(("status", "startTime"), None, id="date"),
    ],
)
def test_a_path_is_found_in_a_view_where_that_gives_the_value_as_written(
    steps: tuple[str, ...], attributes: str | None
) -> None:
    assert view_path(Full, steps) == attributes
