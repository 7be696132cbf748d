"""The shared object: every way to read it gives something of the reader's own; nothing changes it.

Also its identity, pickling and copying, and the errors for code that uses it as a dict.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes_asyncio.client import V1Pod

from pyinformer.errors import (
    FieldNotFoundError,
    FrozenObjectError,
    InvalidArgumentError,
    InvalidObjectError,
    InvalidTypeError,
)
from pyinformer.objects import (
    Added,
    Deleted,
    Event,
    KubeObject,
    Labels,
    ObjectCodec,
    ObjectKey,
    Updated,
    View,
)
from tests.objects.samples import POD, PODS, decode, meta, pod

STRIPPED = {
    **POD,
    "metadata": {name: v for name, v in POD["metadata"].items() if name != "managedFields"},
}


class Spec(View):
    """A nested view."""

    node_name: str = ""


class PodView(View):
    """A projection."""

    spec: Spec = Spec()


class SpecStruct(msgspec.Struct, rename="camel"):
    """A nested Struct of the user's own."""

    node_name: str


class PodStruct(msgspec.Struct):
    """A Struct of the user's own."""

    spec: SpecStruct


@dataclass
class PodData:
    """A dataclass."""

    kind: str
    status: dict[str, str]


class PodDict(TypedDict):
    """A TypedDict."""

    kind: str


class PodModel(pydantic.BaseModel):
    """A pydantic model."""

    kind: str
    status: dict[str, str]


class Unfit(msgspec.Struct):
    """A Struct that no pod fits."""

    spec: int


class UnfitModel(pydantic.BaseModel):
    """A pydantic model that no pod fits."""

    spec: int


def test_to_dict_is_the_body_with_its_kind() -> None:
    assert pod().to_dict() == STRIPPED
    assert pod(strip_managed_fields=False).to_dict() == POD


@pytest.mark.covers(
    "controller-runtime pkg/cache: should deep copy the object",
    "controller-runtime pkg/client: should not retain any data in the obj variable that is not",
)
def test_to_dict_is_private_to_each_caller() -> None:
    obj = pod()
    mine = obj.to_dict()
    mine["spec"]["containers"].clear()
    mine["metadata"]["labels"]["app"] = "mine"

    assert obj.to_dict() == STRIPPED
    assert obj.metadata.labels["app"] == "web"


def test_a_number_out_of_range_is_an_error_that_names_the_object() -> None:
    obj = pod('{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a"},"spec":{"x":1e999}}')

    with pytest.raises(InvalidObjectError, match=r"Pod 'a': cannot be decoded: .*range"):
        obj.to_dict()
    assert obj.problem == ""
    assert obj.at("metadata.name", str) == "a"


@pytest.mark.parametrize(
    ("path", "kind", "value"),
    [
        pytest.param("spec.nodeName", str, "node-1", id="text"),
        pytest.param("spec.priority", int, 5, id="number"),
        pytest.param("metadata.annotations['example.com/team']", str, "blue", id="quoted"),
        pytest.param('metadata.annotations["example.com/team"]', str, "blue", id="double-quoted"),
        pytest.param("metadata.finalizers", tuple[str, ...], ("example.com/wait",), id="tuple"),
        pytest.param("status", dict[str, str], {"phase": "Running"}, id="dict"),
        pytest.param("spec.containers", list[dict[str, Any]], POD["spec"]["containers"], id="list"),
        pytest.param("spec", SpecStruct, SpecStruct("node-1"), id="struct"),
        pytest.param("spec", Spec, Spec(node_name="node-1"), id="view"),
    ],
)
def test_at_reads_a_typed_value(path: str, kind: type[Any], value: object) -> None:
    assert pod().at(path, kind) == value


def test_at_without_a_type_returns_a_private_json_value() -> None:
    obj = pod()
    found = obj.at("spec.containers")
    assert found == POD["spec"]["containers"]
    found.clear()
    assert obj.at("spec.containers") == POD["spec"]["containers"]


