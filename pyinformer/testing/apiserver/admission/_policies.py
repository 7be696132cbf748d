"""ValidatingAdmissionPolicies and their bindings, as a real server puts them into force.

Source:
    k8s.io/apiserver pkg/admission/plugin/policy/validating/dispatcher.go and validator.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.admission._attributes import Attributes, fulfils, matched
from pyinformer.testing.apiserver.admission._expressions import (
    EvaluationError,
    evaluate,
    message_of,
    not_evaluated,
)
from pyinformer.testing.apiserver.requests import Failure, failures
from pyinformer.testing.apiserver.resources import ResourceType

Params = Callable[[JSONObject, JSONObject, str], Sequence[JSONObject] | None]
"""Returns the objects that a binding names, by the `paramKind`, the `paramRef` and the namespace of
the written object; None if the kind is not served."""

_EVERYTHING: Final[list[JSONObject]] = [
    {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
]
_CODES: Final = {
    "Unauthorized": 401,
    "Forbidden": 403,
    "Invalid": 422,
    "RequestEntityTooLarge": 413,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySet:
    """The policies that are in force.

    Attributes:
        validating: ValidatingAdmissionPolicies.
        mutating: MutatingAdmissionPolicies.
        bindings: of both.
        params: finds the objects that rules read.
        versions: returns the other versions of a resource that are served.
    """

    validating: Sequence[JSONObject]
    mutating: Sequence[JSONObject]
    bindings: Sequence[JSONObject]
    params: Params
    versions: Callable[[ResourceType], Sequence[ResourceType]]

    def check(self, attributes: Attributes) -> list[str]:
        """Check a write.

        Returns:
            What the client is warned of.

        Raises:
            Failure: a policy refuses it, or only a real server can evaluate one (501).
        """
        warnings: list[str] = []
        for policy, binding, seen in self._bound(self.validating, attributes):
            actions = binding["spec"].get("validationActions") or ()
            try:
                reasons = list(self._broken(policy, binding, seen))
            except EvaluationError as error:
                reasons = list(_on_error(policy, str(error)))
            for why, reason in reasons:
                of = f"ValidatingAdmissionPolicy '{_name(policy)}' with binding '{_name(binding)}'"
                if "Warn" in actions:
                    warnings.append(f"Validation failed for {of}: {why}")
                if "Deny" in actions:
                    raise _denied(attributes, f"{of} denied request: {why}", reason)
        return warnings

    def refuse_mutations(self, attributes: Attributes) -> None:
        """Refuse a write that a policy would change, which needs a real server.

        Raises:
            Failure: naming the policy (501).
        """
        for policy, _, _ in self._bound(self.mutating, attributes):
            why = f"it is of the MutatingAdmissionPolicy {_name(policy)!r}, which makes objects"
            mutation = (policy["spec"].get("mutations") or [{}])[0]
            found = mutation.get("applyConfiguration") or mutation.get("jsonPatch") or {}
            raise not_evaluated(str(found.get("expression") or ""), why)

    def _bound(
        self, policies: Sequence[JSONObject], attributes: Attributes
    ) -> Iterator[tuple[JSONObject, JSONObject, Attributes]]:
        """Yield the policies that are about a write, each with its bindings."""
        versions = self.versions(attributes.resource)
        for policy in policies:
            seen = matched(attributes, policy["spec"].get("matchConstraints") or {}, versions)
            for binding in self.bindings if seen is not None else ():
                is_its = binding["kind"] == f"{policy['kind']}Binding"
                if not is_its or binding["spec"].get("policyName") != _name(policy):
                    continue
                terms = binding["spec"].get("matchResources") or {}
                narrowed = {"resourceRules": _EVERYTHING, **terms}
                if seen is not None and matched(seen, narrowed, ()) is not None:
                    yield policy, binding, seen

    def _broken(
        self, policy: JSONObject, binding: JSONObject, attributes: Attributes
    ) -> Iterator[tuple[str, str]]:
        """Yield why a write breaks a policy, with the machine-readable reasons."""
        for params in self._params(policy, binding, attributes):
            yield from _judged(policy, attributes, params)

    def _params(
        self, policy: JSONObject, binding: JSONObject, attributes: Attributes
    ) -> Sequence[JSONObject | None]:
        kind, reference = policy["spec"].get("paramKind"), binding["spec"].get("paramRef")
        if not kind or not reference:
            return [None]
        found = self.params(kind, reference, attributes.namespace)
        if found is None:
            raise EvaluationError(
                "failed to configure policy: the kind of its params is not served"
            )
        if not found and reference.get("parameterNotFoundAction") != "Allow":
            raise EvaluationError(
                "no params found for policy binding with `Deny` parameterNotFoundAction"
            )
        return found


def _judged(
    policy: JSONObject, attributes: Attributes, params: JSONObject | None
) -> Iterator[tuple[str, str]]:
    namespace = attributes.namespace
    known: dict[str, object] = {
        **attributes.variables(),
        "params": params,
        "namespaceObject": attributes.namespace_object(namespace) if namespace else None,
    }
    spec = policy["spec"]
    if not fulfils(attributes, spec.get("matchConditions") or (), known):
        return
    known["variables"] = values = {}
    for variable in spec.get("variables") or ():
        try:
            values[variable["name"]] = evaluate(variable["expression"], known)
        except EvaluationError:
            continue  # who reads it fails
    for rule in spec.get("validations") or ():
        expression = rule["expression"]
        try:
            if evaluate(expression, known) is True:
                continue
            why = message_of(rule, known) or f"failed expression: {expression.strip()}"
            yield why, str(rule.get("reason") or "Invalid")
        except EvaluationError as error:
            yield from _on_error(policy, f"expression '{expression}' resulted in error: {error}")


def _on_error(policy: JSONObject, why: str) -> Iterator[tuple[str, str]]:
    if policy["spec"].get("failurePolicy") != "Ignore":
        yield why, "Invalid"


def _denied(attributes: Attributes, why: str, reason: str) -> Failure:
    failure = failures.forbidden(attributes.resource, attributes.name, why)
    details = {**(failure.details or {}), "causes": [{"message": why}]}
    return Failure(_CODES.get(reason, 422), failure.message, reason=reason, details=details)


def _name(body: JSONObject) -> str:
    return str(body["metadata"]["name"])
