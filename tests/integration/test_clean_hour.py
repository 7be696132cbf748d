"""A clean hour: rolling restarts of two kube-apiservers, and not one false alarm.

Seven informers follow four kinds, two selectors and expiring Events through one address, behind
which two servers share an etcd, while writers write and one server after the other is killed. All
safeguards look on, and none has a reason to act: no regressions, no verifies, no mismatches, no
resets, and no list but the first loads and those after a 410. A server that has just started can
take longer than 75 s for the first bookmark of a quiet watch, about once an hour here: then a
second watch takes over, which costs one request and lists nothing. It is counted and bounded.

`PYINFORMER_SOAK_HOURS=1 python -m pytest -s -m real tests/integration/test_clean_hour.py` is the
hour; without the variable it takes one minute.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, cast

import pytest

import pyinformer
from pyinformer.telemetry.metrics import MetricsRegistry
from pyinformer.testing import KubeAPIServer, StaticToken
from tests.followed import server_behind
from tests.integration.asked import USER, Asked, audit_flags
from tests.integration.following import Followed, follow
from tests.integration.history import Versions
from tests.integration.objects import CONFIG_MAPS, SECRETS, WIDGET, event_of_nothing
from tests.integration.proxy import proxying
from tests.integration.servers import RealServer
from tests.integration.workload import SELECTED, Writer, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyinformer.testing import FaultProxy

MINUTES = 60 * float(os.environ.get("PYINFORMER_SOAK_HOURS", "0")) or 1.0
RESTARTS = 3  # in a short run; an hour has one every three minutes
LONGEST_PERIOD_SECONDS = 180.0
TOKEN = "the-token-of-the-informers"
KINDS = (CONFIG_MAPS, SECRETS, WIDGET)
FILL = 60
PAUSE_SECONDS = 0.2
EVENT_TTL_SECONDS = 30.0  # six at a time; etcd ends those of one lease in one revision
EVENTS_PERIOD_SECONDS = 5.0
ALARMS = (
    "rv_regressions",
    "rv_malformed",
    "verif",
    "mismatch",
    "lineage_resets",
    "mass_deletes",
)


class Figures:
    """The figures of all informers of the run, at one moment."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self.counts: Counter[str] = Counter()
        for family in registry.collect():
            for one in family.series if family.spec.type == "counter" else ():
                details = ",".join([*one.labels.values()][5:])
                what = f"{family.spec.name} {details}".strip()
                self.counts[what] += int(cast("float", one.value))

    def alarms(self) -> dict[str, int]:
        """Return what should not have been counted at all."""
        found = self.counts.items()
        return {name: n for name, n in found if n and any(word in name for word in ALARMS)}

    @property
    def takeovers(self) -> int:
        """How often a watch was silent for so long that a second one took over."""
        return sum(n for name, n in self.counts.items() if "watch_takeovers" in name)

    @property
    def expired(self) -> int:
        """How often a watch was answered with a 410."""
        return self.counts["informer_errors_total watch,410"]


class Traffic:
    """The load meanwhile; every part has a thread."""

    def __init__(self, server: RealServer, versions: Versions) -> None:
        self.server = server
        self.namespace = namespace = server.namespace()
        self.writers = [Writer(server, kind, namespace, versions) for kind in KINDS]
        self.restarts = 0
        self.events = 0
        self._stop = threading.Event()
        self._between_writes = [threading.Lock() for _ in range(len(KINDS) + 1)]

    def write(self, writer: Writer, lock: threading.Lock) -> None:
        """Write at random."""
        while not self._stop.wait(PAUSE_SECONDS):
            with lock:
                writer.churn(creates=0, others=1)
            if len(writer.live) < FILL:
                with lock:
                    writer.fill(1)

    def tell(self, lock: threading.Lock) -> None:
        """Make Events, six at once."""
        while not self._stop.wait(EVENTS_PERIOD_SECONDS):
            for _ in range(6):
                with lock:
                    self.server.api.create(event_of_nothing(f"e{self.events}", self.namespace))
                self.events += 1

    def restart_in_turn(self, period_seconds: float, balancer: FaultProxy) -> None:
        """Kill one server after the other, never amid a write: its outcome would be unknown.

        The balancer asks for readiness, as load balancers do: a server that starts accepts
        connections long before it answers on them.
        """
        api = self.server.api
        assert isinstance(api, KubeAPIServer)
        ports = api.ports
        while not self._stop.wait(period_seconds):
            replica = self.restarts % len(ports)
            balancer.use_ports([port for port in ports if port != ports[replica]])
            for lock in self._between_writes:
                lock.acquire()
            try:
                api.kill(replica)
            finally:
                for lock in self._between_writes:
                    lock.release()
            api.restart(replica)
            balancer.use_ports(ports)
            self.restarts += 1

    async def rage(self, seconds: float, balancer: FaultProxy) -> None:
        """Do all of it at once.

        In threads of its own: the loop has only a few, and looks up addresses in them.
        """
        period = min(LONGEST_PERIOD_SECONDS, seconds / (RESTARTS + 1))
        *locks, last = self._between_writes
        with ThreadPoolExecutor() as threads:
            try:
                parts = [
                    *(
                        threads.submit(self.write, writer, lock)
                        for writer, lock in zip(self.writers, locks, strict=True)
                    ),
                    threads.submit(self.tell, last),
                    threads.submit(self.restart_in_turn, period, balancer),
                ]
                await asyncio.wait(
                    list(map(asyncio.wrap_future, parts)),
                    timeout=seconds,
                    return_when=asyncio.FIRST_EXCEPTION,
                )
            finally:
                self._stop.set()
                await asyncio.gather(*map(asyncio.wrap_future, parts))


