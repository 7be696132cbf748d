"""What of a write's answer enters an informer's reads: decided by its scope, as a server would."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyinformer.cache.informer import InformerSettings, Scope
from pyinformer.cache.informer._own_writes import OwnWrites
from pyinformer.cache.store import Overlay
from pyinformer.objects import GroupVersionResource, ObjectCodec

_PODS = GroupVersionResource.of("v1", "pods")


def _observer(
    namespace: str | None = None, labels: str = "", fields: str = ""
) -> tuple[OwnWrites[None], Overlay[None]]:
    overlay: Overlay[None] = Overlay(lambda _: None, lambda: "1", selective=bool(labels or fields))
    scope = Scope.of("v1", "pods", namespace, labels or None, fields or None)
    return OwnWrites(
        scope, lambda key: overlay if scope.covers(key.partition("/")[0]) else None
    ), overlay


def _write(observer: OwnWrites[Any], raw: bytes, resource: GroupVersionResource = _PODS) -> None:
    """Report a response to an observer as the cluster does."""
    obj = ObjectCodec[None](resource).decode(raw, 0, len(raw))
    observer.wrote(obj, raw)


def _answer(version: int = 7, name: str = "a", **body: Any) -> bytes:
    meta = {"name": name, "namespace": "default", "uid": "u", "resourceVersion": str(version)}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": meta, **body}).encode()


@pytest.mark.parametrize(
    ("fields", "body", "enters"),
    [
        ("metadata.name=a", {}, True),
        ("metadata.name=b", {}, False),
        ("metadata.namespace=default", {}, True),
        ("spec.nodeName=n1", {"spec": {"nodeName": "n1"}}, True),
        ("spec.nodeName=", {"spec": {}}, True),
        ("spec.nodeName!=n1", {}, True),
        ("status.phase!=Running", {"status": {"phase": "Running"}}, False),
        ("spec.hostNetwork=false", {"spec": {}}, True),
        ("spec.hostNetwork=true", {"spec": {"hostNetwork": True}}, True),
        ("spec.unschedulable=true", {"spec": {"unschedulable": False}}, False),
        ("status.successful=0", {"status": {}}, True),
        ("status.replicas=3", {"status": {"replicas": 3}}, True),
    ],
)
def test_field_selectors_are_read_as_a_server_reads_them(
    fields: str, body: dict[str, Any], enters: bool
) -> None:
    observer, overlay = _observer(fields=fields)
    _write(observer, _answer(**body))
    assert bool(overlay.entries) is enters
    assert observer.unreadable == 0


@pytest.mark.parametrize(("succeeded", "enters"), [(None, True), (0, True), (1, False)])
def test_the_successes_of_a_job_are_selected_under_another_name(
    succeeded: int | None, enters: bool
) -> None:
    overlay: Overlay[None] = Overlay(lambda _: None, lambda: "1", selective=True)
    scope = Scope.of("batch/v1", "jobs", None, None, "status.successful=0")
    observer: OwnWrites[None] = OwnWrites(scope, lambda _: overlay)
    status = {} if succeeded is None else {"succeeded": succeeded}
    raw = _answer(status=status).replace(b'"v1"', b'"batch/v1"').replace(b"Pod", b"Job")
    _write(observer, raw, scope.resource)
    assert bool(overlay.entries) is enters


@pytest.mark.parametrize("fields", ["source=kubelet", "spec=x"])
def test_a_field_that_only_the_server_knows_leaves_the_write_to_the_watch(fields: str) -> None:
    observer, overlay = _observer(fields=fields)
    _write(observer, _answer(spec={"nodeName": "n1"}))
    assert not overlay.entries
    assert observer.unreadable == 1


def test_a_write_in_another_namespace_is_ignored() -> None:
    observer, overlay = _observer(namespace="other")
    _write(observer, _answer())
    observer.deleted("default/a", "u", None)
    assert not overlay.entries
    written = observer.recent.at("7")
    assert written is not None
    assert written.key == "default/a"  # so that a wait for it ends at once


def test_a_deletion_without_a_uid_hides_nothing() -> None:
    observer, overlay = _observer()
    observer.deleted("default/a", "", None)
    assert not overlay.entries
    observer.deleted("default/a", "u", None)
    assert list(overlay.entries) == ["default/a"]


def test_the_keys_of_the_newest_writes_are_remembered() -> None:
    observer, _ = _observer()
    for number in range(1, 1_030):
        _write(observer, _answer(number, f"p{number}"))
    assert observer.recent.at("1") is None
    newest = observer.recent.at("1029")
    assert newest is not None
    assert (newest.key, newest.is_sole) == ("default/p1029", True)


def test_a_version_of_two_objects_names_neither() -> None:
    observer, _ = _observer()
    for name in ("a", "a", "b"):
        _write(observer, _answer(7, name))
        written = observer.recent.at("7")
        assert written is not None
        assert (written.key, written.is_sole) == (f"default/{name}", name == "a")


def test_a_response_that_cannot_be_kept_is_counted() -> None:
    overlay: Overlay[None] = Overlay(lambda _: None, lambda: "1")
    scope = Scope.of("v1", "pods", None, None, None)
    observer: OwnWrites[None] = OwnWrites(
        scope, lambda _: overlay, settings=InformerSettings(memory="raw")
    )
    raw = _answer()
    obj = ObjectCodec[None](_PODS).decode(raw, 0, len(raw))
    observer.wrote(obj, raw)
    observer.wrote(obj, _answer(8).replace(b'"v1"', b'"autoscaling/v1"').replace(b"Pod", b"Scale"))
    assert observer.unreadable == 1
    assert len(overlay.entries) == 1


def test_the_object_that_the_cluster_has_decoded_is_what_readers_see() -> None:
    observer, overlay = _observer()
    raw = _answer()
    obj = ObjectCodec[None](_PODS).decode(raw, 0, len(raw))
    observer.wrote(obj, raw)
    entry = overlay.entries["default/a"]
    assert entry.over(None) is obj
