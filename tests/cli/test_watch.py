"""`pyinformer watch` and `get` as their users meet them: in a process, on a real socket."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pyinformer.testing import Token
from tests.cli.cluster_objects import pod
from tests.cli.command_line import (
    COMMAND,
    SOON_SECONDS,
    complaints,
    environment,
    here,
    program,
    run,
)
from tests.programs import running

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer, KubeAPIServer

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_EVERY_FORM = ("table", "wide", "json")


def _pod(name: str, namespace: str = "default", **parts: Any) -> JSONObject:
    metadata = {"name": name, "namespace": namespace, **parts.pop("metadata", {})}
    return {**pod(name, node="node-1"), "metadata": metadata, **parts}


@pytest.fixture
def server(apiserver: APIServer) -> APIServer:
    """Return a server with a pod in each of three namespaces."""
    for namespace in ("default", "a", "b"):
        apiserver.ensure_namespace(namespace)
        apiserver.create(_pod(f"web-{namespace}", namespace, metadata={"labels": {"app": "web"}}))
    return apiserver


def test_watch_prints_what_exists_and_then_each_change(server: APIServer) -> None:
    server.create(_pod("old"))
    with program("watch", "po", "--server", server.url, "-l", "app=web") as watching:
        assert watching.line().split() == [
            *("NAME", "READY", "STATUS", "RESTARTS", "NODE", "AGE"),
        ]
        assert watching.line().startswith("web-default   0/0")

        server.create(_pod("new", metadata={"labels": {"app": "web"}}))
        assert "ADDED     default/new  ready=0/0" in watching.line()
        body = server.get("v1", "pods", "new", "default")
        body["metadata"]["labels"]["tier"] = "front\x1b[31m"[:5]
        body["metadata"]["annotations"] = {"example.com/note": "\x1b[2J"}
        server.update(body)
        assert watching.line().endswith("MODIFIED  default/new")
        changed = {watching.line().strip(), watching.line().strip()}
        assert 'metadata.labels.tier: added "front"' in changed
        assert all(line.isprintable() for line in changed)
        server.delete("v1", "pods", "new", "default")
        assert "DELETED   default/new" in watching.line()

        status, seconds, errors = watching.end(signal.SIGINT)

    assert (status, errors) == (130, [])
    assert seconds < SOON_SECONDS


def test_json_output_is_one_object_per_line(server: APIServer) -> None:
    with program("watch", "Pod", "--server", server.url, "-n", "a,b", "-o", "json") as watching:
        first = [json.loads(watching.line()) for _ in range(3)]
        server.create(_pod("new", "b"))
        new = json.loads(watching.line())
        server.create(_pod("elsewhere"))
        server.delete("v1", "pods", "new", "b")
        gone = json.loads(watching.line())
        status, _, errors = watching.end(signal.SIGTERM)

    assert [one["type"] for one in first] == ["ADDED", "ADDED", "SYNCED"]
    assert [one["object"]["metadata"]["name"] for one in first[:2]] == ["web-a", "web-b"]
    assert (new["type"], new["object"]["metadata"]["namespace"]) == ("ADDED", "b")
    assert (gone["type"], gone["object"]["metadata"]["name"]) == ("DELETED", "new")
    assert (status, errors) == (143, [])


def test_a_time_limit_reached_after_the_sync_is_not_a_failure(server: APIServer) -> None:
    done = here("watch", "v1/pods", "-A", "--server", server.url, "--timeout-seconds", "1.5")

    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        *("NAMESPACE", "a", "b", "default")
    ]
    asked = {record.path for record in server.requests}
    assert asked == {"/api/v1/pods"}  # a name in full needs no discovery


def test_the_table_holds_all_that_exists(server: APIServer) -> None:
    for number in range(3000):
        server.create(_pod(f"many-{number}"))

    with program("watch", "v1/pods", "--server", server.url) as watching:
        table = [watching.line() for _ in range(1 + 1 + 3000)]
        server.create(_pod("one-more"))
        after = watching.line()

    assert table[0].startswith("NAME")
    assert not [line for line in table if "ADDED" in line]
    assert "ADDED     default/one-more" in after


@pytest.fixture
def silence() -> Iterator[str]:
    """Return the URL of a server that takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_watch_ends_soon_while_it_waits_for_a_server(silence: str) -> None:
    cases = [("pods", signal.SIGINT), ("v1/pods", signal.SIGTERM), ("v1/pods", signal.SIGHUP)]
    with ExitStack() as stack:  # at once: each takes a while to say that it waits
        waiting = [
            (stack.enter_context(program("watch", resource, "--server", silence)), number)
            for resource, number in cases
        ]
        for watching, _ in waiting:
            assert watching.process.stderr is not None
            assert watching.process.stderr.readline().startswith("waiting for ")
        for watching, number in waiting:
            status, seconds, errors = watching.end(number)
            assert (status, errors) == (128 + number, [])
            assert seconds < SOON_SECONDS


