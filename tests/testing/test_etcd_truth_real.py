"""The truth from a real etcd: every version of every object, with kubectl as the other witness."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import KubeAPIServer
from pyinformer.testing.histories import (
    EtcdTruth,
    History,
    RestoredRecord,
    TruthRecord,
    digest_of,
    status_digests,
)
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyinformer.objects import JSONObject

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

WIDGETS = "truth.example.com/v1"


@pytest.fixture(scope="module")
def running(kube_apiserver_build: bool) -> Iterator[KubeAPIServer]:
    with KubeAPIServer(build=kube_apiserver_build) as server:
        server.register(WIDGETS, "Widget", "widgets", has_status=True)
        yield server


@pytest.fixture
def server(running: KubeAPIServer) -> Iterator[KubeAPIServer]:
    yield running
    running.close_connections()


def config_map(name: str, **data: str) -> JSONObject:
    metadata = {"name": name, "namespace": "default", "labels": {"tier": "in"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def truths(history: History, resource: str, key: str) -> list[TruthRecord]:
    """Return what the history has of one object."""
    return [
        one
        for one in history
        if isinstance(one, TruthRecord) and (one.resource, one.key) == (resource, key)
    ]


def test_each_version_is_recorded_as_the_server_answered(server: KubeAPIServer) -> None:
    history = History()
    with EtcdTruth(history, server.etcd_url) as truth:
        first = server.create(config_map("a", x="1"))
        second = server.update({**first, "data": {"x": "2"}})
        server.delete("v1", "configmaps", "a", "default")
        third = server.create(config_map("a", x="3"))
        revision = truth.catch_up()

    found = truths(history, "configmaps", "default/a")
    assert [one.verb for one in found] == ["put", "put", "delete", "put"]
    puts = [one for one in found if one.verb == "put"]
    for one, answer in zip(puts, (first, second, third), strict=True):
        assert str(one.revision) == answer["metadata"]["resourceVersion"]
        assert one.uid == answer["metadata"]["uid"]
        assert one.digest == digest_of(answer)
        assert one.labels == {"tier": "in"}
    assert found[2].uid == first["metadata"]["uid"]
    assert found[-1].revision <= revision == truth.revision
    assert [one.at_seconds for one in found] == sorted(one.at_seconds for one in found)


def test_kubectl_shows_what_the_truth_has(server: KubeAPIServer, tmp_path: Path) -> None:
    """For every kind that the server makes by itself or that is written here."""
    kubectl = shutil.which("kubectl")
    assert kubectl, "kubectl is needed"
    config = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
    kinds = "namespaces,services,endpointslices,clusterroles,priorityclasses,apiservices"
    pod = {"containers": [{"name": "main", "image": "example.com/app:1"}], "nodeName": "a"}
    server.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": pod,
        }
    )
    history = History()
    with EtcdTruth(history, server.etcd_url, fields=["spec.nodeName"]) as truth:
        command = [
            kubectl,
            "--kubeconfig",
            str(config),
            "get",
            f"{kinds},pods,crds",
            "-A",
            "-o",
            "json",
        ]
        listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        truth.catch_up()

    assert len(listed["items"]) > 100
    live: dict[tuple[str, str], TruthRecord] = {}
    for one in history:
        if isinstance(one, TruthRecord):
            live[one.resource, one.key] = one
    names = {"Namespace": "namespaces", "Service": "services", "Pod": "pods"}
    for item in listed["items"]:
        meta = item["metadata"]
        key = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
        found = [
            one
            for (resource, name), one in live.items()
            if name == key and str(one.revision) == meta["resourceVersion"]
        ]
        assert [one.uid for one in found] == [meta["uid"]], key
        assert found[0].labels == meta.get("labels", {}), key
        assert names.get(item["kind"], found[0].resource) == found[0].resource
    assert live["pods", "default/p"].fields == {"spec.nodeName": "a"}
    assert ("endpointslices.discovery.k8s.io", "default/kubernetes") in live


def test_a_status_is_recorded_field_by_field(server: KubeAPIServer) -> None:
    history = History()
    with EtcdTruth(history, server.etcd_url, resources=["widgets.truth.example.com"]) as truth:
        metadata = {"name": "w", "namespace": "default"}
        made = server.create({"apiVersion": WIDGETS, "kind": "Widget", "metadata": metadata})
        server.update({**made, "status": {"ready": 1, "phase": "x"}})
        server.create(config_map("other"))
        truth.catch_up()

    found = [one for one in history if isinstance(one, TruthRecord)]
    assert {one.resource for one in found} == {"widgets.truth.example.com"}
    assert found[-1].status == status_digests({"ready": 1, "phase": "x"})


def test_a_killed_etcd_loses_nothing_of_the_truth(server: KubeAPIServer) -> None:
    history = History()
    with EtcdTruth(history, server.etcd_url) as truth:
        server.create(config_map("before"))
        server.restart_etcd()
        server.restart()
        server.create(config_map("after"))
        truth.catch_up()
        server.compact()
        server.create(config_map("compacted"))
        truth.catch_up()

    for name in ("before", "after", "compacted"):
        assert len(truths(history, "configmaps", f"default/{name}")) == 1
    assert [one for one in history if isinstance(one, RestoredRecord)] == []


@pytest.mark.parametrize("bump", [0, 1000], ids=["older", "bumped"])
def test_a_restore_is_noticed(server: KubeAPIServer, bump: int) -> None:
    history = History()
    with EtcdTruth(history, server.etcd_url, resources=["configmaps"]) as truth:
        kept = server.create(config_map(f"kept-{bump}"))
        saved = server.save()
        server.create(config_map(f"lost-{bump}"))
        truth.catch_up()
        before = len(_restores(history))  # one, if older revisions were compacted
        server.restore(saved, bump_revision=bump)
        new = server.create(config_map(f"new-{bump}"))
        assert poll(lambda: len(_restores(history)) > before, timeout_seconds=100)
        truth.catch_up()

    assert len(_restores(history)) == before + 1
    restored = _restores(history)[-1]
    records = list(history)
    begin = records.index(restored)
    listed = records[begin + 1 : begin + 1 + restored.puts]
    names = {one.key for one in listed if isinstance(one, TruthRecord)}
    assert f"default/kept-{bump}" in names
    assert f"default/lost-{bump}" not in names
    uids = [one.uid for one in truths(history, "configmaps", f"default/new-{bump}")]
    assert set(uids) == {new["metadata"]["uid"]}
    assert kept["metadata"]["uid"] in {
        one.uid for one in truths(history, "configmaps", f"default/kept-{bump}")
    }


def test_a_restore_is_noticed_though_the_revision_has_passed(server: KubeAPIServer) -> None:
    """The connection is lost, and comes back when etcd's revision is beyond the last one seen."""
    history = History()
    saved = server.save()
    with EtcdTruth(history, server.etcd_url, resources=["configmaps"]) as truth:
        server.create(config_map("phantom"))
        truth.catch_up()
    before = len(_restores(history))
    server.restore(saved)
    for number in range(60):  # a restart of the server writes some thirty revisions by itself
        server.create(config_map(f"passing-{number}"))
    newest = int(server.create(config_map("newest"))["metadata"]["resourceVersion"])
    assert newest > truth.revision
    with truth:
        assert poll(lambda: len(_restores(history)) > before, timeout_seconds=100)
        truth.catch_up()

    assert len(_restores(history)) == before + 1


def _restores(history: History) -> list[RestoredRecord]:
    return [one for one in history if isinstance(one, RestoredRecord)]
