"""The lines of a history, as docs/reference/histories.md describes them.

A line is one JSON object with its `kind`. What a later version adds to a record is optional, and
another program, such as a client of another language, may write the same lines.
"""

# Pure: it knows no event loop.

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

from msgspec import Struct, field

Verb: TypeAlias = Literal["put", "delete"]
"""What a revision did to an object."""

Happening: TypeAlias = Literal["add", "update", "delete"]
"""What a handler was called for."""

UNSTAMPED: Final = -1.0
"""The time of a record that `History.add` stamps."""


class _Record(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="kind"):
    """The part that all records have."""

    at_seconds: float = UNSTAMPED
    """When, in monotonic seconds since the history began; `History.add` sets it."""


class Version(Struct, frozen=True, array_like=True, gc=False):
    """One state of one object: `["uid", "resource version"]` in the file."""

    uid: str
    resource_version: str
    digest: str = ""
    """The digest of its content, as in `TruthRecord`; empty if it was not computed."""

    @property
    def number(self) -> int:
        """The resource version as a number; 0 if it is not one."""
        return int(self.resource_version) if self.resource_version.isdecimal() else 0


@final
class RunRecord(_Record, frozen=True, kw_only=True, tag="run"):
    """The first line: which run it is, and how it is run again."""

    command: str = ""
    """The command that replays it, for people."""
    seed: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    """Of pyinformer, Python, the server and other clients, by name."""
    settings: dict[str, str] = field(default_factory=dict)
    """What else the command needs to run it again, by name."""
    memory_bytes: int = 0
    """By how much the memory of the program may have grown at rest; 0 for the checker's bound."""


@final
class TruthRecord(_Record, frozen=True, kw_only=True, tag="truth"):
    """A revision of the store behind the server; `at_seconds` is not before it was committed."""

    revision: int
    resource: str
    """`pods`, or `deployments.apps`: the plural and the group."""
    key: str
    """`namespace/name`, or `name`."""
    uid: str
    """Of a deletion: that of the deleted object. Empty if it is unknown."""
    verb: Verb = "put"
    labels: dict[str, str] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    """The values by which followers select: `{"spec.nodeName": "a"}`."""
    digest: str = ""
    """Of the content: see `digest_of`. Empty if it was not read."""
    status: dict[str, str] = field(default_factory=dict)
    """The digest of each field of the status."""


@final
class RestoredRecord(_Record, frozen=True, kw_only=True, tag="restored"):
    """The store holds another history: the `puts` that follow are everything that lives now."""

    revision: int
    """The revision of the new history."""
    puts: int = 0
    reason: str = ""


@final
class FollowedRecord(_Record, frozen=True, kw_only=True, tag="followed"):
    """A reader begins: what it follows. Every other record of a reader has its `who`.

    The namespaces stay the same: a reader that follows others is another one.
    """

    who: str
    """The name of the reader, unique in the history."""
    resource: str
    """As in `TruthRecord`."""
    namespaces: list[str] | None = None
    """None for all of them."""
    label_selector: str = ""
    field_selector: str = ""
    program: str = "pyinformer"
    """`client-go` for client-go: what is known of a program is expected."""
    role: Literal["cache", "handler", "reader", "controller"] = "cache"
    cache: str = ""
    """The `who` of the cache that feeds a handler, reader or controller."""
    is_complete: bool = True
    """Whether a controller has to reconcile the last state of each object: False with a predicate
    or a trigger of its own."""


@final
class HandledRecord(_Record, frozen=True, kw_only=True, tag="handled"):
    """A handler was called."""

    who: str
    event: Happening
    key: str
    uid: str
    resource_version: str
    old_uid: str = ""
    """Of the old object of an update."""
    old_version: str = ""
    epoch: int = 0
    """How many rewinds or restores the reader has reported so far."""
    is_resync: bool = False


@final
class ReadRecord(_Record, frozen=True, kw_only=True, tag="read"):
    """A reader read one key; without a uid there was no object."""

    who: str
    key: str
    uid: str = ""
    resource_version: str = ""
    epoch: int = 0
    max_age_seconds: float | None = None
    """The age that the reader was promised, as by `lister.fresh`."""


