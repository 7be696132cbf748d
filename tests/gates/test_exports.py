"""The public face, pinned: what each public folder's `__all__` lists, and pyinformer's own.

A name that comes or goes changes a list in this file, and so is seen in review; a new public name
also brings its reference entry and a line in CHANGELOG.md.
"""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import pyinformer

PUBLIC: dict[str, list[str]] = {
    "pyinformer": [
        "APIStatusError",
        "Added",
        "BadRequestError",
        "BytesTransform",
        "CacheNotSyncedError",
        "CacheSyncTimeoutError",
        "Change",
        "Cluster",
        "ClusterConfig",
        "ConfigurationError",
        "ConfigurationNotFoundError",
        "ConflictError",
        "Credentials",
        "Deleted",
        "DeletedFinalStateUnknown",
        "DeltaFIFO",
        "Event",
        "EventStreamOverflowError",
        "FactoryStatus",
        "FieldNotFoundError",
        "FieldSelector",
        "ForbiddenError",
        "FrozenObjectError",
        "GroupVersionKind",
        "GroupVersionResource",
        "HandlerStatus",
        "IndexNotFoundError",
        "Indexer",
        "InformerConflictError",
        "InformerError",
        "InformerStatus",
        "InternalError",
        "InvalidArgumentError",
        "InvalidError",
        "InvalidHandlerError",
        "InvalidObjectError",
        "InvalidPathError",
        "InvalidResourceVersionError",
        "InvalidSelectorError",
        "InvalidTypeError",
        "InvalidViewError",
        "KubeAPIServerError",
        "KubeAPIServerNotFoundError",
        "KubeObject",
        "LabelSelector",
        "LifecycleError",
        "LineTooLongError",
        "ListInconsistentError",
        "ListWatch",
        "Lister",
        "NamespaceLister",
        "NotCachedError",
        "NotFoundError",
        "ObjectKey",
        "ObjectMeta",
        "ObjectNotFoundError",
        "ProtocolError",
        "QueueClosedError",
        "RealFIFO",
        "Reflector",
        "ReflectorOptions",
        "Registration",
        "RequestTimeoutError",
        "ResourceEventHandler",
        "ResourceExpiredError",
        "ResourceVersionTooLargeError",
        "ServerError",
        "SharedInformer",
        "SharedInformerFactory",
        "TLSVerificationError",
        "TooManyRequestsError",
        "TransportError",
        "UnauthorizedError",
        "Updated",
        "View",
        "connect",
        "diff",
        "in_thread",
        "wait_for_cache_sync",
    ],
    "pyinformer.apimachinery": [
        "ABSENT",
        "APIStatusError",
        "Absent",
        "Added",
        "BadRequestError",
        "BytesTransform",
        "CacheNotSyncedError",
        "CacheSyncTimeoutError",
        "Change",
        "ConfigurationError",
        "ConfigurationNotFoundError",
        "ConflictError",
        "Deleted",
        "Event",
        "EventStreamOverflowError",
        "ExponentialBackoff",
        "FieldNotFoundError",
        "FieldSelector",
        "ForbiddenError",
        "FrozenObjectError",
        "GroupVersionKind",
        "GroupVersionResource",
        "IndexNotFoundError",
        "InformerConflictError",
        "InformerError",
        "InternStatistics",
        "InternalError",
        "InvalidArgumentError",
        "InvalidError",
        "InvalidHandlerError",
        "InvalidObjectError",
        "InvalidPathError",
        "InvalidResourceVersionError",
        "InvalidSelectorError",
        "InvalidTypeError",
        "InvalidViewError",
        "JSONObject",
        "JSONValue",
        "KubeAPIServerError",
        "KubeAPIServerNotFoundError",
        "KubeObject",
        "LabelSelector",
        "Labels",
        "LifecycleError",
        "LineTooLongError",
        "ListInconsistentError",
        "NotCachedError",
        "NotFoundError",
        "ObjectCodec",
        "ObjectKey",
        "ObjectMeta",
        "ObjectNotFoundError",
        "OwnerReference",
        "PathSet",
        "ProtocolError",
        "QueueClosedError",
        "RequestTimeoutError",
        "ResourceExpiredError",
        "ResourceVersionTooLargeError",
        "ServerError",
        "TLSVerificationError",
        "TooManyRequestsError",
        "Transform",
        "TransportError",
        "UnauthorizedError",
        "Updated",
        "V",
        "View",
        "check_view",
        "compare_resource_versions",
        "decode_object",
        "diff",
        "object_key",
        "older",
        "parse_path",
        "resource_version_is_well_formed",
        "status_error_class",
        "view_path",
    ],
    "pyinformer.cli": [
        "main",
    ],
    "pyinformer.cluster": [
        "Cluster",
        "connect",
    ],
    "pyinformer.deltas": [
        "DeletedFinalStateUnknown",
        "Delta",
        "DeltaFIFO",
        "DeltaType",
        "Deltas",
        "KnownObjects",
        "QueueStatistics",
        "RealFIFO",
        "events_of",
    ],
    "pyinformer.informer": [
        "EventStream",
        "FactoryStatus",
        "HandlerStatus",
        "InformerStatus",
        "Registration",
        "ResourceEventHandler",
        "SharedInformer",
        "SharedInformerFactory",
        "WatchdogStatistics",
        "in_thread",
        "wait_for_cache_sync",
    ],
    "pyinformer.metrics": [
        "Metrics",
        "NO_METRICS",
    ],
    "pyinformer.reflector": [
        "Guard",
        "GuardStatistics",
        "Reflector",
        "ReflectorOptions",
        "ReflectorState",
        "ReflectorStatus",
        "Sink",
        "WatchListMemory",
    ],
    "pyinformer.store": [
        "IndexFunction",
        "IndexStatistics",
        "IndexValue",
        "Indexer",
        "Lister",
        "NAMESPACE_INDEX",
        "NamespaceLister",
        "Readiness",
    ],
    "pyinformer.testing": [
        "APIServer",
        "Fault",
        "FaultScript",
        "KubeAPIServer",
        "RequestRecord",
        "SavedState",
        "StaticToken",
        "Token",
    ],
    "pyinformer.transport": [
        "ADDED",
        "BOOKMARK",
        "Body",
        "Bookmark",
        "ClusterConfig",
        "Connection",
        "ConnectionOptions",
        "Credentials",
        "DELETED",
        "ERROR",
        "LineSplitter",
        "ListMetadata",
        "ListSplitter",
        "ListWatch",
        "MODIFIED",
        "MODIFIED_PREFIX",
        "NoCredentials",
        "OnInvalidItem",
        "OnItem",
        "OnLine",
        "Query",
        "StaticCredentials",
        "TokenFileCredentials",
        "find_config",
        "in_cluster_config",
        "read_bookmark",
        "read_error",
        "read_frame",
        "read_frame_slowly",
        "status_error_from_object",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_all_lists_exactly_the_pinned_names(module: str) -> None:
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", PUBLIC)
def test_every_listed_name_exists(module: str) -> None:
    folder = importlib.import_module(module)

    assert [name for name in PUBLIC[module] if not hasattr(folder, name)] == []


def test_every_public_folder_is_pinned() -> None:
    folders = {
        f"pyinformer.{module.name}"
        for module in pkgutil.iter_modules(pyinformer.__path__)
        if module.ispkg and not module.name.startswith("_")
    }

    assert folders | {"pyinformer"} == set(PUBLIC)


def test_the_whole_error_tree_is_importable_from_pyinformer() -> None:
    tree = importlib.import_module("pyinformer.apimachinery._errors")
    root: type[Exception] = tree.InformerError
    errors = {
        name
        for name, found in vars(tree).items()
        if isinstance(found, type) and issubclass(found, root)
    }

    assert errors - set(PUBLIC["pyinformer"]) == set()
