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

from benchmarks.harness.processes import pin_to_cpu
from pyinformer.testing import APIServer

_VALUE = "x" * 300


def config_map_name(number: int) -> str:
    """Return the name of ConfigMap `number`; all are in namespace default."""
    return f"config-{number:06d}"


@contextlib.contextmanager
def config_map_server(objects: int, *, cpu: int | None) -> Iterator[str]:
    """Start the server; it ends with the block.

    Yields:
        Its URL.
    """
    command = [sys.executable, "-m", "benchmarks.server.embedded", f"--objects={objects}"]
    command += [] if cpu is None else [f"--cpu={cpu}"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield str(json.loads(line)["url"])
        finally:
            process.communicate()  # closes its standard input, which ends it


def main() -> None:
    """Fill, serve, and stop when the parent closes our standard input."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.server.embedded")
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--cpu", type=int, default=None)
    options = parser.parse_args()
    pin_to_cpu(options.cpu)
    with APIServer() as server:
        for number in range(options.objects):
            metadata = {"name": config_map_name(number), "namespace": "default"}
            data = {"key": _VALUE}
            server.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            )
        print(json.dumps({"url": server.url}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
