"""Bodies that are kept compressed: the memory mode `compact` of one informer.

A record decompresses its body at each read. The dictionary that makes small bodies smaller is
trained on the informer's own objects. Every record refers to the dictionary of its body, so bodies
that were compressed without one or with an earlier one stay readable, from any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast, final

from pyinformer.apimachinery._keys import GroupVersionKind
from pyinformer.apimachinery._meta import ObjectMeta
from pyinformer.apimachinery._object import KubeObject, V, refuse_changes, stored_body
from pyinformer.apimachinery._view import View
from pyinformer.errors import InternalError, InvalidArgumentError

if TYPE_CHECKING:
    from types import ModuleType

    import zstandard

_LEVEL = 1  # with a dictionary, level 3 saves 4 % of the bytes for 20 % of the time
_SAMPLES = 128  # twice as many make bodies 2 % smaller
_SAMPLES_BYTES = 1024 * 1024  # bounds the time of a training where objects are large
_DICTIONARY_BYTES = 64 * 1024
# Given, zstd does not try out others for half a second. With a small table of frequencies (2**16)
# and a fifth of the samples counted a training takes 3 ms, a quarter of what it takes with its own:
# less than a thread for it would cost in care.
_TRAINING = {"k": 1024, "d": 8, "f": 16, "accel": 5, "level": _LEVEL}
_GROWTH = 16  # each dictionary serves for so many times as many objects as the one before
_LARGE_BYTES = 64 * 1024  # such a body repeats itself enough: it needs and teaches no dictionary
_WORTH_IT = 0.8  # what stays larger than this part of itself is not worth 3 us per read
_PACKED = b"("[0]  # every zstd frame begins with it, and no JSON object does


def load_zstandard() -> ModuleType:
    """Import the package that compresses.

    Raises:
        InvalidArgumentError: it is not installed; the text names the command that installs it.
    """
    try:
        import zstandard  # noqa: PLC0415 - optional, and loaded only by programs that use it
    except ImportError as error:
        reason = "'compact' needs the package zstandard: pip install 'pyinformer[compact]'"
        raise InvalidArgumentError("memory", reason) from error
    return zstandard


@final
class Unpacker:
    """Decompresses bodies that were compressed with one dictionary, in any thread.

    A decompressor serves one call at a time: each call takes one from the idle ones and puts it
    back. That needs no lock, so a signal handler or finalizer that reads cannot deadlock.

    Args:
        package: zstandard.
        dictionary: what was trained, or None.
    """

    __slots__ = ("_dictionary", "_idle", "_package", "latest")

    def __init__(
        self, package: ModuleType, dictionary: zstandard.ZstdCompressionDict | None
    ) -> None:
        self._package = package
        self._dictionary = dictionary
        # The first one prepares the shared dictionary, which two threads must not do at once.
        self._idle: list[zstandard.ZstdDecompressor] = [
            package.ZstdDecompressor(dict_data=dictionary)
        ]
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
            decompressor = idle.pop()
        except IndexError:
            decompressor = self._package.ZstdDecompressor(dict_data=self._dictionary)
        try:
            plain = decompressor.decompress(body)
        except self._package.ZstdError as error:
            raise InternalError(f"a cached body cannot be decompressed: {error}") from error
        idle.append(decompressor)
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
        InvalidArgumentError: the package zstandard is not installed.
    """

    def __init__(self) -> None:
        self._package = load_zstandard()
        self._early: dict[str, KubeObject[Any]] | None = {}
        self._samples: dict[str, bytes] = {}
        self._samples_bytes = 0
        self._stride = self._until_sample = 1
        self.trainings: int = 0
        """How many dictionaries were trained."""
        self._use(None)

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
        self._use(self._train(samples))
        for obj in () if early is None else early.values():
            _unpacker.__set__(obj, self._unpacker)
            stored_body.__set__(obj, self._pack(stored_body.__get__(obj)))

    def _train(self, samples: list[bytes]) -> zstandard.ZstdCompressionDict | None:
        """Return a dictionary; None if the samples are too few or too different."""
        try:
            dictionary: zstandard.ZstdCompressionDict = self._package.train_dictionary(
                _DICTIONARY_BYTES, samples, **_TRAINING
            )
            dictionary.precompute_compress(level=_LEVEL)
        except self._package.ZstdError:
            return None
        return dictionary

    def _use(self, dictionary: zstandard.ZstdCompressionDict | None) -> None:
        package = self._package
        self._compress = package.ZstdCompressor(
            level=_LEVEL, dict_data=dictionary, write_checksum=True, write_dict_id=False
        ).compress
        self._unpacker = Unpacker(package, dictionary)
