"""The way of both programs to the server, whose address they get as JSON."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pyinformer
from pyinformer.client import WriteOptions
from pyinformer.client.transport import ClusterConfig, StaticCredentials


def connected(server: dict[str, str]) -> AbstractAsyncContextManager[pyinformer.Cluster]:
    """Connect to the server with its `url`, the `token`, and the path of the `ca_file`.

    Nothing bounds the rate of writes but the load itself.
    """
    config = ClusterConfig(
        server=server["url"],
        ca_file=server["ca_file"],
        credentials=StaticCredentials.bearer(server["token"]),
    )
    return pyinformer.connect(config=config, write_options=WriteOptions(writes_per_second=None))
