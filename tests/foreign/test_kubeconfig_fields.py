"""A kubeconfig of any fields leads to the same request as by client-go, or to none by both."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pyinformer.client.transport import find_config
from pyinformer.client.transport.config import impersonation_headers
from pyinformer.errors import ConfigurationError
from tests.foreign.test_yaml import KUBECONFIG
from tests.soak import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from pyinformer.client.transport import ClusterConfig

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(600)]

_ISSUED = trustme.CA()
_PEM = _ISSUED.cert_pem.bytes()
_LOGIN = _ISSUED.issue_cert("jane@example.org")
# What client-go finds out when it connects, or does without a word, is refused when it is read.
_REFUSED_ON_PURPOSE = (
    "no entry named",  # of the context's user: client-go sends requests without a login
    "client-key: needs a client-certificate",
    "client-certificate: is missing",
    "client certificate ",  # files that TLS cannot use
    "client-key: no such file",
    "client-key: must not be beside client-key-data",
    "is not an http or https URL with a host",
    "must not contain a name or a password",
    "a header cannot carry",
    "must not have line ends",
    "must be a string",  # an empty list reads as empty data in Go
    "must be base64",  # of a key whose certificate is missing
)
_TEXTS = ["", "a", "b", "ä", "a b", "a: b", " a ", "no", "1", "~", "a\nb", "null"]
_ODD = [None, 1, 1.5, True, [], ["a"], {}, {"a": "b"}]
_SERVERS = [
    *("https://a", "https://a:1/path", "https://a/path/", "HTTPS://A", "a", "a:443"),
    *("https://", "", "https://a?b=c", "https://jane:secret@a", "ftp://a", "https://[::1]:1"),
    *("https://a b", "https://a:x", "https://a:0", "//a", "/a", "https://a#b", "a/b"),
    *(
        "http://127.0.0.1:1",
        "https://a//b",
        "https://a/%2f",
        "https://a.",
        " https://a",
        "HTTP://a",
    ),
]
_PROXIES = [*("", "http://p:1", "https://p", "p:1", "ftp://p", "http://", "//p", "http://u:p@p:1")]
_FILES = ["ca.pem", "login.pem", "login.key", "token", "absent", "", "./ca.pem"]


def _data(*values: bytes) -> list[str]:
    return [base64.b64encode(one).decode() for one in values]


_NO_DATA = [*_data(_PEM, b"", b"text", _PEM[:-40], _PEM * 2), "no base64", "YQ", "YQ==\n"]
_CERTIFICATE, _KEY = _data(_LOGIN.cert_chain_pems[0].bytes(), _LOGIN.private_key_pem.bytes())
_CLUSTER = {
    "server": _SERVERS,
    "certificate-authority": _FILES,
    "certificate-authority-data": _NO_DATA,
    "insecure-skip-tls-verify": [True, False, "true", "yes"],
    "tls-server-name": ["", "a.example.com", "a.", "1.2.3.4"],
    "proxy-url": _PROXIES,
}
_USER = {
    "token": _TEXTS,
    "tokenFile": _FILES,
    "username": _TEXTS,
    "password": _TEXTS,
    "client-certificate": _FILES,
    "client-key": _FILES,
    "client-certificate-data": [_CERTIFICATE, _CERTIFICATE, *_NO_DATA],
    "client-key-data": [_KEY, _KEY, *_NO_DATA],
    "as": _TEXTS,
    "as-uid": _TEXTS,
    "as-groups": [["a"], ["a", ""], ["a", "b"], ["a", 1]],
    "as-user-extra": [{"a": ["b"]}, {"A/b": ["c", "d"]}, {"": ["b"]}, {"a": [1]}],
}
_CONTEXT = {"namespace": _TEXTS, "cluster": _TEXTS}
_OTHERS = {
    "current-context": ["a", "b", "", None],
    "kind": ["Config", "Other", ""],
    "apiVersion": ["v1", "v2", ""],
    "unknown": [{}],
}
_FURTHER = [*[{"name": "b"}] * 6, {"name": "a"}, {"name": ""}, {}, None, "a", {"name": 1}]


@st.composite
def _changed(draw: st.DrawFn, base: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Change few fields, one in eight to a value of a wrong type."""
    changed = dict(base)
    for name in draw(st.lists(st.sampled_from(sorted(values)), max_size=2, unique=True)):
        is_odd = draw(st.integers(0, 7)) == 0
        changed[name] = draw(st.sampled_from(_ODD if is_odd else values[name]))
    return changed


