"""Policies that refuse, warn of or change requests, with the bindings that put them into force."""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal, TypeAlias, final, get_args

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import (
    JSONObject,
    check_choice,
    check_flag,
    check_iterable,
    check_text,
    check_type,
)
from pyinformer.policies._mutations import Mutation
from pyinformer.policies._rules import Rule, check_expression

Operation: TypeAlias = Literal["create", "update", "delete", "connect"]
"""A request that a policy looks at. A patch is an update, or a creation by apply."""
Action: TypeAlias = Literal["deny", "warn", "audit"]
"""What happens to a request that breaks a rule: it is refused, or allowed with a warning for the
client, or allowed with an annotation in the audit log."""

_GROUP: Final = "admissionregistration.k8s.io/v1"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_NAME: Final = 253
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WRITES: Final[tuple[Operation, ...]] = ("create", "update")
_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"  # the server sets it on every Namespace


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """An object whose fields rules read as `params`: limits that others may set.

    Args:
        api_version: of its kind.
        kind: such as ConfigMap.
        name: of the object.
        namespace: of the object; empty for that of the object that is written.
        if_missing: what happens to requests while there is no such object.

    Raises:
        InvalidArgumentError: a value is empty or unknown.
    """

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    if_missing: Literal["deny", "allow"] = "deny"

    def __post_init__(self) -> None:
        for name in ("api_version", "kind", "name"):
            check_text(name, getattr(self, name))
            if not getattr(self, name):
                raise InvalidArgumentError(name, "must not be empty")
        check_text("namespace", self.namespace)
        check_choice("if_missing", self.if_missing, ("deny", "allow"))

    @property
    def kind_of(self) -> JSONObject:
        """The `paramKind` of the policy."""
        return {"apiVersion": self.api_version, "kind": self.kind}

    @property
    def reference(self) -> JSONObject:
        """The `paramRef` of the binding."""
        found: JSONObject = {
            "name": self.name,
            "parameterNotFoundAction": self.if_missing.capitalize(),
        }
        return {**found, "namespace": self.namespace} if self.namespace else found


@dataclass(frozen=True, slots=True)
class _AnyPolicy:
    """What both kinds of policies have in common."""

    name: str
    """Of the policy and of its binding; it is not in a namespace, so it is best qualified."""
    _: KW_ONLY
    on: Sequence[tuple[str, str]]
    """The resources, each as `("apps/v1", "deployments")`; `*` for all, as the group's version, or
    the plural; a subresource is `("v1", "pods/ephemeralcontainers")`."""
    operations: Collection[Operation] = _WRITES
    """The requests that it looks at."""
    when: Mapping[str, str] = field(default_factory=dict)
    """Conditions in CEL by a name, all of which a request fulfils that the policy looks at."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Expressions in CEL by the names by which others read them, as `variables.name`."""
    namespaces: Collection[str] = ()
    """Only objects in these namespaces; empty for all objects, also for those in no namespace."""
    params: Params | None = None
    """An object that rules read as `params`."""
    ignores_failures: bool = False
    """Whether a request is allowed where an expression fails, for lack of a field, say."""

    def _check(self) -> None:
        check_text("name", self.name)
        if not _NAME.fullmatch(self.name) or len(self.name) > _MAX_NAME:
            reason = f"must be a name of Kubernetes, such as no-latest.acme.io, got {self.name!r}"
            raise InvalidArgumentError("name", reason)
        _check_resources(self.on)
        _check_all("operations", self.operations, get_args(Operation))
        for argument in ("when", "variables"):
            found = getattr(self, argument)
            if not isinstance(found, Mapping):
                what = type(found).__name__
                raise InvalidTypeError(argument, f"must be expressions by names, not {what}")
            for name, expression in found.items():
                check_expression(f"{argument}[{name!r}]", expression)
        for name in self.variables:
            if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
                raise InvalidArgumentError("variables", f"must be identifiers, got {name!r}")
        if isinstance(self.namespaces, str):
            raise InvalidTypeError("namespaces", f"must be several names, not {self.namespaces!r}")
        check_iterable("namespaces", self.namespaces, shown="names of namespaces")
        if self.params is not None:
            check_type("params", self.params, Params)
        check_flag("ignores_failures", self.ignores_failures)

    def _spec(self) -> JSONObject:
        spec: JSONObject = {
            "failurePolicy": "Ignore" if self.ignores_failures else "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        **_resource(one),
                        "operations": [each.upper() for each in self.operations],
                        # A selector of namespaces does not leave out objects that are in none.
                        **({"scope": "Namespaced"} if self.namespaces else {}),
                    }
                    for one in self.on
                ]
            },
        }
        if self.params is not None:
            spec["paramKind"] = self.params.kind_of
        if self.when:
            spec["matchConditions"] = _named(self.when)
        if self.variables:
            spec["variables"] = _named(self.variables)
        return spec

    def _binding(self) -> JSONObject:
        spec: JSONObject = {"policyName": self.name}
        if self.params is not None:
            spec["paramRef"] = self.params.reference
        if self.namespaces:
            chosen = {
                "key": _NAMESPACE_LABEL,
                "operator": "In",
                "values": sorted(self.namespaces),
            }
            spec["matchResources"] = {"namespaceSelector": {"matchExpressions": [chosen]}}
        return spec

    def _object(self, kind: str, spec: JSONObject) -> JSONObject:
        metadata = {"name": self.name}
        return {"apiVersion": _GROUP, "kind": kind, "metadata": metadata, "spec": spec}


