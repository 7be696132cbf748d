"""What an elector announces: log lines, Kubernetes Events and the user's callback.

It decides nothing. An error of the callback is logged, and does not end a term.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.reraised_exceptions import ENDS_PROGRAM
from pyinformer._runtime.tasks import error_text
from pyinformer.leaderelection._lease import MAX_TRANSITIONS, TABLE_HOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.controller.conventions import EventRecorder
    from pyinformer.errors import InformerError

_log = get_logger(__name__)


@final
class Announcements:
    """Announces changes of one elector.

    Args:
        name: the name of the Lease.
        namespace: its namespace.
        identity: the name of this replica.
        on_new_leader: called with the identity of each new holder.
        recorder: where Kubernetes Events are recorded.
        is_member: the Lease is that of one replica of several that share.
    """

    def __init__(
        self,
        name: str,
        namespace: str,
        *,
        identity: str,
        on_new_leader: Callable[[str], None] | None,
        recorder: EventRecorder | None,
        is_member: bool = False,
    ) -> None:
        self._lease = f"{namespace}/{name}"
        self._name, self._namespace = name, namespace
        self._identity = identity
        self._on_new_leader = on_new_leader
        self._recorder = recorder
        self._is_member = is_member
        self._holder = ""

    def on_started_leading(self, uid: str) -> None:
        """Announce that a term of this replica has begun.

        Args:
            uid: of the Lease.
        """
        what = "shares" if self._is_member else "leads"
        _log.info("%s %s: it holds the Lease %s", self._identity, what, self._lease)
        if self._is_member:
            self._record("joined the replicas that share the keys", "Join", uid)
        else:
            self._record("became leader", "BecomeLeader", uid)

    def on_last_number(self) -> None:
        """Announce that the term has the greatest possible number, which later terms keep."""
        _log.warning(
            "the Lease %s: leaseTransitions is at its maximum, so all later terms have the number"
            " %d, and replicas with client-go cannot lead; delete the Lease while no replica runs",
            self._lease,
            MAX_TRANSITIONS,
        )

    def on_forbidden(self, reason: str) -> None:
        """Announce that this replica has not had the right to the Lease for a whole term."""
        _log.error(
            "%s cannot %s, and waits until the server allows it to read and write the Lease %s: %s",
            self._identity,
            "share" if self._is_member else "lead",
            self._lease,
            reason,
        )

    def on_watch_refused(self, error: InformerError) -> None:
        """Announce that the right to watch the Lease is missing."""
        if self._is_member:
            _log.error(
                "%s cannot share without the right to watch Leases in namespace %s: %s; grant what"
                " `pyinformer rbac` prints",
                self._identity,
                self._namespace,
                error,
            )
            return
        _log.warning(
            "the Lease %s may not be watched, so it is read every few seconds: %s; grant the verbs"
            " list and watch on leases.coordination.k8s.io %r in namespace %s"
            " (LeaderElector.required_rbac() prints the role)",
            self._lease,
            error,
            self._name,
            self._namespace,
        )

    def on_watched_again(self) -> None:
        """Announce that the Lease is watched after a refusal."""
        _log.info("the Lease %s is watched again", self._lease)

    def on_lost_term(self, reason: str) -> None:
        """Announce that a term of this replica is over; its work may still be ending."""
        what = "shares" if self._is_member else "leads"
        _log.warning("%s no longer %s: %s (Lease %s)", self._identity, what, reason, self._lease)

    def on_stopped_leading(self, uid: str) -> None:
        """Announce that the work of a term has ended.

        Args:
            uid: of the Lease; empty if it does not exist.
        """
        if self._is_member:
            self._record("left the replicas that share the keys", "Leave", uid)
        else:
            self._record("stopped leading", "StopLeading", uid)

    def on_holder(self, holder: str) -> None:
        """Announce the holder of the Lease, if it has changed."""
        if not holder or holder == self._holder:
            return
        self._holder = holder
        # That this replica leads is logged when its term begins.
        if holder == TABLE_HOLDER and not self._is_member:
            _log.warning(
                "%s waits: the Lease %s is held by replicas that share keys instead of electing a"
                " leader, until the last of them has ended; delete it if all of them have crashed",
                self._identity,
                self._lease,
            )
        elif holder != self._identity and self._is_member:  # two processes of one share
            _log.info("%s waits: the Lease %s is held by %s", self._identity, self._lease, holder)
        elif holder != self._identity:
            _log.info("the Lease %s: the leader is %s", self._lease, holder)
        if self._on_new_leader is None:
            return
        try:
            self._on_new_leader(holder)
        except ENDS_PROGRAM:
            raise
        except BaseException as error:  # noqa: BLE001 - the fence of a user's callback
            _log.error("on_new_leader of the Lease %s raised %s", self._lease, error_text(error))

    def _record(self, text: str, action: str, uid: str) -> None:
        if self._recorder is None:
            return
        metadata = {"name": self._name, "namespace": self._namespace}
        if uid:
            metadata["uid"] = uid
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        reason = "Sharing" if self._is_member else "LeaderElection"
        self._recorder.event(body, reason, f"{self._identity} {text}", action=action)
