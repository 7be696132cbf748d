"""Sources of an informer's events: what is enqueued, when, how urgently, and what may go wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.controller.sources import (
    PrimarySource,
    Reason,
    Request,
    SourceOptions,
    WatchedSource,
    generation_changed,
    matches,
)
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, LifecycleError
from pyinformer.objects import Added, KubeObject, Updated
from tests.cache.store.objects import pod
from tests.controller.sources.feeding import FedInformer, Noted, made
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pyinformer.controller.sources import Source


def _team(obj: KubeObject[object]) -> str | None:
    return obj.metadata.labels.get("team")


@asynccontextmanager
async def _running(source: Source) -> AsyncIterator[None]:
    task = asyncio.create_task(source.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.covers(
    "controller-runtime pkg/internal/controller: should call Start on sources with the",
    "controller-runtime pkg/handler: Namespace of the object in the CreateEvent.",
    "controller-runtime pkg/internal/source: EventHandler / should create a CreateEvent",
)
def test_events_become_requests_in_their_own_step() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load()
    source = PrimarySource(informer, options=SourceOptions(cluster="prod"))
    source.attach(noted)

    informer.add(made("a"))
    informer.update(made("a", version=2))
    informer.delete("default/a")

    assert noted.take() == [
        "prod:default/a added 0",
        "prod:default/a updated 0",
        "prod:default/a deleted 0",
    ]
    assert noted.reasons[1] == Reason(
        source="primary configmaps.v1", event="updated", key="default/a", resource_version="2"
    )


@pytest.mark.covers(
    "controller-runtime pkg/handler: should lower the priority of a create request for an"
)
@pytest.mark.parametrize("is_loaded_first", [False, True])
async def test_the_initial_list_is_enqueued_low_and_only_then_is_the_source_synced(
    is_loaded_first: bool,
) -> None:
    informer, noted = FedInformer(), Noted()
    source = PrimarySource(informer)
    if is_loaded_first:
        informer.load(made("a"), made("b"))
        source.attach(noted)
    else:
        source.attach(noted)
        informer.load(made("a"), made("b"))
    assert noted.take() == []
    assert not source.has_synced
    assert source.status().waiting == 2

    async with _running(source):
        await source.wait_synced()
        assert source.has_synced
        assert noted.take() == ["default/a initial -100", "default/b initial -100"]


async def test_an_empty_informer_syncs_its_source_when_it_has_synced_itself() -> None:
    informer = FedInformer()
    source = PrimarySource(informer)
    source.attach(Noted())
    async with _running(source):
        await asyncio.sleep(0)
        assert not source.has_synced
        informer.load()
        await source.wait_synced()


def _initial_steps(source: PrimarySource[Any] | WatchedSource[Any]) -> Iterator[None]:
    """Let a source that does not run process its initial list, an object at each step."""
    return source._initial_steps()


def test_an_event_has_its_object_of_the_initial_list_looked_at_first() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load(made("a", labels={"team": "red"}), made("b", labels={"team": "blue"}))
    source = WatchedSource(informer, _team, predicate=generation_changed)
    source.attach(noted)

    informer.update(made("a", version=2, labels={"team": "green"}))

    assert noted.take() == ["red initial -100", "red updated 0", "green updated 0"]
    list(_initial_steps(source))
    assert noted.take() == ["blue initial -100"]


async def test_a_hundred_thousand_objects_give_others_their_turn() -> None:
    informer, noted = FedInformer(), Noted()
    objects = [made("a", uid="u", namespace=f"n{number}") for number in range(20_000)]
    informer.load(*objects)
    source = PrimarySource(informer)
    source.attach(noted)
    turns = 0
    async with _running(source):
        while not source.has_synced:
            await asyncio.sleep(0)
            turns += 1

    assert len(noted.lines) == 20_000
    assert turns > 5


_LIFE = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("+~-!")), max_size=12)


@given(_LIFE, st.integers(0, 12))
def test_no_key_is_lost_whenever_the_initial_list_is_processed(
    life: list[tuple[str, str]], pump_after: int
) -> None:
    informer, noted = FedInformer(), Noted()
    informer.load(made("a"), made("b"), made("c"))
    source = PrimarySource(informer)
    source.attach(noted)
    expected = {"default/c"}
    for number, (name, step) in enumerate(life):
        if number == pump_after:
            next(_initial_steps(source), None)
        key, version = f"default/{name}", number + 2
        known = informer.lister.get(key)
        expected.add(key)
        if step == "!":
            informer.load(made(name, version=version, uid="new"), made("c"))
            expected |= {"default/a", "default/b"}
        elif step == "-" and known is not None:
            informer.delete(key)
        elif known is None:
            informer.add(made(name, version=version))
        else:
            informer.update(made(name, version=version, uid=known.metadata.uid))
    list(_initial_steps(source))

    assert {line.split()[0] for line in noted.lines} == expected | {"default/a", "default/b"}
    assert sum("initial" in line for line in noted.lines) == 3
    assert informer.crashes == []


@pytest.mark.covers(
    "controller-runtime pkg/handler: should enqueue a Request with the function applied to the",
    "controller-runtime pkg/internal/source: EventHandler / should create a CreateEvent",
    "kube-runtime src: trigger_self_maps_owned_and_shared_objects",
)
def test_a_mapping_sees_the_old_and_the_new_state_and_both_are_requested() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load(made("x"))
    source = WatchedSource(informer, _team, options=SourceOptions(cluster="prod"))
    source.attach(noted)
    noted.take()

    informer.update(made("x", version=2, labels={"team": "red"}))
    informer.update(made("x", version=3, labels={"team": "blue"}))
    informer.update(made("x", version=4))

    assert noted.take() == [
        "prod:red updated 0",
        "prod:red updated 0",
        "prod:blue updated 0",
        "prod:blue updated 0",
    ]


def test_an_intermediate_state_is_requested() -> None:
    """Whatever waits meanwhile: nothing is merged before it was decided on."""
    informer, noted = FedInformer(), Noted()
    informer.load(made("x"))
    source = WatchedSource(informer, _team, predicate=matches(lambda obj: _team(obj) is not None))
    source.attach(noted)

    informer.update(made("x", version=2, labels={"team": "red"}))
    informer.update(made("x", version=3))
    informer.update(made("x", version=4))

    assert noted.take() == ["red updated 0", "red updated 0"]
    assert source.status().filtered == 2


@pytest.mark.covers(
    "controller-runtime pkg/handler: should lower the priority of a create request for an"
)
def test_an_update_of_the_same_version_is_dropped() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load(made("a"), made("versionless", version=0))
    source = PrimarySource(informer)
    source.attach(noted)

    informer.update(made("a"))
    informer.update(made("versionless", version=0))

    versionless = ["default/versionless initial -100", "default/versionless updated 0"]
    assert noted.take() == ["default/a initial -100", *versionless]
    assert source.status().unchanged == 1


@pytest.mark.covers("kube-runtime src: predicate_filtering_hides_equal_predicate_values")
def test_a_recreated_object_is_requested_for_its_end_and_its_beginning() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load()
    PrimarySource(informer).attach(noted)

    informer.add(made("a", uid="1"))
    informer.load(made("a", uid="2", version=5))

    assert noted.take() == [
        "default/a added 0",
        "default/a deleted 0",
        "default/a added 0",
    ]


def test_a_source_returns_what_an_event_would_request_without_requesting_it() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load()
    source = WatchedSource(informer, _team, predicate=generation_changed)
    source.attach(noted)
    old, new = made("x", labels={"team": "red"}), made("x", version=2, labels={"team": "blue"})
    same_generation = made("y", version=2, generation=1), made("y", version=3, generation=1)

    assert source.requests_for(Updated(old, new)) == [Request("red"), Request("blue")]
    assert source.requests_for(Added(new)) == [Request("blue")]
    assert source.requests_for(Updated(*same_generation)) == []
    assert source.requests_for(Updated(new, new)) == []
    assert noted.take() == []


def test_a_mapping_that_raises_costs_no_other_key_and_is_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def mapping(obj: KubeObject) -> Iterator[str]:
        yield obj.key
        if obj.metadata.name == "bad":
            raise ZeroDivisionError("the secret is 42")

    informer, noted = FedInformer(), Noted()
    informer.load()
    options = SourceOptions(controller="c")
    source = WatchedSource(informer, mapping, name="watched", options=options)
    source.attach(noted)

    with caplog.at_level(logging.ERROR, "pyinformer.controller.sources"):
        for name in ("a", "bad", "b"):
            informer.add(made(name))
        informer.update(made("bad", version=2))

    taken = ["default/a added 0", "default/bad added 0", "default/b added 0"]
    assert noted.take() == [*taken, "default/bad updated 0"]
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert message.startswith("controller c: watched: mapping")
    assert "ZeroDivisionError" in message
    assert "default/bad" in message
    assert "42" not in message
    assert source.status().failures == 3
    assert "mapping" in (source.status().last_failure or "")
    assert informer.crashes == []


def test_a_mapping_that_always_raises_is_logged_once_and_in_full_where_that_is_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def mapping(obj: KubeObject) -> str:
        raise ZeroDivisionError(f"cannot divide {obj.key}")

    informer = FedInformer()
    informer.load()
    options = SourceOptions(controller="c", log_exceptions="full")
    source = WatchedSource(informer, mapping, name="watched", options=options)
    source.attach(Noted())

    for number in range(1000):
        informer.add(made(f"x{number}"))

    assert source.status().failures == 1000
    (message,) = caplog.messages
    first, *calls = message.split("\n")
    assert "failed on default/x0: ZeroDivisionError (cannot divide default/x0) at " in first
    assert calls[-1].endswith(" in mapping")


def _node(obj: KubeObject[Any]) -> str:
    return str(obj.view.spec.node_name)


def test_an_object_that_does_not_fit_the_projection_costs_no_other_key() -> None:
    informer, by_key, by_node = FedInformer(), Noted(), Noted()
    informer.load()
    PrimarySource(informer).attach(by_key)
    watched = WatchedSource(informer, _node)
    watched.attach(by_node)

    for name, node in (("a", "n1"), ("misfit", 7), ("b", "n2")):
        informer.add(pod(name, node, viewed=True))

    assert by_key.take() == [f"default/{name} added 0" for name in ("a", "misfit", "b")]
    assert by_node.take() == ["n1 added 0", "n2 added 0"]
    assert "InvalidObjectError" in (watched.status().last_failure or "")


def test_each_type_of_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    errors = iter([KeyError("a"), ValueError("b"), KeyError("c"), pytest.fail.Exception("d")])

    def mapping(obj: KubeObject) -> None:
        raise next(errors)

    informer = FedInformer()
    informer.load()
    WatchedSource(informer, mapping).attach(Noted())
    with caplog.at_level(logging.ERROR, "pyinformer.controller.sources"):
        for name in "abcd":
            informer.add(made(name))

    logged = [record.getMessage() for record in caplog.records]
    assert [
        kind in line
        for kind, line in zip(["KeyError", "ValueError", "Failed"], logged, strict=True)
    ]
    assert informer.crashes == []


def test_a_predicate_that_raises_lets_the_change_pass() -> None:
    """An extra reconcile is harmless, a lost one is not."""

    def predicate(old: KubeObject | None, new: KubeObject | None) -> bool:
        raise ZeroDivisionError

    informer, noted = FedInformer(), Noted()
    informer.load()
    source = PrimarySource(informer, predicate=predicate)
    source.attach(noted)

    informer.add(made("a"))

    assert noted.take() == ["default/a added 0"]
    assert source.status().failures == 1
    assert "predicate" in (source.status().last_failure or "")


def test_the_process_can_still_be_interrupted_in_a_mapping() -> None:
    def mapping(obj: KubeObject) -> None:
        raise KeyboardInterrupt

    informer = FedInformer()
    informer.load()
    WatchedSource(informer, mapping).attach(Noted())

    with pytest.raises(KeyboardInterrupt):
        informer.add(made("a"))


def test_a_detached_source_enqueues_nothing() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load(made("a"))
    source = PrimarySource(informer)
    source.attach(noted)

    source.detach()
    source.detach()
    informer.add(made("b"))
    source.put_nowait(Added(made("c")))  # as a list's differences still do
    source.preload_nowait([made("d")])

    assert noted.take() == []
    assert not list(_initial_steps(source))


def test_a_mapping_may_detach_its_own_source() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load()
    sources: list[WatchedSource[None]] = []

    def mapping(obj: KubeObject) -> str:
        sources[0].detach()
        return obj.key

    sources.append(WatchedSource(informer, mapping))
    sources[0].attach(noted)
    informer.add(made("a"))

    assert noted.take() == []


def test_a_source_is_attached_once() -> None:
    source = PrimarySource(FedInformer())
    source.attach(Noted())

    with pytest.raises(LifecycleError, match="make a new one"):
        source.attach(Noted())
    source.detach()
    with pytest.raises(LifecycleError, match="make a new one"):
        source.attach(Noted())


async def _waits(obj: object) -> str:
    return "a"


@pytest.mark.covers(
    "controller-runtime pkg/source: should return an error from Start cache was not provided"
)
def test_an_invalid_mapping_or_predicate_is_refused_when_it_is_given() -> None:
    informer = FedInformer()
    asynchronous = _waits

    with pytest.raises(InvalidTypeError):
        WatchedSource(informer, asynchronous)  # type: ignore[arg-type]
    with pytest.raises(InvalidTypeError):
        PrimarySource(informer, predicate=lambda: True)  # type: ignore[arg-type,misc]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf"), 1e-9])
def test_an_invalid_period_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidArgumentError, match="resync_period_seconds"):
        SourceOptions(resync_period_seconds=seconds)


@pytest.mark.virtual_time
async def test_resyncs_are_paced_at_low_priority_and_only_of_matching_objects() -> None:
    informer, noted = FedInformer(), Noted()
    objects = [made(f"a{number}", labels={"team": "red"}) for number in range(100)]
    informer.load(*objects, made("ignored"))
    source = PrimarySource(
        informer,
        predicate=matches(lambda obj: _team(obj) is not None),
        options=SourceOptions(resync_period_seconds=100.0),
    )
    source.attach(noted)
    async with _running(source):
        await source.wait_synced()
        assert len(noted.take()) == 100
        await elapse(300)
        lines = noted.take()
        informer.delete("default/a7")
        noted.take()
        await elapse(200)

    assert 200 <= len(lines) <= 300
    assert set(lines) == {f"default/a{number} resync -100" for number in range(100)}
    later = noted.take()
    assert "default/a7 resync -100" not in later
    assert len(later) >= 99


@pytest.mark.virtual_time
async def test_without_a_period_no_handler_is_resynced() -> None:
    informer, noted = FedInformer(), Noted()
    informer.load(made("a"))
    source = PrimarySource(informer)
    source.attach(noted)
    async with _running(source):
        await elapse(1e6)

    assert noted.take() == ["default/a initial -100"]
    assert source.status().resyncs == 0
