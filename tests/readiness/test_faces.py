"""What `of` takes: objects, dicts and models, and rules of the program's own."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import msgspec
import pydantic
import pytest
from kubernetes_asyncio.client import (
    V1LabelSelector,
    V1ObjectMeta,
    V1PodTemplateSpec,
    V1StatefulSet,
    V1StatefulSetSpec,
    V1StatefulSetStatus,
)
from pydantic.alias_generators import to_camel

from pyinformer import GroupVersionResource, readiness
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import ObjectCodec
from tests.objects.samples import decode
from tests.readiness.bodies import body, condition

if TYPE_CHECKING:
    from pyinformer import JSONObject

_SET: dict[str, Any] = body(
    "StatefulSet",
    spec={"replicas": 3},
    status={"observedGeneration": 1, "replicas": 3, "readyReplicas": 2},
)
_SHORT = readiness.Readiness("InProgress", "2 of 3 replicas are ready")


class _Spec(msgspec.Struct):
    replicas: int


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int
    ready_replicas: int
    replicas: int
    conditions: list[str] | msgspec.UnsetType = msgspec.UNSET


class _Struct(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    metadata: dict[str, Any]
    spec: _Spec
    status: _Status


@dataclasses.dataclass
class _Dataclass:
    apiVersion: str  # noqa: N815 - the name in JSON
    kind: str
    metadata: dict[str, Any]
    spec: _Spec
    status: _Status


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=to_camel)

    observed_generation: int = 0
    ready_replicas: int = 0
    replicas: int


class _Pydantic(pydantic.BaseModel):
    api_version: str = pydantic.Field(alias="apiVersion")
    kind: str
    metadata: dict[str, Any]
    spec: _Part
    status: _Part


class _Foreign:
    """An object of another library, such as kr8s."""

    def to_dict(self) -> dict[str, Any]:
        return _SET


def _official() -> V1StatefulSet:
    spec = V1StatefulSetSpec(
        replicas=3,
        service_name="a",
        selector=V1LabelSelector(),
        template=V1PodTemplateSpec(),
    )
    return V1StatefulSet(
        api_version="apps/v1",
        kind="StatefulSet",
        metadata=V1ObjectMeta(name="a", generation=1),
        spec=spec,
        status=V1StatefulSetStatus(observed_generation=1, replicas=3, ready_replicas=2),
    )


def _stored(obj: JSONObject, **options: Any) -> Any:
    resource = GroupVersionResource.of("apps/v1", "statefulsets")
    return decode(ObjectCodec(resource, **options), obj)


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(_SET, id="dict"),
        pytest.param(_stored(_SET), id="KubeObject"),
        pytest.param(msgspec.convert(_SET, _Struct), id="Struct"),
        pytest.param(msgspec.convert(_SET, _Dataclass), id="dataclass"),
        pytest.param(_Pydantic.model_validate(_SET), id="pydantic"),
        pytest.param(_official(), id="kubernetes_asyncio"),
        pytest.param(_Foreign(), id="to_dict"),
    ],
)
def test_each_form_of_an_object_has_the_same_answer(obj: object) -> None:
    assert readiness.of(obj) == _SHORT


@pytest.mark.parametrize("obj", [None, 5, "text", b"x", [], [_SET], object(), _Struct, print])
def test_what_is_not_an_object_is_a_typed_error(obj: object) -> None:
    with pytest.raises(InvalidTypeError, match=r"obj: must be an object, dict or model, not"):
        readiness.of(obj)


@pytest.mark.parametrize(
    "obj", [{}, {"kind": "Pod"}, {"apiVersion": "v1"}, {**_SET, "kind": ""}, {**_SET, "kind": None}]
)
def test_an_object_of_an_unknown_kind_is_never_ready(obj: JSONObject) -> None:
    reason = "apiVersion or kind is missing, so that its rule is unknown"
    assert readiness.of(obj) == readiness.Readiness("InProgress", reason)


def test_an_object_of_a_cache_of_metadata_is_never_ready() -> None:
    found = readiness.of(_stored(_SET, metadata_only=True))
    assert found.reason == "only its metadata is here, and the status is needed"
    assert found.state == "InProgress"


def test_an_object_whose_body_cannot_be_decoded_is_not_ready() -> None:
    raw = msgspec.json.encode(_SET).replace(b'"replicas":3', b'"replicas":' + b"[" * 100_000)
    stored = msgspec.structs.replace(_stored(_SET), raw=raw)
    assert readiness.of(stored) == readiness.Readiness("InProgress", "its body cannot be decoded")


def _database(obj: JSONObject) -> readiness.Readiness:
    status = obj.get("status")
    if not isinstance(status, dict) or "endpoint" not in status:
        return readiness.Readiness("InProgress", "has no endpoint yet")
    return readiness.of(obj)


_RULES = {("acme.io", "Database"): _database}


@pytest.mark.parametrize(
    ("obj", "state"),
    [
        pytest.param(body("Database"), "InProgress", id="by-the-rule"),
        pytest.param(body("Database", status={"endpoint": "a"}), "Ready", id="by-the-rule-and-of"),
        pytest.param({**body("Database"), "apiVersion": "acme.io/v2"}, "InProgress", id="version"),
        pytest.param({**body("Database"), "apiVersion": "b.io/v1"}, "Ready", id="another-group"),
        pytest.param(body("ConfigMap"), "Ready", id="another-kind"),
    ],
)
def test_a_rule_decides_about_its_kind_alone(obj: JSONObject, state: str) -> None:
    assert readiness.of(obj, rules=_RULES).state == state


def test_a_rule_decides_instead_of_all_but_the_deletion() -> None:
    """Some kinds use these fields in another way: a rollout of Argo has a text in one."""
    broken = body(
        "Service",
        status={"observedGeneration": "1", "conditions": [condition("Stalled")]},
    )
    rules = {("", "Service"): lambda _body: readiness.Readiness("Ready", "as we see it")}
    assert readiness.of(broken).state == "InProgress"
    assert readiness.of(broken, rules=rules).reason == "as we see it"
    broken["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert readiness.of(broken, rules=rules).reason == "is being deleted"


def test_an_error_of_a_rule_reaches_the_caller() -> None:
    rules = {("", "Pod"): lambda obj: readiness.Readiness("Ready", obj["missing"])}
    with pytest.raises(KeyError, match="missing"):
        readiness.of(body("Pod"), rules=rules)


@pytest.mark.parametrize(
    ("rules", "error", "reason"),
    [
        pytest.param([_database], InvalidTypeError, "rules: must be functions by", id="list"),
        pytest.param({"Database": _database}, InvalidArgumentError, "'Database'", id="kind-alone"),
        pytest.param(
            {("acme.io/v1", "Database"): _database},
            InvalidArgumentError,
            "keys such as",
            id="version",
        ),
        pytest.param({("", "Pod"): "Ready"}, InvalidTypeError, "must be a function", id="text"),
        pytest.param(
            {("", "Pod"): lambda _body: "Ready"},
            InvalidTypeError,
            "return a Readiness",
            id="result",
        ),
    ],
)
def test_rules_that_would_never_hold_are_refused(
    rules: Any, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        readiness.of(body("Pod"), rules=rules)
