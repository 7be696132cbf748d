"""Exec plug-ins: what they are given, what their output means, and how they end."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import pty
import shlex
import ssl
import subprocess
import sys
import tempfile
import time
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
import trustme
import yaml

from pyinformer.client.transport import find_config
from pyinformer.client.transport.config import ClientCertificate, Login, RenewingCredentials
from pyinformer.errors import ConfigurationError
from tests.client.transport.serving import CHUNKED, chunk, connected, response, serving
from tests.waiting import settle, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.client.transport.serving import Request

V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
SECRET = "abcdefghij.0123456789ABCDEFGHIJ-klmnop"


def credential(version: str = V1, **status: str) -> str:
    """Return the output of a plug-in."""
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


def printing(text: str) -> str:
    """Return a line of shell that prints a text."""
    return f"printf %s {shlex.quote(text)}"


def kubeconfig(path: Path, spec: dict[str, Any], **cluster: Any) -> str:
    """Write a kubeconfig whose user is a plug-in."""
    content = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", **cluster}}],
        "users": [{"name": "jane", "user": {"exec": {"interactiveMode": "Never", **spec}}}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "jane"}}],
        "current-context": "prod",
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def plugin(folder: Path, script: str, env: dict[str, str] | None = None, **more: Any) -> str:
    """Write a kubeconfig whose plug-in is a line of shell, and return its path."""
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    spec = {"apiVersion": V1, "command": "sh", "args": ["-c", script], "env": variables}
    return kubeconfig(folder / "config", {**spec, **more})


async def headers_of(path: str) -> dict[str, str]:
    """Run the plug-in of a kubeconfig, and return the headers of its login."""
    return dict(await (await find_config(path)).credentials.headers())


@pytest.mark.covers(
    "client-go rest: TestConfigToExecCluster",
    "kube-client src: authinfo_exec_provide_cluster_info",
    "client-go tools/clientcmd: TestValidateAuthInfoExec",
    "client-go plugin/pkg/client/auth/exec: TestRefreshCreds",
)
@pytest.mark.parametrize("version", [V1, V1BETA1])
async def test_a_plugin_gets_only_its_own_input(tmp_path: Path, version: str) -> None:
    authority = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(authority)
    (tmp_path / "login").write_text(
        f'#!/bin/sh\necho "$1 $COLOUR $KUBERNETES_EXEC_INFO" > "{tmp_path}/given"\n'
        + printing(credential(version, token="t"))
    )
    (tmp_path / "login").chmod(0o700)
    spec = {
        "apiVersion": version,
        "command": "./login",
        "args": ["first"],
        "env": [{"name": "COLOUR", "value": "red"}],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": True,
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    path = kubeconfig(
        tmp_path / "config",
        spec,
        **{"certificate-authority": "ca.pem", "extensions": [extension], "tls-server-name": "one"},
    )
    config = await find_config(path)

    assert await config.credentials.headers() == {"Authorization": "Bearer t"}
    first, colour, info = (tmp_path / "given").read_text().split(" ", 2)
    assert (first, colour) == ("first", "red")
    assert json.loads(info) == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "http://127.0.0.1:1",
                "tls-server-name": "one",
                "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode(),
                "config": {"audience": "a"},
            },
        },
    }


@pytest.mark.covers(
    "kube-client src: exec_auth_command", "client-go plugin/pkg/client/auth/exec: TestRefreshCreds"
)
@pytest.mark.parametrize(
    ("printed", "words"),
    [
        pytest.param("", "not an ExecCredential in JSON", id="nothing"),
        pytest.param(SECRET, "not an ExecCredential in JSON", id="bare-token"),
        pytest.param(f'{{"status": {{"token": ["{SECRET}"]}}}}', "in JSON", id="list"),
        pytest.param(
            credential(V1BETA1, token=SECRET), "not client.authentication", id="other-version"
        ),
        pytest.param(f'{{"kind":"ExecCredential","apiVersion":"{V1}"}}', "no status", id="bare"),
        pytest.param(credential(), "neither a token nor", id="empty"),
        pytest.param(credential(token=f"{SECRET}\r\nX: 1"), "cannot carry", id="line-break"),
        pytest.param(credential(clientKeyData=SECRET), "not both", id="half-a-pair"),
        pytest.param(
            credential(token=SECRET, expirationTimestamp="tomorrow"), "RFC 3339", id="no-time"
        ),
    ],
)
async def test_an_invalid_answer_is_named_and_not_quoted(
    tmp_path: Path, printed: str, words: str
) -> None:
    path = plugin(tmp_path, printing(printed))
    with pytest.raises(ConfigurationError) as e:
        await find_config(path)
    assert str(e.value).startswith(f"{path}: context 'prod': users 'jane': exec sh: ")
    assert words in str(e.value)
    assert SECRET not in str(e.value)


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"clientKeyData": None, "expirationTimestamp": None}, id="null"),
        pytest.param({"expirationTimestamp": "0001-01-01T00:00:00Z"}, id="the-zero-time-of-go"),
    ],
)
async def test_a_login_whose_end_is_empty_never_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: dict[str, object]
) -> None:
    status = {"token": "t", **status}
    said = {"apiVersion": V1, "kind": "ExecCredential", "spec": {}, "status": status}
    runs, real = tmp_path / "runs", time.time
    config = await find_config(plugin(tmp_path, f"echo >> {runs}; {printing(json.dumps(said))}"))
    monkeypatch.setattr(time, "time", lambda: real() + 1e8)
    assert await config.credentials.headers() == {"Authorization": "Bearer t"}
    assert runs.read_text() == "\n"


async def test_a_command_is_searched_in_the_path_of_this_process(tmp_path: Path) -> None:
    path = plugin(tmp_path, printing(credential(token="t")), env={"PATH": "/none"})
    assert await headers_of(path) == {"Authorization": "Bearer t"}


async def test_a_yaml_date_is_passed_to_a_plugin_as_text(tmp_path: Path) -> None:
    extension = {"name": "client.authentication.k8s.io/exec", "extension": date(2020, 1, 2)}
    script = (
        f'printf %s "$KUBERNETES_EXEC_INFO" > {tmp_path}/given; {printing(credential(token="t"))}'
    )
    spec = {"apiVersion": V1, "command": "sh", "args": ["-c", script], "provideClusterInfo": True}
    await find_config(kubeconfig(tmp_path / "config", spec, extensions=[extension]))
    given = json.loads((tmp_path / "given").read_text())
    assert given["spec"]["cluster"]["config"] == "2020-01-02"


async def test_a_failure_shows_the_last_output_of_the_plugin_without_secrets(
    tmp_path: Path,
) -> None:
    script = (
        f"{printing(credential(token='short1'))}; exec >&2;"
        " for i in 1 2 3 4 5 6 7 8 9; do echo line $i; done;"
        f" echo 'token: short2, {SECRET} short1 hush!!';"
        " echo /usr/lib/a/b/login: expired; exit 3"
    )
    with pytest.raises(ConfigurationError, match="ended with status 3") as raised:
        await find_config(plugin(tmp_path, script, env={"PASS": "hush!!"}))

    said = str(raised.value)
    assert "line 9" in said
    assert "line 1 " not in said
    assert "/usr/lib/a/b/login: expired" in said
    for secret in (SECRET, "short1", "short2", "hush!!"):
        assert secret not in said
    assert raised.value.__cause__ is None


async def shown_of(folder: Path, said: str) -> str:
    """Return what the error of a plug-in that fails shows of its error output."""
    with pytest.raises(ConfigurationError) as raised:
        await find_config(plugin(folder, f"{printing(said)} >&2; exit 3"))
    return str(raised.value).partition("; error output: ")[2]


async def test_long_tokens_in_the_output_are_treated_as_secrets(tmp_path: Path) -> None:
    key = base64.b64encode(bytes(range(60))).decode()
    said = f"GET https://login.example.com/path?sig={key} Authorization: Bearer abc \x1b[31mred"
    shown = await shown_of(tmp_path, said)
    assert key[:10] not in shown
    assert "abc" not in shown.replace("redacted", "")
    assert "\x1b" not in shown
    assert shown.startswith("GET https://login.example.com/path")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "GET https://bob:hush@idp.example/x failed",
            "GET https://(redacted)@idp.example/x failed",
        ),
        (
            "https://idp.example/x?code=hush&sv=hush",
            "https://idp.example/x?code=(redacted)&sv=(redacted)",
        ),
        ('{"access_token": "hush hush"} refused', '{"access_token": (redacted)} refused'),
        ("--client-secret 'hush hush' refused", "--client-secret (redacted) refused"),
        ("password: hush hush, refused", "password: (redacted) refused"),
        ("pass: hush", "pass: (redacted)"),
        ("pwd=hush", "pwd=(redacted)"),
        ("Cookie: SESSION=hush; other=hush", "Cookie: (redacted)"),
        ("authorization: Basic hush", "authorization: (redacted)"),
        ("a\n-----BEGIN KEY-----\nhush\n-----END KEY-----\nb", "a | (redacted) | b"),
        ("hush\n-----END KEY-----\nb", "(redacted) | b"),
        ("a\n-----BEGIN KEY-----\nhush", "a"),
        ("the session of jane has expired", "the session (redacted) jane has expired"),
    ],
)
async def test_labelled_values_in_the_output_are_treated_as_secrets(
    tmp_path: Path, said: str, shown: str
) -> None:
    assert await shown_of(tmp_path, said) == shown


@pytest.mark.covers(
    "client-go tools/clientcmd: TestCreateAuthConfigExecInstallHintCleanup",
    "client-go tools/clientcmd: TestCleanANSIEscapeCodes",
)
async def test_a_missing_command_shows_its_install_hint(tmp_path: Path) -> None:
    spec = {
        "apiVersion": V1,
        "command": "no-such-login",
        "installHint": "Run:\n  \u001b[1mpip install x",
    }
    with pytest.raises(ConfigurationError) as raised:
        await find_config(kubeconfig(tmp_path / "config", spec))
    assert str(raised.value) == (
        f"{tmp_path / 'config'}: context 'prod': users 'jane': exec no-such-login: the command is"
        " not installed, or not in PATH. Run: [1mpip install x"
    )


async def test_a_plugin_that_hangs_ends_at_its_deadline_with_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids, begun = tmp_path / "pids", tmp_path / "begun"
    script = f"sleep 100 & echo $! > {pids}; echo $$ >> {pids}; echo waiting >&2; > {begun}; wait"
    connecting = asyncio.create_task(find_config(plugin(tmp_path, script)))
    await until(begun.exists)
    real = (loop := asyncio.get_running_loop()).time
    monkeypatch.setattr(loop, "time", lambda: real() + 55.0)
    await settle()
    assert not connecting.done()
    monkeypatch.setattr(loop, "time", lambda: real() + 60.0)
    with pytest.raises(ConfigurationError, match=r"did not end within 60 s; error output: waiting"):
        await connecting
    await _all_gone(pids)


async def test_a_login_does_not_wait_for_a_process_that_its_plugin_has_left_behind(
    tmp_path: Path,
) -> None:
    (gate := tmp_path / "gate").touch()
    left = f"while [ -e {gate} ]; do sleep 0.05; done; echo late"
    script = f"({left}) & {printing(credential(token='t'))}"
    headers = await headers_of(plugin(tmp_path, script))
    gate.unlink()
    assert headers == {"Authorization": "Bearer t"}


async def test_a_cancelled_login_kills_the_plugin_and_the_next_call_begins_again(
    tmp_path: Path,
) -> None:
    pids, hangs = tmp_path / "pids", tmp_path / "hangs"
    good = printing(credential(token="t"))
    script = f"if [ -e {hangs} ]; then rm {hangs}; echo $$ > {pids}; sleep 100; else {good}; fi"
    credentials = (await find_config(plugin(tmp_path, script))).credentials
    credentials.invalidate()
    hangs.touch()
    waiting = asyncio.create_task(credentials.headers())
    other = asyncio.create_task(credentials.headers())
    await until(lambda: pids.exists() and pids.read_text())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await other == {"Authorization": "Bearer t"}
    await _all_gone(pids)


async def test_connecting_that_is_cancelled_kills_the_plugin(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    args = ["-c", f"echo $$ > {pids}; sleep 100"]
    path = kubeconfig(tmp_path / "config", {"apiVersion": V1, "command": "sh", "args": args})
    connecting = asyncio.create_task(find_config(path))
    await until(lambda: pids.exists() and pids.read_text())
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await _all_gone(pids)


async def _all_gone(pids: Path) -> None:
    def is_gone(pid: int) -> bool:
        try:
            state = (pids.parent / f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        return state == "Z"  # a child of a child: its new parent has not reaped it yet

    await until(lambda: all(is_gone(int(pid)) for pid in pids.read_text().split()))


@pytest.mark.covers("kube-client src: exec_auth_command")
async def test_the_loop_continues_while_a_plugin_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    path = plugin(tmp_path, f"read x < {gate}; {printing(credential(token='t'))}")
    task = asyncio.create_task(headers_of(path))
    turns = 0

    def is_open() -> bool:
        nonlocal turns
        turns += 1
        return turns > 5

    await until(is_open)
    assert not task.done()
    await asyncio.to_thread(gate.write_text, "go\n")
    assert await task == {"Authorization": "Bearer t"}


async def test_a_plugin_that_requires_a_terminal_is_refused_without_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"Always.*not a terminal"):
        await find_config(plugin(tmp_path, "echo x", interactiveMode="Always"))


_AT_A_TERMINAL = """
import asyncio, sys
from pyinformer.client.transport import find_config
config = asyncio.run(find_config(sys.argv[1]))
print(asyncio.run(config.credentials.headers())["Authorization"])
"""


def _at_a_terminal(path: str, typed: bytes) -> tuple[bytes, bytes]:
    """Log in with a kubeconfig in a process that has a terminal; return what it prints."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [sys.executable, "-c", _AT_A_TERMINAL, path],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        os.write(ours, typed)
        return process.communicate(timeout=100)
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_interactive_plugin_reads_from_the_terminal(tmp_path: Path) -> None:
    script = (
        'echo "name?" >&2; read name; printf \'%s\' "'
        + credential(token="$X").replace('"', '\\"').replace("$X", "$name")
        + '"'
    )
    path = plugin(tmp_path, script, interactiveMode="Always")
    assert _at_a_terminal(path, b"jane\n") == (b"Bearer jane\n", b"name?\n")


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [("Never", True, False), ("IfAvailable", True, True), ("IfAvailable", False, False)],
)
def test_a_plugin_is_told_whether_it_has_the_terminal(
    tmp_path: Path, mode: str, *, terminal: bool, interactive: bool
) -> None:
    given = tmp_path / "given"
    said = printing(credential(token="t"))
    script = f'printf %s "$KUBERNETES_EXEC_INFO" > {given}; {said}'
    path = plugin(tmp_path, script, interactiveMode=mode)
    if terminal:
        _at_a_terminal(path, b"")
    else:
        asyncio.run(find_config(path))
    assert json.loads(given.read_text())["spec"] == {"interactive": interactive}


