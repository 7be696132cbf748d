"""Which proxy the environment gives a server, for every case as client-go decides it."""

from __future__ import annotations

import itertools
import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from pyinformer.client.transport.config import ClusterConfig, with_environment_proxy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(120)]

_SERVERS = [
    *(f"https://{host}" for host in ["a.example.com", "example.com:6443", "myexample.com", "web"]),
    *(f"https://{host}" for host in ["10.1.2.3", "10.1.2.3:8443", "192.168.0.1", "11.0.0.1"]),
    *(f"https://{host}" for host in ["[2001:db8::1]", "[2001:db8::1]:6443", "[fe80::1%25eth0]"]),
    *(f"https://{host}" for host in ["[::ffff:10.1.2.3]", "localhost", "localhost:6443"]),
    *(f"https://{host}" for host in ["127.0.0.1", "127.9.9.9:6443", "[::1]", "localhost.example"]),
    *(f"http://{host}" for host in ["a.example.com", "a.example.com:443", "10.1.2.3", "web:8080"]),
    "https://bücher.example",
    "https://A.EXAMPLE.com/path",
]
_NO_PROXIES = [
    *("", " ", ",", "*", "a, *", "**", "*.", ".", "example.com", ".example.com", "*.example.com"),
    *("EXAMPLE.com", " example.com , x", "example.com:6443", "example.com:443", ".example.com:443"),
    *("*.example.com:80", "example.com:", ":443", "a.example.com", "ample.com", "com", "web"),
    *("web:8080", "web:80", "*web", "*.web", "10.1.2.3", "10.1.2.3:443", "10.1.2.3:8443"),
    *("10.0.0.0/8", "10.0.0.0/8:443", "10.1.2.3/16", "10/8", "10.0.0.0/255.0.0.0", "10.0.0.0/33"),
    *("10.0.0.0/", "10.*", "2001:db8::/32", "2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:6443"),
    *("fe80::/10", "fe80::1", "fe80::1%eth0", "::ffff:10.1.2.3", "::/0", "0.0.0.0/0", "[]:443"),
    *("localhost", "127.0.0.1", "bücher.example", "xn--bcher-kva.example", ".bücher.example"),
    *("http://example.com", "example.com/path", "[::1", "::1]", "x:y:z", "192.168.0.1,10.1.2.3"),
]
_PROXIES: list[dict[str, str]] = [
    {},
    {"HTTPS_PROXY": "http://proxy:3128", "HTTP_PROXY": "http://plain:8080"},
    {"https_proxy": "http://small:3128", "http_proxy": "https://plain:8080"},
    {"HTTPS_PROXY": "", "https_proxy": "http://small:3128"},
    {"HTTPS_PROXY": "http://large:1", "https_proxy": "http://small:2"},
    {"HTTPS_PROXY": "proxy:3128", "HTTP_PROXY": "10.9.9.9:80"},
    {"HTTPS_PROXY": "http://jane:s3cret@proxy", "HTTP_PROXY": "jane:s3cret@proxy:3128"},
]
_NAMES_OF_NO_PROXY = ["NO_PROXY", "no_proxy"]


def _cases() -> list[tuple[Mapping[str, str], str]]:
    named = itertools.product(_NAMES_OF_NO_PROXY, _NO_PROXIES)
    exceptions = [{name: value} for name, value in named]
    exceptions.append({"NO_PROXY": "web", "no_proxy": "example.com"})
    everything = itertools.product(_PROXIES, exceptions, _SERVERS)
    return [({**proxy, **exception}, server) for proxy, exception, server in everything]


def _ours(environment: Mapping[str, str], server: str) -> str:
    return with_environment_proxy(ClusterConfig(server=server), environment).proxy_url or ""


def test_every_case_is_decided_as_by_client_go(client_go: Path, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        '{"clusters": [{"name": "a", "cluster": {"server": "http://a"}}],'
        ' "contexts": [{"name": "a", "context": {"cluster": "a"}}], "current-context": "a"}'
    )
    cases = _cases()
    asked = "\n".join(json.dumps({"Environment": one, "Server": server}) for one, server in cases)
    said = subprocess.run(
        [client_go, "proxies", "-", kubeconfig, "-"],
        input=asked,
        text=True,
        capture_output=True,
        check=True,
        timeout=60,
    ).stdout.splitlines()
    theirs = [answer["proxy"] for answer in map(json.loads, said)]

    ours = [_ours(environment, server) for environment, server in cases]
    differences = [
        (environment, server, mine, wanted)
        for (environment, server), mine, wanted in zip(cases, ours, theirs, strict=True)
        if mine != wanted
    ]
    assert not differences
    assert {"", "http://proxy:3128", "https://plain:8080"} <= set(theirs), "both kinds of answers"
