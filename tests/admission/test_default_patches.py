"""The patch of a default: an independent library applies it to the object as it was sent."""

from __future__ import annotations

import asyncio
import base64
import json
import tracemalloc
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyinformer
from pyinformer.operator import hooks_of

if TYPE_CHECKING:
    from collections.abc import Callable

jsonpatch = pytest.importorskip("jsonpatch")

_PLACE: Final = ("acme.io/v1", "databases")


class _Spec(msgspec.Struct, rename={"slash": "a/b"}):
    engine: Any = "postgres"
    slash: int | float | None = None
    at: datetime | None = None


class _Database(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _ShortDatabase(msgspec.Struct, omit_defaults=True):
    spec: _Spec = msgspec.field(default_factory=_Spec)


@dataclass
class _PlainSpec:
    engine: Any = "postgres"
    at: datetime | None = None


@dataclass
class _PlainDatabase:
    spec: _PlainSpec = field(default_factory=_PlainSpec)


class _PydanticSpec(pydantic.BaseModel):
    engine: Any = "postgres"
    at: datetime | None = None


class _PydanticDatabase(pydantic.BaseModel):
    spec: _PydanticSpec = pydantic.Field(default_factory=_PydanticSpec)


_MODELS: Final = [_Database, _ShortDatabase, _PlainDatabase, _PydanticDatabase]
_each_model: Final = pytest.mark.parametrize("model", _MODELS)


def _database(**spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "orders", "creationTimestamp": None}
    return {"apiVersion": "acme.io/v1", "kind": "Database", "metadata": metadata, "spec": spec}


def _body(text: str) -> bytes:
    kind = '{"group": "acme.io", "version": "v1", "kind": "Database"}'
    request = f'{{"uid": "u", "operation": "CREATE", "kind": {kind}, "object": {text}}}'
    head = '"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"'
    return f'{{{head}, "request": {request}}}'.encode()


async def _answer(
    fill: Callable[[Any, Any], None], text: str, model: type | None = None
) -> tuple[int, str, list[dict[str, Any]] | None]:
    """Return the status and the text of an answer, and its patch; None if it has none."""
    app = pyinformer.Operator("db")
    app.default(*_PLACE, model=model)(fill)
    (reviews,) = hooks_of(app).hooks.reviews().values()
    answer = await reviews.answer(_body(text))
    if answer.status != 200:
        return answer.status, answer.body.decode(), None
    response = json.loads(answer.body)["response"]
    patch = json.loads(base64.b64decode(response["patch"])) if "patch" in response else None
    return answer.status, "", patch


async def _completed(fill: Callable[[Any, Any], None], text: str, model: type | None = None) -> Any:
    """Return the object as it is stored."""
    status, words, patch = await _answer(fill, text, model)
    assert (status, words) == (200, "")
    return jsonpatch.apply_patch(json.loads(text), patch or [])


def _are_same(first: Any, second: Any) -> bool:
    """Return whether two values are the same for Kubernetes, to which a null is an absent field."""
    if isinstance(first, dict) and isinstance(second, dict):
        names = {*first, *second}
        return all(_are_same(first.get(name), second.get(name)) for name in names)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(_are_same, first, second))
    return bool(first == second) and isinstance(first, bool) == isinstance(second, bool)


_names = st.sampled_from(["a", "b", "a/b", "~", "~1", "", "é", "名", '"', "\\", "\u2028", "<", "."])
_scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 2**53 + 1, 2**64, -(10**30), 1.0, -0.0, 1e21, 1e-7])
    | st.sampled_from(["", "<&>", "é", "\u2028", "null", "\x7f", "1"])
)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=12,
)
_specs = st.dictionaries(_names, _values, max_size=6)


@st.composite
def _edited(draw: st.DrawFn, value: Any) -> Any:
    """Draw a value with edits at random places."""
    if isinstance(value, dict):
        kept = {name: draw(_edited(one)) for name, one in value.items() if draw(_usually)}
        return {**kept, **draw(st.just({}) | st.dictionaries(_names, _values, max_size=1))}
    if isinstance(value, list):
        kept_items = [draw(_edited(one)) for one in value if draw(_usually)]
        return kept_items + draw(st.just([]) | st.lists(_values, max_size=1))
    return value if draw(_usually) else draw(_scalars)


_usually = st.integers(0, 5).map(bool)


