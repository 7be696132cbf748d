"""Definitions in files, as controller-gen, kubectl and `pyinformer crd` write them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pyinformer.errors import DefinitionsNotFoundError, InvalidArgumentError, InvalidTypeError
from pyinformer.objects import JSONObject, YAMLError, load_yaml

API_VERSION: Final = "apiextensions.k8s.io/v1"
PLURAL: Final = "customresourcedefinitions"
_KIND: Final = "CustomResourceDefinition"
_OF_A_SERVER: Final = frozenset(
    {"creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"}
)
_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_between_documents: Final = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)


def definitions_in(*paths: str | Path) -> list[JSONObject]:
    """Read CustomResourceDefinitions from YAML or JSON files: `World([*definitions_in("crds")])`.

    A file may have several documents, or a `List` as `kubectl get crd -o yaml` writes it. Objects
    of other kinds are left out, such as the `kustomization.yaml` of a folder; so is what a server
    has added to a definition: its status, uid and version. One that occurs twice counts as it is in
    the last file.

    Args:
        paths: files, and folders, whose `.yaml`, `.yml` and `.json` files are read in the order of
            their names. Folders in them are not.

    Returns:
        The definitions, in the order of the paths; the caller owns them.

    Raises:
        DefinitionsNotFoundError: a path does not exist, or has no definition.
        InvalidArgumentError: a file cannot be read, or is not YAML.
        InvalidTypeError: a path is neither text nor a Path.

    Source:
        controller-runtime pkg/envtest/crd.go, readCRDs.
    """
    found: dict[str, JSONObject] = {}
    for path in paths:
        if not isinstance(path, str | Path) or not str(path):
            raise InvalidTypeError("paths", f"must be files or folders, got {path!r:.100}")
        definitions = list(_definitions_at(Path(path)))
        for each in definitions:
            found[each["metadata"]["name"]] = each
        if not definitions:
            raise DefinitionsNotFoundError(str(path), "has no CustomResourceDefinition")
    return list(found.values())


def _definitions_at(path: Path) -> Iterator[JSONObject]:
    for file in _files_at(path):
        for document in _documents_of(file):
            kind, version = document.get("kind"), document.get("apiVersion")
            if kind != _KIND or version != API_VERSION:
                continue
            metadata = document.get("metadata")
            if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
                raise InvalidArgumentError("paths", f"{file}: a definition has no metadata.name")
            spec = document.get("spec")
            versions = spec.get("versions") if isinstance(spec, dict) else None
            if not (isinstance(versions, list) and all(isinstance(one, dict) for one in versions)):
                reason = f"{file}: the definition {metadata['name']} has no list of spec.versions"
                raise InvalidArgumentError("paths", reason)
            own = {name: value for name, value in metadata.items() if name not in _OF_A_SERVER}
            rest = {name: value for name, value in document.items() if name != "status"}
            yield {**rest, "metadata": own}


def _files_at(path: Path) -> Sequence[Path]:
    if path.is_dir():
        return sorted(one for one in path.iterdir() if one.suffix in _SUFFIXES and one.is_file())
    if not path.exists():
        raise DefinitionsNotFoundError(str(path), "does not exist")
    return [path]


def _documents_of(file: Path) -> Iterator[JSONObject]:
    try:
        text = file.read_text(encoding="utf-8-sig")
        documents = [load_yaml(part) for part in _between_documents.split(text)]
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise InvalidArgumentError("paths", f"{file} cannot be read: {error}") from error
    for document in documents:
        # `kubectl get crd -o yaml` writes one document of this kind.
        is_list = isinstance(document, dict) and document.get("kind") == "List"
        items = document.get("items") if is_list else [document]
        for one in items if isinstance(items, list) else ():
            if isinstance(one, dict):
                yield one
