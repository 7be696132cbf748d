"""The faults that have a name: which part they strike, what they take, how they begin and end.

Arguments are text, so that a history can hold them. A fault that is not given an argument uses its
default.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol, TypeAlias

from pyinformer.errors import LifecycleError
from pyinformer.testing.apiserver.requests import Edit, Fault
from pyinformer.testing.faults._changing_facts import ChangingFacts
from pyinformer.testing.faults._etcd_relay import EtcdRelay
from pyinformer.testing.faults._fault_proxy import FaultProxy
from pyinformer.testing.histories import CatchesUp
from pyinformer.testing.kube_apiserver import SavedEtcd

Part: TypeAlias = Literal["network", "requests", "etcd-watches", "server", "facts", "program"]
Arguments: TypeAlias = Mapping[str, str]

_EXPIRED: Final = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},'
    b'"status":"Failure","message":"as scheduled","reason":"Expired","code":410}}\n'
)


class Servers(Protocol):
    """What a schedule does to programs: a `KubeAPIServer`."""

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports of the kube-apiservers."""
        ...

    def restart(self, replica: int | None = None) -> None:
        """Kill a kube-apiserver, and start it again."""
        ...

    def pause(self, replica: int | None = None) -> None:
        """Stop a kube-apiserver with SIGSTOP."""
        ...

    def resume(self, replica: int | None = None) -> None:
        """Continue it."""
        ...

    def restart_etcd(self) -> None:
        """Kill etcd, and start it again."""
        ...

    def pause_etcd(self) -> None:
        """Stop etcd with SIGSTOP."""
        ...

    def resume_etcd(self) -> None:
        """Continue it."""
        ...

    def compact(self) -> int:
        """Let etcd forget its history."""
        ...

    def save(self) -> SavedEtcd:
        """Copy etcd's data."""
        ...

    def restore(self, saved: SavedEtcd, *, bump_revision: int = 0) -> None:
        """Put etcd back to a copy, and start everything again."""
        ...


class Program(Protocol):
    """What a schedule does to the program under test."""

    def block(self, seconds: float) -> None:
        """Keep the event loop busy for so long."""
        ...

    def take_descriptors(self) -> None:
        """Let every new descriptor fail with EMFILE."""
        ...

    def give_descriptors(self) -> None:
        """End that."""
        ...

    def renew_token(self, token: str) -> None:
        """Use this bearer token from now on."""
        ...

    def renew_trust(self, ca_pem: bytes) -> None:
        """Trust this certificate, in PEM, from now on."""
        ...

    def freeze(self, seconds: float) -> None:
        """Stop the process with SIGSTOP, and continue it after so long."""
        ...

    def step_clock(self, seconds: float) -> None:
        """Put the program's wall clock so far ahead of the system's, or behind it; 0 ends it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a lab has; a fault of a part that is None is not available."""

    proxy: FaultProxy | None = None
    server: Servers | None = None
    relays: tuple[EtcdRelay, ...] = ()
    facts: ChangingFacts | None = None
    program: Program | None = None
    truth: CatchesUp | None = None
    saved: list[SavedEtcd] = field(default_factory=list)
    """The copies that a later end of a fault restores."""

    @property
    def struck(self) -> int:
        """How many requests the faults of the proxy have affected so far."""
        return 0 if self.proxy is None else self.proxy.faults.struck

    @property
    def proxied(self) -> FaultProxy:
        """The proxy."""
        if self.proxy is None:
            raise LifecycleError("this fault needs a FaultProxy: FaultLab(proxy=...)")
        return self.proxy

    @property
    def servers(self) -> Servers:
        """The programs of the server."""
        if self.server is None:
            raise LifecycleError("this fault needs a KubeAPIServer: FaultLab(server=...)")
        return self.server

    @property
    def changing(self) -> ChangingFacts:
        """The rights and definitions."""
        if self.facts is None:
            raise LifecycleError("this fault needs facts: FaultLab(facts=ChangingFacts(...))")
        return self.facts

    @property
    def programmed(self) -> Program:
        """The program under test."""
        if self.program is None:
            raise LifecycleError("this fault needs a program: FaultLab(program=...)")
        return self.program

    def chosen(self, arguments: Arguments) -> tuple[EtcdRelay, ...]:
        """Return the relays that an argument names, or all."""
        if not self.relays:
            raise LifecycleError("this fault needs an EtcdRelay: FaultLab(relays=...)")
        replica = arguments.get("replica", "")
        return (self.relays[int(replica) % len(self.relays)],) if replica else self.relays


