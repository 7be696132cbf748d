"""Custom resources as Python classes, and the CustomResourceDefinition made from them."""

from pyinformer.operator import CustomResource, custom_resource, custom_resource_definition

__all__ = [
    "CustomResource",
    "custom_resource",
    "custom_resource_definition",
]