@pytest.mark.parametrize(
    "path", ["spec.missing", "missing.at.all", "spec.hostname", "spec.hostname.deeper"]
)
def test_absent_and_null_are_the_same_to_at(path: str) -> None:
    obj = pod()
    with pytest.raises(FieldNotFoundError, match=path) as caught:
        obj.at(path, str)
    assert (caught.value.key, caught.value.path) == ("default/web", path)
    assert obj.at(path, str, default=None) is None
    assert obj.at(path, str, default="x") == "x"
    assert obj.at(path, default=3) == 3
    with pytest.raises(FieldNotFoundError):
        obj.at(path)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        pytest.param("spec.nodeName", int, id="value"),
        pytest.param("spec.nodeName.deeper", str, id="text-on-the-way"),
        pytest.param("spec.containers.image", str, id="list-on-the-way"),
        pytest.param("spec.priority", str, id="no-coercion"),
    ],
)
def test_at_names_object_and_path_of_a_value_of_another_type(path: str, kind: type) -> None:
    with pytest.raises(InvalidObjectError, match=rf"default/web: {path}: Expected"):
        pod().at(path, kind, default=None)


@pytest.mark.parametrize("path", ["", ".", "spec.", "spec..x", "a b", "spec.containers[0].image"])
def test_at_refuses_a_path_that_cannot_be_read(path: str) -> None:
    with pytest.raises(InvalidArgumentError):
        pod().at(path)


def test_at_refuses_a_path_into_a_list() -> None:
    with pytest.raises(InvalidArgumentError, match="elements of lists have no path"):
        pod().at("spec.containers[0].image")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("str", id="text"),
        pytest.param(5, id="number"),
        pytest.param(Annotated[str, msgspec.Meta(ge=1)], id="contradiction"),
        pytest.param([str], id="unhashable"),
    ],
)
def test_at_refuses_a_value_that_is_not_a_type(kind: Any) -> None:
    with pytest.raises(InvalidTypeError, match=r"^kind: cannot read 'spec.nodeName' as "):
        pod().at("spec.nodeName", kind)


def test_annotations_are_read_from_the_body() -> None:
    annotations = pod().annotations
    assert isinstance(annotations, Mapping)
    assert annotations == {"example.com/team": "blue"}
    assert pod(meta()).annotations == {}
    assert pod(meta(annotations=None)).annotations == {}


def test_annotations_that_are_not_text_raise_only_when_they_are_read() -> None:
    obj = pod(meta(annotations={"a": 1}))
    assert obj.problem == ""
    with pytest.raises(InvalidObjectError, match=r"Pod 'web': metadata.annotations: Expected"):
        _ = obj.annotations


def test_as_type_decodes_into_models_of_every_kind() -> None:
    obj = pod()
    assert obj.as_type(PodStruct) == PodStruct(SpecStruct("node-1"))
    assert obj.as_type(PodData) == PodData("Pod", {"phase": "Running"})
    assert obj.as_type(PodDict) == {"kind": "Pod"}
    assert obj.as_type(PodModel) == PodModel(kind="Pod", status={"phase": "Running"})
    assert obj.as_type(dict[str, Any]) == STRIPPED


def test_as_type_decodes_into_the_generated_models_of_the_client() -> None:
    found = pod().as_type(V1Pod)
    assert isinstance(found, V1Pod)
    assert found.spec.containers[0].ports[0].container_port == 80
    assert found.metadata.owner_references[1].controller is True
    assert found.metadata.creation_timestamp.year == 2026
    assert pod().as_type(V1Pod) is not found


@pytest.mark.parametrize("model", [Unfit, UnfitModel])
def test_a_model_that_does_not_fit_is_named_with_object_and_field(model: type) -> None:
    with pytest.raises(
        InvalidObjectError, match=rf"Pod 'default/web': does not fit {model.__name__}: .*spec"
    ):
        pod().as_type(model)


@pytest.mark.parametrize("model", [UnfitModel])
def test_a_models_complaint_does_not_repeat_the_objects_values(model: type) -> None:
    with pytest.raises(InvalidObjectError) as caught:
        pod().as_type(model)
    assert "node-1" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({**POD, "spec": "text"}, id="text-for-a-structure"),
        pytest.param({**POD, "spec": {}}, id="field-missing"),
        pytest.param(meta(creationTimestamp="yesterday"), id="date"),
    ],
)
def test_an_object_that_a_generated_model_refuses_is_a_typed_error(body: dict[str, Any]) -> None:
    with pytest.raises(InvalidObjectError, match="does not fit V1Pod"):
        pod(body).as_type(V1Pod)


