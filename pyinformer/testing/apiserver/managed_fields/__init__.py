"""Field ownership for server-side apply: the content of `metadata.managedFields`.

These modules are pure functions over objects; they neither store nor wait.
"""

# Pure, as all modules below: it knows no event loop.

from pyinformer.testing.apiserver.managed_fields import field_managers, field_sets, structure
from pyinformer.testing.apiserver.managed_fields.field_managers import Author, Managed

__all__ = [
    "Author",
    "Managed",
    "field_managers",
    "field_sets",
    "structure",
]
