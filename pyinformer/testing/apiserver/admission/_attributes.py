"""One write as policies and webhooks see it, and whether they are about it.

Source:
    k8s.io/apiserver pkg/admission/plugin/webhook/predicates and plugin/policy/matching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from pyinformer.objects import GroupVersionKind, JSONObject, LabelSelector
from pyinformer.testing.apiserver.admission._expressions import EvaluationError, evaluate
from pyinformer.testing.apiserver.resources import ResourceType

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE"]

GROUP: Final = "admissionregistration.k8s.io"
"""Its objects are never reviewed: then no client could repair a mistake in one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """One write.

    Attributes:
        resource: what is written.
        subresource: "", or the part.
        name: may be empty, if the server makes it.
        state: the new one; None for a deletion.
        old: the state before; None for a creation.
        user: username and groups.
        namespace: of the object; its own name for a Namespace.
        namespace_object: returns a Namespace by its name.
    """

    operation: Operation
    resource: ResourceType
    subresource: str
    namespace: str
    name: str
    state: JSONObject | None
    old: JSONObject | None
    user: JSONObject
    dry_run: bool
    namespace_object: Callable[[str], JSONObject]

    def request(self) -> JSONObject:
        """Return the request, as expressions read it, and reviews without the objects."""
        resource = self.resource
        written = self.state if self.state is not None else (self.old or {})
        of = GroupVersionKind.of(
            str(written.get("apiVersion") or resource.api_version),
            str(written.get("kind") or resource.kind),
        )
        kind: JSONObject = {"group": of.group, "version": of.version, "kind": of.kind}
        path: JSONObject = {
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
        }
        texts = {
            "subResource": self.subresource,
            "requestSubResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
        }
        return {
            "kind": kind,
            "resource": path,
            "requestKind": kind,
            "requestResource": path,
            **{name: text for name, text in texts.items() if text},  # empty ones are left out
            "operation": self.operation,
            "userInfo": self.user,
            "dryRun": self.dry_run,
            "options": {},
        }

    def variables(self) -> dict[str, object]:
        """Return what conditions and rules read."""
        return {"request": self.request(), "object": self.state, "oldObject": self.old}

    def with_state(self, body: JSONObject) -> Attributes:
        """Return the write with another new state."""
        return replace(self, state=body)

    def in_version(self, resource: ResourceType) -> Attributes:
        """Return the write in another version of its resource, which has the same fields."""
        if resource.version == self.resource.version:
            return self

        def converted(body: JSONObject | None) -> JSONObject | None:
            return None if body is None else {**body, "apiVersion": resource.api_version}

        if self.subresource == "scale":
            return replace(self, resource=resource)
        return replace(
            self, resource=resource, state=converted(self.state), old=converted(self.old)
        )


def matched(
    attributes: Attributes, terms: Mapping[str, object], versions: Sequence[ResourceType]
) -> Attributes | None:
    """Return a write in the version in which policies or webhooks see it; None if they do not.

    Args:
        attributes: the write.
        terms: the rules, selectors and match policy, as policies and webhooks have them.
        versions: the other versions of the resource that are served.
    """
    if attributes.resource.group == GROUP:
        return None
    rules = _dicts(terms, "rules") or _dicts(terms, "resourceRules")
    others = versions if terms.get("matchPolicy") != "Exact" else ()
    for resource in (attributes.resource, *others):
        seen = attributes.in_version(resource)
        if any(_is_about(rule, seen) for rule in rules):
            excluded = any(_is_about(rule, seen) for rule in _dicts(terms, "excludeResourceRules"))
            return None if excluded or not _is_selected(terms, seen) else seen
    return None


def fulfils(
    attributes: Attributes, conditions: Sequence[JSONObject], more: Mapping[str, object]
) -> bool:
    """Return whether a write fulfils all conditions.

    Raises:
        EvaluationError: one failed, and none is unfulfilled.
        Failure: only a real server can evaluate one (501).
    """
    failed: list[str] = []
    for condition in conditions:
        expression = str(condition["expression"])
        try:
            if evaluate(expression, {**attributes.variables(), **more}) is False:
                return False
        except EvaluationError as error:
            failed.append(f"expression '{expression}' resulted in error: {error}")
    if failed:
        raise EvaluationError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
    return True


def _dicts(terms: Mapping[str, object], name: str) -> list[JSONObject]:
    found = terms.get(name)
    return list(found) if isinstance(found, list) else []


def _is_about(rule: JSONObject, attributes: Attributes) -> bool:
    resource = attributes.resource
    scope = rule.get("scope") or "*"
    is_namespaced = bool(attributes.namespace) and resource.qualified_name != "namespaces"
    names = rule.get("resourceNames") or ()
    return (
        _has(rule, "operations", attributes.operation)
        and _has(rule, "apiGroups", resource.group)
        and _has(rule, "apiVersions", resource.version)
        and (scope == "*" or (scope == "Namespaced") == is_namespaced)
        and (not names or attributes.name in names)
        and any(one in rule.get("resources", ()) for one in _paths(attributes))
    )


def _paths(attributes: Attributes) -> Iterator[str]:
    plural, below = attributes.resource.plural, attributes.subresource
    yield from ("*/*", f"{plural}/*")  # of a resource, this is about the object as well
    if below:
        yield from (f"{plural}/{below}", f"*/{below}")
    else:
        yield from (plural, "*")


def _has(rule: JSONObject, name: str, value: str) -> bool:
    allowed = rule.get(name) or ()
    return "*" in allowed or value in allowed


def _is_selected(terms: Mapping[str, object], attributes: Attributes) -> bool:
    by_namespace, by_object = (_selector(terms, one) for one in ("namespace", "object"))
    if not by_namespace.is_empty and attributes.namespace:
        is_one = attributes.resource.qualified_name == "namespaces"
        own = attributes.state or attributes.old or {}
        found = own if is_one else attributes.namespace_object(attributes.namespace)
        if not by_namespace.matches(_labels(found)):
            return False
    states = [one for one in (attributes.state, attributes.old) if one is not None]
    return by_object.is_empty or any(by_object.matches(_labels(one)) for one in states)


def _selector(terms: Mapping[str, object], of: str) -> LabelSelector:
    found = terms.get(f"{of}Selector")
    return LabelSelector.parse(found if isinstance(found, Mapping) else None)


def _labels(body: JSONObject) -> Mapping[str, str]:
    return (body.get("metadata") or {}).get("labels") or {}