def _nothing(_parts: Parts, _arguments: Arguments) -> None:
    return


def _always(_parts: Parts) -> bool:
    return True


def _has_program(parts: Parts) -> bool:
    return parts.program is not None


def _no_arguments(_rng: random.Random) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of fault."""

    part: Part
    summary: str
    begin: Callable[[Parts, Arguments], None]
    end: Callable[[Parts, Arguments], None] = _nothing
    arguments: frozenset[str] = field(default_factory=frozenset)
    draw: Callable[[random.Random], dict[str, str]] = _no_arguments
    lasts_seconds: tuple[float, float] = (0.0, 0.0)
    """Between which lengths one is drawn; 0 for what just happens."""
    pause_factor: float = 1.0
    """How much longer than usual the pause after it is."""
    is_lie: bool = False
    """Whether the server says what is not so (class B)."""
    is_counted: bool = False
    """Whether the proxy counts the requests that it affects."""
    is_available: Callable[[Parts], bool] = _always
    """What it needs beside its part."""

    @property
    def has_end(self) -> bool:
        """Whether it lasts until it is ended."""
        return self.end is not _nothing


def _is_yes(arguments: Arguments, name: str, default: str) -> bool:
    return arguments.get(name, default) == "yes"


def _replica(parts: Parts, arguments: Arguments) -> int:
    return int(arguments.get("replica", "0")) % len(parts.servers.ports)


# The network.


def _end_network(parts: Parts, _arguments: Arguments) -> None:
    parts.proxied.heal_network()


def _cut(parts: Parts, arguments: Arguments) -> None:
    parts.proxied.cut(reset=_is_yes(arguments, "reset", "yes"))


def _cut_after(parts: Parts, arguments: Arguments) -> None:
    parts.proxied.cut_after(int(arguments.get("bytes", "1000")))


def _stall(parts: Parts, arguments: Arguments) -> None:
    parts.proxied.stall(new=_is_yes(arguments, "new", "yes"))


def _drip(parts: Parts, arguments: Arguments) -> None:
    parts.proxied.drip(bytes_per_second=int(arguments.get("bytes_per_second", "5000")))


def _draw_yes_or_no(name: str) -> Callable[[random.Random], dict[str, str]]:
    return lambda rng: {name: rng.choice(("yes", "no"))}


def _draw_number(name: str, least: int, most: int) -> Callable[[random.Random], dict[str, str]]:
    return lambda rng: {name: str(rng.randint(least, most))}


def _draw_seconds(
    name: str, least: float, most: float
) -> Callable[[random.Random], dict[str, str]]:
    return lambda rng: {name: f"{rng.uniform(least, most):.3f}"}


_SOME_SECONDS: Final = (0.5, 6.0)
_LONG: Final = (2.0, 20.0)

_NETWORK: Final[dict[str, Kind]] = {
    "cut": Kind(
        part="network",
        summary="every open connection breaks: with RST, or with FIN (`reset=no`)",
        begin=_cut,
        arguments=frozenset({"reset"}),
        draw=_draw_yes_or_no("reset"),
    ),
    "cut-after": Kind(
        part="network",
        summary="every connection breaks after so many `bytes` of the server",
        begin=_cut_after,
        end=_end_network,
        arguments=frozenset({"bytes"}),
        draw=_draw_number("bytes", 500, 60_000),
        lasts_seconds=_LONG,
    ),
    "refuse": Kind(
        part="network",
        summary="every connection breaks, and new ones are reset",
        begin=lambda parts, _: parts.proxied.refuse(),
        end=_end_network,
        lasts_seconds=_SOME_SECONDS,
    ),
    "stall": Kind(
        part="network",
        summary="what the server sends is held back; `new=no`: of connections that are open only",
        begin=_stall,
        end=_end_network,
        arguments=frozenset({"new"}),
        draw=_draw_yes_or_no("new"),
        lasts_seconds=_LONG,
    ),
    "half-open": Kind(
        part="network",
        summary="the server's half of every open connection closes, and the client does not notice",
        begin=lambda parts, _: parts.proxied.half_open(),
        pause_factor=4.0,
    ),
    "drip": Kind(
        part="network",
        summary="each connection passes so many `bytes_per_second`",
        begin=_drip,
        end=_end_network,
        arguments=frozenset({"bytes_per_second"}),
        draw=_draw_number("bytes_per_second", 2_000, 50_000),
        lasts_seconds=_SOME_SECONDS,
    ),
    "delay": Kind(
        part="network",
        summary="each piece arrives `seconds` later, both ways",
        begin=lambda parts, given: parts.proxied.delay(float(given.get("seconds", "0.2"))),
        end=_end_network,
        arguments=frozenset({"seconds"}),
        draw=_draw_seconds("seconds", 0.01, 0.5),
        lasts_seconds=_SOME_SECONDS,
    ),
    "split": Kind(
        part="network",
        summary="one write passes at most so many `bytes`",
        begin=lambda parts, given: parts.proxied.split(int(given.get("bytes", "7"))),
        end=_end_network,
        arguments=frozenset({"bytes"}),
        draw=_draw_number("bytes", 1, 300),
        lasts_seconds=_SOME_SECONDS,
    ),
    "join": Kind(
        part="network",
        summary="what arrives within `seconds` passes in one write",
        begin=lambda parts, given: parts.proxied.join(float(given.get("seconds", "0.1"))),
        end=_end_network,
        arguments=frozenset({"seconds"}),
        draw=_draw_seconds("seconds", 0.01, 0.3),
        lasts_seconds=_SOME_SECONDS,
    ),
}

# Requests.

_OF_REQUESTS: Final = frozenset({"verb", "resource", "cut"})
_STRUCK: Final[tuple[dict[str, str], ...]] = (
    {},
    {"verb": "list"},
    {"verb": "watch"},
    {"verb": "get"},
    {"verb": "patch"},
    {"resource": "leases.coordination.k8s.io"},
    {"resource": ""},  # discovery
)


def _requests(
    summary: str,
    faults: Callable[[Arguments], Fault],
    *,
    verb: str | None = None,
    arguments: frozenset[str] = frozenset(),
    draw: Callable[[random.Random], dict[str, str]] = _no_arguments,
    lasts_seconds: tuple[float, float] = _SOME_SECONDS,
    is_lie: bool = False,
) -> Kind:
    """Return a fault of all requests, or of one verb, until it ends."""

    def begin(parts: Parts, given: Arguments) -> None:
        fault = replace(
            faults(given),
            verb=verb or given.get("verb"),
            resource=given.get("resource"),
            times=None,
        )
        parts.proxied.faults.add(fault)
        if _is_yes(given, "cut", "yes"):  # or watches that are open would not notice it
            parts.proxied.cut()

    def end(parts: Parts, _arguments: Arguments) -> None:
        parts.proxied.heal_requests()
        if is_lie:  # or an answer that is under way would still be one
            parts.proxied.cut()

    def draw_all(rng: random.Random) -> dict[str, str]:
        found = {"cut": rng.choice(("yes", "yes", "no")), **draw(rng)}
        return {**found, **rng.choice(_STRUCK)} if verb is None else found

    return Kind(
        part="requests",
        summary=summary,
        begin=begin,
        end=end,
        arguments=_OF_REQUESTS | arguments,
        draw=draw_all,
        lasts_seconds=lasts_seconds,
        is_lie=is_lie,
        is_counted=True,
    )


def _status(given: Arguments) -> Fault:
    after = given.get("retry_after_seconds")
    return Fault(
        status=int(given.get("status", "503")),
        retry_after_seconds=int(after) if after else None,
    )


def _draw_status(rng: random.Random) -> dict[str, str]:
    drawn = {"status": rng.choice(("403", "429", "500", "503", "504"))}
    return {**drawn, "retry_after_seconds": "1"} if rng.randrange(2) else drawn


def _begin_expiry(parts: Parts, _arguments: Arguments) -> None:
    parts.proxied.expire_token()


def _end_expiry(parts: Parts, _arguments: Arguments) -> None:
    token = parts.proxied.token
    if token is not None:
        parts.programmed.renew_token(token)


def _renew_certificate(parts: Parts, given: Arguments) -> None:
    parts.proxied.renew_certificate()
    if _is_yes(given, "cut", "yes"):
        parts.proxied.cut()


def _renew_trust(parts: Parts, _arguments: Arguments) -> None:
    ca_file = parts.proxied.ca_file
    if ca_file is not None:
        parts.programmed.renew_trust(ca_file.read_bytes())


def _truncated(given: Arguments) -> Fault:
    return Fault(cut_after_bytes=int(given.get("bytes", "1000")), cut="chunk")


def _lie(edit: Edit, summary: str, verb: str) -> Kind:
    return _requests(summary, lambda _: Fault(edit=edit), verb=verb, is_lie=True)


_REQUESTS: Final[dict[str, Kind]] = {
    "status": _requests(
        "requests get this `status`, perhaps with `retry_after_seconds`",
        _status,
        arguments=frozenset({"status", "retry_after_seconds"}),
        draw=_draw_status,
    ),
    "reset": _requests("requests get no answer, but RST", lambda _: Fault(refuse=True)),
    "hang": _requests("requests get no answer", lambda _: Fault(hang=True)),
    "expired-status": _requests(
        "watches get HTTP 410", lambda _: Fault(status=410, reason="Expired"), verb="watch"
    ),
    "expired-event": _requests(
        "watches get an ERROR event with 410", lambda _: Fault(body=_EXPIRED), verb="watch"
    ),
    "expired-continue": _requests(
        "the second page of a list gets HTTP 410",
        lambda _: Fault(parameter="continue", status=410, reason="Expired"),
        verb="list",
    ),
    "truncated-chunk": _requests(
        "answers end inside a chunk, after so many `bytes`",
        _truncated,
        arguments=frozenset({"bytes"}),
        draw=_draw_number("bytes", 0, 20_000),
    ),
    "gzip-members": _requests(
        "each piece of an answer is a gzip member of its own", lambda _: Fault(gzip_members=True)
    ),
    "no-bookmarks": _requests(
        "watches have no bookmarks, but that at the end of the state",
        lambda _: Fault(edit="no-bookmarks"),
        verb="watch",
        lasts_seconds=_LONG,
    ),
    "no-end-bookmark": _requests(
        "watch-lists have no bookmark at the end of the state",
        lambda _: Fault(edit="no-end-bookmark"),
        verb="watch",
    ),
    "expired-token": Kind(
        part="requests",
        summary="the token gets 401; at the end the program gets a new one",
        begin=_begin_expiry,
        end=_end_expiry,
        lasts_seconds=_SOME_SECONDS,
        is_available=_has_program,
    ),
    "new-certificate": Kind(
        part="requests",
        summary="another authority has signed the certificate; at the end the program trusts it",
        begin=_renew_certificate,
        end=_renew_trust,
        arguments=frozenset({"cut"}),
        draw=_draw_yes_or_no("cut"),
        lasts_seconds=_SOME_SECONDS,
        is_available=_has_program,
    ),
    "no-initial-events": _lie(
        "no-initial-events", "watch-lists show no object, and end their state", "watch"
    ),
    "no-items": _lie("no-items", "lists show no object", "list"),
    "stale-list": _lie(
        "stale-list", "lists lack the newest object, and claim to be current", "list"
    ),
    "older-list": _lie(
        "older-list",
        "lists repeat the objects of the fault's first, and claim to be current",
        "list",
    ),
    "rewound-list": _lie(
        "rewound-list", "lists repeat the fault's first, with its resource version", "list"
    ),
    "drop-event": _lie("drop-event", "each watch lacks the first event after its state", "watch"),
    "repeat-event": _lie("repeat-event", "each watch goes back by one event", "watch"),
}

# The programs of the server.


def _hold(parts: Parts, given: Arguments) -> None:
    for relay in parts.chosen(given):
        relay.hold(given.get("prefix", "/registry/"))


def _fail_ranges(parts: Parts, given: Arguments) -> None:
    for relay in parts.chosen(given):
        relay.fail_ranges(given.get("prefix", "/registry/"))


def _delay_ranges(parts: Parts, given: Arguments) -> None:
    for relay in parts.chosen(given):
        relay.delay_ranges(float(given.get("seconds", "0.5")), given.get("prefix", "/registry/"))


def _end_relays(parts: Parts, given: Arguments) -> None:
    for relay in parts.chosen(given):
        relay.heal()


def _save(parts: Parts, _arguments: Arguments) -> None:
    parts.saved.append(parts.servers.save())


def _restore(parts: Parts, arguments: Arguments) -> None:
    parts.servers.restore(parts.saved.pop(), bump_revision=int(arguments.get("bump", "0")))


def _compact(parts: Parts, _arguments: Arguments) -> None:
    if parts.truth is not None:
        parts.truth.catch_up()
    parts.servers.compact()


def _draw_relay(rng: random.Random) -> dict[str, str]:
    prefix = rng.choice(("/registry/configmaps/", "/registry/"))
    replica = rng.choice(({}, {"replica": "0"}, {"replica": "1"}))
    return {"prefix": prefix, **replica}


_OF_RELAYS: Final = frozenset({"prefix", "replica"})
_REPLICA: Final = frozenset({"replica"})
_draw_replica: Final = _draw_number("replica", 0, 1)

_SERVERS: Final[dict[str, Kind]] = {
    "hold-watches": Kind(
        part="etcd-watches",
        summary="the watch cache stands still for keys with this `prefix`, of one `replica` or all",
        begin=_hold,
        end=_end_relays,
        arguments=_OF_RELAYS,
        draw=_draw_relay,
        lasts_seconds=_LONG,
    ),
    "fail-ranges": Kind(
        part="etcd-watches",
        summary="reads of etcd fail for keys with this `prefix`, of one `replica` or all",
        begin=_fail_ranges,
        end=_end_relays,
        arguments=_OF_RELAYS,
        draw=_draw_relay,
        lasts_seconds=_SOME_SECONDS,
    ),
    "delay-ranges": Kind(
        part="etcd-watches",
        summary="reads of etcd take `seconds` longer, for keys with this `prefix`",
        begin=_delay_ranges,
        end=_end_relays,
        arguments=_OF_RELAYS | {"seconds"},
        draw=lambda rng: {**_draw_relay(rng), "seconds": f"{rng.uniform(0.1, 2.0):.3f}"},
        lasts_seconds=_SOME_SECONDS,
    ),
    "kill-apiserver": Kind(
        part="server",
        summary="kube-apiserver gets SIGKILL, and is started again; `replica` is its index",
        begin=lambda parts, given: parts.servers.restart(_replica(parts, given)),
        arguments=_REPLICA,
        draw=_draw_replica,
        pause_factor=3.0,
    ),
    "pause-apiserver": Kind(
        part="server",
        summary="kube-apiserver gets SIGSTOP, and SIGCONT at the end; `replica` is its index",
        begin=lambda parts, given: parts.servers.pause(_replica(parts, given)),
        end=lambda parts, given: parts.servers.resume(_replica(parts, given)),
        arguments=_REPLICA,
        draw=_draw_replica,
        lasts_seconds=_SOME_SECONDS,
    ),
    "kill-etcd": Kind(
        part="server",
        summary="etcd gets SIGKILL, and is started again",
        begin=lambda parts, _: parts.servers.restart_etcd(),
        pause_factor=3.0,
    ),
    "pause-etcd": Kind(
        part="server",
        summary="etcd gets SIGSTOP, and SIGCONT at the end",
        begin=lambda parts, _: parts.servers.pause_etcd(),
        end=lambda parts, _: parts.servers.resume_etcd(),
        lasts_seconds=_SOME_SECONDS,
    ),
    "compact": Kind(
        part="server",
        summary="etcd forgets every revision before the newest",
        begin=_compact,
    ),
    "restore": Kind(
        part="server",
        summary="at its end, etcd has the data of its start again; `bump` adds to the revision",
        begin=_save,
        end=_restore,
        arguments=frozenset({"bump"}),
        draw=lambda rng: {"bump": rng.choice(("0", "100000"))},
        lasts_seconds=_SOME_SECONDS,
        pause_factor=4.0,
    ),
}


# What is so of rights and definitions, which changes while a program runs.


def _delete_definitions(parts: Parts, given: Arguments) -> None:
    parts.changing.delete_definitions(other_scope=given.get("meanwhile") == "scope")


def _change_definitions(parts: Parts, given: Arguments) -> None:
    if given.get("loses", "status") == "status":
        parts.changing.take_status()
    else:
        parts.changing.take_versions()


def _restore_facts(parts: Parts, _arguments: Arguments) -> None:
    parts.changing.restore()


def _has_definitions(parts: Parts) -> bool:
    return bool(parts.changing.definitions)


_FACTS: Final[dict[str, Kind]] = {
    "withdraw-rights": Kind(
        part="facts",
        summary="the bindings of the program's rights are gone; open watches continue",
        begin=lambda parts, _: parts.changing.withdraw_rights(),
        end=_restore_facts,
        lasts_seconds=_LONG,
        is_available=lambda parts: bool(parts.changing.bindings),
    ),
    "delete-definition": Kind(
        part="facts",
        summary="a definition goes, and its objects for good; `meanwhile=scope`: another comes, of"
        " the other scope",
        begin=_delete_definitions,
        end=_restore_facts,
        arguments=frozenset({"meanwhile"}),
        draw=lambda rng: {"meanwhile": rng.choice(("nothing", "scope"))},
        lasts_seconds=_LONG,
        pause_factor=4.0,
        is_available=_has_definitions,
    ),
    "change-definition": Kind(
        part="facts",
        summary="a definition loses its status subresource, or (`loses=version`) its version is not"
        " served",
        begin=_change_definitions,
        end=_restore_facts,
        arguments=frozenset({"loses"}),
        draw=lambda rng: {"loses": rng.choice(("status", "version"))},
        lasts_seconds=_LONG,
        pause_factor=2.0,
        is_available=_has_definitions,
    ),
}

_HOUR_SECONDS: Final = 3600.0

_PROGRAM: Final[dict[str, Kind]] = {
    "block-loop": Kind(
        part="program",
        summary="the event loop of the program does nothing for `seconds`",
        begin=lambda parts, given: parts.programmed.block(float(given.get("seconds", "1"))),
        arguments=frozenset({"seconds"}),
        draw=_draw_seconds("seconds", 0.1, 3.0),
    ),
    "freeze-program": Kind(
        part="program",
        summary="the program gets SIGSTOP, and SIGCONT after `seconds`",
        begin=lambda parts, given: parts.programmed.freeze(float(given.get("seconds", "2"))),
        arguments=frozenset({"seconds"}),
        draw=_draw_seconds("seconds", 0.1, 8.0),
        pause_factor=2.0,
    ),
    "step-clock": Kind(
        part="program",
        summary="the wall clock of the program is so many `seconds` ahead; below 0 behind",
        begin=lambda parts, given: parts.programmed.step_clock(float(given.get("seconds", "60"))),
        end=lambda parts, _: parts.programmed.step_clock(0.0),
        arguments=frozenset({"seconds"}),
        draw=_draw_seconds("seconds", -_HOUR_SECONDS, _HOUR_SECONDS),
        lasts_seconds=_LONG,
    ),
    "no-descriptors": Kind(
        part="program",
        summary="the program can open no socket and no file (EMFILE)",
        begin=lambda parts, _: parts.programmed.take_descriptors(),
        end=lambda parts, _: parts.programmed.give_descriptors(),
        lasts_seconds=_SOME_SECONDS,
        pause_factor=3.0,
    ),
}

CATALOGUE: Final[Mapping[str, Kind]] = {
    **_NETWORK,
    **_REQUESTS,
    **_SERVERS,
    **_FACTS,
    **_PROGRAM,
}
