"""One hook: the requests that it is asked about, and the function that answers."""

# Pure: it knows no event loop.

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypedDict, final, get_args

from pyinformer._runtime.tasks import check_callable
from pyinformer.admission._review import HookOperation
from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import (
    GroupVersionResource,
    check_choice,
    check_flag,
    check_iterable,
    check_model,
    check_seconds,
)

HookKind: TypeAlias = Literal["validate", "default"]

_WRITES: Final[tuple[HookOperation, ...]] = ("create", "update")
_TIMEOUT_SECONDS: Final = 5.0  # that of the server would be 10: a write waits for each hook
_MAX_TIMEOUT_SECONDS: Final = 30.0  # the server's bound
OWN: Final = ("not-finalizers", "not-the-operator")
"""The names of the conditions that every hook has."""
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class HookOptions(TypedDict, total=False):
    """What a hook is asked about, beside its resource; each option may be left out."""

    operations: Collection[HookOperation]
    """The writes that it is asked about: `create` and `update`, the default; `delete`, too, for a
    function that validates."""
    when: Mapping[str, str]
    """Conditions in CEL by a name, all of which a request fulfils that it is asked about; none by
    default."""
    timeout_seconds: float
    """How long the API server waits, in whole seconds: 5 by default, 30 at most."""
    ignores_failures: bool
    """Whether a write is allowed if the function fails, or if no replica answers. If not, the
    default, only the operator itself can write such objects while none runs, and who removes
    finalizers of objects that are being deleted."""
    name: str | None
    """Its name in paths and configurations; None, the default, for the plural name."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A function that checks or completes objects of one resource.

    Raises:
        InvalidArgumentError: an option is invalid.
        InvalidTypeError: the function cannot be called so, or the model is none.
    """

    kind: HookKind
    resource: GroupVersionResource
    subresource: str
    function: Callable[[Any, Any], object]
    model: type | None
    name: str | None = None
    operations: Collection[HookOperation] = _WRITES
    when: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = _TIMEOUT_SECONDS
    ignores_failures: bool = False

    def __post_init__(self) -> None:
        check_callable(self.function, f"{self.kind}(object, review)", 2)
        if self.name is not None and not (
            isinstance(self.name, str) and _NAME.fullmatch(self.name)
        ):
            reason = f"must be lower case letters, digits and hyphens, got {self.name!r}"
            raise InvalidArgumentError("name", reason)
        if self.model is not None:
            check_model(self.model)
        object.__setattr__(self, "operations", self._checked_operations())
        if not isinstance(self.when, Mapping):
            what = type(self.when).__name__
            raise InvalidTypeError("when", f"must be expressions by names, not {what}")
        for name, text in self.when.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name.lower()) or name in OWN:
                reason = (
                    f"must have names such as 'large', other than {' and '.join(OWN)}: {name!r}"
                )
                raise InvalidArgumentError("when", reason)
            if not isinstance(text, str) or not text.strip():
                raise InvalidArgumentError("when", f"must be expressions in CEL, got {text!r}")
        check_seconds("timeout_seconds", self.timeout_seconds)
        if not 1 <= self.timeout_seconds <= _MAX_TIMEOUT_SECONDS or self.timeout_seconds % 1:
            reason = f"must be whole seconds from 1 to 30, got {self.timeout_seconds:g}"
            raise InvalidArgumentError("timeout_seconds", reason)
        check_flag("ignores_failures", self.ignores_failures)

    def _checked_operations(self) -> tuple[HookOperation, ...]:
        if isinstance(self.operations, str):
            reason = f"must be several, not the text {self.operations!r}"
            raise InvalidTypeError("operations", reason)
        allowed = _WRITES if self.kind == "default" else get_args(HookOperation)
        check_iterable("operations", self.operations, shown=" or ".join(allowed))
        found = tuple(self.operations)
        if not found:
            raise InvalidArgumentError("operations", "must not be empty")
        for one in found:
            check_choice("operations", one, allowed)
        return tuple(one for one in get_args(HookOperation) if one in found)

    @property
    def path(self) -> str:
        """The path of its URL."""
        return f"/{self.kind}/{self.name}"

    def overlaps(self, other: Hook) -> bool:
        """Return whether both would be asked about one request, for the same purpose.

        In whatever version it is written, the server converts the object to that of each hook.
        """
        mine, theirs = self.resource, other.resource
        is_one = (mine.group, mine.resource) == (theirs.group, theirs.resource)
        if not is_one or (self.kind, self.subresource) != (other.kind, other.subresource):
            return False
        return not set(self.operations).isdisjoint(other.operations)
