"""`pyinformer crd`: the CustomResourceDefinitions of a program's models, as YAML.

Each argument is `module:name`, where the name is a model or an Operator. The module is imported,
and nothing in it is called.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from pyinformer.cli._target import load_target
from pyinformer.errors import InformerError, InvalidArgumentError
from pyinformer.objects import JSONObject, dump_yaml_documents
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
    output.write(dump_yaml_documents(found))
    for one in found:
        spec = one["spec"]
        if len(spec["versions"]) > 1 and spec.get("conversion", {}).get("strategy") == "None":
            name = one["metadata"]["name"]
            print(
                f"{name}: nothing converts its versions; if an operator does, name it", file=errors
            )
    return 0


def _definitions(target: str) -> Iterator[JSONObject]:
    found = load_target(target)
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
