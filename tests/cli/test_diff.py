"""`pyinformer diff`: what an operator would change for one object; the server stores nothing."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.testing import Fault
from tests.cli.command_line import here

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer, InterceptedRequest, KubeAPIServer
    from pyinformer.testing.apiserver.requests import RequestRecord

_PROGRAM = """
import json
from pathlib import Path

import pyinformer

app = pyinformer.Operator("shops")
outside = pyinformer.Operator("shops")
foreign = pyinformer.Operator("foreign")
idle = pyinformer.Operator("idle")
wanted = json.loads(Path("wanted.json").read_text(encoding="utf-8"))
OWNED = [("v1", "secrets"), ("v1", "pods")]


@app.reconcile("v1", "configmaps", owns=OWNED, label_selector="kind=shop")
async def reconcile(request, shop, children):
    print("the function prints this")
    if wanted["error"]:
        raise RuntimeError(wanted["error"])
    for method, path in wanted["requests"]:
        await children.cluster.request(method, path)
    if wanted["command"]:
        await children.cluster.exec("default/a", ["ls"])
    for stage, objects in wanted["stages"].items():
        await children.apply(objects, stage=stage)
        if wanted["waits"]:
            await children.ready()


async def drop(request, shop, cluster):
    Path("dropped").touch()


@outside.reconcile("v1", "configmaps", owns=OWNED, label_selector="kind=shop", cleanup=drop)
async def acting(request, shop, children):
    Path("made").touch()
    await reconcile(request, shop, children)


@app.daemon("v1", "configmaps", label_selector="kind=shop", name="watcher")
async def watcher(request, versions, cluster):
    raise AssertionError("diff has started a daemon")


@app.every(3600, name="audit")
async def audit(cluster):
    raise AssertionError("diff has called a timer")


@foreign.reconcile("acme.io/v1", "shops")
async def of_a_missing_kind(request, shop, cluster): ...


@idle.every(3600, name="audit")
async def idle_audit(cluster): ...
"""


class Shop:
    """A program, and the shop on a server that it reconciles."""

    def __init__(self, server: APIServer | KubeAPIServer, namespace: str, *options: str) -> None:
        self.server = server
        self.namespace = namespace
        self.options = options
        self.wanted: JSONObject = {
            "error": "",
            "command": False,
            "requests": [],
            "waits": False,
            "stages": {},
        }
        labels = {"kind": "shop"}
        metadata = {"name": "orders", "namespace": namespace, "labels": labels}
        server.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})

    @property
    def key(self) -> str:
        """Its key."""
        return f"{self.namespace}/orders"

    def diff(self, *options: str, app: str = "app", **environ: str) -> Any:
        """Run the command for the shop."""
        self._load()
        return here("diff", f"shop_operator:{app}", self.key, *self.options, *options, **environ)

    def _load(self) -> Any:
        Path("wanted.json").write_text(json.dumps(self.wanted), encoding="utf-8")
        sys.modules.pop("shop_operator", None)
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module("shop_operator")

    def reconcile(self, **connection: Any) -> None:
        """Really do what the command would show."""
        app = self._load().app

        async def program() -> None:
            """One call of the function."""
            async with pyinformer.connect(**connection) as cluster:
                factory = pyinformer.SharedInformerFactory(cluster)
                controller = app.controllers(cluster, factory, namespaces=self.namespace)[0]
                async with factory:
                    await factory.start()
                    await factory.wait_for_cache_sync(timeout_seconds=30)
                    outcome = await controller.reconcile_once(self.key)
                    assert outcome.error is None

        asyncio.run(program())


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a program, and make its folder the current one."""
    (tmp_path / "shop_operator.py").write_text(_PROGRAM, encoding="utf-8")
    (tmp_path / "broken.py").write_text("print(\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "shop_operator", raising=False)


@pytest.fixture
def shop(apiserver: APIServer) -> Shop:
    """Return a shop that wants a Secret."""
    shop = Shop(apiserver, "default", "--server", apiserver.url)
    shop.wanted["stages"] = {"": [secret("red")]}
    return shop


def secret(password: str, **more: str) -> JSONObject:
    """Return a Secret."""
    values = {"password": password, **more}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "data": data}


