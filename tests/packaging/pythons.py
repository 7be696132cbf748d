"""Test the wheel on every other interpreter that is installed, and with other versions.

    python -m tests.packaging.pythons            # each Python from 3.11 but the one that runs this
    python -m tests.packaging.pythons --lowest   # the lower bounds of pyproject.toml, on the oldest
    python -m tests.packaging.pythons --newest   # the newest versions of today, on the newest

The tests that depend on the interpreter or on a dependency run from a copy of the source
distribution, which has no package in it: they import the wheel. All tests on the interpreter that
runs this are `make test`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import time
from pathlib import Path

from tests.packaging.environments import (
    BUILD,
    PACKAGES,
    ROOT,
    Environment,
    build,
    interpreters,
    run,
    say,
    show,
    uv,
)

_EXTRAS = (
    "cli",
    "testing",
    "pydantic",
    "compact",
    "kopf",
    "prometheus",
    "opentelemetry",
    "webhooks",
    "uvloop",
)
_TEST_GROUP = ("--group", f"{ROOT / 'pyproject.toml'}:test")
_DEPENDENCIES = (
    "kubernetes-asyncio",
    "anyio",
    "aiohttp",
    "httptools",
    "aiohappyeyeballs",
    "msgspec",
    "typing-extensions",
    "pydantic",
    "zstandard",
    "typer",
    "rich",
    "uvloop",
    "opentelemetry-api",
    "kopf",
    "pytest",
    "pytest-asyncio",
)

# Each has something of its own that depends on an interpreter or on a dependency: decoding and
# immutability (msgspec), threads and signals, event loops, sockets (aiohttp, httptools,
# aiohappyeyeballs), credentials (kubernetes_asyncio), models (pydantic), compressed bodies
# (zstandard, compression.zstd), tables (rich).
_TESTS = (
    "tests/objects/test_codec.py",
    "tests/objects/test_compact.py",
    "tests/objects/test_errors.py",
    "tests/objects/test_models.py",
    "tests/objects/test_object.py",
    "tests/objects/test_view.py",
    "tests/objects/test_zstd.py",
    "tests/cache/audit/test_copy_on_read.py",
    "tests/blocking",
    "tests/cli/test_commands.py",
    "tests/client/cluster/test_objects.py",
    "tests/cache/informer/test_event_stream.py",
    "tests/cache/informer/test_shared_informer.py",
    "tests/operator/test_operator.py",
    "tests/operator/test_schema.py",
    "tests/cache/store/test_store_threads.py",
    "tests/runtime",
    "tests/client/transport/test_config.py",
    "tests/client/transport/test_exec.py",
    "tests/client/transport/test_http.py",
    "tests/client/transport/test_kubeconfig.py",
    "tests/client/transport/test_tls.py",
    "tests/client/transport/test_watch_http.py",
)

# The line under the oldest kopf; without what only later ones have.
_LOWEST_TESTS = (
    "tests/kopf/test_delivery.py",
    "tests/kopf/test_installation.py",
    "tests/kopf/test_operators.py",
    "tests/kopf/test_requests.py",
    "tests/kopf/test_stream.py",
    "tests/kopf/test_vaults.py",
)
_END_OF_ANOTHER = "test_the_end_of_one_operator_does_not_stop_the_streams_of_another"
_OF_LATER_KOPF = (
    # This kopf raises the error of such a connection; later ones take it for an expired login.
    "tests/kopf/test_vaults.py::test_data_after_the_end_of_tls_makes_kopf_log_in_again",
    # This kopf has no `settings.watching.label_selectors`, whose change makes a younger reflector;
    # the case of a younger watch runs.
    f"tests/kopf/test_operators.py::{_END_OF_ANOTHER}[reflector]",
    # It may meet its own closed session before the error that ended it, and raises that.
    "tests/kopf/test_operators.py::test_with_strict_such_an_operator_does_not_start",
    # This kopf repeats no 403.
    "tests/kopf/test_requests.py::test_a_later_fetch_is_repeated_but_for_missing_rights",
    # As above: there are no selectors to change.
    "tests/kopf/test_stream.py::test_new_selectors_are_used_at_the_next_request",
)

# What new versions of dependencies break without a change here: plugins of pytest, and kopf.
_NEWEST_TESTS = (
    "tests/cli/test_init.py::test_the_tests_of_a_project_pass",
    "tests/kopf/test_installation.py",
    "tests/kopf/test_stream.py",
    "tests/testing/test_pytest_plugin.py",
)


def unpacked(sdist: Path) -> Path:
    """Return a copy of the source distribution without the packages themselves."""
    folder = BUILD / "source"
    shutil.rmtree(folder, ignore_errors=True)
    with tarfile.open(sdist) as archive:
        archive.extractall(BUILD, filter="data")
    (BUILD / sdist.name.removesuffix(".tar.gz")).rename(folder)
    for package in PACKAGES:
        shutil.rmtree(folder / package, ignore_errors=True)
    return folder


def check(
    environment: Environment,
    source: Path,
    more: tuple[str, ...] = (),
    deselected: tuple[str, ...] = (),
) -> None:
    """Run the tests, and more of them, in an environment, on the wheel that is installed there."""
    where = run(
        environment.python, "-c", "import pyinformer; print(pyinformer.__file__)", cwd=source
    )
    if str(environment.folder) not in where:
        raise SystemExit(f"the tests would import {where} instead of the wheel")
    say(environment.versions(*_DEPENDENCIES))
    arguments = os.environ.get("PYTEST_ARGS", "").split()
    without = [f"--deselect={test}" for test in deselected]
    without += ["-W", "ignore:pythonjsonlogger.jsonlogger"]  # which an older kopf imports
    parallel = ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
    quiet = ("-q", "-m", "not real and not slow", "-p", "no:cacheprovider")
    tests = arguments or (*_TESTS, *more, *without)
    # Else each of the three would compile the tests, and the packages that they import.
    run(environment.python, "-m", "pytest", "--collect-only", "-q", *quiet, *tests, cwd=source)
    said = run(environment.python, "-m", "pytest", *quiet, *parallel, *tests, cwd=source)
    show(said.splitlines()[-1])


def _with_extras(wheel: Path) -> str:
    return f"pyinformer[{','.join(_EXTRAS)}] @ {wheel.as_uri()}"


def on_each_python(wheel: Path, source: Path) -> None:
    """Test the wheel on each interpreter but this one, unless PYTHONS names it."""
    found = interpreters()
    if not os.environ.get("PYTHONS"):
        found.pop(f"3.{sys.version_info.minor}", None)
    for version, python in found.items():
        began = time.perf_counter()
        environment = Environment(f"python{version}", python)
        environment.install("-c", ROOT / "constraints.txt", _with_extras(wheel), *_TEST_GROUP)
        say(f"Python {version}: the wheel is installed")
        check(environment, source)
        say(f"Python {version} took {time.perf_counter() - began:.0f} s")


def with_lowest(wheel: Path, source: Path) -> None:
    """Test the wheel with the lowest versions of what it names itself, on the oldest Python."""
    python = next(iter(interpreters().values()), sys.executable)
    environment = Environment("lowest", python)
    held = BUILD / "lowest.txt"
    held.unlink(missing_ok=True)  # uv prefers what such a file says
    extras = [part for extra in _EXTRAS for part in ("--extra", extra)]
    where = ("--python", environment.python, "--output-file", held)
    direct = ("--quiet", "--no-header", "--resolution", "lowest-direct")
    uv("pip", "compile", *direct, *extras, *where, ROOT / "pyproject.toml")
    environment.install("-c", held, _with_extras(wheel))
    environment.install("-c", held, *_TEST_GROUP)
    check(environment, source, _LOWEST_TESTS, _OF_LATER_KOPF)


def with_newest(wheel: Path, source: Path) -> None:
    """Test the wheel with the newest versions that there are today, on the newest Python."""
    found = list(interpreters().values()) or [sys.executable]
    environment = Environment("newest", found[-1])
    environment.install("--upgrade", _with_extras(wheel), *_TEST_GROUP)
    check(environment, source, _NEWEST_TESTS)


def main() -> None:
    """Build, and test what the arguments say."""
    sdist, wheel = build()
    source = unpacked(sdist)
    if "--lowest" in sys.argv[1:]:
        with_lowest(wheel, source)
    elif "--newest" in sys.argv[1:]:
        with_newest(wheel, source)
    else:
        on_each_python(wheel, source)


if __name__ == "__main__":
    main()
