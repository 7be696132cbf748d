"""A connection is made as the client of another library would: same server, same credentials."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import ssl
import threading
import traceback
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trustme
import yaml

import pyinformer
from pyinformer.client import config_from_client
from pyinformer.client.transport import ClusterConfig
from pyinformer.errors import (
    ConfigurationError,
    InvalidTypeError,
    LifecycleError,
    TLSVerificationError,
)
from pyinformer.testing import APIServer, Token
from tests.client.transport.serving import always, connected, response, serving
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from tests.client.transport.serving import Request, Server

PACKAGES = ("kubernetes_asyncio", "kubernetes", "kubernetes.aio")
each_package = pytest.mark.parametrize("package", PACKAGES)
SERVER = "https://host.example:6443"


def of(package: str, module: str = "client") -> Any:
    return importlib.import_module(f"{package}.{module}")


def configuration(package: str, host: str = SERVER, **settings: Any) -> Any:
    """Return a package's Configuration with these attributes."""
    made = of(package).Configuration()
    made.host = host
    for name, value in settings.items():
        setattr(made, name, value)
    return made


@asynccontextmanager
async def client(package: str, made: Any, **more: Any) -> AsyncIterator[Any]:
    """Open a package's ApiClient."""
    opened = of(package).ApiClient(made, **more)
    try:
        yield opened
    finally:
        closing = opened.close()
        if closing is not None:
            await closing


async def authorization(config: ClusterConfig) -> str | None:
    return (await config.credentials.headers()).get("Authorization")


class Guarded:
    """A server that accepts one token at a time, and counts what it refused."""

    def __init__(self) -> None:
        self.accepted = "Bearer one"
        self.refused = 0

    async def answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        is_accepted = request.headers.get("authorization") == self.accepted
        self.refused += not is_accepted
        writer.write(response(status=200 if is_accepted else 401))


@each_package
def test_what_a_configuration_says_is_taken_over(package: str) -> None:
    found = config_from_client(
        configuration(
            package,
            ssl_ca_cert="/ca.crt",
            cert_file="/client.crt",
            key_file="/client.key",
            tls_server_name="kubernetes",
            proxy="http://proxy.example:3128",
        )
    )
    assert found.server == SERVER
    assert (found.ca_file, found.ca_data) == ("/ca.crt", None)
    assert found.client_certificate_file == "/client.crt"
    assert found.client_key_file == "/client.key"
    assert (found.verify_tls, found.check_hostname) == (True, True)
    assert found.tls_server_name == "kubernetes"
    assert found.proxy_url == "http://proxy.example:3128"
    assert found.source == f"the Configuration of {package}"


@each_package
def test_a_configuration_may_trust_any_certificate(package: str) -> None:
    assert not config_from_client(configuration(package, verify_ssl=False)).verify_tls


@each_package
def test_names_in_certificates_are_checked_as_the_other_client_does(package: str) -> None:
    unchecked = config_from_client(configuration(package, assert_hostname=False))
    named = config_from_client(configuration(package, assert_hostname="kubernetes"))
    assert (unchecked.check_hostname, unchecked.verify_tls) == (False, True)
    assert (named.check_hostname, named.tls_server_name) == (True, "kubernetes")


@pytest.mark.parametrize("package", PACKAGES[1:])
@pytest.mark.parametrize("form", ["text", "pem", "der"])
def test_authorities_may_be_data(package: str, form: str) -> None:
    pem = trustme.CA().cert_pem.bytes()
    forms = {"text": pem.decode(), "pem": pem, "der": ssl.PEM_cert_to_DER_cert(pem.decode())}
    found = config_from_client(configuration(package, ca_cert_data=forms[form]))
    assert found.ca_data is not None
    assert found.ca_data.strip() == pem.decode().strip()
    assert found.ssl_context() is not None