def pod(name: str) -> JSONObject:
    """Return a Pod."""
    containers = [{"name": "web", "image": "example.com/web:1"}]
    spec = {"containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _writes(server: APIServer) -> list[RequestRecord]:
    return [one for one in server.requests if one.method not in {"GET", "HEAD"}]


def test_new_children_are_shown_and_not_stored(shop: Shop, apiserver: APIServer) -> None:
    before = apiserver.get("v1", "configmaps", "orders")
    apiserver.clear_requests()

    done = shop.diff()

    assert done.exit_code == 0
    said, *ended = done.stderr.splitlines()
    assert said == "the function prints this"
    assert ended == ["configmaps default/orders: 2 objects would change"]
    lines = done.stdout.splitlines()
    assert sum(line.startswith("--- ") for line in lines) == 2
    assert lines[:2] == ["--- now/ConfigMap/default/orders", "+++ then/ConfigMap/default/orders"]
    created = lines[lines.index("--- /dev/null") :]
    assert created[1] == "+++ then/Secret/default/login"
    assert "+  name: login" in created
    assert not any(line.startswith("+  uid:") for line in created)  # another one when it is made
    assert apiserver.list("v1", "secrets") == []
    assert apiserver.get("v1", "configmaps", "orders") == before
    assert [one.query.get("dryRun") for one in _writes(apiserver)] == ["All"] * 2


def test_what_is_as_it_shall_be_has_no_difference(shop: Shop, apiserver: APIServer) -> None:
    shop.reconcile(server=apiserver.url)

    done = shop.diff()

    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.endswith("configmaps default/orders: nothing would change\n")


def test_check_ends_with_1_if_something_would_change(shop: Shop, apiserver: APIServer) -> None:
    shop.reconcile(server=apiserver.url)
    assert shop.diff("--check").exit_code == 0
    shop.wanted["stages"] = {"": [pod("web")]}

    done = shop.diff("--check")

    assert (done.exit_code, shop.diff().exit_code) == (1, 0)
    assert "+++ then/Pod/default/web" in done.stdout
    assert apiserver.list("v1", "pods") == []


def test_check_ends_with_2_if_a_function_fails(shop: Shop, apiserver: APIServer) -> None:
    """Also if something would change: a job that looks for drift has not seen all."""
    shop.wanted["stages"] = {"": [pod("web")]}
    shop.wanted["error"] = "no such price"

    done = shop.diff("--check")

    assert (done.exit_code, shop.diff().exit_code) == (2, 1)
    assert apiserver.list("v1", "pods") == []


def test_check_ends_with_1_if_a_stage_waits(shop: Shop, apiserver: APIServer) -> None:
    shop.wanted["stages"] = {"": [pod("web")]}
    shop.reconcile(server=apiserver.url)
    assert shop.diff("--check").exit_code == 0
    shop.wanted["waits"] = True

    done = shop.diff("--check")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.endswith("; what comes then is not known\n")


def test_a_changed_child_is_shown_as_a_unified_diff(shop: Shop, apiserver: APIServer) -> None:
    shop.wanted["stages"] = {"": [pod("web")]}
    shop.reconcile(server=apiserver.url)
    shop.wanted["stages"][""][0]["spec"]["containers"][0]["image"] = "example.com/web:2"

    done = shop.diff()

    changed = [line for line in done.stdout.splitlines() if line[:1] in "+-"]
    assert changed == [
        "--- now/Pod/default/web",
        "+++ then/Pod/default/web",
        "-  - image: example.com/web:1",
        "+  - image: example.com/web:2",
    ]
    (container,) = apiserver.get("v1", "pods", "web")["spec"]["containers"]
    assert container["image"] == "example.com/web:1"


def test_what_left_the_set_is_shown_and_stays(shop: Shop, apiserver: APIServer) -> None:
    shop.wanted["stages"] = {"": [secret("red"), pod("web")]}
    shop.reconcile(server=apiserver.url)
    shop.wanted["stages"] = {"": [secret("red")]}

    done = shop.diff()

    assert "--- now/Pod/default/web\n+++ /dev/null\n" in done.stdout
    assert [one["metadata"]["name"] for one in apiserver.list("v1", "pods")] == ["web"]


def test_values_of_secrets_are_hidden_unless_asked_for(shop: Shop, apiserver: APIServer) -> None:
    shop.wanted["stages"] = {"": [secret("red", user="admin")]}
    shop.reconcile(server=apiserver.url)
    shop.wanted["stages"] = {"": [secret("blue", user="admin")]}
    encoded = base64.b64encode(b"blue").decode()

    hidden, shown = shop.diff(), shop.diff("--show-secrets")

    assert [line for line in hidden.stdout.splitlines() if line[:1] in "+-"][2:] == [
        "-  password: (redacted)",
        "+  password: (redacted) (changed)",
    ]
    assert encoded not in hidden.output
    assert f"+  password: {encoded}" in shown.stdout


def test_a_stage_that_waits_ends_it_and_says_so(shop: Shop, apiserver: APIServer) -> None:
    shop.wanted |= {"waits": True, "stages": {"web": [pod("web")], "login": [secret("red")]}}

    done = shop.diff()

    assert done.exit_code == 0
    assert "then/Pod/default/web" in done.stdout
    assert "Secret" not in done.stdout
    assert "configmaps default/orders: waits for Pod default/web: " in done.stderr
    assert done.stderr.endswith("; what comes then is not known\n")


def test_a_function_that_fails_ends_with_1_and_its_error(shop: Shop) -> None:
    shop.wanted["error"] = "no such price"

    done = shop.diff()

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.endswith("configmaps default/orders: RuntimeError: no such price\n")


def test_what_the_server_refuses_is_said_beside_the_other_changes(
    shop: Shop, apiserver: APIServer
) -> None:
    shop.wanted["stages"] = {"": [secret("red"), pod("web")]}

    def is_pod(request: RequestRecord) -> bool:
        """Match the write of the Pod."""
        return request.method == "PATCH" and request.name == "web"

    refusal = Fault(match=is_pod, status=403, reason="Forbidden", message="policy: no pods")
    apiserver.faults.add(refusal)

    done = shop.diff()

    assert done.exit_code == 1
    assert "then/Secret/default/login" in done.stdout
    assert "policy: no pods" in done.stderr


def test_a_server_that_stores_a_dry_run_gets_no_further_write(
    shop: Shop, apiserver: APIServer
) -> None:
    """As an aggregated API that does not know dry runs."""
    shop.wanted["stages"] = {"": [secret("red"), pod("web")]}

    def store(request: InterceptedRequest) -> InterceptedRequest | None:
        """Make a real write of the first dry run of a child."""
        if request.resource != "secrets" or request.verb != "patch":
            return None
        query = {name: value for name, value in request.query.items() if name != "dryRun"}
        return replace(request, query=query)

    with apiserver.intercept(store):
        done = shop.diff()

    assert done.exit_code == 1
    assert "the server has stored it, although it was a dry run" in done.stderr
    assert "then/Pod/" not in done.stdout
    assert apiserver.list("v1", "pods") == []


def test_a_deletion_that_is_carried_out_ends_it(shop: Shop, apiserver: APIServer) -> None:
    shop.wanted["stages"] = {"": [secret("red"), pod("web"), pod("web-2")]}
    shop.reconcile(server=apiserver.url)
    shop.wanted["stages"] = {"": [secret("red")]}

    def delete(request: InterceptedRequest) -> InterceptedRequest | None:
        """Make a real deletion of a dry run."""
        if request.verb != "delete":
            return None
        query = {name: value for name, value in request.query.items() if name != "dryRun"}
        options = {name: each for name, each in dict(request.body).items() if name != "dryRun"}
        return replace(request, query=query, body=options)

    with apiserver.intercept(delete):
        done = shop.diff()

    assert done.exit_code == 1
    assert "although it was a dry run" in done.stderr.splitlines()[-1]
    assert len(apiserver.list("v1", "pods")) == 1


def test_a_write_of_another_client_meanwhile_is_not_taken_for_a_dry_run(
    shop: Shop, apiserver: APIServer
) -> None:
    shop.reconcile(server=apiserver.url)
    shop.wanted["stages"] = {"": [secret("blue"), pod("web")]}
    wrote: list[str] = []

    def write(request: InterceptedRequest) -> None:
        """Change the Secret when its dry run arrives."""
        if request.resource == "secrets" and request.verb == "patch" and not wrote:
            wrote.append(request.name)
            label = {"metadata": {"labels": {"team": "other"}}}
            apiserver.patch("v1", "secrets", "login", label)

    with apiserver.intercept(write):
        done = shop.diff()

    assert (done.exit_code, wrote) == (0, ["login"])
    assert "team" not in "".join(line for line in done.stdout.splitlines() if line[:1] in "+-")
    assert "then/Pod/default/web" in done.stdout


def test_what_acts_outside_of_the_cluster_is_called_only_if_asked_for(
    shop: Shop, apiserver: APIServer
) -> None:
    shop.wanted["stages"] = {"first": [secret("red")], "second": [pod("web")]}

    refused = shop.diff(app="outside")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "add --outside to call it" in refused.stderr
    assert not Path("made").exists()

    called = shop.diff("--outside", app="outside")
    assert called.exit_code == 0
    assert Path("made").exists()
    added = {line for line in called.stdout.splitlines() if line.startswith("+  - ")}
    assert "+  - cleanup.pyinformer.dev/shops.configmaps" in added
    assert "+  - pyinformer.dev/shops.configmaps" in added

    held = {"finalizers": ["cleanup.pyinformer.dev/shops.configmaps"]}
    apiserver.patch("v1", "configmaps", "orders", {"metadata": held})
    apiserver.delete("v1", "configmaps", "orders")
    refused = shop.diff(app="outside")
    assert (refused.exit_code, Path("dropped").exists()) == (1, False)
    called = shop.diff("--outside", app="outside")
    assert "--- now/ConfigMap/default/orders\n+++ /dev/null\n" in called.stdout
    assert Path("dropped").exists()
    assert apiserver.get("v1", "configmaps", "orders")["metadata"]["finalizers"]


def test_a_write_for_a_workload_is_refused(shop: Shop, apiserver: APIServer) -> None:
    shop.wanted["requests"] = [("DELETE", "/api/v1/namespaces/default/pods/web/proxy/cache")]
    apiserver.clear_requests()

    done = shop.diff()

    assert done.exit_code == 1
    assert "which knows no dry run" in done.stderr
    assert not any("/proxy" in one.path for one in apiserver.requests)


def test_an_object_may_be_called_as_a_part_of_a_path(shop: Shop, apiserver: APIServer) -> None:
    shop.wanted["stages"] = {"": [pod("proxy"), pod("status")]}

    done = shop.diff()

    assert done.exit_code == 0
    assert "then/Pod/default/proxy" in done.stdout
    shop.reconcile(server=apiserver.url)
    shop.wanted["stages"] = {"": [pod("proxy")]}
    gone = shop.diff().stdout
    assert "--- now/Pod/default/status\n+++ /dev/null\n" in gone
    assert "Pod/default/proxy" not in gone


def test_an_error_that_quotes_an_object_is_cut(shop: Shop) -> None:
    shop.wanted["error"] = "cannot use {'data': {'password': 'cmVk'}}"

    done = shop.diff()

    assert done.exit_code == 1
    assert "RuntimeError: cannot use" in done.stderr
    assert "cmVk" not in done.output


def test_a_command_in_a_container_cannot_be_a_dry_run(shop: Shop) -> None:
    shop.wanted["command"] = True

    done = shop.diff()

    assert done.exit_code == 1
    assert "cannot run commands in containers" in done.stderr


def test_an_owner_that_is_being_deleted_shows_its_release(shop: Shop, apiserver: APIServer) -> None:
    shop.wanted["stages"] = {"first": [secret("red")], "second": [pod("web")]}
    shop.reconcile(server=apiserver.url)
    apiserver.delete("v1", "configmaps", "orders")

    done = shop.diff()

    assert "--- now/Pod/default/web\n+++ /dev/null\n" in done.stdout
    assert "Secret" not in done.stdout
    assert "stage second" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["shop_operator:app", "default/x"], "no object 'default/x' among", id="key"),
        pytest.param(
            ["shop_operator:foreign", "default/x"], "the server does not serve it", id="definition"
        ),
        pytest.param(["shop_operator:app", "x"], "is namespace/name", id="no-namespace"),
        pytest.param(
            ["shop_operator:app", "default/orders", "-n", "other"], "in other", id="elsewhere"
        ),
        pytest.param(["shop_operator:idle", "default/orders"], "no reconcile function", id="idle"),
        pytest.param(["shop_operator:wanted", "default/orders"], "must be an Operator", id="dict"),
        pytest.param(["missing:app", "default/orders"], "'missing' was not found", id="module"),
        pytest.param(["broken:app", "default/orders"], "broken.py:1: Syntax", id="broken-module"),
    ],
)
def test_an_error_is_one_line(
    shop: Shop, apiserver: APIServer, arguments: list[str], words: str
) -> None:
    shop.reconcile(server=apiserver.url)

    done = here("diff", *arguments, "--server", apiserver.url)
    checked = here("diff", *arguments, "--check", "--server", apiserver.url)

    assert (done.exit_code, done.stdout, checked.exit_code) == (1, "", 2)
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_server_that_does_not_answer_ends_with_3(shop: Shop, apiserver: APIServer) -> None:
    refusal = Fault(match=lambda one: one.resource == "configmaps", status=503, times=None)
    apiserver.faults.add(refusal)

    done = shop.diff("--timeout-seconds", "0.5")

    assert (done.exit_code, done.stdout) == (3, "")
    assert "configmaps" in done.stderr