class Clock:
    """A wall clock, and a plug-in that counts its runs."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.runs = 0
        self.life: float | None = None
        self.failure: ConfigurationError | None = None

    async def log_in(self) -> Login:
        """Return a login, or fail."""
        self.runs += 1
        if self.failure is not None:
            raise self.failure
        expires_at = None if self.life is None else self.now + self.life
        return Login({"Authorization": f"Bearer {self.runs}"}, expires_at=expires_at)

    def credentials(self) -> RenewingCredentials:
        """Log in by this clock."""
        return RenewingCredentials(self.log_in, wall_clock=lambda: self.now)

    async def token_at(self, credentials: RenewingCredentials, now: float) -> str:
        """Request headers at an instant."""
        self.now = now
        return (await credentials.headers())["Authorization"].removeprefix("Bearer ")


@pytest.mark.covers(
    "client-go plugin/pkg/client/auth/exec: TestRoundTripper",
    "client-go plugin/pkg/client/auth/exec: TestRefreshCreds",
)
@pytest.mark.parametrize(
    ("life", "until_then"),
    [
        pytest.param(3600.0, 3540.0, id="a-minute-before"),
        pytest.param(2.0, 1.6, id="a-fifth-of-a-short-life"),
        pytest.param(-5.0, 1.0, id="expired-as-it-comes"),
        pytest.param(None, 1e9, id="for-ever"),
    ],
)
async def test_a_login_is_renewed_before_it_expires(life: float | None, until_then: float) -> None:
    clock = Clock()
    clock.life = life
    credentials = clock.credentials()
    at = (0.0, until_then - 0.01, until_then)
    tokens = [await clock.token_at(credentials, 1_000.0 + one) for one in at]
    assert tokens == ["1", "1", "1" if life is None else "2"]


async def test_a_login_that_cannot_be_renewed_is_used_until_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    clock.life = 600.0
    credentials = clock.credentials()
    assert await clock.token_at(credentials, 1_000.0) == "1"
    clock.failure = ConfigurationError("/a/config", "exec x: no network")
    with caplog.at_level(logging.WARNING):
        for at in (1_540.0, 1_545.0, 1_550.0, 1_599.0):
            assert await clock.token_at(credentials, at) == "1"
    assert clock.runs == 4, "not once for each request"
    assert "exec x: no network" in caplog.text
    with pytest.raises(ConfigurationError, match="no network"):
        await clock.token_at(credentials, 1_600.0)
    clock.failure = None
    assert await clock.token_at(credentials, 1_601.0) == "6"


async def test_requests_use_a_valid_login_while_it_is_renewed() -> None:
    clock, gate = Clock(), asyncio.Event()
    clock.life = 600.0

    async def log_in() -> Login:
        if clock.runs:
            await gate.wait()
        return await clock.log_in()

    credentials = RenewingCredentials(log_in, wall_clock=lambda: clock.now)
    assert await clock.token_at(credentials, 1_000.0) == "1"
    clock.now = 1_590.0
    renewing = asyncio.create_task(credentials.headers())
    await asyncio.sleep(0)
    async with asyncio.timeout(100):
        assert await clock.token_at(credentials, 1_590.0) == "1"
    renewing.cancel()  # its request had a deadline
    await asyncio.wait([renewing])
    async with asyncio.timeout(100):
        assert await clock.token_at(credentials, 1_591.0) == "1", "not the next at once"
    gate.set()
    assert await clock.token_at(credentials, 1_600.0) == "2"


async def test_a_refusal_counts_once_and_a_late_one_of_an_old_login_not_at_all() -> None:
    clock = Clock()
    credentials = clock.credentials()
    first = await credentials.headers()
    for _ in range(5):
        credentials.on_unauthorized(first)
    second, again = await asyncio.gather(credentials.headers(), credentials.headers())
    credentials.on_unauthorized(first)
    assert (await credentials.headers()) is second is again
    assert clock.runs == 2


async def test_waiters_for_a_login_share_its_failure() -> None:
    gate = asyncio.Event()
    runs = 0

    async def log_in() -> Login:
        nonlocal runs
        runs += 1
        await gate.wait()
        raise ConfigurationError("/a/config", "no network")

    credentials = RenewingCredentials(log_in)
    waiting = [asyncio.create_task(credentials.headers()) for _ in range(5)]
    await until(lambda: runs)
    gate.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(one) for one in outcomes] == ["/a/config: no network"] * 5
    assert runs == 1


@pytest.mark.covers("client-go plugin/pkg/client/auth/exec: TestExecTLSCache")
def test_a_login_is_shared_by_one_event_loop_after_another() -> None:
    runs = 0

    async def log_in() -> Login:
        nonlocal runs
        runs += 1
        await asyncio.sleep(0)
        return Login({"Authorization": f"Bearer {runs}"})

    credentials = RenewingCredentials(log_in)

    async def ask_together() -> list[Any]:
        credentials.invalidate()
        return list(await asyncio.gather(credentials.headers(), credentials.headers()))

    for number in (1, 2):
        assert asyncio.run(ask_together()) == [{"Authorization": f"Bearer {number}"}] * 2


class Certificates:
    """A server that authenticates clients by certificates, and an authority for both."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert("127.0.0.1").configure_cert(self.tls)
        self.authority.configure_trust(self.tls)
        self.tls.verify_mode = ssl.CERT_REQUIRED

    def client(self, name: str) -> ClientCertificate:
        """Issue a certificate."""
        one = self.authority.issue_cert(f"{name}@example.org")
        chain = "".join(pem.bytes().decode() for pem in one.cert_chain_pems)
        return ClientCertificate(chain, one.private_key_pem.bytes().decode())

    def hand_out(self, name: str, path: Path) -> None:
        """Have the plug-in print another certificate."""
        one = self.client(name)
        pair = {"clientCertificateData": one.certificate, "clientKeyData": one.key}
        path.write_text(credential(**pair))


