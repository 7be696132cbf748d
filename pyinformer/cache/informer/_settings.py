"""What an informer follows, and how: the arguments of `informer(...)`, checked and comparable.

Two requests for one scope share one informer. If their settings differ, that is an error which
names both places, because returning the first informer silently would be worse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, final, get_args

from pyinformer._runtime.tasks import check_plain
from pyinformer.cache.audit import MutationDetector
from pyinformer.cache.reflector import AbsencePolicy, ReflectorOptions
from pyinformer.errors import (
    InformerConflictError,
    InvalidArgumentError,
    InvalidSelectorError,
    InvalidTypeError,
)
from pyinformer.objects import (
    BytesTransform,
    FieldSelector,
    GroupVersionResource,
    LabelSelector,
    Selector,
    Transform,
    UidRange,
    check_choice,
    check_compressor,
    check_seconds,
    did_you_mean,
    is_namespace_name,
    near_names,
    parse_path,
    plain_text,
)

if TYPE_CHECKING:
    from pyinformer.cache.store import IndexFunction
    from pyinformer.client.cluster import Cluster

Memory: TypeAlias = Literal["raw", "strip_managed_fields", "compact", "metadata"]
"""What is kept of each object: all of it, all but `metadata.managedFields`, that compressed, or its
metadata alone, which is then all that the server sends."""

SharingKind: TypeAlias = Literal["private", "decoded"]
"""Each reader of a whole object decodes its own copy, or all share one decoded object."""

QueueKind: TypeAlias = Literal["direct", "real_fifo", "delta_fifo"]
"""The queue between the reflector and the cache: none, or one of client-go's."""

DEFAULT_MAX_BYTES: Final = 256 << 20
"""The default limit of both files of a recording together."""

_INSTEAD: Final = "ask for the informer with another `memory`"
_ALWAYS_THERE: Final = frozenset({"metadata", "kind", "apiVersion"})


class KeepingOptions(TypedDict, total=False):
    """How an informer keeps the objects that it follows; each option may be left out."""

    memory: Memory
    """What is kept of each object: all of it (`raw`), all but managedFields (the default), or that
    compressed (`compact`, of the extra `pyinformer[compact]`): a fraction of the memory, for some
    microseconds at each event and each read of a body; the page docs/howto/memory-modes.md has the
    figures. `metadata` asks the server for the metadata alone: no body reaches the process."""
    transform: Transform | None
    """Your change to each object before it is cached."""
    queue: QueueKind
    """The queue between the reflector and the cache; `direct` is none, and the default."""
    sharing: SharingKind
    """`decoded` lets `lister.decoded` share one dict per object between all readers, which costs
    memory; by default (`private`) each reader has its own."""


class InformerOptions(KeepingOptions, total=False):
    """What an informer follows, beside how it keeps that; each option may be left out."""

    namespaces: str | Iterable[str] | None
    """One namespace, several, or None for all of them, the default. Each has a position, a state
    and errors of its own. `set_namespaces` changes the set later."""
    namespace_selector: Selector | LabelSelector
    """Chooses the namespaces by their labels instead. It needs the right to list and watch
    Namespaces."""
    label_selector: Selector | LabelSelector
    """As a string or mapping; None for all objects, the default."""
    field_selector: Selector | FieldSelector
    """As a string or mapping; None for all objects, the default."""
    absent: AbsencePolicy
    """What to do while the server does not serve the resource: `wait`, the default; `require` fails
    the first sync; `optional` treats it as empty."""
    audit_period_seconds: float | None
    """The mean time between periodic audits, 0 for none; None, the default, takes the factory's,
    and outside of a factory there are none."""


