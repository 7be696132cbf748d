"""From a change to a reconcile that cannot be lost: controllers, and operators made of them."""

from pyinformer.controller._conditions import find_condition, is_condition_true, set_condition
from pyinformer.controller._custom_resource import (
    CustomResource,
    custom_resource,
    custom_resource_definition,
)
from pyinformer.controller._owner_references import set_controller_reference, set_owner_reference

__all__ = [
    "CustomResource",
    "custom_resource",
    "custom_resource_definition",
    "find_condition",
    "is_condition_true",
    "set_condition",
    "set_controller_reference",
    "set_owner_reference",
]
