"""What happens around each call of a function with children: it ends in one of four ways.

It returns: what it has not applied again is deleted, and its status is written. It waits for
children: the status says for which. It fails: nothing is deleted. Its object is being deleted: the
function is not called, and the stages are deleted in reverse order if the owner has our finalizer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from pyinformer._runtime.clock import wall_time
from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import loop_time
from pyinformer.children._apply_set import (
    PART_OF,
    OwnerMarks,
    cleanup_finalizer_of,
    finalizer_of,
    is_child,
    owner_keys,
    owner_of_child,
    set_id,
    stage_of,
)
from pyinformer.children._children import Children, Identity
from pyinformer.children._member_caches import MemberCaches
from pyinformer.children._owner import CHANGED_SECONDS, OwnerWrites
from pyinformer.children._status import (
    CONDITIONS,
    LATE,
    Reason,
    Verdict,
    changes_more_than_text,
    composed,
    ready_condition,
)
from pyinformer.controller import Result, given_up_reason, invalid_result
from pyinformer.controller.sources import all_of, any_of
from pyinformer.errors import (
    APIStatusError,
    ChildrenNotReadyError,
    ConflictError,
    ForbiddenError,
    InformerError,
    RetryAfter,
    TerminalError,
)

if TYPE_CHECKING:
    from pyinformer.cache.informer import SharedInformer
    from pyinformer.client.cluster import APIResource, Body, Cluster, Propagation
    from pyinformer.controller import EventRecorder
    from pyinformer.controller.sources import PredicateFunction
    from pyinformer.errors import ModelMismatchError
    from pyinformer.objects import GroupVersionResource, KubeObject

_log = get_logger(__name__)

_UNCACHED_SECONDS: Final = 5.0  # kinds of earlier versions of a program have no cache to wake it
_UNAPPLIED_SECONDS: Final = 5.0  # until a child that the server has refused is applied again
_SHOWN: Final = 10  # children in one message
_LISTED_NAMESPACES: Final = 20  # one by one; of more, a list of all costs less
_ORPHAN: Final = "orphan"  # the garbage collector's: `kubectl delete --cascade=orphan`
_GOING: Final = "BeingDeleted"
_FAILED_CLEANUP: Final = "CleanupFailed"
_REFUSED: Final = "ChildRefused"
_FAILED: Final = "ChildFailed"
_GIVEN_UP: Final = "GivenUp"
_UNREADABLE: Final = "Unreadable"
_TROUBLE: Final = frozenset((LATE, _FAILED_CLEANUP, _REFUSED, _FAILED, _GIVEN_UP, _UNREADABLE))
"""Reasons that a person should look at: the first of each is an Event, also of a new owner."""
_ALL_READY: Final = Verdict(is_ready=True, reason="ChildrenReady", message="")


@final
@dataclass(frozen=True, slots=True)
class _Member:
    api: APIResource
    child: KubeObject[Any]

    @property
    def is_going(self) -> bool:
        return bool(self.child.metadata.deletion_timestamp)

    @property
    def identity(self) -> Identity:
        return Identity(self.child.gvk.group_kind, self.child.key)

    @property
    def name(self) -> str:
        return f"{self.child.gvk.kind} {self.child.key}"


@final
@dataclass(frozen=True, slots=True)
class _Refused:
    error: APIStatusError
    text: str
    """For people: which child, and why."""


@final
class ChildSets:
    """The sets of all owners of one function, on one cluster.

    Args:
        cluster: the cluster.
        name: of all its sets, as `set_name` returns it; the marks of children have it.
        informers: of what it owns.
        events: where transitions of the Ready condition are recorded.
        status_fields: `conditions` and `observedGeneration`, if the status of its objects has them.
        namespaces: those that the operator follows; None for all.
        cleans_up: whether there is something to clean up before an owner goes.
        wall_clock: Unix time in seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        informers: Iterable[SharedInformer[Any]],
        *,
        events: EventRecorder,
        status_fields: frozenset[str],
        namespaces: frozenset[str] | None,
        cleans_up: bool = False,
        wall_clock: Callable[[], float] = wall_time,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._finalizer = finalizer_of(name)
        self._caches = MemberCaches(informers)
        self._events = events
        self._fields = status_fields
        self._namespaces = namespaces
        self._cleans_up = cleans_up
        self._wall_clock = wall_clock
        self._waiting_since: dict[str, tuple[str, int, float]] = {}
        """By key: the uid, which call of `ready` waits, and since when in loop time."""

    @staticmethod
    def owner_of(child: KubeObject[Any]) -> str | None:
        """Return the key of the owner of a child that no owner reference can name; else None.

        It is the mapping by which a change of such a child requests its owner.
        """
        return owner_of_child(child)

    def past_own_text(
        self, predicate: PredicateFunction[None] | None
    ) -> PredicateFunction[None] | None:
        """Return a predicate that drops the event of a message that was written here.

        An error whose text is another one at each call, such as one with the number of a request,
        would otherwise request the owner again each time, whatever the backoff.

        Args:
            predicate: of the user, for owners; None for all.
        """
        if CONDITIONS not in self._fields:
            return predicate
        if predicate is None:
            return changes_more_than_text
        return all_of(predicate, changes_more_than_text)

    def or_waits(self, predicate: PredicateFunction[Any] | None) -> PredicateFunction[Any] | None:
        """Return a predicate that also passes what may end the wait of a child's owner.

        Args:
            predicate: of the user, such as one that drops changes of the status; None for all.
        """
        return None if predicate is None else any_of(predicate, self._may_end_wait)

    def _may_end_wait(self, old: KubeObject[Any] | None, new: KubeObject[Any] | None) -> bool:
        child = new or old
        return child is not None and not self._waiting_since.keys().isdisjoint(owner_keys(child))

    async def reconcile(
        self, owner: KubeObject, call: Callable[[Children], Awaitable[Result | None]]
    ) -> Result | None:
        """Call the function once, and do what follows.

        Args:
            owner: the owner, which is not being deleted.
            call: calls the function.

        Raises:
            BaseException: what the function raised.
            InformerError: the children that are left could not be deleted, or the status written.

        Cancellation:
            Reaches the function, or the write that is under way.
        """
        key = owner.key
        writes = OwnerWrites(self._cluster, owner, self._name)
        children = Children(self._cluster, writes, self._caches, name=self._name)
        if self._cleans_up:  # before the function can make anything
            await writes.hold(for_cleanup=True)
        try:
            returned = await self._called(children, call)
            if children.waits is not None:
                raise children.waits  # the function has caught it: what comes after is not decided
            # Otherwise what it could not apply, or did not begin to, would be deleted.
            if children.has_applied and not children.unfinished:
                await self._prune(children, writes)
        except Exception as error:
            waits = _only_wait(error)
            if waits is not None:
                children.check_ended()
                return await self._wait(children, waits)
            self._waiting_since.pop(key, None)
            await self._explain(children, error)
            raise
        self._waiting_since.pop(key, None)
        await self._write_status(children.owner, children.given, _verdict_on(children))
        return returned

    async def _called(
        self, children: Children, call: Callable[[Children], Awaitable[Result | None]]
    ) -> Result | None:
        """Call the function, and say which objects have become children that were none before."""
        try:
            returned: object = await call(children)
        finally:
            children.end_calls()
            for name in children.taken_over:
                owner = children.owner
                text = f"{name} existed before, and is a child now: it is deleted as children are"
                _log.warning("%s: %s", owner.key, text)
                self._events.event(owner, "TakenOver", text, type="Warning")
        children.check_ended()
        if returned is not None and not isinstance(returned, Result):
            raise invalid_result("a function with children", returned)
        return returned

    def keeps(self, owner: KubeObject) -> bool:
        """Return whether an owner has the finalizer of what must be cleaned up."""
        return cleanup_finalizer_of(self._name) in owner.metadata.finalizers

    async def end(
        self,
        key: str,
        owner: KubeObject | None,
        clean_up: Callable[[], Awaitable[Result | None]] | None = None,
    ) -> Result | None:
        """Clean up, then delete the last stage that is there; release the owner when all are gone.

        Args:
            key: of the owner.
            owner: the owner, which is being deleted; None if it is gone.
            clean_up: calls the function that cleans up outside of the cluster; None without one.

        Raises:
            BaseException: what `clean_up` raised.
            TerminalError: an earlier version of the program had one.
            InformerError: the server refused, or did not answer.

        Cancellation:
            Safe; the next call does the rest.
        """
        self._waiting_since.pop(key, None)
        if owner is None:
            return None
        writes = OwnerWrites(self._cluster, owner, self._name)
        if self.keeps(owner):
            continues = await self._cleaned_up(owner, clean_up)
            if continues is not None:
                waits = Verdict(False, _GOING, continues.waiting_for or "cleanup= continues")
                await self._write_status(owner, None, waits)
                return continues
            await writes.cleaned_up()
        return await self._end_stages(writes)

    async def _cleaned_up(
        self, owner: KubeObject, clean_up: Callable[[], Awaitable[Result | None]] | None
    ) -> Result | None:
        """Call what cleans up; return what it wants to be called again for, or None at its end.

        An error of it is shown in the status, and raised.
        """
        try:
            if clean_up is None:
                raise TerminalError(_no_cleanup(owner, self._name))
            returned: object = await clean_up()
            if returned is not None and not isinstance(returned, Result):
                raise invalid_result("cleanup=", returned)
        except InformerError as error:
            await self._show(owner, Verdict(False, _FAILED_CLEANUP, str(error)), error)
            raise
        except Exception as error:  # its text may be a secret of the user's
            text = f"cleanup= has raised {type(error).__name__}: see the log of the operator"
            await self._show(owner, Verdict(False, _FAILED_CLEANUP, text), error)
            raise
        if returned is None or (
            returned.requeue_after_seconds is None and not returned.waiting_for
        ):
            return None
        return returned

    async def _end_stages(self, writes: OwnerWrites) -> Result | None:
        owner, key = writes.object, writes.object.key
        if self._finalizer not in owner.metadata.finalizers:
            return None
        if _ORPHAN in owner.metadata.finalizers:
            await writes.release()
            return None
        try:  # caches may lag, and nothing else deletes what is left
            members = await self._members(owner) or await self._listed(owner)
        except ForbiddenError as error:
            await self._show(owner, Verdict(False, _GOING, error.message), error)
            raise
        if not members:
            await writes.release()
            return None
        last = max(map(_stage_of, members))
        going = [one for one in members if _stage_of(one) == last]
        refused = await self._deleted(going, "Foreground")
        stage = stage_of(going[0].child)
        names = _shown([one.name for one in going])
        self._waiting_since[key] = (owner.metadata.uid, 0, loop_time())
        if refused is not None:
            await self._show(owner, Verdict(False, _GOING, refused.text), refused.error)
            raise refused.error
        await self._write_status(owner, None, Verdict(False, _GOING, f"{names} must be gone"))
        is_cached = all(one.api.resource in self._caches.resources for one in going)
        return Result(
            None if is_cached else _UNCACHED_SECONDS,
            waiting_for=f"{stage}: {names} must be gone",
        )

    async def _wait(self, children: Children, error: ChildrenNotReadyError) -> Result:
        """Show what is waited for; come again by an event of a child, or at the deadline."""
        now = loop_time()
        key, uid, call = children.owner.key, children.owner.metadata.uid, children.ready_calls
        *known, since = self._waiting_since.get(key, ("", 0, now))
        if known != [uid, call]:
            since = now
        self._waiting_since[key] = (uid, call, since)
        reason: Reason = _FAILED if error.has_failed else "WaitingForChildren"
        left = None
        if error.timeout_seconds is not None:
            left = since + error.timeout_seconds - now
            if left <= 0:
                left, reason = None, LATE
        if children.unfinished:  # no event comes of a child that is not there
            left = min(_UNAPPLIED_SECONDS, left or _UNAPPLIED_SECONDS)
        unready = _unready(reason, error.waiting_for)
        await self._write_status(children.owner, children.given, unready)
        return Result(left, waiting_for=str(error))

    async def _deleted(
        self,
        members: Iterable[_Member],
        propagation: Propagation | None = None,
        *,
        owner: KubeObject | None = None,
    ) -> _Refused | None:
        """Delete children, unless one has changed and may be another's by now.

        Args:
            members: the children; those that are being deleted already are left alone.
            propagation: as for `Cluster.delete`.
            owner: whose set they have left, for the log; None if the owner itself goes.

        Returns:
            The first that the server has refused to delete; the others were deleted.
        """
        refused: list[_Refused] = []
        for one in members:
            if one.is_going:
                continue
            try:
                await self._cluster.delete(one.child, check_version=True, propagation=propagation)
            except ConflictError as error:
                raise RetryAfter(CHANGED_SECONDS, f"{one.name} was changed meanwhile") from error
            except APIStatusError as error:
                text = f"{one.name} could not be deleted: {error.message}"
                refused.append(_Refused(error, text))
                continue
            if owner is not None:
                _log.info(
                    "%s of %s was deleted: the last call has not applied it", one.name, owner.key
                )
        return refused[0] if refused else None

    async def _explain(self, children: Children, error: Exception) -> None:
        """Show in the status what only a change can mend; the error itself is raised."""
        if children.problem:
            verdict = Verdict(False, _REFUSED, children.problem)
        elif (reason := given_up_reason(error)) is not None:
            verdict = Verdict(False, _GIVEN_UP, reason)
        else:
            return
        await self._show(children.owner, verdict, error, given=children.given)

    async def explain_unreadable(self, owner: KubeObject, error: ModelMismatchError) -> None:
        """Show in the status of an owner why its function is not called.

        Args:
            owner: an object that does not fit the model.
            error: says why.

        Cancellation:
            As `Cluster.status`.
        """
        await self._show(owner, Verdict(False, _UNREADABLE, error.shown), error)

    async def _show(
        self, owner: KubeObject, verdict: Verdict, error: Exception, *, given: Body | None = None
    ) -> None:
        """Write the status after an error, which is the one that counts."""
        try:
            await self._write_status(owner, given, verdict)
        except InformerError as another:
            error.add_note(f"the status could not be written either: {another}")

    async def _write_status(
        self, owner: KubeObject, given: Body | None, verdict: Verdict | None
    ) -> None:
        """Write the status, if it has conditions or the function has returned one.

        Args:
            owner: in its newest version.
            given: what the function has returned.
            verdict: what becomes of the condition; None if nothing was said about children.
        """
        if given is None and (verdict is None or not self._fields):
            return
        before = ready_condition(owner)
        status = composed(owner, given, verdict, fields=self._fields, wall_clock=self._wall_clock)
        after = ready_condition(await self._cluster.status(owner, status))
        if verdict is None or after.get("reason") != verdict.reason:
            return  # the status has no conditions, or the function has set a Ready condition itself
        was_ready, is_ready = (each.get("status") == "True" for each in (before, after))
        is_news = verdict.reason in _TROUBLE and before.get("reason") != verdict.reason
        if is_ready and not was_ready:
            self._events.event(owner, "Ready", "all children are ready")
        elif verdict.reason == _GOING:
            return  # a client has asked for it
        elif (was_ready and not is_ready) or is_news:
            self._events.event(owner, verdict.reason, verdict.message, type="Warning")

    async def _prune(self, children: Children, writes: OwnerWrites) -> None:
        """Delete what the function has not applied again; then the marks name what there is."""
        owner = children.owner
        try:
            members = await self._members(owner)
        except ForbiddenError as error:
            children.problem = error.message
            raise
        left = [one for one in members if one.identity not in children.applied]
        refused = await self._deleted(sorted(left, key=_stage_of, reverse=True), owner=owner)
        if refused is not None:
            children.problem = refused.text
            raise refused.error
        if left:
            return  # their events come
        kinds = {each.object.gvk.group_kind for each in children.applied.values()}
        namespaces = {each.object.metadata.namespace for each in children.applied.values()}
        marks = OwnerMarks(frozenset(kinds), frozenset(namespaces - {owner.metadata.namespace, ""}))
        if marks.kinds or OwnerMarks.of(owner, self._name).kinds:
            await writes.narrow(marks)

    async def _members(self, owner: KubeObject) -> list[_Member]:
        """Return the children of an owner: of caches, and of kinds without one from the server."""
        discovery = self._cluster.discovery
        found = [
            _Member(await discovery.resource(resource), child)
            for resource, child in self._caches.members(set_id(owner))
            if self._is_mine(owner, child)
        ]
        known = map(discovery.known, self._caches.resources)
        cached = {one.gvk.group_kind for one in known if one is not None}
        if OwnerMarks.of(owner, self._name).kinds <= cached:
            return found
        return found + await self._listed(owner, self._caches.resources)

    async def _listed(
        self, owner: KubeObject, without: Iterable[GroupVersionResource] = ()
    ) -> list[_Member]:
        """Return the children that the server has, of the kinds in the owner's marks."""
        marks, skipped = OwnerMarks.of(owner, self._name), frozenset(without)
        found: list[_Member] = []
        for api in await self._cluster.discovery.of_kinds(marks.kinds):
            if api.resource in skipped:
                continue
            for place in self._places(owner, marks) if api.namespaced else [None]:
                resource = api.resource
                children = self._cluster.list(
                    resource.api_version,
                    resource.resource,
                    namespace=place,
                    label_selector={PART_OF: set_id(owner)},
                )
                try:
                    found += [
                        _Member(api, one) async for one in children if self._is_mine(owner, one)
                    ]
                except ForbiddenError as error:
                    raise error.with_hint(_of_an_earlier_version(resource)) from error
        return found

    def _places(self, owner: KubeObject, marks: OwnerMarks) -> list[str | None]:
        """Return the namespaces of which children are listed; any client may have named more."""
        own = owner.metadata.namespace
        if not own:
            return [None]
        places = {own, *marks.namespaces}
        if len(places) > _LISTED_NAMESPACES:
            if self._namespaces is None:
                return [None]
            places &= self._namespaces
        return [*sorted(places)]

    def _is_mine(self, owner: KubeObject, child: KubeObject[Any]) -> bool:
        """Return whether this function has applied a child for this very owner."""
        return is_child(child, owner, self._name)


