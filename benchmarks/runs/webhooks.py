"""Admission webhooks: a review, its memory, a write that is asked about, and an operator's start.

All operators run at once at one API server, each with a kind and an object of its own and with the
same decisions; the client asks them by turns, so that a round compares them under the same load.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmarks.data.databases import (
    NAME,
    NAMESPACE,
    PLURAL,
    USERS,
    database,
    review,
    stored,
)
from benchmarks.harness.operators import (
    OperatorOptions,
    StartedOperator,
    operator_command,
    started_operator,
)
from benchmarks.harness.phases import Measurement, Workload
from benchmarks.harness.reviewing import Asked, Webhook, reviewed
from benchmarks.peers.own_webhooks import Database, make_operator
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import OWN, against, extra
from benchmarks.runs.lone_event import CONTROLLER_RUNTIME, PairedRounds
from benchmarks.runs.real_server import is_real, server_name
from benchmarks.runs.run import Bench, Known, Run, Setting, Size
from benchmarks.server.written import RunningServer, running
from pyinformer import Operator, Webhooks
from pyinformer.errors import APIStatusError, InvalidArgumentError

KOPF = "kopf"
HOOKS = ("default", "validate")
_PLAIN = "plain"
_GROUP = "hooks.example.com"
_SERVED_SECONDS = 60.0
_WARM_UP = 50
_PAIRS = "pairs of writes"


@dataclass(frozen=True, slots=True)
class WebhookWorkload:
    """How much the webhooks are asked."""

    reviews: int
    """Of each hook, at 200 per second."""
    turns: int
    at_once: int
    """Large reviews at once."""
    large_users: int
    """Users of the objects of a large review, about 200 bytes each."""
    pairs: int
    """Writes with and without hooks; the smoke has a server that is not asked about them."""
    starts: int
    """With and without hooks."""


_WORKLOADS = {
    Size.SMOKE: WebhookWorkload(20, 2, 2, 400, 0, 1),
    Size.FULL: WebhookWorkload(1_000, 5, 16, 9_600, 400, 5),
}


@dataclass(frozen=True, slots=True)
class _Hooked:
    """The API server with a kind for each peer, and what the peers are started with."""

    server: RunningServer
    workload: WebhookWorkload
    ports: Mapping[str, int]
    """Of each peer."""
    folder: str
    """Has the certificate of all."""

    def play(self) -> dict[str, Measurement]:
        """Measure all peers once."""
        found = {peer: Measurement(peer) for peer in self.ports}
        with contextlib.ExitStack() as stack:
            operators: dict[str, StartedOperator] = {}
            for peer, measured in found.items():
                try:
                    command = operator_command(peer)
                    measured.extra |= self._start(peer, command)
                    for hook in HOOKS:
                        measured.extra |= self._ask_at_once(peer, command, hook)
                    operators[peer] = stack.enter_context(self._operator(peer, command))
                except (RuntimeError, subprocess.SubprocessError) as error:
                    measured.error = str(error)
            for figures in self._measure(operators):
                for peer, named in figures.items():
                    found[peer].extra |= named
        return found

    def _measure(
        self, operators: Mapping[str, StartedOperator]
    ) -> Iterator[Mapping[str, dict[str, float]]]:
        work = self.workload
        asked = self._asked(
            [self._webhook(peer, one, hook) for peer, one in operators.items() for hook in HOOKS]
        )
        reviewed(replace(asked, reviews=_WARM_UP))
        own = {OWN: operators[OWN]} if OWN in operators else {}
        for one in own.values():
            one.figures()
        yield reviewed(replace(asked, reviews=work.reviews, turns=work.turns))
        yield {peer: one.figures() for peer, one in own.items()}
        if work.pairs:
            for peer in operators:
                _eventually(partial(self._is_asked, peer))
            yield self._written(tuple(operators))

    def _start(self, peer: str, command: list[str]) -> dict[str, float]:
        """Start an operator with hooks and without, by turns; compare the medians."""
        with self._operator(peer, command):
            pass  # its files are read, and compiled if that was not done before
        started: dict[bool, list[StartedOperator]] = {True: [], False: []}
        for has_hooks in (True, False) * self.workload.starts:
            with self._operator(peer, command, has_hooks=has_hooks) as operator:
                started[has_hooks].append(operator)
        figures: dict[str, float] = {}
        for name, of in (("wall", attrgetter("wall_seconds")), ("cpu", attrgetter("cpu_seconds"))):
            hooked, plain = (statistics.median(map(of, started[has])) for has in (True, False))
            figures |= {f"start_{name}_ms": hooked * 1e3, f"start_{name}_ratio": hooked / plain}
        return figures

    def _ask_at_once(self, peer: str, command: list[str], hook: str) -> dict[str, float]:
        """Ask with large reviews at once, in a process that has had small ones only."""
        users = self.workload.large_users // (1 if hook == "default" else 2)  # two objects
        with self._operator(peer, command) as operator:
            small = self._webhook(peer, operator, hook)
            reviewed(replace(self._asked([small]), reviews=_WARM_UP))
            large = self._webhook(peer, operator, hook, users=users)
            return reviewed(replace(self._asked([large]), at_once=self.workload.at_once))[peer]

    def _asked(self, webhooks: list[Webhook]) -> Asked:
        return Asked(webhooks, ca_file=f"{self.folder}/authority.crt")

    def _webhook(
        self, peer: str, operator: StartedOperator, hook: str, *, users: int = USERS
    ) -> Webhook:
        version = _version(peer)
        written = database(version, users=users)
        if hook == "default":
            body = review(version, "CREATE", written)
        else:
            changed = {**written, "spec": {**written["spec"], "replicas": 4}}
            body = review(version, "UPDATE", changed, written)
        url = f"https://127.0.0.1:{self.ports[peer]}/{hook}/{PLURAL}"
        return Webhook(peer, hook, url, operator.pid, body.decode())

    def _operator(
        self, peer: str, command: list[str], *, has_hooks: bool = True
    ) -> contextlib.AbstractContextManager[StartedOperator]:
        workload = Workload(
            url=self.server.url,
            objects=1,
            updates=0,
            last_resource_version="",
            api_version=_version(peer),
            ca_file=self.server.ca_file,
            token=self.server.token,
        )
        port = self.ports[peer] if has_hooks else 0
        return started_operator(command, OperatorOptions(workload, self.folder, port))

    def _written(self, peers: Sequence[str]) -> dict[str, dict[str, float]]:
        """Write with hooks and without, by turns."""
        seconds: dict[str, list[tuple[float, float]]] = {peer: [] for peer in peers}
        for number in range(self.workload.pairs):
            for peer in peers:
                pair = (peer, _PLAIN) if number % 2 else (_PLAIN, peer)
                took = {}
                for one in pair:
                    began = time.perf_counter()
                    self._write(one)
                    took[one] = time.perf_counter() - began
                seconds[peer].append((took[peer], took[_PLAIN]))
        return {
            peer: {
                "write_ms": statistics.median(hooked for hooked, _ in pairs) * 1e3,
                "plain_write_ms": statistics.median(plain for _, plain in pairs) * 1e3,
                "write_ratio": statistics.median(hooked / plain for hooked, plain in pairs),
            }
            for peer, pairs in seconds.items()
        }

    def _is_asked(self, peer: str) -> bool:
        written = msgspec.convert(self._write(peer), Database)
        return bool(written.spec.image)

    def _write(self, peer: str) -> dict[str, Any]:
        """Change an object, whose image a hook sets again."""
        changes: dict[str, Any] = {"spec": {"image": "", "replicas": next(_numbers)}}
        return self.server.server.patch(_version(peer), PLURAL, NAME, changes, NAMESPACE)


_numbers = itertools.count(10)  # a write that changes nothing is not stored


def _version(peer: str) -> str:
    return f"{peer}.{_GROUP}/v1"


def _own(peer: str, port: int) -> Operator:
    webhooks = Webhooks(url=f"https://127.0.0.1:{port}")
    return make_operator(_version(peer), webhooks)


def _configurations(peer: str, port: int, authority: bytes) -> list[dict[str, Any]]:
    """Return ours; those of other peers are the same without the conditions that we add."""
    found = _own(peer, port).webhook_configurations(ca_bundle=authority)
    for one in found:
        one["metadata"]["name"] = peer
        if peer != OWN:
            for hook in one["webhooks"]:
                del hook["matchConditions"]
    return found


def _port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _eventually(condition: Callable[[], object]) -> None:
    """Wait until the API server serves a kind, or asks its hooks."""
    ends_at = time.monotonic() + _SERVED_SECONDS
    while True:
        try:
            if condition():
                return
        except (APIStatusError, InvalidArgumentError):  # not served yet, or a hook that fails
            if time.monotonic() > ends_at:
                raise
        if time.monotonic() > ends_at:
            raise RuntimeError("the API server does not ask the hooks")
        time.sleep(0.05)


def _define(server: RunningServer, peer: str) -> None:
    """Serve the kind of a peer, and write its object."""
    version = _version(peer)
    (definition,) = _own(peer, 1).custom_resource_definitions()
    server.server.create(definition)
    _eventually(lambda: server.server.create(database(version)))


@dataclass(frozen=True, slots=True)
class _Bench:
    known: Known
    rounds: PairedRounds

    def measure(self, peer: str) -> Measurement:
        return self.rounds.measure(peer)


@contextlib.contextmanager
def _open(setting: Setting) -> Iterator[Bench]:
    import trustme

    work = _WORKLOADS[setting.size]
    with running(is_real=is_real(setting)) as server, tempfile.TemporaryDirectory() as folder:
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        authority.cert_pem.write_to_path(f"{folder}/authority.crt")
        leaf = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
        leaf.private_key_pem.write_to_path(f"{folder}/tls.key")
        leaf.cert_chain_pems[0].write_to_path(f"{folder}/tls.crt")
        ports = {peer: _port() for peer in setting.peers or _PEERS[setting.size]}
        for peer in (*ports, _PLAIN):
            _define(server, peer)
        if work.pairs:  # the operators write no objects, so that nothing fails before they run
            for peer, port in ports.items():
                for one in _configurations(peer, port, authority.cert_pem.bytes()):
                    server.server.create(one)
        small = database(_version(OWN))
        large = database(_version(OWN), users=work.large_users)
        known: Known = {
            "server": server_name(setting),
            "reviews per hook": work.reviews,
            "bytes of an object": len(msgspec.json.encode(stored(small))),
            "large reviews at once": work.at_once,
            "bytes of each": len(review(_version(OWN), "CREATE", large)),
            _PAIRS: work.pairs,
            "starts": work.starts,
        }
        hooked = _Hooked(server, work, ports, folder)
        yield _Bench(known, PairedRounds(hooked.play))


_RATIOS = against(OWN, (CONTROLLER_RUNTIME, KOPF))
IN_SERVER = {hook: f"{hook}: time in the server" for hook in HOOKS}
LARGE = {hook: f"{hook}: memory of a large review, over its body" for hook in HOOKS}
HOOKED_WRITE = "a write with both hooks, over one without"
HOOKED_START = {
    "wall": "start with hooks, over one without: wall time",
    "cpu": "start with hooks, over one without: CPU",
}


def _specs(known: Known) -> tuple[Spec, ...]:
    reviews = [
        Spec(f"{hook}: {text}", unit, extra(f"{hook}_{name}"), {}, _RATIOS)
        for hook in HOOKS
        for text, unit, name in (
            ("round trip, p50", "ms", "p50_ms"),
            ("round trip, p99", "ms", "p99_ms"),
            ("CPU of the server per review", "us", "cpu_us"),
        )
    ]
    in_server = [
        Spec(f"{text}, p{percent}", "ms", extra(f"{hook}_server_p{percent}_ms"), {}, only=(OWN,))
        for hook, text in IN_SERVER.items()
        for percent in (50, 99)
    ]
    writes = [
        Spec(HOOKED_WRITE, "x", extra("write_ratio"), {}),
        Spec("a write with both hooks", "ms", extra("write_ms"), {}),
        Spec("a write without hooks", "ms", extra("plain_write_ms"), {}),
    ]
    starts = [
        Spec(HOOKED_START["wall"], "x", extra("start_wall_ratio"), {}),
        Spec(HOOKED_START["cpu"], "x", extra("start_cpu_ratio"), {}),
        Spec("start with hooks: wall time", "ms", extra("start_wall_ms"), {}, _RATIOS),
        Spec("start with hooks: CPU", "ms", extra("start_cpu_ms"), {}, _RATIOS),
    ]
    memory = [
        spec
        for hook in HOOKS
        for spec in (
            Spec(LARGE[hook], "x", extra(f"{hook}_bodies"), {}, _RATIOS),
            Spec(f"{hook}: large reviews that are answered", "", extra(f"{hook}_answered"), {}),
        )
    ]
    return (*reviews, *in_server, *memory, *(writes if known.get(_PAIRS, 1) else ()), *starts)


_PEERS = {Size.SMOKE: (OWN,), Size.FULL: (CONTROLLER_RUNTIME, KOPF, OWN)}

WEBHOOKS = Run(
    name="webhooks",
    title="Admission webhooks",
    says=(
        "Operators with a default and a validation of the same kind of object, about 6 KB, which"
        " one client asks by turns, 200 times a second, over HTTPS on one connection each; then 16"
        " reviews of 2 MB at once; then writes at a kube-apiserver that asks both hooks, each"
        " beside one of a kind without hooks; and starts of each operator with its hooks and"
        " without them, until it has reconciled an object and listens."
    ),
    peers=_PEERS,
    rounds={Size.SMOKE: 1, Size.FULL: 5},
    open=_open,
    specs=_specs,
)