@final
@dataclass(frozen=True, slots=True)
class Scope:
    """Which objects an informer follows; the identity under which a factory shares it."""

    resource: GroupVersionResource
    namespaces: frozenset[str] | None
    """The followed namespaces; None is all, or unknown yet if a selector chooses them."""
    label_selector: LabelSelector
    field_selector: FieldSelector
    namespace_selector: LabelSelector | None = None
    """Chooses the namespaces by their labels; None if they are given, or all are followed."""
    uid_range: UidRange | None = None
    """Which share of these objects is followed; None for all of them."""

    @classmethod
    def of(
        cls,
        api_version: str,
        plural: str,
        namespaces: str | Iterable[str] | None,
        label_selector: Selector | LabelSelector,
        field_selector: Selector | FieldSelector,
        *,
        namespace_selector: Selector | LabelSelector = None,
    ) -> Scope:
        """Return the scope of a user's arguments.

        Raises:
            InvalidArgumentError: an argument is malformed, or namespaces are named and selected.
            InvalidSelectorError: a selector cannot be parsed.
        """
        return cls(
            GroupVersionResource.of(api_version, plural),
            checked_namespaces(namespaces),
            LabelSelector.parse(label_selector),
            FieldSelector.parse(field_selector),
            _checked_selector(namespace_selector, namespaces),
        )

    @property
    def namespace(self) -> str | None:
        """The only namespace that is followed; None if there is not exactly one: see `covers`."""
        one = self.namespaces if self.namespaces is not None and len(self.namespaces) == 1 else ()
        return next(iter(one), None)

    @property
    def is_everywhere(self) -> bool:
        """Whether all namespaces are followed, or a resource without namespaces."""
        return self.namespaces is None and self.namespace_selector is None

    @property
    def is_selective(self) -> bool:
        """Whether a selector is set, so an object can leave the scope without being deleted."""
        return not (self.label_selector.is_empty and self.field_selector.is_empty)

    @property
    def is_partial(self) -> bool:
        """Whether there may be other objects of the resource in the followed namespaces."""
        return self.is_selective or self.uid_range is not None

    def covers(self, namespace: str | None) -> bool:
        """Return whether a namespace is followed; None or "" stands for objects without one."""
        if self.namespaces is None:
            return self.is_everywhere
        return namespace in self.namespaces

    def within(self, namespaces: Iterable[str] | None) -> Scope:
        """Return the same scope in other namespaces."""
        chosen = None if namespaces is None else frozenset(namespaces)
        return replace(self, namespaces=chosen)

    def only(self, namespace: str | None) -> Scope:
        """Return the part of the scope in one namespace; all of it for None."""
        chosen = None if namespace is None else frozenset((namespace,))
        return replace(self, namespaces=chosen, namespace_selector=None)

    def named_in(self, cluster: Cluster) -> str:
        """Return the scope as text, with the cluster if that has a name: `eu: pods.v1 in shop`."""
        return f"{cluster.name}: {self}" if cluster.name else str(self)

    def __str__(self) -> str:
        parts = [str(self.resource)]
        if self.namespace_selector is not None:
            parts.append(f"in namespaces with labels {self.namespace_selector}")
        elif self.namespaces is not None:
            parts.append(f"in {named(self.namespaces)}")
        if not self.label_selector.is_empty:
            parts.append(f"with labels {self.label_selector}")
        if not self.field_selector.is_empty:
            parts.append(f"with fields {self.field_selector}")
        if self.uid_range is not None:
            parts.append(f"of {self.uid_range}")
        return " ".join(parts)


def named(namespaces: Iterable[str]) -> str:
    """Return the names for a sentence: all of a few, some of many."""
    names = sorted(namespaces)
    if len(names) <= _NAMED:
        return ", ".join(names) or "no namespace"
    return f"{', '.join(names[: _NAMED - 1])} and {len(names) - _NAMED + 1} more"


_NAMED = 5


def checked_namespaces(
    namespaces: str | Iterable[str] | None, *, may_be_none: bool = False
) -> frozenset[str] | None:
    """Return the namespaces of an argument, checked; None is all of them.

    Args:
        namespaces: one, several, or None.
        may_be_none: an empty list is allowed.

    Raises:
        InvalidArgumentError: one of them is not a namespace, or there is none.
    """
    if namespaces is None:
        return None
    if not isinstance(namespaces, str | Iterable):
        reason = f"must be a namespace or several, got a {type(namespaces).__name__}; None is all"
        raise InvalidArgumentError("namespaces", reason)
    given = [namespaces] if isinstance(namespaces, str) else list(namespaces)
    if not given and not may_be_none:
        reason = "an empty list follows nothing; None follows all namespaces"
        raise InvalidArgumentError("namespaces", reason)
    for one in given:
        # The server returns an empty list for any name, so a typo would look like an empty cache.
        if not (isinstance(one, str) and is_namespace_name(one)):
            reason = f"must be the name of a namespace, got {one!r}; None follows all of them"
            raise InvalidArgumentError("namespaces", reason)
    return frozenset(map(plain_text, given))


