"""Messages about the events of the demo, a log of the last ones, and the views they read.

A function returns None for existing objects, and for changes that only a controller needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from pyinformer.objects import Added, Event, Updated, View

_KEPT = 32  # objects per topic; more than the demo shows


@final
@dataclass(frozen=True, slots=True)
class LogEntry:
    """One message of the log."""

    number: int
    topic: str
    """The plural name of the resource."""
    text: str


@final
class EventLog:
    """Keeps, by topic, the last message about each of the last few objects."""

    def __init__(self) -> None:
        self.count = 0
        self._topics: dict[str, dict[str, LogEntry]] = {}

    def record(self, topic: str, key: str, text: str | None) -> None:
        """Keep a message about an object; None is ignored."""
        if text is None:
            return
        self.count += 1
        entries = self._topics.setdefault(topic, {})
        entries.pop(key, None)
        entries[key] = LogEntry(self.count, topic, text)
        if len(entries) > _KEPT:
            del entries[next(iter(entries))]

    def last(self, topic: str, count: int) -> list[LogEntry]:
        """Return the newest entries of a topic, the newest last."""
        return list(self._topics.get(topic, {}).values())[-count:] if count > 0 else []

    def last_of_each(self, *, after: int) -> list[LogEntry]:
        """Return the newest entry of each topic, if its number is greater than `after`."""
        newest = [entry for topic in self._topics for entry in self.last(topic, 1)]
        recent = [entry for entry in newest if entry.number > after]
        return sorted(recent, key=lambda entry: entry.number)


class PodSpec(View):
    """The decoded part of a pod's spec."""

    node_name: str = ""


class PodStatus(View):
    """The decoded part of a pod's status."""

    phase: str = ""


class PodView(View):
    """The node and the phase of a pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(View):
    """The decoded part of a node's spec."""

    unschedulable: bool = False


class NodeView(View):
    """Whether a node accepts pods."""

    spec: NodeSpec = NodeSpec()


class Container(View):
    """The decoded part of a container."""

    image: str = ""


class TemplateSpec(View):
    """The decoded part of a pod template's spec."""

    containers: tuple[Container, ...] = ()


class Template(View):
    """The decoded part of a pod template."""

    spec: TemplateSpec = TemplateSpec()


class DeploymentSpec(View):
    """The decoded part of a deployment's spec."""

    replicas: int = 1
    template: Template = Template()


class DeploymentStatus(View):
    """The decoded part of a deployment's status."""

    replicas: int = 0
    updated_replicas: int = 0


class DeploymentView(View):
    """The image and the rollout of a deployment."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def version(self) -> str:
        """The tag of the first container's image."""
        containers = self.spec.template.spec.containers
        return containers[0].image.rpartition(":")[2] if containers else ""


def pod_message(event: Event[PodView]) -> str | None:
    """Return a message about a pod: new, scheduled, in another phase, or deleted."""
    if isinstance(event, Updated):
        name, old, new = event.new.metadata.name, event.old.view, event.new.view
        node = new.spec.node_name
        if old.status.phase != new.status.phase:
            return f"{name} on {node}: {old.status.phase} -> {new.status.phase}"
        return f"{name} goes to {node}" if old.spec.node_name != node else None
    if isinstance(event, Added):
        return None if event.is_in_initial_list else f"{event.object.metadata.name} is new"
    pod = event.last_known
    return f"{pod.metadata.name} on {pod.view.spec.node_name or 'no node'} is gone"


def node_message(event: Event[NodeView], pods_on: Callable[[str], int]) -> str | None:
    """Return a message about a node that is drained, or accepts pods again.

    Args:
        event: the event of the node.
        pods_on: returns the number of pods on a node.
    """
    if not isinstance(event, Updated):
        return None
    name, now = event.new.metadata.name, event.new.view.spec.unschedulable
    if now == event.old.view.spec.unschedulable:
        return None
    if now:
        return f"{name} is being drained: {pods_on(name)} pods to move"
    return f"{name} accepts pods again"


def deployment_message(event: Event[DeploymentView]) -> str | None:
    """Return a message about the rollout of a deployment."""
    if not isinstance(event, Updated):
        return None
    name, old, new = event.new.metadata.name, event.old.view, event.new.view
    if old.version != new.version:
        return f"deployment {name}: from image {old.version} to {new.version}"
    if old.status == new.status:
        return None
    status = new.status
    wanted = new.spec.replicas
    if (status.updated_replicas, status.replicas) == (wanted, wanted):
        return f"deployment {name}: all {wanted} replicas on image {new.version}"
    return (
        f"deployment {name}: {status.updated_replicas} of {wanted} replicas on image {new.version}"
    )
