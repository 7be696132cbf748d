"""Custom resources as Python classes, and the CustomResourceDefinition made from them."""

from pyinformer.operator import (
    CustomResource,
    Rule,
    Scale,
    custom_resource,
    custom_resource_definition,
)

__all__ = [
    "CustomResource",
    "Rule",
    "Scale",
    "custom_resource",
    "custom_resource_definition",
]
