"""kubectl and pyinformer read one kubeconfig: both reach the server with it, or neither does."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
from typing import TYPE_CHECKING

import pytest
import trustme

from pyinformer.client.transport import find_config
from pyinformer.errors import InformerError
from tests.client.transport.serving import always, connected, response, serving
from tests.client.transport.test_oidc import CA, EXPIRED, SECRETS, bearer, providing, token, written
from tests.client.transport.test_oidc import write as write_oidc
from tests.foreign import clients

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(120)]

_EXEC = "exec: {apiVersion: client.authentication.k8s.io/%s, command: ./login%s}"
_NEVER = ", interactiveMode: Never"
_SAID = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "kind": "ExecCredential",
    "status": {"token": "of-the-plugin"},
}


def user(fields: str) -> str:
    """Return a kubeconfig of one user."""
    return kubeconfig(f"{{name: u, user: {{{fields}}}}}")


def kubeconfig(users: str, *, context: str = "cluster: c, user: u", cluster: str = "") -> str:
    """Return a kubeconfig; SERVER is replaced."""
    return (
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        f"contexts: [{{name: c, context: {{{context}}}}}]\n"
        "clusters: [{name: c, cluster: {server: SERVER, insecure-skip-tls-verify: true"
        f"{cluster}}}}}]\nusers: [{users}]\n"
    )


_ANONYMOUS = "{name: u, user: {}}"
CASES = {
    "anonymous": user(""),
    "token": user("token: t"),
    "password": user("username: u, password: p"),
    "file": user("tokenFile: token"),
    "certificate": user("client-certificate: c.pem, client-key: c.pem"),
    "impersonated": user("token: t, as: jane, as-groups: [a]"),
    "plugin": user(_EXEC % ("v1", _NEVER)),
    "plugin-of-beta": user(_EXEC % ("v1beta1", "")).replace("./login", "./login-beta"),
    "two-documents": user("token: t") + "---\ncurrent-context: other\n",
    "no-yaml-behind": user("token: t") + "---\n[1\n",
    "final-separator": user("token: t") + "---\n",
    "leading-separator": "---\n" + user("token: t"),
    "empty-document-first": "---\n---\n" + user("token: t"),
    "nameless": kubeconfig(_ANONYMOUS + ", {user: {token: x}}"),
    "empty-entry": kubeconfig(_ANONYMOUS + ", {}, null"[:4]),
    "null-entry": kubeconfig(_ANONYMOUS + ", null"),
    "two-nameless": kubeconfig(_ANONYMOUS + ", {}, {}"),
    "text-entry": kubeconfig(_ANONYMOUS + ", text"),
    "nameless-in-use": kubeconfig("{user: {token: x}}", context="cluster: c"),
    "nameless-in-use-twice": kubeconfig("{user: {token: x, username: y}}", context="cluster: c"),
    "same-names": kubeconfig(f"{_ANONYMOUS}, {_ANONYMOUS}"),
    "unused-contradiction": kubeconfig(_ANONYMOUS + ", {name: v, user: {token: t, username: u}}"),
    "token-username": user("token: t, username: u"),
    "token-password": user("token: t, password: p"),
    "file-username": user("tokenFile: token, username: u"),
    "no-mode": user(_EXEC % ("v1", "")),
    "no-mode-beside-a-token": user("token: t, " + _EXEC % ("v1", "")),
    "plugin-beside-a-token": user("token: t, " + _EXEC % ("v1", _NEVER)),
    "plugin-provider": user(_EXEC % ("v1", _NEVER) + ", auth-provider: {name: oidc}"),
    "provider-gcp": user("auth-provider: {name: gcp, config: {access-token: x}}"),
    "provider-unknown": user("auth-provider: {name: unknown}"),
    "certificate-twice": user(
        "client-certificate: c.pem, client-certificate-data: YQ==, client-key: c.pem"
    ),
    "key-twice": user("client-certificate: c.pem, client-key: c.pem, client-key-data: YQ=="),
    "groups-alone": user("as-groups: [a]"),
    "list-of-users": "users: text\n",
    "duplicate-clusters": user("").replace("clusters: [", "clusters: [{name: c}, "),
}


def asks(program: Path, path: Path, home: Path) -> None:
    """Let kubectl send a request with a kubeconfig."""
    subprocess.run(
        [str(program), "--kubeconfig", str(path), "get", "--raw", "/version"],
        capture_output=True,
        timeout=100,
        check=False,
        cwd=path.parent,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
    )


def found_kubectl() -> Path:
    """Return the kubectl that is installed."""
    program = clients.kubectl("path")
    if isinstance(program, str):
        pytest.skip(program)
    return program


@pytest.mark.parametrize("name", CASES)
async def test_a_kubeconfig_is_usable_for_both_or_for_neither(tmp_path: Path, name: str) -> None:
    program = found_kubectl()
    issued = trustme.CA().issue_cert("jane@example.org")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "c.pem")
    (tmp_path / "token").write_text("t")
    for command, version in (("login", "v1"), ("login-beta", "v1beta1")):
        said = json.dumps(_SAID).replace("k8s.io/v1", f"k8s.io/{version}")
        (tmp_path / command).write_text(f"#!/bin/sh\necho '{said}'\n")
        (tmp_path / command).chmod(0o700)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(tls)
    path = tmp_path / "config"
    async with serving(always(response()), tls=tls) as server:
        path.write_text(CASES[name].replace("SERVER", f"'{server.url}'"))
        await asyncio.to_thread(asks, program, path, tmp_path)
        of_kubectl = {one.headers.get("authorization") for one in server.requests}
        server.requests.clear()
        try:
            async with connected("", config=await find_config(path)) as connection:
                await connection.request("GET", "/version")
        except InformerError:
            assert server.requests == []
        assert {one.headers.get("authorization") for one in server.requests} == of_kubectl


async def test_kubectl_and_pyinformer_renew_an_id_token_alike(tmp_path: Path) -> None:
    program = found_kubectl()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    CA.issue_cert("127.0.0.1").configure_cert(tls)
    forms, headers = [], []
    for name in ("kubectl", "pyinformer"):
        (folder := tmp_path / name).mkdir()
        async with providing() as provider, serving(always(response()), tls=tls) as server:
            path = write_oidc(
                folder / "config",
                provider.server.url,
                idp_certificate_authority=str(folder / "idp.pem"),  # kubectl's own is of its folder
            )
            text = path.read_text().replace(
                "'https://one.example'", f"'{server.url}', certificate-authority: idp.pem"
            )
            path.write_text(text)
            if name == "kubectl":
                await asyncio.to_thread(asks, program, path, folder)
            else:
                async with connected("", config=await find_config(path)) as connection:
                    await connection.request("GET", "/version")
            forms.append(provider.forms())
            headers.append([one.headers["authorization"] for one in provider.posts])
            assert {one.headers["authorization"] for one in server.requests} == {
                bearer(token("new2"))["Authorization"]
            }
            found = written(path)
            assert (found["id-token"], found["refresh-token"]) == (token("new2"), SECRETS[1])
    assert forms[0] == forms[1]
    assert headers[0] == headers[1]
    assert EXPIRED not in path.read_text()
