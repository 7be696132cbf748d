"""Whatever happens to a cache, its indexes say what its objects say.

Hypothesis chooses the events, the lists (some abandoned half-way) and the moments at which
indexes are added; the truth is a plain dict and a search through all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyinformer.cache.store import Indexer
from pyinformer.objects import Added, Deleted, KubeObject, Updated
from tests.cache.store.objects import PodView, by_key, pod
from tests.soak import examples

KEYS = st.sampled_from([("a", "x"), ("b", "x"), ("a", "y"), ("c", "")])
NODES = st.sampled_from([None, "n1", "n2", "n3"])
LABELS = st.dictionaries(st.sampled_from(["p", "q"]), st.sampled_from(["1", "2"]))


def _fails_for_some(obj: KubeObject[Any]) -> str:
    if obj.metadata.labels.get("p") == "2":
        raise LookupError("p is 2")
    return "fine"


def _brute(by: str, obj: KubeObject[Any]) -> set[str]:
    """Return an object's values by reading its body."""
    body = obj.to_dict()
    labels, node = body["metadata"]["labels"], body["spec"]["nodeName"]
    values: dict[str, list[str | None]] = {
        "namespace": [body["metadata"]["namespace"]],
        "spec.nodeName": [node],
        "metadata.labels.p": [labels.get("p")],
        "spec.missing.deeper": [],
        "labels": list(labels.values()),
        "both": [node, labels.get("q")],
        "fails": [] if labels.get("p") == "2" else ["fine"],
    }
    return {value for value in values[by] if value is not None}


FUNCTIONS: dict[str, Callable[[KubeObject[Any]], Any]] = {
    "labels": lambda obj: list(obj.metadata.labels.values()),
    "both": lambda obj: (obj.to_dict()["spec"]["nodeName"], obj.metadata.labels.get("q")),
    "fails": _fails_for_some,
}
PATHS = ["spec.nodeName", "metadata.labels.p", "spec.missing.deeper"]


class CacheMachine(RuleBasedStateMachine):
    """A cache beside a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, KubeObject[Any]] = {}
        self.version = 0

    @initialize(viewed=st.booleans())
    def begin(self, viewed: bool) -> None:
        """Choose whether paths are read from a view."""
        self.viewed = viewed
        self.store: Indexer[Any] = Indexer(PodView if viewed else None)

    def _pod(self, key: tuple[str, str], node: str | None, labels: Any) -> KubeObject[Any]:
        self.version += 1
        return pod(
            key[0], node, namespace=key[1], version=self.version, labels=labels, viewed=self.viewed
        )

    @rule(by=st.sampled_from([*PATHS, *FUNCTIONS]))
    def add_index(self, by: str) -> None:
        """Add an index, once."""
        if by not in {index.name for index in self.store.indexes()}:
            self.store.add_index(by, FUNCTIONS.get(by, by))

    @rule(key=KEYS, node=NODES, labels=LABELS)
    def put(self, key: tuple[str, str], node: str | None, labels: Any) -> None:
        """Add or update."""
        new = self._pod(key, node, labels)
        old = self.model.get(new.key)
        self.store.apply_nowait(Added(new) if old is None else Updated(old, new))
        self.model[new.key] = new

    @precondition(lambda self: self.model)
    @rule(data=st.data(), node=NODES)
    def delete(self, data: Any, node: str | None) -> None:
        """Delete, with a last state that may differ from the cached one."""
        key = data.draw(st.sampled_from(sorted(self.model)))
        meta = self.model.pop(key).metadata
        self.store.apply_nowait(Deleted(self._pod((meta.name, meta.namespace), node, {})))

    @rule(data=st.data(), abandon=st.booleans())
    def replace(self, data: Any, abandon: bool) -> None:
        """Hand over a complete list, or part of one."""
        kept = data.draw(st.sets(st.sampled_from(sorted(self.model)))) if self.model else set()
        fresh = data.draw(st.lists(st.tuples(KEYS, NODES, LABELS), max_size=4))
        objects = {key: self.model[key] for key in sorted(kept)}
        objects |= by_key(self._pod(*each) for each in fresh)
        steps = self.store.replace_nowait(objects, str(self.version))
        if abandon:
            del steps
            return
        for _ in steps:
            pass
        self.model = dict(objects)

    @invariant()
    def objects_agree(self) -> None:
        """The cache holds exactly the model's objects."""
        if hasattr(self, "store"):
            assert dict(self.store.snapshot()) == self.model
            assert len(self.store) == len(self.model)
            for key, obj in self.model.items():
                assert self.store.get(key) is obj

    @invariant()
    def indexes_agree(self) -> None:
        """Every index has exactly the values that the objects have, and the objects themselves."""
        for index in self.store.indexes() if hasattr(self, "store") else ():
            expected: dict[str, dict[str, KubeObject[Any]]] = {}
            for key, obj in self.model.items():
                for value in _brute(index.name, obj):
                    expected.setdefault(value, {})[key] = obj
            assert set(self.store.index_values(index.name)) == set(expected)
            for value, objects in expected.items():
                found = self.store.by_index(index.name, value)
                assert by_key(found) == objects
                assert len(found) == len(objects)


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=examples(30), stateful_step_count=25, derandomize=True)
