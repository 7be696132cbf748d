"""The fields of a written status that the server did not store.

kube-apiserver drops the fields that a custom resource's schema lacks. Its Warning headers leave out
names that a header cannot hold, and other servers send none, so the answer itself is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer.client.cluster._merge_patch import same
from pyinformer.objects import (
    ABSENT,
    Absent,
    GroupVersionResource,
    JSONObject,
    JSONValue,
    KubeObject,
)

_MAX_REPORTED: Final = 256  # a schema lacks a few; names in maps must not add up
_MAX_PATHS: Final = 20
_MAX_PATH_CHARS: Final = 200
_SCHEMA_LACKS_THEM: Final = "its schema must define them"
STATUS_IS_APART: Final = "status() writes them, a create or a replace of the object does not"

_log = get_logger(__name__)


@final
class UnstoredFields:
    """Reports fields that were dropped beside others that are stored, once for each resource."""

    def __init__(self) -> None:
        self._reported: dict[GroupVersionResource, dict[str, None]] = {}
        self._count = 0

    @property
    def reported(self) -> Mapping[str, tuple[str, ...]]:
        """The paths by resource, in the order in which they were first dropped."""
        return {str(resource): tuple(paths) for resource, paths in self._reported.items()}

    def record(
        self,
        resource: GroupVersionResource,
        paths: Iterator[str],
        *,
        cure: str = _SCHEMA_LACKS_THEM,
    ) -> None:
        """Log the paths that were not reported before."""
        known = self._reported.get(resource, {})
        cut = dict.fromkeys(path[:_MAX_PATH_CHARS] for path in paths)
        new = [path for path in cut if path not in known]
        room = min(_MAX_PATHS, _MAX_REPORTED - self._count)
        shown = new[:room]
        if not shown:
            return
        self._reported.setdefault(resource, {}).update(dict.fromkeys(shown))
        self._count += len(shown)
        facts = {"resource": str(resource), "fields": ", ".join(shown), "cure": cure}
        _log.warning(
            "%(resource)s: the server did not store %(fields)s of a written status: %(cure)s",
            facts,
            extra=facts,
        )


def has_status_fields(body: JSONObject) -> bool:
    """Return whether an object has a status with a field that is neither empty nor zero.

    Tools write empty ones into manifests: `status: {conditions: [], storedVersions: []}`.
    """
    status = body.get("status")
    return bool(status) and any(True for _ in _leaves(status, (), counts_zeros=False))


def ignored_fields(body: JSONObject, answer: KubeObject[object]) -> Iterator[str]:
    """Yield the fields of a written object's status whose values the answer does not have.

    Fields that are empty or zero do not count.
    """
    status, stored = body.get("status"), answer.at("status", default=None)
    for path in _leaves(status, (), counts_zeros=False) if isinstance(status, dict) else ():
        if not (_has(stored, path) and same(_at(status, path), _at(stored, path))):
            yield ".".join(("status", *path))


def is_status_stored(patch: JSONObject, answer: KubeObject[object]) -> bool:
    """Return whether the answer to a patch of a status has each of its values.

    A server that ignored the patch answers with the status from before, which may have the same
    fields. A server that normalised a value answers with another one, so False proves nothing.
    """
    return _is_stored(patch["status"], answer.at("status", default=None))


def _is_stored(sent: JSONValue, stored: JSONValue) -> bool:
    left = [(sent, stored)]  # a stack: nothing is too deep
    while left:
        sent, stored = left.pop()
        if isinstance(sent, dict):
            found = stored if isinstance(stored, dict) else {}
            left += [(value, found.get(name)) for name, value in sent.items()]
        elif not same(sent, stored):
            return False
    return True


def unstored_fields(
    patch: JSONObject, answer: KubeObject[object], *, has_status: bool
) -> tuple[str, ...]:
    """Return the fields that a status patch sets, if the answer has none of them at all.

    Values are compared only if the status is not a subresource: a server normalises none then, and
    one whose definition has just got a subresource answers with the status from before. Fields that
    are empty or zero do not count, since servers may leave them out, unless the answer has no
    status at all and the status is not a subresource.

    Args:
        patch: what was sent.
        answer: the object in the response.
        has_status: whether the status is a subresource.

    Returns:
        Their paths, `status.ready`; empty if one of them is stored, or none was set.
    """
    stored = answer.at("status", default=None)
    counts_zeros = not has_status and stored is None
    sent = tuple(_leaves(patch["status"], (), counts_zeros=counts_zeros))
    if any(
        _has(stored, path) and (has_status or same(_at(patch["status"], path), _at(stored, path)))
        for path in sent
    ):
        return ()
    return tuple(".".join(("status", *path)) for path in sent)


def _leaves(
    value: JSONValue, path: tuple[str, ...], *, counts_zeros: bool
) -> Iterator[tuple[str, ...]]:
    left = [(value, path)]
    while left:
        value, path = left.pop()
        if isinstance(value, dict) and value:
            left += [(below, (*path, name)) for name, below in reversed(value.items())]
        elif value or (counts_zeros and value is not None):
            yield path


def _at(value: JSONValue, path: tuple[str, ...]) -> JSONValue:
    for name in path:
        value = value[name]  # _has() or _leaves() has found it
    return value


def _has(value: JSONValue, path: tuple[str, ...]) -> bool:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def dropped_paths(patch: JSONObject, answer: KubeObject[object]) -> Iterator[str]:
    """Yield the outermost fields of a status patch that the answer does not have.

    Values are not compared, and fields that are empty or zero do not count, as above. A path names
    the elements of a list without their places: `status.parts[].other`.
    """
    yield from _dropped(patch["status"], answer.at("status", default=None), "status")


def _dropped(sent: JSONValue, stored: JSONValue, path: str) -> Iterator[str]:
    left: list[tuple[JSONValue, JSONValue | Absent, str]] = [(sent, stored, path)]
    while left:
        value, kept, path = left.pop()
        if isinstance(kept, Absent):
            if any(True for _ in _leaves(value, (), counts_zeros=False)):
                yield path
        elif isinstance(value, dict) and isinstance(kept, dict):
            left += [
                (below, kept.get(name, ABSENT), f"{path}.{name}")
                for name, below in reversed(value.items())
            ]
        elif isinstance(value, list) and isinstance(kept, list) and len(value) == len(kept):
            pairs = reversed(list(zip(value, kept, strict=True)))
            left += [(below, stored, f"{path}[]") for below, stored in pairs]