async def test_a_certificate_for_another_name_is_accepted_only_if_the_authority_signed_it(
    tmp_path: Path,
) -> None:
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("elsewhere.example").configure_cert(tls)
    for name, one in (("right", authority), ("other", trustme.CA())):
        one.cert_pem.write_to_path(str(tmp_path / name))
    async with serving(always(response()), tls=tls) as server:

        def shared(ca: str, **settings: Any) -> ClusterConfig:
            return config_from_client(
                configuration("kubernetes", server.url, ssl_ca_cert=str(tmp_path / ca), **settings)
            )

        async with connected("", config=shared("right", assert_hostname=False)) as connection:
            assert await connection.request("GET", "/a") == b"{}"
        for refused in (shared("other", assert_hostname=False), shared("right")):
            async with connected("", config=refused) as connection:
                with pytest.raises(TLSVerificationError):
                    await connection.request("GET", "/a")


@each_package
async def test_a_key_is_sent_with_its_prefix(package: str) -> None:
    whole = configuration(package, api_key={"BearerToken": "Bearer t\n"})
    parts = configuration(
        package, api_key={"BearerToken": "t"}, api_key_prefix={"BearerToken": "Bearer"}
    )
    for made in (whole, parts):
        assert await authorization(config_from_client(made)) == "Bearer t"
    assert await authorization(config_from_client(configuration(package))) is None


@each_package
async def test_a_name_and_a_password_are_sent(package: str) -> None:
    made = configuration(package, username="jane", password="secret")
    expected = "Basic " + base64.b64encode(b"jane:secret").decode()
    assert await authorization(config_from_client(made)) == expected


@each_package
async def test_a_token_that_rotates_is_never_refused(package: str) -> None:
    guarded = Guarded()

    def hook(made: Any) -> None:
        made.api_key["BearerToken"] = guarded.accepted

    async with serving(guarded.answer) as server:
        made = configuration(
            package, server.url, api_key={"BearerToken": ""}, refresh_api_key_hook=hook
        )
        async with pyinformer.connect(config=made) as cluster:
            for token in ("one", "two", "three"):
                guarded.accepted = f"Bearer {token}"
                assert await cluster.connection.request("GET", "/version") == b"{}"
    assert guarded.refused == 0


@each_package
async def test_a_token_that_the_program_replaces_is_used(package: str) -> None:
    guarded = Guarded()
    async with serving(guarded.answer) as server:
        made = configuration(package, server.url, api_key={"BearerToken": "Bearer one"})
        async with pyinformer.connect(config=made) as cluster:
            await cluster.connection.request("GET", "/version")
            guarded.accepted = made.api_key["BearerToken"] = "Bearer two"
            await cluster.connection.request("GET", "/version")
    assert guarded.refused == 0


