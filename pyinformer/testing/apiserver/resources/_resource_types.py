"""The resources that the embedded server serves: built-in ones, and custom ones by registration.

A ResourceType says how the objects of one resource are stored, selected and written.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

from pyinformer.objects import JSONObject, split_api_version
from pyinformer.testing.apiserver.resources._built_in_schemas import built_in_schema
from pyinformer.testing.apiserver.resources._discovery_names import (
    ADMISSION_GROUP,
    ADMISSION_KINDS,
    CATEGORIES,
    SCALES,
    SHORT_NAMES,
    SUBRESOURCES,
    ScalePaths,
)
from pyinformer.testing.apiserver.resources._merge_schema import BuiltInShape, SchemaShape, Shape

ListShape: TypeAlias = Literal["built-in", "custom"]

_WITH_GENERATION = frozenset(
    (
        "pods",
        "replicationcontrollers",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "cronjobs.batch",
        "horizontalpodautoscalers.autoscaling",
        "endpointslices.discovery.k8s.io",
        "ingresses.networking.k8s.io",
        "networkpolicies.networking.k8s.io",
        "poddisruptionbudgets.policy",
        "priorityclasses.scheduling.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
        *(f"{plural}.{ADMISSION_GROUP}" for plural in ADMISSION_KINDS),
    )
)
"""The built-in resources whose objects have a metadata.generation."""
_NAME = "metadata.name"
_NAMESPACE = "metadata.namespace"


@dataclass(frozen=True)
class ResourceType:
    """One served resource.

    Attributes:
        list_shape: "built-in" writes metadata first and list items without kind and apiVersion,
            as Go structs do; "custom" sorts all keys and writes full items, as for a CRD.
        field_labels: the field selectors beyond metadata.name and metadata.namespace.
        has_status: whether status is a subresource, which plain creates and updates do not change.
        is_watch_cached: False for events, which get no periodic bookmarks.
        schema: the OpenAPI schema of a custom resource; {} describes no fields.
        singular: the singular name; "" is the kind in lower case.
        short_names: abbreviations, such as `po`.
        categories: the categories it belongs to, such as `all`.
        scale: the paths of its scale subresource; None if it has none.
        is_virtual: whether it only answers creates and stores nothing.
        printer_columns: the additionalPrinterColumns of a custom resource.
        is_terminating: whether the definition of a custom resource is being deleted.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    list_shape: ListShape = "built-in"
    # A changed definition of the same resource keeps its objects.
    field_labels: tuple[str, ...] = field(default=(), compare=False)
    has_status: bool = field(default=False, compare=False)
    is_watch_cached: bool = True
    schema: JSONObject = field(default_factory=dict, compare=False, repr=False)
    singular: str = field(default="", compare=False)
    short_names: tuple[str, ...] = field(default=(), compare=False)
    categories: tuple[str, ...] = field(default=(), compare=False)
    scale: ScalePaths | None = field(default=None, compare=False)
    is_virtual: bool = field(default=False, compare=False)
    printer_columns: tuple[JSONObject, ...] = field(default=(), compare=False, repr=False)
    is_terminating: bool = field(default=False, compare=False)

    def __hash__(self) -> int:
        return hash(self.qualified_name)  # cached, since each write needs it

    @cached_property
    def api_version(self) -> str:
        """The apiVersion of its objects: `v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def qualified_name(self) -> str:
        """The name in messages: `pods` or `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def subresources(self) -> tuple[str, ...]:
        """The names of its subresources, in the order of the real server."""
        scale = ("scale",) if self.scale else ()
        status = ("status",) if self.has_status else ()
        return tuple(sorted((*SUBRESOURCES.get(self.qualified_name, ()), *scale, *status)))

    @cached_property
    def list_kind(self) -> str:
        """The kind of its lists, such as `PodList`."""
        return f"{self.kind}List"

    @cached_property
    def has_own_fields(self) -> bool:
        """Whether its fields for selectors are listed by the server itself, not the common ones."""
        return self.list_shape == "custom" or bool(self.field_labels)

    @cached_property
    def selectable_fields(self) -> tuple[str, ...]:
        """All fields that a field selector may name."""
        if self.has_own_fields and not self.namespaced:
            return (_NAME, *self.field_labels)
        return (_NAME, _NAMESPACE, *self.field_labels)

    @cached_property
    def has_generation(self) -> bool:
        """Whether its objects have a metadata.generation."""
        return self.list_shape == "custom" or self.qualified_name in _WITH_GENERATION

    @cached_property
    def object_schema(self) -> JSONObject:
        """The schema of its objects: that of a custom resource, or of the built-in type; or {}."""
        if self.schema or self.list_shape == "custom":
            return self.schema
        return built_in_schema(self.group, self.version, self.kind)

    @cached_property
    def shape(self) -> Shape:
        """The merge rules of its objects."""
        if self.list_shape == "custom":
            return SchemaShape(self.schema, is_root=True)
        return BuiltInShape(self.qualified_name)

    @cached_property
    def head(self) -> bytes:
        """The first bytes of a built-in object, up to its metadata."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()


_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_CORE_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)


def _core() -> tuple[ResourceType, ...]:
    def core(
        kind: str,
        plural: str,
        fields: tuple[str, ...] = (),
        *,
        namespaced: bool = True,
        has_status: bool = False,
        is_watch_cached: bool = True,
    ) -> ResourceType:
        return ResourceType(
            "",
            "v1",
            kind,
            plural,
            namespaced=namespaced,
            field_labels=fields,
            has_status=has_status,
            is_watch_cached=is_watch_cached,
        )

    return (
        core("Pod", "pods", _POD_FIELDS, has_status=True),
        core("Node", "nodes", ("spec.unschedulable",), namespaced=False, has_status=True),
        core("Service", "services", ("spec.clusterIP", "spec.type"), has_status=True),
        core("ConfigMap", "configmaps"),
        core("Secret", "secrets", ("type",)),
        core("Namespace", "namespaces", ("status.phase",), namespaced=False, has_status=True),
        core("Event", "events", _CORE_EVENT_FIELDS, is_watch_cached=False),
        core("Endpoints", "endpoints"),
        core("ServiceAccount", "serviceaccounts"),
        core("PersistentVolume", "persistentvolumes", namespaced=False, has_status=True),
        core("PersistentVolumeClaim", "persistentvolumeclaims", has_status=True),
        core(
            "ReplicationController", "replicationcontrollers", ("status.replicas",), has_status=True
        ),
        core("ResourceQuota", "resourcequotas", has_status=True),
        core("LimitRange", "limitranges"),
    )


_RBAC = "rbac.authorization.k8s.io"
_REVIEWS = (
    ("authentication.k8s.io", "SelfSubjectReview"),
    ("authentication.k8s.io", "TokenReview"),
    ("authorization.k8s.io", "SelfSubjectAccessReview"),
    ("authorization.k8s.io", "SelfSubjectRulesReview"),
    ("authorization.k8s.io", "SubjectAccessReview"),
)

_TYPES: tuple[ResourceType, ...] = (
    *_core(),
    ResourceType("apps", "v1", "Deployment", "deployments", has_status=True),
    ResourceType(
        "apps",
        "v1",
        "ReplicaSet",
        "replicasets",
        field_labels=("status.replicas",),
        has_status=True,
    ),
    ResourceType("apps", "v1", "StatefulSet", "statefulsets", has_status=True),
    ResourceType("apps", "v1", "DaemonSet", "daemonsets", has_status=True),
    ResourceType("apps", "v1", "ControllerRevision", "controllerrevisions"),
    ResourceType(
        "batch", "v1", "Job", "jobs", field_labels=("status.successful",), has_status=True
    ),
    ResourceType("batch", "v1", "CronJob", "cronjobs", has_status=True),
    ResourceType("coordination.k8s.io", "v1", "Lease", "leases"),
    ResourceType("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
    ResourceType(
        "events.k8s.io",
        "v1",
        "Event",
        "events",
        field_labels=("reason", "reportingController", "type"),
        is_watch_cached=False,
    ),
    ResourceType("networking.k8s.io", "v1", "Ingress", "ingresses", has_status=True),
    ResourceType("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
    ResourceType("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", has_status=True),
    ResourceType(
        "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", has_status=True
    ),
    ResourceType("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False),
    ResourceType("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False),
    ResourceType(_RBAC, "v1", "Role", "roles"),
    ResourceType(_RBAC, "v1", "RoleBinding", "rolebindings"),
    ResourceType(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False),
    ResourceType(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    ResourceType(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        namespaced=False,
        has_status=True,
    ),
    ResourceType(
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        namespaced=False,
        field_labels=("spec.signerName",),
        has_status=True,
    ),
    *(
        ResourceType(
            ADMISSION_GROUP,
            "v1",
            kind,
            plural,
            namespaced=False,
            has_status=kind == "ValidatingAdmissionPolicy",
        )
        for plural, kind in ADMISSION_KINDS.items()
    ),
    ResourceType("", "v1", "Binding", "bindings", is_virtual=True),
    ResourceType(
        "authorization.k8s.io",
        "v1",
        "LocalSubjectAccessReview",
        "localsubjectaccessreviews",
        is_virtual=True,
    ),
    *(
        ResourceType(group, "v1", kind, f"{kind.lower()}s", namespaced=False, is_virtual=True)
        for group, kind in _REVIEWS
    ),
)

BUILT_IN: tuple[ResourceType, ...] = tuple(
    replace(
        one,
        short_names=SHORT_NAMES.get(one.qualified_name, ()),
        categories=CATEGORIES.get(one.qualified_name, ()),
        scale=SCALES.get(one.qualified_name),
    )
    for one in _TYPES
)


class Registry:
    """The resources that are served now; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_path: dict[tuple[str, str, str], ResourceType] = {}
        self._by_kind: dict[tuple[str, str], ResourceType] = {}
        for resource in BUILT_IN:
            self.add(resource)

    def add(self, resource: ResourceType) -> None:
        """Serve a resource; one with the same group, version and plural is replaced."""
        with self._lock:
            self._by_path[resource.group, resource.version, resource.plural] = resource
            self._by_kind[resource.api_version, resource.kind] = resource

    def remove(self, resource: ResourceType) -> None:
        """Stop serving a resource; unknown ones are ignored."""
        with self._lock:
            self._by_path.pop((resource.group, resource.version, resource.plural), None)
            self._by_kind.pop((resource.api_version, resource.kind), None)

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """Return the resource that a path names, or None."""
        return self._by_path.get((group, version, plural))

    def find_plural(self, api_version: str, plural: str) -> ResourceType | None:
        """Return the resource that `v1` or `apps/v1` and a plural name, or None."""
        group, version = split_api_version(api_version)
        return self.find(group, version, plural)

    def find_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """Return the resource of this apiVersion and kind, or None."""
        return self._by_kind.get((api_version, kind))

    def all(self) -> tuple[ResourceType, ...]:
        """Return every resource, in order of registration."""
        with self._lock:
            return tuple(self._by_path.values())
