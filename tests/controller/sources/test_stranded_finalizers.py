"""Objects that leave a selector with our finalizer: a warning a minute, with the number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyinformer.controller.sources import PrimarySource
from pyinformer.objects import Deleted
from tests.controller.sources.feeding import FedInformer, Noted, made
from tests.virtual_time import elapse

if TYPE_CHECKING:
    from pyinformer.objects import KubeObject

OURS = "acme.io/cleanup"


def _held(name: str, *finalizers: str, ends: bool = False) -> KubeObject:
    more: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if ends else {}
    return made(name, finalizers=list(finalizers), **more)


def _leave(informer: FedInformer, *objects: KubeObject) -> None:
    for obj in objects:
        informer.add(obj)
        informer.apply(Deleted(obj, may_still_exist=True))


def _followed() -> FedInformer:
    informer = FedInformer()
    informer.load()
    PrimarySource(informer, name="maps", own_finalizers=lambda: frozenset({OURS})).attach(Noted())
    return informer


@pytest.mark.virtual_time
async def test_one_warning_a_minute_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    informer = _followed()
    _leave(informer, *(_held(f"a{number}", OURS, "kubernetes.io/other") for number in range(5)))
    (first,) = caplog.messages
    assert first.startswith(f"maps: default/a0 has left the selector with the finalizer {OURS} ")
    await elapse(59.0)
    _leave(informer, _held("early", OURS))
    assert len(caplog.messages) == 1
    await elapse(1.0)
    _leave(informer, _held("b", OURS))
    assert "default/b" in caplog.messages[1]
    assert caplog.messages[1].endswith("others since the last warning: 5")


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(_held("a"), id="none"),
        pytest.param(_held("a", "kubernetes.io/other"), id="not-ours"),
        pytest.param(_held("a", OURS, ends=True), id="deleted"),
    ],
)
async def test_a_change_that_leaves_no_finalizer_logs_no_warning(
    obj: KubeObject, caplog: pytest.LogCaptureFixture
) -> None:
    _leave(_followed(), obj)
    assert caplog.messages == []


async def test_only_objects_that_left_a_selector_are_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    informer, noted = FedInformer(), Noted()
    source = PrimarySource(informer, own_finalizers=lambda: frozenset({OURS}))
    source.attach(noted)
    informer.load(_held("a", OURS), _held("b", OURS))
    informer.apply(Deleted(informer.lister["default/a"]))
    assert caplog.messages == []
    informer.apply(Deleted(informer.lister["default/b"], may_still_exist=True))
    assert [line for line in caplog.messages if "default/b has left" in line]
    assert noted.lines[-1].startswith("default/b deleted")