def test_watch_ends_soon_though_its_output_is_not_read(server: APIServer) -> None:
    for number in range(200):
        server.create(_pod(f"big-{number}", metadata={"labels": {"text": "x" * 63}}))
    command = [*COMMAND, "watch", "pods", "--server", server.url, "-o", "json"]
    with running(command, env=environment(), errors=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # it writes: by now the pipe is full, or soon
        process.send_signal(signal.SIGINT)
        process.wait(timeout=SOON_SECONDS)
        assert process.stderr is not None
        errors = process.stderr.read()

    assert (process.returncode, complaints(errors)) == (130, [])


def test_watch_ends_soon_while_a_credential_plugin_runs(tmp_path: Path, silence: str) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    kubeconfig = tmp_path / "kubeconfig"
    plug_in = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "sh",
        "args": ["-c", f"echo >{ready}; exec sleep 60"],
        "interactiveMode": "Never",
    }
    config = {
        "clusters": [{"name": "c", "cluster": {"server": silence}}],
        "users": [{"name": "u", "user": {"exec": plug_in}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    kubeconfig.write_text(json.dumps(config))
    with program("watch", "v1/pods", "--kubeconfig", str(kubeconfig)) as watching:
        ready.read_text()
        status, seconds, errors = watching.end(signal.SIGINT)

    assert (status, errors) == (130, [])
    assert seconds < SOON_SECONDS


@pytest.mark.parametrize("seconds", [0.02, 0.2, 0.6])
def test_an_interrupt_during_imports_prints_nothing(silence: str, seconds: float) -> None:
    code = (
        "import os, signal, sys, threading\n"
        "from pyinformer_command import main\n"
        f"sys.argv = ['pyinformer', 'watch', 'pods', '--server', {silence!r}]\n"
        f"threading.Timer({seconds}, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "sys.exit(main())"
    )
    command = [COMMAND[0], "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())

    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def check_that_it_ends_with_its_reader(command: Sequence[str]) -> None:
    """Read one line of a command, and go."""
    with running(command, env=environment(), errors=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        process.wait(timeout=SOON_SECONDS)
        errors = process.stderr.read()

    assert (process.returncode, complaints(errors)) == (141, [])


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_closed_pipe_ends_watch_without_an_event(server: APIServer, form: str) -> None:
    command = [*COMMAND, "watch", "pods", "-A", "--server", server.url, "-o", form]
    check_that_it_ends_with_its_reader(command)


@pytest.mark.parametrize(
    "arguments", [("serve",), ("demo",), ("scenes", "held-lock"), ("get", "pods", "-A")]
)
def test_every_command_ends_when_its_output_is_closed(
    server: APIServer, arguments: tuple[str, ...]
) -> None:
    if arguments[0] == "get":
        for number in range(2000):
            server.create(_pod(f"many-{number}"))
        arguments = (*arguments, "--server", server.url, "-o", "json")
    command = [*COMMAND, *arguments]
    check_that_it_ends_with_its_reader(command)


@pytest.mark.parametrize(
    ("environ", "is_colourful"),
    [pytest.param({}, True, id="terminal"), pytest.param({"NO_COLOR": "1"}, False, id="no-color")],
)
def test_colours_are_used_on_terminals_that_allow_them(
    server: APIServer, environ: dict[str, str], is_colourful: bool
) -> None:
    ours, its = pty.openpty()
    command = [*COMMAND, "get", "pods", "--server", server.url]
    subprocess.run(command, stdout=its, env=environment(**environ), check=True)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    os.close(its)

    assert ("\x1b[1mNAME" in shown) is is_colourful
    assert ("\x1b" in shown) is is_colourful


def _definition(group: str, plural: str, kind: str, scope: str) -> JSONObject:
    names = {"plural": plural, "kind": kind}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    spec = {"group": group, "names": names, "scope": scope, "versions": versions}
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1111"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": approved},
        "spec": spec,
    }


@pytest.mark.parametrize(
    ("group", "plural", "kind", "scope"),
    [
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            "CertificateSigningRequest",
            "Cluster",
        ),
        ("networking.k8s.io", "servicecidrs", "ServiceCIDR", "Cluster"),
        ("acme.io", "nodes", "Node", "Namespaced"),
    ],
)
def test_a_full_name_is_followed_in_the_scope_of_its_resource(
    server: APIServer, group: str, plural: str, kind: str, scope: str
) -> None:
    """It is found without discovery: Kubernetes' own resources are known by group and name."""
    server.create(_definition(group, plural, kind, scope))
    for name, namespace in (("here", "default"), ("there", "other")):
        where = {"namespace": namespace} if scope == "Namespaced" else {}
        server.create(
            {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name, **where}}
        )

    done = here("get", f"{group}/v1/{plural}", "--server", server.url, "-o", "name")

    assert done.exit_code == 0, done.stderr
    assert ("there" in done.stdout) is (scope == "Cluster")
    assert "here" in done.stdout.replace("there", "")


def test_no_secret_is_shown_unless_it_is_asked_for(server: APIServer) -> None:
    annotations = {_LAST_APPLIED: "HIDDEN"}
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "annotations": annotations},
        "type": "Opaque",
        "data": {"password": "SElEREVO"},
    }
    server.create(body)
    at = ("--server", server.url)
    shown = here("get", "secrets", "s", *at, "-o", "json", "--show-secrets")
    assert json.loads(shown.stdout)["data"] == {"password": "SElEREVO"}
    texts = [here("get", "secret", *at, "-o", form).stdout for form in (*_EVERY_FORM, "yaml")]
    with ExitStack() as stack:
        of_each = [
            (form, stack.enter_context(program("watch", "secret", *at, "-o", form)))
            for form in _EVERY_FORM
        ]
        for form, watching in of_each:
            texts.append(watching.line_with("SYNCED" if form == "json" else "Opaque"))
        data = {"password": "SElEREVOTOO"}
        server.update(server.get("v1", "secrets", "s", "default") | {"data": data})
        for form, watching in of_each:
            texts += [watching.line_with("MODIFIED")]
            texts += [] if form == "json" else [watching.line()]

    assert [text for text in texts if "HIDDEN" in text or "SElEREVO" in text] == []
    assert any("data.password: changed (not shown" in text for text in texts)


