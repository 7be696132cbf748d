"""What hooks refuse and complete, asked in process; and what is answered to other texts."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyinformer
from pyinformer.admission import Denied, Review
from pyinformer.errors import (
    InformerError,
    InvalidArgumentError,
    InvalidTypeError,
    ModelMismatchError,
)
from pyinformer.operator import hooks_of
from pyinformer.testing import review
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from pyinformer.admission import Answer


class _Spec(msgspec.Struct):
    engine: str = "postgres"
    image: str = ""
    ports: list[dict[str, Any]] = []


class _Database(msgspec.Struct):
    spec: _Spec
    metadata: dict[str, Any] = {}


@dataclass
class _PlainSpec:
    engine: str = "postgres"
    image: str = ""


@dataclass
class _PlainDatabase:
    spec: _PlainSpec = field(default_factory=_PlainSpec)


_PLACE = ("acme.io/v1", "databases")


def _database(**spec: Any) -> dict[str, Any]:
    metadata = {"namespace": "shop", "name": "orders"}
    return {"apiVersion": "acme.io/v1", "kind": "Database", "metadata": metadata, "spec": spec}


def _app() -> pyinformer.Operator:
    return pyinformer.Operator("db")


async def test_a_write_is_refused_with_the_words_of_the_hook() -> None:
    app = _app()

    @app.validate(*_PLACE, model=_Database)
    async def check(database: _Database, review: Review[_Database]) -> None:
        review.warn("engines\nare final")
        if review.old and review.old.spec.engine != database.spec.engine:
            raise Denied("spec.engine cannot be changed")

    found = await review(app, "update", _database(engine="mysql"), old=_database(engine="oracle"))
    assert not found.allowed
    assert (found.status, found.message) == (422, "spec.engine cannot be changed")
    assert found.warnings == [r"engines\nare final"]
    same = await review(app, "update", _database(engine="a"), old=_database(engine="a"))
    assert (same.allowed, same.status, same.message) == (True, 200, "")
    assert (await review(app, "create", _database())).allowed
    assert (await review(app, "delete", _database())).warnings == []  # it is not asked


async def test_of_a_default_only_what_it_changed_is_written() -> None:
    app = _app()

    @app.default(*_PLACE, model=_Database)
    def fill(database: _Database, review: Review[_Database]) -> None:
        database.spec.image = database.spec.image or "postgres:17"
        for port in database.spec.ports:
            port.setdefault("protocol", "TCP")

    given_spec = {"unknown": {"a": 1}, "ports": [{"port": 1, "x": True}]}
    found = await review(app, "create", _database(**given_spec))
    assert found.object == _database(
        unknown={"a": 1},
        ports=[{"port": 1, "x": True, "protocol": "TCP"}],
        image="postgres:17",
    )
    again = await review(app, "create", found.object)
    assert again.object == found.object


@pytest.mark.parametrize("model", [_PlainDatabase, None])
async def test_a_default_edits_dataclasses_and_dicts(model: Any) -> None:
    app = _app()

    @app.default(*_PLACE, model=model)
    def fill(database: Any, review: Any) -> None:
        if isinstance(database, dict):
            database["spec"]["image"] = "a"
        else:
            database.spec.image = "a"

    found = await review(app, "create", _database(unknown=1))
    assert found.object["spec"] == {"unknown": 1, "image": "a"}


async def test_a_hook_reads_who_writes_what() -> None:
    app, seen = _app(), list[Review[Any]]()

    @app.validate(*_PLACE, operations=["create", "update", "delete"])
    def check(obj: pyinformer.KubeObject, review: Review) -> None:
        seen.append(review)
        assert obj.key == "shop/orders"

    await review(app, "create", _database(), user="tenant", groups=["a"], dry_run=True)
    await review(app, "update", _database(engine="b"), old=_database(engine="a"))
    await review(app, "delete", _database(engine="c"))
    created, updated, deleted = seen
    assert (created.operation, created.dry_run, created.old) == ("create", True, None)
    assert (created.user.name, list(created.user.groups)) == ("tenant", ["a"])
    assert (created.namespace, created.name, created.subresource) == ("shop", "orders", "")
    assert str(created.kind) == "acme.io/v1/Database"
    assert updated.old is not None
    assert updated.old.at("spec.engine") == "a"
    assert deleted.old is not None
    assert deleted.old.at("spec.engine") == "c"


async def test_hooks_of_a_subresource_are_asked_about_it_alone() -> None:
    app, seen = _app(), list[str]()

    @app.validate("acme.io/v1", "databases/scale")
    def scaled(_obj: pyinformer.KubeObject, review: Review) -> None:
        seen.append(review.subresource)

    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
    await review(app, "create", scale, plural="databases/scale")
    assert seen == ["scale"]
    with pytest.raises(InvalidArgumentError, match=r"plural: no hook is about databases\.v1"):
        await review(app, "create", _database())


async def test_an_object_without_a_name_yet_is_reviewed() -> None:
    app, seen = _app(), list[Any]()

    @app.validate(*_PLACE)
    def check(obj: pyinformer.KubeObject, review: Review) -> None:
        seen.append((obj.metadata.name, review.name, obj.metadata.labels["a"]))

    obj = _database()
    obj["metadata"] = {"generateName": "orders-", "namespace": "shop", "labels": {"a": "b"}}
    assert (await review(app, "create", obj)).allowed
    assert seen == [("", "", "b")]


async def test_what_does_not_fit_the_model_is_refused_with_its_place() -> None:
    app = _app()

    @app.validate(*_PLACE, model=_Database)
    def check(database: _Database, review: Review[_Database]) -> None:
        assert review.old is not None

    wrong = await review(app, "create", _database(engine=5))
    assert (wrong.status, wrong.allowed) == (422, False)
    assert "spec.engine" in wrong.message
    assert "Expected `str`, got `int`" in wrong.message
    old = await review(app, "update", _database(), old=_database(engine=["old\u202e"]))
    assert old.status == 422
    assert "\u202e" not in old.message


async def test_what_a_hook_raises_is_logged_and_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = _app()

    @app.validate(*_PLACE)
    def check(_obj: object, review: Review) -> None:
        raise ValueError("a secret")

    found = await review(app, "create", _database())
    assert found.status == 500
    assert found.message.endswith(": failed with ValueError")
    (line,) = (one.getMessage() for one in caplog.records)
    assert line.startswith("/validate/databases failed for shop/orders, whose writer gets an error")
    assert "a secret" not in line


async def test_a_hook_must_not_return_something() -> None:
    app = _app()

    @app.default(*_PLACE, model=_Database)
    def fill(database: _Database, review: Review[_Database]) -> Any:
        return database

    found = await review(app, "create", _database())
    assert found.status == 500
    assert found.message.endswith(": failed with TypeError")


async def test_a_hook_that_may_fail_refuses_nothing() -> None:
    app = _app()

    @app.validate(*_PLACE, ignores_failures=True)
    def check(_obj: object, review: Review) -> None:
        raise ValueError("a secret")

    assert (await review(app, "create", _database())).allowed


async def test_a_refusal_inside_a_task_group_is_one() -> None:
    app = _app()

    @app.validate(*_PLACE)
    async def check(_obj: object, review: Review) -> None:
        async def refuse() -> None:
            raise Denied("no", status=403)

        async with asyncio.TaskGroup() as group:
            group.create_task(refuse())

    found = await review(app, "create", _database())
    assert (found.status, found.message) == (403, "no")


async def test_a_hook_that_awaits_something_cancelled_has_failed() -> None:
    app = _app()

    @app.validate(*_PLACE)
    async def check(_obj: object, review: Review) -> None:
        task = asyncio.create_task(anyio.sleep_forever())
        task.cancel()
        await task

    found = await review(app, "create", _database())
    assert found.status == 500
    assert found.message.endswith(": failed with CancelledError")


async def test_a_list_is_replaced_as_a_whole() -> None:
    app = _app()

    @app.default(*_PLACE)
    def fill(database: dict[str, Any], review: Review) -> None:
        database["spec"]["ports"] = [one for one in database["spec"]["ports"] if one["port"] % 2]
        database["spec"].pop("engine")

    (reviews,) = hooks_of(app).hooks.reviews().values()
    obj = _database(engine="a", ports=[{"port": one} for one in range(20_000)])
    answer = await reviews.answer(_body(object=obj))  # seconds, if lists were compared
    patch = json.loads(base64.b64decode(json.loads(answer.body)["response"]["patch"]))
    assert [(one["op"], one["path"]) for one in patch] == [
        ("remove", "/spec/engine"),
        ("replace", "/spec/ports"),
    ] or [(one["op"], one["path"]) for one in patch] == [
        ("replace", "/spec/ports"),
        ("remove", "/spec/engine"),
    ]


async def test_a_default_cannot_rename() -> None:
    app = _app()

    @app.default(*_PLACE)
    def fill(database: dict[str, Any], review: Review) -> None:
        database["metadata"]["name"] = "b"

    assert (await review(app, "create", _database())).status == 500


async def test_two_defaults_have_requests_of_their_own() -> None:
    app = _app()

    def fill(obj: dict[str, Any], review: Review) -> None:
        obj["spec"][review.operation] = True

    app.default(*_PLACE, operations=["create"])(fill)
    with pytest.raises(InvalidArgumentError, match="operations: 'databases' sets defaults of"):
        app.default(*_PLACE)(fill)
    with pytest.raises(InvalidArgumentError, match="name: 'databases' is registered already"):
        app.default(*_PLACE, operations=["update"], name="databases")(fill)
    app.default(*_PLACE, operations=["update"])(fill)
    assert [one.name for one in hooks_of(app).hooks] == ["databases", "databases-acme-io"]
    found = await review(app, "update", _database(), old=_database())
    assert found.object["spec"] == {"update": True}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"operations": "create"}, "operations: must be several"),
        ({"operations": []}, "operations: must not be empty"),
        ({"operations": ["connect"]}, "operations: must be one of create, update, delete"),
        ({"when": ["a"]}, "when: must be expressions by names, not list"),
        ({"when": {"a": ""}}, "when: must be expressions in CEL"),
        ({"when": {"a b": "true"}}, "when: must have names such as 'large'"),
        ({"when": {"not-the-operator": "true"}}, "when: must have names such as 'large', other"),
        ({"wen": {}}, "wen: must be left out: the options of a hook are operations"),
        ({"timeout_seconds": 31}, "timeout_seconds: must be whole seconds from 1 to 30, got 31"),
        ({"timeout_seconds": 1.5}, "timeout_seconds: must be whole seconds"),
        ({"ignores_failures": "no"}, "ignores_failures"),
        ({"name": "A b"}, "name: must be lower case letters"),
        ({"model": 5}, "model"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=words):
        _app().validate(*_PLACE, **options)(lambda _obj, _review: None)


def test_a_default_is_not_asked_about_deletions() -> None:
    with pytest.raises(InvalidArgumentError, match="operations: must be one of create, update"):
        _app().default(*_PLACE, operations=["delete"])(lambda _obj, _review: None)


@pytest.mark.parametrize("status", [200, 500, True, "403"])
def test_a_refusal_has_a_status_of_a_client_error(status: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="status: must be 400 to 499"):
        Denied("no", status=status)


async def test_a_review_needs_the_object_before_an_update() -> None:
    with pytest.raises(InvalidArgumentError, match="old: must be the object before"):
        await review(_app(), "update", _database())
    with pytest.raises(InvalidArgumentError, match="old: is for updates only"):
        await review(_app(), "create", _database(), old=_database())
    with pytest.raises(InvalidArgumentError, match="obj: must have an apiVersion and a kind"):
        await review(_app(), "create", {"kind": "Database"})
    with pytest.raises(InvalidTypeError, match="app: must be an Operator"):
        await review("app", "create", _database())  # type: ignore[arg-type]


async def test_conditions_decide_whether_a_hook_is_asked() -> None:
    app = _app()

    @app.validate(*_PLACE, when={"mysql": "object.spec.engine == 'mysql'"})
    def check(_obj: object, review: Review) -> None:
        raise Denied("not that one")

    assert (await review(app, "create", _database(engine="postgres"))).allowed
    assert (await review(app, "create", _database(engine="mysql"))).message == "not that one"


async def test_a_condition_that_only_a_real_server_evaluates_lets_nothing_pass() -> None:
    app = _app()
    app.validate(*_PLACE, when={"large": "quantity('1Gi').isGreaterThan(quantity('1Mi'))"})(
        lambda _obj, _review: None
    )
    found = await review(app, "create", _database())
    assert (found.allowed, found.status) == (False, 501)
    assert "it has no function 'isGreaterThan'; test it on a real API server" in found.message


async def test_the_removal_of_a_finalizer_at_the_end_is_not_asked_about() -> None:
    app = _app()

    @app.validate(*_PLACE)
    def check(_obj: object, review: Review) -> None:
        raise Denied("never")

    old = _database()
    old["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
    freed = {**old, "metadata": {**old["metadata"], "finalizers": []}}
    assert (await review(app, "update", freed, old=old)).allowed
    assert not (await review(app, "update", old, old=old)).allowed


def _body(**changes: Any) -> bytes:
    request = {
        "uid": "u",
        "operation": "CREATE",
        "kind": {"group": "acme.io", "version": "v1", "kind": "Database"},
        "object": _database(),
        "oldObject": None,
        **changes,
    }
    return json.dumps(
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    ).encode()


async def _answer(body: bytes, app: pyinformer.Operator | None = None) -> Answer:
    if app is None:
        app = _app()
        app.validate(*_PLACE, operations=["create", "delete"])(lambda _obj, _review: None)
    (reviews,) = hooks_of(app).hooks.reviews().values()
    return await reviews.answer(body)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", b"the body is not JSON"),
        (b"\xff", b"the body is not JSON"),
        (b"[]", b"not an AdmissionReview of admission.k8s.io/v1"),
        (b"{}", b"not an AdmissionReview of admission.k8s.io/v1"),
        (_body(uid=5), b"request.uid"),
        (_body(operation="CONNECT", object=None), b"hooks answer CREATE, UPDATE and DELETE"),
        (_body(object=None), b"a CREATE without its object"),
        (_body(operation="DELETE"), b"a DELETE without its object"),
        (_body(object=[]), b"not an AdmissionReview"),
        (_body(object={"kind": "A"}), b"apiVersion"),
        (b'{"a":' * 600 + b"1" + b"}" * 600, b"nested too deeply"),
        (
            _body().replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
            b"not an AdmissionReview of admission.k8s.io/v1",
        ),
    ],
)
async def test_what_is_no_review_gets_a_reason(body: bytes, words: bytes) -> None:
    answer = await _answer(body)
    assert answer.status == HTTPStatus.BAD_REQUEST
    assert words in answer.body


async def test_an_answer_has_the_uid_of_its_review() -> None:
    answer = await _answer(_body(uid="705ab4f5", operation="DELETE", oldObject=_database()))
    assert json.loads(answer.body) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "705ab4f5", "allowed": True},
    }


async def test_a_patch_is_that_of_rfc_6902() -> None:
    app = _app()

    @app.default(*_PLACE)
    def fill(database: dict[str, Any], review: Review) -> None:
        database["spec"]["a/b"] = [1]

    response = json.loads((await _answer(_body(), app)).body)["response"]
    assert response["patchType"] == "JSONPatch"
    patch = json.loads(base64.b64decode(response["patch"]))
    assert patch == [{"op": "add", "path": "/spec/a~1b", "value": [1]}]


@given(st.binary())
def test_no_body_breaks_a_hook(body: bytes) -> None:
    assert asyncio.run(_answer(body)).status == HTTPStatus.BAD_REQUEST


@pytest.mark.virtual_time
@pytest.mark.parametrize("timeout_seconds", [None, 2.0, 60.0])
async def test_a_slow_hook_is_answered_within_the_timeout(timeout_seconds: float | None) -> None:
    app = _app()

    @app.validate(*_PLACE, timeout_seconds=4)
    async def check(_obj: object, review: Review) -> None:
        await anyio.sleep_forever()

    (reviews,) = hooks_of(app).hooks.reviews().values()
    answering = asyncio.create_task(reviews.answer(_body(), timeout_seconds=timeout_seconds))
    await elapse(0.9 * min(4.0, timeout_seconds or 4.0) + 0.01)
    answer = await answering
    assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR
    assert answer.body == b"failed with TimeoutError"


async def test_a_hook_is_cancelled_with_its_request() -> None:
    app, ends = _app(), list[str]()

    @app.validate(*_PLACE)
    async def check(_obj: object, review: Review) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ends.append("ended")

    with anyio.move_on_after(0.01):
        await review(app, "create", _database())
    task = asyncio.create_task(_cancelled(app))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == ["ended", "ended"]


async def _cancelled(app: pyinformer.Operator) -> None:
    await review(app, "create", _database())


async def test_a_refusal_is_one_printable_line_of_bounded_length() -> None:
    app = _app()

    @app.validate(*_PLACE)
    def check(obj: pyinformer.KubeObject, review: Review) -> None:
        for _ in range(100):
            review.warn("w" * 1000)
        raise Denied(f"no\n{'x' * 10_000}", status=403)

    found = await review(app, "create", _database())
    assert found.status == 403
    assert found.message.startswith("no\\nxxx")
    assert len(found.message) == 1000
    assert [len(one) for one in found.warnings] == [256] * 16


def test_the_errors_of_reviews_are_those_of_the_library() -> None:
    assert issubclass(Denied, InformerError)
    assert issubclass(ModelMismatchError, InformerError)
