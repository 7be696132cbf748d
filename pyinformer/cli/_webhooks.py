"""`pyinformer webhooks`: what makes an API server ask the hooks of an operator, as YAML.

The argument is `module:name`, where the name is an Operator. The module is imported, and nothing in
it is called.
"""

from __future__ import annotations

from typing import TextIO

from pyinformer.cli._target import load_operator
from pyinformer.errors import InformerError
from pyinformer.objects import dump_yaml_documents


def webhooks(target: str, *, service_account: str | None, output: TextIO, errors: TextIO) -> int:
    """Print the configurations of an operator's hooks.

    Args:
        target: `module:name` of the Operator.
        service_account: the account of the operator, as `namespace/name`; None for a program
            outside the cluster.
        output: receives the YAML.
        errors: receives one line if an argument is invalid.

    Returns:
        The exit status.
    """
    try:
        found = load_operator(target)
        documents = found.webhook_configurations(service_account=service_account)
    except InformerError as error:
        print(f"cannot print the configurations: {error}", file=errors)
        return 1
    output.write(dump_yaml_documents(documents))
    return 0
