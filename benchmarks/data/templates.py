"""Any number of pods made of some thousand rendered ones, by exchanging what identifies them.

Each part of an identity is as long as its marker, so that no length that stands before it changes;
names, uids and resource versions are unique.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import itemgetter
from typing import TypeAlias

from benchmarks.data.kinds import PODS, Sizes, measure_sizes
from benchmarks.data.pods import PodGenerator

Identity: TypeAlias = "tuple[bytes, bytes, bytes, bytes, bytes, bytes]"
"""Ordinal, begin of the uid, resource version, address, and node as in names and in addresses."""

MARKERS: Identity = (b"@" * 5, b"#" * 8, b"!" * 7, b"$" * 14, b"~" * 7, b"^" * 7)

MAX_RESOURCE_VERSION = 9_999_999
"""The largest that fits."""

_ANY_MARKER = re.compile(b"(" + b"|".join(map(re.escape, MARKERS)) + b")")
_FIRST_ORDINAL = 10_000
_SPREAD = 2_654_435_761  # odd, so that each index below 2^32 has a number of its own
_PODS_PER_NODE = 100
_MAX_NODES = 10_000
_OCTETS = 156  # from 100 to 255, three digits each


class Template:
    """A rendered object, split at the positions of its identity."""

    __slots__ = ("_parts", "_pick", "length")

    def __init__(self, marked: bytes) -> None:
        """Cut at the markers."""
        self._parts = _ANY_MARKER.split(marked)
        places = [MARKERS.index(marker) for marker in self._parts[1::2]]
        self._pick: Callable[[Identity], tuple[bytes, ...]] = itemgetter(*places)
        self.length = len(marked)

    def filled(self, identity: Identity) -> bytes:
        """Put an identity in."""
        parts = self._parts.copy()  # a list of one's own: several threads fill the same template
        parts[1::2] = self._pick(identity)
        return b"".join(parts)


class TemplatePods:
    """The pods of a synthetic cluster of any size: `templates` different ones, again and again."""

    kind = PODS

    def __init__(self, objects: int, *, seed: int = 0, templates: int = 20_000) -> None:
        """Lay out the cluster.

        Args:
            objects: how many pods it has, numbered from 0.
            seed: another seed gives other pods.
            templates: how many pods are rendered; later ones differ from them in name, uid,
                resource version, addresses and node.
        """
        self.objects = objects
        self.templates = min(objects, templates)
        self._generator = PodGenerator(objects, seed=seed)
        self._per_workload = -(-self.templates // self._generator.workloads)
        self._nodes = min(_MAX_NODES, max(10, objects // _PODS_PER_NODE))

    def marked(self, number: int, *, revision: int = 0) -> bytes:
        """Render a template in JSON, with markers."""
        body = self._generator.pod(number, resource_version=1, revision=revision)
        found = _IDENTITY.search(body)
        address = _ADDRESS.search(body)
        assert found is not None
        assert address is not None
        prefix, name, is_stateful = found["prefix"], found["name"], _POD_INDEX.search(body)
        random = b"" if is_stateful else name[len(prefix) : len(prefix) + 5]
        ordinal, uid, version, own_address, node, host = MARKERS
        body = body.replace(b'"%s"' % name, b'"%s%s%s"' % (prefix, random, ordinal))
        body = _HOST.sub(rb"\g<1>" + host, body)
        body = body.replace(address[1], own_address)
        for pattern, marker in ((_UID, uid), (_VERSION, version), (_NODE, node)):
            body = pattern.sub(rb"\g<1>" + marker, body, count=1)
        return _POD_INDEX.sub(rb"\g<1>" + ordinal, body)

    def identity(self, index: int, *, resource_version: int) -> Identity:
        """Return what replaces the markers in template `index % templates`."""
        turn, template = divmod(index, self.templates)
        ordinal = turn * self._per_workload + template // self._generator.workloads
        node = (index + turn) * 7_919 % self._nodes
        above, low = divmod(index, _OCTETS)
        rack, place = 100 + node // 100, 100 + node % 100
        return (
            b"%05d" % (_FIRST_ORDINAL + ordinal),
            b"%08x" % (index * _SPREAD & 0xFFFF_FFFF),
            b"%07d" % resource_version,
            b"10.%d.%d.%d" % (100 + above // _OCTETS % _OCTETS, 100 + above % _OCTETS, 100 + low),
            b"%d-%d" % (rack, place),
            b"%d.%d" % (rack, place),
        )

    def object(self, index: int, *, resource_version: int, revision: int = 0) -> bytes:
        """Render pod `index`; `Template` does the same faster, for many."""
        marked = self.marked(index % self.templates, revision=revision)
        return Template(marked).filled(self.identity(index, resource_version=resource_version))

    def sizes(self, objects: int, *, sample: int = 500) -> Sizes:
        """Measure `sample` pods, spread over the first `objects`."""
        workloads = min(self.templates, self._generator.workloads)
        return measure_sizes(self, objects, sample=sample, workloads=workloads)


_IDENTITY = re.compile(rb'"name":"(?P<name>[^"]*)","generateName":"(?P<prefix>[^"]*)"')
_ADDRESS = re.compile(rb'"podIP":"([^"]*)"')
_POD_INDEX = re.compile(rb'(pod-index":")\d+')
_UID = re.compile(rb'("uid":")[0-9a-f]{8}')
_VERSION = re.compile(rb'("resourceVersion":")\d+')
_NODE = re.compile(rb"(\"ip-10-)\d+-\d+(?=-17\.)")
_HOST = re.compile(rb'("10\.200\.)\d+\.\d+(?=")')
