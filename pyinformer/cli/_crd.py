"""`pyinformer crd`: the CustomResourceDefinitions of a program's models, as YAML.

Each argument is `module:name`, where the name is a model or an Operator. The module is imported,
and nothing in it is called.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import yaml

from pyinformer.apimachinery import JSONObject
from pyinformer.cli.output import ReadableDumper
from pyinformer.errors import InformerError, InvalidArgumentError
from pyinformer.operator import Operator, custom_resource_definition


def crd(targets: Sequence[str], *, output: TextIO, errors: TextIO) -> int:
    """Print the definitions of models.

    Args:
        targets: each `module:name`; modules are also looked for in the current folder.
        output: receives the YAML: the documents of all targets, or none.
        errors: receives one line if a target is invalid.

    Returns:
        The exit status.
    """
    try:
        found = [definition for target in targets for definition in _definitions(target)]
    except InformerError as error:
        print(f"cannot print a definition: {error}", file=errors)
        return 1
    yaml.dump_all(
        found, output, ReadableDumper, sort_keys=False, allow_unicode=True, explicit_start=True
    )
    return 0


def _definitions(target: str) -> Iterator[JSONObject]:
    found = _load(target)
    if isinstance(found, Operator):
        definitions = found.custom_resource_definitions()
        if not definitions:
            raise InvalidArgumentError(target, "no reconcile of this operator has a model")
        yield from definitions
    elif isinstance(found, type):
        yield custom_resource_definition(found)
    else:
        raise InvalidArgumentError(
            target, f"must be a model or an Operator, got a {type(found).__name__}"
        )


def _load(target: str) -> object:
    module, colon, name = target.partition(":")
    if not (module and colon and name) or module.startswith("."):
        raise InvalidArgumentError(target, "must be module:name, such as my_operator:Database")
    folder = str(Path.cwd())
    if folder not in sys.path:  # as with `python -m`; an installed command does not search it
        sys.path.insert(0, folder)
    try:
        found: object = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # a module that it imports is missing
        raise InvalidArgumentError(target, f"module {error.name!r} was not found") from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise InvalidArgumentError(target, f"{part!r} was not found in it") from error
    return found
