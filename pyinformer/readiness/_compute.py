"""Decides whether an object is ready: what holds for every kind, then the rule of its kind."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from pyinformer.errors import InvalidArgumentError, InvalidObjectError, InvalidTypeError
from pyinformer.objects import JSONObject, KubeObject, check_type, split_api_version
from pyinformer.readiness._built_in import BUILT_IN, OBSERVED, by_condition
from pyinformer.readiness._fields import Body, UnreadableError, condition, read
from pyinformer.readiness._result import Readiness, failed, in_progress, ready

_NOTHING_MISSING: Final = ready("no condition says that it is not ready")


def of(
    obj: object, *, rules: Mapping[tuple[str, str], Callable[[JSONObject], Readiness]] | None = None
) -> Readiness:
    """Return whether an object is ready, and what is missing.

        found = readiness.of(deployment)
        if found.state != "Ready":
            return  # until the next event; found.reason: "2 of 3 replicas are available"

    An object that is being deleted is `InProgress`, and so is one whose controller has not observed
    its generation, or with fields of wrong types. Built-in kinds have rules of their own. Other
    kinds are read by the conditions `Stalled`, `Reconciling`, `Failed`, `Ready` and `Available`,
    and are `Ready` without them, as for kstatus. No clock is read and nothing is requested.

    Args:
        obj: a KubeObject, the dict of an object, or a whole model with apiVersion and kind.
        rules: functions by `(group, kind)`, such as `("acme.io", "Database")`, which decide alone,
            also instead of a built-in rule. Each receives the dict of an object that is not being
            deleted; `readiness.of(body)` inside it gives the answer without it.

    Raises:
        InvalidArgumentError: a key of `rules` is not a group without a version, and a kind.
        InvalidTypeError: `obj` is not an object, or a rule is not a function that returns a
            Readiness. Errors of a rule itself reach the caller.

    Source:
        cli-utils pkg/kstatus/status, Compute; kubectl pkg/polymorphichelpers/rollout_status.go.
    """
    if rules is not None:
        _check_rules(rules)
    try:
        body = _body_of(obj)
        if read(body, "metadata.deletionTimestamp", str, ""):
            return in_progress("is being deleted")
        version, name = read(body, "apiVersion", str, ""), read(body, "kind", str, "")
        if not version or not name:
            return in_progress("apiVersion or kind is missing, so that its rule is unknown")
        kind = split_api_version(version)[0], name
        if rules and kind in rules:
            found = rules[kind](dict(body))
            check_type("rules", found, Readiness, shown="functions that return a Readiness")
            return found
        return _of_any_kind(body, kind) or BUILT_IN.get(kind, _by_conditions)(body)
    except UnreadableError as error:
        return in_progress(str(error))


def _of_any_kind(body: Body, kind: tuple[str, str]) -> Readiness | None:
    """Return what holds whatever the kind is, or None: the rule of the kind decides."""
    if kind == ("meta.k8s.io", "PartialObjectMetadata"):
        return in_progress("only its metadata is here, and the status is needed")
    generation = read(body, "metadata.generation", int, 0)
    observed = read(body, "status.observedGeneration", int, None)
    if observed is None and kind in OBSERVED:
        return in_progress("its controller has not observed it yet")
    if body.get("status") is None:
        return None
    if observed is not None and observed < generation:
        return in_progress(f"generation {generation} is not observed yet, only {observed}")
    stalled, reconciling = condition(body, "Stalled"), condition(body, "Reconciling")
    if stalled.status == "True":
        return failed(str(stalled))
    return in_progress(str(reconciling)) if reconciling.status == "True" else None


def _by_conditions(body: Body) -> Readiness:
    if body.get("status") is None:
        return _NOTHING_MISSING
    if (broken := condition(body, "Failed")).status == "True":
        return failed(str(broken))
    for name in ("Ready", "Available"):
        if condition(body, name).status:
            return by_condition(body, name=name)
    for name in ("Stalled", "Reconciling", "Failed"):
        if (found := condition(body, name)).status == "Unknown":
            return in_progress(str(found))
    return _NOTHING_MISSING


def _check_rules(rules: Mapping[tuple[str, str], object]) -> None:
    check_type("rules", rules, Mapping, shown="functions by (group, kind)")
    for key, rule in rules.items():
        if not isinstance(key, tuple) or [*map(type, key)] != [str, str] or "/" in key[0]:
            reason = f"must have keys such as ('acme.io', 'Database'), got {key!r}"
            raise InvalidArgumentError("rules", reason)
        check_type(f"rules[{key!r}]", rule, Callable, shown="a function")  # type: ignore[arg-type]


def _body_of(obj: object) -> Body:
    if isinstance(obj, Mapping):
        return obj
    if isinstance(obj, KubeObject):
        try:
            return obj.to_dict()
        except InvalidObjectError:
            raise UnreadableError("its body cannot be decoded") from None
    try:
        found = msgspec.to_builtins(obj, str_keys=True, enc_hook=_fields_of)
    except (TypeError, ValueError, RecursionError):  # of a value that JSON cannot express
        found = None
    if isinstance(found, dict):
        return found
    raise InvalidTypeError("obj", f"must be an object, dict or model, not {type(obj).__name__}")


def _fields_of(value: Any) -> object:  # noqa: ANN401
    """Return what msgspec cannot read by itself: a model of pydantic or of a Kubernetes client."""
    kind = type(value)
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    if hasattr(kind, "openapi_types"):
        return {value.attribute_map[name]: getattr(value, name) for name in value.openapi_types}
    if hasattr(kind, "to_dict"):
        return value.to_dict()
    raise TypeError
