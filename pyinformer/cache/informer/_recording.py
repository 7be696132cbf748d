"""A recording of an informer: begun and ended while it runs, or before it starts.

The informer is not disturbed: nothing is requested from the server, a file that cannot be written
ends only the recording, and without a recording nothing is called per event.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, final

import anyio
import anyio.lowlevel
from anyio import to_thread

from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.tasks import run_shielded, wait_shielded
from pyinformer._version import __version__
from pyinformer.cache.informer._settings import DEFAULT_MAX_BYTES
from pyinformer.cache.recording import (
    FORMAT_VERSION,
    Header,
    Mask,
    RecordedMassDelete,
    RecordedOptions,
    RecordedShard,
    Recorder,
    RecordingStatistics,
    RecordingWriter,
    Tap,
)
from pyinformer.cache.reflector import ReflectorOptions
from pyinformer.errors import InvalidArgumentError, InvalidTypeError, LifecycleError
from pyinformer.objects import check_integer, check_iterable

if TYPE_CHECKING:
    from pyinformer.cache.informer._informer_parts import InformerCore
    from pyinformer.cache.reflector import Reflector
    from pyinformer.client.transport import ConnectionProtocol
    from pyinformer.objects import KubeObject

_LEAST_BYTES: Final = 1 << 20
_CLOSE_SECONDS: Final = 10.0


@final
class Recording:
    """Records an informer: `async with pods.record("incident.jsonl") as recording`.

    Made by `SharedInformer.record`.

    Args:
        core: the informer.
        path: the file.
        max_bytes: how much the files of the recording may have together.
        redact: further kinds of which only metadata is kept.

    Raises:
        InvalidArgumentError: the path names no file, max_bytes is too small, or a kind is not a
            name.
        InvalidTypeError: an argument is of another type.
    """

    def __init__(
        self,
        core: InformerCore[Any],
        path: str | PathLike[str],
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        redact: str | Iterable[str] = (),
    ) -> None:
        check_integer("max_bytes", max_bytes, least=_LEAST_BYTES)
        kinds = _kinds(redact)
        self._core = core
        self._mask = Mask(core.caches.scope.resource, kinds)
        self._writer = RecordingWriter(_file(path), self._mask, max_bytes=max_bytes)
        self._recorder = Recorder(self._writer, self._header)
        self._taps: dict[int, tuple[Reflector[Any], Tap]] = {}
        self._began_at = 0.0
        self._was_begun = False

    def status(self) -> RecordingStatistics:
        """Return what was written so far, and why nothing is written any more; from any thread."""
        return self._writer.statistics()

    async def __aenter__(self) -> Self:
        """Create the file and begin.

        Raises:
            RecordingFileError: the file exists, or cannot be created.
            LifecycleError: the informer is closed, runs in another loop, or is recorded already.

        Cancellation:
            Nothing is recorded; the file may exist.
        """
        self._core.lifecycle.check_usable()
        if self._was_begun:
            raise LifecycleError("a recording is begun once: call record() again")
        if self._core.on_caches_changed is not None:
            name = self._core.caches.name
            raise LifecycleError(f"the informer of {name} is recorded already")
        self._was_begun = True
        self._began_at = wall_time()
        self._core.on_caches_changed = self._on_caches_changed
        try:
            creating = to_thread.run_sync(self._recorder.create)
            await run_shielded("the start of a recording", creating)
            self._recorder.begin_recording()
            self._on_caches_changed()
            await anyio.lowlevel.checkpoint_if_cancelled()
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the recording; what was received is written.

        Cancellation:
            Shielded, for at most ten seconds.
        """
        self._end()
        loop = asyncio.get_running_loop()
        written = loop.run_in_executor(None, self._writer.join, _CLOSE_SECONDS)
        await wait_shielded(written, _CLOSE_SECONDS)

    def _on_caches_changed(self) -> None:
        """Record the caches of all namespaces that are followed."""
        caches = self._core.caches
        if not self._recorder.is_open:
            return
        if self._taps:
            named = None if caches.namespaces is None else sorted(caches.namespaces)
            self._recorder.note({"namespaces": named})
        followed = {id(cache.reflector): cache.reflector for cache in caches.all}
        for number in self._taps.keys() - followed.keys():
            reflector, tap = self._taps.pop(number)
            reflector.use_tap(None)
            self._recorder.detach(tap)
        for number, reflector in followed.items():
            if number not in self._taps:
                tap = self._recorder.attach(_RecordedReflector(reflector))
                self._taps[number] = reflector, tap
                reflector.use_tap(tap)

    def _end(self) -> None:
        self._core.on_caches_changed = None
        for reflector, _ in self._taps.values():
            reflector.use_tap(None)
        self._taps.clear()
        self._recorder.close()

    def _header(self, number: int) -> Header:
        core, scope = self._core, self._core.caches.scope
        namespaces, share = core.caches.namespaces, scope.uid_range
        return Header(
            pyinformer_recording=FORMAT_VERSION,
            pyinformer=__version__,
            started_at=datetime.fromtimestamp(self._began_at, tz=UTC).isoformat(),
            api_version=scope.resource.api_version,
            plural=scope.resource.resource,
            namespaces=None if namespaces is None else sorted(namespaces),
            label_selector=str(scope.label_selector),
            field_selector=str(scope.field_selector),
            shard=None if share is None else RecordedShard(index=share.index, total=share.total),
            memory=core.context.settings.memory,
            has_transform=core.context.settings.transform is not None,
            options=_recorded(core.context.options or ReflectorOptions()),
            redacted=self._mask.hidden,
            file_number=number,
        )


