"""Conversion between models: what is registered, and how a ConversionReview is answered."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.admission.conversion import Conversions, ConvertedVersion
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import GroupVersionResource

if TYPE_CHECKING:
    from collections.abc import Callable


class OldSpec(msgspec.Struct):
    size: int = 1
    secret: str = ""


class Old(msgspec.Struct):
    spec: OldSpec


class NewSpec(msgspec.Struct, rename="camel"):
    max_size: int = 1
    note: str | None = None


class New(msgspec.Struct):
    spec: NewSpec


@dataclass
class Labelled:
    spec: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] | None = None


@dataclass
class OtherLabelled:
    spec: dict[str, Any]
    metadata: dict[str, Any] = field(default_factory=dict)


def version(name: str, model: type, plural: str = "databases", kind: str = "Database") -> Any:
    """Return a version of a resource of acme.io, or of another group."""
    name = name if "/" in name else f"acme.io/{name}"
    return ConvertedVersion(GroupVersionResource.of(name, plural), kind, model)


OLD, NEW = version("v1beta1", Old), version("v1", New)


def upgrade(old: Old) -> New:
    """Convert to the new version."""
    return New(NewSpec(max_size=old.spec.size))


def downgrade(new: New) -> Old:
    """Convert to the old version."""
    return Old(OldSpec(size=new.spec.max_size))


def conversions(up: Callable[[Any], Any] = upgrade) -> Conversions:
    """Return a registry of two versions."""
    found = Conversions()
    found.add(up, OLD, NEW)
    found.add(downgrade, NEW, OLD)
    return found


def obj(number: int = 1, **more: Any) -> dict[str, Any]:
    """Return an object of the old version."""
    metadata = {"name": f"db-{number}", "namespace": "shop", "uid": f"u{number}"}
    head = {"apiVersion": "acme.io/v1beta1", "kind": "Database", "metadata": metadata}
    return {**head, "spec": {"size": number}, **more}


def review(objects: Any, wanted: str = "acme.io/v1", **more: Any) -> bytes:
    """Return a review, as the server sends it."""
    request = {"uid": "an-uid", "desiredAPIVersion": wanted, "objects": objects}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
    return json.dumps({**head, "request": request, **more}).encode()


def response(answer: Any) -> dict[str, Any]:
    """Return the response of an answer, whose frame is as the server wants it."""
    assert (answer.status, answer.content_type) == (200, "application/json")
    found = json.loads(answer.body)
    assert (found["apiVersion"], found["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    inner: dict[str, Any] = found["response"]
    assert inner["uid"] == "an-uid"
    return inner


def converted(answer: Any) -> list[dict[str, Any]]:
    """Return the objects of an answer."""
    found = response(answer)
    assert found["result"] == {"status": "Success"}
    objects: list[dict[str, Any]] = found["convertedObjects"]
    return objects


def failure(answer: Any) -> str:
    """Return the message of an answer without objects."""
    found = response(answer)
    assert found["result"]["status"] == "Failed"
    assert "convertedObjects" not in found
    message: str = found["result"]["message"]
    assert message.isprintable()
    assert len(message) <= 1000
    return message


def test_objects_are_converted_in_their_order_and_keep_their_metadata_and_status() -> None:
    objects = [obj(number, status={"ready": number}) for number in (3, 1, 2)]

    found = converted(conversions().answer(review(objects)))

    assert found == [
        {**one, "apiVersion": "acme.io/v1", "spec": {"maxSize": one["spec"]["size"]}}
        for one in objects
    ]


def test_an_object_of_the_wanted_version_is_returned_as_it_is() -> None:
    there = {**obj(), "apiVersion": "acme.io/v1", "spec": {"unknown": [1.0, 10**30]}}

    assert converted(conversions().answer(review([there, obj(2)])))[0] == there


def test_no_objects_are_converted_to_none() -> None:
    assert converted(conversions().answer(review(None))) == []
    assert converted(conversions().answer(review([]))) == []


def test_a_chain_leads_through_a_hub() -> None:
    class Alpha(msgspec.Struct):
        size: int

    alpha = version("v1alpha1", Alpha)
    found = conversions()
    found.add(lambda one: New(NewSpec(one.size)), alpha, NEW)
    found.add(lambda one: Alpha(one.spec.max_size), NEW, alpha)
    found.check()

    (new,) = converted(found.answer(review([obj(7)], "acme.io/v1alpha1")))

    assert (new["apiVersion"], new["size"]) == ("acme.io/v1alpha1", 7)


def test_a_function_of_its_own_is_taken_instead_of_a_hub() -> None:
    class Alpha(msgspec.Struct):
        how: str

    alpha = version("v1alpha1", Alpha)
    found = conversions()
    found.add(lambda _: Alpha("by way of v1"), NEW, alpha)
    assert converted(found.answer(review([obj()], "acme.io/v1alpha1")))[0]["how"] == "by way of v1"
    found.add(lambda _: Alpha("at once"), OLD, alpha)

    assert converted(found.answer(review([obj()], "acme.io/v1alpha1")))[0]["how"] == "at once"


def test_a_function_sets_labels_and_annotations_and_nothing_else_of_metadata() -> None:
    def relabel(old: Labelled) -> OtherLabelled:
        metadata = {**old.metadata, "name": "other", "labels": {"new": "1"}, "finalizers": ["x"]}
        return OtherLabelled(old.spec, metadata)

    found = Conversions()
    old, new = version("v1beta1", Labelled), version("v1", OtherLabelled)
    found.add(relabel, old, new)
    found.add(lambda one: Labelled(one.spec), new, old)
    metadata = {"name": "a", "labels": {"old": "1"}, "annotations": {"kept": "1"}, "uid": "u"}
    given_object = obj(metadata=metadata, status={"ready": 1})

    (there,) = converted(found.answer(review([given_object])))

    assert there["metadata"] == {**metadata, "labels": {"new": "1"}}
    assert "status" not in there  # one of the models has it, so the function decides
    (back,) = converted(found.answer(review([there], "acme.io/v1beta1")))
    assert back["metadata"] == there["metadata"]  # a function that ignores metadata loses nothing


def test_one_failure_fails_the_review_and_its_text_is_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(old: Old) -> New:
        if old.spec.secret:
            raise ValueError(old.spec.secret)
        return upgrade(old)

    objects = [obj(1), obj(2, spec={"secret": "hunter2"})]
    registry = conversions(failing)

    with caplog.at_level(logging.ERROR):
        message = failure(registry.answer(review(objects)))
        failure(registry.answer(review(objects)))

    assert "failing raised ValueError" in message
    assert "hunter2" not in message + caplog.text
    assert [record.levelname for record in caplog.records] == ["ERROR"]  # not one for each read
    assert "test_conversions.py" in caplog.text


@pytest.mark.parametrize(
    ("function", "words"),
    [
        pytest.param(lambda old: old, "returned a Old, not a New", id="its-argument"),
        pytest.param(lambda _: None, "returned a NoneType", id="nothing"),
        pytest.param(
            lambda _: New(NewSpec(note=float("nan"))),  # type: ignore[arg-type]  # on purpose
            "JSON cannot express a New that was returned",
            id="not-json",
        ),
    ],
)
def test_a_wrong_result_fails_the_review(function: Callable[[Any], Any], words: str) -> None:
    assert words in failure(conversions(function).answer(review([obj()])))


@pytest.mark.parametrize(
    ("given_object", "words"),
    [
        pytest.param(obj(spec={"size": "x"}), "'shop/db-1': does not fit Old", id="mismatch"),
        pytest.param(obj(spec={"size": "x"}), "`$.spec.size`", id="path"),
        pytest.param(obj(apiVersion="acme.io/v9"), "Database of acme.io/v9: is not", id="version"),
        pytest.param(obj(kind="Lake"), "Lake of acme.io/v1beta1: is not converted", id="kind"),
        pytest.param(obj(kind="Lake\n\u202e"), r"Lake\n\u202e of acme.io", id="hostile-kind"),
        pytest.param(obj(kind="L" * 5000), "LLLLL", id="long-kind"),
        pytest.param(obj(metadata=[]), "the metadata of a Database: Expected", id="metadata"),
        pytest.param(obj(metadata={"name": 5}), "Expected `str`, got `int`", id="name"),
        pytest.param({"kind": "Database"}, "missing required field", id="no-version"),
        pytest.param(7, "Expected `object`, got `int`", id="no-object"),
    ],
)
def test_an_object_that_cannot_be_converted_is_named(given_object: Any, words: str) -> None:
    assert words in failure(conversions().answer(review([obj(2), given_object])))


def test_an_object_whose_model_refuses_to_be_written_fails_the_review() -> None:
    class Odd(pydantic.BaseModel):
        size: int

        @pydantic.field_serializer("size")
        def refuse(self, _: int) -> int:
            """Raise what no library expects."""
            raise LookupError("hunter2")

    registry = Conversions()
    odd = version("v1", Odd)
    registry.add(lambda old: Odd(size=old.spec.size), OLD, odd)

    message = failure(registry.answer(review([obj()])))

    assert message.startswith("JSON cannot express a Odd that was returned")


def test_an_unknown_wanted_version_is_named() -> None:
    message = failure(conversions().answer(review([obj()], "acme.io/v3")))

    assert message.startswith("Database of acme.io/v3: is not converted here; known: Database of")


def test_a_missing_function_is_named_if_nothing_has_checked_before() -> None:
    found = Conversions()
    found.add(upgrade, OLD, NEW)
    back = {**obj(), "apiVersion": "acme.io/v1"}

    message = failure(found.answer(review([back], "acme.io/v1beta1")))

    assert message == "acme.io/v1 (New): no function leads to acme.io/v1beta1 (Old)"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        pytest.param(b"", 400, "is not a ConversionReview: empty", id="empty"),
        pytest.param(b"[]", 400, "Expected `object`, got `array`", id="array"),
        pytest.param(b"{", 400, "is not a ConversionReview", id="cut"),
        pytest.param(b"{}", 400, "must be a ConversionReview", id="no-kind"),
        pytest.param(
            review([], apiVersion="apiextensions.k8s.io/v1beta1"), 400, "got apiext", id="version"
        ),
        pytest.param(review([], kind="AdmissionReview\n"), 400, r"AdmissionReview\n", id="kind"),
        pytest.param(review([], request=None), 400, "has no request", id="no-request"),
        pytest.param(review([], request={"objects": []}), 400, "`uid`", id="no-uid"),
        pytest.param(review([], request={"uid": "u"}), 400, "`desiredAPIVersion`", id="no-wanted"),
        pytest.param(b'{"a":' + b"[" * 600 + b"]" * 600 + b"}", 400, "512 levels", id="deep"),
        pytest.param(b'{"request":"\xff"}', 400, "is not a ConversionReview", id="not-utf-8"),
    ],
)
def test_what_is_no_review_has_a_typed_answer(body: bytes, status: int, words: str) -> None:
    answer = conversions().answer(body)

    assert (answer.status, answer.content_type) == (status, "text/plain; charset=utf-8")
    assert words in answer.body.decode()
    assert answer.body.decode().isprintable()


def test_a_review_has_bounds() -> None:
    many = conversions().answer(review([0] * 100_001))
    assert (many.status, many.body) == (
        400,
        b"the review has 100001 objects; 100000 are the limit",
    )
    long = conversions().answer(bytes((128 << 20) + 1))
    assert (long.status, long.body[-13:]) == (413, b"are the limit")


async def asynchronous(_: Old) -> New:
    """Be refused."""
    return New(NewSpec())


@pytest.mark.parametrize(
    ("function", "source", "target", "words"),
    [
        pytest.param(asynchronous, OLD, NEW, "must not be asynchronous", id="async"),
        pytest.param(lambda: None, OLD, NEW, r"like convert\(source\)", id="arguments"),
        pytest.param(New, OLD, NEW, "must be a function", id="class"),
        pytest.param(upgrade, OLD, version("v1", int), "cannot be decoded into int", id="model"),
        pytest.param(upgrade, OLD, version("acme.org/v1", New), "must have one group", id="group"),
        pytest.param(upgrade, OLD, version("v1", New, "lakes"), "one plural name", id="plural"),
        pytest.param(
            upgrade, OLD, version("v1", New, kind="Lake"), "must have one kind", id="kind"
        ),
        pytest.param(upgrade, OLD, version("v1beta1", New), "are one version", id="version"),
        pytest.param(upgrade, OLD, NEW, "upgrade already converts", id="twice"),
        pytest.param(upgrade, OLD, version("v1", Old), r"v1 \(New\) is converted", id="two-models"),
    ],
)
def test_a_wrong_registration_is_refused(
    function: Any, source: ConvertedVersion, target: ConvertedVersion, words: str
) -> None:
    registry = conversions()
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=words):
        registry.add(function, source, target)
    registry.check()
    assert registry.versions == (OLD, NEW)


def test_a_function_without_its_reverse_is_refused() -> None:
    found = Conversions()
    found.add(upgrade, OLD, NEW)

    with pytest.raises(InvalidArgumentError, match=r"register one with @app.convert\(New, Old\)"):
        found.check()


def test_a_version_that_nothing_reaches_is_refused() -> None:
    class Alpha(msgspec.Struct):
        size: int = 0

    registry = conversions()
    registry.check([version("v1", Alpha, "lakes", "Lake")])  # another resource
    with pytest.raises(InvalidArgumentError, match=r"@app.convert\(Old, Alpha\)"):
        registry.check([version("v1alpha1", Alpha)])


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "spec", "a"]), inner)
    ),
    max_leaves=12,
)


@given(st.binary() | _json.map(lambda value: review([value])) | _json.map(json.dumps))
def test_no_body_raises(body: bytes | str) -> None:
    answer = conversions().answer(body.encode() if isinstance(body, str) else body)

    assert answer.status in {200, 400}


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8),
    st.dictionaries(st.sampled_from(["labels", "annotations", "finalizers", "x"]), _json),
)
def test_metadata_and_order_survive_whatever_they_are(
    sizes: list[int], metadata: dict[str, Any]
) -> None:
    try:
        json.dumps(metadata, allow_nan=False)
    except ValueError:
        metadata = {}
    metadata = {"name": "a", **metadata}
    objects = [obj(metadata=metadata, spec={"size": size}) for size in sizes]

    answer = response(conversions().answer(review(objects)))

    if answer["result"]["status"] == "Success":
        found = answer["convertedObjects"]
        assert [one["spec"]["maxSize"] for one in found] == sizes
        assert all(one["metadata"] == metadata for one in found)
