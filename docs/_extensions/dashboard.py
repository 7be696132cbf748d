"""Write the Grafana dashboard `docs/prometheus/dashboard.json`: `make dashboard`.

A panel is a title, a unit and its expressions, so that a reader can compare them with the reference
of metrics.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, final

from grafana_foundation_sdk.builders import dashboard, prometheus, timeseries
from grafana_foundation_sdk.builders.common import VizLegendOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

if TYPE_CHECKING:
    from collections.abc import Mapping

DASHBOARD: Final = Path(__file__).parents[1] / "prometheus" / "dashboard.json"

_WHERE: Final = '{job=~"$job", instance=~"$instance"}'
_INFORMER: Final = "{{name}} {{resource}}.{{group}} {{scope}}"
_SOURCE: Final = DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT = 8, 7  # of 24 columns


@final
class Figure(NamedTuple):
    """One panel."""

    title: str
    unit: str
    """Of Grafana: `s`, `bytes`, `short`, `reqps`, `percentunit`."""
    lines: Mapping[str, str]
    """The expression of each line, by its legend; `WHERE` is where the variables select."""


def _quantile(metric: str, by: str, quantile: str = "0.99") -> str:
    rate = f"rate({metric}_bucketWHERE[$__rate_interval])"
    return f"histogram_quantile({quantile}, sum by (le, {by}) ({rate}))"


def _rate(metric: str, by: str, where: str = "WHERE") -> str:
    return f"sum by ({by}) (rate({metric}{where}[$__rate_interval]))"


ROWS: Final[Mapping[str, tuple[Figure, ...]]] = {
    "Caches": (
        Figure(
            "Age: since the cache was last proven", "s", {_INFORMER: "informer_age_secondsWHERE"}
        ),
        Figure(
            "Caches that are not synced", "short", {_INFORMER: "informer_syncedWHERE == bool 0"}
        ),
        Figure(
            "Complete lists",
            "short",
            {
                "{{resource}} {{mode}} {{reason}}": "sum by (resource, mode, reason)"
                " (increase(informer_loads_totalWHERE[15m]))"
            },
        ),
        Figure("Objects", "short", {_INFORMER: "informer_objectsWHERE"}),
        Figure("Cached bytes, estimated", "bytes", {_INFORMER: "informer_cached_bytesWHERE"}),
        Figure(
            "Events by type",
            "eps",
            {"{{resource}} {{type}}": _rate("informer_watch_events_total", "resource, type")},
        ),
        Figure(
            "Failed requests",
            "reqps",
            {
                "{{resource}} {{request}} {{code}}": _rate(
                    "informer_errors_total", "resource, request, code"
                )
            },
        ),
        Figure(
            "Watches by their end",
            "reqps",
            {"{{resource}} {{end}}": _rate("informer_watches_ended_total", "resource, end")},
        ),
        Figure(
            "Received",
            "Bps",
            {"{{resource}}": _rate("informer_received_bytes_total", "resource")},
        ),
    ),
    "Handlers": (
        Figure(
            "Age of the oldest event that waits",
            "s",
            {"{{resource}} {{handler}}": "informer_mailbox_age_secondsWHERE"},
        ),
        Figure(
            "Events that wait", "short", {"{{resource}} {{handler}}": "informer_mailbox_depthWHERE"}
        ),
        Figure(
            "Calls by result",
            "ops",
            {"{{handler}} {{result}}": _rate("informer_handler_calls_total", "handler, result")},
        ),
    ),
    "Controllers": (
        Figure(
            "Reconciles by result",
            "ops",
            {
                "{{controller}} {{result}}": _rate(
                    "controller_runtime_reconcile_total", "controller, result"
                )
            },
        ),
        Figure(
            "Time of a reconcile, 99 % and 50 %",
            "s",
            {
                "{{controller}} 99 %": _quantile(
                    "controller_runtime_reconcile_time_seconds", "controller"
                ),
                "{{controller}} 50 %": _quantile(
                    "controller_runtime_reconcile_time_seconds", "controller", "0.5"
                ),
            },
        ),
        Figure(
            "From an event to its reconcile, 99 %",
            "s",
            {"{{controller}}": _quantile("controller_event_to_reconcile_seconds", "controller")},
        ),
        Figure(
            "Keys that wait, by priority",
            "short",
            {"{{name}} {{priority}}": "workqueue_depthWHERE"},
        ),
        Figure(
            "Time in the queue, 99 %",
            "s",
            {"{{name}}": _quantile("workqueue_queue_duration_seconds", "name")},
        ),
        Figure(
            "Busy workers",
            "percentunit",
            {
                "{{controller}}": "sum by (controller) (controller_runtime_active_workersWHERE)"
                " / sum by (controller) (controller_runtime_max_concurrent_reconcilesWHERE)"
            },
        ),
        Figure(
            "Retries",
            "ops",
            {"{{name}}": _rate("workqueue_retries_total", "name")},
        ),
        Figure(
            "Longest reconcile under way",
            "s",
            {"{{name}}": "workqueue_longest_running_processor_secondsWHERE"},
        ),
        Figure(
            "Writes that changed nothing",
            "ops",
            {"{{controller}}": _rate("controller_noop_writes_total", "controller")},
        ),
    ),
    "Requests": (
        Figure(
            "Requests by code",
            "reqps",
            {"{{method}} {{code}}": _rate("rest_client_requests_total", "method, code")},
        ),
        Figure(
            "Time of a request, 99 %",
            "s",
            {"{{verb}}": _quantile("rest_client_request_duration_seconds", "verb")},
        ),
        Figure(
            "Requests that wait in the client",
            "short",
            {"{{reason}}": "sum by (reason) (rest_client_requests_waitingWHERE)"},
        ),
    ),
    "Program": (
        Figure(
            "Leaders of each Lease",
            "short",
            {"{{name}}": "sum by (name) (leader_election_master_statusWHERE)"},
        ),
        Figure(
            "Time for which the event loop is blocked",
            "percentunit",
            {"{{instance}}": "rate(informer_loop_blocked_seconds_totalWHERE[$__rate_interval])"},
        ),
        Figure("Programs that answer", "short", {"{{job}}": "sum by (job) (upWHERE)"}),
    ),
}


def _panel(figure: Figure) -> timeseries.Panel:
    panel = (
        timeseries.Panel()
        .title(figure.title)
        .unit(figure.unit)
        .min(0.0)
        .datasource(_SOURCE)
        .span(_WIDTH)
        .height(_HEIGHT)
        .legend(
            VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
        )
    )
    for letter, (legend, expression) in zip("ABCD", figure.lines.items(), strict=False):
        query = prometheus.Dataquery().expr(expression.replace("WHERE", _WHERE))
        panel.with_target(query.legend_format(legend).ref_id(letter))
    return panel


def _variable(name: str) -> dashboard.QueryVariable:
    return (
        dashboard.QueryVariable(name)
        .query(f"label_values(informer_synced, {name})")
        .datasource(_SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def dashboard_json() -> str:
    """Return the dashboard as Grafana imports it."""
    made = (
        dashboard.Dashboard("pyinformer")
        .uid("pyinformer")
        .tags(["kubernetes", "operator"])
        .refresh("30s")
        .time("now-1h", "now")
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
        .with_variable(_variable("job"))
        .with_variable(_variable("instance"))
    )
    for title, figures in ROWS.items():
        made.with_row(dashboard.Row(title))
        for figure in figures:
            made.with_panel(_panel(figure))
    return f"{JSONEncoder(sort_keys=True, indent=2).encode(made.build())}\n"


if __name__ == "__main__":
    DASHBOARD.write_text(dashboard_json(), encoding="utf-8")