@pytest.mark.parametrize(
    "model", [pytest.param([], id="unhashable"), pytest.param("Pod", id="text")]
)
def test_as_type_refuses_a_type_that_is_not_a_model(model: Any) -> None:
    with pytest.raises(InvalidTypeError, match="model: nothing can be decoded into"):
        pod().as_type(model)


def test_as_type_names_a_union_too() -> None:
    union: Any = int | str
    with pytest.raises(InvalidObjectError, match=r"does not fit int \| str"):
        pod().as_type(union)


def test_objects_are_equal_by_kind_uid_and_resource_version() -> None:
    one = pod(meta(uid="a", resourceVersion="1"))
    same = pod({**meta(uid="a", resourceVersion="1"), "spec": {"differs": True}})
    newer, other = pod(meta(uid="a", resourceVersion="2")), pod(meta(uid="b", resourceVersion="1"))

    assert one == same
    assert hash(one) == hash(same)
    assert len({one, same, newer, other}) == 3
    assert one != "default/web"


@pytest.mark.parametrize("options", [{}, {"compact": True}, {"metadata_only": True}])
def test_equal_objects_and_equal_labels_are_not_unequal(options: dict[str, Any]) -> None:
    body = {**POD, **meta(labels={"app": "web"})}
    one, same = (decode(ObjectCodec(PODS, **options), body) for _ in range(2))
    labels = one.metadata.labels

    assert one is not same
    assert not one != same  # noqa: SIM202 - `==` is another method
    assert not labels != same.metadata.labels  # noqa: SIM202 - as above
    assert not labels != {"app": "web"}  # noqa: SIM202 - as above
    assert labels != {"app": "db"}
    assert one != pod(meta(resourceVersion="999999"))


def test_objects_without_a_uid_are_distinguished_by_their_key() -> None:
    """Objects of metrics.k8s.io have neither uid nor resource version."""
    one, other = pod(meta()), pod(meta(name="db"))
    assert one != other
    assert len({one, other, pod(meta())}) == 2


def test_same_content_ignores_versions_order_and_space() -> None:
    spaced = '{ "metadata": {"resourceVersion":"9","name":"web"}, "kind":"Pod","apiVersion":"v1"}'
    assert pod(meta(resourceVersion="1")).same_content(pod(spaced))
    assert pod(strip_managed_fields=False).same_content(pod())
    assert pod().same_content(pod())
    assert not pod().same_content(pod({**POD, "status": {}}))


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (None, False), ("1", 1)])
def test_same_content_distinguishes_json_types(one: object, other: object) -> None:
    assert not pod({**meta(), "spec": one}).same_content(pod({**meta(), "spec": other}))


def _values() -> list[Any]:
    obj, other = pod(view=PodView), pod()
    events: list[Event[Any]] = [
        Added(obj, is_in_initial_list=True),
        Updated(obj, other, is_resync=True),
        Deleted(obj, final_state_unknown=True),
    ]
    return [obj, obj.metadata, obj.metadata.labels, obj.view, obj.key, obj.gvk, *events]


@pytest.mark.parametrize(
    "clone",
    [
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda value: pickle.loads(pickle.dumps(value)), id="pickle"),  # noqa: S301
    ],
)
@pytest.mark.parametrize("number", range(9))
def test_records_copy_and_pickle(clone: Callable[[Any], Any], number: int) -> None:
    value = _values()[number]
    found = clone(value)
    assert type(found) is type(value)
    assert found == value
    assert hash(found) == hash(value)


def test_a_copy_of_an_object_is_whole() -> None:
    obj = pod(view=PodView)
    found = pickle.loads(pickle.dumps(obj))  # noqa: S301
    assert (found.raw, found.metadata, found.view) == (obj.raw, obj.metadata, obj.view)
    assert (found.key, found.gvk, found.problem) == (obj.key, obj.gvk, obj.problem)


def _assign(obj: Any) -> None:
    obj.x = 1


