"""The resource types that the embedded server serves, and what it answers about them."""

# Pure, as all modules below: it knows no event loop.

from pyinformer.testing.apiserver.resources._aggregated_discovery import CONTENT_TYPE, aggregated
from pyinformer.testing.apiserver.resources._built_in_schemas import (
    GO_TYPE,
    IF_MAP,
    built_in_schema,
    metadata_schema,
)
from pyinformer.testing.apiserver.resources._discovery import discover
from pyinformer.testing.apiserver.resources._discovery_names import ScalePaths
from pyinformer.testing.apiserver.resources._merge_schema import BuiltInShape, Shape, identity_of
from pyinformer.testing.apiserver.resources._openapi_stub import openapi_v2
from pyinformer.testing.apiserver.resources._resource_types import (
    BUILT_IN,
    ListShape,
    Registry,
    ResourceType,
)

__all__ = [
    "BUILT_IN",
    "CONTENT_TYPE",
    "GO_TYPE",
    "IF_MAP",
    "BuiltInShape",
    "ListShape",
    "Registry",
    "ResourceType",
    "ScalePaths",
    "Shape",
    "aggregated",
    "built_in_schema",
    "discover",
    "identity_of",
    "metadata_schema",
    "openapi_v2",
]
