"""Credentials that the server ends every two seconds: no event is lost, and one list is enough.

One program follows with a token file, one with an exec plug-in. At each turn the server learns new
tokens, forgets the old ones at once and cuts all connections, while a writer writes.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml

import pyinformer
from pyinformer.client.transport import TokenFileCredentials
from pyinformer.testing import APIServer, Token
from tests.integration.asked import Asked
from tests.integration.following import follow
from tests.integration.history import Versions
from tests.integration.objects import CONFIG_MAPS
from tests.integration.servers import ADMIN, EmbeddedServer
from tests.integration.workload import Writer
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyinformer.client.transport import ConnectionOptions

TURN_SECONDS = 2.0
TURNS = 3
LOADS = {"load", "watch-list", "page"}


@pytest.fixture(params=["direct", "aiohttp"])
def options(request: pytest.FixtureRequest) -> ConnectionOptions:
    """Both ways of reading watches."""
    return pyinformer.client.ConnectionOptions(http_client=request.param)


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    """A server of this test."""
    with APIServer(tls=True, tokens=[Token(value=ADMIN)], strict_namespaces=True) as api:
        yield EmbeddedServer(api)


def follower(value: str) -> Token:
    """Return a token that may follow config maps."""
    return Token(value=value, verbs=("list", "watch"), resources=("configmaps",))


class Issuer:
    """Hands out tokens for a moment: one in a file, one as an exec plug-in prints it."""

    def __init__(self, api: APIServer, folder: Path) -> None:
        self.api = api
        self.token_file = folder / "token"
        self.credential = folder / "credential.json"
        self.turns = 0
        self.rotate()

    def rotate(self) -> None:
        """Replace all tokens; the old ones are refused from now on."""
        old = [f"{kind}-{self.turns}" for kind in ("file", "exec")]
        self.turns += 1
        for kind in ("file", "exec"):
            self.api.add_token(follower(f"{kind}-{self.turns}"))
        expiry = datetime.now(UTC) + timedelta(seconds=TURN_SECONDS)
        status = {"token": f"exec-{self.turns}", "expirationTimestamp": expiry.isoformat()}
        said = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        replace(self.credential, json.dumps({**said, "status": status}))
        replace(self.token_file, f"file-{self.turns}\n")
        for token in old:
            self.api.expire_token(token)

    def kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig whose user is the plug-in."""
        content = yaml.safe_load(self.api.kubeconfig())
        content["users"][0]["user"] = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": shutil.which("cat"),
                "args": [str(self.credential)],
                "interactiveMode": "Never",
            }
        }
        path.write_text(yaml.safe_dump(content))
        return path

    @contextmanager
    def at_every_turn(self, writer: Writer) -> Iterator[threading.Event]:
        """Rotate and write in a thread; what is yielded is set after the last turn."""
        done, stop = threading.Event(), threading.Event()

        def work() -> None:
            for _ in range(TURNS):
                for _ in range(20):
                    writer.churn(creates=1, others=2)
                    stop.wait(TURN_SECONDS / 20)
                self.rotate()
                self.api.drop_connections()
            writer.churn(creates=5, others=20)
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield done
        finally:
            stop.set()
            thread.join()


