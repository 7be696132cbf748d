"""Where the kube-apiserver is searched, when it is built, and the errors if it is missing.

The Go of these tests is a shell script that records its calls: the decisions and the file handling
are under test. `make test-real` does the real build.
"""

from __future__ import annotations

import hashlib
import pickle
import platform
import re
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pyinformer.errors import KubeAPIServerError, KubeAPIServerNotFoundError
from pyinformer.testing import kube_apiserver
from pyinformer.testing.kube_apiserver import find_go, find_or_build, user_cache_folder
from pyinformer.testing.kube_apiserver._build import KubeBinaries, build_binaries, find_binaries

_FAKE_GO = """\
#!/bin/sh
if [ "$1" = env ]; then echo {version}; exit 0; fi
echo "$*" >> {calls}
echo "go: downloading example.com/module v1.0.0"
echo "example.com/module"
output=
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then output=$2; fi
  shift
done
test -s go.mod && test -s go.sum || exit 3
if [ -n "{fails_on}" ] && [ "$(basename "$output")" = "{fails_on}" ]; then
  echo "no space left on device"; exit 1
fi
printf '#!/bin/sh\\n' > "$output"
chmod +x "$output"
"""


def _executable(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def _pair(folder: Path) -> KubeBinaries:
    return KubeBinaries(
        kube_apiserver=_executable(folder / "kube-apiserver"), etcd=_executable(folder / "etcd")
    )


@pytest.fixture
def install_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Return a function that installs a fake Go in PATH and returns the file of its calls."""

    def install(*, version: str = "go1.26.3", fails_on: str = "") -> Path:
        calls = tmp_path / "go-calls"
        text = _FAKE_GO.format(version=version, calls=calls, fails_on=fails_on)
        go = _executable(tmp_path / "toolchain" / "go", text)
        monkeypatch.setenv("PATH", f"{go.parent}:/usr/bin:/bin")
        return calls

    return install


def test_kubebuilder_assets_come_before_the_cached_build(
    tmp_path: Path, install_go: Callable[..., Path]
) -> None:
    install_go()
    build_binaries(cache_folder=tmp_path / "cache")
    assets = _pair(tmp_path / "assets")

    found = find_binaries(
        environ={"KUBEBUILDER_ASSETS": str(tmp_path / "assets")}, cache_folder=tmp_path / "cache"
    )

    assert found == assets
    assert found.etcdutl is None


def test_kubebuilder_assets_without_the_programs_are_an_error_and_not_passed_over(
    tmp_path: Path,
) -> None:
    (tmp_path / "assets").mkdir()
    _executable(tmp_path / "assets" / "etcd")

    with pytest.raises(KubeAPIServerNotFoundError, match="KUBEBUILDER_ASSETS is") as raised:
        find_binaries(
            environ={"KUBEBUILDER_ASSETS": str(tmp_path / "assets")},
            cache_folder=tmp_path / "cache",
        )

    assert "kube-apiserver and etcd" in str(raised.value)


def test_an_empty_kubebuilder_assets_counts_as_unset(tmp_path: Path) -> None:
    assert find_binaries(environ={"KUBEBUILDER_ASSETS": ""}, cache_folder=tmp_path) is None


def test_a_file_that_is_not_executable_is_not_a_program(tmp_path: Path) -> None:
    _pair(tmp_path).etcd.chmod(0o600)

    with pytest.raises(KubeAPIServerNotFoundError):
        find_binaries(environ={"KUBEBUILDER_ASSETS": str(tmp_path)}, cache_folder=tmp_path)


def test_nothing_is_built_unless_asked(tmp_path: Path, install_go: Callable[..., Path]) -> None:
    calls = install_go()

    with pytest.raises(KubeAPIServerNotFoundError):
        find_or_build(build=False, environ={}, cache_folder=tmp_path / "cache")

    assert not calls.exists()
    assert not (tmp_path / "cache").exists()


def test_the_error_for_a_missing_build_names_the_cure(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        find_or_build(build=False, environ={}, cache_folder=tmp_path)

    text = str(raised.value)
    for remedy in (
        "KUBEBUILDER_ASSETS",
        "build=True",
        "pyinformer serve --real --build",
        "--pyinformer-build-kube-apiserver",
        "pip install 'pyinformer[kube-apiserver]'",
        str(tmp_path),
    ):
        assert remedy in text
    assert str(pickle.loads(pickle.dumps(raised.value))) == text  # noqa: S301 - our own


def test_a_build_makes_all_programs_and_a_second_one_is_not_needed(
    tmp_path: Path, install_go: Callable[..., Path]
) -> None:
    calls = install_go()
    lines: list[str] = []

    built = find_or_build(build=True, environ={}, cache_folder=tmp_path, progress=lines.append)
    again = find_or_build(build=True, environ={}, cache_folder=tmp_path)

    assert again == built
    assert (built.etcd.name, built.kube_apiserver.name) == ("etcd", "kube-apiserver")
    packages = [line.split()[-1] for line in calls.read_text().splitlines()]
    assert packages == [
        "go.etcd.io/etcd/server/v3",
        "go.etcd.io/etcd/etcdutl/v3",
        "k8s.io/kubernetes/cmd/kube-apiserver",
    ]
    assert built.etcdutl == built.etcd.parent / "etcdutl"
    assert any("building etcd" in line for line in lines)
    assert lines[-1] == f"built: {built.etcd.parent}"


def test_the_server_is_built_with_the_version_of_its_module(
    tmp_path: Path, install_go: Callable[..., Path]
) -> None:
    calls = install_go()
    build_binaries(cache_folder=tmp_path)
    module = Path(kube_apiserver.__file__).with_name("go.mod")
    (version,) = re.findall(r"k8s\.io/kubernetes (v\S+)", module.read_text())

    assert f"-X k8s.io/component-base/version.gitVersion={version} " in calls.read_text()


def test_a_failed_build_leaves_nothing_and_shows_the_last_lines(
    tmp_path: Path, install_go: Callable[..., Path]
) -> None:
    install_go(fails_on="kube-apiserver")

    with pytest.raises(KubeAPIServerError, match="no space left on device"):
        build_binaries(cache_folder=tmp_path / "cache")

    assert find_binaries(environ={}, cache_folder=tmp_path / "cache") is None
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] in ([], [".lock"])


def test_an_incomplete_folder_in_the_cache_is_built_again(
    tmp_path: Path, install_go: Callable[..., Path]
) -> None:
    install_go()
    built = build_binaries(cache_folder=tmp_path / "cache")
    built.etcd.unlink()

    assert find_binaries(environ={}, cache_folder=tmp_path / "cache") is None
    assert build_binaries(cache_folder=tmp_path / "cache") == built
    assert built.etcd.exists()


def test_two_builds_at_once_build_once(tmp_path: Path, install_go: Callable[..., Path]) -> None:
    calls = install_go()
    built: list[KubeBinaries] = []
    threads = [
        threading.Thread(target=lambda: built.append(build_binaries(cache_folder=tmp_path)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert len(built) == 3
    assert len(set(built)) == 1
    assert len(calls.read_text().splitlines()) == 3


def test_a_long_build_reports_its_progress(
    tmp_path: Path, install_go: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go()
    go = tmp_path / "toolchain" / "go"
    go.write_text(
        go.read_text().replace('echo "example.com/module"', "seq 1 250 | sed s,^,example.com/,")
    )
    lines: list[str] = []

    build_binaries(cache_folder=tmp_path / "cache", progress=lines.append)

    assert "etcd: 1 modules fetched, 199 packages compiled" in lines


def test_a_go_that_is_too_old_is_refused_with_its_version(
    tmp_path: Path, install_go: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(version="go1.21.6")
    monkeypatch.setattr("importlib.metadata.files", lambda name: None)

    with pytest.raises(KubeAPIServerError, match=r"needs Go 1\.26 or newer .*go is 1\.21"):
        find_go()


def test_no_go_at_all_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.files", lambda name: None)

    with pytest.raises(KubeAPIServerError, match=r"none was found.*pyinformer\[kube-apiserver\]"):
        find_go(search_path=str(tmp_path))


def test_a_go_in_path_is_found(tmp_path: Path, install_go: Callable[..., Path]) -> None:
    install_go(version="go1.27.0")

    assert find_go() == tmp_path / "toolchain" / "go"


def test_the_folder_is_named_by_versions_and_platform(
    tmp_path: Path, install_go: Callable[..., Path]
) -> None:
    """After an upgrade of go.mod, with other flags or a shared home, no wrong program is found."""
    calls = install_go()
    folder = build_binaries(cache_folder=tmp_path / "cache").etcd.parent
    shipped = Path(kube_apiserver.__file__).parent
    content = (shipped / "go.mod").read_bytes() + (shipped / "go.sum").read_bytes()
    flags = calls.read_text().splitlines()[0].partition("-ldflags ")[2].partition(" -o ")[0]
    content += flags.encode()

    digest = hashlib.sha256(content).hexdigest()[:16]
    assert folder.name == f"{digest}-{sys.platform}-{platform.machine()}"


@pytest.mark.parametrize(
    ("home", "cache", "expected"),
    [
        pytest.param("/home/u", "/elsewhere", "/elsewhere/pyinformer/kube-apiserver", id="xdg"),
        pytest.param("/home/u", "", "/home/u/.cache/pyinformer/kube-apiserver", id="home"),
    ],
)
def test_the_cache_is_the_users(
    home: str, cache: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", home)
    monkeypatch.setenv("XDG_CACHE_HOME", cache)

    assert user_cache_folder() == Path(expected)
