"""`kopf run` in a process of its own, with each of the options that change what is watched."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from pyinformer.testing import APIServer
from tests.kopf_proofs.outages import (
    PEERINGS,
    make_maps,
    names,
    serve_peering,
)
from tests.kopf_proofs.stages import Stage, unreachable
from tests.kopf_proofs.terminations import Program, kopf_run, running_program
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STAGE = Stage(with_line=True, wait_seconds=100.0)


@pytest.fixture
def api() -> Iterator[APIServer]:
    """A server with one object in each of two namespaces."""
    with APIServer() as running:
        for namespace in ("shop", "bank"):
            running.ensure_namespace(namespace)
            make_maps(running, [f"in-{namespace}"], namespace=namespace)
        serve_peering(running)
        yield running


def end(program: Program) -> None:
    """Stop a program, and check that it ends in order."""
    outcome = program.terminate()
    assert outcome.is_right, (str(outcome), program.lines)
    assert any("run on pyinformer" in line for line in program.lines)


def seen(program: Program) -> set[str]:
    """Return the names of the objects of two namespaces that handlers were called for."""
    return {name for name in ("in-shop", "in-bank") if program.has_printed(f"seen {name}")}


@pytest.mark.parametrize("as_module", [False, True], ids=["file", "-m"])
def test_all_namespaces(api: APIServer, *, as_module: bool) -> None:
    with kopf_run(api, STAGE, "-A", "--standalone", as_module=as_module) as program:
        program.wait_for("seen in-shop")
        program.wait_for("seen in-bank")
        with unreachable(api):
            api.delete("v1", "configmaps", "in-bank", "bank")
            api.compact()
        program.wait_for("gone in-bank")
        end(program)
    lists = [one.path for one in api.requests if one.resource == "configmaps"]
    assert set(lists) == {"/api/v1/configmaps"}


def test_a_foreign_program_gets_the_line_from_a_file_of_its_own(
    api: APIServer, tmp_path: Path
) -> None:
    line = tmp_path / "line.py"
    line.write_text("import pyinformer.kopf\n\npyinformer.kopf.install()\n", encoding="utf-8")
    stage = Stage(with_line=False, wait_seconds=100.0)
    with kopf_run(api, stage, "-A", "--standalone", str(line), as_module=True) as program:
        program.wait_for("seen in-shop")
        end(program)


def test_chosen_namespaces(api: APIServer) -> None:
    with kopf_run(api, STAGE, "-n", "shop", "--standalone") as program:
        program.wait_for("seen in-shop")
        make_maps(api, ["later"], namespace="shop")
        program.wait_for("seen later")
        end(program)
    assert seen(program) == {"in-shop"}
    lists = [one.path for one in api.requests if one.resource == "configmaps"]
    assert set(lists) == {"/api/v1/namespaces/shop/configmaps"}


def test_standalone_ignores_peerings(api: APIServer) -> None:
    with kopf_run(api, STAGE, "-A", "--standalone") as program:
        program.wait_for("seen in-shop")
        end(program)
    assert not [one for one in api.requests if one.resource == f"{PEERINGS[1]}.kopf.dev"]


def test_peers_see_each_other_and_the_lower_one_pauses(api: APIServer) -> None:
    with kopf_run(api, STAGE, "-A", "--peering", "default", "--priority", "1") as low:
        low.wait_for("seen in-shop")
        with kopf_run(api, STAGE, "-A", "--peering", "default", "--priority", "9") as high:
            low.wait_for("Pausing")
            make_maps(api, names("meanwhile", 1))
            high.wait_for("seen meanwhile-0")
            assert not low.has_printed("seen meanwhile-0")
            end(high)
        low.wait_for("seen meanwhile-0")
        end(low)


def test_the_liveness_endpoint_counts_streams(api: APIServer) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}/healthz"

    def health() -> object:
        try:
            with urllib.request.urlopen(url) as response:
                return json.load(response)
        except urllib.error.URLError:
            return None

    healthy = {"pyinformer": {"streams": 2, "synced": 2, "plain": 0}}
    with kopf_run(api, STAGE, "-A", "--standalone", f"--liveness={url}") as program:
        assert poll(lambda: health() == healthy, timeout_seconds=100), (health(), program.lines)
        end(program)


def test_two_operators_of_two_clusters_share_one_settings_object(api: APIServer) -> None:
    module = "tests.kopf_proofs.programs.two_operators"
    with (
        APIServer() as other,
        running_program("-m", module, SERVER=api.url, OTHER_SERVER=other.url) as program,
    ):
        program.wait_for("first seen in-shop")
        make_maps(other, ["elsewhere"])
        program.wait_for("second seen elsewhere")
        with unreachable(other):
            other.delete("v1", "configmaps", "elsewhere")
            other.compact()
        program.wait_for("second gone elsewhere")
        make_maps(api, ["here"])
        program.wait_for("first seen here")
        end(program)
    assert not program.has_printed("first seen elsewhere")
    assert not program.has_printed("second seen in-shop")
