"""Reviews the writes of clients: by policies, and by webhooks.

A write is decided in one step, under the lock of the storage, and a webhook takes time. So a write
that needs an answer is abandoned, and begun again with the answer; if the object has changed
meanwhile, the webhook is asked about the new one.

Source:
    k8s.io/apiserver pkg/admission/plugin/webhook/mutating/dispatcher.go.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pyinformer.objects import JSONObject, LabelSelector
from pyinformer.testing.apiserver.admission._attributes import GROUP, Attributes
from pyinformer.testing.apiserver.admission._policies import PolicySet
from pyinformer.testing.apiserver.admission._webhooks import Ask, Webhook
from pyinformer.testing.apiserver.requests import Failure
from pyinformer.testing.apiserver.resources import Registry, ResourceType
from pyinformer.testing.apiserver.storage import Selection, Storage, key_of

_T = TypeVar("_T")
_VERSION: Final = "v1"
_MUTATING: Final = "mutatingwebhookconfigurations"
_VALIDATING: Final = "validatingwebhookconfigurations"
_POLICIES: Final = "validatingadmissionpolicies"
_MUTATIONS: Final = "mutatingadmissionpolicies"
_BINDINGS: Final = ("validatingadmissionpolicybindings", "mutatingadmissionpolicybindings")
_PLURALS: Final = (_MUTATING, _VALIDATING, _POLICIES, _MUTATIONS)
_ATTEMPTS: Final = 50  # of a write whose object others change meanwhile
_Key: TypeAlias = tuple[str, ...]


class HookSource(Protocol):
    """The hooks of an operator in this process."""

    def configurations(self) -> Sequence[JSONObject]:
        """Return the configurations that make a server ask them."""
        ...

    async def answer(self, path: str, review: bytes, timeout_seconds: float) -> tuple[int, bytes]:
        """Answer a review as their server would.

        Raises:
            OSError: nothing answers the path.

        Cancellation:
            Reaches the hook's function.
        """
        ...


class Admission:
    """What reviews the writes to one storage.

    Args:
        storage: has policies, configurations, namespaces and params.
        registry: the served resources.
        rng: the generator of uids and generated names.
    """

    def __init__(self, storage: Storage, registry: Registry, rng: random.Random) -> None:
        self._rng = rng
        self._storage = storage
        self._registry = registry
        self._sources: tuple[HookSource, ...] = ()

    def add(self, source: HookSource) -> None:
        """Ask the hooks of an operator, too; from any thread."""
        self._sources = (*self._sources, source)

    def review(self, user: JSONObject, *, names: bool = True) -> WriteReview | None:
        """Return what reviews one request; None if nothing is to be asked.

        Args:
            user: who writes: its `userInfo`.
            names: see WriteReview.
        """
        if not self._sources and not any(map(self._has, _PLURALS)):
            return None
        return WriteReview(self, user, names=names, seed=self._rng.getrandbits(64))

    def webhooks(self, plural: str) -> list[Webhook]:
        """Return the webhooks of one kind, in the order in which they are asked."""
        own = [(source, one) for source in self._sources for one in source.configurations()]
        kind = "Mutating" if plural == _MUTATING else "Validating"
        places = {
            one["metadata"]["name"]: (source, one)
            for source, one in own
            if one["kind"].startswith(kind)
        }
        stored = {str(one["metadata"]["name"]): one for one in self.objects(plural)}
        found: list[Webhook] = []
        for name in sorted({*stored, *places}):
            source, configuration = places.get(name, (None, {}))
            for spec in stored.get(name, configuration).get("webhooks") or ():
                ask = None if source is None else _asking(source, spec)
                found.append(Webhook(spec=spec, ask=ask, mutates=plural == _MUTATING))
        return found

    def policies(self) -> PolicySet:
        """Return the policies that are in force."""
        return PolicySet(
            validating=self.objects(_POLICIES),
            mutating=self.objects(_MUTATIONS),
            bindings=[one for plural in _BINDINGS for one in self.objects(plural)],
            params=self._params,
            versions=self.versions,
        )

    def versions(self, resource: ResourceType) -> Sequence[ResourceType]:
        """Return the other versions of a resource that are served."""
        return [one for one in self._registry.all() if one != resource and _is_same(one, resource)]

    def namespace_object(self, name: str) -> JSONObject:
        """Return a Namespace; one that does not exist has the labels that the server sets."""
        namespaces = self._registry.find("", "v1", "namespaces")
        found = None if namespaces is None else self._storage.get(namespaces, name)
        if found is not None:
            return found.to_dict()
        return {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}

    def objects(self, plural: str) -> list[JSONObject]:
        """Return what is stored of policies or configurations, by their names."""
        resource = self._registry.find(GROUP, _VERSION, plural)
        return (
            [] if resource is None else [one.to_dict() for one in self._storage.state(resource)[0]]
        )

    def _has(self, plural: str) -> bool:
        resource = self._registry.find(GROUP, _VERSION, plural)
        return resource is not None and bool(self._storage.state(resource)[0])

    def _params(
        self, kind: JSONObject, reference: JSONObject, namespace: str
    ) -> Sequence[JSONObject] | None:
        resource = self._registry.find_kind(str(kind["apiVersion"]), str(kind["kind"]))
        if resource is None:
            return None
        place = str(reference.get("namespace") or namespace) if resource.namespaced else ""
        if reference.get("name"):
            found = self._storage.get(resource, key_of(place, str(reference["name"])))
            return [] if found is None else [found.to_dict()]
        selection = Selection(
            resource,
            namespace=place,
            label_selector=str(LabelSelector.parse(reference.get("selector"))),
        )
        return [one.to_dict() for one in self._storage.state(resource)[0] if selection.matches(one)]


@dataclass(slots=True)
class _Needed(Exception):  # noqa: N818 - no error: an answer is needed
    """A write waits for the answers of webhooks."""

    key: _Key
    attributes: Attributes
    mutates: bool


@dataclass(slots=True)
class WriteReview:
    """Reviews one request, which may write several objects.

    Args:
        admission: what reviews.
        user: who writes: its `userInfo`.
        names: whether the request names the object; that of a collection does not.
    """

    admission: Admission
    user: JSONObject
    names: bool = True
    warnings: list[str] = field(default_factory=list)
    """What the client is warned of, so far."""
    seed: int = 0
    """Of the uids and names that the server makes."""
    _answers: dict[_Key, JSONObject] = field(default_factory=dict)

    @property
    def rng(self) -> random.Random:
        """See Reviewer."""
        return random.Random(self.seed)

    async def perform(self, write: Callable[[], _T]) -> _T:
        """Carry out a write, with the answers that it needs.

        Args:
            write: carries it out, and reviews it by this object.

        Raises:
            Failure: it is refused.

        Cancellation:
            Nothing is written.
        """
        asked = Counter[_Key]()  # a request may write any number of objects
        while True:
            try:
                return write()
            except _Needed as found:
                needed = found  # answered outside: what a hook raises is not of this one
            *place, _ = needed.key
            asked[tuple(place)] += 1
            if asked[tuple(place)] > _ATTEMPTS:
                message = "the object changes whenever webhooks have been asked about it"
                raise Failure(409, message)
            self._answers[needed.key] = await self._answer(needed)

    def mutated(
        self,
        resource: ResourceType,
        old: JSONObject | None,
        body: JSONObject,
        *,
        subresource: str,
        dry_run: bool,
    ) -> JSONObject:
        """See Reviewer."""
        about = _attributes(self, resource, old, body, subresource=subresource, dry_run=dry_run)
        return self._reviewed(about, mutates=True)

    def check(
        self,
        resource: ResourceType,
        old: JSONObject | None,
        body: JSONObject | None,
        *,
        subresource: str,
        dry_run: bool,
    ) -> None:
        """See Reviewer."""
        about = _attributes(self, resource, old, body, subresource=subresource, dry_run=dry_run)
        self._reviewed(about, mutates=False)

    def _reviewed(self, attributes: Attributes, *, mutates: bool) -> JSONObject:
        version = (attributes.old or {}).get("metadata", {}).get("resourceVersion", "")
        written = attributes.old if attributes.state is None else attributes.state
        name = str((written or {}).get("metadata", {}).get("name", ""))
        place = (attributes.subresource, attributes.namespace, name)
        key = ("change" if mutates else "check", *place, version)
        if key not in self._answers:
            raise _Needed(key, attributes, mutates)
        return copy.deepcopy(self._answers[key])

    async def _answer(self, needed: _Needed) -> JSONObject:
        if needed.mutates:
            return await self._change(needed.attributes)
        if needed.attributes.operation == "DELETE":  # nothing to change, but it may be refused
            await self._ask(_MUTATING, needed.attributes)
        self.warnings += self.admission.policies().check(needed.attributes)
        await self._ask(_VALIDATING, needed.attributes)
        return {}

    async def _change(self, attributes: Attributes) -> JSONObject:
        self.admission.policies().refuse_mutations(attributes)
        versions = self.admission.versions(attributes.resource)
        asked: list[Webhook] = []
        outdated = 0  # so many of them have not seen the latest change
        for webhook in self.admission.webhooks(_MUTATING):
            if (seen := webhook.seen(attributes, versions)) is None:
                continue
            changed = await self._changed_by(webhook, attributes, seen)
            if changed is not attributes:
                outdated = len(asked)
            attributes = changed
            asked.append(webhook)
        for number, webhook in enumerate(asked):
            seen = webhook.seen(attributes, versions)
            if number >= outdated or not webhook.repeats or seen is None:
                continue
            changed = await self._changed_by(webhook, attributes, seen)
            if changed is not attributes:
                outdated = len(asked)  # those that follow have not seen this change
            attributes = changed
        return attributes.state or {}

    async def _changed_by(
        self, webhook: Webhook, attributes: Attributes, seen: Attributes
    ) -> Attributes:
        """Return a write as one webhook has changed it; the same one if it has not."""
        changed = await webhook.answer(seen, self.warnings)
        if changed is None or changed == seen.state:
            return attributes
        version = (attributes.state or {}).get("apiVersion")
        return attributes.with_state({**changed, "apiVersion": version})

    async def _ask(self, plural: str, attributes: Attributes) -> None:
        versions = self.admission.versions(attributes.resource)
        for webhook in self.admission.webhooks(plural):
            seen = webhook.seen(attributes, versions)
            if seen is not None:
                await webhook.answer(seen, self.warnings)


def _attributes(
    review: WriteReview,
    resource: ResourceType,
    old: JSONObject | None,
    body: JSONObject | None,
    *,
    subresource: str,
    dry_run: bool,
) -> Attributes:
    metadata = ((old if body is None else body) or {}).get("metadata") or {}
    name, namespace = str(metadata.get("name") or ""), str(metadata.get("namespace") or "")
    return Attributes(
        operation="DELETE" if body is None else "CREATE" if old is None else "UPDATE",
        resource=resource,
        subresource=subresource,
        namespace=name if resource.qualified_name == "namespaces" else namespace,
        name=name if review.names else "",
        state=copy.deepcopy(body),  # the write that it is of has other plans with it
        old=copy.deepcopy(old),
        user=review.user,
        dry_run=dry_run,
        namespace_object=review.admission.namespace_object,
    )


def _is_same(one: ResourceType, other: ResourceType) -> bool:
    return (one.group, one.plural) == (other.group, other.plural)


def _asking(source: HookSource, spec: JSONObject) -> Ask:
    config = spec.get("clientConfig") or {}
    path = (config.get("service") or {}).get("path") or urlsplit(str(config.get("url"))).path
    return partial(source.answer, str(path))
