"""`pyinformer rbac`: the rights that an operator needs, as YAML.

The argument is `module:name`, where the name is an Operator. The module is imported, and nothing in
it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TextIO

from pyinformer.cli._target import load_operator
from pyinformer.errors import InformerError, InvalidArgumentError

_OPTIONS: Final = {"name": "--name", "service_account": "--service-account"}


def rbac(
    target: str,
    *,
    namespaces: Sequence[str],
    name: str | None,
    service_account: str | None,
    output: TextIO,
    errors: TextIO,
) -> int:
    """Print the roles of an operator.

    Args:
        target: `module:name` of the Operator.
        namespaces: the namespaces that it follows; empty for all.
        name: the name of all roles and bindings; None for the operator's name.
        service_account: gets the rights, as `namespace/name`; None for roles without bindings.
        output: receives the YAML.
        errors: receives one line if an argument is invalid.

    Returns:
        The exit status.
    """
    try:
        found = load_operator(target)
        text = found.required_rbac(
            namespaces=list(namespaces) or None, name=name, service_account=service_account
        )
    except InvalidArgumentError as error:
        option = _OPTIONS.get(error.argument)
        problem = str(error) if option is None else f"{option}: {error.reason}"
        print(f"cannot print the rights: {problem}", file=errors)
        return 1
    except InformerError as error:
        print(f"cannot print the rights: {error}", file=errors)
        return 1
    output.write(text)
    return 0