@each_package
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("host", "https://b.example:6443"),
        ("host", "https://user:secret@b.example:6443"),
        ("host", "https://b.example:6443?token=secret"),
        ("proxy", "http://user:secret@b.example:3128"),
        ("tls_server_name", "b"),
    ],
)
async def test_the_login_of_a_configuration_that_leads_elsewhere_by_now_is_not_sent(
    package: str, setting: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A program that walks through contexts may load each of them into one Configuration."""
    made = configuration(package, api_key={"BearerToken": "Bearer one"})
    config, unused = config_from_client(made), config_from_client(made)
    assert await authorization(config) == "Bearer one"
    setattr(made, setting, value)
    made.api_key = {"BearerToken": "Bearer of-b"}

    assert await authorization(config) == "Bearer one"
    with pytest.raises(ConfigurationError, match=f"its {setting} has changed.*connect again") as no:
        await authorization(unused)
    assert "of-b" not in caplog.text + str(no.value)
    assert "secret" not in caplog.text + str(no.value)
    setattr(made, setting, SERVER + "/" if setting == "host" else None)
    assert await authorization(unused) == "Bearer of-b"


async def test_a_configuration_that_is_loaded_anew_while_its_hook_runs_is_not_used() -> None:
    def hook(made: Any) -> None:
        made.host = "https://b.example"
        made.api_key = {"BearerToken": "Bearer of-b"}

    made = configuration("kubernetes", api_key={"BearerToken": ""}, refresh_api_key_hook=hook)
    with pytest.raises(ConfigurationError, match=r"its host has changed \(https://b.example\)"):
        await authorization(config_from_client(made))


@pytest.mark.parametrize("package", ["kubernetes_asyncio", "kubernetes.aio"])
async def test_a_hook_may_be_asynchronous(package: str) -> None:
    async def hook(made: Any) -> None:
        await asyncio.sleep(0)
        made.api_key["BearerToken"] = "Bearer two"

    made = configuration(package, api_key={"BearerToken": ""}, refresh_api_key_hook=hook)
    assert await authorization(config_from_client(made)) == "Bearer two"


async def test_a_hook_that_blocks_runs_beside_the_event_loop() -> None:
    threads = set[threading.Thread]()
    made = configuration("kubernetes", api_key={"BearerToken": "Bearer one"})
    made.refresh_api_key_hook = lambda _: threads.add(threading.current_thread())
    await authorization(config_from_client(made))
    assert threading.current_thread() not in threads
    assert len(threads) == 1


async def test_a_hook_that_blocks_for_long_has_one_thread_however_many_requests_give_up() -> None:
    entered: list[threading.Thread] = []
    may_end = threading.Event()

    def hook(made: Any) -> None:
        entered.append(threading.current_thread())
        may_end.wait()
        made.api_key["BearerToken"] = "Bearer two"

    made = configuration("kubernetes", api_key={"BearerToken": ""}, refresh_api_key_hook=hook)
    config = config_from_client(made)
    for _ in range(3):
        request = asyncio.create_task(authorization(config))
        await until(lambda: entered)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    last = asyncio.create_task(authorization(config))
    await asyncio.sleep(0)
    may_end.set()
    assert await last == "Bearer two"
    assert len(entered) == 1


async def test_requests_that_wait_together_share_one_call_of_the_hook() -> None:
    calls, release = 0, asyncio.Event()

    async def hook(made: Any) -> None:
        nonlocal calls
        calls += 1
        await release.wait()
        made.api_key["BearerToken"] = f"Bearer {calls}"

    made = configuration("kubernetes_asyncio", api_key={"BearerToken": ""})
    made.refresh_api_key_hook = hook
    config = config_from_client(made)
    waiting = [asyncio.create_task(authorization(config)) for _ in range(10)]
    await asyncio.sleep(0)
    release.set()
    assert set(await asyncio.gather(*waiting)) == {"Bearer 1"}
    assert await authorization(config) == "Bearer 2"


async def test_a_cancelled_request_does_not_keep_the_others_waiting() -> None:
    entered = asyncio.Event()

    async def hook(made: Any) -> None:
        if not entered.is_set():
            entered.set()
            await asyncio.Event().wait()
        made.api_key["BearerToken"] = "Bearer two"

    made = configuration("kubernetes_asyncio", api_key={"BearerToken": ""})
    made.refresh_api_key_hook = hook
    config = config_from_client(made)
    first = asyncio.create_task(authorization(config))
    await entered.wait()
    second = asyncio.create_task(authorization(config))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == "Bearer two"
    assert first.cancelled()


@each_package
async def test_a_hook_that_fails_is_named_and_a_token_that_it_gave_before_stays(
    package: str, caplog: pytest.LogCaptureFixture
) -> None:
    fails = True

    def hook(made: Any) -> None:
        if fails:
            reason = f"the vault refuses {made.api_key}"
            raise RuntimeError(reason)
        made.api_key["BearerToken"] = "Bearer one"

    made = configuration(package, api_key={"BearerToken": ""}, refresh_api_key_hook=hook)
    config = config_from_client(made)
    with pytest.raises(ConfigurationError) as caught:
        await authorization(config)
    assert str(caught.value).startswith(
        f"the Configuration of {package}: refresh_api_key_hook failed: RuntimeError at {__file__}:"
    )
    assert "vault" not in "".join(traceback.format_exception(caught.value)).replace("reason =", "")
    fails = False
    assert await authorization(config) == "Bearer one"
    fails = True
    assert await authorization(config) == "Bearer one"
    assert "the current ones are still valid" in caplog.text


@each_package
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        pytest.param(
            {"api_key": {"BearerToken": 42}}, "api_key must be a string, got int", id="number"
        ),
        pytest.param(
            {"api_key": {"BearerToken": b"x"}}, "api_key must be a string, got bytes", id="bytes"
        ),
        pytest.param(
            {"username": "a", "password": 1}, "password must be a string, got int", id="password"
        ),
    ],
)
async def test_a_login_that_is_not_a_text_is_named_without_its_value(
    package: str, settings: dict[str, Any], reason: str
) -> None:
    made = configuration(package, **settings)
    with pytest.raises(ConfigurationError, match=f"the Configuration of {package}: {reason}"):
        await authorization(config_from_client(made))


@each_package
@pytest.mark.parametrize(
    "answer",
    [None, "a-token", ["a-token"], {"BearerToken": "a-token"}, {"BearerToken": ["a-token"]}, 5],
    ids=["none", "text", "list", "text-inside", "list-inside", "number"],
)
async def test_auth_settings_of_another_form_are_named_without_their_value(
    package: str, answer: Any
) -> None:
    """A program may have a Configuration of its own."""

    class Own(of(package).Configuration):  # type: ignore[misc] # of either package
        def auth_settings(self) -> Any:
            return answer

    made = Own()
    made.host = SERVER
    with pytest.raises(ConfigurationError, match=r"auth_settings\(\) must return") as raised:
        await authorization(config_from_client(made))
    assert "a-token" not in "".join(traceback.format_exception(raised.value))


@each_package
async def test_default_headers_of_another_form_are_named(package: str) -> None:
    async with client(package, configuration(package)) as opened:
        opened.default_headers = ["a"]
        with pytest.raises(ConfigurationError, match="default_headers must be a mapping, got list"):
            config_from_client(opened)


@each_package
async def test_a_name_that_fails_to_become_a_header_is_named(package: str) -> None:
    class Own(of(package).Configuration):  # type: ignore[misc] # of either package
        def get_basic_auth_token(self) -> Any:
            raise ValueError("the password is secret")

    made = Own()
    made.host, made.username, made.password = SERVER, "me", "secret"
    with pytest.raises(ConfigurationError, match="get_basic_auth_token failed") as raised:
        await authorization(config_from_client(made))
    assert "secret" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("package", PACKAGES)
async def test_a_kubeconfig_that_the_package_loaded_is_used(package: str, tmp_path: Path) -> None:
    guarded = Guarded()
    async with serving(guarded.answer) as server:
        await loaded(package, tmp_path, server, {"token": "one"}, guarded)
    assert guarded.refused == 0


async def test_an_exec_plugin_of_the_official_package_is_run_again_before_a_refusal(
    tmp_path: Path,
) -> None:
    """The plug-in's login has expired whenever it is asked for."""
    guarded = Guarded()
    credential = tmp_path / "credential.json"

    def issue(token: str) -> None:
        status = {"token": token, "expirationTimestamp": "2000-01-01T00:00:00Z"}
        body = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        credential.write_text(json.dumps({**body, "status": status}))
        guarded.accepted = f"Bearer {token}"

    issue("one")
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "cat",
            "args": [str(credential)],
            "interactiveMode": "Never",
        }
    }
    async with serving(guarded.answer) as server:
        await loaded("kubernetes", tmp_path, server, user, guarded, then=lambda: issue("two"))
    assert guarded.refused == 0


