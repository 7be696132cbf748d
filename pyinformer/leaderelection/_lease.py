"""The Lease as client-go reads and writes it, so that Go and Python replicas share one.

A body that is written is the body that was read, with the fields of the election changed: labels,
annotations and fields that this module does not know are kept.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple, final

import msgspec

from pyinformer.objects import decoder_of, older, resource_version_is_well_formed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyinformer.objects import JSONObject

WRITTEN_ANNOTATION: Final = "pyinformer.dev/written"
"""What a leader that released its Lease, and the leaders before it, have written."""
TABLE_HOLDER: Final = "pyinformer.dev/buckets"
"""Who holds a Lease by which replicas share keys instead of electing a leader."""
ALL_OTHERS: Final = "*"
"""Stands for every resource that is not named."""
MAX_TRANSITIONS: Final = 2**31 - 1
"""The greatest leaseTransitions: the field is an int32, and a server refuses negative numbers."""

_RELEASED_SECONDS: Final = 1  # as client-go: the duration of a Lease that is free
_MAX_RESOURCES: Final = 256  # of one annotation; beyond that the successor lists


class Marker(NamedTuple):
    """What distinguishes one write of a holder from all other writes."""

    holder: str
    acquire_time: datetime | str
    renew_time: datetime | str
    transitions: int

    def is_cut_of(self, written: Marker) -> bool:
        """Return whether a server stores this of a write, which cuts fractions of times off."""
        times = zip(
            (self.acquire_time, self.renew_time),
            (written.acquire_time, written.renew_time),
            strict=True,
        )
        is_of_it = (self.holder, self.transitions) == (written.holder, written.transitions)
        return is_of_it and all(_is_cut_of(stored, whole) for stored, whole in times)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """A Lease as the server returned it."""

    holder: str
    """The identity of its holder; empty if it is free."""
    duration_seconds: float | None
    """After how long without change it may be taken; None if its holder gave none."""
    acquire_time: str
    renew_time: str
    transitions: int
    uid: str
    resource_version: str
    body: JSONObject
    """The whole object; not to be changed."""

    @property
    def name(self) -> str:
        """Its name."""
        return str(_mapping(self.body.get("metadata")).get("name") or "")

    @property
    def key(self) -> str:
        """Its namespace and name, `namespace/name`."""
        return f"{_mapping(self.body.get('metadata')).get('namespace') or ''}/{self.name}"

    @property
    def labels(self) -> JSONObject:
        """Its labels."""
        return _mapping(_mapping(self.body.get("metadata")).get("labels"))

    @property
    def marker(self) -> Marker:
        """Which write of which holder this is."""
        acquire_time, renew_time = _instant(self.acquire_time), _instant(self.renew_time)
        return Marker(self.holder, acquire_time, renew_time, self.transitions)

    @property
    def was_released(self) -> bool:
        """Whether its last holder freed it, as client-go does; a person would keep the duration."""
        return not self.holder and self.duration_seconds == _RELEASED_SECONDS

    def is_newer_than(self, other: LeaseRecord) -> bool | None:
        """Return whether this is a later version; None if it is unknown.

        All objects of a resource share one order, so also a Lease that was created again is later.
        """
        mine, known = self.resource_version, other.resource_version
        if mine == known:
            return False
        if not (resource_version_is_well_formed(mine) and resource_version_is_well_formed(known)):
            return None
        return older(known, mine)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenVersions:
    """What one leader and those before it wrote: its successor waits until its caches have it."""

    transitions: int
    """The term of the last of them: the value of leaseTransitions."""
    versions: Mapping[str, str]
    """The highest resource version written, by resource (`deployments.v1.apps`); empty where it is
    unknown, after a deletion for example. `*` stands for all resources that are not named: it is
    there if an earlier leader has crashed."""

    def version_of(self, resource: str) -> str | None:
        """Return the version to wait for.

        Args:
            resource: the resource, such as `deployments.v1.apps`.

        Returns:
            Empty if it is unknown; None if no leader wrote that resource.
        """
        # The objects of all API versions are the same, and so is the order of their versions.
        wanted = _without_api_version(resource)
        found = [self.versions[one] for one in self.versions if _without_api_version(one) == wanted]
        if not found:
            return self.versions.get(ALL_OTHERS)
        if not all(resource_version_is_well_formed(one) for one in found):
            return ""
        return reduce(lambda first, second: second if older(first, second) else first, found)


def later_written(known: str | None, version: str) -> str:
    """Return the later of two versions that were written; empty if one is unknown.

    Args:
        known: the latest so far; None if nothing was written.
        version: of the next write.
    """
    if known == "" or not resource_version_is_well_formed(version):
        return ""
    return version if known is None or older(known, version) else known


def read_lease(body: JSONObject) -> LeaseRecord:
    """Return the record of a Lease; what is missing or unusable in it counts as absent."""
    metadata, spec = _mapping(body.get("metadata")), _mapping(body.get("spec"))
    duration = spec.get("leaseDurationSeconds")
    transitions = spec.get("leaseTransitions")
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        duration_seconds=_duration(duration),
        acquire_time=str(spec.get("acquireTime") or ""),
        renew_time=str(spec.get("renewTime") or ""),
        transitions=transitions if isinstance(transitions, int) else 0,
        uid=str(metadata.get("uid") or ""),
        resource_version=str(metadata.get("resourceVersion") or ""),
        body=body,
    )


def new_lease(name: str, namespace: str) -> LeaseRecord:
    """Return the Lease that is created where none exists; it is free."""
    metadata = {"name": name, "namespace": namespace}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    return read_lease(body)


def next_transitions(before: LeaseRecord) -> int:
    """Return the number of the term that takes a Lease; at the maximum it stays the same.

    Another number would be refused, or less than that of an earlier term.

    Args:
        before: the Lease as it is.
    """
    return min(before.transitions + 1, MAX_TRANSITIONS)


def acquired(
    before: LeaseRecord, *, holder: str, duration_seconds: float, at: float, transitions: int
) -> JSONObject:
    """Return the body that takes a Lease.

    Args:
        before: the Lease as it is; its version is the precondition of the write.
        holder: who takes it.
        duration_seconds: after how long without renewal it may be taken; whole.
        at: Unix time in seconds.
        transitions: the number of the term.
    """
    moment = micro_time(at)
    return _changed(
        before,
        holderIdentity=holder,
        leaseDurationSeconds=int(duration_seconds),
        acquireTime=moment,
        renewTime=moment,
        leaseTransitions=transitions,
    )


def renewed(before: LeaseRecord, *, duration_seconds: float, at: float) -> JSONObject:
    """Return the body that renews a Lease for its holder.

    Args:
        before: the Lease as it is.
        duration_seconds: after how long without renewal it may be taken; whole.
        at: Unix time in seconds.
    """
    duration = int(duration_seconds)
    return _changed(before, leaseDurationSeconds=duration, renewTime=micro_time(at))


def released(before: LeaseRecord, *, at: float, written: WrittenVersions | None) -> JSONObject:
    """Return the body that frees a Lease.

    Args:
        before: the Lease as it is.
        at: Unix time in seconds.
        written: what was written in the term; None if it is unknown.
    """
    moment = micro_time(at)
    body = _changed(
        before,
        holderIdentity="",
        leaseDurationSeconds=_RELEASED_SECONDS,
        acquireTime=moment,
        renewTime=moment,
    )
    metadata = _mapping(body.get("metadata"))
    annotations = dict(_mapping(metadata.get("annotations")))
    annotations.pop(WRITTEN_ANNOTATION, None)
    if written is not None and len(written.versions) <= _MAX_RESOURCES:
        annotations[WRITTEN_ANNOTATION] = _encode(written)
    body["metadata"] = {**metadata, "annotations": annotations}
    return body


def written_in(lease: LeaseRecord) -> WrittenVersions | None:
    """Return what the last leader of a free Lease wrote; None if it is unknown.

    A Lease that is held, or whose annotation is of an earlier term, was not released cleanly. At
    the maximum all terms have the same number, so that their annotations cannot be distinguished.
    """
    if lease.transitions >= MAX_TRANSITIONS:
        return None
    annotations = _mapping(_mapping(lease.body.get("metadata")).get("annotations"))
    text = annotations.get(WRITTEN_ANNOTATION)
    if lease.holder or not isinstance(text, str):
        return None
    try:
        found = _decode_annotation(text)
    except msgspec.DecodeError:
        return None  # another program's
    if found.transition != lease.transitions:
        return None
    return WrittenVersions(transitions=found.transition, versions=found.versions)


def with_labels(body: JSONObject, labels: Mapping[str, str]) -> JSONObject:
    """Return a body with these labels, too."""
    metadata = _mapping(body.get("metadata"))
    return {
        **body,
        "metadata": {**metadata, "labels": {**_mapping(metadata.get("labels")), **labels}},
    }


def micro_time(at: float) -> str:
    """Return an instant as MicroTime: `2026-01-02T03:04:05.000006Z`."""
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class _Annotation(msgspec.Struct):
    transition: int
    versions: dict[str, str]


_decode_annotation = decoder_of(_Annotation)


def _encode(written: WrittenVersions) -> str:
    record = _Annotation(written.transitions, dict(written.versions))
    return msgspec.json.encode(record).decode()


def _changed(before: LeaseRecord, **fields: object) -> JSONObject:
    metadata = dict(_mapping(before.body.get("metadata")))
    metadata.pop("managedFields", None)  # a server keeps those of an object without them
    spec = {**_mapping(before.body.get("spec")), **fields}
    return {**before.body, "metadata": metadata, "spec": spec}


def _duration(value: object) -> float | None:
    is_usable = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return float(value) if isinstance(value, int) and is_usable else None


def _instant(text: str) -> datetime | str:
    """Return the time that is meant, however a server writes it; the text if it is none."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return text


def _is_cut_of(stored: datetime | str, whole: datetime | str) -> bool:
    if isinstance(stored, str) or isinstance(whole, str):
        return stored == whole
    return timedelta() <= whole - stored < timedelta(seconds=1)


def _without_api_version(resource: str) -> tuple[str, str]:
    """Return `deployments` and `apps` of `deployments.v1.apps`."""
    plural, _, rest = resource.partition(".")
    return plural, rest.partition(".")[2]


def _mapping(value: object) -> JSONObject:
    return value if isinstance(value, dict) else {}
