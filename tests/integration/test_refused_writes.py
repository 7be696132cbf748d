"""What the log line of a refused write shows: reason, causes and fields, and no value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import pyinformer
from pyinformer import Request
from pyinformer.errors import APIStatusError, BadRequestError, InvalidError, RefusalCause

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server


async def test_the_log_line_of_an_invalid_object_names_its_fields(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "forty-one", "controller": True}
    metadata: JSONObject = {
        "name": "a",
        "namespace": server.namespace(),
        "ownerReferences": [{**owner, "uid": "1"}, {**owner, "uid": "2"}],
    }
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    async with server.connect() as cluster:

        async def write(*_: object) -> None:
            await cluster.create(body)

        controller = pyinformer.Controller("writer", write)
        outcome = await controller.reconcile_once(Request("a"))
    assert isinstance(outcome.error, InvalidError)
    assert outcome.error.refusal_causes == (
        RefusalCause("FieldValueInvalid", "metadata.ownerReferences"),
    )
    (line,) = (one.message for one in caplog.records if one.name == "pyinformer.controller")
    assert "422 Invalid; metadata.ownerReferences: FieldValueInvalid" in line
    assert "forty-one" not in line


async def test_the_log_line_of_an_apply_with_a_typo_names_the_field(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """A real server answers with 500 and no causes, on an object with any name."""
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "original-db", "namespace": "default"},
        "spec": {"replica": 41},
    }
    async with server.connect() as cluster:

        async def write(*_: object) -> None:
            await cluster.apply(body, field_manager="test")

        outcome = await pyinformer.Controller("writer", write).reconcile_once(Request("a"))
    assert "default/original-db" in str(outcome.error)
    assert ".spec.replica: field not declared in schema" in caplog.text
    (line,) = (one.message for one in caplog.records if one.name == "pyinformer.controller")
    assert "41" not in line


@pytest.mark.covers(
    "controller-runtime pkg/client: should log warnings with config.WarningHandler, if one is"
)
async def test_a_warning_about_an_unknown_field_is_passed_on(server: Server) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"generateName": "warned-", "namespace": "default"},
        "typo": {"a": "b"},
    }
    received: list[tuple[str, str]] = []
    where = pyinformer.connect(
        config=server.config(),
        on_warning=lambda text, request: received.append((text, request)),
    )
    async with where as cluster:
        await cluster.create(body)
    assert received == [('unknown field "typo"', "POST /api/v1/namespaces/default/configmaps")]


@pytest.mark.covers(
    "controller-runtime pkg/client: should fail write operation if FieldValidation equals",
    "controller-runtime pkg/client: TestWithStrictFieldValidation",
)
async def test_a_strict_write_with_a_typo_is_refused_and_names_the_field(
    server: Server,
) -> None:
    metadata = {"generateName": "strict-", "namespace": "default"}
    body: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    typo = RefusalCause("unknown field", "typo")
    async with server.connect() as cluster:
        with pytest.raises(BadRequestError) as refused:
            await cluster.create({**body, "typo": "x"}, field_validation="Strict")
        assert refused.value.refusal_causes == (typo,)
        made = await cluster.create({**body, "typo": "x"}, field_validation="Ignore")
        edited = {**made.to_dict(), "typo": "x"}
        with pytest.raises(APIStatusError) as invalid:
            await cluster.patch(made, edited, field_validation="Strict")
        assert typo in invalid.value.refusal_causes
        with pytest.raises(BadRequestError):
            await cluster.replace(edited, field_validation="Strict")
