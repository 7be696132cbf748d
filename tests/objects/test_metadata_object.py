"""Metadata alone: what is kept of it, that it comes back as it was, and what is shared."""

from __future__ import annotations

import gc
import json
import pickle
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyinformer.errors import FieldNotFoundError, InvalidObjectError
from pyinformer.objects import (
    PARTIAL_OBJECT_METADATA,
    BytesTransform,
    GroupVersionResource,
    KubeObject,
    ObjectCodec,
    ObjectMeta,
)
from pyinformer.objects._metadata_object import PARTIAL_HEAD, MetadataObject, MetadataSharer

SECRETS = GroupVersionResource.of("v1", "secrets")
METADATA: dict[str, Any] = {
    "name": "some-secret-1",
    "generateName": "some-secret-",
    "namespace": "default",
    "uid": "0d89d676-dd82-4e34-bf07-879ca22450bf",
    "resourceVersion": "12",
    "creationTimestamp": "2026-01-01T00:10:29Z",
    "labels": {"app": "web", "tier": "front"},
    "annotations": {"of": "some-secret-1"},
    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u-1"}],
}
MANAGED = [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:metadata": {}}}]


def partial(**metadata: object) -> bytes:
    """Return what a server sends of a secret's metadata."""
    meta = {name: value for name, value in {**METADATA, **metadata}.items() if value is not None}
    named = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
    return json.dumps(named, separators=(",", ":")).encode()


def whole(**metadata: object) -> bytes:
    """Return the same as a server sends it that knows nothing of metadata alone."""
    body = {**json.loads(partial(**metadata)), "kind": "Secret", "apiVersion": "v1"}
    return json.dumps({**body, "data": {"password": "c2VjcmV0"}}, separators=(",", ":")).encode()


def codec(**options: Any) -> ObjectCodec[None]:
    """Return a codec that keeps metadata alone, of secrets."""
    made: ObjectCodec[None] = ObjectCodec(SECRETS, metadata_only=True, **options)
    made.learn_kind("Secret")
    return made


def decoded(text: bytes, by: ObjectCodec[None] | None = None) -> KubeObject:
    """Decode an object."""
    return (by or codec()).decode(bytearray(text), 0, len(text))


@pytest.mark.covers("apimachinery pkg/api/meta: TestAsPartialObjectMetadata")
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(partial(), id="as-the-server-sends-it"),
        pytest.param(partial(managedFields=MANAGED), id="managed-fields-last"),
        pytest.param(partial(managedFields=MANAGED, zone="z"), id="managed-fields-amid"),
        pytest.param(partial(managedFields=[{"time": "[1]"}]), id="brackets-in-managed-fields"),
        pytest.param(whole(managedFields=MANAGED), id="whole"),
        pytest.param(b" " + partial(managedFields=MANAGED), id="white-space"),
    ],
)
def test_metadata_alone_is_kept_under_the_name_that_it_has_on_the_wire(text: bytes) -> None:
    obj = decoded(text)

    body = obj.to_dict()
    assert (body.pop("kind"), body.pop("apiVersion")) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    body["metadata"].pop("zone", None)
    assert body == {"metadata": METADATA}
    assert (str(obj.gvk), obj.key) == ("v1/Secret", "default/some-secret-1")
    assert obj.metadata.labels == METADATA["labels"]
    assert obj.annotations == METADATA["annotations"]
    assert obj.metadata.owner_references[0].uid == "u-1"
    with pytest.raises(FieldNotFoundError):
        obj.at("data.password")


@pytest.mark.covers("client-go metadata/metadatainformer: TestMetadataSharedInformerFactory")
def test_lists_and_watches_give_the_same_metadata() -> None:
    assert decoded(whole()).same_content(decoded(partial(managedFields=MANAGED)))
    assert decoded(whole()) == decoded(partial())


def test_metadata_of_an_unknown_kind_is_refused_until_the_kind_is_learned() -> None:
    unknowing: ObjectCodec[None] = ObjectCodec(SECRETS, metadata_only=True)
    unknowing.learn_kind("PartialObjectMetadata")  # as the list of such calls itself
    with pytest.raises(InvalidObjectError):
        decoded(partial(), unknowing)
    unknowing.learn_no_kind()
    assert decoded(partial(), unknowing).gvk == PARTIAL_OBJECT_METADATA
    assert str(decoded(whole(), unknowing).gvk) == "v1/Secret"


def test_an_object_of_another_kind_is_refused() -> None:
    by = codec()
    decoded(whole(), by)
    other = whole().replace(b'"Secret"', b'"ConfigMap"')
    with pytest.raises(InvalidObjectError, match="ConfigMap"):
        decoded(other, by)