def _recorded(options: ReflectorOptions) -> RecordedOptions:
    silence, confirmed = options.silence_seconds, options.mass_delete
    return RecordedOptions(
        use_watch_list=options.use_watch_list,
        page_size=options.page_size,
        consistency=options.consistency,
        watch_timeout_seconds=options.watch_timeout_seconds,
        silence_seconds=None if silence == math.inf else silence,
        order=options.order,
        poll_seconds=options.poll_seconds,
        mass_delete=None if confirmed is None else RecordedMassDelete(**asdict(confirmed)),
    )


def _file(path: str | PathLike[str]) -> Path:
    if not isinstance(path, str | PathLike):
        raise InvalidTypeError("path", f"must be a path, got {type(path).__name__}")
    found = Path(path)
    if not found.name or "\0" in found.name:
        raise InvalidArgumentError("path", f"must name a file, got {str(path)!r}")
    return found.absolute()  # it is renamed and opened again, whatever the folder is by then


def _kinds(redact: str | Iterable[str]) -> Sequence[str]:
    if not isinstance(redact, str):
        check_iterable("redact", redact, shown="a kind or several")
    kinds = [redact] if isinstance(redact, str) else list(redact)
    for kind in kinds:
        if not (isinstance(kind, str) and kind.isalnum() and kind[0].isupper()):
            reason = f"must be kinds such as 'ConfigMap', not resources; got {kind!r}"
            raise InvalidArgumentError("redact", reason)
    return kinds


@final
class _RecordedReflector:
    """A reflector, as its recorder sees it."""

    def __init__(self, reflector: Reflector[Any]) -> None:
        self._reflector = reflector

    @property
    def path(self) -> str:
        """The path of its lists and watches."""
        return self._reflector.list_watch.path

    @property
    def is_loading(self) -> bool:
        """Whether a load is in progress."""
        return self._reflector.is_loading

    @property
    def position(self) -> str:
        """The resource version up to which every change is in its sink."""
        return self._reflector.position

    @property
    def connection(self) -> ConnectionProtocol:
        """The connection that its next requests use."""
        return self._reflector.list_watch.connection

    def use_connection(self, connection: ConnectionProtocol) -> None:
        """Send the next requests through another connection."""
        self._reflector.list_watch.connection = connection

    def contents(self) -> Sequence[KubeObject[Any]]:
        """Return everything in its sink."""
        return self._reflector.contents()
