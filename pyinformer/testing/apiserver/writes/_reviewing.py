"""What policies and webhooks make of a write, and what they refuse.

Where it is not reviewed, everything stays as it is.
"""

from __future__ import annotations

import copy
from typing import Final

from pyinformer.objects import JSONObject
from pyinformer.testing.apiserver.managed_fields import field_managers
from pyinformer.testing.apiserver.requests import WriteParameters
from pyinformer.testing.apiserver.resources import ResourceType
from pyinformer.testing.apiserver.writes import (
    _decoding,
    _registry_strategy,
    _server_set_fields,
)
from pyinformer.testing.apiserver.writes._definitions import DEFINITIONS
from pyinformer.testing.apiserver.writes._prune_and_default import pruned
from pyinformer.testing.apiserver.writes._scaling import scale_of

# Their defaults are made of the name and the time.
_UNDEFAULTED: Final = frozenset((DEFINITIONS, "namespaces"))


def mutated(
    resource: ResourceType,
    before: JSONObject | None,
    body: JSONObject,
    options: WriteParameters,
    subresource: str = "",
) -> JSONObject:
    """Return what webhooks make of a new state; the same object if nothing is changed."""
    if options.reviewer is None or subresource not in ("", "status"):
        return body
    identified = {**body, "apiVersion": resource.api_version, "kind": resource.kind}
    if resource.list_shape == "custom":
        identified = pruned(resource, identified)
    elif before is None and resource.qualified_name not in _UNDEFAULTED:
        identified = copy.deepcopy(identified)
        _server_set_fields.apply(resource, identified)
    found = options.reviewer.mutated(
        resource, before, identified, subresource=subresource, dry_run=options.dry_run
    )
    return body if found == identified else _decoding.decode(resource, found).body


def mutated_content(
    resource: ResourceType,
    before: JSONObject,
    content: JSONObject,
    options: WriteParameters,
    subresource: str,
) -> JSONObject:
    """Return what webhooks make of the content that an apply leaves."""
    if options.reviewer is None:
        return content
    metadata = {**before["metadata"], **content["metadata"]}
    merged = _registry_strategy.typed(resource, content, metadata)
    return field_managers.content(mutated(resource, before, merged, options, subresource))


def check(
    resource: ResourceType,
    before: JSONObject | None,
    after: JSONObject | None,
    options: WriteParameters,
    subresource: str = "",
) -> None:
    """Refuse what policies or webhooks refuse."""
    if options.reviewer is None:
        return
    if subresource == "scale":
        before, after = (scale_of(resource, one or {}) for one in (before, after))
    options.reviewer.check(
        resource, before, after, subresource=subresource, dry_run=options.dry_run
    )


def named(body: JSONObject, namespace: str, name: str) -> JSONObject:
    """Return what is created of a pod, with the place that its URL says."""
    metadata = {**(body.get("metadata") or {}), "namespace": namespace, "name": name}
    return {**body, "metadata": metadata}
