"""Bodies that are kept compressed: the memory mode `compact` of one informer.

A record decompresses its body at each read. The dictionary that makes small bodies smaller is
trained on the informer's own objects. Every record refers to the dictionary of its body, so bodies
that were compressed without one or with an earlier one stay readable, from any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast, final

from pyinformer.errors import InternalError
from pyinformer.objects._keys_and_kinds import GroupVersionKind
from pyinformer.objects._meta import ObjectMeta
from pyinformer.objects._object import KubeObject, V, refuse_changes, stored_body
from pyinformer.objects._view import View
from pyinformer.objects._zstd import Zstd, load_zstd

if TYPE_CHECKING:
    from collections.abc import Callable

_SAMPLES = 128  # twice as many make bodies 2 % smaller
_SAMPLES_BYTES = 1024 * 1024  # bounds the time of a training where objects are large
_GROWTH = 16  # each dictionary serves for so many times as many objects as the one before
_LARGE_BYTES = 64 * 1024  # such a body repeats itself enough: it needs and teaches no dictionary
_WORTH_IT = 0.8  # what stays larger than this part of itself is not worth 3 us per read
_PACKED = b"("[0]  # every zstd frame begins with it, and no JSON object does


@final
class Unpacker:
    """Decompresses bodies that were compressed with one dictionary, in any thread.

    A decompressor serves one call at a time: each call takes one from the idle ones and puts it
    back. That needs no lock, so a signal handler or finalizer that reads cannot deadlock.

    Args:
        zstd: the compressor with the dictionary.
    """

    __slots__ = ("_idle", "_zstd", "latest")

    def __init__(self, zstd: Zstd) -> None:
        self._zstd = zstd
        # The first one prepares the shared dictionary, which two threads must not do at once.
        self._idle: list[Callable[[bytes], bytes]] = [zstd.decompressor()]
        self.latest: tuple[bytes, bytes] = (b"", b"")
        """The newest body, compressed and plain: indexes by path read it when it arrives."""

    def unpack(self, body: bytes) -> bytes:
        """Return the text of a body, compressed or not.

        Raises:
            InternalError: it cannot be decompressed.
        """
        packed, plain = self.latest  # one read: the loop replaces it at any moment
        if packed is body:
            return plain
        if body[0] != _PACKED:
            return body
        idle = self._idle
        try:
            decompress = idle.pop()
        except IndexError:
            decompress = self._zstd.decompressor()
        try:
            plain = decompress(body)
        except self._zstd.error as error:
            raise InternalError(f"a cached body cannot be decompressed: {error}") from error
        idle.append(decompress)
        return plain


class CompactObject(KubeObject[V], frozen=True, gc=False, eq=False):  # type: ignore[misc]  # final for others
    """A KubeObject whose body is kept compressed; its content is the same."""

    _unpacker: Unpacker = cast("Unpacker", None)  # always given; `problem` before it has a default

    @property  # type: ignore[misc]  # as read-only as the field
    def raw(self) -> bytes:
        """The JSON text, decompressed at each read; apiVersion and kind are always in it.

        Raises:
            InternalError: the memory that holds it was overwritten.
        """
        # In this order: an early record gets its unpacker first, and the compressed body second.
        body: bytes = stored_body.__get__(self)
        return self._unpacker.unpack(body)


refuse_changes(CompactObject)
_unpacker: Final[Any] = CompactObject.__dict__["_unpacker"]


@final
class BodyPacker:
    """Creates the records of one informer, and trains dictionaries on its objects.

    The first objects stay uncompressed until there are enough for a training: at most 128 objects
    or 1 MiB. The second dictionary is trained some 2,000 objects later, each further one after 16
    times as many: lists are ordered by name, so the first objects may differ from the rest. Records
    are created in one thread.

    Raises:
        InvalidArgumentError: nothing is installed that compresses.
    """

    def __init__(self) -> None:
        self._zstd = load_zstd()
        self._early: dict[str, KubeObject[Any]] | None = {}
        self._samples: dict[str, bytes] = {}
        self._samples_bytes = 0
        self._stride = self._until_sample = 1
        self.trainings: int = 0
        """How many dictionaries were trained."""
        self._use(self._zstd)

    def record(  # noqa: PLR0917 - called in the place of KubeObject, for every object
        self,
        key: str,
        metadata: ObjectMeta,
        view: View | None,
        raw: bytes,
        gvk: GroupVersionKind,
        problem: str,
    ) -> KubeObject[Any]:
        """Return the record of an object; the arguments are those of KubeObject."""
        unpacker = self._unpacker
        if self._early is not None and len(raw) <= _LARGE_BYTES:
            early = self._early[key] = CompactObject(
                key, metadata, view, raw, gvk, problem, unpacker
            )
            self._sample(key, raw)
            return early
        body = self._pack(raw)
        if body is not raw:
            unpacker.latest = (body, raw)
        self._until_sample -= 1
        if self._until_sample <= 0:
            self._sample(key, raw)
        return CompactObject(key, metadata, view, body, gvk, problem, unpacker)

    def _pack(self, raw: bytes) -> bytes:
        packed = self._compress(raw)
        if len(packed) > len(raw) * _WORTH_IT:
            return raw
        return bytes(memoryview(packed))  # it was made with room for the worst case, and keeps it

    def _sample(self, key: str, raw: bytes) -> None:
        """Keep a body for the next training; one of each object, or a busy one would dominate."""
        self._until_sample = self._stride
        if len(raw) > _LARGE_BYTES:
            return
        self._samples_bytes += len(raw) - len(self._samples.get(key, b""))
        self._samples[key] = raw
        if len(self._samples) >= _SAMPLES or self._samples_bytes >= _SAMPLES_BYTES:
            self._learn()

    def _learn(self) -> None:
        samples, early = list(self._samples.values()), self._early
        self._samples, self._samples_bytes, self._early = {}, 0, None
        self._stride = self._until_sample = self._stride * _GROWTH
        self.trainings += 1
        self._use(self._zstd.trained_on(samples))
        for obj in () if early is None else early.values():
            _unpacker.__set__(obj, self._unpacker)
            stored_body.__set__(obj, self._pack(stored_body.__get__(obj)))

    def _use(self, zstd: Zstd) -> None:
        self._compress = zstd.compressor()
        self._unpacker = Unpacker(zstd)