async def loaded(
    package: str,
    folder: Path,
    server: Server,
    user: dict[str, Any],
    guarded: Guarded,
    *,
    then: Callable[[], None] | None = None,
) -> None:
    """Load a kubeconfig by the package, send a request, and another one after `then`."""
    path = folder / "kubeconfig"
    entries = {"clusters": {"cluster": {"server": server.url}}, "users": {"user": user}}
    context = {"context": {"cluster": "a", "user": "a"}}
    config: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": "a"}
    config |= {kind: [{"name": "a", **entry}] for kind, entry in entries.items()}
    path.write_text(yaml.safe_dump({**config, "contexts": [{"name": "a", **context}]}))
    made = of(package).Configuration()
    loading = of(package, "config").load_kube_config(str(path), client_configuration=made)
    if loading is not None:
        await loading
    async with pyinformer.connect(config=made) as cluster:
        await cluster.connection.request("GET", "/version")
        if then is not None:
            then()
            await cluster.connection.request("GET", "/version")


@each_package
async def test_an_informer_follows_with_the_token_of_another_client(package: str) -> None:
    with APIServer(tokens=[Token(value="one"), Token(value="two")]) as api:
        made = configuration(package, api.url, api_key={"BearerToken": "Bearer one"})
        async with (
            client(package, made) as shared,
            pyinformer.connect(config=shared) as cluster,
            pyinformer.SharedInformerFactory(cluster) as factory,
        ):
            informer = factory.informer("v1", "configmaps")
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
            made.api_key["BearerToken"] = "Bearer two"
            api.expire_token("one")
            metadata = {"namespace": "default", "name": "a"}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            await cluster.create(body)
            await until(lambda: "default/a" in informer.lister)