def test_get_reads_by_name_and_by_index(server: APIServer) -> None:
    server.create(_pod("other", spec={"nodeName": "node-2"}))
    at = ("--server", server.url)

    by_index = here("get", "pods", *at, "-A", "--index", "spec.nodeName=node-2", "-o", "name")
    one = here("get", "pods", "other", *at, "-o", "json")
    all_of_them = here("get", "po", *at, "-A", "-o", "json")
    some = here("get", "pods", "other", "nope", "web-default", *at, "-o", "name")
    as_yaml = here("get", "po", *at, "-A", "-o", "yaml")
    one_as_yaml = here("get", "pods", "other", *at, "-o", "yaml")
    light = here("get", "pods", *at, "--metadata-only", "-o", "wide")

    assert (by_index.stdout, by_index.exit_code) == ("pod/other\n", 0)
    assert json.loads(one.stdout)["metadata"]["name"] == "other"
    assert len(json.loads(all_of_them.stdout)["items"]) == 4
    assert yaml.safe_load(as_yaml.stdout) == json.loads(all_of_them.stdout)
    assert yaml.safe_load(one_as_yaml.stdout) == json.loads(one.stdout)
    assert (some.stdout, some.exit_code) == ("pod/other\npod/web-default\n", 1)
    assert some.stderr == "pyinformer get: there is no 'nope' in pods.v1 in default\n"
    assert light.stdout.splitlines()[0].split() == ["NAME", "AGE", "LABELS"]


