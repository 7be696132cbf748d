"""What ended streams had reported is kept for the next ones, for a limited number of objects."""

from __future__ import annotations

import pytest
from kopf._cogs.structs.references import NamespaceName, Resource

from pyinformer.kopf._known import CachedKeys
from pyinformer.kopf._left_objects import LeftObjects
from tests.kopf.streams import PODS
from tests.kopf.test_delivery import POD, pod


def _known(*names: str) -> CachedKeys:
    known = CachedKeys(POD)
    for name in names:
        known.put(pod(name, 1))
    return known


def test_the_next_stream_takes_them_once() -> None:
    left, known = LeftObjects(), _known("a")
    left.keep(PODS, None, [known])
    assert left.take(PODS, NamespaceName("default")) == ()
    newer = Resource("", "v2", "pods", "Pod", namespaced=True)
    assert left.take(newer, None) == [known]
    assert left.take(PODS, None) == ()


def test_each_version_of_a_kind_takes_what_its_own_stream_had_reported() -> None:
    """A deletion is reported to the handlers of both versions."""
    left, versions = LeftObjects(), ["v1", "v2"]
    streams = [Resource("", one, "pods", "Pod", namespaced=True) for one in versions]
    known = [_known("a"), _known("a", "b")]
    for stream, one in zip(streams, known, strict=True):
        left.keep(stream, None, [one])
    assert left.take(streams[1], None) == [known[1]]
    assert left.take(streams[0], None) == [known[0]]


def test_nothing_is_kept_of_a_stream_without_objects() -> None:
    left = LeftObjects()
    left.keep(PODS, None, [_known()])
    assert left.take(PODS, None) == ()


def test_beyond_the_limit_the_stream_that_ended_first_is_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left = LeftObjects(limit=3)
    places = [NamespaceName(name) for name in ("one", "two")]
    for place in places:
        left.keep(PODS, place, [_known("a", "b")])
    assert len(left) == 2
    assert left.take(PODS, places[0]) == ()
    assert left.take(PODS, places[1]) != ()
    assert "deletions of the 2 pods" in caplog.text