@pytest.mark.covers("client-go transport: TestUserAgentRoundTripper")
@each_package
async def test_the_headers_of_a_client_are_sent(package: str) -> None:
    async with serving(always(response())) as server:
        made = configuration(package, server.url)
        async with client(package, made, cookie="session=1") as shared:
            shared.user_agent = "team-operator/1.0"
            shared.default_headers["X-Gateway-Key"] = "hunter2"
            assert "hunter2" not in repr(config_from_client(shared))
            for name, value in (
                ("X-Tenant", "blue"),
                ("Accept", "text/plain"),
                ("Authorization", "Bearer default"),
                ("Impersonate-User", "jane"),
                ("Impersonate-Group", "developers"),
                ("Impersonate-Extra-Reason%20why", "test"),
            ):
                shared.set_default_header(name, value)
            async with pyinformer.connect(config=shared) as cluster:
                await cluster.connection.request("GET", "/version")
        sent = server.requests[0].headers
    assert sent["user-agent"] == "team-operator/1.0"
    assert sent["x-tenant"] == "blue"
    assert sent["cookie"] == "session=1"
    assert sent["accept"] == "application/json"
    assert sent["authorization"] == "Bearer default"
    assert sent["impersonate-user"] == "jane"
    assert sent["impersonate-group"] == "developers"
    assert sent["impersonate-extra-reason%20why"] == "test"


@each_package
async def test_a_user_agent_that_nobody_chose_stays_ours(package: str) -> None:
    async with client(package, configuration(package)) as shared:
        assert config_from_client(shared).headers == ()


def test_the_official_package_has_read_the_proxy_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "inside.example")
    outside = config_from_client(configuration("kubernetes"))
    inside = config_from_client(configuration("kubernetes", "https://a.inside.example"))
    assert (outside.proxy_url, outside.trust_env) == ("http://proxy.example:3128", False)
    assert (inside.proxy_url, inside.trust_env) == (None, False)


@pytest.mark.parametrize("package", ["kubernetes_asyncio", "kubernetes.aio"])
def test_the_others_leave_the_environment_to_the_connection(package: str) -> None:
    found = config_from_client(configuration(package))
    assert (found.proxy_url, found.trust_env) == (None, True)