@pytest.mark.covers(
    "client-go util/connrotation: TestCloseAll",
    "client-go plugin/pkg/client/auth/exec: TestTLSCredentials",
    "client-go plugin/pkg/client/auth/exec: TestRefreshCreds",
)
@pytest.mark.parametrize("http_client", ["direct", "aiohttp"])
async def test_a_new_certificate_is_used_for_new_connections_only(
    tmp_path: Path, http_client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    certificates = Certificates()
    (tmp_path / "ca.pem").write_bytes(certificates.authority.cert_pem.bytes())
    seen: list[str] = []
    is_revoked = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        name = _name_of(writer)
        seen.append(f"{request.target} {name}")
        if request.target == "/watch":
            writer.write(CHUNKED + chunk(b"1\n"))
            await is_revoked.wait()
            writer.write(chunk(b"2\n"))
        else:
            writer.write(response(status=401 if is_revoked.is_set() and name == "old" else 200))

    certificates.hand_out("old", tmp_path / "answer.json")
    spec = {"apiVersion": V1, "command": "cat", "args": [str(tmp_path / "answer.json")]}
    async with serving(answer, tls=certificates.tls) as server:
        cluster = {"server": server.url, "certificate-authority": "ca.pem"}
        config = await find_config(kubeconfig(tmp_path / "config", spec, **cluster))
        async with connected("", config=config, http_client=http_client) as connection:
            await connection.request("GET", "/a")
            async with connection.stream("/watch", watch=True) as body:
                assert await body.read() == b"1\n"
                certificates.hand_out("new", tmp_path / "answer.json")
                is_revoked.set()
                await connection.request("GET", "/b")
                await connection.request("GET", "/c")
                assert await body.read() == b"2\n", "the open watch continues"
            async with connection.stream("/watch", watch=True) as body:
                assert await body.read()

    assert seen == ["/a old", "/watch old", "/b old", "/b new", "/c new", "/watch new"]
    assert list(temporary.rglob("*")) == [], "no key is left on the disk"


def _name_of(writer: asyncio.StreamWriter) -> str:
    peer: Any = writer.get_extra_info("peercert") or {}
    (found,) = [value for kind, value in peer["subjectAltName"] if kind == "email"]
    return str(found).partition("@")[0]


async def test_an_invalid_certificate_is_named_without_its_key(tmp_path: Path) -> None:
    printed = tmp_path / "answer.json"
    printed.write_text(credential(clientCertificateData="no pem", clientKeyData=SECRET))
    spec = {"apiVersion": V1, "command": "cat", "args": [str(printed)]}
    with pytest.raises(ConfigurationError, match="client-certificate-data") as raised:
        await find_config(kubeconfig(tmp_path / "config", spec))
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "show",
    [
        lambda: repr(ClientCertificate("c", SECRET)),
        lambda: repr(Login({"Authorization": SECRET})),
        lambda: repr(RenewingCredentials(_never, first=Login({"Authorization": SECRET}))),
    ],
)
def test_nothing_that_holds_a_secret_shows_it(show: Callable[[], str]) -> None:
    assert SECRET not in show()


