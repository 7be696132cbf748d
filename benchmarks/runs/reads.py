"""The cost of reads from a full cache, compared with client-go's; and reads of whole objects.

Client-go's reads give what is shared with the cache and must not be changed; those of ours that
give an object give one that belongs to the reader.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from benchmarks.harness.measure import ServerOptions
from benchmarks.harness.phases import Measurement
from benchmarks.peers import own_reads, own_sharing
from benchmarks.report.rows import Figure, Spec
from benchmarks.runs.figures import JSON, OWN, against, extra, per
from benchmarks.runs.run import Bench, Replay, Run, Setting, Size, replayed

_OBJECTS = {Size.SMOKE: 40, Size.BENCH: 10_000, Size.FULL: 10_000}
_OF_OUR_OWN = {Size.SMOKE: 40, Size.BENCH: 500, Size.FULL: 500}
_ROUNDS = {Size.SMOKE: 1, Size.BENCH: 2, Size.FULL: 5}


def _open(setting: Setting) -> AbstractContextManager[Bench]:
    options = ServerOptions(objects=_OBJECTS[setting.size])
    return replayed(Replay(options, {"work": "reads", "indexes": 2}), setting)


def _per_object(name: str) -> Figure:
    def read(found: Measurement) -> float | None:
        return per(found.extra.get(name), found.objects, 1)

    return read


def _specs(_: object) -> tuple[Spec, ...]:
    ratio = against(OWN, (JSON,))
    target = {f"{OWN} / {JSON}": "<= 0.7"}
    fields = "list of all, two fields of each, per object"
    return (
        Spec("read by key", "us", extra("read_key_us"), {}, ratio),
        Spec("read by index, a bucket", "us", extra("read_index_us"), {}, ratio),
        Spec("objects in a bucket", "", extra("read_index_results"), {}),
        Spec("list(selector), a quarter matches", "us", extra("select_quarter_us"), target, ratio),
        Spec("list(selector), few match", "us", extra("select_few_us"), target, ratio),
        Spec(
            "list(selector) without an index: tier!=backend",
            "us",
            extra("select_without_index_us"),
            {},
            only=(OWN,),
        ),
        Spec(f"{fields}: by view", "us", _per_object("two_fields_view_us"), {}, only=(OWN,)),
        Spec(f"{fields}: by path", "us", _per_object("two_fields_path_us"), {}, only=(OWN,)),
        Spec(f"{fields}: by dict", "us", _per_object("two_fields_dict_us"), {}, only=(OWN,)),
        Spec(f"{fields}: by type", "us", _per_object("two_fields_typed_us"), {}),
    )


READS = Run(
    name="reads",
    title="Reads from the cache",
    plots=("list(selector), a quarter matches", "list(selector), few match"),
    says=(
        "Reads of 10,000 cached pods. Selectors are parsed before. Our fourth list by a label makes"
        " an index by it; medians of 15 lists are shown. By type, client-go reads"
        " fields of the struct that all share; we decode what the type asks for, for the reader."
    ),
    peers={Size.SMOKE: (OWN,), Size.BENCH: (JSON, OWN), Size.FULL: (JSON, OWN)},
    rounds=_ROUNDS,
    open=_open,
    specs=_specs,
)


def _open_own(setting: Setting) -> AbstractContextManager[Bench]:
    return replayed(Replay(ServerOptions(objects=_OF_OUR_OWN[setting.size])), setting)


def _own_specs() -> tuple[Spec, ...]:
    """List the rows of the reads from the cache."""
    peer = "pyinformer-reads"
    return (
        Spec('read: at("spec.nodeName", str)', "us", extra(own_reads.AT), {peer: "<= 3.5"}),
        Spec("read: to_dict() of a stripped pod", "us", extra(own_reads.TO_DICT), {}),
        Spec("read: msgspec's own decode of it", "us", extra(own_reads.DECODE), {}),
        Spec(
            "read: to_dict() over that decode",
            "x",
            extra(own_reads.TO_DICT_RATIO),
            {peer: "<= 1.3"},
        ),
        Spec("read: a shared decoded pod", "us", extra(own_sharing.SHARED_READ), {}),
        Spec("read: a model, for the first time", "us", extra(own_sharing.MODEL_FIRST_READ), {}),
        Spec("read: a shared model", "us", extra(own_sharing.MODEL_READ), {peer: "<= 1"}),
        Spec("mutation detector: a look at a pod", "us", extra(own_sharing.LOOK), {}),
        Spec(
            "mutation detector: CPU in sample mode", "%", extra(own_sharing.SHARE), {peer: "<= 1"}
        ),
    )


READS_OWN = Run(
    name="reads-own",
    title="Reads of whole objects, and the mutation detector",
    says="Ours alone: what a reader pays for an object of its own, and for shared ones.",
    peers={Size.SMOKE: ("pyinformer-reads",), Size.FULL: ("pyinformer-reads",)},
    rounds=_ROUNDS,
    open=_open_own,
    specs=lambda _: _own_specs(),
)
