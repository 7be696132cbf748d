"""What an update costs, from the wire to the end of a handler: three handlers, four kinds, TLS.

CPU is that of the whole process, from the release of the updates until its own code has seen the
last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.report.rows import Spec
from benchmarks.runs.figures import (
    BARE,
    DICTS,
    JSON,
    METADATA_ALONE,
    OFFICIAL,
    OWN,
    OWN_MODES,
    PROTOBUF,
    UVLOOP,
    against,
    follow_specs,
    update_spec,
)
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed
from benchmarks.runs.variants import with_protobuf

_OBJECTS = {Size.SMOKE: (40, 120), Size.BENCH: (5_000, 10_000), Size.FULL: (5_000, 10_000)}
_WIDGETS = {Size.SMOKE: (20, 40), Size.BENCH: (500, 2_000), Size.FULL: (500, 2_000)}
_ROUNDS = {Size.SMOKE: 1, Size.BENCH: 3, Size.FULL: 5}
_MORE_ROUNDS = {Size.SMOKE: 1, Size.BENCH: 7, Size.FULL: 9}
_SMOKE = (BARE, DICTS, OWN)
_EVERYBODY = (
    BARE,
    JSON,
    PROTOBUF,
    "client-go-metadata",
    "client-go-dynamic",
    OFFICIAL,
    DICTS,
    *OWN_MODES,
    METADATA_ALONE,
)
_FEWER = {Size.SMOKE: (20, 40), Size.BENCH: (500, 500), Size.FULL: (500, 500)}
_FRAMEWORKS = (
    OFFICIAL,
    "kubernetes-asyncio-typed",
    "kopf-event",
    "kopf-index",
    "lightkube",
    "kr8s",
    "cloudcoil",
)
_BODILESS = {BARE, "client-go-metadata", METADATA_ALONE}
_WITH_BODIES = tuple(peer for peer in _EVERYBODY if peer not in _BODILESS)


def _peers(
    bench: Sequence[str], full: Sequence[str], smoke: Sequence[str] = _SMOKE
) -> Mapping[Size, Sequence[str]]:
    return {Size.SMOKE: smoke, Size.BENCH: bench, Size.FULL: full}


def _open(setting: Setting, **changes: str | int) -> AbstractContextManager[Bench]:
    objects, updates = _OBJECTS[setting.size]
    options = with_protobuf(ServerOptions(objects=objects, updates=updates), setting)
    return replayed(Replay(options, changes), setting)


def _specs(others: Sequence[str], targets: Mapping[str, str], peer: str = OWN) -> tuple[Spec, ...]:
    return update_spec(against(peer, others), targets), *follow_specs()


METADATA = Run(
    name="updates-metadata",
    title="Updates, handler reads metadata and a status field",
    says=(
        "CPU for each update of a pod of 6.5 KB until a handler has read its name and, through a"
        " projection where there is one, its phase. Caches are indexed by namespace alone. The"
        " figure for uvloop is that of the same program on another event loop."
    ),
    peers=_peers(
        (BARE, JSON, PROTOBUF, OFFICIAL, DICTS, OWN, UVLOOP),
        (*_EVERYBODY, UVLOOP),
        (*_SMOKE, UVLOOP),
    ),
    rounds=_ROUNDS,
    fewer_rounds={OFFICIAL: 2},
    open=lambda setting: _open(setting, handler="metadata"),
    specs=lambda _: _specs(
        (JSON, PROTOBUF, OFFICIAL, DICTS, BARE),
        {
            f"{OWN} / {JSON}": "<= 0.04",
            f"{OWN} / {PROTOBUF}": "<= 0.333",
            f"{OWN} / {OFFICIAL}": "<= 0.0286",
            f"{OWN} / {DICTS}": "<= 0.2",
        },
    ),
)

OBJECT = Run(
    name="updates-object",
    title="Updates, handler decodes the whole object",
    says=(
        "The same with a handler that takes all of the object: privately where a peer can, so that"
        " it may change it; client-go shares what it decoded anyway. The fair comparison for"
        " handlers that read everything."
    ),
    peers=_peers(
        (JSON, PROTOBUF, DICTS, OWN, UVLOOP), (*_WITH_BODIES, UVLOOP), (DICTS, OWN, UVLOOP)
    ),
    rounds=_ROUNDS,
    fewer_rounds={OFFICIAL: 2},
    open=lambda setting: _open(setting, handler="object"),
    specs=lambda _: _specs(
        (JSON, PROTOBUF, OFFICIAL, DICTS),
        {
            f"{OWN} / {JSON}": "<= 0.125",
            f"{OWN} / {PROTOBUF}": "<= 0.9",
            f"{OWN} / {DICTS}": "<= 0.6",
        },
    ),
)

QUEUE = Run(
    name="updates-queue",
    title="Updates, handler enqueues the key",
    says="The same with a handler that puts the key into a work queue, and a worker that takes it.",
    peers=_peers(
        (JSON, PROTOBUF, OWN, UVLOOP),
        (
            JSON,
            PROTOBUF,
            "client-go-metadata",
            OFFICIAL,
            DICTS,
            *OWN_MODES,
            METADATA_ALONE,
        ),
        (OWN,),
    ),
    rounds=_ROUNDS,
    fewer_rounds={OFFICIAL: 2},
    open=lambda setting: _open(setting, handler="queue"),
    specs=lambda _: _specs(
        (JSON, PROTOBUF, OFFICIAL, DICTS),
        {f"{OWN} / {JSON}": "<= 0.04", f"{OWN} / {PROTOBUF}": "<= 0.333"},
    ),
)

INDEXED = Run(
    name="updates-indexed",
    title="Updates, view and two indexes, beside the bare loop",
    says=(
        "A view, the index by namespace and one by node, and a handler that reads metadata, beside"
        " the least Python that keeps a dict of what a watch sends: aiohttp's readline with a"
        " buffer of 1 MiB, one decode of type and metadata, one store."
    ),
    peers=_peers((BARE, OWN, UVLOOP), (BARE, *OWN_MODES, UVLOOP), (BARE, OWN)),
    rounds=_MORE_ROUNDS,
    open=lambda setting: _open(setting, handler="metadata", indexes=2),
    specs=lambda _: _specs((BARE,), {f"{OWN} / {BARE}": "<= 1.4"}),
)


def _open_fewer(setting: Setting) -> AbstractContextManager[Bench]:
    objects, updates = _FEWER[setting.size]
    return replayed(Replay(ServerOptions(objects=objects, updates=updates)), setting)


FRAMEWORKS = Run(
    name="updates-frameworks",
    title="Updates, beside frameworks and typed models",
    says=(
        "The first table again with fewer pods and updates, for peers that would take minutes for"
        " more: frameworks that call handlers of their own kind, and clients that make a model of"
        " every object."
    ),
    peers=_peers((*_FRAMEWORKS[:4], DICTS, OWN), (*_FRAMEWORKS, DICTS, OWN), (DICTS, OWN)),
    rounds={Size.SMOKE: 1, Size.BENCH: 1, Size.FULL: 3},
    open=_open_fewer,
    specs=lambda _: _specs((*_FRAMEWORKS, DICTS), {}),
)


def _of_kind(kind: str, says: str, others: Sequence[str]) -> Run:
    def start(setting: Setting) -> AbstractContextManager[Bench]:
        objects, updates = (_WIDGETS if kind == "widgets" else _OBJECTS)[setting.size]
        options = ServerOptions(objects=objects, updates=updates, kind=kind)
        if PROTOBUF in others:
            options = with_protobuf(options, setting)
        return replayed(Replay(options), setting)

    return Run(
        name=f"updates-{kind}",
        title=f"Updates of {kind}",
        says=f"CPU for each update of {says}, with a handler that reads metadata.",
        peers={Size.SMOKE: (BARE, OWN), Size.FULL: (BARE, *others, OWN, UVLOOP)},
        rounds=_ROUNDS,
        open=start,
        specs=lambda _: _specs((*others, BARE), {}),
    )


KINDS = (
    _of_kind("configmaps", "a ConfigMap of 1.5 KB", (JSON, PROTOBUF, DICTS)),
    _of_kind("leases", "a Lease of 0.6 KB", (JSON, PROTOBUF, DICTS)),
    _of_kind("widgets", "a custom resource of 40 KB", ("client-go-dynamic",)),
)


def _with_tls(setting: Setting) -> AbstractContextManager[Bench]:
    objects, updates = _OBJECTS[setting.size]
    options = with_protobuf(ServerOptions(objects=objects, updates=updates, tls=True), setting)
    return replayed(Replay(options), setting)


TLS = Run(
    name="updates-tls",
    title="Updates over TLS",
    says="The first table again, over TLS: decryption is the same work for all peers.",
    peers={
        Size.SMOKE: (BARE, OWN, UVLOOP),
        Size.FULL: (BARE, JSON, PROTOBUF, DICTS, OWN, UVLOOP),
    },
    rounds=_ROUNDS,
    open=_with_tls,
    specs=lambda _: _specs((JSON, PROTOBUF, DICTS, BARE), {}),
)
