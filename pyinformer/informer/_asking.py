"""What can be waited for and asked of an informer: writes, the state of a key, a comparison.

Versions, keys and predicates enter; nothing, an object, a report or an error leaves, within a time
that the caller says. Of several namespaces only those are asked that the question concerns.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import anyio

from pyinformer.apimachinery import LifecycleError, StaleCacheError, V, check_seconds
from pyinformer.informer._barrier import WriteTarget
from pyinformer.informer._introspection import Insight
from pyinformer.informer._joint_audit import audit_all, joint_report

if TYPE_CHECKING:
    from pyinformer.apimachinery import KubeObject
    from pyinformer.audit import AuditReport
    from pyinformer.informer._key_waits import KeyWaits, Predicate
    from pyinformer.informer._mutation_guard import MutationGuard
    from pyinformer.informer._namespace_cache import NamespaceCache
    from pyinformer.informer._own_writes import OwnWrites


class Asking(Insight[V]):
    """What an informer answers in its own time; the stations are made by Following."""

    _own_writes: OwnWrites[V]
    _sharing: MutationGuard[V]
    _key_waits: KeyWaits[V]

    @abstractmethod
    def _check_running(self) -> None:
        """Raise if nothing is followed."""

    async def wait_until(
        self,
        resource_version: str | None,
        *,
        key: str | None = None,
        uid: str | None = None,
        timeout_seconds: float = 5.0,
    ) -> None:
        """Wait until the cache itself, and so every handler's source, has reached a write.

        The lister shows own writes at once; this is for what goes by events, and for writes of
        others. It ends when the cache's position has reached the version, when the object under
        `key` has, or after a second when a list of that key in this informer's scope shows what
        the cache holds, so that a write that the selector keeps out does not time out. Where
        versions of two objects do not compare, only that object and such a list count. A write of
        this process needs no key, the informer remembers it; anything else is proven only by the
        position, which a quiet resource moves once a minute. A key of a namespace that the
        informer does not follow returns at once, and so does a write that changed nothing.

        Args:
            resource_version: what a write's response says; None for a deletion, which ends when
                the object with this `uid` is no longer cached under this `key`.
            key: `namespace/name`, or `name` if cluster-scoped.
            uid: which object of that name was deleted, or written: without it, versions of two
                objects of one name are compared.
            timeout_seconds: how long to wait.

        Raises:
            StaleCacheError: the cache did not get there in time, or a new epoch of the server's
                history has begun, in which the write may not exist.
            LifecycleError: it was not started, or was closed.
            InternalError: something inside crashed.
            InvalidArgumentError: there is nothing to wait for, or the timeout is no duration.
            InvalidTypeError: the version, the key or the uid is no text.
            CacheMutatedError: the mutation detector is in `debug` mode, and found one.

        Cancellation:
            Safe.
        """
        self._sharing.check_nowait()
        wanted = WriteTarget.of(resource_version, key, uid)
        check_seconds("timeout_seconds", timeout_seconds)
        self._check_running()
        until = anyio.current_time() + timeout_seconds
        if not self._members.is_known:
            await self._wait_known(wanted, timeout_seconds)
        concerned = self._concerned(wanted)
        for member in concerned:
            left = max(0.0, until - anyio.current_time())
            try:
                await member.freshness.wait_until(wanted, timeout_seconds=left)
            except LifecycleError:
                # One of several namespaces was dropped: the write may be in any other.
                if len(concerned) == 1 or member in self._members.all or not self.is_running:
                    raise

    async def _wait_known(self, wanted: WriteTarget, timeout_seconds: float) -> None:
        """Wait until it is known whether the namespace of a write is followed."""
        with anyio.move_on_after(timeout_seconds):
            await self._members.known.wait()
        self._check_running()
        if not self._members.is_known:
            state, last_error = self.reflector_state()
            raise StaleCacheError(
                informer=self.name,
                wanted=str(wanted),
                position="",
                waited_seconds=timeout_seconds,
                state=state,
                reason=last_error or "",
            )

    async def wait_for(
        self,
        key: str,
        predicate: Predicate[V],
        *,
        timeout_seconds: float = 30.0,
    ) -> KubeObject[V] | None:
        """Wait until an object is as wanted: `await pods.wait_for(key, lambda pod: pod is None)`.

        The predicate is asked at once, and then at each change of what the lister shows of the key:
        events of the cache, and own writes before their events come. It runs on the loop, in the
        step of the change, and must not block; what it raises comes out of here as it is. Before
        the first sync nobody is asked: that is waited for, too. A list that is taken over as a
        whole is one change, whatever happened before it.

        Args:
            key: `namespace/name`, or `name` if cluster-scoped.
            predicate: a plain function of the object, or of None where there is none; so a
                deletion can be waited for.
            timeout_seconds: how long to wait, the first sync included.

        Returns:
            The object that the predicate accepted; None if it accepted that there is none.

        Raises:
            WaitTimeoutError: it accepted nothing in time; says what is cached under the key.
            CacheSyncTimeoutError: the first sync will not come by itself, which ends the wait at
                once; it says why.
            NotCachedError: the namespace is not followed.
            LifecycleError: it was not started, or was closed meanwhile.
            InternalError: something inside crashed.
            InvalidArgumentError: the timeout is negative or no number.
            InvalidTypeError: the key is no text.
            InvalidTypeError: the predicate cannot be called with one object, or is a coroutine
                function.
            CacheMutatedError: the mutation detector is in `debug` mode, and found one.

        Cancellation:
            Safe.
        """
        self._sharing.check_nowait()
        self._check_running()
        return await self._key_waits.wait(key, predicate, timeout_seconds=timeout_seconds)

    def has_seen(
        self, resource_version: str | None, *, key: str | None = None, uid: str | None = None
    ) -> bool:
        """Tell whether `wait_until` would return at once.

        Raises:
            InvalidArgumentError: there is nothing to wait for.
        """
        wanted = WriteTarget.of(resource_version, key, uid)
        concerned = self._concerned(wanted)
        return self._members.is_known and all(one.freshness.has_seen(wanted) for one in concerned)

    def _concerned(self, wanted: WriteTarget) -> tuple[NamespaceCache[V], ...]:
        """Return whose caches a write may change: one if its key is known, else all of them."""
        written = self._own_writes.written_at(wanted.version)
        key = wanted.key or (None if written is None else written.key)
        if key is None:
            return self._members.all
        member = self._members.of(key)
        return () if member is None else (member,)

    @property
    def last_audit(self) -> AuditReport | None:
        """What the newest comparison with the server has found; None before the first."""
        reports = [member.auditor.last_report for member in self._members.all]
        return joint_report(self.name, [one for one in reports if one is not None])

    async def audit(self, *, timeout_seconds: float = 60.0) -> AuditReport:
        """Compare the cache with what the server had at the cache's own resource version.

        Only identities are listed, in pages, and nothing is held up by it. What differs is logged
        and repaired by a complete list, of which handlers hear as of every other. An audit waits
        until the watch runs; one that cannot be concluded says so in its report, and why: at once
        where the resource is absent or forbidden, or its versions cannot be compared.

        Args:
            timeout_seconds: how long it may take; longer ones are inconclusive.

        Raises:
            LifecycleError: it was not started, or was closed, be it meanwhile.
            InternalError: something inside crashed.
            InvalidArgumentError: the timeout is no duration.

        Cancellation:
            Safe; the request is dropped, and nothing is repaired.
        """
        check_seconds("timeout_seconds", timeout_seconds)
        self._check_running()
        unknown = ""
        if not self._members.is_known:
            state, last_error = self.reflector_state()
            unknown = f"its namespaces are not known: {state}, {last_error or 'no error'}"
        report = await audit_all(
            self.name, self._members.all, timeout_seconds=timeout_seconds, unknown=unknown
        )
        self._check_running()
        return report
