"""Reading a cache as models: the lister of a typed informer."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from pyinformer.errors import ModelMismatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyinformer.apimachinery import KubeObject, LabelSelector
    from pyinformer.store._index import IndexValue
    from pyinformer.store._lister import Lister
    from pyinformer.store._models import Models

M = TypeVar("M")


@final
class TypedLister(Generic[M]):
    """Reads a cache as models: `deployments.lister["shop/web"].spec.replicas`; from any thread.

    It reads like a Lister. A model that cannot be changed is decoded at the first read of its
    version, and all readers get that one; of any other model, each reader gets its own.

    Args:
        objects: reads the objects.
        models: decodes and keeps the models.
    """

    def __init__(self, objects: Lister[Any], models: Models[M]) -> None:
        self.objects: Lister[Any] = objects
        """Reads the same cache as KubeObjects, with all metadata."""
        self._models = models

    @property
    def model(self) -> type[M]:
        """The class of the models."""
        return self._models.model

    @property
    def private_because(self) -> str:
        """Why each reader gets a model of its own; empty if all readers share one.

        It names the field of the model that a reader could change.
        """
        return self._models.private_because

    @property
    def staleness(self) -> str:
        """Why the cache may be behind the server; see `Lister.staleness`."""
        return self.objects.staleness

    def fresh(self, *, max_age_seconds: float) -> TypedLister[M]:
        """Return a lister of the same models that raises when the cache may be too old.

        Args:
            max_age_seconds: how long ago the last proof may be; see `Lister.fresh`.

        Returns:
            A lister whose reads raise StaleCacheError, too.

        Raises:
            InvalidArgumentError: the age is not a number >= 0, or the age of the cache is unknown.
        """
        return TypedLister(self.objects.fresh(max_age_seconds=max_age_seconds), self._models)

    def of(self, obj: KubeObject[Any]) -> M:
        """Return the model of an object that the caller has, in a reconcile for example.

        Raises:
            ModelMismatchError: the object does not fit the model.
        """
        return self._models.of(obj)

    def get(self, key: str, *, allow_unsynced: bool = False) -> M | None:
        """Return an object as a model, or None if there is none; otherwise as `Lister.get`.

        Raises:
            ModelMismatchError: the object does not fit the model.
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            NotCachedError: the namespace is not watched.
            InvalidTypeError: the key is not a text.
        """
        found = self.objects.get(key, allow_unsynced=allow_unsynced)
        return None if found is None else self._models.of(found)

    def __getitem__(self, key: str) -> M:
        """Return an object as a model; otherwise as `get`.

        Raises:
            ObjectNotFoundError: there is none with this key.
        """
        return self._models.of(self.objects[key])

    def __contains__(self, key: str) -> bool:
        return key in self.objects

    def list(
        self,
        *,
        namespace: str | None = None,
        label_selector: str | Mapping[str, object] | LabelSelector | None = None,
        allow_unsynced: bool = False,
    ) -> builtins.list[M]:
        """Return the objects whose labels match, as models; otherwise as `Lister.list`.

        An object that does not fit the model is left out: `mismatches()` returns why.

        Args:
            namespace: only objects of this namespace; None for all.
            label_selector: a text or a mapping; None for all.
            allow_unsynced: return what is cached, even if it is incomplete.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            NotCachedError: the namespace is not watched.
            InvalidSelectorError: the selector cannot be parsed.
        """
        lister = self.objects if namespace is None else self.objects.namespace(namespace)
        found = lister.list(label_selector=label_selector, allow_unsynced=allow_unsynced)
        return self._read(found)[0]

    def by_index(
        self,
        name: str,
        value: IndexValue,
        *,
        namespace: str | None = None,
        allow_unsynced: bool = False,
    ) -> builtins.list[M]:
        """Return the objects that an index has under a value, as models.

        An object that does not fit the model is left out, as by `list`.

        Args:
            name: the name of the index.
            value: the value.
            namespace: only objects of this namespace, which alone has to have synced; None for all.
            allow_unsynced: return what is cached, even if it is incomplete.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
            NotCachedError: the namespace is not watched.
            IndexNotFoundError: there is no such index.
        """
        lister = self.objects if namespace is None else self.objects.namespace(namespace)
        return self._read(lister.by_index(name, value, allow_unsynced=allow_unsynced))[0]

    def mismatches(self, *, allow_unsynced: bool = False) -> builtins.list[ModelMismatchError]:
        """Return an error for each cached object that does not fit the model, with its key.

        Raises:
            CacheNotSyncedError: the first sync is not done.
            LifecycleError: the informer is closed, or has crashed.
        """
        return self._read(self.objects.list(allow_unsynced=allow_unsynced))[1]

    def _read(
        self, objects: Iterable[KubeObject[Any]]
    ) -> tuple[builtins.list[M], builtins.list[ModelMismatchError]]:
        of = self._models.of
        models: builtins.list[M] = []
        errors: builtins.list[ModelMismatchError] = []
        for obj in objects:
            try:
                models.append(of(obj))
            except ModelMismatchError as error:
                errors.append(error.with_traceback(None))
        return models, errors
