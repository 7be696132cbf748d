"""Synchronous calls that read and write objects, for arranging and checking in tests.

Objects go in and come out as private dicts with apiVersion and kind; where they live on the server
follows from those, by asking the server once for each group. The one thing that is missing here is
how a request travels: subclasses say that.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from pyinformer.apimachinery._errors import (
    APIStatusError,
    ConflictError,
    KubeAPIServerError,
    NotFoundError,
)
from pyinformer.apimachinery._json import JSONObject, JSONValue
from pyinformer.testing._polling import poll

_SERVED_TIMEOUT_SECONDS: Final = 30.0  # a new custom resource is served within about a second
_CRD_API_VERSION: Final = "apiextensions.k8s.io/v1"
_CRD_PLURAL: Final = "customresourcedefinitions"
_ANY_OBJECT: Final[JSONObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class ObjectCalls(ABC):
    """The calls; usable from any thread if `request` is."""

    def __init__(self) -> None:
        self._plurals: dict[tuple[str, str], tuple[str, bool]] = {}

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
        """Send one request and return the JSON object that answers it.

        Raises:
            APIStatusError: the server refused.
            TransportError: the server could not be reached or the connection broke; whether a
                write was carried out is then unknown.
            ProtocolError: the answer is no JSON object.
        """

    def create(self, obj: JSONObject) -> JSONObject:
        """Create an object; its apiVersion and kind say where, its metadata in which namespace.

        Raises:
            ConflictError: it exists already.
            NotFoundError: its kind, or its namespace, does not exist.
        """
        return self.request("POST", self._path_of(obj, named=False), body=obj)

    def update(self, obj: JSONObject) -> JSONObject:
        """Replace an object; a resourceVersion in its metadata is a precondition.

        Raises:
            ConflictError: it was changed since that resourceVersion.
            NotFoundError: it does not exist.
        """
        return self.request("PUT", self._path_of(obj, named=True), body=obj)

    def get(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        """Read one object.

        Raises:
            NotFoundError: it does not exist.
        """
        return self.request("GET", resource_path(api_version, plural, namespace, name))

    def delete(
        self, api_version: str, plural: str, name: str, namespace: str | None = None
    ) -> JSONObject:
        """Delete one object; returns the server's answer, the object or a Status.

        Raises:
            NotFoundError: it does not exist.
        """
        return self.request("DELETE", resource_path(api_version, plural, namespace, name))

    def patch(
        self,
        api_version: str,
        plural: str,
        name: str,
        changes: JSONObject,
        namespace: str | None = None,
    ) -> JSONObject:
        """Apply a JSON merge patch: what it names is set, what it sets to None is removed.

        Raises:
            NotFoundError: the object does not exist.
        """
        path = resource_path(api_version, plural, namespace, name)
        return self.request(
            "PATCH", path, body=changes, content_type="application/merge-patch+json"
        )

    def list(
        self,
        api_version: str,
        plural: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[JSONObject]:
        """Read all objects in one consistent list, each with apiVersion and kind."""
        selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {key: value for key, value in selectors.items() if value}
        answer = self.request("GET", resource_path(api_version, plural, namespace), query=query)
        kind = str(answer["kind"]).removesuffix("List")
        return [
            {"apiVersion": api_version, "kind": kind, **item}
            for item in objects_of(answer, "items")
        ]

    def register(
        self,
        api_version: str,
        kind: str,
        plural: str,
        *,
        namespaced: bool = True,
        schema: JSONObject | None = None,
    ) -> None:
        """Make the server know a resource, and wait until it is served.

        A resource that it knows already, such as a built-in one, is left alone.

        Args:
            api_version: group and version, such as "example.com/v1".
            kind: such as "Widget".
            plural: such as "widgets".
            namespaced: whether its objects live in namespaces.
            schema: a structural OpenAPI v3 schema; None admits any object.

        Raises:
            KubeAPIServerError: it was not served in time.
        """
        if self._lookup(api_version, kind) is not None:
            return
        definition = _definition(api_version, kind, plural, namespaced=namespaced, schema=schema)
        with contextlib.suppress(ConflictError):  # another thread or test was first
            self.request("POST", resource_path(_CRD_API_VERSION, _CRD_PLURAL), body=definition)
        if not poll(
            lambda: self._is_served(api_version, kind, plural),
            timeout_seconds=_SERVED_TIMEOUT_SECONDS,
        ):
            raise KubeAPIServerError(
                f"{plural} of {api_version} cannot be used",
                f"it is defined, and not served after {_SERVED_TIMEOUT_SECONDS:.0f} s",
            )

    def ensure_namespace(self, name: str) -> None:
        """Create a namespace unless it exists."""
        with contextlib.suppress(ConflictError):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def _path_of(self, obj: JSONObject, *, named: bool) -> str:
        api_version, kind = str(obj["apiVersion"]), str(obj["kind"])
        resource = self._lookup(api_version, kind)
        if resource is None:
            raise NotFoundError(
                status=404,
                reason="NotFound",
                request=f"find {kind} of {api_version}",
                message="the server knows no such kind; register() it first",
            )
        plural, namespaced = resource
        metadata = obj.get("metadata")
        fields = metadata if isinstance(metadata, dict) else {}
        namespace = str(fields.get("namespace") or "default") if namespaced else None
        name = str(fields.get("name", "")) if named else None
        return resource_path(api_version, plural, namespace, name)

    def _lookup(self, api_version: str, kind: str) -> tuple[str, bool] | None:
        """Return the plural of a kind and whether it is namespaced; None if not served."""
        if (api_version, kind) not in self._plurals:
            try:
                answer = self.request("GET", _group_path(api_version))
            except NotFoundError:
                return None
            for resource in objects_of(answer, "resources"):
                plural = str(resource["name"])
                if "/" not in plural:  # no subresource
                    entry = (plural, bool(resource["namespaced"]))
                    self._plurals[api_version, str(resource["kind"])] = entry
        return self._plurals.get((api_version, kind))

    def _is_served(self, api_version: str, kind: str, plural: str) -> bool:
        if self._lookup(api_version, kind) is None:
            return False
        try:
            self.list(api_version, plural)
        except APIStatusError:
            return False
        return True


def resource_path(
    api_version: str, plural: str, namespace: str | None = None, name: str | None = None
) -> str:
    """Return the URL path of a resource, or of one object of it."""
    parts = [_group_path(api_version)]
    if namespace is not None:
        parts.append(f"namespaces/{quote(namespace, safe='')}")
    parts.append(quote(plural, safe=""))
    if name is not None:
        parts.append(quote(name, safe=""))
    return "/".join(parts)


def _group_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _definition(
    api_version: str, kind: str, plural: str, *, namespaced: bool, schema: JSONObject | None
) -> JSONObject:
    group, _, version = api_version.partition("/")
    names: JSONObject = {"plural": plural, "singular": kind.lower(), "kind": kind}
    served: JSONObject = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema or _ANY_OBJECT},
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
    """Return the objects of a list field; none if it is absent or no list."""
    found: JSONValue = answer.get(field)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
