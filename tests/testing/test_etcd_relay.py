"""The relay to etcd, and what can be done to the processes; http.client is the witness."""

from __future__ import annotations

import http.client
import json
import ssl
from time import monotonic
from typing import TYPE_CHECKING

import pytest

from pyinformer.errors import (
    APIStatusError,
    InvalidArgumentError,
    KubeAPIServerError,
    LifecycleError,
    TransportError,
)
from pyinformer.testing import EtcdRelay, KubeAPIServer
from tests.testing.wire import Stream, Wire
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
CURRENT = {"resourceVersion": "0"}


@pytest.fixture(scope="module")
def relayed(kube_apiserver_build: bool) -> Iterator[tuple[KubeAPIServer, EtcdRelay]]:
    with (
        EtcdRelay() as relay,
        KubeAPIServer(build=kube_apiserver_build, etcd_relays=[relay]) as server,
    ):
        yield server, relay


@pytest.fixture
def server(relayed: tuple[KubeAPIServer, EtcdRelay]) -> Iterator[KubeAPIServer]:
    yield relayed[0]
    relayed[0].close_connections()


@pytest.fixture
def relay(relayed: tuple[KubeAPIServer, EtcdRelay]) -> EtcdRelay:
    return relayed[1]


@pytest.fixture
def wire(server: KubeAPIServer) -> Iterator[Wire]:
    context = ssl.create_default_context(cafile=str(server.ca_file))
    with Wire(server.url, token=server.token, context=context) as client:
        yield client


def create(wire: Wire, path: str, name: str) -> None:
    """Create an empty object."""
    answer = wire.request("POST", path, {"metadata": {"name": name}})
    assert answer.status == 201, answer.body


def names(stream: Stream, last: str) -> list[str]:
    """Read the names of a stream's events up to one."""
    found: list[str] = []
    while last not in found:
        found += [name for _, name in stream.named(1)]
    return found


def test_watches_of_one_resource_are_held_while_its_lists_are_current(
    relay: EtcdRelay, wire: Wire
) -> None:
    assert "/registry/configmaps/" in {key[:21] for key in relay.watched()}
    relay.hold("/registry/configmaps/")
    try:
        create(wire, CONFIG_MAPS, "held")
        create(wire, SECRETS, "passes")
        assert poll(lambda: relay.held > 0, timeout_seconds=100)

        assert "held" in wire.get(CONFIG_MAPS).names, "etcd is asked"
        assert "held" not in wire.get(CONFIG_MAPS, **CURRENT).names, "the watch cache is behind"
        assert poll(lambda: "passes" in wire.get(SECRETS, **CURRENT).names, timeout_seconds=100)
    finally:
        relay.release()
    assert poll(lambda: "held" in wire.get(CONFIG_MAPS, **CURRENT).names, timeout_seconds=100)
    assert relay.held == 0


def test_what_was_held_arrives_in_order(relay: EtcdRelay, wire: Wire) -> None:
    with wire.watch(CONFIG_MAPS) as stream:
        relay.hold()
        for number in range(5):
            create(wire, CONFIG_MAPS, f"order-{number}")
        relay.heal()
        assert names(stream, "order-4")[-5:] == [f"order-{number}" for number in range(5)]


def test_reads_of_one_resource_fail(relay: EtcdRelay, wire: Wire) -> None:
    create(wire, CONFIG_MAPS, "unreadable")
    relay.fail_ranges("/registry/configmaps/")
    try:
        struck = relay.struck
        assert wire.get(f"{CONFIG_MAPS}/unreadable").status == 500
        assert wire.get(f"{SECRETS}/none").status == 404
        assert relay.struck > struck
    finally:
        relay.heal()
    assert wire.get(f"{CONFIG_MAPS}/unreadable").status == 200


def test_reads_of_one_resource_are_delayed(relay: EtcdRelay, wire: Wire) -> None:
    create(wire, CONFIG_MAPS, "late")
    relay.delay_ranges(0.5, "/registry/configmaps/")
    try:
        begun = monotonic()
        assert wire.get(f"{CONFIG_MAPS}/late").status == 200
        assert monotonic() - begun >= 0.5
    finally:
        relay.heal()