def test_a_codec_of_whole_objects_takes_no_metadata_for_one() -> None:
    usual: ObjectCodec[None] = ObjectCodec(SECRETS)
    usual.learn_kind("Secret")
    with pytest.raises(InvalidObjectError, match="PartialObjectMetadata"):
        decoded(partial(), usual)


def test_a_transform_sees_metadata_alone() -> None:
    seen: list[bytes] = []

    def note(raw: bytes) -> bytes:
        seen.append(raw)
        return raw

    decoded(whole(), codec(transform=BytesTransform(note)))
    decoded(partial(managedFields=MANAGED), codec(transform=BytesTransform(note)))
    assert all(json.loads(raw) == json.loads(partial()) for raw in seen)
    assert len(seen) == 2


def test_an_object_over_the_limit_is_metadata_alone_as_well() -> None:
    obj = codec().decode_head(partial(), 10_000_000)
    assert obj.to_dict()["kind"] == "PartialObjectMetadata"
    assert obj.problem


def test_equal_labels_and_owners_are_shared_from_the_second_object_on() -> None:
    by, large = codec(), "x" * 1_000
    alike = {
        "labels": {"app": large},
        "ownerReferences": [{**METADATA["ownerReferences"][0], "name": large}],
    }
    texts = [partial(name=f"some-secret-{n}", uid=str(n), **alike) for n in range(50)]
    objects = [decoded(texts.pop(), by)]
    gc.collect()
    tracemalloc.start()
    objects += [decoded(text, by) for text in texts]
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert all(isinstance(obj, MetadataObject) for obj in objects)
    assert all(obj.metadata.labels == alike["labels"] for obj in objects)
    assert kept < len(texts) * len(large)  # with a copy for each object, three times as much


def test_a_copy_stands_for_itself() -> None:
    obj = decoded(partial())
    copied = pickle.loads(pickle.dumps(obj))  # noqa: S301 - our own
    assert copied == obj
    assert (copied.raw, type(copied)) == (obj.raw, KubeObject)


def test_nothing_of_it_is_tracked_by_the_garbage_collector() -> None:
    by = codec()
    objects = [decoded(partial(name=f"some-secret-{n}"), by) for n in range(3)]
    assert not any(gc.is_tracked(obj) or gc.is_tracked(obj.metadata) for obj in objects)


def test_bytes_outside_of_the_kept_fields_are_not_stored() -> None:
    name = "web-7d4b9c6f5d-x2x4z"
    head = b'"name":"%s","generateName":"web-7d4b9c6f5d-","namespace":"production",' % name.encode()
    tail = b'"uid":"0123456789","resourceVersion":"7","creationTimestamp":"2026-01-01T00:00:00Z",'
    raw = PARTIAL_HEAD + head + tail + b'"annotations":{}}}'
    meta = ObjectMeta(
        "production", name, "0123456789", "7", creation_timestamp="2026-01-01T00:00:00Z"
    )
    record = MetadataSharer().record("k", meta, None, raw, PARTIAL_OBJECT_METADATA, "")
    kept: bytes = KubeObject.__dict__["raw"].__get__(record)
    assert record.raw == raw
    assert kept == b'"annotations":{}}}'


_TEXTS = st.text(alphabet='ab-"\\{}[]:,\x01\x03\x08é', max_size=12)
_FIELDS = st.fixed_dictionaries(
    {
        "namespace": _TEXTS,
        "name": _TEXTS,
        "uid": _TEXTS,
        "creation_timestamp": st.none() | _TEXTS,
    }
)


@given(
    st.lists(
        st.one_of(
            st.sampled_from([b'"labels":{', b'"ownerReferences":[', b"}", b"]", b"\1", b"\4"]),
            st.just(b'"ownerReferences":["labels":{}]'),
            st.sampled_from([b'"name":"', b'","generateName":"', b'","namespace":"', b'","uid":"']),
            st.sampled_from([b'","resourceVersion":"', b',"creationTimestamp":"', b'",', b"\x0b"]),
            _TEXTS.map(str.encode),
        ),
        max_size=12,
    ),
    _FIELDS,
)
def test_any_text_comes_back_byte_for_byte(parts: list[bytes], fields: dict[str, Any]) -> None:
    name, uid = fields["name"].encode(), fields["uid"].encode()
    usual = b'"name":"%s","namespace":"%s","uid":"%s","resourceVersion":"1"' % (
        name,
        fields["namespace"].encode(),
        uid,
    )
    raw = PARTIAL_HEAD + b"".join([*parts, name, uid, usual, *parts])
    meta = ObjectMeta(
        fields["namespace"],
        fields["name"],
        fields["uid"],
        "1",
        creation_timestamp=fields["creation_timestamp"],
    )
    sharer = MetadataSharer()
    for _ in range(4):  # a text is shared from the second one on, and so is one with it inside
        record = sharer.record("k", meta, None, raw, PARTIAL_OBJECT_METADATA, "")
        assert record.raw == raw
