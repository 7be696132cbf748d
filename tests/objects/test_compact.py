"""Compressed bodies: the same objects in less memory, whatever the samples were."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import random
import string
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyinformer.errors import FrozenObjectError, InternalError, InvalidObjectError
from pyinformer.objects import (
    CompactObject,
    JSONObject,
    KubeObject,
    MetadataReader,
    ObjectCodec,
    View,
    diff,
)
from pyinformer.objects._compact import BodyPacker
from tests.objects.samples import ENOUGH, POD, PODS, decode, pods, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def compact(**options: Any) -> ObjectCodec[Any]:
    """Return a codec that has learned from pods."""
    codec: ObjectCodec[Any] = ObjectCodec(PODS, compact=True, **options)
    for text in pods(0, ENOUGH):
        codec.decode(text, 0, len(text))
    return codec


def kept(obj: KubeObject[Any]) -> bytes:
    """Return the bytes that a record holds."""
    found: bytes = KubeObject.__dict__["raw"].__get__(obj)
    return found


def is_packed(obj: KubeObject[Any]) -> bool:
    """Return whether a record's body is compressed."""
    return kept(obj).startswith(b"\x28\xb5\x2f\xfd")


def overwrite(obj: KubeObject[Any], body: bytes) -> None:
    """Do what faulty memory does."""
    KubeObject.__dict__["raw"].__set__(obj, body)


def named(number: int, **rest: Any) -> JSONObject:
    """Return a small pod."""
    meta = {"name": f"p{number}", "uid": f"u{number}", "resourceVersion": "1"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, **rest}


class SpecView(View):
    """One field of the spec."""

    node_name: str = ""


class PodView(View):
    """A projection."""

    spec: SpecView = SpecView()


def test_bodies_shrink_and_read_the_same() -> None:
    plain: ObjectCodec[Any] = ObjectCodec(PODS)
    codec, texts = compact(), pods(500, 300)
    packed = [codec.decode(text, 0, len(text)) for text in texts]
    usual = [plain.decode(text, 0, len(text)) for text in texts]

    assert [obj.raw for obj in packed] == [obj.raw for obj in usual]
    assert [obj.to_dict() for obj in packed] == [obj.to_dict() for obj in usual]
    assert sum(len(kept(obj)) for obj in packed) < sum(len(obj.raw) for obj in usual) / 5


def test_the_objects_before_the_first_dictionary_are_packed_with_it() -> None:
    codec: ObjectCodec[Any] = ObjectCodec(PODS, compact=True)
    texts = pods(0, ENOUGH)
    before = [codec.decode(text, 0, len(text)) for text in texts[:-1]]
    bodies = [obj.raw for obj in before]
    assert not any(map(is_packed, before))

    codec.decode(texts[-1], 0, len(texts[-1]))

    assert all(map(is_packed, before))
    assert [obj.raw for obj in before] == bodies


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=30,
)
_LEARNED, _LEARNING = compact(), ObjectCodec[Any](PODS, compact=True)
_USUAL: ObjectCodec[Any] = ObjectCodec(PODS)


@settings(deadline=None)  # busy machines
@given(
    body=st.dictionaries(st.text(), _JSON, max_size=5),
    name=st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    times=st.integers(1, 40),
    indent=st.sampled_from([None, 1]),
)
def test_any_object_reads_back_byte_for_byte(
    body: JSONObject, name: str, times: int, indent: int | None
) -> None:
    meta = {"name": name, "managedFields": [{"manager": "m"}], "annotations": {"a": name * times}}
    whole = {"kind": "Pod", "apiVersion": "v1", "metadata": meta}
    whole |= {field: value for field, value in body.items() if field not in whole}
    text = json.dumps(whole, ensure_ascii=False, indent=indent).encode(errors="replace")
    usual = decode(_USUAL, text)

    for codec in (_LEARNED, _LEARNING):
        obj = decode(codec, text)
        assert obj.raw == usual.raw  # at once, and out of what is kept
        decode(codec, POD)
        assert obj.raw == usual.raw
        assert (obj.metadata, obj.key, obj.gvk, obj.problem) == (
            usual.metadata,
            usual.key,
            usual.gvk,
            usual.problem,
        )


def test_a_body_that_does_not_shrink_is_kept_uncompressed() -> None:
    digits = random.Random(1).randbytes(3_000).hex()  # four bits each: half of the bytes
    printable = string.ascii_letters + string.digits + "!#$%&'()*+,-./:;<=>?@[]^_`{|}~ "
    text = "".join(random.Random(2).choices(printable, k=3_000))  # 6.6 bits of each 8
    codec = compact()

    assert is_packed(decode(codec, named(1, spec={"nodeName": digits})))
    stays = decode(codec, named(2, spec={"nodeName": text}))
    decode(codec, POD)
    assert not is_packed(stays)
    assert stays.to_dict()["spec"]["nodeName"] == text


