"""Null is the same as absent, as it is for Go: encoders of other languages write it.

Every document here is read twice: with some of its fields null, and without them. Whatever is read
is the same. A field of another type is named by the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from pyinformer.client.cluster import Discovery
from pyinformer.client.transport import (
    ListSplitter,
    decode_groups,
    decode_resources,
    read_bookmark,
    read_error,
    read_frame,
    status_error,
    table_of,
)
from pyinformer.errors import (
    APIStatusError,
    InvalidObjectError,
    ProtocolError,
    UnknownResourceError,
)
from pyinformer.objects import GroupVersionResource, KubeObject, ObjectCodec, View

PODS = GroupVersionResource.of("v1", "pods")
Path = tuple[str | int, ...]


class PodView(View):
    """A view with a default for each field."""

    class Spec(View):
        """A part of it."""

        node_name: str = msgspec.field(name="nodeName", default="none")

    spec: Spec = msgspec.field(default_factory=Spec)


POD: Mapping[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "a",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "4",
        "generation": 3,
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "deletionTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "web"},
        "annotations": {"note": "text"},
        "finalizers": ["one"],
        "managedFields": [{"manager": "m"}],
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": "n",
                "uid": "n",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    },
    "spec": {"nodeName": "node"},
    "status": {"phase": "Running"},
}
LIST: Mapping[str, Any] = {
    "kind": "PodList",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "5", "continue": "more", "remainingItemCount": 1},
    "message": "text",
    "items": [POD, {**POD, "metadata": {**POD["metadata"], "name": "b"}}],
}
BOOKMARK: Mapping[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}},
}
STATUS: Mapping[str, Any] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {"resourceVersion": "1"},
    "status": "Failure",
    "message": "it is full",
    "reason": "TooManyRequests",
    "code": 429,
    "details": {
        "name": "a",
        "group": "g",
        "kind": "pods",
        "uid": "u",
        "retryAfterSeconds": 3,
        "causes": [{"reason": "r", "message": "m", "field": "f"}],
    },
}
RESOURCES: Mapping[str, Any] = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": "v1",
    "resources": [
        {
            "name": "pods",
            "singularName": "pod",
            "namespaced": True,
            "kind": "Pod",
            "verbs": ["list"],
            "shortNames": ["po"],
            "categories": ["all"],
            "storageVersionHash": "x",
        },
        {"name": "pods/status", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": []},
    ],
}
GROUPS: Mapping[str, Any] = {
    "kind": "APIGroupList",
    "apiVersion": "v1",
    "groups": [
        {
            "name": "apps",
            "versions": [{"groupVersion": "apps/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"},
            "serverAddressByClientCIDRs": [],
        }
    ],
}
AGGREGATED: Mapping[str, Any] = {
    "kind": "APIGroupDiscoveryList",
    "apiVersion": "apidiscovery.k8s.io/v2",
    "metadata": {},
    "items": [
        {
            "metadata": {"name": "apps", "creationTimestamp": "x"},
            "versions": [
                {
                    "version": "v1",
                    "freshness": "Current",
                    "resources": [
                        {
                            "resource": "deployments",
                            "responseKind": {"group": "", "version": "", "kind": "Deployment"},
                            "scope": "Namespaced",
                            "singularResource": "deployment",
                            "verbs": ["list"],
                            "shortNames": ["deploy"],
                            "subresources": [{"subresource": "status", "verbs": ["get"]}],
                        }
                    ],
                }
            ],
        }
    ],
}
REQUIRED = {
    "items",
    "name",
    "version",
    "resource",
    "subresource",
}  # without it there is nothing to be read
MAPS = {"labels", "annotations"}  # their entries are not fields: null is an empty text there


def fields_in(value: Any, at: Path = ()) -> Iterable[Path]:
    """Yield the path of each field of a document, at any depth."""
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for name, one in pairs:
        if isinstance(name, str) and name not in REQUIRED:
            yield (*at, name)
        if name not in MAPS:
            yield from fields_in(one, (*at, name))


def changed(document: Mapping[str, Any], paths: Iterable[Path], *, null: bool) -> dict[str, Any]:
    """Return a copy whose fields at these paths are null, or are absent."""
    found = deepcopy(dict(document))
    for path in paths:
        place: Any = found
        for step in path[:-1]:
            place = place.get(step) if isinstance(place, dict) else place and place[step]
        if not isinstance(place, dict):
            continue  # a field around it is gone
        if null:
            place[path[-1]] = None
        else:
            place.pop(path[-1], None)
    return found


def two_ways(document: Mapping[str, Any]) -> st.SearchStrategy[tuple[bytes, bytes]]:
    """Draw some fields, and return the document with them null, and without them."""
    paths = st.sets(st.sampled_from(sorted(fields_in(document), key=str)), max_size=4)
    return paths.map(
        lambda some: (
            json.encode(changed(document, some, null=True)),
            json.encode(changed(document, some, null=False)),
        )
    )


def told(make: Any) -> Any:
    """Return a result, or the kind of the error in its place."""
    try:
        return make()
    except (ProtocolError, InvalidObjectError, msgspec.DecodeError) as error:
        return type(error)


def known(obj: KubeObject[Any]) -> tuple[Any, ...]:
    """Return everything that the record of an object has, apart from its text."""
    return obj.key, obj.metadata, obj.gvk, obj.view, obj.problem, dict(obj.annotations)


def read_list(body: bytes, size: int, codec: ObjectCodec[Any]) -> Any:
    """Read a list in pieces, its items by a codec."""
    found: list[Any] = []
    splitter = ListSplitter(
        lambda data, start, end: found.append(known(codec.decode(data, start, end))),
        verify=False,
        on_invalid=lambda _data, _start, _end, error: found.append(type(error)),
    )
    for start in range(0, len(body), size):
        splitter.feed(body[start : start + size])
    return splitter.finish(), found


def learned(*, view: Any = None, strip: bool = True) -> ObjectCodec[Any]:
    """Return a codec that has learned how its server writes."""
    codec: ObjectCodec[Any] = ObjectCodec(PODS, view=view, strip_managed_fields=strip)
    text = json.encode(POD)
    for _ in range(2):
        codec.decode(text, 0, len(text))
    return codec


@given(two_ways(LIST), st.integers(1, 400), st.sampled_from([None, PodView]), st.booleans())
def test_a_list_with_nulls_is_the_list_without_these_fields(
    ways: tuple[bytes, bytes], size: int, view: Any, is_fresh: bool
) -> None:
    def codec() -> ObjectCodec[Any]:
        return ObjectCodec(PODS, view=view) if is_fresh else learned(view=view)

    with_nulls, without = ways
    assert told(lambda: read_list(with_nulls, size, codec())) == told(
        lambda: read_list(without, size, codec())
    )


@given(two_ways(LIST))
def test_a_list_that_is_read_as_a_whole_is_the_same_with_nulls(ways: tuple[bytes, bytes]) -> None:
    """The key of the items is escaped, so they are found only in the whole."""
    with_nulls, without = (body.replace(b'"items"', b'"\\u0069tems"') for body in ways)
    assert told(lambda: read_list(with_nulls, 1 << 20, learned())) == told(
        lambda: read_list(without, 1 << 20, learned())
    )


@given(two_ways(POD), st.sampled_from([None, PodView]), st.booleans(), st.booleans())
def test_an_object_with_nulls_is_the_object_without_these_fields(
    ways: tuple[bytes, bytes], view: Any, strip: bool, is_line: bool
) -> None:
    def read(body: bytes) -> Any:
        codec, start, end = learned(view=view, strip=strip), 0, len(body)
        if is_line:
            line = b'{"kind":null,"type":"ADDED","object":%s}' % body
            kind, frame, start, end = read_frame(line, 0, len(line))
            assert kind == "ADDED"
            return known(codec.decode(bytes(frame), start, end))
        return known(codec.decode(body, start, end))

    with_nulls, without = ways
    assert told(lambda: read(with_nulls)) == told(lambda: read(without))


@given(two_ways(BOOKMARK))
def test_a_bookmark_with_nulls_is_the_bookmark_without_these_fields(
    ways: tuple[bytes, bytes],
) -> None:
    with_nulls, without = ways
    assert read_bookmark(with_nulls, 0, len(with_nulls)) == read_bookmark(without, 0, len(without))


def shown(error: APIStatusError) -> tuple[Any, ...]:
    """Return what an error has."""
    return type(error), vars(error), str(error)


@given(two_ways(STATUS))
def test_a_status_with_nulls_is_the_status_without_these_fields(ways: tuple[bytes, bytes]) -> None:
    with_nulls, without = ways
    assert shown(status_error(429, {}, with_nulls)) == shown(status_error(429, {}, without))
    assert shown(read_error(with_nulls, 0, len(with_nulls), request="watch")) == shown(
        read_error(without, 0, len(without), request="watch")
    )


@given(two_ways(RESOURCES))
def test_resources_with_nulls_are_the_resources_without_these_fields(
    ways: tuple[bytes, bytes],
) -> None:
    with_nulls, without = (decode_resources(body) for body in ways)
    assert with_nulls == without
    assert table_of("v1", with_nulls) == table_of("v1", without)


@given(two_ways(GROUPS))
def test_groups_with_nulls_are_the_groups_without_these_fields(ways: tuple[bytes, bytes]) -> None:
    with_nulls, without = ways
    assert decode_groups(with_nulls) == decode_groups(without)


async def found(name: str, apis: bytes) -> object:
    """Return what a name means on a server that answers this at `/apis`, or what is wrong."""

    async def read(path: str, _accept: str) -> bytes:
        return apis if path == "/apis" else b'{"kind":"APIVersions","versions":[]}'

    try:
        return await Discovery(read).find(name)
    except UnknownResourceError as error:
        return str(error)
    except ProtocolError as error:
        return type(error)


@given(two_ways(AGGREGATED))
def test_all_resources_with_nulls_are_those_without_these_fields(
    ways: tuple[bytes, bytes],
) -> None:
    with_nulls, without = ways
    for name in ("deployments", "deployment", "deploy", "Deployment", "deployments.v1.apps", "x"):
        assert asyncio.run(found(name, with_nulls)) == asyncio.run(found(name, without))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("resourceVersion", b"5", id="version-as-a-number"),
        pytest.param("continue", b"{}", id="token-as-an-object"),
        pytest.param("remainingItemCount", b'"1"', id="count-as-a-text"),
    ],
)
@pytest.mark.parametrize("is_before", [True, False], ids=["before-the-items", "behind-the-items"])
def test_the_error_names_the_field_that_is_of_another_type(
    field: str, value: bytes, is_before: bool
) -> None:
    meta = b'"metadata":{"%s":%s}' % (field.encode(), value)
    fields = [b'"kind":"PodList"', b'"items":[]']
    fields.insert(1 if is_before else 2, meta)
    splitter = ListSplitter(lambda _data, _start, _end: None, what="list pods.v1")
    with pytest.raises(ProtocolError, match=rf"\$\.metadata\.{field}"):
        splitter.feed(b"{%s}" % b",".join(fields))
        splitter.finish()


def test_nulls_inside_of_the_body_stay_what_they_are() -> None:
    """Custom resources distinguish null from absent where their schema says `nullable`."""
    body = json.encode({**POD, "metadata": {**POD["metadata"], "uid": None}, "spec": {"x": None}})
    found = learned().decode(body, 0, len(body))
    assert found.metadata.uid == ""
    assert found.to_dict()["spec"] == {"x": None}


def test_a_null_among_labels_and_annotations_is_an_empty_text() -> None:
    """Go reads a null value of a map of texts as an empty one, and the key stays."""
    meta = {**POD["metadata"], "labels": {"a": None}, "annotations": {"b": None}}
    body = json.encode({**POD, "metadata": meta})
    found = learned().decode(body, 0, len(body))
    assert found.metadata.labels == {"a": ""}
    assert found.annotations == {"b": ""}
    assert found.problem == ""
