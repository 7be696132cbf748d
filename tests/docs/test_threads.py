"""The pages on threads and FastAPI, and their examples, are run against the embedded server."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from fastapi.testclient import TestClient

import pyinformer
from pyinformer.testing import World
from tests.docs import pages
from tests.programs import running

if TYPE_CHECKING:
    from types import ModuleType

    from pyinformer.blocking import BlockingInformer
    from pyinformer.testing import APIServer

_EXAMPLES = pages.ROOT / "docs/examples"


def pod(name: str, **labels: str) -> dict[str, Any]:
    """Return a pod to create."""
    metadata = {"namespace": "default", "name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


def shown(page: str) -> dict[str, Any]:
    """Return what a page defines; its blocks are one module."""
    names: dict[str, Any] = {"__name__": page}
    for block in pages.blocks(f"docs/howto/{page}", "python"):
        exec(compile(block.text, page, "exec"), names)  # noqa: S102 - our own page
    return names


def example(name: str) -> ModuleType:
    """Import an example as a module of its own."""
    spec = importlib.util.spec_from_file_location(name, _EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_plain_reconcile_of_the_page_on_threads_writes() -> None:
    app = shown("threads.md")["app"]
    metadata = {"namespace": "default", "name": "c", "labels": {"backup": "yes"}}
    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
    with World([found]) as world:
        (maps,) = app.controllers(world.cluster, world.factory)
        assert world.reconcile(maps, "default/c").error is None
        assert world.get("v1", "configmaps", "c-backup")["data"] == {"a": "1"}


def test_the_page_on_threads_reads_waits_and_writes(apiserver: APIServer) -> None:
    page = shown("threads.md")
    apiserver.create(pod("a"))
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "c"},
        "data": {"a": "1"},
    }
    assert page["names_of_pods"](apiserver.url) == ["a"]
    with (
        pyinformer.run_in_thread() as runner,
        runner.connect(server=apiserver.url) as cluster,
        cluster.informer_factory() as factory,
    ):
        pods = factory.informer("v1", "pods")
        factory.start()
        factory.wait_for_cache_sync()
        assert page["next_names"](pods, 1, 0.01) == []
        assert page["ensure"](cluster, config)
        assert not page["ensure"](cluster, config)
        assert page["nodes_from_a_thread"](runner, cluster, "default") == [""]
        heard = Heard(pods)
        waiting = threading.Thread(target=heard.run, args=(page["next_names"],))
        waiting.start()
        number = 0
        while waiting.is_alive():  # the stream may be opened behind any of them
            apiserver.create(pod(f"n{number}"))
            number += 1
            waiting.join(0.01)

    assert len(heard.names) == 1


class Heard:
    """The names that a thread receives."""

    def __init__(self, pods: BlockingInformer[None]) -> None:
        self.pods = pods
        self.names: list[str] = []

    def run(self, next_names: Any) -> None:
        """Wait for one."""
        self.names = next_names(self.pods, 1, 30.0)


def test_the_synchronous_script_prints_changes_until_ctrl_c(apiserver: APIServer) -> None:
    apiserver.create(pod("a"))
    command = [sys.executable, "-u", str(_EXAMPLES / "synchronous_script.py"), apiserver.url]
    with running(command, errors=subprocess.PIPE) as child:
        assert child.stdout
        assert [child.stdout.readline() for _ in range(3)] == [
            "1 pods in default\n",
            "0 of them on node-1\n",
            "handler: default/a on no node yet\n",
        ]
        line = ""
        for number in range(1000):  # the stream may be opened behind any of them
            apiserver.create(pod(f"b{number}"))
            line = child.stdout.readline()
            if line.startswith("+"):
                break
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=100)

    assert line.startswith("+ default/b")
    assert out.endswith("interrupted\n")
    assert errors == ""
    assert child.returncode == 0


def test_the_synchronous_script_ends_when_nothing_happens(
    apiserver: APIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    example("synchronous_script").main(apiserver.url, quiet_seconds=0.05)

    assert capsys.readouterr().out.splitlines()[-1] == "nothing happens any more"


def test_the_example_of_a_fastapi_lifespan_reads_and_writes(
    apiserver: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    apiserver.create(pod("a", app="web"))
    apiserver.create(pod("b"))
    monkeypatch.setenv("PYINFORMER_EXAMPLE_SERVER", apiserver.url)
    with TestClient(example("fastapi_lifespan").app) as client:
        while client.get("/readyz").status_code != 200:
            assert client.get("/pods").status_code in {200, 503}  # never empty before the sync
        assert client.get("/readyz").json() == []
        assert client.get("/pods").json() == ["default/a", "default/b"]
        assert client.get("/pods", params={"label_selector": "app=web"}).json() == ["default/a"]
        assert client.post("/pods/default/b/labels", json={"app": "web"}).json() == {"app": "web"}
        assert client.get("/pods/default/b").json()["metadata"]["labels"] == {"app": "web"}
        assert client.get("/pods/default/c").status_code == 404
        assert client.post("/pods/default/c/labels", json={}).status_code == 404


def test_the_example_of_fastapi_with_threads_reads_and_writes(
    apiserver: APIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    apiserver.create(pod("a"))
    monkeypatch.setenv("PYINFORMER_EXAMPLE_SERVER", apiserver.url)
    with TestClient(example("fastapi_threads").app) as client:
        assert client.get("/pods").json() == ["default/a"]
        assert client.delete("/pods/default/a").json() == {"deleted": True}
        assert client.get("/pods").json() == []
        assert client.delete("/pods/default/a").status_code == 404


def test_the_application_of_the_page_on_fastapi_follows_pods(
    apiserver: APIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    config = {"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}]}
    config["clusters"] = [{"name": "a", "cluster": {"server": apiserver.url}}]
    path = tmp_path / "kubeconfig"
    path.write_text(repr(config), encoding="utf-8")  # which YAML reads
    monkeypatch.setenv("KUBECONFIG", str(path))
    apiserver.create(pod("a"))
    with TestClient(shown("fastapi.md")["app"]) as client:
        answer = client.get("/pods")
        while answer.status_code == 503:
            answer = client.get("/pods")

    assert answer.json() == ["default/a"]