def test_etcd_dies_and_comes_back_with_its_data(kube_apiserver_build: bool) -> None:
    with KubeAPIServer(build=kube_apiserver_build) as server:
        context = ssl.create_default_context(cafile=str(server.ca_file))
        with Wire(server.url, token=server.token, context=context) as wire:
            create(wire, CONFIG_MAPS, "survives")
            server.restart_etcd()

            def is_read() -> bool:
                return wire.get(f"{CONFIG_MAPS}/survives").status == 200

            assert poll(is_read, timeout_seconds=100)


def test_a_paused_server_answers_when_it_is_resumed(server: KubeAPIServer) -> None:
    context = ssl.create_default_context(cafile=str(server.ca_file))
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=1, context=context)
    connection.connect()
    headers = {"Authorization": f"Bearer {server.token}"}
    server.pause()
    try:
        connection.request("GET", CONFIG_MAPS, headers=headers)
        with pytest.raises(TimeoutError):
            connection.getresponse()
    finally:
        server.resume()
        connection.close()
    assert server.list("v1", "configmaps", "default") is not None


def test_a_paused_etcd_answers_no_read(server: KubeAPIServer, wire: Wire) -> None:
    server.pause_etcd()
    try:
        assert wire.get("/livez/ping").status == 200
        connection = http.client.HTTPConnection("127.0.0.1", int(server.etcd_url[-5:]), timeout=1)
        connection.request("GET", "/health")
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()
    finally:
        server.resume_etcd()
    assert poll(lambda: wire.get(f"{CONFIG_MAPS}/none").status == 404, timeout_seconds=100)


def test_etcd_forgets_what_was_compacted(server: KubeAPIServer, wire: Wire) -> None:
    create(wire, CONFIG_MAPS, "compacted")
    old = int(wire.get(CONFIG_MAPS).json["metadata"]["resourceVersion"])
    create(wire, CONFIG_MAPS, "newer")

    revision = server.compact()

    assert server.compact() >= revision > old
    with Wire(server.etcd_url) as etcd:
        answer = etcd.request("POST", "/v3/kv/range", {"key": "AA==", "revision": str(old)})
    assert "compacted" in answer.json["message"]


def test_of_two_servers_only_one_lags(kube_apiserver_build: bool) -> None:
    with (
        EtcdRelay() as first,
        EtcdRelay() as second,
        KubeAPIServer(
            build=kube_apiserver_build, replicas=2, etcd_relays=[first, second]
        ) as servers,
    ):
        context = ssl.create_default_context(cafile=str(servers.ca_file))
        urls = [f"https://127.0.0.1:{port}" for port in servers.ports]
        with (
            Wire(urls[0], token=servers.token, context=context) as ahead,
            Wire(urls[1], token=servers.token, context=context) as behind,
        ):
            second.hold("/registry/configmaps/")
            create(ahead, CONFIG_MAPS, "new")

            def shows(wire: Wire) -> bool:
                return "new" in wire.get(CONFIG_MAPS, **CURRENT).names

            assert poll(lambda: shows(ahead), timeout_seconds=100)
            assert not shows(behind)
            second.release()
            assert poll(lambda: shows(behind), timeout_seconds=100)


def test_a_relay_that_does_not_run_and_a_replica_that_does_not_exist_are_refused(
    server: KubeAPIServer,
) -> None:
    with pytest.raises(LifecycleError, match="does not run"):
        EtcdRelay().attach(1)
    with pytest.raises(InvalidArgumentError, match="replica"):
        server.pause(7)


def test_what_has_ended_cannot_be_paused(kube_apiserver_build: bool) -> None:
    with KubeAPIServer(build=kube_apiserver_build) as server:
        server.kill()
        with pytest.raises((KubeAPIServerError, OSError)):
            server.pause()
        with pytest.raises((APIStatusError, TransportError)):
            server.list("v1", "configmaps", "default")
        assert json.dumps(server.etcd_url)
