"""Rules of an informer that its face shows only in part: where a version is from, what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from pyinformer.cache.informer._namespace_selection import labels_only
from pyinformer.cache.informer._provenance import provenance_of
from pyinformer.cache.reflector import RelistRecord

FIRST = RelistRecord(0.0, "watch-list", "", "", "100")
SECOND = RelistRecord(60.0, "paged list", "410", "120", "200")
RESET = RelistRecord(90.0, "paged list", "another history", "900", "150")


@pytest.mark.parametrize(
    ("version", "loads", "words"),
    [
        pytest.param("201", (FIRST,), "a load that is not finished yet", id="in-steps"),
        pytest.param("90", (FIRST,), "the first load", id="first"),
        pytest.param("110", (FIRST,), "the watch", id="watch"),
        pytest.param("110", (FIRST, SECOND), "the watch", id="between"),
        pytest.param("150", (FIRST, SECOND), "a relist", id="relist"),
        pytest.param("90", (FIRST, SECOND), "the first load", id="first-of-two"),
        pytest.param("90", (SECOND,), "a list or a watch", id="forgotten"),
        pytest.param("90", (FIRST, RESET), "a relist", id="after-a-reset"),
        pytest.param("160", (FIRST, RESET), "the watch", id="watch-after-a-reset"),
        pytest.param("abc", (FIRST,), "a list or a watch", id="opaque"),
        pytest.param("9", (), "a list or a watch", id="nothing-known"),
        pytest.param(
            "9", (RelistRecord(0.0, "paged list", "", "", "x"),), "a list or a watch", id="no-order"
        ),
    ],
)
def test_explain_names_the_origin_of_a_version(
    version: str, loads: tuple[RelistRecord, ...], words: str
) -> None:
    assert str(provenance_of(version, loads, "200")).startswith(words)


def test_only_labels_are_kept_of_namespaces_that_do_not_match() -> None:
    meta: dict[str, Any] = {"name": "a", "uid": "u", "resourceVersion": "1"}
    noise = {"annotations": {"a": "b"}, "managedFields": [{}], "finalizers": ["x/y"]}
    assert labels_only({"kind": "Namespace", "metadata": meta | noise}) == {
        "kind": "Namespace",
        "metadata": meta,
    }
    assert labels_only({"metadata": meta | {"labels": {}}})["metadata"]["labels"] == {}
