"""What is kept of each object: keys that cost little, or objects that listers read."""

from __future__ import annotations

import sys
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from pyinformer.kopf._known import CachedKeys, CachedObjects
from pyinformer.objects import KubeObject, ObjectMeta
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
