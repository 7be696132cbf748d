"""`pyinformer serve`: an API server for experiments, until Ctrl-C.

At the end the server is stopped, and its data and its kubeconfig are removed.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pyinformer.errors import InformerError

if TYPE_CHECKING:
    from pyinformer.testing import APIServer, KubeAPIServer


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedServer:
    """Which server runs.

    Attributes:
        real: whether it is kube-apiserver with etcd instead of the embedded server.
        build: whether these may be built first, which takes minutes.
        flags: further flags of kube-apiserver.
        tls: whether the embedded server serves HTTPS; the real one always does.
        rbac: whether the embedded server evaluates roles, over HTTPS; the real one always does.
        port: the port on 127.0.0.1; 0 for any free port.
        definitions: files and folders of CustomResourceDefinitions that it serves.
    """

    real: bool = False
    build: bool = False
    flags: Sequence[str] = ()
    tls: bool = False
    rbac: bool = False
    port: int = 0
    definitions: Sequence[Path] = ()

    def create(self, say: Callable[[str], None]) -> APIServer | KubeAPIServer:
        """Return the server, not started; `say` receives the progress of a build."""
        if self.real:
            from pyinformer.testing import KubeAPIServer

            return KubeAPIServer(
                build=self.build, port=self.port, extra_args=self.flags, progress=say
            )
        from pyinformer.testing import APIServer

        # Clients do not send a token over plain HTTP.
        return APIServer(
            port=self.port,
            tls=self.tls or self.rbac,
            rbac=self.rbac,
            # With the uids of the last run, its followers would take new objects for old ones.
            seed=secrets.randbits(32),
        )


def serve(wanted: ServedServer, *, kubeconfig_path: Path | None, output: TextIO) -> int:
    """Run a server until Ctrl-C or SIGTERM. Call it in the main thread.

    Args:
        wanted: the server.
        kubeconfig_path: where to write the kubeconfig. The file must not exist, so that an existing
            kubeconfig is never overwritten. None for a temporary file.
        output: receives the lines for the user.

    Returns:
        The exit status: 0 after Ctrl-C, 1 if the server could not be started.

    Raises:
        BrokenPipeError: the output was closed; the server is stopped.
    """

    def say(line: str) -> None:
        print(line, file=output, flush=True)

    if kubeconfig_path is not None and kubeconfig_path.exists():
        say(f"{kubeconfig_path} exists and is not overwritten: remove it, or name another file")
        return 1
    try:
        with _ended_by_sigterm(), tempfile.TemporaryDirectory(prefix="pyinformer-serve-") as folder:
            path = kubeconfig_path or Path(folder) / "kubeconfig"
            _serve_until_interrupted(wanted.create(say), path, wanted.definitions, say)
    except KeyboardInterrupt:
        say("stopped")
    except BrokenPipeError:
        raise  # the output is closed: nothing can be printed
    except (InformerError, OSError) as error:
        say(f"cannot serve: {error}")
        return 1
    return 0


def _serve_until_interrupted(
    server: APIServer | KubeAPIServer,
    kubeconfig: Path,
    definitions: Sequence[Path],
    say: Callable[[str], None],
) -> None:
    with server:
        served = server.install_definitions(*definitions)
        server.write_kubeconfig(kubeconfig)
        try:
            say(f"serving at {server.url}; the kubeconfig is {kubeconfig}")
            say(f"  export KUBECONFIG={shlex.quote(str(kubeconfig.absolute()))}")
            if served:
                say(f"  with {', '.join(served)}")
            say("  then kubectl and pyinformer.connect() use this server; Ctrl-C stops it")
            threading.Event().wait()
        finally:
            kubeconfig.unlink(missing_ok=True)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Make SIGTERM raise KeyboardInterrupt in the block, so that it cleans up as after Ctrl-C."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
