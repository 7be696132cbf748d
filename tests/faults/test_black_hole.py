"""A network that swallows every packet: no reset, no end, nothing. Each stream notices in time."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs import running

PROGRAM = Path(__file__).with_name("black_hole.py")
TRIAL = "ip link add near type veth peer name far && ip route add blackhole 192.0.2.1/32"


def own_network() -> list[str]:
    """Return what starts a program in a network namespace of its own, or skip the test."""
    missing = [tool for tool in ("unshare", "ip") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs Linux with {' and '.join(missing)}")
    said = ""
    for command in (["unshare", "--net"], ["unshare", "--user", "--map-root-user", "--net"]):
        trial = subprocess.run(
            [*command, "sh", "-c", f"ip link set lo up && {TRIAL}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if not trial.returncode:
            return command
        said = trial.stderr.strip()
    pytest.skip(f"needs the right to make network namespaces and veth pairs: {said}")


@pytest.mark.covers("client-go rest: TestReconnectBrokenTCP")
@pytest.mark.real  # its seconds are real ones; it needs no kube-apiserver
@pytest.mark.slow
@pytest.mark.timeout(150)
def test_a_black_hole_is_noticed_within_30_seconds_and_resumed_without_a_list() -> None:
    with running([*own_network(), sys.executable, str(PROGRAM)]) as program:
        told, _ = program.communicate()
    assert not program.returncode
    found = json.loads(told)

    for stream in ("watch", "aiohttp", "informer"):
        seconds, words = found[stream]
        assert seconds < 30, stream
        assert "timed out" in words, stream
    # The network did not say anything: who does not ask, does not learn of it.
    assert found["plain_is_open"]
    assert found["loads"] == 1
