"""The face of a set of children for one reconcile: apply them, wait for them, return the status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from functools import wraps
from inspect import CORO_CLOSED, getcoroutinestate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, final

from pyinformer import readiness
from pyinformer.children._apply_set import (
    PART_OF,
    OwnerMarks,
    Stage,
    check_stage,
    child_labels,
    mark_child,
    set_name_of,
)
from pyinformer.client.cluster import (
    Body,
    Cluster,
    Target,
    apply_converted,
    body_of,
    check_secret,
    has_only_metadata,
    kind_of,
    target_in,
)
from pyinformer.controller import Result, set_controller_reference
from pyinformer.errors import (
    AlreadyOwnedError,
    APIStatusError,
    ChildrenNotReadyError,
    InvalidArgumentError,
    InvalidTypeError,
    LifecycleError,
    NotFoundError,
)
from pyinformer.objects import (
    JSONObject,
    KubeObject,
    OwnerReference,
    check_iterable,
    check_seconds,
    check_type,
    split_api_version,
)
from pyinformer.readiness import Readiness

if TYPE_CHECKING:
    from pyinformer.children._member_caches import MemberCaches
    from pyinformer.children._owner import OwnerWrites

ReadinessRules = Mapping[tuple[str, str], Callable[[JSONObject], Readiness]]

_F = TypeVar("_F", bound=Callable[..., Coroutine[Any, Any, object]])

_WITHOUT_STATE = frozenset({"ConfigMap", "Secret"})  # of the core group: there is nothing to await


class Identity(NamedTuple):
    """Which object a child is, in whatever version it is read or written."""

    kind: str
    """Without its version, as `Part.acme.io`."""
    key: str


class Applied(NamedTuple):
    """A child that this reconcile has applied."""

    stage: Stage
    object: KubeObject


class _Draft(NamedTuple):
    identity: Identity
    body: JSONObject
    target: Target
    current: KubeObject[Any] | None
    has_reference: bool


def _awaited(method: _F) -> _F:
    """Note each call of a method, so that one without `await` is found."""

    @wraps(method)
    def call(self: Children, *args: object, **kwargs: object) -> Awaitable[object]:
        name = method.__name__
        if self._left is not None:
            reason = f"children.{name}() was called after the function had returned: await it there"
            raise LifecycleError(reason)
        made = method(self, *args, **kwargs)
        self._calls.append((name, made))
        self.unfinished += name == "apply"  # also of a task that is cancelled before it runs
        return made

    return cast("_F", call)


@final
class Children:
    """The objects that one object owns, as one call of its reconcile function wants them.

    A function whose third argument is called `children` gets them in place of the cluster:

        @app.reconcile("acme.io/v1", "databases", model=Database, owns=[...])
        async def reconcile(request, database, children):
            await children.apply([secret(database), service(database)])
            await children.ready()
            await children.apply([stateful_set(database)], stage="data")
            return children.status(DatabaseStatus(...))

    When the function has returned, the children of earlier calls that it has not applied again are
    deleted. An error, `ready()` that waits, or a call without any `apply` deletes nothing.

    Attributes:
        cluster: the cluster, for all else.
    """

    def __init__(
        self,
        cluster: Cluster,
        owner: OwnerWrites,
        caches: MemberCaches,
        *,
        name: str,
    ) -> None:
        self.cluster: Cluster = cluster
        self._owner = owner
        self._caches = caches
        self._name = name
        self._labels = child_labels(owner.object, name)
        self._reference: JSONObject | None = None  # to the owner, once it is known
        self._stages: dict[str, Stage] = {}
        self.applied: dict[Identity, Applied] = {}
        """What this call has applied so far."""
        self._calls: list[tuple[str, Coroutine[Any, Any, object]]] = []
        self._left: list[str] | None = None  # those that had not ended when the function returned
        self.unfinished: int = 0
        """Calls of `apply` that have not applied all, whether the function knows or not."""
        self.taken_over: list[str] = []
        """Applied children that existed before, and that no object controlled."""
        self.waits: ChildrenNotReadyError | None = None
        """What the last `ready` has raised."""
        self.ready_calls: int = 0
        """How often `ready` was called."""
        self.problem: str = ""
        """Why a child could not be applied, as the server said it."""
        self.given: Body | None = None
        """What `status` was called with."""
        self.rules: ReadinessRules | None = None
        """The rules of the last `ready`."""

    @property
    def has_applied(self) -> bool:
        """Whether this call has called `apply`, be it for no objects."""
        return bool(self._stages)

    @property
    def owner(self) -> KubeObject:
        """The object that owns them, in the newest version that this call knows."""
        return self._owner.object

    @_awaited
    async def apply(self, objects: Iterable[Body], *, stage: str = "") -> list[KubeObject]:
        """Make these objects be there, with an owner reference; nothing is sent if they are so.

        Fields of theirs that others have changed are set back. All are checked before the first is
        written. If the server refuses one, the others are still applied, and its error is raised.

        Args:
            objects: dicts or models, each with apiVersion, kind and a name. Without a namespace
                they are in that of their owner. Of other namespaces, or of a cluster-scoped kind,
                they have no owner reference: a finalizer of the owner deletes them.
            stage: the name of a part of them, such as `data`. When the owner is deleted, a
                finalizer deletes the stages in reverse order, each when the next is gone.

        Returns:
            The objects as the server has them, in the same order.

        Raises:
            InvalidArgumentError: an object lacks a name, is not among those that the function
                owns, or was applied before in this call; or the owner's annotations have no room.
            AlreadyOwnedError: another object, or another function, has one of them.
            NotFoundError: the server does not serve its kind.
            APIStatusError: the server refused.
            TransportError: no response arrived; some may have been applied.
            LifecycleError: the function has returned.

        Cancellation:
            Some may have been applied; the next call applies the others.
        """
        check_stage(stage)
        if isinstance(objects, Mapping | KubeObject | str):
            raise InvalidArgumentError("objects", "must be a list of objects, not one of them")
        check_iterable("objects", objects, shown="a list of objects")
        chosen = self._stages.setdefault(stage, Stage(len(self._stages) + 1, stage))
        found = await self._apply(await self._marked(objects, chosen), chosen)
        self.unfinished -= 1
        return found

    async def _marked(self, objects: Iterable[Body], stage: Stage) -> Collection[_Draft]:
        """Return all children, after their owner was marked with where they will be."""
        try:
            drafts = await self._drafts(objects, stage)
            await self._mark_owner(drafts)
        except (AlreadyOwnedError, InvalidArgumentError, InvalidTypeError, NotFoundError) as error:
            self.problem = str(error)
            raise
        return drafts

    async def _drafts(self, objects: Iterable[Body], stage: Stage) -> Collection[_Draft]:
        """Return all children with their marks, checked before the first is written."""
        drafts: dict[Identity, _Draft] = {}
        for number, obj in enumerate(objects):
            draft = await self._draft(f"objects[{number}]", obj, stage)
            if draft.identity in drafts or draft.identity in self.applied:
                reason = f"is {' '.join(draft.identity)}, which was applied before"
                raise InvalidArgumentError(f"objects[{number}]", reason)
            drafts[draft.identity] = draft
        return drafts.values()

    @_awaited
    async def ready(
        self, *, timeout_seconds: float | None = None, rules: ReadinessRules | None = None
    ) -> bool:
        """End this call unless all children that were applied so far are ready.

        The function is called again when a child changes; until then nothing is requested. That it
        waits, for which child and for how long, is in the status of the controller, and in the
        condition `Ready` of the owner.

        Args:
            timeout_seconds: how long they may take before the condition says `DeadlineExceeded`,
                counted in this process; the function is called then once more. None for any time.
            rules: as for `readiness.of`.

        Returns:
            True; if they are not ready, the call does not return.

        Raises:
            ChildrenNotReadyError: one of them is not ready, or could not be applied. It is not an
                error of the function. One that catches it still waits when it has returned.
            InvalidArgumentError: the cache of one of them keeps its metadata alone.
            LifecycleError: the function has returned.

        Cancellation:
            Safe.
        """
        if timeout_seconds is not None:
            check_seconds("timeout_seconds", timeout_seconds)
        self.rules = rules
        self.ready_calls += 1
        if self.unfinished > self._open_calls().count("apply"):  # those may still apply all
            problem = self.problem or "a child could not be applied"
            self.waits = ChildrenNotReadyError([problem], timeout_seconds=timeout_seconds)
        else:
            self.waits = self.not_ready(timeout_seconds)
        if self.waits is not None:
            raise self.waits
        return True

    def end_calls(self) -> None:
        """Record that the function has returned, and which of its calls have not ended."""
        self._left = self._open_calls()
        self._calls.clear()  # Python warns of one that was never awaited when nothing holds it

    def _open_calls(self) -> list[str]:
        """Return the calls that have not ended, such as those that were never awaited."""
        return [name for name, one in self._calls if getcoroutinestate(one) != CORO_CLOSED]

    def check_ended(self) -> None:
        """Refuse what the function has returned while a call has not ended.

        Raises:
            LifecycleError: what that call would apply looks as if it had left the set.
        """
        if self._left:
            name = self._left[0]
            reason = (
                f"children.{name}() has not ended: write `await children.{name}(...)`; nothing was"
                " deleted, and the status was not written"
            )
            raise LifecycleError(reason)

    def status(self, status: Body, *, requeue_after_seconds: float | None = None) -> Result:
        """Have a status written when the function has returned: `return children.status(...)`.

        It is written once, and not if nothing is new. If its model has `conditions`, they get a
        condition `Ready`, which is true if all children are ready, unless the status has another
        one itself. If it has `observedGeneration`, that is set.

        Args:
            status: the whole status, as for `Cluster.status`.
            requeue_after_seconds: as for `Result`.
        """
        self.given = status
        return Result(requeue_after_seconds)

    def not_ready(self, timeout_seconds: float | None = None) -> ChildrenNotReadyError | None:
        """Return which of the applied children are not ready, and why; None if all are.

        Args:
            timeout_seconds: how long they may take.
        """
        texts, stages, has_failed = list[str](), list[Stage](), False
        for (_, key), (stage, obj) in self.applied.items():
            answer = self._readiness(obj)
            if answer.state != "Ready":
                texts.append(f"{obj.gvk.kind} {key}: {answer.reason}")
                stages.append(stage)
                has_failed |= answer.state == "Failed"
        if not texts:
            return None
        return ChildrenNotReadyError(
            texts, stage=stages[0].name, timeout_seconds=timeout_seconds, has_failed=has_failed
        )

    def _readiness(self, obj: KubeObject) -> Readiness:
        kind = obj.gvk
        if has_only_metadata(obj):
            if not kind.group and kind.kind in _WITHOUT_STATE:
                return Readiness("Ready", "exists")
            reason = (
                f"keeps the metadata of {kind.kind} alone, which does not say whether it is ready:"
                " own it without memory='metadata'"
            )
            raise InvalidArgumentError("memory", reason)
        return readiness.of(obj, rules=self.rules)

    async def _draft(self, argument: str, obj: Body, stage: Stage) -> _Draft:
        """Return a child with its marks, checked."""
        body, owner = body_of(obj, argument), self.owner
        metadata, kind = body.get("metadata"), body.get("kind")
        if not (isinstance(metadata, dict) and metadata.get("name")):
            reason = (
                f"({kind or 'an object'}) must have metadata.name: the next call finds it by its"
                " name, so that generateName does not do"
            )
            raise InvalidArgumentError(argument, reason)
        discovery = self.cluster.discovery
        api = await kind_of(discovery, body, argument)
        if api.namespaced and not metadata.get("namespace"):
            if not owner.metadata.namespace:
                reason = f"({kind} {metadata['name']}) must have a namespace: its owner has none"
                raise InvalidArgumentError(argument, reason)
            metadata["namespace"] = owner.metadata.namespace
        target = await target_in(discovery, api, body, argument=argument)
        check_secret(target, body, argument)
        for name in ("labels", "annotations"):
            check_type(
                argument, metadata.get(name) or {}, dict, shown=f"an object whose {name} are a dict"
            )
        namespace = target.namespace
        has_reference = owner.metadata.namespace in ("", namespace)
        self._caches.check(argument, api.resource, body)
        if not has_reference and self._caches.is_share(api.resource):
            reason = (
                f"({kind} {metadata['name']}) is outside of its owner's namespace, where a"
                " Shard does not find it again: use Buckets()"
            )
            raise InvalidArgumentError(argument, reason)
        if has_reference:
            self._set_reference(owner, body)
        mark_child(body, owner, self._labels, stage, has_reference=has_reference)
        current = self._caches.current(api.resource, target.key)
        if current is not None:
            self._check_free(api.kind, current)
        identity = Identity(api.gvk.group_kind, target.key)
        return _Draft(identity, body, target, current, has_reference)

    def _set_reference(self, owner: KubeObject, body: JSONObject) -> None:
        """Make the owner the controller of a child."""
        metadata, known = body["metadata"], self._reference
        if known and not metadata.get("ownerReferences") and body["kind"] != owner.gvk.kind:
            metadata["ownerReferences"] = [{**known}]
            return
        set_controller_reference(owner, body)
        (*others, mine) = metadata["ownerReferences"]
        if not others and body.get("kind") != owner.gvk.kind:  # else it might be the owner itself
            self._reference = mine

    def _check_free(self, kind: str, current: KubeObject[Any]) -> None:
        """Refuse a child that another owner, or another function, has.

        Raises:
            AlreadyOwnedError: naming it.
        """
        owner, meta = self.owner, current.metadata
        other = next(filter(None, map(self._other_controller, meta.owner_references)), "")
        set_id = meta.labels.get(PART_OF)
        if not other and set_id not in (None, self._labels[PART_OF]):
            other = f"the apply set {set_id}"
        if not other and set_id and set_name_of(current) not in ("", self._name):
            other = f"{set_name_of(current)}, for the same owner,"
        if other:
            mine = f"{owner.gvk.kind} {owner.key} ({self._name})"
            raise AlreadyOwnedError(key=f"{kind} {current.key}", controller=other, owner=mine)

    def _other_controller(self, reference: OwnerReference) -> str:
        """Return the owner of a reference that controls the child in place of ours, or nothing."""
        if not reference.controller or reference.uid == self.owner.metadata.uid:
            return ""
        kind = self.owner.gvk
        named = (split_api_version(reference.api_version)[0], reference.kind, reference.name)
        if named == (kind.group, kind.kind, self.owner.metadata.name):
            return ""  # an earlier owner of the same name: its reference is replaced
        return f"{reference.kind} {reference.name}"

    async def _mark_owner(self, drafts: Collection[_Draft]) -> None:
        """Write first where the children may be, so that none is lost whatever happens next."""
        own = self.owner.metadata.namespace
        namespaces = {one.body["metadata"].get("namespace") or "" for one in drafts}
        marks = OwnerMarks(
            frozenset(one.identity.kind for one in drafts), frozenset(namespaces - {own, ""})
        )
        is_outside = not all(one.has_reference for one in drafts)
        if drafts and (is_outside or len(self._stages) > 1):
            await self._owner.hold()
        if drafts:
            await self._owner.widen(marks)

    async def _apply(self, drafts: Iterable[_Draft], stage: Stage) -> list[KubeObject]:
        refused: list[tuple[_Draft, APIStatusError]] = []
        found: list[KubeObject] = []
        for draft in drafts:
            try:
                # force: these fields are the function's, which restores them after other changes
                obj = await apply_converted(self.cluster, draft.body, draft.target, draft.current)
            except APIStatusError as error:
                refused.append((draft, error))
                continue
            found.append(obj)
            if draft.current is not None and _is_free(draft.current):
                self.taken_over.append(f"{obj.gvk.kind} {draft.identity.key}")
            self.applied[draft.identity] = Applied(stage, obj)
        if refused:
            draft, first = refused[0]
            others = f" (and {len(refused) - 1} more were refused)" if len(refused) > 1 else ""
            kind = draft.identity.kind.partition(".")[0]
            self.problem = f"{kind} {draft.identity.key}: {first.message}{others}"
            raise first
        return found


def _is_free(current: KubeObject[Any]) -> bool:
    """Return whether an object was neither a child nor controlled before it was applied."""
    meta = current.metadata
    return PART_OF not in meta.labels and not any(one.controller for one in meta.owner_references)
