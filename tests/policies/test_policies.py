"""Admission policies as code: what they say, and what is refused before a server sees it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

import pyinformer
from pyinformer.errors import InformerError, InvalidArgumentError, InvalidTypeError
from pyinformer.policies import MutatingPolicy, Mutation, Params, Policy, Rule, policies_yaml

_RULE = Rule("object.metadata.name != 'a'", "not a")
_CHANGE = Mutation('Object{metadata: Object.metadata{labels: {"a": "b"}}}')


def test_a_policy_has_a_binding_that_puts_it_into_force() -> None:
    policy = Policy(
        "no-latest.acme.io",
        on=[("v1", "pods"), ("apps/v1", "deployments")],
        rules=[Rule("variables.images.all(i, i != 'x')", "pin it", reason="Forbidden")],
        operations=["create"],
        when={"not-ours": "request.userInfo.username != 'me'"},
        variables={"images": "object.spec.containers.map(c, c.image)"},
        namespaces=["b", "a"],
        params=Params(api_version="v1", kind="ConfigMap", name="limits", namespace="ops"),
        action=["warn", "audit"],
    )
    found, binding = policy.to_dicts()
    assert found == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "no-latest.acme.io"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                        "operations": ["CREATE"],
                        "scope": "Namespaced",
                    },
                    {
                        "apiGroups": ["apps"],
                        "apiVersions": ["v1"],
                        "resources": ["deployments"],
                        "operations": ["CREATE"],
                        "scope": "Namespaced",
                    },
                ]
            },
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "matchConditions": [
                {"name": "not-ours", "expression": "request.userInfo.username != 'me'"}
            ],
            "variables": [
                {"name": "images", "expression": "object.spec.containers.map(c, c.image)"}
            ],
            "validations": [
                {
                    "expression": "variables.images.all(i, i != 'x')",
                    "message": "pin it",
                    "reason": "Forbidden",
                }
            ],
        },
    }
    assert binding["kind"] == "ValidatingAdmissionPolicyBinding"
    assert binding["spec"] == {
        "policyName": "no-latest.acme.io",
        "paramRef": {"name": "limits", "namespace": "ops", "parameterNotFoundAction": "Deny"},
        "matchResources": {
            "namespaceSelector": {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "In",
                        "values": ["a", "b"],
                    }
                ]
            }
        },
        "validationActions": ["Warn", "Audit"],
    }


def test_policies_are_documents_for_kubectl() -> None:
    changing = MutatingPolicy(
        "owner.acme.io",
        on=[("v1", "configmaps")],
        mutations=[_CHANGE, Mutation("[JSONPatch{}]", patch_type="json")],
        repeats=False,
    )
    refusing = Policy("owner.acme.io", on=[("v1", "configmaps")], rules=[_RULE])
    documents = list(yaml.safe_load_all(policies_yaml([changing, refusing])))
    assert [one["kind"] for one in documents] == [
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ]
    assert documents[0]["spec"]["reinvocationPolicy"] == "Never"
    assert documents[0]["spec"]["mutations"][1]["patchType"] == "JSONPatch"
    assert policies_yaml([]) == ""


_GOOD: dict[str, Any] = {"on": [("v1", "pods")], "rules": [_RULE]}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "No Latest"}, "name: must be a name of Kubernetes"),
        ({"on": []}, "on: must not be empty"),
        ({"on": ["pods"]}, r"on: must be pairs such as \('v1', 'pods'\), got 'pods'"),
        ({"on": [("v1",)]}, "on: must be pairs"),
        ({"on": [("v1", "")]}, "on: must be pairs"),
        ({"rules": []}, "rules: must not be empty"),
        ({"rules": ["true"]}, "rules: must be a pyinformer.policies.Rule, got str"),
        ({"operations": "create"}, "operations: must be several, not the text 'create'"),
        ({"operations": ["patch"]}, "operations: must be one of .*, got 'patch'"),
        ({"operations": []}, "operations: must not be empty"),
        ({"when": ["true"]}, "when: must be expressions by names, not list"),
        ({"when": {"a": " "}}, r"when\['a'\]: must be an expression in CEL"),
        ({"variables": {"a-b": "1"}}, "variables: must be identifiers, got 'a-b'"),
        ({"namespaces": "a"}, "namespaces: must be several names, not 'a'"),
        ({"params": "limits"}, "params: must be a Params, got str"),
        ({"ignores_failures": "no"}, "ignores_failures"),
        ({"action": "refuse"}, "action: must be one of .*, got 'refuse'"),
        ({"action": ["deny", "warn"]}, "action: must not be both: deny also says why"),
        ({"action": 5}, "action: must be deny or warn or audit, got int"),
        ({"action": []}, "action: must not be empty"),
    ],
)
def test_a_wrong_policy_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidArgumentError, InvalidTypeError), match=words):
        Policy(**{"name": "a", **_GOOD, **wrong})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Rule(""), "expression: must be an expression in CEL"),
        (lambda: Rule("a &&\n b"), "message: is required, because the expression has several"),
        (lambda: Rule("a", "two\nlines"), "message: must be one line"),
        (lambda: Rule("a", message_expression=" "), "message_expression: must be an expression"),
        (lambda: Rule("a", reason="Gone"), "reason: must be one of"),  # type: ignore[arg-type]
        (lambda: Mutation(""), "expression: must be an expression"),
        (lambda: Mutation("a", patch_type="merge"), "patch_type: must be one of"),  # type: ignore[arg-type]
        (lambda: Params(api_version="v1", kind="ConfigMap", name=""), "name: must not be empty"),
        (
            lambda: MutatingPolicy(
                "a", on=[("v1", "pods")], operations=["delete"], mutations=[_CHANGE]
            ),
            "operations: must be create and update",
        ),
        (
            lambda: pyinformer.Operator("a", policies=[Policy("a", **_GOOD), Policy("a", **_GOOD)]),
            "policies: 2 are named 'a'",
        ),
        (
            lambda: pyinformer.Operator("a", policies=["a"]),  # type: ignore[list-item]
            "policies: must be Policy or MutatingPolicy, got str",
        ),
    ],
)
def test_other_wrong_values_are_refused(call: Any, words: str) -> None:
    with pytest.raises(InformerError, match=words):
        call()
