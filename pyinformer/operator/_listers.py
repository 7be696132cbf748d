"""The caches of an operator on one cluster, as reconciles and mappings read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast, final

from pyinformer.cache.informer import Scope, SharedInformer
from pyinformer.cache.store import Lister
from pyinformer.errors import InformerError, InvalidArgumentError
from pyinformer.objects import GroupVersionResource, Selector, V


@final
class Listers:
    """Reads the caches of an operator on one cluster; a mapping with two arguments gets it.

    `Operator.lister` reads the same caches. It may be used in any thread.
    """

    def __init__(self) -> None:
        self._informers: dict[Scope, SharedInformer[Any]] = {}  # by what was declared

    def add(self, declared: Scope, informer: SharedInformer[Any]) -> None:
        """Add a cache; for the operator itself.

        Args:
            declared: what was declared: its resource and selectors, without namespaces.
            informer: follows it.
        """
        self._informers = {**self._informers, declared: informer}  # threads may read the other

    @contextmanager
    def reading(self, informers: Mapping[Scope, SharedInformer[Any]]) -> Iterator[None]:
        """Read further caches; not any more if the block raises. For the operator itself."""
        for declared, informer in informers.items():
            self.add(declared, informer)
        try:
            yield
        except InformerError:
            known = self._informers.items()
            kept = {scope: one for scope, one in known if informers.get(scope) is not one}
            self._informers = kept
            raise

    def lister(
        self,
        api_version: str,
        plural: str,
        *,
        label_selector: Selector = None,
        field_selector: Selector = None,
        model: type[V] | None = None,
    ) -> Lister[V]:
        """Return the lister of a resource that the operator follows.

        Args:
            api_version: `v1`, or `group/version`.
            plural: the resource's plural name.
            label_selector: that of one of several caches of the resource. Without selectors it is
                the cache without selectors, or else the only one.
            field_selector: as `label_selector`.
            model: what the `view` of the objects is, as declared; for type checkers.

        Raises:
            InvalidArgumentError: the resource is not followed, or with other selectors, or with
                another model; the error names what is followed.
            InvalidSelectorError: a selector cannot be parsed.
        """
        scope = Scope.of(api_version, plural, None, label_selector, field_selector)
        informer = self._informers.get(scope) or self._shared(scope) or self._only_one(scope)
        if model is not None and informer.settings.model is not model:
            kept = informer.settings.model
            now = "no model" if kept is None else f"the model {kept.__name__}"
            wanted = f"model={model.__name__}"
            reason = (
                f"the cache of {scope} has {now} (that of a reconcile is decoded for its calls"
                f" alone): declare it with {wanted} in owns=, watches= or follow()"
            )
            raise InvalidArgumentError("model", reason)
        return cast("Lister[V]", informer.lister)

    def _shared(self, scope: Scope) -> SharedInformer[Any] | None:
        """Return the cache of this process's share of a scope, if there is one."""
        found = self._informers.items()
        return next((one for it, one in found if replace(it, uid_range=None) == scope), None)

    def _only_one(self, scope: Scope) -> SharedInformer[Any]:
        """Return the only cache of a resource, for a read without selectors."""
        found = [one for declared, one in self._informers.items() if _is_part(declared, scope)]
        if len(found) == 1:
            return found[0]
        if found:
            reason = (
                f"{scope} is followed by {len(found)} caches with different selectors: name one by"
                " its label_selector= or field_selector="
            )
        else:
            reason = f"{scope} is not followed, and a read does not start a watch: {cure(scope)}"
        followed = "; ".join(sorted(map(str, self._informers)))
        raise InvalidArgumentError("plural", f"{reason}. Followed are: {followed}")


def _is_part(declared: Scope, scope: Scope) -> bool:
    return declared.resource == scope.resource and not scope.is_selective


def cure(scope: Scope) -> str:
    """Return how to make an operator follow a resource."""
    resource: GroupVersionResource = scope.resource
    labels, fields = str(scope.label_selector), str(scope.field_selector)
    selectors = (("label_selector", labels), ("field_selector", fields))
    chosen = "".join(f', {name}="{text}"' for name, text in selectors if text)
    call = f'app.follow("{resource.api_version}", "{resource.resource}"{chosen})'
    return f"name it in owns= or watches=, or call {call} before the operator runs"
