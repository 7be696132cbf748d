"""The embedded API server with ConfigMaps of 1 KB; it changes those that its input names.

It prints its URL, and then an empty line whenever all objects of a line of its input are changed.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pyinformer.testing import APIServer

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject

_VALUE = "x" * 600  # with the metadata, 1 KB
NAMESPACE = "default"


def name_of(number: int) -> str:
    """Return the name of an object."""
    return f"config-{number:06d}"


def _config_map(name: str, mark: str) -> JSONObject:
    metadata: JSONObject = {"name": name, "namespace": NAMESPACE}
    data: JSONObject = {"key": _VALUE, "mark": mark}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def main(objects: str) -> None:
    """Serve until the input ends."""
    with APIServer() as server:
        for number in range(int(objects)):
            server.create(_config_map(name_of(number), ""))
        print(server.url, flush=True)
        for mark, line in enumerate(sys.stdin):
            for name in json.loads(line):
                server.update(_config_map(name, str(mark)))
            print(flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
