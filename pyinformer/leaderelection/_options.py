"""The durations of leader election, and the settings of an operator's.

The durations are whole seconds: a Lease stores whole seconds, and clients that truncate fractions
would take the Lease too early. They mean the same as in client-go.
"""

# Pure: it knows no event loop.

from __future__ import annotations

import os
import re
import socket
import uuid
from dataclasses import dataclass, field
from typing import Final, final

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import check_flag, check_seconds

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_MAX_NAME: Final = 253
_POD_NAME: Final = "POD_NAME"  # the usual variable for the pod's name from the downward API
_JITTER_FACTOR: Final = 1.2  # as client-go; one retry must fit before the deadline
_END_SECONDS: Final = 2.0  # one to end the work, and one before another replica may lead
UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
"""The end of a unique identity, as a regular expression of Python and of RE2."""
_WHOLE: Final = ("lease_duration_seconds", "renew_deadline_seconds", "retry_period_seconds")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElectionOptions:
    """How long a term lasts without renewal, and how often it is renewed.

    Raises:
        InvalidArgumentError: durations are fractional or contradict each other.

    Source:
        client-go tools/leaderelection/leaderelection.go, LeaderElectionConfig.
    """

    lease_duration_seconds: float = 15.0
    """After how long without renewal another replica may take the Lease: whole seconds, more than
    `renew_deadline_seconds`. The default is that of Kubernetes' own components."""

    renew_deadline_seconds: float = 10.0
    """How long a term is valid after its last renewal was sent: whole seconds. The rest of the
    Lease's duration is for work that ends slowly, and for clocks that run at different rates."""

    retry_period_seconds: float = 2.0
    """How often a leader renews, and how often a replica retries what failed: whole seconds, at
    least one; `renew_deadline_seconds` must be more than 1.2 times as long. A replica retries
    earlier if the server refuses a request with 429 or 5xx and asks for a shorter delay."""

    end_timeout_seconds: float = 60.0
    """How long `lead` may take to end after it was cancelled. The Lease is renewed meanwhile,
    unless the term is lost. Then the elector gives up with an error, without a release."""

    def __post_init__(self) -> None:
        for name in _WHOLE:
            _check_whole(name, getattr(self, name))
        check_seconds("end_timeout_seconds", self.end_timeout_seconds, is_positive=True)
        lease, renew = self.lease_duration_seconds, self.renew_deadline_seconds
        if lease <= renew:
            reason = f"must be greater than renew_deadline_seconds={renew:g}, got {lease:g}"
            raise InvalidArgumentError("lease_duration_seconds", reason)
        least = _JITTER_FACTOR * self.retry_period_seconds
        if renew <= least:
            reason = (
                f"must be greater than 1.2 * retry_period_seconds = {least:g}, got {renew:g}: one"
                " failed renewal must leave time for another"
            )
            raise InvalidArgumentError("renew_deadline_seconds", reason)

    @property
    def request_timeout_seconds(self) -> float:
        """How long one request for the Lease may take: half the renew deadline, as client-go."""
        return self.renew_deadline_seconds / 2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """Which Lease the replicas of an operator compete for.

        app = pyinformer.Operator("db-operator", leader_election=pyinformer.LeaderElection())

    Raises:
        InvalidArgumentError: a name cannot be the name of a Lease.
    """

    name: str | None = None
    """The name of the Lease; None for the operator's name."""

    namespace: str | None = None
    """The namespace of the Lease; None for that of the pod, and `default` outside of a pod."""

    identity: str | None = None
    """The name of this replica; no two replicas may have the same. None for the name of the pod
    with a random suffix: that in the environment variable `POD_NAME`, or the host name, which is
    the pod's name unless the pod has `hostNetwork`, a `hostname` of its own or a name of more than
    63 characters. The policy of `pyinformer fence` needs the pod's name."""

    options: LeaderElectionOptions = field(default_factory=LeaderElectionOptions)
    """The durations."""

    ends_process: bool | None = None
    """Whether a thread ends the process if work still runs, or the event loop is blocked, one
    second before another replica may lead. It needs a `lease_duration_seconds` of at least
    `renew_deadline_seconds` + 2. None: yes for `Operator.run`, which is the whole program; no
    otherwise, and the thread only logs it."""

    def __post_init__(self) -> None:
        for argument, value in (("name", self.name), ("namespace", self.namespace)):
            if value is not None:
                check_lease_name(argument, value)
        if self.identity is not None:
            check_identity(self.identity)
        if self.ends_process is not None:
            check_flag("ends_process", self.ends_process)


def check_lease_name(argument: str, value: object) -> None:
    """Refuse what cannot be the name or the namespace of a Lease.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    usable = isinstance(value, str) and len(value) <= _MAX_NAME and _NAME.fullmatch(value)
    if not usable:
        reason = f"must be lower-case letters, digits, '-' and '.', got {value!r}"
        raise InvalidArgumentError(argument, reason)


def check_time_to_end(options: LeaderElectionOptions) -> None:
    """Refuse durations that leave no time to end work before the process is ended.

    Raises:
        InvalidArgumentError: the Lease ends less than two seconds after a term.
    """
    lease, least = options.lease_duration_seconds, options.renew_deadline_seconds + _END_SECONDS
    if lease < least:
        reason = (
            f"must be at least renew_deadline_seconds + {_END_SECONDS:g} = {least:g} if work that"
            f" outlives its term ends the process, got {lease:g}; with ends_process=False it is"
            " only logged"
        )
        raise InvalidArgumentError("lease_duration_seconds", reason)


def unique_identity() -> str:
    """Return an identity that no other replica has, and that begins with the name of the pod."""
    pod = os.environ.get(_POD_NAME, "")
    is_name = len(pod) <= _MAX_NAME and _NAME.fullmatch(pod)
    return f"{pod if is_name else socket.gethostname()}_{uuid.uuid4()}"


def check_identity(value: object) -> None:
    """Refuse what cannot name the holder of a Lease.

    Raises:
        InvalidArgumentError: it is not a string, or empty.
    """
    if not isinstance(value, str) or not value.strip():
        reason = f"must be a non-empty string; None for a unique one, got {value!r}"
        raise InvalidArgumentError("identity", reason)


def _check_whole(name: str, seconds: float) -> None:
    check_seconds(name, seconds)
    if seconds != int(seconds):
        reason = (
            f"must be whole seconds, got {seconds:g}: a Lease stores whole seconds, and other"
            " replicas would truncate it"
        )
        raise InvalidArgumentError(name, reason)
    if seconds < 1:
        raise InvalidArgumentError(name, f"must be at least 1 s, got {seconds:g}")