@st.composite
def _kubeconfigs(draw: st.DrawFn) -> dict[str, Any]:
    """A kubeconfig that works but for few fields."""

    def entries(kind: str, base: dict[str, Any], values: Mapping[str, Any]) -> list[Any]:
        found = [{"name": "a", kind: draw(_changed(base, values))}]
        return [*found, *draw(st.lists(st.sampled_from(_FURTHER), max_size=1))]

    base: dict[str, Any] = {
        "current-context": "a",
        "clusters": entries("cluster", {"server": "https://a"}, _CLUSTER),
        "users": entries("user", {}, _USER),
        "contexts": entries("context", {"cluster": "a", "user": "a"}, _CONTEXT)
        if draw(st.integers(0, 7)) == 0
        else entries("context", {"cluster": "a", "user": "a"}, {"namespace": _TEXTS}),
    }
    return draw(_changed(base, _OTHERS)) if draw(st.integers(0, 3)) == 0 else base


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kubeconfigs")
    (folder / "ca.pem").write_bytes(_PEM)
    (folder / "login.pem").write_bytes(_LOGIN.cert_chain_pems[0].bytes())
    (folder / "login.key").write_bytes(_LOGIN.private_key_pem.bytes())
    (folder / "token").write_text("of-the-file\n")
    return folder


@pytest.fixture(scope="module")
def go(client_go: Path, folder: Path) -> Iterator[Callable[[Path], dict[str, Any]]]:
    """The request that client-go makes by the kubeconfig at a path, or its error."""
    (used := folder / "used").write_text(json.dumps(KUBECONFIG), encoding="utf-8")
    command = [str(client_go), "kubeconfigs", "-", str(used), "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"HOME": str(folder)}
    ) as program:
        asked, answers = program.stdin, program.stdout
        assert asked is not None
        assert answers is not None

        def request(path: Path) -> dict[str, Any]:
            asked.write(json.dumps(str(path)).encode() + b"\n")
            asked.flush()
            found: dict[str, Any] = json.loads(answers.readline())
            return found

        yield request
        asked.close()


async def _ours(path: Path) -> dict[str, Any]:
    config: ClusterConfig = await find_config(path, trust_env=False, environ={}, home=path.parent)
    headers: dict[str, list[str]] = {}
    for name, value in (
        *(await config.credentials.headers()).items(),
        *impersonation_headers(config),
    ):
        headers.setdefault(name, []).append(value)
    return {
        "server": config.server,
        "headers": headers,
        "proxy": config.proxy_url or "",
        "namespace": config.namespace,
        "name": config.tls_server_name or "",
        "trusting": not config.verify_tls,
    }


def _same(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request without what is the same to a server."""
    scheme, _, rest = request["server"].partition("://")
    headers = {
        name.title(): [" ".join(one.split()) for one in values]
        for name, values in request["headers"].items()
    }
    name = request["name"] if scheme.lower() == "https" else ""
    server = f"{scheme.lower()}://{rest.rstrip('/')}"
    return {**request, "server": server, "headers": headers, "name": name}


@settings(max_examples=examples(1000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(content=_kubeconfigs())
def test_a_kubeconfig_leads_to_the_same_request(
    go: Callable[[Path], dict[str, Any]], folder: Path, content: dict[str, Any]
) -> None:
    path = folder / "config"
    path.write_text(json.dumps(content), encoding="utf-8")
    theirs = go(path)
    refused = ""
    ours: dict[str, Any] = {}
    try:
        ours = asyncio.run(_ours(path))
    except ConfigurationError as error:
        refused = error.reason
    if refused:
        event("refused by both" if "error" in theirs else "refused on purpose")
        on_purpose = any(one in refused for one in _REFUSED_ON_PURPOSE)
        assert "error" in theirs or on_purpose, refused
    else:
        event("accepted")
        assert "error" not in theirs, theirs["error"]
        assert _same(ours) == _same(theirs)
