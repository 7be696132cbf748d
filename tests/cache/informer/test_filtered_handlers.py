"""A filtered handler sees a cache in which only the objects in a state exist."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer import in_thread
from pyinformer.cache import filtered
from pyinformer.errors import InvalidTypeError
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from tests.cache.informer.clusters import informer_of, pod
from tests.pods import make
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_IN, _STILL_IN = make("default/a", uid="in"), make("default/a", uid="in", resource_version="2")
_OUT, _STILL_OUT = make("default/a", uid="out"), make("default/a", uid="out", resource_version="2")


def _is_in(obj: KubeObject) -> bool:
    return obj.metadata.uid == "in"


@pytest.mark.covers("client-go tools/cache: TestTypedFilteringResourceEventHandler")
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(
            Added(_IN, is_in_initial_list=True), Added(_IN, is_in_initial_list=True), id="added"
        ),
        pytest.param(Added(_OUT), None, id="added-outside"),
        pytest.param(Updated(_IN, _STILL_IN), Updated(_IN, _STILL_IN), id="stays"),
        pytest.param(
            Updated(_IN, _IN, is_resync=True), Updated(_IN, _IN, is_resync=True), id="resync"
        ),
        pytest.param(Updated(_OUT, _STILL_OUT), None, id="stays-outside"),
        pytest.param(Updated(_OUT, _IN), Added(_IN), id="enters"),
        pytest.param(Updated(_IN, _OUT), Deleted(_IN, may_still_exist=True), id="leaves"),
        pytest.param(
            Deleted(_IN, final_state_unknown=True),
            Deleted(_IN, final_state_unknown=True),
            id="deleted",
        ),
        pytest.param(Deleted(_OUT), None, id="deleted-outside"),
    ],
)
def test_an_object_is_added_when_it_enters_and_deleted_when_it_leaves(
    event: Event, expected: Event | None
) -> None:
    """TestTypedFilteringResourceEventHandler: its cases, and those of initial lists and resyncs."""
    calls: list[Event] = []

    filtered(_is_in, calls.append)(event)

    assert calls == ([] if expected is None else [expected])


@pytest.mark.covers("client-go tools/cache: TestTypedFilteringResourceEventHandler")
def test_functions_by_kind_of_event_get_the_objects_in_the_state() -> None:
    calls: list[tuple[object, ...]] = []
    handler = filtered(
        _is_in,
        on_add=lambda obj: calls.append(("add", obj)),
        on_update=lambda old, new: calls.append(("update", old, new)),
        on_delete=lambda obj: calls.append(("delete", obj)),
    )

    for event in (Added(_OUT), Updated(_OUT, _IN), Updated(_IN, _STILL_IN), Updated(_IN, _OUT)):
        handler(event)

    assert calls == [("add", _IN), ("update", _IN, _STILL_IN), ("delete", _IN)]


async def test_an_asynchronous_handler_is_awaited() -> None:
    calls: list[Event] = []

    async def handle(event: Event) -> None:
        calls.append(event)

    for handler in (handle, in_thread(calls.append)):
        answer = filtered(_is_in, handler)(Added(_IN))
        assert inspect.isawaitable(answer)
        await answer

    assert calls == [Added(_IN)] * 2


@pytest.mark.every_loop
async def test_a_handler_of_labelled_pods_sees_them_come_and_go(apiserver: APIServer) -> None:
    apiserver.create(pod("a", app="web"))
    apiserver.create(pod("b"))
    calls: list[str] = []
    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(
            filtered(
                lambda obj: obj.metadata.labels.get("app") == "web",
                on_add=lambda obj: calls.append(f"add {obj.key}"),
                on_delete=lambda obj: calls.append(f"delete {obj.key}"),
            )
        )
        await registration.wait_synced(timeout_seconds=100)
        assert calls == ["add default/a"]
        apiserver.patch("v1", "pods", "b", {"metadata": {"labels": {"app": "web"}}})
        apiserver.patch("v1", "pods", "a", {"metadata": {"labels": {"app": "db"}}})
        apiserver.delete("v1", "pods", "a")
        apiserver.delete("v1", "pods", "b")
        await until(lambda: "delete default/b" in calls)

    assert sorted(calls[1:]) == ["add default/b", "delete default/a", "delete default/b"]


async def test_a_filter_that_raises_fails_the_handler_under_its_own_name(
    apiserver: APIServer,
) -> None:
    def broken(obj: KubeObject) -> bool:
        raise RuntimeError(obj.key)

    apiserver.create(pod("a"))
    calls: list[Event] = []

    def serve(event: Event) -> None:
        calls.append(event)

    async with informer_of(apiserver) as informer:
        registration = informer.add_event_handler(filtered(broken, serve))
        await registration.wait_synced(timeout_seconds=100)
        (status,) = informer.status().handlers

    assert (status.failed, calls) == (1, [])
    assert status.name.endswith(".serve")
    assert (status.last_error or "").startswith("RuntimeError")


async def _is_in_later(obj: KubeObject) -> bool:
    return _is_in(obj)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((None, print), id="no-filter"),
        pytest.param((lambda: True, print), id="filter-of-nothing"),
        pytest.param((_is_in_later, print), id="asynchronous-filter"),
        pytest.param((_is_in,), id="no-handler"),
        pytest.param((_is_in, 5), id="handler-is-a-number"),
    ],
)
def test_what_cannot_filter_or_handle_is_refused(arguments: Any) -> None:
    with pytest.raises(InvalidTypeError):
        filtered(*arguments)


def test_a_filter_that_returns_an_awaitable_is_refused_at_the_event() -> None:
    hidden: Any = functools.partial(lambda function, obj: function(obj), _is_in_later)

    with pytest.raises(InvalidTypeError, match="filter"):
        filtered(hidden, print)(Added(_IN))