@final
@dataclass(frozen=True, slots=True)
class Policy(_AnyPolicy):
    """Rules that requests have to fulfil, which the server checks by itself.

        no_latest = Policy(
            "no-latest.acme.io",
            on=[("v1", "pods")],
            rules=[Rule("object.spec.containers.all(c, !c.image.endsWith(':latest'))", "pin it")],
        )

    Raises:
        InvalidArgumentError: a value is invalid. A mistake in an expression is found by the server
            alone, which refuses the policy with line and column.
        InvalidTypeError: a value is of another type.

    Source:
        admissionregistration.k8s.io/v1, ValidatingAdmissionPolicy.
    """

    _: KW_ONLY
    rules: Sequence[Rule]
    """All of them have to be fulfilled."""
    action: Action | Collection[Action] = "deny"
    """What happens otherwise; `("warn", "audit")` for both. `deny` includes a warning."""

    def __post_init__(self) -> None:
        self._check()
        _check_items("rules", self.rules, Rule)
        chosen = (self.action,) if isinstance(self.action, str) else self.action
        _check_all("action", chosen, get_args(Action))
        if {"deny", "warn"} <= set(self._actions):
            raise InvalidArgumentError("action", "must not be both: deny also says why")

    @property
    def _actions(self) -> tuple[Action, ...]:
        return (self.action,) if isinstance(self.action, str) else tuple(self.action)

    def to_dicts(self) -> tuple[JSONObject, JSONObject]:
        """Return the ValidatingAdmissionPolicy and its binding."""
        kind = "ValidatingAdmissionPolicy"
        spec = {**self._spec(), "validations": [one.to_dict() for one in self.rules]}
        binding = self._binding()
        binding["validationActions"] = [one.capitalize() for one in self._actions]
        return self._object(kind, spec), self._object(f"{kind}Binding", binding)


@final
@dataclass(frozen=True, slots=True)
class MutatingPolicy(_AnyPolicy):
    """Changes that the server makes to objects that are created or updated, before it checks them.

        owner = MutatingPolicy(
            "owner.acme.io",
            on=[("v1", "configmaps")],
            operations=["create"],
            mutations=[Mutation('Object{metadata: Object.metadata{labels: {"by": "policy"}}}')],
        )

    Raises:
        InvalidArgumentError: a value is invalid. A mistake in an expression is found by the server
            alone, which refuses the policy with line and column.
        InvalidTypeError: a value is of another type.

    Source:
        admissionregistration.k8s.io/v1, MutatingAdmissionPolicy.
    """

    _: KW_ONLY
    mutations: Sequence[Mutation]
    """Made one after the other. A change must be one that has no effect the second time."""
    repeats: bool = True
    """Whether they are made again if a later policy or webhook has changed the object."""

    def __post_init__(self) -> None:
        self._check()
        _check_items("mutations", self.mutations, Mutation)
        check_flag("repeats", self.repeats)
        if not set(self.operations) <= set(_WRITES):
            reason = "must be create and update: nothing else has an object to change"
            raise InvalidArgumentError("operations", reason)

    def to_dicts(self) -> tuple[JSONObject, JSONObject]:
        """Return the MutatingAdmissionPolicy and its binding."""
        kind = "MutatingAdmissionPolicy"
        spec = {
            **self._spec(),
            "reinvocationPolicy": "IfNeeded" if self.repeats else "Never",
            "mutations": [one.to_dict() for one in self.mutations],
        }
        return self._object(kind, spec), self._object(f"{kind}Binding", self._binding())


def _resource(one: tuple[str, str]) -> JSONObject:
    group, _, version = one[0].rpartition("/")
    return {"apiGroups": [group], "apiVersions": [version], "resources": [one[1]]}


def _named(expressions: Mapping[str, str]) -> list[JSONObject]:
    return [{"name": name, "expression": text.strip()} for name, text in expressions.items()]


def _check_resources(on: object) -> None:
    check_iterable("on", on, shown="resources such as ('v1', 'pods')")
    resources = list(on)  # type: ignore[call-overload]  # checked
    if not resources:
        raise InvalidArgumentError("on", "must not be empty: which resources?")
    for one in resources:
        is_pair = isinstance(one, tuple | list) and len(one) == 2  # noqa: PLR2004 - a pair
        if not is_pair or not all(isinstance(part, str) and part for part in one):
            raise InvalidTypeError("on", f"must be pairs such as ('v1', 'pods'), got {one!r}")


def _check_all(argument: str, values: object, choices: tuple[str, ...]) -> None:
    if isinstance(values, str):
        raise InvalidTypeError(argument, f"must be several, not the text {values!r}")
    check_iterable(argument, values, shown=" or ".join(choices))
    found = list(values)  # type: ignore[call-overload]  # checked
    if not found:
        raise InvalidArgumentError(argument, "must not be empty")
    for one in found:
        check_choice(argument, one, choices)


def _check_items(argument: str, values: object, kind: type) -> None:
    check_iterable(argument, values, shown=f"{kind.__name__}s")
    found = list(values)  # type: ignore[call-overload]  # checked
    if not found:
        raise InvalidArgumentError(argument, "must not be empty")
    for one in found:  # operator.Rule is another class of this name
        check_type(argument, one, kind, shown=f"a pyinformer.policies.{kind.__name__}")