@pytest.fixture
def audit_folder(tmp_path: Path) -> Path:
    """Where both servers write down what they are asked."""
    return tmp_path


@pytest.fixture
def server(kube_apiserver_build: bool, audit_folder: Path) -> Iterator[RealServer]:
    """Two kube-apiservers on one etcd."""
    with KubeAPIServer(
        build=kube_apiserver_build,
        replicas=2,
        tokens=[StaticToken(TOKEN, USER, ("system:masters",))],
        event_ttl_seconds=EVENT_TTL_SECONDS,
        extra_args=audit_flags(audit_folder),
    ) as api:
        yield RealServer(api)
        api.close_connections()


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 600)
async def test_a_clean_hour_has_no_alarm_and_no_list_without_a_reason(
    server: RealServer, audit_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Then caches and handlers are what the server has, and every version seen was written."""
    api = server.api
    assert isinstance(api, KubeAPIServer)
    server.serve_widgets()
    versions, registry = Versions(), MetricsRegistry()
    traffic = Traffic(server, versions)
    asked = Asked(api, audit_folder)
    async with (
        proxying(api, ports=api.ports) as balancer,
        server.connect(url=balancer.url, token=TOKEN) as cluster,
        pyinformer.SharedInformerFactory(cluster, metrics=registry) as factory,
    ):
        followed = _informers(factory, traffic.namespace)
        await together(partial(writer.fill, FILL) for writer in traffic.writers)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        await traffic.rage(MINUTES * 60, balancer)
        *lasting, events = followed
        for one in lasting:
            await one.settle(server, versions=versions)
        await events.knows(0, timeout_seconds=EVENT_TTL_SECONDS * 3)
        await events.settle(server)
        loads = sum(one.loads for one in followed)
        lineage = server_behind(cluster).lineage.status()
        counts, served, expired = (
            asked.counts(),
            asked.counts(status=200),
            Figures(registry).expired,
        )
        audits = [await one.informer.audit() for one in followed]
        figures = Figures(registry)

    _print({
        "minutes": MINUTES,
        "restarts": traffic.restarts,
        "writes": len(versions),
        "Events": traffic.events,
        "handler calls": sum(len(one.history.events) for one in followed),
        "informers": len(followed),
        "loads": loads,
        "410s": expired,
        "asked": dict(counts),
        "served": dict(served),
        "counted": dict(figures.counts),
        "lineage": lineage,
        "audited": [str(one) for one in audits],
    })  # fmt: skip
    assert figures.alarms() == {}
    assert figures.takeovers <= 1 + MINUTES / 20
    assert all(one.is_consistent for one in audits)
    assert lineage.resets == 0
    assert counts["verify"] == counts["audit"] == 0
    assert loads == len(followed) + expired
    # The server counted the same; a custom resource that is not ready yet (429) served nothing.
    assert served["load"] + served["watch-list"] == loads
    assert traffic.restarts >= min(RESTARTS - 1, 2 * MINUTES)
    ours = [one for one in caplog.records if one.name.startswith("pyinformer")]
    assert [one.getMessage() for one in ours if one.levelno >= logging.ERROR] == []


def _informers(factory: pyinformer.SharedInformerFactory, namespace: str) -> list[Followed]:
    scopes = [(kind.api_version, kind.plural, None, None) for kind in KINDS]
    return [
        follow(
            factory,
            api_version,
            plural,
            namespaces=namespace,
            label_selector=labels,
            field_selector=fields,
        )
        for api_version, plural, labels, fields in (
            *scopes,
            ("v1", "configmaps", SELECTED, None),
            ("v1", "secrets", None, "type=Opaque"),
            ("v1", "pods", None, None),  # there are none: only bookmarks say that its watch lives
            ("v1", "events", None, None),
        )
    ]


def _print(figures: Mapping[str, object]) -> None:
    lines = [f"  {name}: {value}" for name, value in figures.items()]
    print("\n".join(("\nThe clean hour:", *lines)))  # noqa: T201 - the figures of this run
