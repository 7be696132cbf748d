"""Leader election on both servers: who leads when, with which rights, and what a Lease holds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import yaml

import pyinformer
from pyinformer.errors import FencedError, NotFoundError
from pyinformer.leaderelection import LeaderElectionOptions, Term
from tests.integration.accounts import ACCOUNT, apply, as_the_account, grant
from tests.integration.servers import Server
from tests.waiting import now, settle, until

if TYPE_CHECKING:
    from pyinformer import Cluster

_QUICK = LeaderElectionOptions(
    lease_duration_seconds=5.0, renew_deadline_seconds=3.0, retry_period_seconds=1.0
)
_LEASES = ("coordination.k8s.io/v1", "leases")
_PATIENT = LeaderElectionOptions(
    lease_duration_seconds=600.0, renew_deadline_seconds=300.0, retry_period_seconds=1.0
)


class _Elected:
    """An elector in a task, and its terms."""

    def __init__(
        self, cluster: Cluster, namespace: str, options: LeaderElectionOptions = _PATIENT
    ) -> None:
        self.elector = pyinformer.LeaderElector(
            cluster, "db-operator", namespace=namespace, options=options
        )
        self.terms: list[Term] = []
        self.leads = asyncio.Event()

    async def lead(self, term: Term) -> None:
        """Lead until the end of the term."""
        self.terms.append(term)
        self.leads.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.leads.clear()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[_Elected]:
        """Run it for a block."""
        task = asyncio.create_task(self.elector.run(self.lead))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()


async def test_two_electors_hand_over_and_write_what_client_go_writes(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster, server.connect() as other:
        one, two = _Elected(cluster, namespace), _Elected(other, namespace)
        leading = asyncio.create_task(one.elector.run(one.lead))
        await until(one.leads.is_set)
        async with two.running():
            await until(lambda: two.elector.status().holder == one.elector.identity)
            assert two.terms == []
            spec = await _spec(cluster, namespace)
            assert spec["holderIdentity"] == one.elector.identity
            assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (600, 0)
            for name in ("acquireTime", "renewTime"):
                assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec[name])
            await cluster.create(_map("by-a-task-of-no-term", namespace))
            leading.cancel()
            await until(two.leads.is_set)
            spec = await _spec(cluster, namespace)
            assert spec["holderIdentity"] == two.elector.identity
            assert spec["leaseTransitions"] == 1
            with pytest.raises(FencedError):
                one.terms[0].check()
            two.terms[0].check()
        await asyncio.wait([leading])


async def test_an_election_inside_of_a_term_ends_with_it_and_releases_its_lease(
    server: Server,
) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        outer, inner = (
            pyinformer.LeaderElector(cluster, name, namespace=namespace, options=_PATIENT)
            for name in ("outer", "inner")
        )
        leads = asyncio.Event()
        refusals: list[FencedError] = []

        async def lead_inner(term: Term) -> None:
            leads.set()
            try:
                await asyncio.Event().wait()
            finally:
                assert not term.has_ended
                try:
                    await cluster.create(_map("late", namespace))
                except FencedError as error:
                    refusals.append(error)

        async def lead_outer(_term: Term) -> None:
            await inner.run(lead_inner)

        task = asyncio.create_task(outer.run(lead_outer))
        await until(leads.is_set)
        lease = await cluster.get(*_LEASES, f"{namespace}/outer")
        body = lease.to_dict()
        body["spec"]["holderIdentity"] = "another"
        await cluster.replace(body)
        await until(lambda: inner.status().holder == "")  # as the answer to its release says
        found = await cluster.get(*_LEASES, f"{namespace}/inner")
        assert not found.to_dict()["spec"].get("holderIdentity")
        assert [error.lease for error in refusals] == [f"{namespace}/outer"]
        task.cancel()
        await asyncio.wait([task])
        with pytest.raises(NotFoundError):
            await cluster.get("v1", "configmaps", f"{namespace}/late")


@pytest.mark.parametrize("server", ["real"], indirect=True)
@pytest.mark.real
async def test_managed_fields_nested_without_end_do_not_end_the_election(server: Server) -> None:
    """A tenant with rights on the Lease writes them, and the server keeps them at each renewal."""
    namespace = server.namespace()
    depth = 1_200  # beyond what Python can recurse; the server's time grows by its square
    fields = '{"f:a":' * depth + "{}" + "}" * depth
    entry = (
        '{"manager":"m","operation":"Update","apiVersion":"coordination.k8s.io/v1",'
        f'"time":"2026-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{fields}}}'
    )
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/db-operator"
    async with server.connect() as cluster, server.connect() as other:
        one, two = _Elected(cluster, namespace, _QUICK), _Elected(other, namespace, _QUICK)
        async with one.running(), two.running():
            await until(lambda: one.leads.is_set() or two.leads.is_set())
            body = f'{{"metadata":{{"managedFields":[{entry}]}}}}'.encode()
            stored = await cluster.request(
                "PATCH", path, body=body, content_type="application/merge-patch+json"
            )
            assert stored.count(b'"f:a"') >= depth
            renewals = set[bytes]()
            with anyio.fail_after(100):
                while len(renewals) < 6:  # longer than a term lasts without one
                    await settle()
                    answer = await cluster.request("GET", path)
                    assert answer.count(b'"f:a"') >= depth
                    renewals.update(re.findall(rb'"renewTime":"([^"]+)"', answer))
                    assert one.leads.is_set() or two.leads.is_set()
            assert len(one.terms) + len(two.terms) == 1


async def _spec(cluster: Cluster, namespace: str) -> dict[str, Any]:
    key = f"{namespace}/db-operator"
    lease = await cluster.get("coordination.k8s.io/v1", "leases", key)
    spec: dict[str, Any] = lease.to_dict()["spec"]
    return spec


def _map(name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


async def test_a_replica_that_ends_without_release_is_replaced_after_the_duration(
    server: Server,
) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "db-operator", "namespace": namespace, "labels": {"a": "b"}},
            "spec": {
                "holderIdentity": "a-go-process",
                "leaseDurationSeconds": 2,
                "leaseTransitions": 7,
                # An hour ahead of this clock, which does not count.
                "renewTime": "2099-01-02T03:04:05.000006Z",
            },
        }
        await cluster.create(lease)
        async with _Elected(cluster, namespace).running() as one:
            await until(one.leads.is_set)
            assert one.terms[0].transitions == 8
            spec = await _spec(cluster, namespace)
            assert spec["holderIdentity"] == one.elector.identity
        found = await cluster.get("coordination.k8s.io/v1", "leases", f"{namespace}/db-operator")
        assert found.metadata.labels["a"] == "b"


async def test_a_lease_whose_transitions_are_at_the_maximum_can_be_taken(server: Server) -> None:
    """One more would be refused by a server: the field is an int32."""
    namespace, greatest = server.namespace(), 2**31 - 1
    async with server.connect() as cluster:
        spec = {"holderIdentity": "gone", "leaseDurationSeconds": 1, "leaseTransitions": greatest}
        metadata = {"name": "db-operator", "namespace": namespace}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        await cluster.create({**lease, "spec": spec})
        async with _Elected(cluster, namespace, _QUICK).running() as one:
            await until(one.leads.is_set)
            found = await _spec(cluster, namespace)
            assert found["holderIdentity"] == one.elector.identity
            assert found["leaseTransitions"] == greatest == one.terms[0].transitions


async def test_a_restart_of_the_server_ends_no_term(server: Server) -> None:
    namespace = server.namespace()
    async with server.connect() as cluster, _Elected(cluster, namespace).running() as one:
        await until(one.leads.is_set)
        await asyncio.to_thread(server.restart)
        restarted_at = now()

        def is_renewed() -> bool:
            ago = one.elector.status().renewed_seconds
            return ago is not None and now() - ago > restarted_at

        await until(is_renewed)
        assert len(one.terms) == 1
        one.terms[0].check()


async def test_an_object_deleted_while_no_leader_is_there_is_reconciled_by_the_next(
    server: Server,
) -> None:
    """It has no finalizer, so nothing but the memory of a standby knows of it."""
    namespace = server.namespace()
    gone: list[str] = []
    election = pyinformer.LeaderElection(namespace=namespace, options=_QUICK)
    app = pyinformer.Operator("db-operator", leader_election=election)

    @app.reconcile("v1", "configmaps")
    async def reconcile(request: pyinformer.Request, obj: Any, _cluster: Cluster) -> None:
        if obj is None:
            gone.append(request.key)

    async with server.connect() as cluster:
        await cluster.create(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "db-operator", "namespace": namespace},
                "spec": {"holderIdentity": "crashed", "leaseDurationSeconds": 5},
            }
        )
        await cluster.create(_map("a", namespace))
        async with app.running(cluster, namespaces=namespace) as run:
            elector = run.elector
            assert elector is not None
            await until(lambda: elector.status().holder == "crashed")
            await cluster.delete("v1", "configmaps", f"{namespace}/a")
            await until(lambda: elector.is_leading, timeout_seconds=100)
            await until(lambda: gone == [f"{namespace}/a"], timeout_seconds=100)


async def test_a_deleted_lease_ends_the_term_and_is_created_again(server: Server) -> None:
    namespace, leases = server.namespace(), ("coordination.k8s.io/v1", "leases")
    options = LeaderElectionOptions(
        lease_duration_seconds=3.0, renew_deadline_seconds=2.0, retry_period_seconds=1.0
    )
    async with server.connect() as cluster, _Elected(cluster, namespace, options).running() as one:
        await until(one.leads.is_set)
        before = await cluster.get(*leases, f"{namespace}/db-operator")
        await cluster.delete(*leases, f"{namespace}/db-operator")
        await until(lambda: len(one.terms) > 1)
        with pytest.raises(FencedError):
            one.terms[0].check()
        after = await cluster.get(*leases, f"{namespace}/db-operator")
        assert after.metadata.uid != before.metadata.uid


async def test_a_replica_without_rights_names_them_and_waits_for_them(strict: Server) -> None:
    namespace = strict.namespace()
    async with as_the_account(strict, namespace) as cluster:
        one = _Elected(cluster, namespace, _QUICK)
        text = one.elector.required_rbac(service_account=f"{namespace}/{ACCOUNT}")
        async with one.running():
            await until(lambda: "leases" in one.elector.status().last_error)
            assert "get, create and update on leases" in one.elector.status().last_error
            for document in yaml.safe_load_all(text):
                await asyncio.to_thread(strict.api.create, document)
            await until(one.leads.is_set, timeout_seconds=100)


async def test_the_printed_role_is_enough_for_an_operator_that_elects(strict: Server) -> None:
    namespace = strict.namespace()
    strict.api.create(_map("a", namespace))
    reconciled: list[str] = []
    election = pyinformer.LeaderElection(namespace=namespace, options=_PATIENT)
    app = pyinformer.Operator("db-operator", leader_election=election)

    @app.reconcile("v1", "configmaps")
    async def reconcile(request: pyinformer.Request, _obj: Any, _cluster: Cluster) -> None:
        reconciled.append(request.key)

    async with strict.connect() as admin:
        async with app.running(admin, namespaces=namespace) as run:
            await until(lambda: f"{namespace}/a" in reconciled)
            text = run.required_rbac(name="db", service_account=f"{namespace}/{ACCOUNT}")
        reconciled.clear()
        for document in yaml.safe_load_all(text):
            await asyncio.to_thread(strict.api.create, document)
    async with (
        as_the_account(strict, namespace) as cluster,
        app.running(cluster, namespaces=namespace) as run,
    ):
        await until(lambda: f"{namespace}/a" in reconciled)
        elector = run.elector
        assert elector is not None
        await until(lambda: elector.status().is_watching)
        identity = elector.identity
        await until(lambda: f"{identity} became leader" in _notes(strict, namespace))


async def test_a_replica_that_may_not_watch_names_the_right_until_it_has_it(
    strict: Server, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = strict.namespace()
    async with as_the_account(strict, namespace) as cluster:
        one = _Elected(cluster, namespace)
        text = one.elector.required_rbac(service_account=f"{namespace}/{ACCOUNT}")
        role, binding = yaml.safe_load_all(text)
        full = [dict(rule) for rule in role["rules"]]
        for rule in role["rules"]:
            rule["verbs"] = [verb for verb in rule["verbs"] if verb != "watch"]
        await apply(strict, role, binding)
        status = one.elector.status
        with caplog.at_level("INFO", "pyinformer.leaderelection"):
            async with one.running():
                await until(lambda: '"watch" is missing' in status().watch_refusal)
                await until(one.leads.is_set)
                health = pyinformer.operator.Health(one.elector)
                assert health.ready()
                assert any('"watch" is missing' in note for note in health.ready().notes)
                await asyncio.to_thread(grant, strict, role, full)
                await until(lambda: status().is_watching, timeout_seconds=100)
                assert not status().watch_refusal
                assert not health.ready().notes
        refused = [line for line in caplog.messages if "may not be watched" in line]
        assert len(refused) == 1
        assert f"leases.coordination.k8s.io 'db-operator' in namespace {namespace}" in refused[0]


def _notes(server: Server, namespace: str) -> list[str]:
    events = server.api.list("events.k8s.io/v1", "events", namespace)
    return [str(one.get("note")) for one in events]
