"""The checker judges client-go by the rules of pyinformer, less what it is known to do."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import APIServer, FaultSchedule, KubeAPIServer, Token
from pyinformer.testing.histories import (
    KNOWN_OF_CLIENT_GO,
    EtcdTruth,
    HandledRecord,
    History,
    Rule,
    ServerTruth,
    Version,
    check_history,
    read_history,
)
from tests.foreign.judged import PROGRAM, Judged, in_a_storm, judged
from tests.integration.chaos.script import Script
from tests.integration.chaos.storm import Storm
from tests.integration.servers import ADMIN
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyinformer.objects import JSONObject

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(400)]

NAMESPACE = "default"
STORM_SECONDS = 30.0
STRUCK = (
    *("cut", "cut-after", "refuse", "stall", "drip", "split", "join"),
    *("status", "reset", "expired-status", "expired-event", "truncated-chunk", "no-bookmarks"),
)
"""Faults that client-go can survive: it is not given new tokens and certificates."""


def config_map(name: str, value: int) -> JSONObject:
    metadata: JSONObject = {"name": name, "namespace": NAMESPACE}
    data = {"value": str(value)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def live(api: APIServer | KubeAPIServer) -> dict[str, Version]:
    """Return what there is, by key."""
    return {
        f"{NAMESPACE}/{one['metadata']['name']}": Version(
            one["metadata"]["uid"], one["metadata"]["resourceVersion"]
        )
        for one in api.list("v1", "configmaps", NAMESPACE)
    }


def write(api: APIServer | KubeAPIServer, count: int) -> None:
    """Create, change and delete some."""
    for number in range(count):
        made = api.create(config_map(f"w{number}", number))
        if number % 2:
            made = api.update({**made, "data": {"value": "x"}})
        if number % 3 == 0:
            api.delete("v1", "configmaps", f"w{number}", NAMESPACE)


def recreate(api: APIServer | KubeAPIServer) -> None:
    """Replace an object by another of its name."""
    api.delete("v1", "configmaps", "kept", NAMESPACE)
    api.create(config_map("kept", 2))


@pytest.fixture
def api() -> Iterator[APIServer]:
    with APIServer(tls=True, tokens=[Token(value=ADMIN)]) as made:
        yield made


@contextmanager
def on_embedded(api: APIServer, client_go: Path, folder: Path) -> Iterator[tuple[History, Judged]]:
    """Follow an embedded server by client-go; at the end, bring it to rest."""
    history = History()
    kubeconfig = api.write_kubeconfig(folder / "kubeconfig")
    with (
        ServerTruth(history, api),
        judged(history, client_go, kubeconfig, NAMESPACE) as informer,
    ):
        informer.wait_for_sync()
        yield history, informer
        informer.rest(live(api))


def test_client_go_is_right_while_nothing_fails(
    api: APIServer, client_go: Path, tmp_path: Path
) -> None:
    with on_embedded(api, client_go, tmp_path) as (history, _):
        write(api, 30)
    verdict = check_history(history)

    assert verdict.holds, str(verdict)
    assert verdict.expected == ()
    assert verdict.records["handled"] > 50


def test_an_update_that_changes_the_uid_is_expected_of_client_go(
    api: APIServer, client_go: Path, tmp_path: Path
) -> None:
    api.create(config_map("kept", 1))
    with on_embedded(api, client_go, tmp_path) as (history, informer):
        assert poll(lambda: informer.mirror.keys() >= {"default/kept"}, timeout_seconds=100)
        api.stop_accepting()
        api.drop_connections()
        recreate(api)
        api.restart(keep_history=False)
    verdict = check_history(history)

    assert verdict.holds, str(verdict)
    assert {one.rule for one in verdict.expected} == {Rule.UID_CHANGED}
    unexpected = check_history(history, expected={})
    assert set(unexpected.counts) == {Rule.UID_CHANGED}
    assert unexpected.violations[0].who == f"{PROGRAM}/handler"


@pytest.mark.real
def test_client_go_after_a_restart_and_after_a_restore_of_a_real_server(
    kube_apiserver_build: bool, client_go: Path, tmp_path: Path
) -> None:
    """It converges after a restart; after a restore it does not, and the checker reports it."""
    history = History()
    with KubeAPIServer(build=kube_apiserver_build) as api:
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        api.create(config_map("kept", 1))
        with (
            EtcdTruth(history, api.etcd_url, resources=["configmaps"]) as truth,
            judged(history, client_go, kubeconfig, NAMESPACE) as informer,
        ):
            informer.wait_for_sync()
            write(api, 30)
            api.restart()
            recreate(api)
            truth.catch_up()
            assert informer.rest(live(api))
            before = check_history(list(history))

            saved = api.save()
            for number in range(60):
                api.create(config_map(f"lost{number}", number))
            assert poll(lambda: "default/lost59" in informer.mirror, timeout_seconds=100)
            api.restore(saved)
            for number in range(20):
                api.create(config_map(f"new{number}", number))
            truth.catch_up()
            assert not informer.rest(live(api), timeout_seconds=10.0)
            truth.catch_up()
        api.close_connections()
    after = check_history(history)

    assert before.holds, before
    assert {Rule.PHANTOM, Rule.MISSING} <= set(after.counts)


@pytest.mark.real
def test_client_go_in_the_storm_of_pyinformer_does_only_what_is_known(
    kube_apiserver_build: bool, client_go: Path, tmp_path: Path
) -> None:
    """Both follow the same server by the same proxy, under the same legal faults."""
    faults = FaultSchedule.drawn(STRUCK, seed=29, seconds=STORM_SECONDS)
    script = Script(seed=29, schedule=faults, seconds=STORM_SECONDS, objects=60)
    path = tmp_path / "history.jsonl"
    with KubeAPIServer(build=kube_apiserver_build) as server:
        storm = Storm(script, path, beside=in_a_storm(client_go, tmp_path / "kubeconfig"))
        outcome = storm.run_on(server)
        server.close_connections()

    assert outcome.holds, str(outcome)
    handled = [one for one in read_history(path) if isinstance(one, HandledRecord)]
    assert sum(one.who.startswith(PROGRAM) for one in handled) > 100
    assert {one.rule for one in outcome.verdict.expected} <= KNOWN_OF_CLIENT_GO
    assert {one.who for one in outcome.verdict.expected} <= {f"{PROGRAM}/handler"}
