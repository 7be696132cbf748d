"""The parts of a pod that clients write apart: its binding, its eviction, its debug containers.

Decides what a pod or a disruption budget becomes, and stores nothing.
"""

from __future__ import annotations

from typing import Final

from pyinformer.objects import JSONObject, LabelSelector
from pyinformer.testing.apiserver.requests import Failure, failures

_FINISHED: Final = frozenset({"Succeeded", "Failed"})
_NOT_STARTED: Final = frozenset({"Pending"})
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_BUSY_SECONDS: Final = 10


def check_of_pod(kind: str, body: JSONObject, name: str) -> None:
    """Refuse an Eviction or a Binding whose name is not that of the pod."""
    if (body.get("metadata") or {}).get("name") != name:
        raise Failure(400, f"name in URL does not match name in {kind} object")


def bound(pod: JSONObject, binding: JSONObject, now: str) -> JSONObject:
    """Return a pod that is assigned to the node of a binding.

    Raises:
        Failure: the binding does not name a node (500), or the pod has one (409).
    """
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    target: JSONObject = binding.get("target") or {}
    node = target.get("name")
    if target.get("kind") not in (None, "", "Node"):
        supported = 'supported values: "Node", "<empty>"'
        message = f'target.kind: Unsupported value: "{target["kind"]}": {supported}'
        raise Failure(500, message, reason="")
    if not node:
        raise Failure(500, "target.name: Required value", reason="")
    if spec.get("nodeName"):
        message = (
            f'Operation cannot be fulfilled on pods/binding "{name}": pod {name} is already'
            f' assigned to node "{spec["nodeName"]}"'
        )
        raise Failure(409, message, details={"name": name, "kind": "pods/binding"})
    metadata = pod["metadata"]
    added = (binding.get("metadata") or {}).get("annotations") or {}
    if added:
        metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **added}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    status = pod.get("status") or {}
    others = [one for one in status.get("conditions") or () if one["type"] != "PodScheduled"]
    return {
        **pod,
        "metadata": metadata,
        "spec": {**spec, "nodeName": node},
        "status": {**status, "conditions": [*others, scheduled]},
    }


def counts_for_budgets(pod: JSONObject) -> bool:
    """Return whether disruption budgets protect a pod: it has started and not ended."""
    phase = (pod.get("status") or {}).get("phase")
    is_leaving = "deletionTimestamp" in pod["metadata"]
    return not is_leaving and phase not in _FINISHED | _NOT_STARTED


def protects(budget: JSONObject, pod: JSONObject) -> bool:
    """Return whether a disruption budget of the pod's namespace selects a pod."""
    selector = (budget.get("spec") or {}).get("selector")
    if selector is None:
        return False
    return LabelSelector.parse(selector).matches(pod["metadata"].get("labels") or {})


def is_free(budget: JSONObject, pod: JSONObject) -> bool:
    """Return whether an eviction of a pod leaves a budget as it is: the pod is not ready.

    Source:
        pkg/registry/core/pod/storage/eviction.go, Create: unhealthyPodEvictionPolicy.
    """
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    needed = status.get("desiredHealthy", 0)
    return bool(needed) and status.get("currentHealthy", 0) >= needed


def check_budgets(budgets: list[JSONObject]) -> None:
    """Refuse an eviction of a pod that several budgets protect."""
    if len(budgets) > 1:
        message = (
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does"
            " not support."
        )
        raise Failure(500, message)


def spent(budget: JSONObject, pod: str, now: str) -> JSONObject:
    """Return a disruption budget after one more eviction.

    Raises:
        Failure: it does not allow one (429).
    """
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise _refusal(why, retryAfterSeconds=_BUSY_SECONDS)
    if status.get("disruptionsAllowed", 0) < 1:
        needed, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        raise _refusal(
            f"The disruption budget {name} needs {needed} healthy pods and has {has} currently"
        )
    return {
        **budget,
        "status": {
            **status,
            "disruptionsAllowed": status["disruptionsAllowed"] - 1,
            "disruptedPods": {**(status.get("disruptedPods") or {}), pod: now},
        },
    }


def _refusal(why: str, **details: int) -> Failure:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return Failure(429, _REFUSED, details={"causes": causes, **details})


def with_debug_containers(before: JSONObject, body: JSONObject) -> JSONObject:
    """Return a pod with the ephemeral containers of another body, which may only be added.

    Raises:
        Failure: 422.
    """
    wanted = (body.get("spec") or {}).get("ephemeralContainers") or []
    old = (before.get("spec") or {}).get("ephemeralContainers") or []
    new = {one.get("name"): one for one in wanted}
    for one in old:
        if new.get(one["name"]) != one:
            what = "changed" if one["name"] in new else "removed"
            sentence = (
                f'Forbidden: existing ephemeral containers "{one["name"]}" may not be {what}\n'
            )
            cause = ("FieldValueForbidden", "spec.ephemeralContainers", sentence)
            raise failures.invalid("Pod", "", before["metadata"]["name"], [cause])
    if not wanted:
        return before
    return {**before, "spec": {**before["spec"], "ephemeralContainers": wanted}}