async def test_a_configuration_shows_nothing_that_its_plugin_is_given(tmp_path: Path) -> None:
    path = plugin(tmp_path, printing(credential(token=SECRET)), env={"TOKEN": SECRET})
    config = await find_config(path)
    assert SECRET not in repr(config) + repr(config.credentials)


async def _never() -> Login:
    raise AssertionError


@pytest.mark.parametrize("step", ["", ".", "bin"], ids=["empty", "dot", "relative"])
async def test_a_command_is_never_found_relative_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """An empty part of PATH is the current folder, where another user may have put a program."""
    place = tmp_path / step / "login-here"
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{printing(credential(token='t'))}\n")
    place.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in (step, f"{step}:/usr/bin", f"/usr/bin:{step}", f"/bin:{step}:/usr/bin"):
        monkeypatch.setenv("PATH", path)
        with pytest.raises(ConfigurationError, match="login-here: the command is not installed"):
            await find_config(plugin(tmp_path, "", {"PATH": path}, command="login-here", args=[]))
    monkeypatch.setenv("PATH", f"{step}:{place.parent}:/usr/bin")
    found = await headers_of(plugin(tmp_path, "", command="login-here", args=[]))
    assert found == {"Authorization": "Bearer t"}


@pytest.mark.covers("client-go plugin/pkg/client/auth/exec: TestCacheKey")
async def test_a_refusal_by_one_api_does_not_take_a_login_from_the_others() -> None:
    clock = Clock()
    credentials = clock.credentials()
    first = await credentials.headers()
    clock.failure = ConfigurationError("/a/config", "exec x: throttled")
    for at in (1_000.0, 1_001.0, 1_011.0):
        credentials.on_unauthorized(first)
        assert await clock.token_at(credentials, at) == "1", "the server accepts it elsewhere"
    assert clock.runs == 3, "once for the refusal, and once ten seconds later"
    clock.failure = None
    assert await clock.token_at(credentials, 1_021.0) == "4"


async def test_an_api_that_refuses_every_login_causes_one_login_in_ten_seconds() -> None:
    clock = Clock()
    clock.life = 3600.0
    credentials = clock.credentials()
    await credentials.headers()
    for second in range(30):
        clock.now = 1_000.0 + second
        credentials.on_unauthorized(await credentials.headers())
        await credentials.headers()
    assert clock.runs == 4
