"""The migration pages: what they show, theirs and ours, does the same on one server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import pyinformer
from pyinformer.errors import CacheSyncTimeoutError
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import cluster_of, pod
from tests.docs import pages
from tests.foreign import clients
from tests.programs import running
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

_WAIT_SECONDS = 100.0


class _Seen(dict[str, str]):
    """A dict that notifies a waiter when it has the expected content."""

    def __init__(self, wanted: dict[str, str]) -> None:
        super().__init__()
        self._wanted = wanted
        self.reached = asyncio.Event()

    def __setitem__(self, key: str, value: str) -> None:
        super().__setitem__(key, value)
        if self == self._wanted:
            self.reached.set()


def _addressed(name: str, address: str) -> dict[str, Any]:
    return {**pod(name), "status": {"podIP": address}}


async def test_the_loop_of_kubernetes_asyncio_and_the_informer_see_the_same(
    apiserver: APIServer, tmp_path: Path
) -> None:
    shown = pages.module_of("docs/howto/migrate-from-python-clients.md")
    kubeconfig = str(apiserver.write_kubeconfig(tmp_path / "kubeconfig"))
    apiserver.create(_addressed("a", "10.0.0.1"))
    theirs = _Seen({"default/a": "10.0.0.1", "default/b": "10.0.0.2"})
    ready: asyncio.Future[pyinformer.Lister[Any]] = asyncio.get_running_loop().create_future()
    tasks = [
        asyncio.create_task(shown.watch_addresses(theirs, kubeconfig)),
        asyncio.create_task(shown.follow_addresses(kubeconfig, ready)),
    ]
    try:
        async with asyncio.timeout(_WAIT_SECONDS):
            ours = await ready
            apiserver.create(_addressed("b", "10.0.0.2"))
            await theirs.reached.wait()
        assert shown.address_of(ours, "default/a") == "10.0.0.1"
        assert shown.address_of(ours, "default/c") is None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_program_that_gives_up_does_so_after_the_first_refusal(
    apiserver: APIServer,
) -> None:
    shown = pages.module_of("docs/howto/migrate-from-python-clients.md")
    apiserver.faults.add(Fault(resource="pods", status=403, times=None))
    async with cluster_of(apiserver) as cluster, asyncio.timeout(_WAIT_SECONDS):
        with pytest.raises(CacheSyncTimeoutError, match="forbidden"):
            ready = asyncio.get_running_loop().create_future()
            await shown.follow_or_give_up(cluster, ready, give_up_after_seconds=3600.0)


async def test_the_program_that_gives_up_does_so_after_a_time_without_the_server(
    apiserver: APIServer,
) -> None:
    shown = pages.module_of("docs/howto/migrate-from-python-clients.md")
    async with cluster_of(apiserver) as cluster, asyncio.timeout(_WAIT_SECONDS):
        ready = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(
            shown.follow_or_give_up(cluster, ready, give_up_after_seconds=0.5)
        )
        await ready
        await until(lambda: apiserver.open_watches)
        apiserver.faults.add(Fault(resource="pods", status=500, times=None))
        await asyncio.to_thread(apiserver.drop_connections)
        with pytest.raises(TimeoutError, match=r"no pods for 0\.5 s"):
            await task


@pytest.mark.parametrize("number", [0, 1], ids=["theirs", "ours"])
def test_the_programs_of_the_page_on_the_official_informer_print_the_same(
    number: int, apiserver: APIServer, tmp_path: Path
) -> None:
    interpreter = sys.executable if number else clients.official_python()
    if not number and isinstance(interpreter, str):
        pytest.skip(interpreter)
    program = tmp_path / "program.py"
    programs = [
        block
        for block in pages.blocks("docs/howto/migrate-from-python-clients.md", "python")
        if block.comment.startswith("not run: ") and "separate" in block.comment
    ]
    shown = programs[number]
    program.write_text(shown.text, encoding="utf-8")
    kubeconfig = apiserver.write_kubeconfig(tmp_path / "kubeconfig")
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    apiserver.create(config_map)
    command = [str(interpreter), "-u", str(program), str(kubeconfig)]
    with running(command, errors=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        said = [process.stdout.readline()]
        process.stdin.write("\n")
        process.stdin.flush()
        said.append(process.stdout.readline())
        apiserver.delete("v1", "configmaps", "a")
        said.append(process.stdout.readline())
        if number:
            process.stdin.close()
            assert process.wait(_WAIT_SECONDS) == 0

    assert said == ["+ a\n", "['a']\n", "- a\n"]


def test_the_operator_of_the_page_on_kopf_passes_the_test_of_the_page() -> None:
    shown = pages.module_of("docs/howto/migrate-from-kopf.md")

    shown.test_a_team_has_its_members_in_a_config_map()


async def test_the_controller_of_the_page_on_client_go_syncs_every_pod(
    apiserver: APIServer,
) -> None:
    shown = pages.module_of("docs/start/client-go.md")
    apiserver.create({**pod("a"), "metadata": {"namespace": "shop", "name": "a"}})
    apiserver.create({**pod("b"), "metadata": {"namespace": "bank", "name": "b"}})
    synced: list[tuple[str, bool]] = []
    again = asyncio.Event()

    async def sync(key: str, found: pyinformer.KubeObject[Any] | None) -> None:
        synced.append((key, found is not None))
        if len(synced) == 1:
            raise OSError
        again.set()

    async with cluster_of(apiserver) as cluster:
        program = asyncio.create_task(shown.main(cluster, sync))
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await again.wait()
        finally:
            program.cancel()
            await asyncio.gather(program, return_exceptions=True)

    assert synced == [("shop/a", True), ("shop/a", True)]