@final
class SampledRecord(_Record, frozen=True, kw_only=True, tag="sampled"):
    """A cache and what it claims of itself, read in one step of the event loop."""

    who: str
    state: str
    position: str = ""
    """The resource version up to which every change is claimed to be cached."""
    epoch: int = 0
    ages: dict[str, float] = field(default_factory=dict)
    """What was claimed, and the age in seconds that it promises: `{"age": 3.2, "ready": 120.0}`.
    A claim that was not made is left out."""
    changed: dict[str, Version | None] = field(default_factory=dict)
    """The keys whose state differs from the last sample's; None if the object is gone."""


@final
class RestedRecord(_Record, frozen=True, kw_only=True, tag="rested"):
    """Everything that one view shows after the last write has arrived."""

    who: str
    what: str
    """`cache`, `mirror` of a handler, `lister`, or `index:NAME`."""
    objects: dict[str, Version] = field(default_factory=dict)
    """By key. Of an index: what it returns for all of its values."""
    wrong: dict[str, str] = field(default_factory=dict)
    """Of an index: the keys that are missing under a value, or returned under a wrong one."""
    position: str = ""
    """The position of the cache at that moment; empty for other views."""
    state: str = ""
    """What the cache does at that moment; empty for other views."""


@final
class AuditedRecord(_Record, frozen=True, kw_only=True, tag="audited"):
    """A cache was compared with the server at its own request, or at that of the program."""

    who: str
    verdict: str
    differences: int = 0
    seconds: float = 0.0
    """How long it took: it compared what the cache had at its beginning."""


@final
class WaitingRecord(_Record, frozen=True, kw_only=True, tag="waiting"):
    """A wait began; a WaitedRecord of the same number ends it."""

    number: int
    name: str


@final
class WaitedRecord(_Record, frozen=True, kw_only=True, tag="waited"):
    """A wait ended."""

    number: int
    how: str
    """`done`, `cancelled`, or the class of the error."""


@final
class ReconcilingRecord(_Record, frozen=True, kw_only=True, tag="reconciling"):
    """A reconcile began, and what it got; a ReconciledRecord of the same number ends it."""

    who: str
    number: int
    key: str
    uid: str = ""
    """Empty if there is no object any more."""
    resource_version: str = ""


@final
class ReconciledRecord(_Record, frozen=True, kw_only=True, tag="reconciled"):
    """A reconcile ended."""

    number: int
    how: str
    """`done`, `cancelled`, or the class of the error."""


@final
class WroteRecord(_Record, frozen=True, kw_only=True, tag="wrote"):
    """The server answered a write of a status: what the writer wanted is stored at a version."""

    who: str
    resource: str
    key: str
    uid: str
    resource_version: str
    """Of the answer."""
    based_on: str = ""
    """The resource version from which the writer made the new status."""
    status: dict[str, str] = field(default_factory=dict)
    """The digest of each field of the status that the writer wanted to set."""


@final
class ResourcesRecord(_Record, frozen=True, kw_only=True, tag="resources"):
    """What the program holds: at its baseline, and again at rest."""

    when: Literal["baseline", "rest"]
    tasks: list[str] = field(default_factory=list)
    """The names of the tasks that run."""
    sockets: int = 0
    """Open descriptors of sockets."""
    descriptors: int = 0
    threads: int = 0
    rss_bytes: int = 0


@final
class FaultRecord(_Record, frozen=True, kw_only=True, tag="fault"):
    """A fault began, or was healed."""

    name: str
    phase: Literal["began", "healed", "struck"] = "struck"
    """`struck`: it has no duration, such as a SIGKILL."""
    number: int = 0
    """The same for the start of a fault and its end."""
    arguments: dict[str, str] = field(default_factory=dict)
    is_lie: bool = False
    """Whether the server says what is not so (class B), such as a dropped event or a stale replica
    that claims to be current. What a reader shows meanwhile is excused if it reports it."""
    requests: int | None = None
    """Of one that was healed: how many requests it has affected; None if they are not counted."""


Record: TypeAlias = (
    RunRecord
    | TruthRecord
    | RestoredRecord
    | FollowedRecord
    | HandledRecord
    | ReadRecord
    | SampledRecord
    | RestedRecord
    | AuditedRecord
    | WaitingRecord
    | WaitedRecord
    | ReconcilingRecord
    | ReconciledRecord
    | WroteRecord
    | ResourcesRecord
    | FaultRecord
)
"""Any line of a history."""