def _checked_selector(
    namespace_selector: Selector | LabelSelector, namespaces: object
) -> LabelSelector | None:
    if namespace_selector is None:
        return None
    if namespaces is not None:
        reason = "cannot be combined with `namespaces`: it chooses them by their labels"
        raise InvalidArgumentError("namespace_selector", reason)
    try:
        selector = LabelSelector.parse(namespace_selector)
    except InvalidSelectorError as error:
        raise error.at("namespace_selector") from error
    except InvalidTypeError as error:
        raise InvalidTypeError("namespace_selector", error.reason) from error
    if selector.is_empty:
        reason = "must not be empty; leave it out to follow all namespaces by a single watch"
        raise InvalidArgumentError("namespace_selector", reason)
    return selector


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class InformerSettings:
    """How an informer keeps the objects that it follows."""

    model: type | None = None
    """What the `view` of each object is."""
    memory: Memory = "strip_managed_fields"
    transform: Transform | None = None
    queue: QueueKind = "direct"
    sharing: SharingKind = "private"
    absent: AbsencePolicy = "wait"
    audit_period_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Raise for a value that is not one of the choices."""
        check_audit_period(self.audit_period_seconds)
        transform = self.transform
        if not (transform is None or callable(transform) or isinstance(transform, BytesTransform)):
            reason = f"must be a function or a BytesTransform, got {type(transform).__name__}"
            raise InvalidTypeError("transform", reason)
        if isinstance(transform, BytesTransform):
            check_plain(transform.function, "transform(text)", 1)
        elif transform is not None:
            check_plain(transform, "transform(obj)", 1)
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        check_model_kept(self.memory, self.model)
        if self.memory == "compact":
            check_compressor()  # fail here, and not when objects arrive


def requested(
    resource: tuple[str, str],
    options: InformerOptions,
    *,
    model: type | None,
    audit_period_seconds: float = 0.0,
    beside: tuple[str, ...] = (),
) -> tuple[Scope, InformerSettings]:
    """Return what the arguments of `informer(...)` ask for, checked.

    Args:
        resource: the API version and the plural name.
        options: what was given of the others.
        model: what the `view` of each object is.
        audit_period_seconds: that of the factory.
        beside: the arguments that the call takes beside the options, for errors.

    Raises:
        InvalidArgumentError: an argument that cannot work.
        InvalidSelectorError: a selector cannot be parsed.
        InvalidTypeError: an option does not exist, or is of another type.
    """
    check_option_names(options, InformerOptions, "model", *beside)
    scope = Scope.of(
        *resource,
        options.get("namespaces"),
        options.get("label_selector"),
        options.get("field_selector"),
        namespace_selector=options.get("namespace_selector"),
    )
    given: dict[str, Any] = {name: one for name, one in options.items() if name in _SETTINGS}
    if given.get("audit_period_seconds") is None:
        given["audit_period_seconds"] = audit_period_seconds
    return scope, InformerSettings(model=model, **given)


_SETTINGS: Final = frozenset(one.name for one in fields(InformerSettings))


def check_option_names(options: Iterable[str], known: type, *beside: str) -> None:
    """Raise for a keyword argument that is not one of these options.

    Args:
        options: the names that were given.
        known: the record of the options.
        beside: the arguments that the call takes beside them.

    Raises:
        InvalidTypeError: naming it, and what it may have been meant for.
    """
    names = (*known.__annotations__, *beside)
    for name in options:
        if name not in names:
            near = did_you_mean(near_names(name, {one: one for one in names}))
            hint = near or f"the options are {', '.join(sorted(names))}"
            raise InvalidTypeError(name, f"is not an option here: {hint}")


def check_safeguards(options: object, mutation_detector: object) -> None:
    """Raise for something else in place of options or a detector, such as a mode.

    Raises:
        InvalidTypeError: naming the argument.
    """
    for name, value, kind in (
        ("options", options, ReflectorOptions),
        ("mutation_detector", mutation_detector, MutationDetector),
    ):
        if value is not None and not isinstance(value, kind):
            raise InvalidTypeError(name, f"must be a {kind.__name__}, got {type(value).__name__}")


_LEAST_AUDIT_PERIOD_SECONDS = 1.0


def check_audit_period(seconds: float) -> None:
    """Raise for a period of audits that cannot work.

    Raises:
        InvalidArgumentError: it is not a duration, or shorter than a second; 0 is off.
    """
    check_seconds("audit_period_seconds", seconds)
    if 0 < seconds < _LEAST_AUDIT_PERIOD_SECONDS:
        reason = f"must be at least 1 s, got {seconds} s; half an hour is usual, 0 is off"
        raise InvalidArgumentError("audit_period_seconds", reason)


_CHOICES = {
    "memory": get_args(Memory),
    "queue": get_args(QueueKind),
    "sharing": get_args(SharingKind),
    "absent": get_args(AbsencePolicy),
}


def check_same_settings(
    scope: Scope, first: tuple[InformerSettings, str], second: tuple[InformerSettings, str]
) -> None:
    """Raise for a request whose settings differ from those of the informer that exists.

    Args:
        scope: what both asked for.
        first: the settings of the informer that exists, and where it was requested.
        second: the new ones, and where.

    Raises:
        InformerConflictError: naming the first setting that differs.
    """
    for setting in fields(InformerSettings):
        if getattr(first[0], setting.name) != getattr(second[0], setting.name):
            raise InformerConflictError(
                informer=str(scope),
                option=setting.name,
                first_call_site=first[1],
                second_call_site=second[1],
            )


def check_model_kept(memory: str, model: type | None) -> None:
    """Raise for a model where only metadata is kept.

    Raises:
        InvalidArgumentError: naming the model.
    """
    if memory == "metadata" and model is not None:
        name = getattr(model, "__name__", repr(model))
        reason = (
            f"{name} reads fields that memory='metadata' does not keep, which has obj.metadata and"
            f" obj.annotations; leave the model out, or {_INSTEAD}"
        )
        raise InvalidArgumentError("model", reason)


def check_readable(memory: str, by: str | IndexFunction) -> None:
    """Raise for an index by a path that no object has.

    Raises:
        InvalidArgumentError: naming the path.
        InvalidArgumentError: it is none.
    """
    if memory == "metadata" and isinstance(by, str) and parse_path(by)[0] not in _ALWAYS_THERE:
        reason = f"{by} is not kept with memory='metadata', so the index would stay empty"
        raise InvalidArgumentError("by", f"{reason}; {_INSTEAD}")
