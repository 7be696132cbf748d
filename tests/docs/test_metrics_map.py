"""The map of metrics: each name of upstream occurs once, and each name of ours exists.

The lists are facts from component-base 0.37 (metrics/prometheus), controller-runtime 0.25 (pkg) and
the Java Operator SDK 5.5 (MicrometerMetricsV2).
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from pyinformer.telemetry.metrics import CATALOGUE
from tests.docs import pages

_PAGE = pages.read("docs/reference/metrics-map.md")
_CODE = re.compile(r"`([^`]+)`")
_OURS = re.compile(r"(rest_client|workqueue|informer|leader_election|controller)_\w+")

_WORKQUEUE = (
    "workqueue_adds_total",
    "workqueue_depth",
    "workqueue_longest_running_processor_seconds",
    "workqueue_queue_duration_seconds",
    "workqueue_retries_total",
    "workqueue_unfinished_work_seconds",
    "workqueue_work_duration_seconds",
)
_ELECTION = ("leader_election_master_status", "leader_election_slowpath_total")
UPSTREAM = {
    "client-go": (
        "informer_processing_latency_seconds",
        "informer_queued_items",
        "informer_store_resource_version",
        "rest_client_dns_resolution_duration_seconds",
        "rest_client_exec_plugin_call_total",
        "rest_client_exec_plugin_certificate_rotation_age",
        "rest_client_exec_plugin_policy_call_total",
        "rest_client_exec_plugin_ttl_seconds",
        "rest_client_rate_limiter_duration_seconds",
        "rest_client_request_duration_seconds",
        "rest_client_request_retries_total",
        "rest_client_request_size_bytes",
        "rest_client_requests_total",
        "rest_client_response_size_bytes",
        "rest_client_transport_ca_reload_total",
        "rest_client_transport_cache_entries",
        "rest_client_transport_cache_gc_calls_total",
        "rest_client_transport_cert_rotation_gc_calls_total",
        "rest_client_transport_create_calls_total",
        *_WORKQUEUE,
        *_ELECTION,
    ),
    "controller-runtime": (
        "certwatcher_read_certificate_errors_total",
        "certwatcher_read_certificate_total",
        "controller_runtime_active_workers",
        "controller_runtime_conversion_webhook_panics_total",
        "controller_runtime_max_concurrent_reconciles",
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_reconcile_panics_total",
        "controller_runtime_reconcile_time_seconds",
        "controller_runtime_reconcile_timeouts_total",
        "controller_runtime_reconcile_total",
        "controller_runtime_terminal_reconcile_errors_total",
        "controller_runtime_webhook_latency_seconds",
        "controller_runtime_webhook_panics_total",
        "controller_runtime_webhook_requests_in_flight",
        "controller_runtime_webhook_requests_total",
        "workqueue_depth",
        *_ELECTION,
    ),
    "Java Operator SDK": (
        "custom_resources",
        "events.received",
        "processing.started.latency",
        "reconciliations.active",
        "reconciliations.execution.duration",
        "reconciliations.failure.total",
        "reconciliations.queue",
        "reconciliations.retries.total",
        "reconciliations.started.total",
        "reconciliations.success.total",
    ),
}


def rows(peer: str) -> list[list[str]]:
    """Return the cells of each row of a peer's table."""
    parts = re.split(r"^## ", _PAGE, flags=re.MULTILINE)
    (section,) = [one for one in parts if one.startswith(peer)]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [line.strip("|").split(" | ") for line in lines]


@pytest.mark.parametrize("peer", UPSTREAM)
def test_every_metric_of_upstream_is_listed_once(peer: str) -> None:
    listed = Counter(name for left, *_ in rows(peer) for name in _CODE.findall(left))
    assert listed == Counter(UPSTREAM[peer])


@pytest.mark.parametrize("peer", UPSTREAM)
def test_a_row_has_a_metric_of_ours_or_says_that_there_is_none(peer: str) -> None:
    for left, middle, *_ in rows(peer):
        if middle.strip() == "the same":
            assert set(_CODE.findall(left)) <= CATALOGUE.keys()
        elif not middle.strip().startswith("no counterpart"):
            assert set(_CODE.findall(middle)) <= CATALOGUE.keys()
        else:
            assert not set(_CODE.findall(left)) & CATALOGUE.keys()


def test_every_metric_of_ours_on_the_page_exists() -> None:
    upstream = {name for names in UPSTREAM.values() for name in names}
    named = {name for name in _CODE.findall(_PAGE) if _OURS.fullmatch(name)}
    assert named - upstream <= CATALOGUE.keys()
