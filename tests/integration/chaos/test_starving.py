"""A program without descriptors follows a real kube-apiserver once it has some; etcd judges it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import FaultLab, FaultProxy, TimedFault
from pyinformer.testing._polling import poll
from pyinformer.testing.histories import check_history, read_history
from tests.integration.chaos.scripted import FEW, LATER, Writer
from tests.integration.chaos.starving import (
    OUT_OF_DESCRIPTORS,
    ROOT,
    Settings,
    Starving,
    starved,
)
from tests.programs import running

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.testing import KubeAPIServer

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.mark.parametrize(
    "starts_without",
    [pytest.param(False, id="while-it-follows"), pytest.param(True, id="before-it-starts")],
)
def test_a_program_without_descriptors_leaves_nothing_lost_invented_stuck_or_out_of_order(
    kube_apiserver: KubeAPIServer, tmp_path: Path, *, starts_without: bool
) -> None:
    """Its connections are cut, and none can be made, while objects change; without an audit."""
    writer = Writer(kube_apiserver, f"starving-{int(starts_without)}")
    kube_apiserver.ensure_namespace(writer.namespace)
    writer.fill()
    with FaultProxy(kube_apiserver) as proxy:
        settings = _settings(kube_apiserver, proxy, writer, tmp_path, starts_without=starts_without)
        with running(starved(settings), env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
            program = Starving(process)
            lab = FaultLab(proxy=proxy, program=program, log=program.log)
            if not starts_without:
                program.ask("rest")
            fault = lab.begin(TimedFault(name="no-descriptors", at_seconds=0.0, lasts_seconds=1.0))
            lab.begin(TimedFault(name="cut", at_seconds=0.0))
            writer.churn()
            is_out = poll(
                lambda: OUT_OF_DESCRIPTORS in program.ask("status"), timeout_seconds=100.0
            )
            lab.end(fault)
            for number in range(FEW):
                writer.replace(f"later-{number}")
            program.ask("rest")
            process.communicate(timeout=100)
    verdict = check_history(list(read_history(settings.history)))

    assert process.returncode == 0
    assert verdict.holds, str(verdict)
    assert is_out
    assert verdict.excused == (), "nothing is excused: the server does not lie"
    assert "audited" not in verdict.records, "it converges without an audit"
    assert verdict.records["fault"] == 3
    assert verdict.records["resources"] == 2, "its sockets, tasks and memory are compared"
    assert verdict.records["handled"] > LATER
    assert "bug" not in (tmp_path / "log").read_text()


def _settings(
    server: KubeAPIServer,
    proxy: FaultProxy,
    writer: Writer,
    folder: Path,
    *,
    starts_without: bool,
) -> Settings:
    token_file = folder / "token"
    token_file.write_text(proxy.token or "")
    return Settings(
        server=proxy.url,
        ca_file=str(proxy.ca_file),
        token_file=str(token_file),
        etcd_url=server.etcd_url,
        namespace=writer.namespace,
        history=str(folder / "history.jsonl"),
        log=str(folder / "log"),
        starts_without=starts_without,
    )
