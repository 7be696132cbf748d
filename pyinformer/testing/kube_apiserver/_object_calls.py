"""Synchronous methods that read and write objects, for arranging and checking in tests.

Objects are dicts with apiVersion and kind that the caller owns; the path of an object follows from
these, after one discovery request per group and version. A subclass sends the requests.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from pyinformer.errors import (
    APIStatusError,
    ConflictError,
    InvalidArgumentError,
    KubeAPIServerError,
    NotFoundError,
)
from pyinformer.objects import JSONObject, JSONValue, split_api_version
from pyinformer.testing._definition_files import definitions_in
from pyinformer.testing._polling import poll

_SERVED_TIMEOUT_SECONDS: Final = 30.0  # a new custom resource is served after about a second
_ATTEMPTS: Final = 10
_CRD_API_VERSION: Final = "apiextensions.k8s.io/v1"
_DEFINITIONS: Final = f"/apis/{_CRD_API_VERSION}/customresourcedefinitions"
_DEFAULT_NAMESPACE: Final = "default"
_MERGE_PATCH: Final = "application/merge-patch+json"
_ANY_OBJECT: Final[JSONObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCALE: Final[JSONObject] = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
_SCALABLE: Final[JSONObject] = {
    **_ANY_OBJECT,
    "properties": {
        "spec": {**_ANY_OBJECT, "properties": {"replicas": {"type": "integer"}}},
        "status": {
            **_ANY_OBJECT,
            "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
        },
    },
}


class ObjectCalls(ABC):
    """Reads and writes objects by `request`; as thread-safe as that."""

    def __init__(self) -> None:
        self._resources: dict[str, dict[str, _Resource]] = {}

    @abstractmethod
    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JSONObject | None = None,
        content_type: str = "application/json",
    ) -> JSONObject:
        """Send one request and return the JSON object of the answer.

        Raises:
            APIStatusError: the server refused it.
            TransportError: the server could not be reached, or the connection broke; a write may
                or may not have been carried out.
            ProtocolError: the answer is not a JSON object.
        """

    def create(self, obj: JSONObject, *, namespace: str | None = None) -> JSONObject:
        """Create an object, its status included.

        Args:
            obj: with apiVersion, kind, and a name or generateName; a resourceVersion in it is
                ignored, so that a deleted object can be created again.
            namespace: the namespace of an object without one; None is "default".

        Returns:
            The stored object. With a status subresource, the status is a second write.

        Raises:
            ConflictError: it already exists.
            NotFoundError: its namespace does not exist.
        """
        resource, body = self._placed(obj, namespace)
        body["metadata"].pop("resourceVersion", None)
        path = resource.path(body["metadata"].get("namespace"))
        return self._with_status(resource, body, self.request("POST", path, body=body))

    def update(self, obj: JSONObject) -> JSONObject:
        """Replace an object, its status included.

        Args:
            obj: the new object; a resourceVersion or uid in it is a precondition.

        Returns:
            The stored object. With a status subresource, the status is a second write.

        Raises:
            ConflictError: a precondition fails.
            NotFoundError: it does not exist.
        """
        resource, body = self._placed(obj, None)
        metadata = body["metadata"]
        path = resource.path(metadata.get("namespace"), str(metadata.get("name", "")))
        return self._with_status(resource, body, self.request("PUT", path, body=body))

    def get(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        """Return one object.

        Raises:
            NotFoundError: it does not exist.
        """
        return self.request("GET", self._named(api_version, plural).path_of(name, namespace))

    def delete(
        self,
        api_version: str,
        plural: str,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> JSONObject:
        """Delete an object without a grace period, or only mark it if it has finalizers.

        Args:
            api_version: "v1" or "apps/v1".
            plural: "pods".
            name: its name.
            namespace: None is "default".
            uid: a precondition.
            resource_version: a precondition.

        Returns:
            The server's answer: its last state, or a Status that names it.

        Raises:
            NotFoundError: it does not exist.
            ConflictError: a precondition fails.
        """
        wanted = {"uid": uid, "resourceVersion": resource_version}
        options: JSONObject = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,  # without a kubelet a grace period never ends
            "preconditions": {key: value for key, value in wanted.items() if value is not None},
        }
        path = self._named(api_version, plural).path_of(name, namespace)
        return self.request("DELETE", path, body=options)

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: JSONObject,
        namespace: str | None = None,
    ) -> JSONObject:
        """Apply a JSON merge patch: its fields are set, and fields that are None are removed.

        Returns:
            The stored object. With a status subresource, the status is a second write.

        Raises:
            NotFoundError: it does not exist.
        """
        resource = self._named(api_version, plural)
        path = resource.path_of(name, namespace)
        answer = self.request("PATCH", path, body=changes, content_type=_MERGE_PATCH)
        if not (resource.has_status and "status" in changes):
            return answer
        status: JSONObject = {"status": changes["status"]}
        return self.request("PATCH", f"{path}/status", body=status, content_type=_MERGE_PATCH)

    def list(
        self,
        api_version: str,
        plural: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[JSONObject]:
        """Return all objects of one consistent list; namespace None is all namespaces.

        Raises:
            BadRequestError: a selector cannot be parsed.
        """
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {key: value for key, value in selectors.items() if value}
        resource = self._named(api_version, plural)
        answer = self.request("GET", resource.path(namespace), query=query)
        # The items of built-in resources lack apiVersion and kind.
        identity = {"apiVersion": api_version, "kind": resource.kind}
        return [{**identity, **item} for item in objects_of(answer, "items")]

    def register(
        self,
        api_version: str,
        kind: str,
        plural: str,
        *,
        namespaced: bool = True,
        has_status: bool = False,
        schema: JSONObject | None = None,
        has_scale: bool = False,
    ) -> None:
        """Define a custom resource, and wait until it is served.

        A resource that is already served, such as a built-in one, is not changed.

        Args:
            api_version: group and version, such as "example.com/v1".
            kind: such as "Widget".
            plural: such as "widgets".
            namespaced: whether its objects are in namespaces.
            has_status: whether clients must write the status through its subresource.
            schema: a structural OpenAPI v3 schema; None allows any object.
            has_scale: whether it has a scale subresource, of `spec.replicas`, `status.replicas`
                and the text in `status.selector`; then `schema` must define these fields.

        Raises:
            KubeAPIServerError: it was not served in time.
        """
        if plural in self._discover(api_version):
            return
        definition = _definition(
            api_version,
            kind,
            plural,
            namespaced=namespaced,
            schema=schema or (_SCALABLE if has_scale else _ANY_OBJECT),
            subresources={
                **({"status": {}} if has_status else {}),
                **({"scale": _SCALE} if has_scale else {}),
            },
        )
        with contextlib.suppress(ConflictError):  # another thread or test has created it
            self.request("POST", _DEFINITIONS, body=definition)
        self._wait_until_served(api_version, plural)

    def install_definitions(self, *paths: str | Path) -> tuple[str, ...]:
        """Create the CustomResourceDefinitions of files, and wait until they are served.

        A definition that exists already is replaced by that of the file.

        Args:
            paths: YAML or JSON files, of several documents perhaps, and folders of such files; see
                `definitions_in`.

        Returns:
            The names of the definitions, such as `databases.acme.io`.

        Raises:
            DefinitionsNotFoundError: a path does not exist, or has no definition.
            InvalidArgumentError: a file cannot be read, or is not YAML.
            APIStatusError: the server refuses a definition.
            KubeAPIServerError: one was not served in time.
        """
        found = definitions_in(*paths)
        for one in found:
            self._put_definition(one)
        for one in found:
            spec = one["spec"]
            plural = str(spec["names"]["plural"])
            for version in objects_of(spec, "versions"):
                if version.get("served"):
                    self._wait_until_served(f"{spec['group']}/{version['name']}", plural)
        return tuple(str(one["metadata"]["name"]) for one in found)

    def ensure_namespace(self, name: str) -> None:
        """Create a namespace unless it exists."""
        with contextlib.suppress(ConflictError):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def _put_definition(self, definition: JSONObject) -> None:
        """Create a definition, or replace the one that exists, in its newest version."""
        path = f"{_DEFINITIONS}/{quote(definition['metadata']['name'], safe='')}"
        left = _ATTEMPTS
        while True:
            try:
                known = self.request("GET", path)
            except NotFoundError:
                known = {}
            try:
                if not known:
                    self.request("POST", _DEFINITIONS, body=definition)
                    return
                version = known["metadata"]["resourceVersion"]
                metadata = {**definition["metadata"], "resourceVersion": version}
                self.request("PUT", path, body={**definition, "metadata": metadata})
                return
            except ConflictError:  # the server writes the status of a new one, or another test did
                left -= 1
                if not left:
                    raise

    def _wait_until_served(self, api_version: str, plural: str) -> None:
        if not poll(
            lambda: self._is_served(api_version, plural), timeout_seconds=_SERVED_TIMEOUT_SECONDS
        ):
            raise KubeAPIServerError(
                f"{plural} of {api_version} cannot be used",
                f"it is defined, but not served after {_SERVED_TIMEOUT_SECONDS:.0f} s",
            )

    def _with_status(self, resource: _Resource, body: JSONObject, stored: JSONObject) -> JSONObject:
        """Write the status, too, if the server has ignored it."""
        status = body.get("status")
        if not resource.has_status or status is None or stored.get("status") == status:
            return stored
        metadata = stored["metadata"]
        path = resource.path(metadata.get("namespace"), str(metadata["name"]))
        return self.request("PUT", f"{path}/status", body={**stored, "status": status})

    def _placed(self, obj: JSONObject, namespace: str | None) -> tuple[_Resource, JSONObject]:
        """Return the resource of an object, and a copy of the object with its namespace."""
        api_version, kind = str(obj.get("apiVersion", "")), str(obj.get("kind", ""))
        resource = self._find(api_version, lambda one: one.kind == kind)
        if resource is None:
            raise InvalidArgumentError("obj", _not_served(kind, api_version))
        body = {**obj, "metadata": dict(obj.get("metadata") or {})}
        if resource.namespaced and not body["metadata"].get("namespace"):
            body["metadata"]["namespace"] = namespace or _DEFAULT_NAMESPACE
        return resource, body

    def _named(self, api_version: str, plural: str) -> _Resource:
        resource = self._find(api_version, lambda one: one.plural == plural)
        if resource is None:
            raise InvalidArgumentError("plural", _not_served(plural, api_version))
        return resource

    def _find(self, api_version: str, matches: Callable[[_Resource], bool]) -> _Resource | None:
        for known in (self._resources.get(api_version, {}), None):
            resources = self._discover(api_version) if known is None else known
            for resource in resources.values():
                if matches(resource):
                    return resource
        return None

    def _discover(self, api_version: str) -> dict[str, _Resource]:
        """Return the resources of a group and version by plural, from discovery."""
        try:
            answer = self.request("GET", _group_path(api_version))
        except NotFoundError:
            return {}
        entries = {str(one["name"]): one for one in objects_of(answer, "resources")}
        found = {
            plural: _Resource(
                api_version=api_version,
                plural=plural,
                kind=str(entry["kind"]),
                namespaced=bool(entry["namespaced"]),
                has_status=f"{plural}/status" in entries,
            )
            for plural, entry in entries.items()
            if "/" not in plural  # a subresource
        }
        self._resources[api_version] = found
        return found

    def _is_served(self, api_version: str, plural: str) -> bool:
        try:
            self.list(api_version, plural)
        except (APIStatusError, InvalidArgumentError):
            return False
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    """The discovery entry of one resource."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool
    has_status: bool

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """Return the path of one object, of all objects in a namespace, or of all objects."""
        parts = [_group_path(self.api_version)]
        if namespace is not None and self.namespaced:
            parts.append(f"namespaces/{quote(namespace, safe='')}")
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        return "/".join(parts)

    def path_of(self, name: str, namespace: str | None) -> str:
        """Return the path of one object; namespace None is "default"."""
        return self.path(namespace or _DEFAULT_NAMESPACE, name)


def _not_served(what: str, api_version: str) -> str:
    return f"{what!r} of {api_version!r} is not served: call register() first"


def _group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _definition(
    api_version: str,
    kind: str,
    plural: str,
    *,
    namespaced: bool,
    schema: JSONObject,
    subresources: JSONObject,
) -> JSONObject:
    group, version = split_api_version(api_version)
    names: JSONObject = {"plural": plural, "singular": kind.lower(), "kind": kind}
    served: JSONObject = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
    }
    return {
        "apiVersion": _CRD_API_VERSION,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": names,
            "versions": [served],
        },
    }


def objects_of(answer: JSONObject, field: str) -> list[JSONObject]:
    """Return the objects in a list field; empty if it is absent or not a list."""
    found: JSONValue = answer.get(field)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
