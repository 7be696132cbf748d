"""The etcd behind a real kube-apiserver: it can be killed, copied, and set back to a copy.

A copy is the data that a crash at that moment would have left on the disk, from which etcd can
start: no acknowledged write is missing.
"""

from __future__ import annotations

import contextlib
import http
import http.client
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import msgspec

from pyinformer.errors import KubeAPIServerError
from pyinformer.objects import JSONObject, decoder_of
from pyinformer.testing._polling import poll
from pyinformer.testing.kube_apiserver._build import KubeBinaries
from pyinformer.testing.kube_apiserver._processes import ProcessGroup, ServerProgram

_QUOTA_BYTES: Final = 8 * 1024**3  # with etcd's default of 2 GiB large tests fail with "no space"
_SETTLE_SECONDS: Final = 30.0  # on an idle machine, etcd replays its log and ends within one second
_TOOL_SECONDS: Final = 120.0  # etcdutl copies the data once
_DATA: Final = "etcd"
_KEY_OF_NOTHING: Final = "AA=="  # base64 of one zero byte
_decode = decoder_of(JSONObject)


@final
@dataclass(frozen=True, slots=True)
class SavedEtcd:
    """A copy of etcd's data; valid until the server that made it stops."""

    folder: Path
    """The folder of the copy, which is never changed."""


@final
class Etcd:
    """One etcd process, with its data in the folder of a process group."""

    def __init__(
        self, binaries: KubeBinaries, group: ProcessGroup, *, port: int, peer_port: int
    ) -> None:
        self.port = port
        self._binaries = binaries
        self._group = group
        self._peer_port = peer_port
        self._data = group.folder / _DATA
        self._saved = 0
        self.program = self._started(self._data)

    def save(self) -> SavedEtcd:
        """Copy the data. Requests wait for some tenths of a second; connections stay open."""
        self._saved += 1
        saved = SavedEtcd(self._group.folder / f"saved-{self._saved}")
        self.program.pause()
        try:
            # Files that end in .tmp are space that etcd reserves for its next log file.
            shutil.copytree(self._data, saved.folder, ignore=shutil.ignore_patterns("*.tmp"))
        finally:
            self.program.resume()
        return saved

    @property
    def url(self) -> str:
        """The address for its clients, and of its JSON gateway."""
        return f"http://127.0.0.1:{self.port}"

    def restart(self) -> None:
        """Kill it, start it again with its data, and wait until it serves."""
        self.program.kill()
        self.program = self._started(self._data)
        self._wait_until_serving("etcd cannot be started again")

    def compact(self) -> int:
        """Forget every revision before the newest; return that one.

        Raises:
            KubeAPIServerError: etcd did not do it.
        """
        newest = self._call("kv/range", {"key": _KEY_OF_NOTHING, "count_only": True})
        revision = int(newest["header"]["revision"])
        with contextlib.suppress(KubeAPIServerError):  # it has been compacted there already
            self._call("kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def _call(self, method: str, body: JSONObject) -> JSONObject:
        """Call the JSON gateway."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_SETTLE_SECONDS)
        try:
            connection.request("POST", f"/v3/{method}", msgspec.json.encode(body))
            answer = connection.getresponse()
            text = answer.read()
        except OSError as error:
            raise KubeAPIServerError(f"etcd {method} failed", str(error)) from error
        finally:
            connection.close()
        if answer.status != http.HTTPStatus.OK:
            raise KubeAPIServerError(f"etcd {method} failed", text.decode(errors="replace"))
        return _decode(text)

    def _wait_until_serving(self, failed: str) -> None:
        program = self.program
        if not poll(lambda: _is_serving(program, self.port), timeout_seconds=_SETTLE_SECONDS):
            raise KubeAPIServerError(failed, program.last_lines())

    def restore(self, saved: SavedEtcd, *, bump_revision: int) -> None:
        """Kill etcd, replace its data by a copy, and start it again."""
        self.program.kill()
        shutil.rmtree(self._data)
        if bump_revision:
            self._restore_with_tool(saved, bump_revision)
        else:
            shutil.copytree(saved.folder, self._data)
        self.program = self._started(self._data)

    def check_tool(self) -> Path:
        """Return the path of etcdutl.

        Raises:
            KubeAPIServerError: etcdutl is not beside the other programs.
        """
        tool = self._binaries.etcdutl
        if tool is None:
            raise KubeAPIServerError(
                "bump_revision needs etcdutl", f"there is none beside {self._binaries.etcd}"
            )
        return tool

    def _restore_with_tool(self, saved: SavedEtcd, bump_revision: int) -> None:
        whole = self._written_out(saved)
        command = [
            str(self.check_tool()),
            "snapshot",
            "restore",
            str(whole / "member" / "snap" / "db"),
            "--skip-hash-check",  # the hash is added by `etcdctl snapshot save`
            f"--data-dir={self._data}",
            f"--bump-revision={bump_revision}",
            "--mark-compacted",
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TOOL_SECONDS
        )
        shutil.rmtree(whole)
        if done.returncode != 0:
            raise KubeAPIServerError("etcdutl snapshot restore failed", done.stderr)

    def _written_out(self, saved: SavedEtcd) -> Path:
        """Copy saved data, and run etcd until its database has all that is in its log.

        etcdutl reads only the database, which lags behind the log by up to a tenth of a second.
        """
        whole = self._group.folder / "whole"
        shutil.copytree(saved.folder, whole)
        program = self._started(whole)
        try:
            if not poll(lambda: _is_serving(program, self.port), timeout_seconds=_SETTLE_SECONDS):
                raise KubeAPIServerError("saved data cannot be used", program.last_lines())
            # It answers before it handles SIGTERM, which would end it with the database unwritten.
            self._call("maintenance/defragment", {})
        finally:
            program.kill()
        return whole

    def _started(self, data: Path) -> ServerProgram:
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._peer_port}"
        command = [
            str(self._binaries.etcd),
            f"--data-dir={data.name}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            "--unsafe-no-fsync",
            f"--quota-backend-bytes={_QUOTA_BYTES}",
            "--log-level=warn",
        ]
        return self._group.spawn("etcd", command)


def _is_serving(program: ServerProgram, port: int) -> bool:
    if not program.is_running:
        raise KubeAPIServerError("etcd ended", program.last_lines())
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SETTLE_SECONDS)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
