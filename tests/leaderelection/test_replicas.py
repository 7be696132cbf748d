"""Four processes, one Lease, and the real kube-apiserver: who wrote while which replica led.

The order is that of etcd, from the audit log: no clock decides. Durations are short here;
`make soak` has those of Kubernetes' own components.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from benchmarks.election.audit import audit_flags, late_writes, requests, written
from benchmarks.election.replicas import (
    Durations,
    Replicas,
    competing,
    go_command,
    python_command,
    wait,
)
from pyinformer.leaderelection import TABLE_HOLDER, new_lease, read_lease
from pyinformer.sharding import Table, freed, with_table
from pyinformer.testing import KubeAPIServer, StaticToken
from tests.soak import in_soak
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.real, pytest.mark.soak, pytest.mark.timeout(in_soak(1200, otherwise=400))]

NAMES = tuple(f"replica-{number}" for number in range(4))
# Between the end of a term and the next there is time for a write that a busy server still holds.
DURATIONS = in_soak(
    Durations(),
    otherwise=Durations(lease_duration_seconds=6, renew_deadline_seconds=2, retry_period_seconds=1),
)
ROUNDS = in_soak(5, otherwise=1)
WORK = 5


@contextmanager
def four(
    folder: Path, commands: Mapping[str, Sequence[str]], *, build: bool
) -> Iterator[tuple[KubeAPIServer, Replicas]]:
    """Run a server that logs what it is asked, and the candidates."""
    tokens = {name: f"token-of-{name}" for name in commands}
    users = [StaticToken(token, name, ("system:masters",)) for name, token in tokens.items()]
    flags = audit_flags(folder, list(commands))
    with KubeAPIServer(build=build, tokens=users, extra_args=flags) as api:
        replicas = Replicas(api, "shop", commands, tokens=tokens, durations=DURATIONS)
        with competing(replicas):
            yield api, replicas


def work_goes_on(replicas: Replicas) -> None:
    """Give the leader work, and wait until it is done."""
    replicas.give_work(WORK)
    replicas.wait_for_work()


def labelled(folder: Path) -> Counter[str]:
    """Count how often each key was written."""
    found = written(requests(folder), "shop")
    return Counter(one.name for one in found if one.name.startswith("work-"))


def stop_and_continue(replicas: Replicas) -> None:
    """Stop the leader until another one leads; later it must lead again, in the same process."""
    leader = replicas.wait_for_leader()
    stopped = replicas.processes[leader]
    replicas.signal(leader, signal.SIGSTOP)
    replicas.wait_for_leader(but=leader)
    work_goes_on(replicas)
    replicas.signal(leader, signal.SIGCONT)
    for name in NAMES:
        if name != leader:
            replicas.terminate(name)
    assert replicas.wait_for_leader() == leader
    work_goes_on(replicas)
    assert replicas.processes[leader] is stopped
    assert stopped.poll() is None
    replicas.start()


def roll(replicas: Replicas) -> None:
    """End and start each replica in turn."""
    for name in NAMES:
        replicas.terminate(name)
        replicas.wait_for_leader(but=name)
        replicas.start(name)
        work_goes_on(replicas)


@pytest.mark.slow
def test_of_four_replicas_only_the_leader_writes_and_no_work_is_lost(
    tmp_path: Path, kube_apiserver_build: bool
) -> None:
    """SIGKILL, SIGSTOP, rolling restarts, and a server that is away for longer than a term."""
    commands = dict.fromkeys(NAMES, python_command())
    with four(tmp_path, commands, build=kube_apiserver_build) as (api, replicas):
        for _ in range(ROUNDS):
            leader = replicas.wait_for_leader()
            replicas.kill(leader)
            replicas.give_work(WORK)
            replicas.wait_for_leader(but=leader)
            replicas.start(leader)
            stop_and_continue(replicas)
            roll(replicas)
            api.kill()
            api.restart()
            replicas.wait_for_leader()
            work_goes_on(replicas)
        done = replicas.done()

    log = requests(tmp_path)
    assert late_writes(log, "shop") == []
    assert len({one.user for one in written(log, "shop")}) > 1
    assert len(done) == ROUNDS * WORK * (4 + len(NAMES))
    counts = labelled(tmp_path)
    assert set(counts.values()) == {1}
    assert counts.keys() <= done
    # A server that is killed takes along what it has carried out and not yet logged: of a leader
    # that writes one after the other, one write.
    assert len(done - counts.keys()) <= ROUNDS


@pytest.mark.slow
def test_replicas_with_client_go_share_the_lease(
    tmp_path: Path, kube_apiserver_build: bool
) -> None:
    """Each takes over from the other; of the writes of client-go, the server is the only judge."""
    go = go_command()
    if isinstance(go, str):
        pytest.skip(go)
    commands = dict.fromkeys(NAMES[:2], python_command()) | dict.fromkeys(NAMES[2:], go)
    with four(tmp_path, commands, build=kube_apiserver_build) as (_, replicas):
        for _ in range(ROUNDS):
            for end in (replicas.terminate, replicas.kill):
                led: set[bool] = set()
                while len(led) < 2:
                    leader = replicas.wait_for_leader()
                    work_goes_on(replicas)
                    led.add(leader in NAMES[:2])
                    end(leader)
                replicas.wait_for_leader()
                replicas.start()

    log = requests(tmp_path)
    assert [one for one in late_writes(log, "shop") if one.user in NAMES[:2]] == []
    assert len(labelled(tmp_path)) >= ROUNDS * WORK * 4


@pytest.mark.slow
def test_client_go_waits_for_replicas_that_share_keys(
    tmp_path: Path, kube_apiserver_build: bool
) -> None:
    """Their table is in the Lease that it competes for, until the last of them frees it."""
    go = go_command()
    if isinstance(go, str):
        pytest.skip(go)
    name, kind = NAMES[0], ("coordination.k8s.io/v1", "leases", "election", "shop")
    users = [StaticToken("token-of-go", name, ("system:masters",))]
    flags = audit_flags(tmp_path, [name])
    with KubeAPIServer(build=kube_apiserver_build, tokens=users, extra_args=flags) as api:
        replicas = Replicas(
            api, "shop", {name: go}, tokens={name: "token-of-go"}, durations=DURATIONS
        )
        replicas.prepare()
        table = Table.empty(128, "key")
        api.create(with_table(new_lease("election", "shop"), table, group="shop", at=time.time()))
        try:
            replicas.start()
            wait(lambda: len(requests(tmp_path)) > 2, "it competes")
            led = poll(
                lambda: replicas.holder() != TABLE_HOLDER,
                timeout_seconds=2.0 * DURATIONS.lease_duration_seconds,
            )
            assert not led
            api.update(freed(read_lease(api.get(*kind)), group="shop", at=time.time()))
            assert replicas.wait_for_leader() == name
        finally:
            replicas.stop()
