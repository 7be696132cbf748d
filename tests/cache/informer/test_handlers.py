"""What may be given as a handler, how it is called, and what is refused at registration."""

from __future__ import annotations

import functools
import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.cache.informer.delivery import Handler, ResourceEventHandler, in_thread
from pyinformer.errors import InvalidTypeError
from pyinformer.objects import Added, Deleted, Event, KubeObject, Updated
from tests.pods import make

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, NEW = make("default/a"), make("default/a", resource_version="2")
EVENTS: list[Event] = [Added(OLD), Updated(OLD, NEW), Deleted(NEW)]


class Recorder:
    """A handler object."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def on_add(self, obj: KubeObject) -> None:
        """Record it."""
        self.calls.append(("add", obj))

    def on_update(self, old: KubeObject, new: KubeObject) -> None:
        """Record both."""
        self.calls.append(("update", old, new))

    async def on_delete(self, obj: KubeObject) -> None:
        """Record it, asynchronously."""
        self.calls.append(("delete", obj))


async def notify(handler: Handler, events: list[Event]) -> None:
    """Call the handler as a listener does."""
    for event in events:
        result = handler.call(event)
        if inspect.isawaitable(result):
            await result


@pytest.mark.covers("client-go tools/cache: TestTypedResourceEventHandlerFuncs")
async def test_one_function_gets_every_event() -> None:
    heard: list[Event] = []

    await notify(Handler.of(heard.append, name="list"), EVENTS)

    assert heard == EVENTS


@pytest.mark.covers("client-go tools/cache: TestTypedResourceEventHandlerFuncs")
async def test_an_object_gets_each_kind_by_its_own_method() -> None:
    recorder = Recorder()
    checked: ResourceEventHandler = recorder

    await notify(Handler.of(checked), EVENTS)

    assert recorder.calls == [("add", OLD), ("update", OLD, NEW), ("delete", NEW)]


@pytest.mark.covers("client-go tools/cache: TestTypedResourceEventHandlerFuncs")
async def test_methods_that_a_handler_lacks_are_not_called() -> None:
    heard: list[object] = []

    await notify(Handler.of(on_delete=heard.append), EVENTS)

    assert heard == [NEW]


async def test_methods_of_a_handler_may_be_plain_and_asynchronous() -> None:
    recorder = Recorder()
    threads = []

    def slow_add(obj: KubeObject) -> None:
        threads.append(threading.current_thread())
        recorder.on_add(obj)

    handler: Handler = Handler.of(
        on_add=in_thread(slow_add), on_update=recorder.on_update, on_delete=recorder.on_delete
    )
    await notify(handler, EVENTS)

    assert [call[0] for call in recorder.calls] == ["add", "update", "delete"]
    assert threads[0] is not threading.main_thread()


async def test_a_coroutine_that_a_function_in_a_thread_returns_is_awaited() -> None:
    """A decorator such as one that measures times makes a plain function of an `async def`."""
    awaited: list[threading.Thread] = []

    async def notify_one(_: Event[None]) -> None:
        awaited.append(threading.current_thread())

    def decorated(event: Event[None]) -> object:
        return notify_one(event)

    await notify(Handler.of(in_thread(decorated)), EVENTS)

    assert awaited == [threading.main_thread()] * 3


@pytest.mark.covers("client-go tools/cache: TestNameForHandler")
def test_a_handler_is_named_by_where_it_was_defined() -> None:
    recorder = Recorder()

    assert Handler.of(recorder).name.endswith("test_handlers.Recorder")
    assert Handler.of(on_add=recorder.on_add).name.endswith("test_handlers.Recorder.on_add")
    assert Handler.of(functools.partial(recorder.on_add)).name.endswith("Recorder.on_add")
    assert Handler.of(in_thread(tell_nothing)).name.endswith("test_handlers.tell_nothing")
    assert Handler.of(tell_nothing, name="mine").name == "mine"


def tell_nothing(event: Event) -> None:
    """Be a handler."""


def two(old: KubeObject, new: KubeObject) -> None:
    """Take two arguments."""


def generator(event: Event) -> object:
    """Be a generator function, by mistake."""
    yield event


class Waits:
    """An object whose call is asynchronous."""

    async def __call__(self, event: Event) -> None: ...


# Type checkers refuse what follows; this is what they would not see.
register_wrongly: Any = Handler.of
thread_wrongly: Any = in_thread


class Half:
    """Has one of three methods."""

    def on_add(self, obj: KubeObject) -> None:
        """Be the only one."""


@pytest.mark.parametrize(
    ("register", "message"),
    [
        pytest.param(
            register_wrongly,
            "None cannot be used: pass handler(event), on_add, on_update or on_delete",
            id="nothing",
        ),
        pytest.param(
            lambda: register_wrongly(two, name="irrelevant"),
            "two cannot be used: must be a function like handler(event), got one that takes"
            " (old: 'KubeObject', new: 'KubeObject') -> 'None'",
            id="two-arguments-for-an-event",
        ),
        pytest.param(
            lambda: register_wrongly(on_add=two),
            "two cannot be used: must be a function like on_add(obj), got one that takes"
            " (old: 'KubeObject', new: 'KubeObject') -> 'None'",
            id="two-arguments-for-on_add",
        ),
        pytest.param(
            lambda: register_wrongly(on_update=tell_nothing),
            "tell_nothing cannot be used: must be a function like on_update(old, new), got one"
            " that takes (event: 'Event') -> 'None'",
            id="one-argument-for-on_update",
        ),
        pytest.param(
            lambda: register_wrongly(tell_nothing, on_add=tell_nothing),
            "tell_nothing cannot be used: pass either one function of an event, or on_add",
            id="both",
        ),
        pytest.param(
            lambda: register_wrongly("on_add"),
            "str cannot be used: must be a function like handler(event), got a str",
            id="text",
        ),
        pytest.param(
            lambda: register_wrongly(generator),
            "generator cannot be used: must be a function like handler(event), got a generator"
            " function: its body would never run",
            id="generator",
        ),
        pytest.param(
            lambda: register_wrongly(Half()),
            "Half cannot be used: it has no on_update and no on_delete; a handler"
            " object has all three",
            id="half",
        ),
        pytest.param(
            lambda: register_wrongly(Recorder),
            "Recorder cannot be used: it is a class; pass an instance",
            id="class-with-the-methods",
        ),
        pytest.param(
            lambda: in_thread(notify),
            "notify cannot be used: it is asynchronous already; pass it without in_thread",
            id="coroutine-function-in-thread",
        ),
        pytest.param(
            lambda: in_thread(Waits()),
            "Waits cannot be used: it is asynchronous already; pass it without in_thread",
            id="asynchronous-object-in-thread",
        ),
        pytest.param(
            lambda: thread_wrongly(3),
            "int cannot be used: in_thread needs a plain function, got int",
            id="number-in-thread",
        ),
    ],
)
def test_a_handler_that_cannot_be_called_is_refused(
    register: Callable[[], object], message: str
) -> None:
    with pytest.raises(InvalidTypeError) as caught:
        register()

    assert message in str(caught.value)


def test_a_wrong_method_of_an_object_is_refused() -> None:
    class Wrong(Recorder):
        def on_update(self, new: KubeObject) -> None:  # type: ignore[override] # the mistake
            ...

    with pytest.raises(InvalidTypeError, match=r"on_update\(old, new\)"):
        register_wrongly(Wrong())


def test_a_misspelled_method_of_a_subclass_is_refused() -> None:
    class Misspelled(ResourceEventHandler):
        def on_add(self, obj: KubeObject, /) -> None: ...

        def on_updated(self, old: KubeObject, new: KubeObject, /) -> None: ...

        def on_delete(self, obj: KubeObject, /) -> None: ...

    with pytest.raises(TypeError, match="on_update"):
        Misspelled()  # type: ignore[abstract] # the mistake


def test_in_thread_keeps_name_and_signature() -> None:
    wrapped = in_thread(two)

    assert inspect.signature(wrapped) == inspect.signature(two)
    assert getattr(wrapped, "__qualname__", "") == "two"


def test_a_builtin_without_a_signature_is_accepted() -> None:
    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(max)

    assert register_wrongly(on_add=max).name == "max"
