"""The embedded API server with ConfigMaps, in a process of its own.

What a controller's peers reconcile is the same, whatever language they are written in.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.harness.processes import pin_to_cpu
from pyinformer.testing import APIServer

_VALUE = "x" * 300


def config_map_name(number: int) -> str:
    """Return the name of ConfigMap `number`; all are in namespace default."""
    return f"config-{number:06d}"


@dataclass(frozen=True, slots=True)
class TLSServer:
    """Where a server that speaks TLS is, and the file with its authority."""

    url: str
    ca_file: str


@contextlib.contextmanager
def tls_config_map_server(objects: int, *, cpu: int | None) -> Iterator[TLSServer]:
    """Start the server with TLS; it ends with the block."""
    with _running("--tls", objects=objects, cpu=cpu) as ready:
        yield TLSServer(ready["url"], ready["ca_file"])


@contextlib.contextmanager
def config_map_server(objects: int, *, cpu: int | None) -> Iterator[str]:
    """Start the server; it ends with the block.

    Yields:
        Its URL.
    """
    with _running(objects=objects, cpu=cpu) as ready:
        yield ready["url"]


@contextlib.contextmanager
def _running(*further: str, objects: int, cpu: int | None) -> Iterator[dict[str, str]]:
    command = [sys.executable, "-m", "benchmarks.server.embedded", f"--objects={objects}", *further]
    command += [] if cpu is None else [f"--cpu={cpu}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield json.loads(line)
        finally:
            process.communicate()  # closes its standard input, which ends it


def main() -> None:
    """Fill, serve, and stop when the parent closes our standard input."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server.embedded")
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--cpu", type=int, default=None)
    parser.add_argument("--tls", action="store_true")
    options = parser.parse_args()
    pin_to_cpu(options.cpu)
    with APIServer(tls=options.tls) as server:
        for number in range(options.objects):
            metadata = {"name": config_map_name(number), "namespace": "default"}
            data = {"key": _VALUE}
            server.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            )
        ca_file = str(server.ca_file) if options.tls else ""
        print(json.dumps({"url": server.url, "ca_file": ca_file}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
