"""What a function of the program raises or returns concerns that call alone, whatever it is.

Other handlers get every event, the cache is right, and the one watch continues.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer import Added, Deleted, KubeObject, Updated, View
from pyinformer.controller.sources import PrimarySource, WatchedSource
from pyinformer.telemetry.metrics import NO_METRICS
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyinformer.testing import APIServer


class NotAnExceptionError(BaseException):
    """As test tools and extension modules raise."""


ERRORS = [
    RuntimeError,
    StopIteration,
    StopAsyncIteration,
    asyncio.CancelledError,
    GeneratorExit,
    NotAnExceptionError,
]


class Odd:
    """A value that raises when it is looked at."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """Raise."""
        raise NotAnExceptionError

    def __bool__(self) -> bool:
        raise NotAnExceptionError

    def __iter__(self) -> Any:
        raise NotAnExceptionError


ENDS: list[Any] = [*[pytest.param(error, id=error.__name__) for error in ERRORS], Odd]


class Bad:
    """A function that fails in one way, and counts its calls."""

    def __init__(self, end: Any) -> None:
        self.calls = 0
        self.end = end

    def __call__(self, *_: Any) -> Any:
        self.calls += 1
        if self.end is Odd:
            return Odd()
        raise self.end

    async def awaited(self, *_: Any) -> Any:
        """Fail in the task of the handler."""
        await asyncio.sleep(0)
        return self()

    async def at_once(self, *_: Any) -> Any:
        """Fail in the task of the handler, before it waits."""
        return self()


class Metrics:
    """A metrics system that fails."""

    def __init__(self, bad: Bad) -> None:
        self._bad = bad

    def counter(self, name: str, labels: Mapping[str, str]) -> Any:
        """Return an instrument that fails."""
        return self

    gauge = histogram = counter

    def inc(self, amount: float = 1.0) -> None:
        """Fail."""
        self._bad()

    set = observe = inc

    def add_source(self, source: object) -> None:
        """Fail."""
        self._bad()

    def scope(self) -> Any:
        """Return a scope that fails."""
        return self

    def close(self) -> None:
        """Fail."""
        self._bad()


class Enqueued:
    """A queue that takes requests."""

    def __call__(self, *_: Any, **__: Any) -> None:
        """Take one."""


def pod(name: str, number: int) -> dict[str, Any]:
    """Return a pod."""
    metadata = {"name": name, "namespace": "default", "labels": {"n": f"{number}"}}
    spec = {"nodeName": "a", "containers": []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


_in_view: list[Bad] = []


class Spec(View):
    """A part of a view whose check fails."""

    node_name: str = ""

    def __post_init__(self) -> None:
        if _in_view[-1].end is not Odd:
            _in_view[-1]()


class Pod(View):
    """A view with such a part."""

    spec: Spec | None = None


def _view(bad: Bad) -> type[View]:
    _in_view.append(bad)
    return Pod


ROLES: dict[str, Callable[[Bad], dict[str, Any]]] = {
    "transform": lambda bad: {"transform": bad},
    "view": lambda bad: {"model": _view(bad)},
    "index": lambda _: {},
    "handler": lambda _: {},
    "async-handler": lambda _: {},
    "async-handler-at-once": lambda _: {},
    "on_state_change": lambda _: {},
    "predicate": lambda _: {},
    "mapping": lambda _: {},
    "metrics": lambda _: {},
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("end", ENDS)
async def test_a_function_that_fails_in_any_way_costs_nothing_but_its_own_result(
    apiserver: APIServer, role: str, end: Any
) -> None:
    bad = Bad(end)
    events = Counter[type]()
    for name in ("a", "b"):
        apiserver.create(pod(name, 0))
    metrics: Any = Metrics(bad) if role == "metrics" else NO_METRICS
    async with (
        pyinformer.connect(server=apiserver.url, metrics=metrics) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        informer: Any = factory.informer("v1", "pods", **ROLES[role](bad))
        _attach(informer, role, bad)
        informer.add_event_handler(lambda event: events.update([type(event)]))
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        for number in range(1, 6):
            apiserver.update(pod("a", number))
            await until(lambda number=number: events[Updated] == number)  # type: ignore[misc]
        apiserver.delete("v1", "pods", "b", "default")
        await until(lambda: events[Deleted] == 1)
        assert events == {Added: 2, Updated: 5, Deleted: 1}
        assert [obj.metadata.labels["n"] for obj in informer.lister.list()] == ["5"]
        assert informer.status().crash is None
    watches = [one for one in apiserver.requests if one.verb == "watch"]
    assert len(watches) == 1
    assert bad.calls > 0 or (role, end) == ("view", Odd)


def _attach(informer: Any, role: str, bad: Bad) -> None:
    match role:
        case "index":
            informer.add_index("bad", bad)
        case "handler":
            informer.add_event_handler(bad)
        case "async-handler":
            informer.add_event_handler(bad.awaited)
        case "async-handler-at-once":
            informer.add_event_handler(bad.at_once)
        case "on_state_change":
            informer.on_state_change(bad)
        case "predicate":
            PrimarySource(informer, predicate=bad).attach(Enqueued())
        case "mapping":
            WatchedSource(informer, bad).attach(Enqueued())


@pytest.mark.parametrize("end", [RuntimeError, GeneratorExit, NotAnExceptionError])
async def test_a_predicate_of_a_wait_is_raised_where_it_was_given(
    apiserver: APIServer, end: type[BaseException]
) -> None:
    apiserver.create(pod("a", 0))
    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        pyinformer.SharedInformer(cluster, "v1", "pods") as informer,
    ):
        with pytest.raises(end):
            await informer.wait_for("default/a", Bad(end), timeout_seconds=100)
        found = await informer.wait_for("default/a", bool, timeout_seconds=100)
        assert isinstance(found, KubeObject)


async def test_a_handler_that_has_cancelled_itself_before_gets_every_event(
    apiserver: APIServer,
) -> None:
    """In Python 3.11 and 3.12 a TaskGroup of which a child fails leaves `cancelling()` at 1."""
    called: list[str] = []

    async def handler(event: pyinformer.Event[None]) -> None:
        called.append(event.key.rpartition("/")[2])
        if len(called) > 1:
            raise asyncio.CancelledError  # as of a request whose session was closed
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()

    async with (
        pyinformer.connect(server=apiserver.url) as cluster,
        pyinformer.SharedInformer(cluster, "v1", "pods") as informer,
    ):
        informer.add_event_handler(handler)
        for name in ("a", "b", "c"):
            apiserver.create(pod(name, 0))
            await until(lambda name=name: called[-1:] == [name])  # type: ignore[misc]
