"""Every metric of the library: name, type, help and labels.

`promtool check metrics` accepts each row: counters end in `_total`, other types do not; units are
base units, in the plural; the help is a sentence. One section for each part of the library.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyinformer.telemetry.metrics._spec import MetricSpec, MetricType

_QUEUE_SECONDS: Final = tuple(float(f"1e{exponent}") for exponent in range(-8, 4))
_RECONCILE_SECONDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
    *(0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5),
    *(5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0),
)
_REACTION_SECONDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)

_QUEUE = ("name", "controller")

_WORKQUEUE = (
    MetricSpec("workqueue_adds_total", "counter", "Keys that began to wait in the queue.", _QUEUE),
    MetricSpec(
        "workqueue_depth",
        "gauge",
        "Keys that wait to be taken, by priority; it is empty for a queue without priorities.",
        (*_QUEUE, "priority"),
    ),
    MetricSpec(
        "workqueue_queue_duration_seconds",
        "histogram",
        "How long a key waits in the queue before it is taken.",
        _QUEUE,
        _QUEUE_SECONDS,
    ),
    MetricSpec(
        "workqueue_work_duration_seconds",
        "histogram",
        "How long the processing of a key takes.",
        _QUEUE,
        _QUEUE_SECONDS,
    ),
    MetricSpec("workqueue_retries_total", "counter", "Keys that were added for later.", _QUEUE),
    MetricSpec(
        "workqueue_unfinished_work_seconds",
        "gauge",
        "The sum of the times that the keys in processing have taken so far.",
        _QUEUE,
    ),
    MetricSpec(
        "workqueue_longest_running_processor_seconds",
        "gauge",
        "How long the longest of the keys in processing has taken so far.",
        _QUEUE,
    ),
)

_CONTROLLER_ONLY = ("controller",)


def _of_controller(name: str, help_text: str, *labels: str) -> MetricSpec:
    """Return a counter or a gauge of a controller, by its name."""
    kind: MetricType = "counter" if name.endswith("_total") else "gauge"
    return MetricSpec(name, kind, help_text, (*_CONTROLLER_ONLY, *labels))


_CONTROLLER = (
    MetricSpec(
        "controller_runtime_reconcile_time_seconds",
        "histogram",
        "How long a reconcile takes.",
        _CONTROLLER_ONLY,
        _RECONCILE_SECONDS,
    ),
    _of_controller("controller_runtime_reconcile_total", "Reconciles by result.", "result"),
    _of_controller("controller_runtime_reconcile_errors_total", "Reconciles that failed."),
    _of_controller(
        "controller_runtime_terminal_reconcile_errors_total",
        "Reconciles that failed and are not retried.",
    ),
    _of_controller(
        "controller_runtime_reconcile_timeouts_total",
        "Reconciles that took longer than their time limit.",
    ),
    _of_controller(
        "controller_runtime_reconcile_panics_total",
        "Reconciles that raised an error by which Python reports a bug, such as TypeError,"
        " AttributeError or AssertionError.",
    ),
    _of_controller("controller_runtime_active_workers", "Workers that reconcile an object."),
    _of_controller(
        "controller_runtime_max_concurrent_reconciles", "The largest number of reconciles at once."
    ),
    MetricSpec(
        "controller_event_to_reconcile_seconds",
        "histogram",
        "From the arrival of an object's first event in the cache to the start of its reconcile.",
        _CONTROLLER_ONLY,
        _REACTION_SECONDS,
    ),
    MetricSpec(
        "controller_cache_age_seconds",
        "histogram",
        "How long before the start of a reconcile its cache was last proven to be current.",
        _CONTROLLER_ONLY,
        _REACTION_SECONDS,
    ),
    _of_controller("controller_failing_keys", "Objects whose last reconcile failed."),
    _of_controller(
        "controller_hot_keys", "Objects that are slowed down: they were reconciled too often."
    ),
    _of_controller(
        "controller_hot_loops_total",
        "How often an object was slowed down: it was reconciled too often.",
    ),
    _of_controller("controller_stuck_workers", "Reconciles that ignore their cancellation."),
    _of_controller(
        "controller_late_results_total",
        "Reconciles that ended after they had ignored their cancellation.",
    ),
    _of_controller(
        "controller_postponed_total",
        "Starts that were postponed because the object is slowed down.",
    ),
    _of_controller(
        "controller_cancelled_reconciles_total",
        "Reconciles that were cancelled when the controller closed.",
    ),
    _of_controller(
        "controller_dropped_requests_total",
        "Requests that were dropped when the controller closed.",
    ),
    _of_controller(
        "controller_writes_total",
        "Writes by reconciles, if it is known whether they changed anything.",
    ),
    _of_controller("controller_noop_writes_total", "Writes by reconciles that changed nothing."),
    _of_controller(
        "controller_noop_storm", "Whether too many writes by reconciles change nothing."
    ),
    _of_controller("controller_noop_storms_total", "Storms of writes that changed nothing."),
    _of_controller(
        "controller_noop_breaker_open",
        "Whether the breaker holds requests because of a storm of no-op writes.",
    ),
    _of_controller("controller_noop_breaker_depth", "Requests that the no-op breaker holds."),
    _of_controller(
        "controller_noop_breaker_held_total", "Requests that the no-op breaker has held."
    ),
    _of_controller(
        "controller_source_failures_total",
        "Calls of a source's predicates, mappings and key functions that raised.",
        "source",
    ),
    _of_controller(
        "operator_timer_calls_total",
        "Calls for a beat of a timer that have ended, retries included.",
    ),
    _of_controller(
        "operator_timer_skipped_beats_total",
        "Beats of a timer that were skipped: an earlier call had not ended.",
    ),
    _of_controller("operator_timer_failures_total", "Calls for a beat of a timer that raised."),
    _of_controller(
        "operator_daemons",
        "Daemons by their state: running, stopping, ignoring_cancellation, or waiting for a place.",
        "state",
    ),
)

_WEBHOOK_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_WEBHOOK = (
    MetricSpec(
        "controller_runtime_webhook_requests_total",
        "counter",
        "Reviews that were answered, by the HTTP status; a refusal has 200.",
        ("webhook", "code"),
    ),
    MetricSpec(
        "controller_runtime_webhook_requests_in_flight",
        "gauge",
        "Reviews that are being answered.",
        ("webhook",),
    ),
    MetricSpec(
        "controller_runtime_webhook_latency_seconds",
        "histogram",
        "How long a review takes.",
        ("webhook",),
        _WEBHOOK_SECONDS,
    ),
)

_LEADER_ELECTION = (
    MetricSpec("leader_election_master_status", "gauge", "Whether this replica leads.", ("name",)),
    MetricSpec(
        "leader_election_slowpath_total",
        "counter",
        "Renewals of the Lease that needed a read.",
        ("name",),
    ),
    MetricSpec(
        "leader_election_renewal_age_seconds",
        "gauge",
        "How long ago the last good renewal was sent; 0 while no work of a leader runs.",
        ("name",),
    ),
    MetricSpec(
        "leader_election_lease_transitions",
        "gauge",
        "The number of leaders so far, as the Lease has it.",
        ("name",),
    ),
    MetricSpec(
        "leader_election_terms_total", "counter", "Terms of this replica as leader.", ("name",)
    ),
    MetricSpec(
        "leader_election_fenced_writes_total",
        "counter",
        "Writes that were refused or cut off because this replica may not lead any more.",
        ("name",),
    ),
)

_SHARING = (
    MetricSpec(
        "sharing_buckets",
        "gauge",
        "Buckets of this replica: open, catching_up or draining.",
        ("name", "state"),
    ),
    MetricSpec(
        "sharing_members", "gauge", "Replicas that share, as this one sees them.", ("name",)
    ),
    MetricSpec(
        "sharing_buckets_without_owner",
        "gauge",
        "Buckets that no living replica has, as this one sees them.",
        ("name",),
    ),
    MetricSpec(
        "sharing_without_owner_seconds",
        "gauge",
        "For how long there have been such buckets; 0 while there are none.",
        ("name",),
    ),
    MetricSpec(
        "sharing_fenced_writes_total",
        "counter",
        "Writes that were refused or cut off because another replica may have the bucket.",
        ("name",),
    ),
    MetricSpec(
        "sharing_lives_total",
        "counter",
        "How often this replica has begun to share: once, and once after each time it was cut off.",
        ("name",),
    ),
    MetricSpec(
        "sharing_moves_total",
        "counter",
        "Buckets that have begun or ended here.",
        ("name",),
    ),
)

_LOOP = (
    MetricSpec(
        "informer_loop_blocks_total",
        "counter",
        "How often the event loop was blocked for more than a second.",
    ),
    MetricSpec(
        "informer_loop_blocked_seconds_total",
        "counter",
        "How long the event loop was blocked, without a block that still lasts.",
    ),
)

_INFORMER_LABELS: Final = ("name", "group", "version", "resource")


def _informer(name: str, kind: MetricType, text: str, *labels: str) -> MetricSpec:
    """Return a metric of one informer; client-go's have no label for the scope."""
    return MetricSpec(f"informer_{name}", kind, text, (*_INFORMER_LABELS, "scope", *labels))


