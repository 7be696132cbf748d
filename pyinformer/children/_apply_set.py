"""The marks of a set of children, on each of them and on their owner.

They are those of an ApplySet, so that `kubectl apply --prune --applyset` and `kubectl get -l`
understand them, with some of ours: which function has the child, and in which stage.

Source:
    KEP-3659, ApplySet specification.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b, sha256
from typing import Final, NamedTuple, Self, final

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import GroupVersionKind, JSONObject, KubeObject, plain_text

PART_OF: Final = "applyset.kubernetes.io/part-of"
"""A label of each child: the id of its owner's set."""

_ID: Final = "applyset.kubernetes.io/id"
_TOOLING: Final = "applyset.kubernetes.io/tooling"
_KINDS: Final = "applyset.kubernetes.io/contains-group-kinds"
_NAMESPACES: Final = "applyset.kubernetes.io/additional-namespaces"
_OURS: Final = "pyinformer/v1"  # of all versions of this library: an upgrade changes no owner
_ROOM_BYTES: Final = 196_608  # a server takes 256 KiB of annotations, which others need, too

_SET: Final = "pyinformer.dev/set"  # these are labels, which caches keep decoded
_STAGE: Final = "pyinformer.dev/stage"
_CHILD: Final = "pyinformer.dev/child"
_OWNER_UID: Final = "pyinformer.dev/owner-uid"
_OWNER: Final = "pyinformer.dev/owner"  # an annotation: a key is too long for a label
_PLACES: Final = "children.pyinformer.dev/"  # before a set's name: an annotation of its owner

_STAGE_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,57}[A-Za-z0-9])?")
_LONGEST_NAME: Final = 63  # of a label's value, and of the part of a finalizer behind the slash
_DIGEST_BYTES: Final = 4
_CHILD_DIGEST_BYTES: Final = 10
_MOST_DIGITS: Final = 9  # of the number of a stage


class Stage(NamedTuple):
    """A stage of a set: the later a stage, the earlier its children are deleted."""

    ordinal: int
    """1 for the first."""
    name: str
    """Empty for the one without a name."""

    def __str__(self) -> str:
        return f"stage {self.name or self.ordinal}"


def check_stage(name: str) -> None:
    """Refuse a name that cannot be that of a stage.

    Raises:
        InvalidArgumentError: naming what it may be.
    """
    if not isinstance(name, str) or (name and not _STAGE_NAME.fullmatch(name)):
        reason = f"must be a word such as 'data', of at most 59 characters, got {name!r}"
        raise InvalidArgumentError("stage", reason)


def set_id(owner: KubeObject[object]) -> str:
    """Return the id of an owner's set, which is the same for an owner that was created again."""
    meta, kind = owner.metadata, owner.gvk
    name = f"{meta.name}.{meta.namespace}.{kind.kind}.{kind.group}"
    digest = urlsafe_b64encode(sha256(name.encode()).digest()).decode().rstrip("=")
    return f"applyset-{digest}-v1"


