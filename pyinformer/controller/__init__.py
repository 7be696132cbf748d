"""From a change to a reconcile that cannot be lost: controllers, and operators made of them."""

from pyinformer.controller._custom_resource import (
    CustomResource,
    custom_resource,
    custom_resource_definition,
)

__all__ = ["CustomResource", "custom_resource", "custom_resource_definition"]
