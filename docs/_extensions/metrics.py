"""Write the page of all metrics from the catalogue: `make options`.

A test compares the committed page with the catalogue, so no metric is missing. Needs no Sphinx.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyinformer.telemetry.metrics import CATALOGUE, MetricSpec

PAGE: Final = Path(__file__).resolve().parents[1] / "reference/metrics.md"

_INFORMERS: Final = """\
`name` is the cluster's, and `group`, `version` and `resource` are what the informer follows.
`scope` is its namespace, `several namespaces` together, or empty for all of them; behind that come
its selectors. A second cluster of a name is `name#2`, and so is a second informer of a scope, so
that no two share series. client-go's three metrics have no `scope`: informers of one resource add
up, and the version is of the one furthest behind. Figures are of running informers. Counts of a
namespace that is left remain.

- `state`: `new`, `loading`, `watching`, `proving`, `waiting`, `polling` (watches are
  refused, lists are answered), `forbidden`, `absent`, `failed`, `stopped`, `crashed`.
- `mode` of loads: `watch_list`, `paged`, `whole`.
- `reason` of loads: `initial`, `expired` (a 410), `history` (the server went back in time),
  `audit`, `outage`, `poll`, `absence`, `request`, `failure`.
- `end` of watches: `complete`, `early`, `failed`, `refused`, `silent`, `interrupted`, `bookmark`,
  `malformed`, `suspect`, `unreadable`.
- `request` of errors: `watch_list`, `paged`, `whole`, `watch`, `proof`, `verify`.
- `code` of errors: an HTTP status, `timeout`, `connection`, `tls`, `protocol`, `configuration`,
  `internal`, `other`."""

# The first prefix that fits decides.
SECTIONS: Final[dict[str, tuple[str, str]]] = {
    "workqueue_": (
        "Work queues",
        "As those of client-go and controller-runtime. A queue without a name has no metrics.",
    ),
    "controller_runtime_webhook_": (
        "Webhooks",
        "As those of controller-runtime; `webhook` is the path.",
    ),
    "controller_runtime_": (
        "Reconciles",
        "As those of controller-runtime. With several clusters, `controller` is `cluster:name`.",
    ),
    "controller_": ("Controllers", "Of pyinformer alone."),
    "terminal_reconcile_": ("Reconciles", ""),
    "leader_election_": (
        "Leader election",
        "`name` is that of the Lease; the status and the slow path are client-go's.",
    ),
    "sharing_": (
        "Shared work",
        "Of pyinformer alone; `name` is the operator's, in all replicas.",
    ),
    "operator_timer_": ("Timers", "Of pyinformer alone, with the label of the timer's controller."),
    "rest_client_": (
        "Requests",
        "Without `name` as those of client-go ([map](metrics-map.md)); it is the cluster's.",
    ),
    "informer_loop_": ("The event loop", "Of pyinformer alone; measured by its watchdog."),
    "cluster_pool_": ("Pools of clusters", "Of pyinformer alone."),
    "informer_": ("Informers", _INFORMERS),
    "": ("The program and the metrics themselves", "Of pyinformer alone."),
}

_HEAD: Final = """# Every metric

`make options` writes this page from `pyinformer.telemetry.CATALOGUE`; a test holds that it is
current. [How to use them](../howto/metrics.md).

Names and labels never depend on objects, keys or messages. A name of these has at
most 100,000 series, and a queue 25 values of `priority`; what is beyond is one series whose label
values are `other`. The series of an informer, a controller or a cluster end with it.
"""


def page() -> str:
    """Return the text of the page."""
    rows: dict[str, list[MetricSpec]] = {}
    notes: dict[str, str] = {}
    for spec in CATALOGUE.values():
        title, note = next(
            words for prefix, words in SECTIONS.items() if spec.name.startswith(prefix)
        )
        rows.setdefault(title, []).append(spec)
        notes[title] = notes.get(title) or note
    order = {title: place for place, (title, _) in enumerate(SECTIONS.values())}
    return _HEAD + "".join(
        _section(title, notes[title], rows[title]) for title in sorted(rows, key=order.__getitem__)
    )


def _section(title: str, note: str, specs: list[MetricSpec]) -> str:
    rows = "".join(
        f"| `{spec.name}` | {spec.type} | {_labels(spec)} | {_meaning(spec)} |\n"
        for spec in sorted(specs, key=lambda spec: spec.name)
    )
    table = f"| metric | type | labels | meaning |\n|---|---|---|---|\n{rows}"
    return f"\n## {title}\n\n{note}\n\n{table}"


def _labels(spec: MetricSpec) -> str:
    return ", ".join(f"`{label}`" for label in spec.labels)


def _meaning(spec: MetricSpec) -> str:
    text = spec.help.replace("|", "\\|")
    if spec.type != "histogram":
        return text
    return f"{text} {len(spec.buckets)} buckets, {spec.buckets[0]:g} to {spec.buckets[-1]:g}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