def _identical(number: int) -> JSONObject:
    del number
    return named(0, spec={"nodeName": "n"})


def _same_but_for_the_name(number: int) -> JSONObject:
    return named(number)


def _tiny(number: int) -> JSONObject:
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": str(number)}}


def _huge(number: int) -> JSONObject:
    return named(number, spec={"args": [f"{number}-{one}" for one in range(20_000)]})


def _half_a_limit(number: int) -> JSONObject:
    return named(number, spec={"args": [f"{number}-{one}" for one in range(4_000)]})


def _noise(number: int) -> JSONObject:
    return named(number, spec={"nodeName": random.Random(number).randbytes(2_000).hex()})


def _empty_after_huge(number: int) -> JSONObject:
    return _huge(number) if number < 3 else named(number)


@pytest.mark.parametrize(
    "make", [_identical, _same_but_for_the_name, _tiny, _huge, _half_a_limit, _noise]
)
@pytest.mark.parametrize("count", [1, 7, ENOUGH - 1, ENOUGH, ENOUGH + 30])
@pytest.mark.exhaustive
def test_every_object_can_be_read_whatever_the_dictionary_was_trained_with(
    make: Callable[[int], JSONObject], count: int
) -> None:
    codec: ObjectCodec[Any] = ObjectCodec(PODS, compact=True)
    usual: ObjectCodec[Any] = ObjectCodec(PODS)
    count = min(count, 30) if make is _huge else count
    packed = [decode(codec, make(number)) for number in range(count)]

    for number in range(count):
        assert packed[number].raw == decode(usual, make(number)).raw


def test_large_objects_are_packed_at_once_and_do_not_delay_the_training() -> None:
    codec: ObjectCodec[Any] = ObjectCodec(PODS, compact=True)
    large = [decode(codec, _empty_after_huge(number)) for number in range(3)]
    assert all(map(is_packed, large))

    small = [decode(codec, _empty_after_huge(number)) for number in range(3, ENOUGH + 3)]

    assert is_packed(small[0])
    assert [json.loads(obj.raw)["metadata"]["name"] for obj in large] == ["p0", "p1", "p2"]


def test_the_training_of_a_dictionary_is_bounded_in_bytes() -> None:
    """Some thirty objects of 40 KB are enough for a training."""
    codec: ObjectCodec[Any] = ObjectCodec(PODS, compact=True)
    made = [decode(codec, _half_a_limit(number)) for number in range(40)]

    assert all(map(is_packed, made))


def _feed(packer: BodyPacker, texts: list[bytes]) -> list[KubeObject[Any]]:
    usual: ObjectCodec[None] = ObjectCodec(PODS)
    found = [usual.decode(text, 0, len(text)) for text in texts]
    return [
        packer.record(obj.key, obj.metadata, None, obj.raw, obj.gvk, obj.problem) for obj in found
    ]


def test_dictionaries_are_trained_again_at_growing_intervals() -> None:
    packer = BodyPacker()
    _feed(packer, pods(0, ENOUGH))
    first = packer.trainings
    records = _feed(packer, pods(ENOUGH, 2_100))

    assert (first, packer.trainings) == (1, 2)
    assert len({id(obj._unpacker) for obj in records if isinstance(obj, CompactObject)}) == 2
    usual = _feed(BodyPacker(), pods(ENOUGH, 100))
    assert [obj.raw for obj in records[:100]] == [obj.raw for obj in usual]


def test_a_dictionary_is_not_trained_from_updates_of_one_object() -> None:
    packer = BodyPacker()
    (text,) = pods(0, 1)
    newest = [_feed(packer, [text])[0] for _ in range(3 * ENOUGH)][-1]

    assert packer.trainings == 0
    gc.collect()
    assert list(packer._early or ()) == [newest.key]


def test_dictionaries_belong_to_one_informer() -> None:
    one, other = compact(), ObjectCodec[Any](PODS, compact=True)
    for number in range(ENOUGH):
        decode(other, _noise(number))
    (text,) = pods(1_000, 1)
    ours, theirs = one.decode(text, 0, len(text)), decode(other, _noise(1_000))
    overwrite(theirs, kept(ours))

    with pytest.raises(InternalError):
        theirs.raw  # noqa: B018 - the access is the test


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda body: body[:-9], id="cut"),
        pytest.param(lambda body: body[:-1] + bytes([body[-1] ^ 1]), id="flipped-checksum"),
        pytest.param(lambda body: body[:40] + bytes([body[40] ^ 64]) + body[41:], id="flipped-bit"),
        pytest.param(lambda body: body[:5], id="nearly-nothing"),
    ],
)
@pytest.mark.parametrize("read", ["raw", "to_dict", "annotations"])
def test_a_body_that_memory_has_lost_is_an_internal_error(
    harm: Callable[[bytes], bytes], read: str
) -> None:
    (text,) = pods(700, 1)
    obj = compact().decode(text, 0, len(text))
    overwrite(obj, harm(kept(obj)))

    with pytest.raises(InternalError, match=r"cannot be decompressed.*please report"):
        obj.to_dict() if read == "to_dict" else getattr(obj, read)


