"""Configurations are found in a fixed order, and errors name the file and the field."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import pytest
import trustme
import yaml

from pyinformer.client.transport import (
    ClusterConfig,
    Credentials,
    NoCredentials,
    StaticCredentials,
    TokenFileCredentials,
    find_config,
    in_cluster_config,
)
from pyinformer.errors import ConfigurationError, ConfigurationNotFoundError
from pyinformer.testing import APIServer
from tests.client.transport.serving import connected, response, serving
from tests.waiting import settle

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.transport.serving import Request

EXEC_CREDENTIAL = json.dumps(
    {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "plug"},
    }
)
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}


def kubeconfig(name: str = "one", **user: Any) -> dict[str, Any]:
    """A kubeconfig with one cluster, one user and one context, all of one name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example:80"}}],
        "users": [{"name": name, "user": {key.replace("_", "-"): user[key] for key in user}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def write(path: Path, config: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    return str(path)


@pytest.fixture
def account(tmp_path: Path) -> Path:
    """A service account's folder."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    for name, text in (("token", "t0\n"), ("ca.crt", "CA"), ("namespace", "team-a\n")):
        (folder / name).write_text(text)
    return folder


async def find(tmp_path: Path, *args: str, **more: Any) -> ClusterConfig:
    return await find_config(*args, home=tmp_path, **{"environ": {}, **more})


@pytest.mark.covers(
    "client-go tools/clientcmd: TestInClusterClientConfigPrecedence",
    "client-go tools/clientcmd: TestInClusterConfig",
    "controller-runtime pkg/client/config: GetConfigWithContext / tc.text",
    "client-go tools/clientcmd: TestConflictingCurrentContext",
)
async def test_explicit_arguments_take_precedence_over_kubeconfig_home_and_pod(
    tmp_path: Path, account: Path
) -> None:
    explicit = write(tmp_path / "explicit", kubeconfig("explicit"))
    environ = {**POD, "KUBECONFIG": write(tmp_path / "variable", kubeconfig("variable"))}
    write(tmp_path / ".kube" / "config", kubeconfig("home"))
    more = {"service_account_folder": account}

    found = [
        await find(tmp_path, explicit, environ=environ, **more),
        await find(tmp_path, environ=environ, **more),
        await find(tmp_path, environ=POD, **more),
    ]
    (tmp_path / ".kube" / "config").unlink()
    found.append(await find(tmp_path, environ=POD, **more))

    assert [config.server for config in found] == [
        "https://explicit.example:80",
        "https://variable.example:80",
        "https://home.example:80",
        "https://10.0.0.1:6443",
    ]
    assert found[0].source == explicit
    assert found[1].source.startswith("KUBECONFIG=")


@pytest.mark.covers(
    "client-go tools/clientcmd: TestCreateClean",
    "client-go tools/clientcmd: TestConfirmUsableBadInfoButOkConfig",
)
async def test_a_missing_configuration_names_the_searched_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationNotFoundError, match=r"KUBECONFIG .*/\.kube/config.*in-clus"):
        await find(tmp_path)


@pytest.mark.covers("client-go tools/clientcmd: TestErrorReadingFile")
async def test_what_is_no_readable_file_is_named(tmp_path: Path) -> None:
    folder, ring = tmp_path / "folder", tmp_path / "ring"
    folder.mkdir()
    ring.symlink_to(ring)
    for path in (folder, ring):
        with pytest.raises(ConfigurationError, match=str(path)):
            await find(tmp_path, str(path))


@pytest.mark.covers(
    "client-go tools/clientcmd: TestNonExistentCommandLineFile",
    "controller-runtime pkg/client/config: GetConfigWithContext / tc.text",
)
@pytest.mark.parametrize("how", ["explicit", "variable", "context"])
async def test_a_missing_file_is_named_and_nothing_else_is_tried(
    tmp_path: Path, account: Path, how: str
) -> None:
    missing = str(tmp_path / ("nowhere" if how != "context" else ".kube/config"))
    environ = {**POD, "KUBECONFIG": missing} if how == "variable" else POD
    args = [missing] if how == "explicit" else []
    context = "x" if how == "context" else None
    with pytest.raises(ConfigurationNotFoundError, match=missing) as caught:
        await find(
            tmp_path, *args, environ=environ, context=context, service_account_folder=account
        )

    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.covers(
    "kube-client src: kubeconfig_from_empty_string",
    "client-go tools/clientcmd: TestConfirmUsableBadInfoButOkConfig",
)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("a: [b", "not YAML.*line 1", id="yaml"),
        pytest.param("", r"not a kubeconfig with clusters, contexts and users$", id="empty"),
        pytest.param("just text", "not a kubeconfig", id="text"),
        pytest.param("[1]", "not a kubeconfig", id="list"),
        pytest.param({**kubeconfig(), "current-context": "two"}, "two in .*contexts", id="context"),
        pytest.param(
            {k: v for k, v in kubeconfig().items() if k != "current-context"},
            "current-context",
            id="no-context",
        ),
        pytest.param({**kubeconfig(), "clusters": []}, "one in .*clusters", id="no-cluster"),
        pytest.param({**kubeconfig(), "users": []}, "one in .*users", id="no-user"),
        pytest.param({**kubeconfig(), "contexts": [{"x": 1}]}, "name", id="no-name"),
        pytest.param(
            {**kubeconfig(), "clusters": [{"name": "one", "cluster": {"x": 1}}]},
            "server is missing",
            id="no-server",
        ),
        pytest.param(
            {**kubeconfig(), "clusters": [{"name": "one", "cluster": {"server": "ftp://x"}}]},
            "server 'ftp://x'",
            id="bad-server",
        ),
        pytest.param(kubeconfig(tokenFile="nowhere"), "nowhere", id="no-token-file"),
        pytest.param(kubeconfig(exec={"command": "x"}), "apiVersion", id="bad-exec"),
        pytest.param(
            kubeconfig(exec={"command": "/no/such/command", "apiVersion": "v1"}),
            "/no/such/command",
            id="no-exec",
        ),
        pytest.param(
            kubeconfig(auth_provider={"name": "oidc", "config": {"id-token": "x"}}),
            "oidc",
            id="bad-oidc",
        ),
    ],
)
async def test_a_malformed_kubeconfig_names_the_file_and_the_problem(
    tmp_path: Path, content: object, words: str
) -> None:
    path = write(tmp_path / "broken", content)
    with pytest.raises(ConfigurationError, match=f"^{path}: .*{words}") as caught:
        await find(tmp_path, path)

    assert not isinstance(caught.value, ConfigurationNotFoundError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own


@pytest.mark.covers(
    "client-go tools/clientcmd: TestCreateClean",
    "client-go tools/clientcmd: TestConfirmUsableBadInfoButOkConfig",
)
async def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "config", kubeconfig())
    with pytest.raises(ConfigurationError, match=r"no context 'two'; there are: one$"):
        await find(tmp_path, path, context="two")


@pytest.mark.covers(
    "client-go tools/clientcmd: TestToleratingMissingFiles",
    "kube-client src: test_default_ns",
    "client-go tools/clientcmd: TestConflictingCurrentContext",
)
async def test_contexts_and_several_files_are_merged_as_kubectl_does(tmp_path: Path) -> None:
    one = write(tmp_path / "a" / "one", kubeconfig("one", token="1"))
    config = kubeconfig("two", tokenFile="token")
    config["contexts"][0]["context"]["namespace"] = "team-b"
    two = write(tmp_path / "b" / "two", config)
    (tmp_path / "b" / "token").write_text("from-file\n")
    paths = f"{tmp_path}/missing:{one}:{two}"

    first = await find(tmp_path, environ={"KUBECONFIG": paths}, context="one")
    second = await find(tmp_path, paths, context="two")
    current = await find(tmp_path, paths)

    assert current.server == first.server  # the first file's current context wins
    assert (first.server, first.namespace) == ("https://one.example:80", "default")
    assert (second.server, second.namespace) == ("https://two.example:80", "team-b")
    assert await first.credentials.headers() == {"Authorization": "Bearer 1"}
    assert await second.credentials.headers() == {"Authorization": "Bearer from-file"}


@pytest.mark.covers(
    "client-go tools/clientcmd: TestBasicAuthData",
    "client-go transport: TestBearerAuthRoundTripper",
    "client-go transport: TestNew",
)
@pytest.mark.parametrize(
    ("user", "header"),
    [
        pytest.param({"token": "abc\n"}, "Bearer abc", id="token"),
        pytest.param(
            {"username": "u", "password": "p"},
            "Basic " + base64.b64encode(b"u:p").decode(),
            id="basic",
        ),
        pytest.param(
            {
                "exec": {
                    "command": sys.executable,
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "interactiveMode": "Never",
                    "args": [
                        "-c",
                        f"print({EXEC_CREDENTIAL!r})",
                    ],
                }
            },
            "Bearer plug",
            id="exec",
        ),
    ],
)
async def test_a_users_credentials_become_a_header(
    tmp_path: Path, user: dict[str, Any], header: str
) -> None:
    config = await find(tmp_path, write(tmp_path / "config", kubeconfig("one", **user)))

    assert await config.credentials.headers() == {"Authorization": header}


@pytest.mark.covers("client-go tools/clientcmd: TestValidateEmptyContext")
async def test_a_context_without_a_user_is_anonymous_even_over_tls(tmp_path: Path) -> None:
    content = kubeconfig()
    del content["users"], content["contexts"][0]["context"]["user"]
    content["clusters"][0]["cluster"] = {
        "server": "https://one.example",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "other",
        "proxy-url": "http://proxy:3128",
    }
    config = await find(tmp_path, write(tmp_path / "config", content))

    assert isinstance(config.credentials, NoCredentials)
    assert await config.credentials.headers() == {}
    assert (config.verify_tls, config.tls_server_name) == (False, "other")
    assert config.proxy_url == "http://proxy:3128"


async def test_a_refused_token_is_read_again_from_the_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "config"
    config = await find(tmp_path, write(path, kubeconfig("one", token="old")))
    write(path, kubeconfig("one", token="new"))

    before = await config.credentials.headers()
    config.credentials.invalidate()

    assert before == {"Authorization": "Bearer old"}
    assert await config.credentials.headers() == {"Authorization": "Bearer new"}


@pytest.mark.parametrize(
    "changed",
    [
        {"server": "https://prod.example"},
        {"certificate-authority-data": "b3RoZXI="},
        {"tls-server-name": "prod"},
        {"proxy-url": "http://proxy:3128"},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_the_token_of_another_cluster_of_the_same_name_is_not_used(
    tmp_path: Path, changed: dict[str, str]
) -> None:
    """k3s and kubeadm give every cluster the same names."""
    path = tmp_path / "config"
    config = await find(tmp_path, write(path, kubeconfig("one", token="old")))
    other = kubeconfig("one", token="of-the-other")
    other["clusters"][0]["cluster"] |= changed
    write(path, other)
    config.credentials.invalidate()
    with pytest.raises(ConfigurationError, match="describes another cluster") as raised:
        await config.credentials.headers()
    assert "of-the-other" not in str(raised.value)

    write(path, kubeconfig("one", token="new"))
    config.credentials.invalidate()
    assert await config.credentials.headers() == {"Authorization": "Bearer new"}


async def test_the_user_of_the_context_is_read_again_and_not_the_earlier_name(
    tmp_path: Path,
) -> None:
    """Tools that merge files rename users; the earlier name may then be another cluster's."""
    path = tmp_path / "config"
    config = await find(tmp_path, write(path, kubeconfig("one", token="old")))
    merged = kubeconfig("one", token="of-the-other")
    merged["contexts"][0]["context"]["user"] = "renamed"
    merged["users"].append({"name": "renamed", "user": {"token": "new"}})
    write(path, merged)

    config.credentials.invalidate()

    assert await config.credentials.headers() == {"Authorization": "Bearer new"}


async def test_a_context_that_has_lost_its_user_does_not_use_the_earlier_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "config"
    config = await find(tmp_path, write(path, kubeconfig("one", token="old")))
    changed = kubeconfig("one", token="of-the-other")
    del changed["contexts"][0]["context"]["user"]
    write(path, changed)

    config.credentials.invalidate()

    with pytest.raises(ConfigurationError, match="context 'one': it has no user any more"):
        await config.credentials.headers()


@pytest.mark.covers(
    "client-go tools/clientcmd: TestInClusterConfig", "kube-client src: test_kube_name"
)
async def test_in_cluster_takes_everything_from_the_service_account(account: Path) -> None:
    config = in_cluster_config(POD, account)

    assert config.server == "https://10.0.0.1:6443"
    assert config.ca_file == str(account / "ca.crt")
    assert config.namespace == "team-a"
    assert await config.credentials.headers() == {"Authorization": "Bearer t0"}
    assert in_cluster_config({"KUBERNETES_SERVICE_HOST": "fd00::1"}, account).server == (
        "https://[fd00::1]:443"
    )


async def test_a_user_without_a_home_has_the_service_account(
    account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As OpenShift runs pods, under a number that is in no /etc/passwd."""

    def refuse(_: int) -> None:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", refuse)
    config = await find_config(environ=POD, service_account_folder=account)
    assert config.namespace == "team-a"


@pytest.mark.parametrize("missing", ["token", "ca.crt", "KUBERNETES_SERVICE_HOST"])
def test_in_cluster_names_what_is_missing(account: Path, missing: str) -> None:
    environ = {name: value for name, value in POD.items() if name != missing}
    (account / missing).unlink(missing_ok=True)

    with pytest.raises(ConfigurationNotFoundError, match=missing):
        in_cluster_config(environ, account)


@pytest.mark.covers("client-go transport: TestCachingTokenSource")
async def test_a_token_file_is_read_again_when_it_is_old_and_after_a_refusal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    often = TokenFileCredentials(path, max_age_seconds=0.0)
    credentials = TokenFileCredentials(path)
    seen = [await each.headers() for each in (credentials, often)]
    now = asyncio.get_running_loop().time()
    assert [credentials.is_due(now + later) for later in (50.0, 60.0)] == [False, True]
    path.write_text("two")
    seen += [await each.headers() for each in (credentials, often)]
    credentials.invalidate()
    seen.append(await credentials.headers())
    path.unlink()
    seen.append(await often.headers())

    tokens = [header["Authorization"].removeprefix("Bearer ") for header in seen]
    assert tokens == ["one", "one", "one", "two", "two", "two"]


async def test_a_token_file_is_found_when_the_program_has_changed_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("one")
    monkeypatch.chdir(tmp_path)
    credentials = TokenFileCredentials("token")
    monkeypatch.chdir("/")

    assert await credentials.headers() == {"Authorization": "Bearer one"}


async def test_a_token_file_that_does_not_answer_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of a network file system whose server is gone; a named pipe is such a file here."""
    monkeypatch.setattr("pyinformer.client.transport.config._credentials.FILE_SECONDS", 0.2)
    path = tmp_path / "token"
    path.write_text("t0")
    credentials = TokenFileCredentials(path)
    first = await credentials.headers()
    path.unlink()
    os.mkfifo(path)
    credentials.invalidate()

    found = await asyncio.gather(*(credentials.headers() for _ in range(3)))

    assert found == [first] * 3
    assert caplog.text.count("it has not answered for 0.2 s; the last token stays in use") == 1
    path.write_text("t1")  # waits for the reader
    credentials.invalidate()
    with anyio.fail_after(100):
        while await credentials.headers() == first:
            credentials.invalidate()


async def test_a_wait_for_a_token_file_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "token"
    os.mkfifo(path)
    credentials = TokenFileCredentials(path)
    async with anyio.create_task_group() as group:
        group.start_soon(credentials.headers)
        await settle()
        group.cancel_scope.cancel()
    task = asyncio.create_task(credentials.headers())
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    path.write_text("t1")
    assert await credentials.headers() == {"Authorization": "Bearer t1"}


@pytest.mark.covers(
    "client-go tools/clientcmd: TestPrecedenceTokenFile",
    "client-go transport: TestCachingTokenSource",
)
@pytest.mark.parametrize("content", [None, b"", b" \n", b"a\nb", b"\xff", "é".encode()])
async def test_an_unusable_token_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=str(path)):
        await TokenFileCredentials(path).headers()


async def test_a_rotated_token_file_saves_a_request_from_its_401(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        good = request.headers["authorization"] == f"Bearer {path.read_text()}"
        writer.write(response(b"{}", status=200 if good else 401))

    async with (
        serving(answer) as server,
        connected(server.url, credentials=TokenFileCredentials(path)) as connection,
    ):
        await connection.request("GET", "/a")
        path.write_text("new")
        await connection.request("GET", "/a")

    seen = [request.headers["authorization"] for request in server.requests]
    assert seen == ["Bearer old", "Bearer old", "Bearer new"]


@pytest.mark.covers("client-go rest: TestValidatesHostParameter")
@pytest.mark.parametrize("url", ["", "host:443", "ftp://x", "http://", "http://x:99999", "//x"])
def test_a_server_that_is_not_a_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="my file: server"):
        ClusterConfig(server=url, source="my file")


@pytest.mark.covers("client-go tools/clientcmd: TestProxyURL")
@pytest.mark.parametrize(
    "url", ["proxy:3128", "socks5://u:s3cret@proxy", "http://us er:s3cret@h:99999", "//x"]
)
def test_a_proxy_that_is_not_a_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="my file: proxy") as refused:
        ClusterConfig(server="https://host", proxy_url=url, source="my file")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("url", ["https://u:s3cret@host", "ftp://u:s3cret@host", "u:s3/cr@host"])
def test_a_server_url_with_a_password_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"my file: server '\.\.\.@host'") as refused:
        ClusterConfig(server=url, source="my file")
    assert "s3" not in str(refused.value)


@pytest.mark.covers("client-go tools/clientcmd/api: TestRedactSecrets")
def test_a_password_of_the_proxy_is_in_no_repr() -> None:
    config = ClusterConfig(server="https://host", proxy_url="http://u:s3cret@proxy:3128")
    assert config.proxy_url == "http://u:s3cret@proxy:3128"
    assert "s3cret" not in repr(config)


@pytest.mark.covers("client-go rest: TestAnonymousAuthConfig")
def test_configurations_are_equal_by_value_and_survive_a_pickle() -> None:
    def config(token: str = "") -> ClusterConfig:
        credentials = StaticCredentials.bearer(token) if token else NoCredentials()
        return ClusterConfig(server="https://host", credentials=credentials)

    assert config() == config()
    assert config("a") == config("a")
    assert len({config(), config("a"), config("b"), config("a")}) == 3
    for one in (config(), config("a")):
        assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own bytes


def test_a_header_that_would_break_the_request_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        StaticCredentials.bearer("a\r\nX-Evil: 1")
    assert isinstance(StaticCredentials.basic("u", "p"), Credentials)


_PROBE = """
import asyncio, json, pathlib, sys
from pyinformer.client.transport import Connection, find_config
early = sorted(sys.modules)
async def main():
    config = await find_config(environ=json.loads(sys.argv[1]), home=pathlib.Path(sys.argv[2]),
                               service_account_folder=pathlib.Path(sys.argv[3]))
    connection = Connection(config)
    try:
        await connection.request("GET", "/version")
    except ConnectionError:
        pass
    await connection.aclose()
asyncio.run(main())
rss = [l for l in open("/proc/self/status") if l.startswith("VmRSS")][0].split()[1]
print(json.dumps([early, sorted(sys.modules), int(rss)]))
"""

# The memory of any program that uses aiohttp, on this Python and with these versions.
_AIOHTTP_ALONE = """
import asyncio, json, sys
import aiohttp
async def main():
    async with aiohttp.ClientSession() as session:
        try:
            await session.get("http://127.0.0.1:1/version")
        except aiohttp.ClientError:
            pass
asyncio.run(main())
rss = [l for l in open("/proc/self/status") if l.startswith("VmRSS")][0].split()[1]
print(json.dumps(int(rss)))
"""


def said_by(program: str, *arguments: str) -> Any:
    """Run a program in a separate interpreter and return the JSON that it prints."""
    # Coverage would run in the program as well, and add its own memory.
    unmeasured = {name: v for name, v in os.environ.items() if not name.startswith("COVERAGE_")}
    command = [sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, capture_output=True, check=True, cwd=".", env=unmeasured)
    return json.loads(ended.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_connecting_in_a_pod_loads_little(tmp_path: Path, account: Path) -> None:
    trustme.CA().cert_pem.write_to_path(account / "ca.crt")
    environ = json.dumps({"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"})
    early, late, rss_kib = said_by(_PROBE, environ, str(tmp_path), str(account))

    assert not {"aiohttp", "yaml", "kubernetes_asyncio"} & set(early)
    assert not {"yaml", "kubernetes_asyncio"} & set(late)
    assert "aiohttp" in late
    assert rss_kib - said_by(_AIOHTTP_ALONE) <= 18 * 1024  # 12.4 MB on 3.11


_SYNC = """
import asyncio, json, sys
import pyinformer
from pyinformer.cache import ReflectorOptions

async def main():
    options = ReflectorOptions(use_watch_list=sys.argv[2] == "watch-list")
    async with pyinformer.connect(sys.argv[1]) as cluster:
        async with pyinformer.SharedInformerFactory(cluster, options=options) as factory:
            pods = factory.informer("v1", "pods")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            count = len(pods.lister.list())
    print(json.dumps([count, sorted(sys.modules)]))

asyncio.run(main())
"""
_REFUSED = """
import asyncio, json, sys
from pyinformer.client.transport import ClusterConfig, Connection

async def main():
    connection = Connection(ClusterConfig(server="http://127.0.0.1:1"))
    try:
        async with connection.stream("/api/v1/pods", watch=True):
            pass
    except ConnectionError as error:
        print(json.dumps([type(error).__name__, sorted(sys.modules)]))
    await connection.aclose()

asyncio.run(main())
"""
_OF_REQUESTS = {"aiohttp", "yarl", "kubernetes_asyncio", "importlib.metadata", "email.message"}


@pytest.mark.parametrize("load", ["watch-list", "list"])
@pytest.mark.parametrize("tls", [False, True])
def test_an_informer_syncs_and_ends_without_what_only_requests_need(
    tmp_path: Path, *, tls: bool, load: str
) -> None:
    with APIServer(tls=tls) as server:
        server.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
        count, loaded = said_by(_SYNC, str(server.write_kubeconfig(tmp_path / "kubeconfig")), load)

    assert count == 1
    assert not _OF_REQUESTS & {*loaded}


def test_a_watch_that_is_refused_loads_nothing_that_only_requests_need() -> None:
    error, loaded = said_by(_REFUSED)

    assert error == "TransportError"
    assert not _OF_REQUESTS & {*loaded}


async def test_a_kubeconfig_that_cannot_be_read_twice_blocks_no_loop(tmp_path: Path) -> None:
    """A named pipe, as tools that decrypt a kubeconfig make it: only its writer can end a read."""
    path = tmp_path / "config"
    config = await find(tmp_path, write(path, kubeconfig("one", token="old")))
    path.unlink()
    os.mkfifo(path)
    config.credentials.invalidate()
    with anyio.move_on_after(0.2) as limit:
        await config.credentials.headers()
    assert limit.cancelled_caught

    path.write_text(json.dumps(kubeconfig("one", token="new")))  # waits for the reader
    with anyio.fail_after(100):
        while await config.credentials.headers() != {"Authorization": "Bearer new"}:
            config.credentials.invalidate()


async def test_a_token_file_that_cannot_be_read_any_more_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "token"
    file.write_text("t0")
    credentials = TokenFileCredentials(file)
    assert await credentials.headers() == {"Authorization": "Bearer t0"}
    for content, used in (("", "t0"), ("", "t0"), ("t1", "t1"), ("", "t1")):
        file.write_text(content)
        credentials.invalidate()
        assert await credentials.headers() == {"Authorization": f"Bearer {used}"}
    words = f"token file {file}: is empty; the last token stays in use"
    assert [one.getMessage() for one in caplog.records] == [words, words]


@pytest.mark.parametrize(
    ("user", "words"),
    [
        pytest.param({}, "no credentials any more", id="nothing"),
        pytest.param({"token": ""}, "no credentials any more", id="empty"),
        pytest.param({"exec": {"command": "login"}}, "it has exec now", id="plug-in"),
        pytest.param({"tokenFile": "/no/such"}, "it has tokenFile now", id="file"),
    ],
)
async def test_a_user_that_has_lost_its_token_is_not_taken_for_an_anonymous_one(
    tmp_path: Path, user: dict[str, object], words: str
) -> None:
    path = tmp_path / "config"
    config = await find(tmp_path, write(path, kubeconfig("one", token="old")))
    changed = kubeconfig("one", token="old")
    changed["users"][0]["user"] = user
    write(path, changed)
    config.credentials.invalidate()
    with pytest.raises(ConfigurationError, match=words):
        await config.credentials.headers()