def _assign_field(obj: Any) -> None:
    obj.metadata = None


def _assign_item(obj: Any) -> None:
    obj["a"] = 1


def _delete(obj: Any) -> None:
    del obj.raw


def _delete_item(obj: Any) -> None:
    del obj["a"]


@pytest.mark.parametrize(
    ("field", "instead"),
    [
        ("spec", r".*at\("),
        ("status", r".*at\("),
        ("data", r".*at\("),
        ("name", r"read obj\.metadata\.name$"),
        ("labels", r"read obj\.metadata\.labels$"),
    ],
)
def test_reading_a_field_as_an_attribute_names_the_method_to_call(field: str, instead: str) -> None:
    obj: Any = pod()
    with pytest.raises(
        FrozenObjectError, match=rf"^object\.{field} is not possible on 'default/web': {instead}"
    ):
        getattr(obj, field)
    with pytest.raises(AttributeError, match=r"read obj\.annotations$"):
        _ = obj.metadata.annotations
    assert not hasattr(obj, "status")
    assert not hasattr(obj, "rules")
    assert not hasattr(type(obj), field)
    assert not hasattr(obj, "_anything")


@pytest.mark.parametrize(
    ("attempt", "operation"),
    [
        pytest.param(lambda obj: obj["spec"], "object['spec']", id="index"),
        pytest.param(_assign, "object.x = ...", id="assign"),
        pytest.param(_assign_field, "object.metadata = ...", id="assign-field"),
        pytest.param(_assign_item, "object['a'] = ...", id="assign-item"),
        pytest.param(_delete, "del object.raw", id="delete"),
        pytest.param(_delete_item, "del object['a']", id="delete-item"),
    ],
)
def test_using_an_object_as_a_dict_names_the_method_to_call(
    attempt: Callable[[Any], object], operation: str
) -> None:
    with pytest.raises(FrozenObjectError) as caught:
        attempt(pod())
    assert caught.value.operation == operation
    assert caught.value.key == "default/web"
    assert "to_dict()" in str(caught.value)
    assert "at('spec.nodeName')" in str(caught.value)


