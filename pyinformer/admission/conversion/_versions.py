"""The versions of resources, and the shortest chain of functions from one to another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, final

from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import name_of, refuse_awaitable
from pyinformer.objects import GroupVersionResource, field_names

ConvertFunction: TypeAlias = Callable[[Any], Any]
"""Returns an instance of one model for an instance of another."""


class FunctionFailedError(Exception):
    """A function between two models raised, or returned something else than its target."""


@final
@dataclass(frozen=True)
class ConvertedVersion:
    """One version of a custom resource, with the model of its objects."""

    resource: GroupVersionResource
    """Its group, version and plural name."""
    kind: str
    """The kind of its objects."""
    model: type
    """A msgspec Struct, a dataclass or a pydantic model."""

    @property
    def name(self) -> str:
        """The name of the resource, without a version: `databases.acme.io`."""
        return f"{self.resource.resource}.{self.resource.group}"

    @cached_property
    def fields(self) -> frozenset[str]:
        """The names of the model's fields, as in an object."""
        return field_names(self.model)

    def __str__(self) -> str:
        return f"{self.resource.api_version} ({self.model.__name__})"


Functions: TypeAlias = Mapping[tuple[ConvertedVersion, ConvertedVersion], ConvertFunction]
"""The functions, by the versions from and to which they convert."""


@final
class Step(NamedTuple):
    """One function of a chain, and the version that it leads to."""

    function: ConvertFunction
    target: ConvertedVersion

    def take(self, value: object) -> object:
        """Call the function.

        Raises:
            FunctionFailedError: it raised, or returned something else than the target's model. An
                error that it raised is the cause, and its text is not shown.
        """
        name = name_of(self.function)
        try:
            found = self.function(value)
            refuse_awaitable(found, name)
        except ENDS_PROGRAM:
            raise
        except BaseException as error:
            raise FunctionFailedError(f"{name} raised {type(error).__name__}") from error
        if not isinstance(found, self.target.model):
            wanted = self.target.model.__name__
            raise FunctionFailedError(f"{name} returned a {type(found).__name__}, not a {wanted}")
        return found


def chain(
    functions: Functions, source: ConvertedVersion, target: ConvertedVersion
) -> tuple[Step, ...] | None:
    """Return the shortest chain of functions between two versions; None if there is none."""
    found: dict[ConvertedVersion, tuple[Step, ...]] = {source: ()}
    waiting = deque([source])
    while waiting and target not in found:
        place = waiting.popleft()
        for (start, end), function in functions.items():
            if start == place and end not in found:
                found[end] = (*found[place], Step(function, end))
                waiting.append(end)
    return found.get(target)


def unreachable(
    functions: Functions, versions: Iterable[ConvertedVersion]
) -> Iterator[tuple[ConvertedVersion, ConvertedVersion]]:
    """Yield the pairs of versions without a chain, first those that have one back."""
    known = list(versions)
    reverses = [(target, source) for source, target in functions if source in known]
    for source, target in (*reverses, *((one, other) for one in known for other in known)):
        if chain(functions, source, target) is None:
            yield source, target