@given(st.data())
def test_a_patch_makes_the_object_what_the_hook_made_of_it(data: st.DataObject) -> None:
    before = _database(**data.draw(_specs))
    after = {**before, "spec": data.draw(_edited(before["spec"]))}
    text = json.dumps(before, ensure_ascii=data.draw(st.booleans()))

    def fill(database: dict[str, Any], _review: Any) -> None:
        database.update(after)

    assert _are_same(asyncio.run(_completed(fill, text)), after)


@given(st.data())
def test_what_a_model_does_not_know_is_kept(data: st.DataObject) -> None:
    spec = data.draw(_specs)
    spec.pop("a/b", None)
    before = {**_database(**spec), "status": data.draw(_values)}
    engine = data.draw(_values)
    model = data.draw(st.sampled_from(_MODELS))

    def fill(database: Any, _review: Any) -> None:
        database.spec.engine = engine

    after = {**before, "spec": {**spec, "engine": engine}}
    found = asyncio.run(_completed(fill, json.dumps(before), model))
    if engine in ("postgres", None):  # the default of the model: the hook changed nothing, or None
        found["spec"].pop("engine", None)
        after["spec"].pop("engine")
    assert _are_same(found, after)


@given(_specs, st.sampled_from([None, *_MODELS]), st.booleans())
def test_a_hook_that_changes_nothing_sends_nothing(
    spec: dict[str, Any], model: type | None, is_ascii: bool
) -> None:
    spec.pop("a/b", None)
    text = json.dumps(_database(**spec), ensure_ascii=is_ascii)

    _, _, patch = asyncio.run(_answer(lambda _database, _review: None, text, model))

    assert patch is None


async def test_of_a_name_that_is_there_twice_the_last_counts() -> None:
    text = json.dumps(_database(engine="a")).replace('"engine"', '"engine": "b", "engine"')

    def fill(database: dict[str, Any], _review: Any) -> None:
        database["spec"]["image"] = database["spec"]["engine"]

    assert (await _completed(fill, text))["spec"] == {"engine": "a", "image": "a"}


@pytest.mark.parametrize(
    ("before", "after"),
    [(1, True), (True, 1), (0, False), ("1", 1), (None, False), (1e21, 10**30), ("a", ["a"])],
)
@pytest.mark.parametrize("model", [None, *_MODELS])
async def test_an_edit_that_python_hardly_sees_is_sent(
    before: Any, after: Any, model: type | None
) -> None:
    def fill(database: Any, _review: Any) -> None:
        if isinstance(database, dict):
            database["spec"]["engine"] = after
        else:
            database.spec.engine = after

    found = await _completed(fill, json.dumps(_database(engine=before)), model)
    assert _are_same(found["spec"]["engine"], after)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
@pytest.mark.parametrize("model", [None, *_MODELS])
async def test_a_number_that_json_cannot_express_is_refused(
    value: float, model: type | None
) -> None:
    """Also in place of a null, as which it would be encoded."""

    def fill(database: Any, _review: Any) -> None:
        if isinstance(database, dict):
            database["spec"]["engine"] = value
        else:
            database.spec.engine = value

    found = await _answer(fill, json.dumps(_database(engine=None)), model)
    assert found == (500, "failed with InvalidArgumentError", None)


@_each_model
async def test_an_instant_in_another_zone_is_an_edit(model: type) -> None:
    def fill(database: Any, _review: Any) -> None:
        database.spec.at = database.spec.at.astimezone(UTC)

    at = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    found = await _completed(fill, json.dumps(_database(at=at.isoformat())), model)
    assert found["spec"]["at"] == "2026-01-01T10:00:00Z"


async def test_an_object_that_contains_itself_is_refused() -> None:
    def fill(database: dict[str, Any], _review: Any) -> None:
        database["spec"]["all"] = database

    found = await _answer(fill, json.dumps(_database()))
    assert found == (500, "failed with InvalidArgumentError", None)


@pytest.mark.parametrize("model", [None, _Database])
async def test_a_default_of_a_large_object_takes_few_copies_of_it(model: type | None) -> None:
    """The text, what the function gets, and one more for a moment, with a reserve."""
    size = 2 << 20
    text = json.dumps(_database(engine="a" * size))

    def fill(database: Any, _review: Any) -> None:
        """Change nothing."""

    await _answer(fill, json.dumps(_database()), model)
    tracemalloc.start()
    try:
        _, _, patch = await _answer(fill, text, model)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert patch is None
    assert peak < 4 * size
