"""The blocking face has everything that the asynchronous one has, and the two never drift apart."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.blocking import (
    BlockingCluster,
    BlockingInformer,
    BlockingInformerFactory,
    BlockingRecording,
    BlockingRegistration,
    Runner,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LOOP_ONLY = "is for code on the loop: of `.asynchronous`, by runner.call"
_PAIRS: list[tuple[type, type, dict[str, str]]] = [
    (
        pyinformer.Cluster,
        BlockingCluster,
        {
            "aclose": "the with of runner.connect() closes it",
            "api": "its classes are asynchronous",
            "list_watch": _LOOP_ONLY,
            "observe_writes": _LOOP_ONLY,
            "forget_observer": _LOOP_ONLY,
        },
    ),
    (pyinformer.SharedInformerFactory, BlockingInformerFactory, {"run": _LOOP_ONLY}),
    (
        pyinformer.SharedInformer,
        BlockingInformer,
        {
            "cluster": "its methods are asynchronous",
            "run": _LOOP_ONLY,
        },
    ),
    (pyinformer.cache.Recording, BlockingRecording, {}),
    (pyinformer.cache.Registration, BlockingRegistration, {"is_of": "for the informer"}),
]

_RENAMED = {"aclose": "close"}
_CANCELLATION = re.compile(r"\n\nCancellation:\n(?: .*(?:\n|$)|\n(?= ))*")
_AWAITS = re.compile(r"\bawait (?=[a-z_.]+\()|\basync (?=with |for )")  # in examples


def expected_doc(original: object) -> str:
    """Return a docstring without the section on cancellation, and its examples without `await`."""
    doc = _CANCELLATION.sub("\n\n", f"{inspect.getdoc(original) or ''}\n").strip()
    return _AWAITS.sub("", doc)


# What an annotation of the asynchronous face is called in the blocking one.
_FACES = {
    "SharedInformer[": "BlockingInformer[",
    "Recording": "BlockingRecording",
    "Registration[": "BlockingRegistration[",
    "EventStream[": "BlockingEventStream[",
    "ObjectList[": "BlockingObjectList[",
    "LogStream": "BlockingLogStream",
}

# These say something of threads that the original cannot say.
_OWN_WORDS = {"add_event_handler", "events"}


def twins() -> Iterator[Any]:
    """Yield each public member of the asynchronous face that needs a twin."""
    for original, blocking, without in _PAIRS:
        for name in dir(original):
            if not name.startswith("_") and name not in without:
                yield pytest.param(original, blocking, name, id=f"{original.__name__}.{name}")


def members(original: type, blocking: type, name: str) -> tuple[Any, Any]:
    """Return a member as each of the two classes has it: a function or a property."""
    model = inspect.getattr_static(original, name)
    return model, inspect.getattr_static(blocking, _RENAMED.get(name, name), None)


def shape_of(function: Callable[..., object]) -> list[tuple[str, ...]]:
    """Return parameters and result as text, in the words of the blocking face."""
    signature = inspect.signature(function)
    rows = [
        (one.name, str(one.kind), str(one.default), blocking_words(one.annotation))
        for one in signature.parameters.values()
    ]
    return [*rows[1:], ("returns", blocking_words(signature.return_annotation))]


def blocking_words(annotation: object) -> str:
    """Return an annotation with the asynchronous faces in it replaced."""
    text = str(annotation)
    for face, twin in _FACES.items():
        text = re.sub(rf"\b{re.escape(face)}", twin, text)
    return text


def summary_of(text: str | None) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


@cache
def declared_summaries(blocking: type) -> dict[str, str]:
    """Return the docstrings below the attributes of a class, by the attributes' names."""
    body = ast.parse(inspect.cleandoc(inspect.getsource(blocking))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        made.target.id: ast.literal_eval(below.value)
        for made, below in pairwise(body.body)
        if isinstance(made, ast.AnnAssign) and isinstance(made.target, ast.Name)
        if isinstance(below, ast.Expr)
    }


@pytest.mark.parametrize(("original", "blocking", "name"), list(twins()))
def test_every_public_member_has_a_blocking_version_with_the_same_signature(
    original: type, blocking: type, name: str
) -> None:
    model, twin = members(original, blocking, name)

    assert twin is not None, f"{blocking.__name__} lacks {name}"
    assert isinstance(twin, property) == isinstance(model, property)
    if isinstance(model, property):
        assert blocking_words(inspect.signature(model.fget).return_annotation) == (  # type: ignore[arg-type]  # every property has one
            inspect.signature(twin.fget).return_annotation
        )
        return
    assert shape_of(twin) == shape_of(model)


@pytest.mark.parametrize(("original", "blocking", "name"), list(twins()))
def test_the_docstring_of_a_blocking_member_lacks_only_the_cancellation_section(
    original: type, blocking: type, name: str
) -> None:
    model, twin = members(original, blocking, name)
    if isinstance(model, property):
        assert summary_of(inspect.getdoc(twin))[:30] == summary_of(inspect.getdoc(model))[:30]
        return
    doc = inspect.getdoc(twin) or ""
    assert "Cancellation:" not in doc
    if name in _OWN_WORDS:
        return
    assert doc == expected_doc(model)
    declared = declared_summaries(blocking).get(name)
    if declared is not None:  # what an editor shows
        assert summary_of(declared).startswith(summary_of(doc)[:60])


@pytest.mark.parametrize(
    ("cls", "without"), [(original, without) for original, _, without in _PAIRS]
)
def test_members_listed_as_not_blocking_exist(cls: type, without: dict[str, str]) -> None:
    assert [name for name in without if not hasattr(cls, name)] == []


@pytest.mark.parametrize("name", ["create_or_update", "finalizer", "upgrade_managed_fields"])
def test_a_blocking_function_has_the_arguments_and_the_docstring_of_the_asynchronous_one(
    name: str,
) -> None:
    original = getattr(pyinformer, name, None) or getattr(pyinformer.controller.conventions, name)
    twin = getattr(pyinformer.blocking, name)
    model, found = inspect.signature(original), inspect.signature(twin)

    assert twin.__doc__ == expected_doc(original)
    assert [str(one) for one in found.parameters.values()][1:] == [
        str(one) for one in model.parameters.values()
    ][1:]


def test_a_runner_connects_with_the_arguments_of_connect() -> None:
    model, twin = inspect.signature(pyinformer.connect), inspect.signature(Runner.connect)

    assert [str(one) for one in twin.parameters.values()][1:] == [
        str(one) for one in model.parameters.values()
    ]


def test_a_factory_is_made_with_the_arguments_of_the_asynchronous_one() -> None:
    model = inspect.signature(pyinformer.SharedInformerFactory.__init__)
    twin = inspect.signature(BlockingCluster.informer_factory)

    assert [str(one) for one in twin.parameters.values()][1:] == [
        str(one) for one in model.parameters.values()
    ][2:]


def test_the_docstring_of_a_blocking_member_keeps_sections_after_cancellation() -> None:
    doc = inspect.getdoc(BlockingCluster.apply) or ""

    assert "Cancellation" not in doc
    assert doc.endswith("Source:\n    KEP-555.")
    assert "ApplyConflictError" in doc
