"""The settings of manifests: the table `tool.pyinformer` of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, Final, final

import msgspec

from pyinformer.errors import InvalidArgumentError

# A DNS label that begins with a letter, and is not another type in YAML.
LABEL: Final = r"^(?!(?:y|n|yes|no|on|off|true|false|null)\Z)[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?\Z"
_IMAGE: Final = r"^[a-z0-9](?:[-\w./:@]*\w)?:[-\w.]+\Z"
_VERSION: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._+]*")
_RELEASE: Final = re.compile(r"[0-9]+(\.[0-9]+){0,2}")
_FILE: Final = "pyproject.toml"
_Label = Annotated[str, msgspec.Meta(pattern=LABEL)]


@final
class ManifestSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the manifests of an operator have beside what its code says."""

    namespace: _Label | None = None
    """The namespace of the Deployment; None for the operator's name."""
    image: Annotated[str, msgspec.Meta(pattern=_IMAGE)] | None = None
    """The image with its tag; None for the operator's name and the version of the project."""
    replicas: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """How many replicas; None for 2 with leader election, and else 1."""
    watch_namespaces: tuple[_Label, ...] = ()
    """The namespaces in which the operator has rights; empty for all."""


def read_settings(folder: Path) -> tuple[ManifestSettings, str]:
    """Return the settings and the version of the project in a folder.

    A folder without pyproject.toml has the defaults, and version 0.1.0. Of a dynamic version the
    installed one counts.

    Raises:
        InvalidArgumentError: the file cannot be parsed, or a setting is invalid; names it. Or the
            version is dynamic, and the project is not installed.
    """
    try:
        document = tomllib.loads((folder / _FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        document = {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(_FILE, f"cannot be parsed: {error}") from error
    given: Any = _table(document, "tool").get("pyinformer", {})
    try:
        settings = msgspec.convert(given, ManifestSettings)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(f"tool.pyinformer in {_FILE}", str(error)) from error
    version = _version_of(_table(document, "project"))
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        reason = f"must be a version such as '0.1.0', got {version!r}"
        raise InvalidArgumentError(f"project.version in {_FILE}", reason)
    return settings, version


def _version_of(project: dict[str, Any]) -> object:
    if "version" not in project.get("dynamic", ()):
        return project.get("version", "0.1.0")
    name = str(project.get("name", ""))
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, ValueError) as error:  # ValueError: without a name
        reason = f"is dynamic, and {name or 'the project'} is not installed here: install it first"
        raise InvalidArgumentError(f"project.version in {_FILE}", reason) from error


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name, {})
    if not isinstance(found, dict):
        raise InvalidArgumentError(f"{name} in {_FILE}", f"must be a table, got {found!r}")
    return found


def semantic_version(version: str) -> str:
    """Return a version as Helm wants it: three numbers, of `1.2.dev3` those of `1.2.0`."""
    found = _RELEASE.match(version)
    numbers = found[0].split(".") if found else []
    return ".".join([*numbers, "0", "0", "0"][:3])
