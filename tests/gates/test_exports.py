"""The public face, pinned: the names of the package and of each public namespace.

A name that comes or goes changes a list in this file, and so is seen in review; a new public name
also brings its reference entry.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import pyinformer

PUBLIC: dict[str, list[str]] = {
    "pyinformer.adapters.opentelemetry": [
        "OpenTelemetryMetrics",
        "OpenTelemetryTracing",
        "TracingStatistics",
    ],
    "pyinformer": [
        "APIStatusError",
        "Added",
        "CacheNotSyncedError",
        "CacheSyncTimeoutError",
        "Cluster",
        "ClusterPool",
        "ConflictError",
        "Controller",
        "ControllerGroup",
        "ControllerOptions",
        "Deleted",
        "Event",
        "ForbiddenError",
        "GroupVersionResource",
        "InformerError",
        "JSONObject",
        "KubeObject",
        "LeaderElection",
        "LeaderElector",
        "Lister",
        "MutationDetector",
        "NotFoundError",
        "ObjectMeta",
        "Operator",
        "OperatorRun",
        "Reconcile",
        "Request",
        "ResourceEventHandler",
        "Result",
        "RetryAfter",
        "SharedInformer",
        "SharedInformerFactory",
        "StaleCacheError",
        "TerminalError",
        "TransportError",
        "Updated",
        "View",
        "connect",
        "create_or_update",
        "diff",
        "in_thread",
        "redacted",
        "retry_on_conflict",
        "run_in_thread",
        "wait_for_cache_sync",
    ],
    "pyinformer.controllerutil": [
        "EventRecorder",
        "EventRecorderStatistics",
        "FinalizerContext",
        "FinalizerPhase",
        "finalizer",
        "find_condition",
        "is_condition_true",
        "set_condition",
        "set_controller_reference",
        "upgrade_managed_fields",
        "set_owner_reference",
    ],
    "pyinformer.leaderelection": [
        "Lead",
        "LeaderElection",
        "LeaderElectionOptions",
        "LeaderElectionStatus",
        "LeaderElector",
        "Term",
        "WrittenVersions",
        "admission_policy_yaml",
    ],
    "pyinformer.blocking": [
        "BlockingCluster",
        "BlockingEventStream",
        "BlockingInformer",
        "BlockingInformerFactory",
        "BlockingLogStream",
        "BlockingObjectList",
        "BlockingRecording",
        "BlockingRegistration",
        "Runner",
        "create_or_update",
        "finalizer",
        "retry_on_conflict",
        "run_in_thread",
        "timeout",
        "upgrade_managed_fields",
    ],
    "pyinformer.cache": [
        "ABSENT",
        "Absent",
        "BytesTransform",
        "Change",
        "DecodedLister",
        "DecodedObject",
        "DecodedObjects",
        "DeletedFinalStateUnknown",
        "Delta",
        "DeltaFIFO",
        "DeltaType",
        "Deltas",
        "EventStream",
        "FieldRequirement",
        "FieldSelector",
        "GroupVersionKind",
        "IndexFunction",
        "Indexer",
        "InformerOptions",
        "InformerSettings",
        "JSONValue",
        "KeepingOptions",
        "KnownObjects",
        "LabelRequirement",
        "LabelSelector",
        "Labels",
        "Lineage",
        "ListWatch",
        "LogStream",
        "MassDeletePolicy",
        "NamespaceLister",
        "ObjectKey",
        "ObjectList",
        "OwnerReference",
        "RealFIFO",
        "Recording",
        "Reflector",
        "ReflectorOptions",
        "Registration",
        "Scope",
        "SharedObject",
        "Sink",
        "StaleObject",
        "Transform",
        "VersionOrder",
        "WatchListMemory",
    ],
    "pyinformer.config": [
        "Body",
        "ClientConfiguration",
        "ClusterConfig",
        "ClusterPoolOptions",
        "ConfiguredClient",
        "ConnectionOptions",
        "Credentials",
        "Discovery",
        "ForeignClient",
        "KubeconfigPolicy",
        "RequestBudget",
        "RequestBudgetOptions",
        "SessionConnection",
        "SessionSource",
        "SessionTimeouts",
        "WriteObserver",
        "WriteOptions",
        "config_from_client",
    ],
    "pyinformer.crd": [
        "CustomResource",
        "Rule",
        "Scale",
        "custom_resource",
        "custom_resource_definition",
    ],
    "pyinformer.errors": [
        "APIStatusError",
        "AlreadyOwnedError",
        "ApplyConflictError",
        "BadRequestError",
        "CacheMutatedError",
        "CacheNotSyncedError",
        "CacheSyncTimeoutError",
        "ClusterUnavailableError",
        "ConfigurationError",
        "ConfigurationNotFoundError",
        "ConflictError",
        "ConnectionEndedError",
        "EventStreamOverflowError",
        "FencedError",
        "FieldConflict",
        "FieldNotFoundError",
        "ForbiddenError",
        "FrozenObjectError",
        "IndexNotFoundError",
        "InformerConflictError",
        "InformerError",
        "InternalError",
        "InvalidArgumentError",
        "InvalidError",
        "InvalidModelError",
        "InvalidObjectError",
        "InvalidResourceVersionError",
        "InvalidSelectorError",
        "InvalidTypeError",
        "KubeAPIServerError",
        "KubeAPIServerNotFoundError",
        "LifecycleError",
        "ListInconsistentError",
        "MetricConflictError",
        "ModelMismatchError",
        "NotCachedError",
        "NotFoundError",
        "ObjectNotFoundError",
        "OwnerScopeError",
        "ProtocolError",
        "QueueClosedError",
        "ReconcileTimeoutError",
        "RecordingFileError",
        "RecordingFormatError",
        "RecordingVersionError",
        "RefusalCause",
        "ReplayDivergedError",
        "RequestTimeoutError",
        "ResourceExpiredError",
        "ResourceVersionTooLargeError",
        "RetryAfter",
        "ServerError",
        "StaleCacheError",
        "TLSVerificationError",
        "TerminalError",
        "TooManyRequestsError",
        "TransportError",
        "UnauthorizedError",
        "UnknownResourceError",
        "WaitTimeoutError",
        "WriteAnswerError",
    ],
    "pyinformer.health": [
        "HasStatus",
        "Health",
        "HealthOptions",
        "HealthServer",
        "HealthVerdict",
    ],
    "pyinformer.kopf": ["Informers", "install", "lister", "uninstall"],
    "pyinformer.adapters.prometheus": ["PrometheusMetrics"],
    "pyinformer.metrics": [
        "CATALOGUE",
        "Counter",
        "Exposition",
        "Gauge",
        "Histogram",
        "HistogramValue",
        "MetricFamily",
        "MetricSpec",
        "MetricType",
        "Metrics",
        "MetricsRegistry",
        "MetricsScope",
        "MetricsSource",
        "NO_METRICS",
        "Sample",
        "Series",
        "fenced",
        "qualified",
    ],
    "pyinformer.operator": [
        "CustomResource",
        "HasStatus",
        "Health",
        "HealthOptions",
        "HealthServer",
        "HealthVerdict",
        "Listers",
        "Operator",
        "OperatorRun",
        "Owns",
        "Rule",
        "Scale",
        "Watches",
        "custom_resource",
        "custom_resource_definition",
    ],
    "pyinformer.predicates": [
        "Predicate",
        "PredicateFunction",
        "all_of",
        "annotations_changed",
        "any_of",
        "generation_changed",
        "labels_changed",
        "matches",
        "negate",
        "resource_version_changed",
    ],
    "pyinformer.sources": [
        "Enqueue",
        "Keys",
        "KeysFunction",
        "MappingFunction",
        "OwnedSource",
        "OwnerKind",
        "Predicate",
        "PredicateFunction",
        "PrimarySource",
        "Reason",
        "Request",
        "Source",
        "SourceInformer",
        "SourceOptions",
        "SourceStatus",
        "StateFunction",
        "TimerSource",
        "WatchedSource",
        "all_of",
        "annotations_changed",
        "any_of",
        "generation_changed",
        "labels_changed",
        "matches",
        "negate",
        "resource_version_changed",
    ],
    "pyinformer.status": [
        "APIResource",
        "AuditRepair",
        "AuditReport",
        "AuditVerdict",
        "CacheMutation",
        "ControllerGroupStatus",
        "ControllerStatus",
        "Difference",
        "Explanation",
        "FactoryStatus",
        "FailingKeyStatus",
        "GuardStatistics",
        "HandlerStatus",
        "HotLoopStatus",
        "IndexStatistics",
        "InformerStatus",
        "InternStatistics",
        "Journal",
        "JournalEntry",
        "LineageStatus",
        "Liveness",
        "LoadCause",
        "Mismatches",
        "MutatedPath",
        "MutationMode",
        "MutationStatistics",
        "NamespaceStatus",
        "NoopWriteStatus",
        "Outcome",
        "OverlayStatistics",
        "PooledClusterStatus",
        "QueueStatistics",
        "ReflectorState",
        "ReflectorStatus",
        "RecordingStatistics",
        "RelistRecord",
        "RequestBudgetStatistics",
        "StateChange",
        "Upserted",
        "ValueSource",
        "WatchdogStatistics",
        "WorkerStatus",
        "WriteStatistics",
    ],
    "pyinformer.testing": [
        "APIServer",
        "ChangingFacts",
        "Connector",
        "EtcdRelay",
        "EtcdTruth",
        "Fault",
        "FaultLab",
        "FaultProxy",
        "FaultRun",
        "FaultSchedule",
        "FaultScript",
        "History",
        "IncompleteRecordingWarning",
        "KubeAPIServer",
        "Recorder",
        "Replay",
        "RequestRecord",
        "SavedEtcd",
        "SavedState",
        "ServerAddress",
        "ServerReplica",
        "ServerTruth",
        "StaticToken",
        "TimedFault",
        "Token",
        "Verdict",
        "World",
        "WriteRecord",
        "check_history",
        "replay",
    ],
    "pyinformer.tracing": [
        "AttributeValue",
        "Attributes",
        "Span",
        "SpanError",
        "Tracing",
        "WrittenVersion",
    ],
    "pyinformer.workqueue": [
        "BucketRateLimiter",
        "ItemExponentialFailureRateLimiter",
        "ItemFastSlowRateLimiter",
        "LOW_PRIORITY",
        "Lease",
        "MaxOfRateLimiter",
        "Ordering",
        "PriorityQueue",
        "Queue",
        "RateLimiter",
        "WithMaxWaitRateLimiter",
        "WorkQueueStatistics",
        "default_controller_rate_limiter",
        "default_item_based_rate_limiter",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_all_lists_exactly_the_pinned_names(module: str) -> None:
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module])


@pytest.mark.parametrize("module", PUBLIC)
def test_every_listed_name_exists(module: str) -> None:
    folder = importlib.import_module(module)

    assert [name for name in PUBLIC[module] if not hasattr(folder, name)] == []


def test_every_public_module_is_pinned() -> None:
    public = {
        f"pyinformer.{module.name}"
        for module in pkgutil.iter_modules(pyinformer.__path__)
        if not module.ispkg and not module.name.startswith("_")
    }

    assert public <= set(PUBLIC)


def test_namespaces_are_attributes_of_the_package() -> None:
    """All but the test kit, which tests import, and those that import optional packages."""
    namespaces = {name.partition(".")[2] for name in PUBLIC if "adapters" not in name}
    namespaces -= {"", "testing", "kopf"}

    assert [name for name in namespaces if not hasattr(pyinformer, name)] == []


def test_all_errors_are_public() -> None:
    root: type[Exception] = pyinformer.InformerError
    defined = {
        name
        for name, found in vars(pyinformer.errors).items()
        if isinstance(found, type) and issubclass(found, root)
    }

    assert defined - set(pyinformer.errors.__all__) == set()


@pytest.mark.parametrize("module", PUBLIC)
def test_protocols_have_only_abstract_methods(module: str) -> None:
    """A subclass with a misspelled method inherits the empty one; Python refuses its instances."""
    folder = importlib.import_module(module)
    protocols = [found for name in PUBLIC[module] if _is_protocol(found := getattr(folder, name))]

    empty = [
        f"{protocol.__name__}.{name}"
        for protocol in protocols
        for name, found in vars(protocol).items()
        if not name.startswith("_")
        and (inspect.isfunction(found) or isinstance(found, property))
        and name not in protocol.__abstractmethods__
    ]

    assert empty == []


def _is_protocol(found: object) -> bool:
    return inspect.isclass(found) and getattr(found, "_is_protocol", False)