def replace(path: Path, text: str) -> None:
    """Write a file as kubelet does, so that no reader gets half of it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


@pytest.mark.slow
async def test_tokens_that_end_every_two_seconds_cost_no_event_and_no_list(
    server: EmbeddedServer, options: ConnectionOptions, tmp_path: Path
) -> None:
    namespace = server.namespace()
    versions = Versions()
    writer = Writer(server, CONFIG_MAPS, namespace, versions)
    writer.fill(20)
    issuer = Issuer(server.api, tmp_path)
    config = pyinformer.client.ClusterConfig(
        server=server.api.url,
        ca_file=str(server.api.ca_file),
        credentials=TokenFileCredentials(issuer.token_file),
    )
    with_file = pyinformer.connect(config=config, options=options)
    with_exec = pyinformer.connect(issuer.kubeconfig(tmp_path / "config"), options=options)
    async with (
        with_file as one_cluster,
        with_exec as other_cluster,
        pyinformer.SharedInformerFactory(one_cluster) as one_factory,
        pyinformer.SharedInformerFactory(other_cluster) as other_factory,
    ):
        followed: list[Any] = []
        for factory in (one_factory, other_factory):
            followed.append(follow(factory, "v1", "configmaps", namespaces=namespace))
            await factory.start()
            await factory.wait_for_cache_sync(timeout_seconds=100)
        with issuer.at_every_turn(writer) as done:
            await until(done.is_set)
        for one in followed:
            await one.settle(server, versions=versions)

    loads = [one for one in Asked(server.api).requests() if one.what in LOADS]
    assert [one.status for one in loads] == [200, 200], "one of each informer"
    assert [one.loads for one in followed] == [1, 1]
    refused = Asked(server.api).counts(status=401)
    assert refused, "no request used a token that had ended: the test is too gentle"


async def test_a_watch_that_is_refused_resumes_where_it_was(
    server: EmbeddedServer, options: ConnectionOptions, tmp_path: Path
) -> None:
    namespace = server.namespace()
    issuer = Issuer(server.api, tmp_path)
    async with (
        pyinformer.connect(issuer.kubeconfig(tmp_path / "config"), options=options) as cluster,
        pyinformer.SharedInformerFactory(cluster) as factory,
    ):
        one = follow(factory, "v1", "configmaps", namespaces=namespace)
        await factory.start()
        await factory.wait_for_cache_sync(timeout_seconds=100)
        server.api.expire_token("exec-1")  # and the plug-in knows no other one yet
        server.api.drop_connections()
        server.api.create(CONFIG_MAPS.make("meanwhile", namespace))
        await until(lambda: "401" in (one.informer.status().reflector.last_error or ""))
        server.api.add_token(follower("exec-1"))
        await one.settle(server)
        assert one.names() == ["meanwhile"]
        assert one.loads == 1


async def test_many_requests_that_are_refused_together_have_one_login(
    server: EmbeddedServer, options: ConnectionOptions, tmp_path: Path
) -> None:
    namespaces = [server.namespace() for _ in range(10)]
    issuer = Issuer(server.api, tmp_path)
    runs = tmp_path / "runs"
    path = issuer.kubeconfig(tmp_path / "config")
    content = yaml.safe_load(path.read_text())
    script = f"echo run >> {runs}; cat {issuer.credential}"
    content["users"][0]["user"]["exec"] |= {"command": "sh", "args": ["-c", script]}
    path.write_text(yaml.safe_dump(content))
    said = json.loads(issuer.credential.read_text())
    del said["status"]["expirationTimestamp"]  # only the server says when it ends

    replace(issuer.credential, json.dumps(said))
    async with pyinformer.connect(path, options=options) as cluster:
        assert runs.read_text().count("run") == 1
        api_path = "/api/v1/namespaces/{}/configmaps"
        await cluster.connection.request("GET", api_path.format(namespaces[0]))
        said["status"]["token"] = "exec-9"
        server.api.add_token(follower("exec-9"))
        replace(issuer.credential, json.dumps(said))
        server.api.expire_token("exec-1")
        async with asyncio.TaskGroup() as group:
            for namespace in namespaces:
                group.create_task(cluster.connection.request("GET", api_path.format(namespace)))
        assert runs.read_text().count("run") == 2
        server.api.expire_token("exec-9")
        with pytest.raises(pyinformer.errors.UnauthorizedError) as refused:
            await cluster.connection.request("GET", api_path.format(namespaces[0]))
        assert runs.read_text().count("run") == 2  # refusals bring about one login in ten seconds
        assert "exec-9" not in str(refused.value)