def set_name(operator: str, function: str) -> str:
    """Return the name of all sets of a function, as the marks have it: `db-operator.databases`."""
    whole = f"{operator}/{function}"
    plain = re.sub(r"[^-A-Za-z0-9_.]", ".", whole)
    if plain != whole.replace("/", ".") or len(plain) > _LONGEST_NAME:
        digest = blake2b(whole.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        plain = f"{plain[: _LONGEST_NAME - len(digest) - 1]}.{digest}"
    return plain.strip("-_.")


def finalizer_of(name: str) -> str:
    """Return the finalizer of owners whose children nothing else deletes in order.

    Args:
        name: of the sets, as `set_name` returns it.
    """
    return f"pyinformer.dev/{name}"


def cleanup_finalizer_of(name: str) -> str:
    """Return the finalizer of owners for which a function must clean up outside of the cluster.

    Args:
        name: of the sets, as `set_name` returns it.
    """
    return f"cleanup.pyinformer.dev/{name}"


def stage_of(child: KubeObject[object]) -> Stage:
    """Return the stage that the marks of a child name; any client may have written them."""
    ordinal, _, name = child.metadata.labels.get(_STAGE, "").partition(".")
    is_number = ordinal.isascii() and ordinal.isdecimal() and len(ordinal) <= _MOST_DIGITS
    return Stage(int(ordinal) if is_number else 1, name)


def set_name_of(child: KubeObject[object]) -> str:
    """Return the sets that a child is in: those of the function that applied it, or nothing."""
    return child.metadata.labels.get(_SET, "")


def owner_of_child(child: KubeObject[object]) -> str | None:
    """Return the key of the owner of a child whose owner no reference can name; else None.

    It is the mapping by which a change of such a child requests its owner.
    """
    uid, key = child.metadata.labels.get(_OWNER_UID), child.annotations.get(_OWNER, "")
    meta = child.metadata
    mark = _digest(uid or "", child.gvk, meta.namespace, meta.name)
    return key or None if uid and meta.labels.get(_CHILD) == mark else None


def owner_keys(child: KubeObject[object]) -> frozenset[str]:
    """Return what the key of the owner of a child can be."""
    meta = child.metadata
    names = [one.name for one in meta.owner_references if one.controller]
    return frozenset(
        (child.annotations.get(_OWNER, ""), *names, *(f"{meta.namespace}/{one}" for one in names))
    )


def is_child(child: KubeObject[object], owner: KubeObject[object], name: str) -> bool:
    """Return whether a function has applied an object for this very owner.

    Args:
        child: the object. One with the marks of another object is a copy, not a child.
        owner: the owner.
        name: of the sets of the function.
    """
    meta, uid = child.metadata, owner.metadata.uid
    if meta.labels.get(_SET) != name:
        return False
    if meta.labels.get(_CHILD) != _digest(uid, child.gvk, meta.namespace, meta.name):
        return False
    is_referred = any(one.uid == uid for one in meta.owner_references)
    return is_referred or meta.labels.get(_OWNER_UID) == uid


def _digest(uid: str, kind: GroupVersionKind, namespace: str, name: str) -> str:
    """Return the mark of one child, which a copy under another name does not have."""
    whole = f"{uid}/{kind.group_kind}/{namespace}/{name}"
    return blake2b(whole.encode(), digest_size=_CHILD_DIGEST_BYTES).hexdigest()


def child_labels(owner: KubeObject[object], name: str) -> dict[str, str]:
    """Return the labels of all children of an owner.

    Args:
        owner: their owner.
        name: of the sets of the function that has them.
    """
    return {PART_OF: set_id(owner), _SET: name}


def mark_child(
    body: JSONObject,
    owner: KubeObject[object],
    labels: Mapping[str, str],
    stage: Stage,
    *,
    has_reference: bool,
) -> None:
    """Write the marks into the body of a child.

    Args:
        body: changed in place; it has metadata.
        owner: its owner.
        labels: as `child_labels` returns them.
        stage: its stage.
        has_reference: whether an owner reference names the owner; otherwise the marks do.
    """
    metadata = body["metadata"]
    uid, kind = owner.metadata.uid, GroupVersionKind.of(body["apiVersion"], body["kind"])
    mark = _digest(uid, kind, metadata.get("namespace") or "", str(metadata["name"]))
    marks = {**labels, _STAGE: f"{stage.ordinal}.{stage.name}".strip("."), _CHILD: mark}
    if not has_reference:
        marks[_OWNER_UID] = uid
        key = plain_text(owner.key)
        metadata["annotations"] = {**(metadata.get("annotations") or {}), _OWNER: key}
    metadata["labels"] = {**(metadata.get("labels") or {}), **marks}


@final
@dataclass(frozen=True, slots=True)
class OwnerMarks:
    """Where the children of an owner may be; it names more places rather than too few."""

    kinds: frozenset[str] = frozenset()
    """Without their versions: `StatefulSet.apps`, `Secret`."""
    namespaces: frozenset[str] = frozenset()
    """The namespaces but the owner's own."""

    @classmethod
    def of(cls, owner: KubeObject[object], name: str) -> Self:
        """Return what an owner has for the sets of this name."""
        return cls._read(owner.annotations.get(_PLACES + name, ""))

    @classmethod
    def _read(cls, text: str) -> Self:
        kinds, _, namespaces = text.partition(";")
        return cls(_split(kinds), _split(namespaces))

    def __or__(self, other: OwnerMarks) -> OwnerMarks:
        return OwnerMarks(self.kinds | other.kinds, self.namespaces | other.namespaces)

    def __le__(self, other: OwnerMarks) -> bool:
        return self.kinds <= other.kinds and self.namespaces <= other.namespaces

    def written_on(
        self, owner: KubeObject[object], name: str
    ) -> tuple[JSONObject, JSONObject] | None:
        """Return the marks of an owner as they are and as they shall be; None if they are so.

        Each function has an annotation of its own, so that two of them never undo each other's;
        those of the ApplySet name what all of them have.

        Raises:
            InvalidArgumentError: they are more than the annotations of an object can have.
        """
        labels, annotations = owner.metadata.labels, owner.annotations  # decoded at each read
        others = [
            OwnerMarks._read(text)
            for key, text in annotations.items()
            if key.startswith(_PLACES) and key != _PLACES + name
        ]
        kinds = self.kinds.union(*(one.kinds for one in others))
        namespaces = self.namespaces.union(*(one.namespaces for one in others))
        own = ";".join((",".join(sorted(self.kinds)), ",".join(sorted(self.namespaces))))
        wanted: dict[str, str | None] = {
            _PLACES + name: own.rstrip(";") or None,
            _TOOLING: _OURS,
            _KINDS: ",".join(sorted(kinds)),
            _NAMESPACES: ",".join(sorted(namespaces)) or None,
        }
        size = sum(len(text.encode()) for text in wanted.values() if text)
        if size > _ROOM_BYTES:
            reason = (
                f"are of {len(self.kinds)} kinds in {len(self.namespaces)} other namespaces, whose"
                f" names need {size:,} bytes of annotations of {owner.key!r}, and"
                f" {_ROOM_BYTES:,} are the most: let several objects own them"
            )
            raise InvalidArgumentError("objects", reason)
        is_marked = labels.get(_ID) == set_id(owner)
        if is_marked and all(annotations.get(key) == text for key, text in wanted.items()):
            return None
        before = {key: annotations.get(key) for key in wanted}
        return (
            {"labels": _present({_ID: labels.get(_ID)}), "annotations": _present(before)},
            {"labels": {_ID: set_id(owner)}, "annotations": _present(wanted)},
        )


def _split(text: str) -> frozenset[str]:
    return frozenset(filter(None, (each.strip() for each in text.split(","))))


def _present(marks: dict[str, str | None]) -> JSONObject:
    return {name: text for name, text in marks.items() if text is not None}