_INFORMER = (
    MetricSpec(
        "informer_queued_items",
        "gauge",
        "Events that wait for handlers, of all informers of the resource.",
        _INFORMER_LABELS,
    ),
    MetricSpec(
        "informer_processing_latency_seconds",
        "histogram",
        "How long handlers take for a slow event, or for up to 16 fast ones together.",
        _INFORMER_LABELS,
        (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),  # as client-go
    ),
    MetricSpec(
        "informer_store_resource_version",
        "gauge",
        "The last 15 digits of the resource version up to which every change is cached.",
        _INFORMER_LABELS,
    ),
    _informer("synced", "gauge", "Whether the cache has held everything at least once."),
    _informer("state", "gauge", "What the informer does: 1 for the state it is in.", "state"),
    _informer(
        "age_seconds",
        "gauge",
        "How long ago the request was sent that last proved the cache to be what the server has.",
    ),
    _informer("objects", "gauge", "Cached objects."),
    _informer(
        "cached_bytes", "gauge", "The size of the cached bodies, estimated from a sample of them."
    ),
    _informer(
        "decoded_objects", "gauge", "Decoded objects that readers share, with sharing=decoded."
    ),
    _informer(
        "interned_values", "gauge", "Values in the tables of what many objects share.", "kind"
    ),
    _informer(
        "interned_bytes",
        "gauge",
        "The size of the texts of values that many objects share.",
        "kind",
    ),
    _informer("own_writes", "gauge", "Writes of this program that the watch has not brought yet."),
    _informer(
        "own_writes_dropped_total",
        "counter",
        "Writes of this program for which there was no room: reads may have been older.",
    ),
    MetricSpec(
        "informer_sync_seconds",
        "histogram",
        "How long the first sync of a cache took.",
        (*_INFORMER_LABELS, "scope"),
        (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
    ),
    _informer(
        "loads_total", "counter", "Complete lists and watch-lists, by request.", "mode", "reason"
    ),
    _informer("watches_ended_total", "counter", "Watches by how they ended.", "end"),
    _informer(
        "watch_takeovers_total", "counter", "Watches that a second watch replaced.", "reason"
    ),
    _informer(
        "errors_total",
        "counter",
        "Failed requests, by HTTP status or kind of failure.",
        "request",
        "code",
    ),
    _informer("watch_events_total", "counter", "Events of watches that were applied.", "type"),
    _informer("received_bytes_total", "counter", "Bytes that lists and watches have received."),
    _informer("mailbox_depth", "gauge", "Events that wait for a handler.", "handler"),
    _informer(
        "mailbox_age_seconds",
        "gauge",
        "How long the oldest event has waited for a handler, at most.",
        "handler",
    ),
    _informer(
        "mailbox_merges_total",
        "counter",
        "Events that were merged with one that waited for a handler.",
        "handler",
    ),
    _informer(
        "handler_busy_seconds", "gauge", "How long a handler has run for its event.", "handler"
    ),
    _informer(
        "abandoned_handlers",
        "gauge",
        "Removed handlers that did not end when they were cancelled, and still run.",
    ),
    _informer("handler_calls_total", "counter", "Calls of a handler.", "handler", "result"),
    _informer(
        "rv_order",
        "gauge",
        "How resource versions are compared: 1 for the mode in use.",
        "mode",
    ),
    _informer(
        "rv_regressions_total",
        "counter",
        "Resource versions that are behind the position or behind the cached object.",
        "type",
        "source",
        "action",
    ),
    _informer("rv_malformed_total", "counter", "Resource versions that cannot be compared."),
    _informer(
        "equal_rv_total", "counter", "Events whose resource version is that of the position."
    ),
    _informer("duplicate_events_total", "counter", "Events that came twice."),
    _informer("unknown_events_total", "counter", "Events that cannot be read."),
    _informer(
        "uid_replacements_total",
        "counter",
        "Objects that were replaced by others of the same name without a deletion.",
    ),
    _informer(
        "delete_old_rv_total", "counter", "Deletions with an earlier version than the position."
    ),
    _informer("undecodable_total", "counter", "Objects that cannot be read.", "action"),
    _informer(
        "mass_deletes_total",
        "counter",
        "Lists that delete most objects, by what was done.",
        "action",
    ),
    _informer(
        "lineage_proofs_total",
        "counter",
        "Checks of whether the server's history is the same.",
        "verdict",
    ),
    _informer(
        "lineage_resets_total",
        "counter",
        "Loads that replaced the cache because the server has another history.",
    ),
    _informer("audits_total", "counter", "Comparisons of the cache with the server.", "verdict"),
    _informer("audit_mismatches_total", "counter", "Differences between cache and server.", "kind"),
    _informer("cache_mutations_total", "counter", "Shared values that were changed in place."),
)

# As in component-base; controller-runtime has the same, and 60 s for lookups of names, too.
_LOOKUP_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
_REQUEST_SECONDS: Final = (*_LOOKUP_SECONDS, 60.0)
_BODY_BYTES: Final = tuple(float(1 << power) for power in (6, 8, 9, 10, 12, 14, 16, 18, 20, 22, 24))

_REST_CLIENT = (
    MetricSpec(
        "rest_client_requests_total",
        "counter",
        "Requests that were sent, by the status of the response; <error> if there was none.",
        ("code", "method", "host"),
    ),
    MetricSpec(
        "rest_client_request_retries_total",
        "counter",
        "Requests that were sent again, by the status of the response; <error> if there was none.",
        ("code", "verb", "host"),
    ),
    MetricSpec(
        "rest_client_request_duration_seconds",
        "histogram",
        "How long a request takes from its first wait to the end of its response; no watches.",
        ("verb", "host"),
        _REQUEST_SECONDS,
    ),
    MetricSpec(
        "rest_client_request_size_bytes",
        "histogram",
        "The size of a request's body; no watches.",
        ("verb", "host"),
        _BODY_BYTES,
    ),
    MetricSpec(
        "rest_client_response_size_bytes",
        "histogram",
        "The size of a response's body; no watches.",
        ("verb", "host"),
        _BODY_BYTES,
    ),
    MetricSpec(
        "rest_client_rate_limiter_duration_seconds",
        "histogram",
        "How long a write waits for the client's own rate limit.",
        ("verb", "host"),
        _REQUEST_SECONDS,
    ),
    MetricSpec(
        "rest_client_dns_resolution_duration_seconds",
        "histogram",
        "How long the lookup of a host's name takes.",
        ("host",),
        _LOOKUP_SECONDS,
    ),
    MetricSpec(
        "rest_client_exec_plugin_call_total",
        "counter",
        "Runs of exec plug-ins, by exit code and outcome.",
        ("code", "call_status"),
    ),
    MetricSpec(
        "rest_client_transport_ca_reload_total",
        "counter",
        "Reloads of certificate files that have changed.",
        ("result", "reason"),
    ),
    MetricSpec(
        "rest_client_request_failures_total",
        "counter",
        "Requests without a complete response, by the kind of the error.",
        ("name", "host", "reason"),
    ),
    MetricSpec(
        "rest_client_requests_in_flight",
        "gauge",
        "Requests that have no complete response yet; watches until they are opened.",
        ("name", "host"),
    ),
    MetricSpec(
        "rest_client_requests_waiting",
        "gauge",
        "Requests that wait in the client before they are sent, by what they wait for.",
        ("name", "host", "reason"),
    ),
    MetricSpec(
        "rest_client_retry_after_seconds",
        "histogram",
        "How long a request waits before it is sent again to a busy server.",
        ("name", "host"),
        _REQUEST_SECONDS,
    ),
    MetricSpec(
        "rest_client_warnings_total",
        "counter",
        "Warnings of the server, of deprecated versions or unknown fields for example.",
        ("name", "host"),
    ),
    MetricSpec(
        "rest_client_connections_open",
        "gauge",
        "Open sockets to the server, those of watches included.",
        ("name", "host"),
    ),
    MetricSpec(
        "rest_client_connections_dialled_total",
        "counter",
        "Sockets that were made to connect to the server.",
        ("name", "host"),
    ),
    MetricSpec(
        "rest_client_credential_renewals_total",
        "counter",
        "Logins and readings of token files.",
        ("name", "host", "result"),
    ),
    MetricSpec(
        "rest_client_lists_in_flight",
        "gauge",
        "Lists of informers that are under way and count against the limit.",
        ("name", "host"),
    ),
    MetricSpec(
        "rest_client_lists_overdue_total",
        "counter",
        "Lists of informers that were too slow to count against the limit any longer.",
        ("name", "host"),
    ),
)

_CLUSTER_POOL = (
    MetricSpec("cluster_pool_clusters", "gauge", "The clusters of pools by state.", ("state",)),
    MetricSpec("cluster_pool_waiters", "gauge", "Callers that wait for a cluster of a pool."),
)

_REGISTRY = (
    MetricSpec(
        "pyinformer_metrics_dropped_values_total",
        "counter",
        "Values that a metric cannot have, such as NaN.",
        ("metric",),
    ),
    MetricSpec(
        "pyinformer_metrics_folded_series_total",
        "counter",
        "Series beyond the limits, counted whenever they are bound or read.",
        ("metric",),
    ),
    MetricSpec(
        "pyinformer_metrics_source_failures_total",
        "counter",
        "Figures of sources that failed or were invalid.",
        ("reason",),
    ),
)

CATALOGUE: Final[Mapping[str, MetricSpec]] = {
    spec.name: spec
    for family in (
        _WORKQUEUE,
        _CONTROLLER,
        _WEBHOOK,
        _LEADER_ELECTION,
        _SHARING,
        _LOOP,
        _INFORMER,
        _REST_CLIENT,
        _CLUSTER_POOL,
        _REGISTRY,
    )
    for spec in family
}
"""Every metric of the library, by name."""
