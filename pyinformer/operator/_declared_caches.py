"""Which caches an operator has: decided from everything that it declares, before it runs.

Declarations of the same resource and selectors share one cache, and must agree on how it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, final

from pyinformer.cache.informer import Memory, Scope
from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import GroupVersionResource
from pyinformer.operator._declarations import DEFAULT_MEMORY, check_kept

if TYPE_CHECKING:
    from pyinformer.cache.store import IndexFunction

Indexes: TypeAlias = "Mapping[GroupVersionResource, Mapping[str, str | IndexFunction]]"
"""The declared indexes of each resource, by name."""

_SECRETS: Final = GroupVersionResource.of("v1", "secrets")


@final
@dataclass(frozen=True, slots=True)
class Declaration:
    """A cache that one part of an operator needs."""

    by: str
    """The part, for errors: `owns= of 'databases'`."""
    scope: Scope
    """The resource and selectors, without namespaces."""
    model: type | None = None
    """None if it needs no `view`."""
    memory: Memory | None = None
    """None if it needs no particular one."""
    is_reconciled: bool = False
    """Whether reconciles get its objects, which are whole then."""


@final
@dataclass(frozen=True, slots=True)
class DeclaredCache:
    """One cache that an operator has, and how it is kept."""

    scope: Scope
    """The resource and selectors, without namespaces."""
    model: type | None
    memory: Memory
    indexes: Mapping[str, str | IndexFunction]
    secrets_kept_by: str = ""
    """The declaration because of which it keeps values of Secrets, though none asked for them."""


def declared_caches(
    declarations: Iterable[Declaration], indexes: Indexes
) -> tuple[DeclaredCache, ...]:
    """Return the caches of an operator.

    Args:
        declarations: what its parts need.
        indexes: each cache of a resource has all its indexes. A resource that is only indexed has a
            cache of all its objects.

    Raises:
        InvalidArgumentError: two declarations of one cache contradict each other.
        InvalidTypeError: objects cannot be decoded to a model.
    """
    found: dict[Scope, list[Declaration]] = {}
    for each in declarations:
        found.setdefault(each.scope, []).append(each)
    named = {scope.resource for scope in found}
    for resource in indexes:
        if resource not in named:
            scope = Scope.of(resource.api_version, resource.resource, None, None, None)
            found[scope] = [Declaration("index()", scope)]
    return tuple(_merged(each, indexes.get(scope.resource, {})) for scope, each in found.items())


def _merged(
    declarations: list[Declaration], indexes: Mapping[str, str | IndexFunction]
) -> DeclaredCache:
    """Return the cache that fits all declarations of one scope."""
    scope = declarations[0].scope
    model, memory = _model(declarations), _memory(declarations)
    check_kept(model, memory)
    reads_whole = any(one.is_reconciled or one.model is not None for one in declarations)
    is_chosen = memory is not None or reads_whole
    keeps_secrets = scope.resource == _SECRETS and not is_chosen
    return DeclaredCache(
        scope,
        model,
        memory or DEFAULT_MEMORY,
        indexes,
        secrets_kept_by=declarations[0].by if keeps_secrets else "",
    )


def _model(declarations: list[Declaration]) -> type | None:
    chosen = {one.model: one.by for one in declarations if one.model is not None}
    if len(chosen) > 1:
        scope = declarations[0].scope
        (first, first_by), (second, second_by) = list(chosen.items())[:2]
        reason = (
            f"{scope} has the model {first.__name__} by {first_by}, and {second.__name__} by"
            f" {second_by}, but one cache: declare one model with the fields of both"
        )
        raise InvalidArgumentError("model", reason)
    return next(iter(chosen), None)


def _memory(declarations: list[Declaration]) -> Memory | None:
    chosen = {one.memory: one.by for one in declarations if one.memory is not None}
    scope = declarations[0].scope
    if len(chosen) > 1:
        (first, first_by), (second, second_by) = list(chosen.items())[:2]
        reason = (
            f"{scope} has {first!r} by {first_by}, and {second!r} by {second_by}, but one cache:"
            " give both the same memory=, or different selectors"
        )
        raise InvalidArgumentError("memory", reason)
    memory = next(iter(chosen), None)
    whole = next((one for one in declarations if one.memory is None), None)
    if memory == "metadata" and whole is not None:
        cure = (
            "leave memory= out"
            if whole.is_reconciled
            else "leave memory= out, give both memory='metadata', or different selectors"
        )
        reason = (
            f"{scope} is 'metadata' by {chosen['metadata']}, but {whole.by} gets whole objects from"
            f" the same cache: {cure}"
        )
        raise InvalidArgumentError("memory", reason)
    return memory