def _only_wait(error: BaseException) -> ChildrenNotReadyError | None:
    """Return what a function waits for, also if it does so inside a task group; else None."""
    matching: BaseException | None = error
    if isinstance(error, BaseExceptionGroup):
        matching, rest = error.split(ChildrenNotReadyError)
        if rest is not None:
            return None
    while isinstance(matching, BaseExceptionGroup):
        matching = matching.exceptions[0]
    return matching if isinstance(matching, ChildrenNotReadyError) else None


def _of_an_earlier_version(resource: GroupVersionResource) -> str:
    right = f'("{resource.api_version}", "{resource.resource}", "list", "delete")'
    return (
        "children that an earlier version of the program has applied are looked for: until they are"
        f" gone, keep Operator(..., writes=[{right}])"
    )


def _no_cleanup(owner: KubeObject, name: str) -> str:
    finalizer = cleanup_finalizer_of(name)
    return (
        f"{owner.key} waits for a cleanup= that this version of the program does not have: register"
        f" it again, or remove the finalizer {finalizer} from the object yourself"
    )


def _verdict_on(children: Children) -> Verdict | None:
    """Return what the Ready condition becomes when a call has returned; None for no change."""
    if not children.has_applied:
        return None
    if children.unfinished:
        problem = children.problem or "not all children could be applied"
        return Verdict(False, _REFUSED, problem)
    unready = children.not_ready()
    if unready is None:
        return _ALL_READY
    return _unready(_FAILED if unready.has_failed else "ChildrenNotReady", unready.waiting_for)


def _stage_of(member: _Member) -> int:
    return stage_of(member.child).ordinal


def _unready(reason: Reason, texts: Iterable[str]) -> Verdict:
    return Verdict(is_ready=False, reason=reason, message=_shown(list(texts), "; "))


def _shown(texts: list[str], separator: str = ", ") -> str:
    further = f"{separator}and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"{separator.join(texts[:_SHOWN])}{further}"