@pytest.mark.real
@pytest.mark.timeout(200)
def test_the_real_server_fills_in_what_it_would_store(
    kube_apiserver_session: KubeAPIServer, tmp_path: Path
) -> None:
    server, namespace = kube_apiserver_session, "rehearsed"
    server.close_connections()
    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    kubeconfig = str(server.write_kubeconfig(tmp_path / "kubeconfig"))
    shop = Shop(server, namespace, "-n", namespace)
    shop.wanted["stages"] = {"first": [secret("red")], "second": [pod("web")]}

    dry = shop.diff(KUBECONFIG=kubeconfig)

    assert dry.exit_code == 0, dry.stderr
    assert dry.stderr.endswith(f"configmaps {namespace}/orders: 3 objects would change\n")
    assert "+  restartPolicy: Always" in dry.stdout  # a default of the server
    assert server.list("v1", "secrets", namespace) == []
    assert dry.stdout.count("--- now/ConfigMap/") == 1  # of its marks and its finalizer
    assert "+  - pyinformer.dev/shops.configmaps" in dry.stdout
    assert "finalizers" not in server.get("v1", "configmaps", "orders", namespace)["metadata"]

    shop.reconcile(kubeconfig=kubeconfig)
    same = shop.diff(KUBECONFIG=kubeconfig)
    assert (same.exit_code, same.stdout) == (0, "")

    shop.wanted["stages"] = {"first": [secret("blue")]}
    changed = shop.diff(KUBECONFIG=kubeconfig)
    assert "+  password: (redacted) (changed)" in changed.stdout
    assert f"--- now/Pod/{namespace}/web\n+++ /dev/null\n" in changed.stdout
    assert len(server.list("v1", "pods", namespace)) == 1
    server.close_connections()