@each_package
def test_a_configuration_without_host_says_how_to_load_one(package: str) -> None:
    with pytest.raises(ConfigurationError, match=r"host is not set; load a kubeconfig into it"):
        config_from_client(of(package).Configuration())


@each_package
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        pytest.param({"host": "host.example"}, "server 'host.example' is not an", id="host"),
        pytest.param({"proxy": "socks5://p:1"}, "proxy 'socks5://p:1' is not an", id="socks"),
        pytest.param(
            {"proxy": "http://p:1", "proxy_headers": {"proxy-authorization": "Basic eA=="}},
            "proxy_headers cannot be taken over; put a name and a password into the URL",
            id="proxy-headers",
        ),
        pytest.param(
            {"api_key": {"ApiKey": "x"}}, "api_key must have 'BearerToken', got 'ApiKey'", id="key"
        ),
        pytest.param(
            {"assert_hostname": "a", "tls_server_name": "b"},
            "assert_hostname 'a' and tls_server_name 'b' must be the same",
            id="two-names",
        ),
    ],
)
def test_a_setting_that_cannot_be_shared_is_named(
    package: str, settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        config_from_client(configuration(package, **settings))
    assert str(caught.value).startswith(f"the Configuration of {package}: {reason}")


@pytest.mark.parametrize("package", ["kubernetes_asyncio", "kubernetes.aio"])
async def test_a_closed_client_is_refused(package: str) -> None:
    with APIServer() as api:
        shared = of(package).ApiClient(configuration(package, api.url))
        await of(package).VersionApi(shared).get_code()  # one of them makes its session now
        await shared.close()
        url = api.url
    with pytest.raises(LifecycleError, match=r"ApiClient is closed; pass its configuration inst"):
        async with pyinformer.connect(config=shared):
            pass
    assert config_from_client(shared.configuration).server == url


async def test_a_client_of_another_loop_is_refused() -> None:
    async with client("kubernetes_asyncio", configuration("kubernetes_asyncio")) as shared:

        def connect() -> None:
            with pyinformer.run_in_thread() as runner, runner.connect(config=shared):
                pass

        with pytest.raises(LifecycleError, match=r"belongs to another event loop; pass its conf"):
            await asyncio.to_thread(connect)


def test_a_client_of_a_closed_loop_is_refused() -> None:
    async def make() -> Any:
        return of("kubernetes_asyncio").ApiClient(configuration("kubernetes_asyncio"))

    shared = asyncio.run(make())
    with pytest.raises(LifecycleError, match=r"belongs to a closed event loop; pass its conf"):
        config_from_client(shared)
    asyncio.run(shared.close())


def test_a_blocking_client_is_shared_with_threads() -> None:
    with APIServer(tokens=[Token(value="one")]) as api:
        made = configuration("kubernetes", api.url, api_key={"BearerToken": "Bearer one"})
        with (
            of("kubernetes").ApiClient(made) as shared,
            pyinformer.run_in_thread() as runner,
            runner.connect(config=shared) as cluster,
        ):
            assert cluster.get("v1", "namespaces", "default").metadata.name == "default"


@pytest.mark.parametrize(
    ("wrong", "given"),
    [
        pytest.param(of("kubernetes_asyncio").Configuration, "the class Configuration", id="class"),
        pytest.param(of("kubernetes"), "module", id="module"),
        pytest.param(SERVER, "str", id="text"),
    ],
)
async def test_what_is_not_a_client_is_refused_with_its_type(wrong: Any, given: str) -> None:
    with pytest.raises(InvalidTypeError, match=f"config: must be a ClusterConfig, .* {given};"):
        async with pyinformer.connect(config=wrong):
            pass


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("Authorization", "x", "must not have Authorization; use credentials"),
        ("Impersonate-User", "x", "must not have Impersonate-User; use impersonate_user"),
        ("X Y", "x", "'X Y' is not the name of a header"),
        ("X", "a\nb", "X must not have line ends or special characters"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused(name: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        ClusterConfig(server=SERVER, headers=((name, value),))
