"""The package imports, and the command prints its help, without what only POSIX or Linux has.

The program below imports all of it once, so that the libraries that it uses are loaded; then it
hides what Windows lacks, and imports the package again.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyinformer.testing import APIServer

_PROGRAM = """
import importlib, os, pkgutil, select, signal, socket, sys

def import_all():
    import pyinformer
    found = pkgutil.walk_packages(pyinformer.__path__, "pyinformer.", onerror=fail)
    for name in ["pyinformer_command", *(module.name for module in found)]:
        if name != "pyinformer.__main__":
            importlib.import_module(name)

def fail(name):
    raise

import_all()
for name in [name for name in sys.modules if name.partition(".")[0].startswith("pyinformer")]:
    del sys.modules[name]
for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for module, names in {
    os: "fork forkpty getegid geteuid getgid getpgid getuid killpg setsid sysconf uname",
    signal: "SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIGWINCH",
    select: "POLLERR POLLHUP POLLIN POLLNVAL POLLOUT poll",
    socket: "TCP_KEEPCNT TCP_KEEPIDLE TCP_KEEPINTVL TCP_USER_TIMEOUT",
}.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
import_all()
from pyinformer_command import main
for arguments in (["--help"], ["get", "v1/pods", "--server", sys.argv[1]]):
    sys.argv = ["pyinformer", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
"""


def test_the_command_works_without_what_other_systems_lack(apiserver: APIServer) -> None:
    metadata = {"namespace": "default", "name": "the-pod"}
    apiserver.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, apiserver.url],
        capture_output=True,
        text=True,
        check=False,
        timeout=140,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Usage" in ended.stdout
    assert "the-pod" in ended.stdout
