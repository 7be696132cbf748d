"""What is kept of each object: keys that cost little, or objects that listers read.

What an ended stream had reported is kept for the next one, for a limited number of objects.
"""

from __future__ import annotations

import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kopf._cogs.structs.references import NamespaceName, Resource

from pyinformer.kopf._ended_streams import EndedStreams
from pyinformer.kopf._stream_cache import CachedKeys, CachedObjects
from pyinformer.objects import KubeObject, ObjectMeta
from tests.kopf.streams import PODS
from tests.kopf.test_delivery import POD, pod

TEXTS = st.one_of(
    st.uuids().map(str),
    st.integers(0, 2**80).map(str),
    st.sampled_from(["", "007", "+1", "-1", "1_0", "A2B1D9C4-0000-4000-8000-000000000000"]),
    st.text(max_size=40),
)


@given(uid=TEXTS, version=TEXTS)
def test_keys_restore_every_uid_and_version(uid: str, version: str) -> None:
    known = CachedKeys(POD)
    known.put(KubeObject("ns/a", ObjectMeta("ns", "a", uid, version), None, b"{}", POD))
    found = known.get("ns/a")
    assert found is not None
    assert (found.metadata.uid, found.metadata.resource_version) == (uid, version)
    assert (found.metadata.namespace, found.metadata.name, found.raw) == ("ns", "a", b"")


def test_a_usual_identity_takes_24_bytes() -> None:
    count, uid = 10_000, "a2b1d9c4-1111-4222-8333-444455556666"
    objects = [
        KubeObject(f"ns/{number}", ObjectMeta("ns", str(number), uid, "123456789"), None, b"", POD)
        for number in range(count)
    ]
    known, keys = CachedKeys(POD), {obj.key: None for obj in objects}
    tracemalloc.start()
    for obj in objects:
        known.put(obj)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Half a reference for each stays free: what coverage takes meanwhile is counted too.
    assert grown - sys.getsizeof(keys) <= count * (sys.getsizeof(bytes(24)) + 4)


def test_both_forget_replace_and_list_alike() -> None:
    for known in (CachedKeys(POD), CachedObjects()):
        known.put(pod("a", 1))
        known.put(pod("a", 2))
        known.put(pod("b", 3))
        assert len(known) == 2
        gone = known.pop("default/a")
        assert gone is not None
        assert gone.metadata.resource_version == "2"
        assert known.pop("default/a") is None
        for _ in known.replace({"default/c": pod("c", 4)}, "4"):
            pass
        assert known.keys() == ["default/c"]
        assert known.get("default/b") is None


def test_a_large_list_is_taken_in_steps() -> None:
    objects = {f"default/{number}": pod(str(number), number) for number in range(1, 2000)}
    for known in (CachedKeys(POD), CachedObjects()):
        assert len(list(known.replace(objects, "2000"))) > 2
        assert len(known) == 1999


def known_of(*names: str) -> CachedKeys:
    known = CachedKeys(POD)
    for name in names:
        known.put(pod(name, 1))
    return known


def test_the_next_stream_takes_what_an_ended_one_left_once() -> None:
    left, known = EndedStreams(), known_of("a")
    left.keep(PODS, None, [known])
    assert left.take(PODS, NamespaceName("default")) == ()
    newer = Resource("", "v2", "pods", "Pod", namespaced=True)
    assert left.take(newer, None) == [known]
    assert left.take(PODS, None) == ()


def test_each_version_of_a_kind_takes_what_its_own_stream_had_reported() -> None:
    """A deletion is reported to the handlers of both versions."""
    left, versions = EndedStreams(), ["v1", "v2"]
    streams = [Resource("", one, "pods", "Pod", namespaced=True) for one in versions]
    known = [known_of("a"), known_of("a", "b")]
    for stream, one in zip(streams, known, strict=True):
        left.keep(stream, None, [one])
    assert left.take(streams[1], None) == [known[1]]
    assert left.take(streams[0], None) == [known[0]]


def test_nothing_is_kept_of_a_stream_without_objects() -> None:
    left = EndedStreams()
    left.keep(PODS, None, [known_of()])
    assert left.take(PODS, None) == ()


def test_beyond_the_limit_the_stream_that_ended_first_is_forgotten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    left = EndedStreams(limit=3)
    places = [NamespaceName(name) for name in ("one", "two")]
    for place in places:
        left.keep(PODS, place, [known_of("a", "b")])
    assert len(left) == 2
    assert left.take(PODS, places[0]) == ()
    assert left.take(PODS, places[1]) != ()
    assert "deletions of the 2 pods" in caplog.text
