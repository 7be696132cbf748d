"""What the stations work on: pods of the benchmarks' generator, and updates of each of them.

The same number gives the same bytes; resource versions rise and are of one length, as a guard on
the quick way expects it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.data.pods import PodGenerator
from pyinformer import KubeObject, View
from pyinformer.objects import GroupVersionResource, ObjectCodec, Updated

PODS = GroupVersionResource("", "v1", "pods")

_FIRST_VERSION = 1_000_000
_FIRST_UPDATE = 2_000_000
_HEAD, _TAIL = b'{"type":"MODIFIED","object":', b"}\n"


class PodSpec(View):
    """What the node index reads."""

    node_name: str = ""


class PodStatus(View):
    """A second field of the view."""

    phase: str = ""


class PodView(View):
    """The projection that the larger benchmarks use, too."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


@dataclass(frozen=True)
class Material:
    """Pods, and one update of each."""

    pods: int

    @functools.cached_property
    def bodies(self) -> list[bytes]:
        """The pods as JSON."""
        return self._rendered(_FIRST_VERSION, revision=0)

    @functools.cached_property
    def updates(self) -> list[bytes]:
        """The pods as JSON, later."""
        return self._rendered(_FIRST_UPDATE, revision=1)

    @functools.cached_property
    def lines(self) -> list[bytes]:
        """The updates as lines of a watch, line ends included."""
        return [_HEAD + body + _TAIL for body in self.updates]

    @functools.cached_property
    def objects(self) -> list[KubeObject[PodView]]:
        """The pods as they are cached."""
        return _decoded(self.bodies)

    @functools.cached_property
    def events(self) -> list[Updated[PodView]]:
        """The updates as events for a cache that has the pods."""
        return [
            Updated(old, new) for old, new in zip(self.objects, _decoded(self.updates), strict=True)
        ]

    def _rendered(self, version: int, *, revision: int) -> list[bytes]:
        generator = PodGenerator(self.pods)
        return [
            generator.pod(number, resource_version=version + number, revision=revision)
            for number in range(self.pods)
        ]


def codec(*, strip_managed_fields: bool = True) -> ObjectCodec[PodView]:
    """Make the codec of an informer with the projection."""
    return ObjectCodec(PODS, view=PodView, strip_managed_fields=strip_managed_fields)


def settled(decode: Callable[[bytes, int, int], object], bodies: list[bytes]) -> None:
    """Let a codec learn the shape that the objects have, from one of them."""
    decode(bodies[0], 0, len(bodies[0]))


def _decoded(bodies: list[bytes]) -> list[KubeObject[PodView]]:
    decode = codec().decode
    return [decode(body, 0, len(body)) for body in bodies]
