"""What the demo wants decoded of each object: its projections."""

from __future__ import annotations

from pyinformer.apimachinery import View


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