def test_the_newest_body_is_read_without_unpacking() -> None:
    """Indexes by path read each object as it arrives."""
    codec = compact()
    first, second = (codec.decode(text, 0, len(text)) for text in pods(800, 2))

    assert second.raw is second.raw
    assert first.raw is not first.raw


def test_a_compact_object_is_the_same_object() -> None:
    (text,) = pods(900, 1)
    usual = decode(ObjectCodec(PODS, view=PodView), text)
    codec = compact(view=PodView)
    obj = decode(codec, text)
    decode(codec, POD)  # it is no longer the newest

    assert isinstance(obj, KubeObject)
    assert (obj, hash(obj), repr(obj)) == (usual, hash(usual), repr(usual))
    assert (obj.view, obj.metadata, obj.annotations) == (
        usual.view,
        usual.metadata,
        usual.annotations,
    )
    assert obj.at("spec.nodeName", str) == usual.view.spec.node_name
    assert obj.as_type(dict) == usual.to_dict()
    assert obj.same_content(usual)
    assert usual.same_content(obj)
    assert diff(obj, usual) == ()
    assert not gc.is_tracked(obj)


@pytest.mark.parametrize(
    "clone",
    [
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(lambda value: pickle.loads(pickle.dumps(value)), id="pickle"),  # noqa: S301
    ],
)
def test_compact_objects_copy_and_pickle_whole(clone: Callable[[Any], Any]) -> None:
    (text,) = pods(901, 1)
    obj = compact(view=PodView).decode(text, 0, len(text))
    found = clone(obj)

    assert found == obj
    assert (found.raw, found.metadata, found.view) == (obj.raw, obj.metadata, obj.view)


def _assign(obj: Any) -> None:
    obj.raw = b""


def _delete(obj: Any) -> None:
    del obj.raw


@pytest.mark.parametrize(
    "attempt", [_assign, _delete, lambda obj: obj["spec"], lambda obj: obj.spec]
)
def test_a_compact_object_cannot_be_changed_either(attempt: Callable[[Any], object]) -> None:
    obj = decode(compact(), POD)
    with pytest.raises(FrozenObjectError):
        attempt(obj)
    assert obj.to_dict()["metadata"]["name"] == "web"


def test_problems_and_transforms_are_kept_as_in_other_modes() -> None:
    def lose_spec(body: JSONObject) -> JSONObject:
        del body["spec"]
        return body

    transformed = decode(compact(transform=lose_spec), POD)
    misfit = decode(compact(view=PodView), {**POD, "spec": {"nodeName": 5}})

    assert "spec" not in transformed.to_dict()
    assert "nodeName" in misfit.problem
    assert misfit.at("spec.nodeName") == 5
    with pytest.raises(InvalidObjectError):
        misfit.view  # noqa: B018 - the access is the test


@pytest.fixture
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_switch_often")
def test_threads_read_one_object_at_once_and_while_others_are_packed() -> None:
    """Two of them read what a third one makes, from before the first dictionary on."""
    plain: ObjectCodec[Any] = ObjectCodec(PODS)
    texts = pods(0, 2_600)
    wanted = [plain.decode(text, 0, len(text)).raw for text in texts]
    made: list[KubeObject[Any]] = []
    wrong: list[object] = []
    is_over = threading.Event()

    def read(seed: int) -> None:
        chance = random.Random(seed)
        while not is_over.is_set() and not wrong:
            if not made:
                continue
            # Mostly the same few: they are what two threads unpack at one time.
            last = len(made) - 1
            number = chance.choice([0, min(3, last), last, chance.randint(0, last)])
            try:
                if made[number].raw != wanted[number]:
                    wrong.append(number)
            except InternalError as error:
                wrong.append(error)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(2)]
    for reader in readers:
        reader.start()
    codec: ObjectCodec[Any] = ObjectCodec(PODS, compact=True)
    for text in texts:  # one by one: each is read as soon as it is made
        made += (codec.decode(text, 0, len(text)),)
    is_over.set()
    for reader in readers:
        reader.join()

    assert wrong == []
    assert [obj.raw for obj in made] == wanted


def test_an_object_over_the_limit_keeps_its_metadata() -> None:
    text = text_of(named(1, spec={"args": ["x" * 100] * 100}))
    reader = MetadataReader()
    reader.feed(text)
    head = compact().decode_head(reader.head(), len(text))

    assert head.to_dict()["metadata"]["name"] == "p1"
    assert "over the limit" in head.problem