def test_an_ambiguous_name_is_reported_with_the_chosen_version(server: APIServer) -> None:
    done = here("get", "events", "--server", server.url)

    assert done.exit_code == 0
    assert "events is taken as v1/events; there is also events.events.k8s.io" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        pytest.param(["get", "podz"], 1, "does not serve 'podz'; it serves pods", id="near-name"),
        pytest.param(["get", "pods,cm"], 1, "run the command once for each", id="several"),
        pytest.param(["get", "all"], 1, "'all' is not a resource; run", id="all"),
        pytest.param(["watch", "v1/podz"], 1, "does not serve podz.v1", id="in-full"),
        pytest.param(
            ["get", "pod/web"], 1, "the full name of a resource must look like", id="kubectls-form"
        ),
        pytest.param(["get", "pods", "-l", "!!"], 2, "cannot parse '!!'", id="selector"),
        pytest.param(
            ["get", "pods", "--field-selector", "spec.foo=1"], 1, "400 BadRequest", id="no-field"
        ),
        pytest.param(
            ["get", "pods", "-n", "A_B"],
            2,
            "'A_B' cannot be the name",
            id="namespace",
        ),
        pytest.param(["get", "pods", "--index", "x"], 2, "must be PATH=VALUE", id="index"),
        pytest.param(
            ["get", "pods", "-A", "-n", "a"], 2, "combined with --namespace", id="all-and-one"
        ),
        pytest.param(
            ["get", "pods", "-n", "a,,b"], 2, "must not contain an empty name", id="commas"
        ),
        pytest.param(["get", "pods", "--as-group", "g"], 2, "requires --as", id="group"),
        pytest.param(["get", "pods", "--context", "x"], 2, "cannot be combined", id="both"),
    ],
)
def test_invalid_arguments_have_their_exit_status_and_message(
    server: APIServer, arguments: list[str], status: int, words: str
) -> None:
    done = here(*arguments, "--server", server.url)

    assert (done.exit_code, done.stdout) == (status, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param([], "no such kubeconfig file", id="no-kubeconfig"),
        pytest.param(["--context", "nope"], "nope", id="no-context"),
    ],
)
def test_a_missing_configuration_is_reported_in_words(
    server: APIServer, tmp_path: Path, arguments: list[str], words: str
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    if arguments:
        server.write_kubeconfig(kubeconfig)
    done = here("watch", "pods", *arguments, KUBECONFIG=str(kubeconfig))

    assert (done.exit_code, done.stdout) == (1, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unreachable_server_is_reported_and_retried() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    done = here("watch", "pods", "--server", url, "--timeout-seconds", "1.5")
    later = here("get", "v1/pods", "--server", url, "--timeout-seconds", "1")

    assert done.exit_code == later.exit_code == 3
    first, *others = done.stderr.splitlines()
    assert first.startswith("waiting for the server: ")
    assert first.endswith("Connection refused, attempt 1, again in 1 s")
    assert others[-1] == "pyinformer watch: not synced after 1.5 s"
    assert later.stderr.splitlines()[0].startswith("waiting for pods.v1 in default: ")
    assert "not synced after 1 s: pods.v1 in default: " in later.stderr


def test_one_forbidden_namespace_does_not_stop_the_others(
    server: APIServer, tmp_path: Path
) -> None:
    server.add_token(
        Token(value="t", verbs=("list", "watch"), resources=("pods",), namespaces=("a",))
    )
    kubeconfig = tmp_path / "kubeconfig"
    server.write_kubeconfig(kubeconfig, token="t")
    done = here("get", "v1/pods", "-n", "a,b", KUBECONFIG=str(kubeconfig))
    refused = here("get", "v1/pods", "-n", "b", KUBECONFIG=str(kubeconfig))

    assert done.exit_code == refused.exit_code == 1
    assert done.stdout.splitlines()[1].split()[:2] == ["a", "web-a"]
    assert refused.stdout == ""
    assert "pods.v1 in b: forbidden" in done.stderr
    assert "pods.v1 in b: forbidden" in refused.stderr


def test_a_forbidden_namespace_is_reported_while_the_others_are_followed(
    server: APIServer, tmp_path: Path
) -> None:
    server.add_token(
        Token(value="t", verbs=("list", "watch"), resources=("pods",), namespaces=("a",))
    )
    kubeconfig = server.write_kubeconfig(tmp_path / "kubeconfig", token="t")
    with program("watch", "v1/pods", "-n", "a,b", "--kubeconfig", str(kubeconfig)) as watching:
        assert watching.line().startswith("NAMESPACE")
        assert watching.line().startswith("a           web-a")
        server.create(_pod("new", "a"))
        assert "ADDED     a/new" in watching.line()
        status, _, errors = watching.end(signal.SIGINT)

    assert status == 130
    assert errors[0].startswith("waiting for pods.v1 in b: forbidden")


def test_the_shell_completes_contexts_and_resources(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    contexts = [{"name": "prod"}, {"name": "preview"}, {"name": "test"}]
    kubeconfig.write_text(json.dumps({"contexts": contexts}))
    script = Path(COMMAND[0]).with_name("pyinformer")

    def completed(*words: str) -> list[str]:
        env = environment(
            KUBECONFIG=str(kubeconfig),
            COMP_WORDS=" ".join(words),
            COMP_CWORD=str(len(words) - 1),
            _PYINFORMER_COMPLETE="complete_bash",
        )
        done = subprocess.run([script], capture_output=True, text=True, check=False, env=env)
        assert done.stderr == ""
        return done.stdout.split()

    assert completed("pyinformer", "watch", "pods", "--context", "pr") == ["preview", "prod"]
    assert completed("pyinformer", "get", "depl") == ["deployments"]
    kubeconfig.write_text("[" * 5_000)  # deeper than the loader can follow
    assert completed("pyinformer", "watch", "pods", "--context", "p") == []
    kubeconfig.unlink()
    assert completed("pyinformer", "watch", "pods", "--context", "p") == []


def test_the_completion_works_in_bash(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps({"contexts": [{"name": "production"}]}))
    folder = Path(COMMAND[0]).parent
    script = (
        'eval "$(pyinformer --show-completion bash)"\n'
        "COMP_WORDS=(pyinformer watch pods --context prod); COMP_CWORD=4\n"
        '_pyinformer_completion pyinformer; echo "${COMPREPLY[@]}"'
    )
    env = environment(KUBECONFIG=str(kubeconfig), PATH=f"{folder}:{os.environ['PATH']}")
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=False, env=env
    )

    assert (done.stdout, done.returncode) == ("production\n", 0), done.stderr


@pytest.mark.real
def test_the_real_server_is_followed_alike(kube_apiserver: KubeAPIServer, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kube_apiserver.write_kubeconfig(kubeconfig)
    env = environment(KUBECONFIG=str(kubeconfig))
    name = {"name": "from-the-command-line", "namespace": "default"}
    with program("watch", "cm", "-o", "json", env=env) as watching:
        watching.line_with('"SYNCED"')
        kube_apiserver.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"a": "1"}}
        )
        added = json.loads(watching.line_with(name["name"]))
        kube_apiserver.patch("v1", "configmaps", name["name"], {"data": {"a": "2"}}, "default")
        changed = json.loads(watching.line_with("MODIFIED"))
        listed = run("get", "configmaps", name["name"], "-o", "name", env=env)
        kube_apiserver.delete("v1", "configmaps", name["name"], "default")
        watching.line_with("DELETED")
        status, _, errors = watching.end(signal.SIGINT)

    assert (added["type"], changed["changedPaths"]) == ("ADDED", ["data.a"])
    assert listed.stdout == f"configmap/{name['name']}\n"
    assert (status, errors) == (130, [])
