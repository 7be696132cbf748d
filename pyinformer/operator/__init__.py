"""The common case in one object: reconcile functions, models of custom resources, health."""

from pyinformer.operator._custom_resource import (
    CustomResource,
    Scale,
    custom_resource,
    custom_resource_definition,
)
from pyinformer.operator._custom_resource import declared_resource as declared_resource
from pyinformer.operator._daemons import Versions
from pyinformer.operator._declarations import Owns, Watches
from pyinformer.operator._health import Health
from pyinformer.operator._health_server import HealthServer
from pyinformer.operator._health_verdicts import HasStatus, HealthOptions, HealthVerdict
from pyinformer.operator._listers import Listers
from pyinformer.operator._operator import Operator
from pyinformer.operator._operator import hooks_of as hooks_of
from pyinformer.operator._rules import Rule
from pyinformer.operator._run import OperatorRun

__all__ = [
    "CustomResource",
    "HasStatus",
    "Health",
    "HealthOptions",
    "HealthServer",
    "HealthVerdict",
    "Listers",
    "Operator",
    "OperatorRun",
    "Owns",
    "Rule",
    "Scale",
    "Versions",
    "Watches",
    "custom_resource",
    "custom_resource_definition",
]
