"""Why a server refused a request: reasons and fields of its details and its message, no values."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import msgspec
import pytest

from pyinformer._runtime.tasks import error_text
from pyinformer.client.transport import status_error

if TYPE_CHECKING:
    from pyinformer.objects import JSONValue

_HIDDEN = "hunter2"
_OF_OWNERS = "blockOwnerDeletion needs the right to update finalizers of the owner"


def refused(message: str, causes: JSONValue = None, status: int = 422) -> list[str]:
    """Return the causes as logs show them."""
    body = msgspec.json.encode({"message": message, "details": {"causes": causes}})
    error = pickle.loads(pickle.dumps(status_error(status, {}, body, request="PATCH /x")))  # noqa: S301 - our own
    assert _HIDDEN not in error_text(error)
    return [str(cause) for cause in error.refusal_causes]


@pytest.mark.parametrize(
    ("message", "causes"),
    [
        pytest.param(
            "failed to create typed patch object (default/web; apps/v1, Kind=Deployment):"
            " .spec.replica: field not declared in schema",
            [".spec.replica: field not declared in schema"],
            id="apply",
        ),
        pytest.param(
            "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): errors:\n"
            f'  .spec.ports[name="{_HIDDEN}"].x: field not declared in schema\n'
            f'  .spec.a: expected string, got &value.valueUnstructured{{Value:"{_HIDDEN}"}}',
            [".spec.ports[].x: field not declared in schema", ".spec.a: expected string"],
            id="apply-several",
        ),
        pytest.param(
            'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error:'
            ' unknown field "spec.replica", duplicate field "spec.paused"',
            ["spec.replica: unknown field", "spec.paused: duplicate field"],
            id="strict",
        ),
        pytest.param(
            "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of"
            " type int32",
            ["spec.replicas: cannot unmarshal string"],
            id="type",
        ),
        pytest.param(
            f'admission webhook "a.example.com" denied the request: the password is {_HIDDEN}',
            ["denied by admission webhook a.example.com"],
            id="webhook",
        ),
        pytest.param(
            "deployments.apps \"web\" is forbidden: ValidatingAdmissionPolicy 'demo' with binding"
            f" 'demo-test' denied request: {_HIDDEN}",
            ["denied by ValidatingAdmissionPolicy demo"],
            id="policy",
        ),
        pytest.param(
            'configmaps "a" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers'
            " to a resource you can't set finalizers on: , <nil>",
            [f"metadata.ownerReferences: {_OF_OWNERS}"],
            id="owner",
        ),
        pytest.param(
            'pods "a" is forbidden: exceeded quota: team-a, requested: pods=1, used: pods=9',
            ["exceeded quota team-a"],
            id="quota",
        ),
        pytest.param(f'bad value "{_HIDDEN}"', [], id="unknown"),
        pytest.param("." * 10_000 + "admission webhook " * 1_000, [], id="hostile"),
    ],
)
def test_a_message_names_the_fields_and_no_value(message: str, causes: list[str]) -> None:
    assert refused(message) == causes


def test_the_details_name_reasons_and_fields() -> None:
    causes: JSONValue = [
        {"reason": "FieldValueInvalid", "message": f'"{_HIDDEN}"', "field": "spec.replicas"},
        {"reason": "FieldValueRequired", "field": f'spec.ports[name="{_HIDDEN}"]'},
        {"reason": "NamespaceTerminating"},
        {"field": "metadata.name"},
        {"message": _HIDDEN},
        [_HIDDEN],
        {"reason": 1, "field": {"a": _HIDDEN}},
    ]
    assert refused(_HIDDEN, causes) == [
        "spec.replicas: FieldValueInvalid",
        "spec.ports[]: FieldValueRequired",
        "NamespaceTerminating",
        "metadata.name",
    ]
    assert refused(_HIDDEN, _HIDDEN) == []


def test_causes_are_bounded_and_escaped() -> None:
    causes = [{"reason": "a\nb" * 999, "field": str(number)} for number in range(999)]
    body = msgspec.json.encode({"details": {"causes": causes}})
    error = status_error(422, {}, body, request="PATCH /x")
    assert len(error.refusal_causes) == 8
    assert max(len(one.reason) for one in error.refusal_causes) == 200
    text = error_text(error)
    assert "\n" not in text
    assert text.endswith("..., and 4 more)")
    assert len(text) < 1_000
