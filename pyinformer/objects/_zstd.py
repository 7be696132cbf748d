"""The compressor of compact bodies: the package zstandard, or else the standard library's.

Python 3.14 and later have compression.zstd. It cannot use a decompressor twice, so each of its
reads takes 20 to 40 us, against 1.4 us with the package: it is used only without the package.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, final

from pyinformer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    import zstandard

    BytesFunction: TypeAlias = Callable[[bytes], bytes]

_LEVEL: Final = 1  # with a dictionary, level 3 saves 4 % of the bytes for 20 % of the time
_DICTIONARY_BYTES: Final = 64 * 1024
# Given, zstd does not try out others for half a second. With a small table of frequencies (2**16)
# and a fifth of the samples counted a training takes 3 ms, a quarter of what it takes with its own:
# less than a thread for it would cost in care.
_TRAINING: Final = {"k": 1024, "d": 8, "f": 16, "accel": 5, "level": _LEVEL}


class Zstd(Protocol):
    """A compressor with one dictionary, or with none. Frames name no dictionary."""

    error: type[Exception]
    """What its functions raise."""

    def trained_on(self, samples: list[bytes]) -> Zstd:
        """Return one with a dictionary of samples, or without if they are too few."""
        ...

    def compressor(self) -> BytesFunction:
        """Return a function that compresses, with a checksum, in one thread."""
        ...

    def decompressor(self) -> BytesFunction:
        """Return a function that decompresses, one call at a time."""
        ...


@final
class ZstandardPackage:
    """The package zstandard.

    Args:
        package: the module.
        dictionary: what was trained, or None.
    """

    def __init__(
        self, package: ModuleType, dictionary: zstandard.ZstdCompressionDict | None = None
    ) -> None:
        self.error: type[Exception] = package.ZstdError
        self._package = package
        self._dictionary = dictionary

    def trained_on(self, samples: list[bytes]) -> ZstandardPackage:
        """Return one with a dictionary of samples, which zstd trains with given parameters."""
        try:
            dictionary: zstandard.ZstdCompressionDict = self._package.train_dictionary(
                _DICTIONARY_BYTES, samples, **_TRAINING
            )
            dictionary.precompute_compress(level=_LEVEL)
        except self.error:
            return ZstandardPackage(self._package)
        return ZstandardPackage(self._package, dictionary)

    def compressor(self) -> BytesFunction:
        """Return a function that compresses."""
        compressor: zstandard.ZstdCompressor = self._package.ZstdCompressor(
            level=_LEVEL, dict_data=self._dictionary, write_checksum=True, write_dict_id=False
        )
        return compressor.compress

    def decompressor(self) -> BytesFunction:
        """Return the function of a new decompressor, which can be used again."""
        decompressor: zstandard.ZstdDecompressor = self._package.ZstdDecompressor(
            dict_data=self._dictionary
        )
        return decompressor.decompress


@final
class StandardZstd:
    """The standard library's compression.zstd.

    Args:
        module: the module.
        dictionary: a ZstdDict, or None.
    """

    def __init__(self, module: ModuleType, dictionary: object = None) -> None:
        self.error: type[Exception] = module.ZstdError
        self._module = module
        self._dictionary = dictionary

    def trained_on(self, samples: list[bytes]) -> StandardZstd:
        """Return one with a dictionary that contains some of the samples.

        Its training takes a third of a second and no parameters. A dictionary of whole bodies, to
        which only the frequencies of all are added, takes some milliseconds and is as good.
        """
        module = self._module
        stride = 1 + sum(map(len, samples)) // _DICTIONARY_BYTES
        content = b"".join(samples[::stride])[-_DICTIONARY_BYTES:]
        try:
            dictionary = module.finalize_dict(
                module.ZstdDict(content, is_raw=True), samples, _DICTIONARY_BYTES, _LEVEL
            )
        except (self.error, ValueError):  # ValueError: fewer than eight bytes
            return StandardZstd(module)
        return StandardZstd(module, dictionary)

    def compressor(self) -> BytesFunction:
        """Return a function that compresses."""
        parameter = self._module.CompressionParameter
        options = {
            parameter.compression_level: _LEVEL,
            parameter.checksum_flag: 1,
            parameter.dict_id_flag: 0,
        }
        # The compressor digests the dictionary once; it begins a new frame after each that it ends.
        compressor = self._module.ZstdCompressor(options=options, zstd_dict=self._dictionary)
        return partial(compressor.compress, mode=compressor.FLUSH_FRAME)

    def decompressor(self) -> BytesFunction:
        """Return a function that makes a decompressor for each call."""
        return partial(self._module.decompress, zstd_dict=self._dictionary)


def load_zstd() -> Zstd:
    """Import the compressor, without a dictionary.

    Raises:
        InvalidArgumentError: there is none; the text names the command that installs it.
    """
    try:
        import zstandard  # noqa: PLC0415 - optional, and loaded only by programs that use it
    except ImportError:
        return _load_standard()
    return ZstandardPackage(zstandard)


def _load_standard() -> StandardZstd:
    try:
        return StandardZstd(import_module("compression.zstd"))
    except ImportError as error:
        reason = (
            "'compact' needs the package zstandard: pip install 'pyinformer[compact]'"
            " (or Python 3.14 or later with compression.zstd, whose reads are slower)"
        )
        raise InvalidArgumentError("memory", reason) from error


def check_compressor() -> None:
    """Refuse compact bodies where nothing can compress them.

    Raises:
        InvalidArgumentError: there is no compressor; the text names the command that installs it.
    """
    load_zstd()


def has_compressor() -> bool:
    """Return whether compact bodies can be compressed here."""
    try:
        load_zstd()
    except InvalidArgumentError:
        return False
    return True
