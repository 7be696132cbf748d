"""An informer without a server and a loop behaves as one that has synced."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import pyinformer
from pyinformer.errors import (
    InvalidArgumentError,
    InvalidObjectError,
    LifecycleError,
    NotCachedError,
    ObjectNotFoundError,
)
from pyinformer.reflector import ReflectorState
from pyinformer.testing import synced_informer


class PodView(pyinformer.View):
    """Where a pod runs, and how."""

    class Spec(pyinformer.View):
        """Of a pod."""

        node_name: str = ""

    spec: Spec = Spec()


def _pod(name: str, node: str = "n1", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": {"nodeName": node}}


def _names(objects: list[Any]) -> list[str]:
    return sorted(obj.metadata.name for obj in objects)


def test_a_synced_informer_is_a_shared_informer() -> None:
    pods = synced_informer("v1", "pods", [_pod("a"), _pod("b", namespace="shop")])

    assert isinstance(pods, pyinformer.SharedInformer)
    assert pods.has_synced
    assert pods.lister.staleness == ""
    assert _names(pods.lister.list()) == ["a", "b"]
    assert _names(pods.lister.namespace("shop").list()) == ["b"]
    found = pods.lister.get("default/a")
    assert found is not None
    assert found.to_dict()["kind"] == "Pod"
    assert found.metadata.uid


def test_views_and_indexes_are_those_of_production() -> None:
    pods = synced_informer("v1", "pods", [_pod("a"), _pod("b", "n2")], model=PodView)
    pods.add_index("node", "spec.nodeName")

    (found,) = pods.lister.by_index("node", "n2")
    assert found.view.spec.node_name == "n2"
    pods.apply(_pod("b", "n1"))
    assert _names(pods.lister.by_index("node", "n1")) == ["a", "b"]
    pods.delete("default/a")
    assert _names(pods.lister.by_index("node", "n1")) == ["b"]


def test_handlers_are_called_before_apply_returns_and_after_the_cache_has_changed() -> None:
    pods = synced_informer("v1", "pods", [_pod("a")])
    heard: list[tuple[str, str, int]] = []

    def note(event: pyinformer.Added | pyinformer.Updated | pyinformer.Deleted) -> None:
        heard.append((type(event).__name__, "a", len(pods.lister.list())))

    pods.add_event_handler(note)
    assert heard == [("Added", "a", 1)]
    pods.apply(_pod("a", "n2"))
    pods.apply(_pod("a", uid="another"))
    pods.delete("default/a")

    assert [(kind, size) for kind, _, size in heard[1:]] == [
        ("Updated", 1),
        ("Deleted", 0),
        ("Added", 1),
        ("Deleted", 0),
    ]


def test_an_asynchronous_handler_is_called_to_its_end() -> None:
    pods = synced_informer("v1", "pods")
    heard: list[str] = []
    here = threading.current_thread()

    async def note(pod: pyinformer.KubeObject) -> None:
        assert threading.current_thread() is here
        heard.append(pod.metadata.name)

    pods.add_event_handler(on_add=note)
    pods.apply(_pod("a"))
    assert heard == ["a"]


async def test_an_asynchronous_handler_cannot_be_called_inside_of_a_loop() -> None:
    pods = synced_informer("v1", "pods")

    async def note(_: object) -> None:
        pytest.fail("it was called")

    pods.add_event_handler(on_add=note)
    with pytest.raises(LifecycleError, match="World"):
        pods.apply(_pod("a"))


async def test_a_program_may_start_and_await_a_synced_informer() -> None:
    pods = synced_informer("v1", "pods", [_pod("a")])

    await pods.start()
    await pods.wait_for_cache_sync(timeout_seconds=0.1)

    assert _names(pods.lister.list()) == ["a"]


async def test_a_removed_handler_is_not_called_again() -> None:
    pods = synced_informer("v1", "pods")
    heard: list[object] = []
    registration = pods.add_event_handler(heard.append)
    await pods.remove_event_handler(registration)

    pods.apply(_pod("a"))
    assert heard == []


def test_an_exception_of_a_handler_is_raised() -> None:
    pods = synced_informer("v1", "pods")

    def fail(_: object) -> None:
        raise ZeroDivisionError

    pods.add_event_handler(on_add=fail)
    with pytest.raises(ZeroDivisionError):
        pods.apply(_pod("a"))
    assert _names(pods.lister.list()) == ["a"]


def test_only_selected_objects_are_held_and_leaving_ones_are_deleted() -> None:
    web = {"app": "web"}
    pods = synced_informer(
        "v1",
        "pods",
        [_pod("a", labels=web), _pod("b"), _pod("c", labels=web, namespace="other")],
        namespaces="default",
        label_selector="app=web",
    )
    heard: list[Any] = []
    pods.add_event_handler(on_delete=heard.append)
    assert _names(pods.lister.list()) == ["a"]

    pods.apply(_pod("a"))
    assert (_names(pods.lister.list()), _names(heard)) == ([], ["a"])
    with pytest.raises(NotCachedError):
        pods.lister.namespace("other").list()


@pytest.mark.parametrize(
    "malformed",
    [
        {},
        {"metadata": {}},
        {"metadata": {"name": 3}},
        {"metadata": {"name": "a"}, "kind": "Service"},
        {"metadata": {"name": "a"}, "apiVersion": "v2"},
        "pod",
    ],
    ids=str,
)
def test_an_object_of_another_kind_or_shape_is_refused(malformed: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        synced_informer("v1", "pods", [malformed])


def test_an_object_that_does_not_fit_the_view_is_refused() -> None:
    with pytest.raises(InvalidObjectError, match="default/a"):
        synced_informer("v1", "pods", [_pod("a", node=3)], model=PodView)  # type: ignore[arg-type]


def test_one_object_is_not_a_list_of_objects() -> None:
    with pytest.raises(InvalidArgumentError, match="list of objects"):
        synced_informer("v1", "pods", _pod("a"))  # type: ignore[arg-type]


def test_scopes_of_built_in_resources_are_known_and_others_are_arguments() -> None:
    nodes = synced_informer("v1", "nodes", [{"metadata": {"name": "n"}}])
    teams = synced_informer(
        "acme.io/v1", "teams", [{"kind": "Team", "metadata": {"name": "t"}}], namespaced=False
    )

    assert nodes.lister.get("n") is not None
    assert teams.lister.get("t") is not None
    with pytest.raises(InvalidArgumentError, match="kind"):
        synced_informer("acme.io/v1", "teams", [{"metadata": {"name": "t"}}])


def test_an_object_that_is_not_held_cannot_be_deleted() -> None:
    with pytest.raises(ObjectNotFoundError):
        synced_informer("v1", "pods").delete("default/a")


def test_the_callers_dict_stays_as_it_is() -> None:
    body = _pod("a")
    synced_informer("v1", "pods", [body])

    assert body == _pod("a")


@pytest.mark.parametrize(
    ("api_version", "plural", "selector"),
    [
        pytest.param("v1", "pods", "spec.nodeName=n1", id="built-in"),
        pytest.param("v1", "pods", {"spec.nodeName": "n1"}, id="mapping"),
        pytest.param("acme.io/v1", "shops", "spec.nodeName!=n2", id="custom"),
    ],
)
def test_a_field_selector_leaves_out_what_a_server_would_not_send(
    api_version: str, plural: str, selector: Any
) -> None:
    kind = {"kind": "Pod" if plural == "pods" else "Shop"}
    objects = [_pod("a") | kind, _pod("b", "n2") | kind]

    found = synced_informer(api_version, plural, objects, field_selector=selector)
    assert _names(found.lister.list()) == ["a"]

    found.apply(_pod("b") | kind)
    found.apply(_pod("a", "n2") | kind)
    assert _names(found.lister.list()) == ["b"]


def test_fields_that_a_server_does_not_select_by_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"'spec\.color'"):
        synced_informer("v1", "pods", field_selector="spec.color=red")


def test_memory_is_that_of_production() -> None:
    managed: dict[str, Any] = {"managedFields": [{"manager": "me"}]}
    bare = synced_informer("v1", "pods", [_pod("a", **managed)], memory="metadata")
    raw = synced_informer("v1", "pods", [_pod("a", **managed)], memory="raw")
    usual = synced_informer("v1", "pods", [_pod("a", **managed)])

    def body(informer: pyinformer.SharedInformer[None]) -> dict[str, Any]:
        (held,) = informer.lister.list()
        return held.to_dict()

    assert "spec" not in body(bare)
    assert body(bare)["kind"] == "PartialObjectMetadata"
    assert "managedFields" in body(raw)["metadata"]
    assert "managedFields" not in body(usual)["metadata"]


def test_its_status_is_that_of_an_informer_that_follows() -> None:
    status = synced_informer("v1", "pods", [_pod("a"), _pod("b")]).status()

    assert (status.has_synced, status.objects) == (True, 2)
    assert status.state is status.reflector.state is ReflectorState.WATCHING
    assert "watching" in str(status)


async def test_its_namespaces_stay_as_they_were_given() -> None:
    pods = synced_informer("v1", "pods", [_pod("a")], namespaces="default")
    with pytest.raises(LifecycleError, match="World"):
        await pods.set_namespaces(["shop"])
