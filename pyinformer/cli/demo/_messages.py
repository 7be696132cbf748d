"""Events of the demo's resources in words, and a log of the last of them.

In goes an event as a handler gets it; out comes a sentence, or None where there is nothing to say:
for what was there before, and for changes that only a controller cares about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from pyinformer.apimachinery import Added, Event, Updated, View

_KEPT = 32  # objects of a topic; more than the demo shows


@final
@dataclass(frozen=True, slots=True)
class LogEntry:
    """Something that happened."""

    number: int
    topic: str
    """What it is about: the resource's plural name."""
    text: str


@final
class EventLog:
    """Remembers, by topic, the last thing that happened to each of the last few objects."""

    def __init__(self) -> None:
        self.count = 0
        self._topics: dict[str, dict[str, LogEntry]] = {}

    def record(self, topic: str, key: str, text: str | None) -> None:
        """Remember a sentence about an object; None is nothing to say."""
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
        """Return the newest entry of each topic among those after a number, in order."""
        newest = [entry for topic in self._topics for entry in self.last(topic, 1)]
        recent = [entry for entry in newest if entry.number > after]
        return sorted(recent, key=lambda entry: entry.number)


class PodSpec(View):
    """Of a pod's spec."""

    node_name: str = ""


class PodStatus(View):
    """Of a pod's status."""

    phase: str = ""


class PodView(View):
    """Where a pod is and how it does."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeSpec(View):
    """Of a node's spec."""

    unschedulable: bool = False


class NodeView(View):
    """Whether a node takes pods."""

    spec: NodeSpec = NodeSpec()


class Container(View):
    """Of a container."""

    image: str = ""


class TemplateSpec(View):
    """Of a pod template's spec."""

    containers: tuple[Container, ...] = ()


class Template(View):
    """Of a pod template."""

    spec: TemplateSpec = TemplateSpec()


class DeploymentSpec(View):
    """Of a deployment's spec."""

    replicas: int = 1
    template: Template = Template()


class DeploymentStatus(View):
    """Of a deployment's status."""

    replicas: int = 0
    updated_replicas: int = 0


class DeploymentView(View):
    """How far a deployment has come with its image."""

    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()

    @property
    def version(self) -> str:
        """The tag of the first container's image."""
        containers = self.spec.template.spec.containers
        return containers[0].image.rpartition(":")[2] if containers else ""


def pod_message(event: Event[PodView]) -> str | None:
    """Say what happened to a pod."""
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
    """Say that a node is drained, or is back.

    Args:
        event: what happened.
        pods_on: counts the pods of a node.
    """
    if not isinstance(event, Updated):
        return None
    name, now = event.new.metadata.name, event.new.view.spec.unschedulable
    if now == event.old.view.spec.unschedulable:
        return None
    if now:
        return f"{name} is being drained: {pods_on(name)} pods to move"
    return f"{name} takes pods again"


def deployment_message(event: Event[DeploymentView]) -> str | None:
    """Say how far a deployment has come with its image."""
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
