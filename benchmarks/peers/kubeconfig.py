"""A kubeconfig file for peers that take nothing else.

It is written as JSON, which every reader of YAML reads; a user with an empty token stands in it
even where there is none to give, since some peers want one.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.harness.phases import Workload

_NAME = "benchmark"


@contextmanager
def kubeconfig(workload: Workload) -> Iterator[Path]:
    """Write the file."""
    cluster = {"server": workload.url}
    if workload.ca_file:
        cluster["certificate-authority"] = workload.ca_file
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": workload.token or "none"}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kubeconfig"
        path.write_text(json.dumps(content))
        yield path
