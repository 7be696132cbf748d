"""`pyinformer init`: a new project of an operator, whole or not at all.

It is written into a temporary folder beside its place, which is renamed at the end.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TextIO

from pyinformer.cli._exit_status import FAILED, OK
from pyinformer.cli.project._manifest_settings import read_settings
from pyinformer.cli.project._manifests import manifests_of
from pyinformer.cli.project._manifests_command import replace
from pyinformer.cli.project._names import ProjectNames
from pyinformer.cli.project._templates import render
from pyinformer.operator import Operator

_FILES: Final = {
    ".dockerignore": "dockerignore",
    ".github/workflows/ci.yml": "ci.yml",
    ".gitignore": "gitignore",
    "Dockerfile": "Dockerfile",
    "README.md": "README.md",
    "%{package}/__init__.py": "package_init.py",
    "%{package}/__main__.py": "main.py",
    "%{package}/model.py": "model.py",
    "%{package}/operator.py": "operator.py",
    "pyproject.toml": "pyproject.toml",
    "tests/test_operator.py": "test_operator.py",
}
_WITHOUT_WEBHOOKS: Final[dict[str, object]] = {
    **dict.fromkeys(
        (
            *("old_spec", "old_model", "versions", "import_os", "reached", "hooks"),
            *("imported_models", "running", "hook_tests", "extra", "hypothesis"),
            "webhooks_chapter",
        ),
        "",
    ),
    "testing_names": "APIServer, Connector, World",
}
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]*")


def init_project(
    names: ProjectNames,
    directory: Path,
    *,
    replicas: int,
    webhooks: bool,
    output: TextIO,
    errors: TextIO,
) -> int:
    """Write a project.

    Args:
        names: its names.
        directory: the new folder, which must not exist.
        replicas: how many replicas run; several need leader election, which the program then has.
        webhooks: whether it has hooks, and an older version that is converted.
        output: receives what to do next.
        errors: receives one line if the folder cannot be made.

    Returns:
        The exit status.
    """
    if _exists(directory, errors):
        return FAILED
    try:
        with tempfile.TemporaryDirectory(
            prefix=f".{directory.name}-", dir=directory.parent
        ) as temporary:
            folder = Path(temporary, "project")
            _write(folder, names, replicas, webhooks=webhooks)
            folder.rename(directory)
    except OSError as error:
        if not _exists(directory, errors):  # another init was faster
            print(f"cannot create {directory}: {error.strerror or error}", file=errors)
        return FAILED
    print(render("next_steps", directory=directory, package=names.package), end="", file=output)
    return OK


def _exists(directory: Path, errors: TextIO) -> bool:
    """Return whether a folder exists, and print what to do then."""
    if not (directory.exists() or directory.is_symlink()):
        return False
    cure = "remove it, or give --directory another one"
    print(f"{directory} exists and is not changed: {cure}", file=errors)
    return True


def _write(folder: Path, names: ProjectNames, replicas: int, *, webhooks: bool) -> None:
    values: dict[str, object] = {
        "name": names.name,
        "package": names.package,
        "group": names.group,
        "version": names.version,
        "kind": names.kind,
        "plural": names.plural,
        "variable": names.variable,
        "replicas": replicas,
        "operator_arguments": _operator_arguments(names.name, replicas, webhooks=webhooks),
        "pyinformer_version": importlib.metadata.version("pyinformer"),
    }
    values |= {**_WITHOUT_WEBHOOKS, "models": _lines(*_models(names.kind))}
    if webhooks:
        values |= _of_webhooks(names, values)
    for path, template in _FILES.items():
        replace(folder / path.replace("%{package}", names.package), render(template, **values))
    packages = ("pyinformer", *(("cryptography",) if webhooks else ()))
    found: dict[str, str] = {}
    for package in packages:
        _installed(package, found)
    pinned = sorted(found.items())
    lines = "".join(f"{name}=={version}\n" for name, version in pinned)
    replace(folder / "constraints.txt", lines)
    for path, text in manifests_of(_load(folder, names.package), *read_settings(folder)).items():
        replace(folder / path, text)


def _operator_arguments(name: str, replicas: int, *, webhooks: bool) -> str:
    given = [f'"{name}"']
    if replicas > 1:
        given.append("leader_election=pyinformer.LeaderElection()")
    if webhooks:
        given.append("webhooks=reached()")
    return given[0] if len(given) == 1 else "".join(f"\n    {one}," for one in given) + "\n"


def _models(kind: str) -> tuple[str, str, str]:
    return kind, f"{kind}Spec", f"{kind}Status"


def _lines(*names: str) -> str:
    """Return names for an import, as ruff sorts them."""
    return "".join(f"    {name},\n" for name in sorted(names))


def _of_webhooks(names: ProjectNames, values: dict[str, object]) -> dict[str, object]:
    """Return what templates have in a project with webhooks."""
    values = {**values, "old_version": names.old_version}
    old = f"Old{names.kind}"
    imported = f"from {names.package}.model import (\n{_lines(names.kind, old)})\n"
    return {
        "old_spec": render("old_spec.py", **values),
        "old_model": render("old_model.py", **values),
        "versions": f"\n    versions=[{old}],",
        "import_os": "import os\n",
        "models": _lines(*_models(names.kind), old, f"{old}Spec"),
        "reached": render("reached.py", **values),
        "hooks": render("hooks.py", **values),
        "testing_names": "APIServer, Connector, World, assert_lossless, review",
        "imported_models": imported,
        "running": ", serves_webhooks=False",
        "hook_tests": render("hook_tests.py", **values),
        "extra": "[webhooks]",
        "hypothesis": '  "hypothesis>=6.140",\n',
        "webhooks_chapter": render("webhooks_chapter.md", **values),
    }


def _installed(name: str, found: dict[str, str]) -> dict[str, str]:
    """Return the installed versions of a package and of all that it requires without extras."""
    canonical = re.sub(r"[-_.]+", "-", name).lower()
    if canonical in found:
        return found
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:  # required on other platforms only
        return found
    found[canonical] = distribution.version
    for requirement in distribution.requires or ():
        match = _REQUIREMENT.match(requirement)
        if match and "extra ==" not in requirement:
            _installed(match[0], found)
    return found


def _load(folder: Path, package: str) -> Operator:
    """Import the operator of a new project, and forget its modules."""
    with _importable(folder):
        try:
            app: Operator = importlib.import_module(f"{package}.operator").app
        finally:
            for name in [*sys.modules]:
                if name.partition(".")[0] == package:
                    del sys.modules[name]
    return app


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Import from a folder first, and write no bytecode into it."""
    writes_none, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = writes_none
