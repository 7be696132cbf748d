"""The structural schema of a model, as the definition of its custom resource has it."""

from __future__ import annotations

from typing import Any

from pyinformer.operator import custom_resource, custom_resource_definition


def structural_schema(model: type) -> dict[str, Any]:
    """Return the schema of a model, of which it makes a custom resource.

    Raises:
        InvalidModelError: it has none.
    """
    declared: type = custom_resource("acme.io/v1", "things", kind="Thing")(model)
    (version,) = custom_resource_definition(declared)["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema
