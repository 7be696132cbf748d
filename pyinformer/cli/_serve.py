"""`pyinformer serve`: an API server to play with, until Ctrl-C.

In go the choice of the server and where its kubeconfig shall be; out come lines that say how to use
it. At the end the server, its data and the kubeconfig are gone.
"""

from __future__ import annotations

import contextlib
import shlex
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pyinformer.apimachinery import InformerError

if TYPE_CHECKING:
    from pyinformer.testing import APIServer, KubeAPIServer


def serve(
    *, real: bool, build: bool, port: int, kubeconfig_path: Path | None, output: TextIO
) -> int:
    """Run a server until Ctrl-C or SIGTERM. Call it in the main thread.

    Args:
        real: a real kube-apiserver with etcd, else the embedded server.
        build: whether the real one may be built first, which takes minutes.
        port: where to listen on 127.0.0.1; 0 is any free port.
        kubeconfig_path: where to write the kubeconfig; it must not exist, so that nobody's own is
            lost. None is a temporary file.
        output: takes the lines for the user.

    Returns:
        The exit status: 0 after Ctrl-C, 1 if the server could not be started.

    Raises:
        BrokenPipeError: nobody reads the output any more; the server was stopped.
    """

    def say(line: str) -> None:
        print(line, file=output, flush=True)

    if kubeconfig_path is not None and kubeconfig_path.exists():
        say(f"{kubeconfig_path} exists and is not overwritten: remove it, or name another file")
        return 1
    try:
        with _ended_by_sigterm(), tempfile.TemporaryDirectory(prefix="pyinformer-serve-") as folder:
            path = kubeconfig_path or Path(folder) / "kubeconfig"
            server = _server(real=real, build=build, port=port, say=say)
            _serve_until_interrupted(server, path, say)
    except KeyboardInterrupt:
        say("stopped")
    except BrokenPipeError:
        raise  # nobody could read that it stopped
    except (InformerError, OSError) as error:
        say(f"cannot serve: {error}")
        return 1
    return 0


def _serve_until_interrupted(
    server: APIServer | KubeAPIServer, kubeconfig: Path, say: Callable[[str], None]
) -> None:
    with server:
        server.write_kubeconfig(kubeconfig)
        try:
            say(f"serving at {server.url}; the kubeconfig is {kubeconfig}")
            say(f"  export KUBECONFIG={shlex.quote(str(kubeconfig.absolute()))}")
            say("  then kubectl, or pyinformer.connect(), finds this server; Ctrl-C stops it")
            threading.Event().wait()
        finally:
            kubeconfig.unlink(missing_ok=True)


def _server(
    *, real: bool, build: bool, port: int, say: Callable[[str], None]
) -> APIServer | KubeAPIServer:
    if real:
        from pyinformer.testing import KubeAPIServer

        return KubeAPIServer(build=build, port=port, progress=say)
    from pyinformer.testing import APIServer

    return APIServer(port=port)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that it cleans up."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