@pytest.mark.parametrize("field", ["name", "labels", "something"])
def test_metadata_cannot_be_changed(field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(pod().metadata, field, "x")


def test_an_object_is_true_and_has_no_length() -> None:
    obj: Any = pod(meta())
    assert obj
    with pytest.raises(TypeError):
        len(obj)


def test_repr_names_the_object_and_shows_no_content() -> None:
    secret = pod(
        {**meta(uid="u", resourceVersion="3", annotations={"a": "hidden"}), "data": "hidden"},
        view=PodView,
    )
    assert repr(secret) == "<v1/Pod web uid=u resource_version=3>"
    for event in (Added(secret), Updated(secret, secret), Deleted(secret)):
        assert "hidden" not in repr(event)
    assert "hidden" not in repr(secret.__rich_repr__())


def test_metadata_holds_what_the_server_wrote() -> None:
    found = pod().metadata
    assert (found.namespace, found.name, found.uid, found.resource_version) == (
        ("default", "web", "u-1", "7")
    )
    assert found.generation == 2
    assert found.labels == {"app": "web", "tier": "front"}
    assert found.finalizers == ("example.com/wait",)
    assert found.creation_timestamp == "2026-01-02T03:04:05Z"
    assert found.deletion_timestamp is None
    assert [owner.name for owner in found.owner_references] == ["rs", "n"]
    assert found.controller is found.owner_references[1]
    assert pod(meta()).metadata.controller is None


def test_keys_are_namespace_and_name() -> None:
    assert pod().key == "default/web"
    assert isinstance(pod().key, ObjectKey)
    assert pod(meta()).key == "web"


def test_labels_are_an_immutable_mapping() -> None:
    labels = Labels.of({"a": "1", "b": "a"})
    assert isinstance(labels, Mapping)
    assert dict(labels) == {"a": "1", "b": "a"} == labels
    assert list(labels.keys()) == ["a", "b"]
    assert list(labels.values()) == ["1", "a"]
    assert ("b", "a") in labels.items()
    assert hash(labels) == hash(Labels.of({"b": "a", "a": "1"}))
    assert (len(labels), "a" in labels, "1" in labels) == (2, True, False)
    for change in ("__setitem__", "__delitem__", "pop", "update"):
        assert not hasattr(labels, change)
    with pytest.raises(AttributeError):
        labels.x = 1  # type: ignore[attr-defined]  # the attempt is the point


def test_labels_are_looked_up_by_key_and_not_by_value() -> None:
    labels = Labels.of({"a": "b", "b": "c"})
    assert (labels["a"], labels["b"]) == ("b", "c")
    assert labels.get("c") is None
    assert labels.get("c", "x") == "x"
    assert labels.get("b") == "c"
    with pytest.raises(KeyError, match="c"):
        labels["c"]
    assert not Labels()


class _CountedText(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _CountedText.comparisons += 1
        return str.__eq__(self, other)

    def __lt__(self, other: str) -> bool:
        _CountedText.comparisons += 1
        return str.__lt__(self, other)


@pytest.mark.parametrize(
    "read",
    [
        dict,
        hash,
        repr,
        lambda labels: dict(labels.items()),
        lambda labels: list(labels.values()),
        lambda labels: labels == dict(labels.items()),
        lambda labels: [labels.get(key) for key in labels],
        lambda labels: [labels.get(f"{key}x") for key in labels],
    ],
)
def test_reading_many_labels_is_not_quadratic(
    read: Callable[[Labels], object],
) -> None:
    """An API server stores 100,000 labels of one object; 5 ns for each pair would be 50 s."""
    count = 2_000
    labels = Labels.of({_CountedText(f"k{number:06}"): "" for number in range(count)})
    _CountedText.comparisons = 0

    read(labels)

    assert _CountedText.comparisons <= 30 * count  # get() searches twice by bisection


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=3), min_size=65, max_size=99))
@settings(deadline=None)
def test_many_labels_behave_as_few_do(content: dict[str, str]) -> None:
    labels = Labels.of(content)
    assert labels == content == dict(labels)
    assert dict(labels.items()) == content
    assert list(labels.values()) == [content[key] for key in labels]
    assert sorted(labels) == sorted(content)
    assert all(labels[key] == labels.get(key) == value for key, value in content.items())
    assert all(pair in labels.items() for pair in content.items())
    for absent in ("longer than any", 1, None):
        assert absent not in labels
        assert labels.get(absent, "x") == "x"  # type: ignore[arg-type]  # the attempt is the point
    assert pickle.loads(pickle.dumps(labels)) == content  # noqa: S301 - our own bytes


def test_labels_match_as_a_mapping() -> None:
    match Labels.of({"app": "web", "tier": "x"}):
        case {"app": name}:
            assert name == "web"
        case _:
            pytest.fail("a match statement must take labels as a mapping")


def test_events_match_by_position() -> None:
    obj, other = pod(meta()), pod(meta(uid="b"))

    def read(event: Event[Any]) -> tuple[object, ...]:
        match event:
            case Added(new):
                return (new,)
            case Updated(old, new):
                return old, new
            case Deleted(last_known, unknown):
                return last_known, unknown

    assert read(Added(obj)) == (obj,)
    assert read(Updated(obj, other)) == (obj, other)
    assert read(Deleted(obj, final_state_unknown=True)) == (obj, True)
    assert [event.key for event in (Added(obj), Updated(obj, other), Deleted(obj))] == ["web"] * 3


def test_events_cannot_be_changed() -> None:
    event: Any = Added(pod())
    with pytest.raises(AttributeError):
        event.object = None


def test_an_annotated_type_is_read_as_its_type() -> None:
    positive: Any = Annotated[int, msgspec.Meta(ge=1)]
    assert pod().at("spec.priority", positive) == 5


def test_the_record_of_an_object_is_a_kube_object() -> None:
    assert isinstance(pod(), KubeObject)


def test_an_undecodable_body_never_equals_another() -> None:
    text = '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"spec":%s}'
    deep = pod(text % ("[" * 20_000 + "]" * 20_000))
    assert deep.same_content(deep)
    assert not deep.same_content(pod())
    assert not pod().same_content(deep)
