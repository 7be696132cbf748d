"""The resource types that the embedded server serves, and what it answers about them."""

from pyinformer.testing.apiserver.resources._aggregated_discovery import CONTENT_TYPE, aggregated
from pyinformer.testing.apiserver.resources._discovery import discover
from pyinformer.testing.apiserver.resources._merge_schema import BuiltInShape, Shape, identity_of
from pyinformer.testing.apiserver.resources._names import ScalePaths
from pyinformer.testing.apiserver.resources._openapi import openapi_v2
from pyinformer.testing.apiserver.resources._resource_types import (
    BUILT_IN,
    ListShape,
    Registry,
    ResourceType,
)

__all__ = [
    "BUILT_IN",
    "CONTENT_TYPE",
    "BuiltInShape",
    "ListShape",
    "Registry",
    "ResourceType",
    "ScalePaths",
    "Shape",
    "aggregated",
    "discover",
    "identity_of",
    "openapi_v2",
]
