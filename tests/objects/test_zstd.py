"""The compressor of compact bodies, with and without the package zstandard."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import InternalError, InvalidArgumentError
from pyinformer.objects import CompactObject, ObjectCodec, check_compressor, has_compressor
from pyinformer.objects._compact import Unpacker
from pyinformer.objects._zstd import StandardZstd, ZstandardPackage, Zstd, load_zstd
from tests.objects.samples import ENOUGH, PODS, pods

if TYPE_CHECKING:
    from collections.abc import Callable


needs_standard_zstd = pytest.mark.skipif(
    sys.version_info < (3, 14), reason="compression.zstd is in Python 3.14 and later"
)


@pytest.fixture(params=["zstandard", pytest.param("compression.zstd", marks=needs_standard_zstd)])
def zstd(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Zstd:
    """Return a compressor, which bodies in the test are compressed by, too."""
    if request.param == "zstandard":
        pytest.importorskip("zstandard", reason="the extra `compact` is not installed")
    else:
        monkeypatch.setitem(sys.modules, "zstandard", None)
    found = load_zstd()
    kind = ZstandardPackage if request.param == "zstandard" else StandardZstd
    assert isinstance(found, kind)
    return found


def test_bodies_that_resemble_the_samples_shrink_to_a_fifth(zstd: Zstd) -> None:
    trained = zstd.trained_on(pods(0, ENOUGH))
    compress, decompress, bodies = trained.compressor(), trained.decompressor(), pods(500, 100)

    packed = [compress(body) for body in bodies]

    assert [decompress(body) for body in packed] == bodies
    assert sum(map(len, packed)) < sum(map(len, bodies)) / 5
    assert sum(map(len, packed)) < sum(map(len, map(zstd.compressor(), bodies))) / 2


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([], id="none"),
        pytest.param([b"x"] * 3, id="seven-bytes-or-less"),
        pytest.param([b"the same in all of them"] * ENOUGH, id="identical"),
        pytest.param([bytes([n]) * 40_000 for n in range(30)], id="large"),
    ],
)
def test_any_samples_make_a_working_compressor(zstd: Zstd, samples: list[bytes]) -> None:
    trained, body = zstd.trained_on(samples), b"y" * 999
    packed = trained.compressor()(body)

    assert packed.startswith(b"\x28\xb5\x2f\xfd")
    assert len(packed) < 99
    assert trained.decompressor()(packed) == body


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda body: body[:-9], id="cut"),
        pytest.param(lambda body: body[:-1] + bytes([body[-1] ^ 1]), id="flipped-checksum"),
        pytest.param(lambda body: body[:40] + bytes([body[40] ^ 64]) + body[41:], id="flipped-bit"),
        pytest.param(lambda body: body[:5], id="nearly-nothing"),
    ],
)
def test_a_damaged_body_is_an_error(zstd: Zstd, harm: Callable[[bytes], bytes]) -> None:
    trained = zstd.trained_on(pods(0, ENOUGH))
    packed = trained.compressor()(pods(700, 1)[0])

    with pytest.raises(zstd.error):
        trained.decompressor()(harm(packed))


def test_a_body_needs_the_dictionary_that_compressed_it(zstd: Zstd) -> None:
    packed = zstd.trained_on(pods(0, ENOUGH)).compressor()(pods(700, 1)[0])

    with pytest.raises(zstd.error):
        zstd.trained_on([body[::-1] for body in pods(0, ENOUGH)]).decompressor()(packed)


def test_objects_read_the_same_with_each_compressor(zstd: Zstd) -> None:
    plain: ObjectCodec[None] = ObjectCodec(PODS)
    codec: ObjectCodec[None] = ObjectCodec(PODS, compact=True)
    texts = pods(0, 2 * ENOUGH)
    found = [codec.decode(text, 0, len(text)) for text in texts]

    assert [obj.raw for obj in found] == [plain.decode(text, 0, len(text)).raw for text in texts]
    last = found[-1]
    assert isinstance(last, CompactObject)
    assert type(last._unpacker._zstd) is type(zstd)


def test_a_damaged_object_is_an_internal_error(zstd: Zstd) -> None:
    codec: ObjectCodec[None] = ObjectCodec(PODS, compact=True)
    (text,) = pods(0, 1)
    usual, body = codec.decode(text, 0, len(text)), zstd.compressor()(b"x" * 99)[:-1]
    damaged: CompactObject[None] = CompactObject(
        usual.key, usual.metadata, None, body, usual.gvk, "", Unpacker(zstd)
    )

    with pytest.raises(InternalError, match="cannot be decompressed"):
        _ = damaged.raw


def test_the_package_is_preferred() -> None:
    pytest.importorskip("zstandard", reason="the extra `compact` is not installed")

    assert isinstance(load_zstd(), ZstandardPackage)
    assert has_compressor()


@needs_standard_zstd
def test_without_the_package_the_standard_library_compresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)

    check_compressor()
    assert isinstance(load_zstd(), StandardZstd)
    assert has_compressor()


def test_without_a_compressor_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("zstandard", "compression.zstd"):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(InvalidArgumentError) as raised:
        check_compressor()

    assert not has_compressor()
    assert str(raised.value) == (
        "memory: 'compact' needs the package zstandard: pip install 'pyinformer[compact]'"
        " (or Python 3.14 or later with compression.zstd, whose reads are slower)"
    )
    assert isinstance(raised.value.__cause__, ImportError)
