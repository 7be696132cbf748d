"""Which informers of a controller deliver an event, and in which form.

The events are those that the informers would deliver themselves, with their views and
transforms applied; the requests that follow are computed from them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import structs

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import (
    Added,
    Deleted,
    Event,
    GroupVersionResource,
    JSONObject,
    KubeObject,
    ObjectCodec,
    Updated,
)

if TYPE_CHECKING:
    from pyinformer.cache.informer import SharedInformer
    from pyinformer.client.cluster import Cluster
    from pyinformer.controller import Controller
    from pyinformer.controller.sources import Reason, Request

Seen: TypeAlias = "tuple[SharedInformer[Any], Event[Any]]"
"""An event, and the informer that delivers it."""


def decoded(api_version: str, plural: str, body: JSONObject) -> KubeObject:
    """Return a body as a cache without a view decodes it."""
    resource = GroupVersionResource.of(api_version, plural)
    raw = msgspec.json.encode(body)
    return ObjectCodec[None](resource).decode(raw, 0, len(raw))


def requests_of(controller: Controller[Any], seen: Iterable[Seen]) -> list[Request]:
    """Return the resulting requests in order; equal ones are merged, with all reasons."""
    fed = set(controller.engine.informers)
    reasons: dict[Request, list[Reason]] = {}
    for informer, event in seen:
        if informer in fed:
            for request in controller.requests_for(informer, event):
                known = reasons.setdefault(request, [])
                known += [reason for reason in request.reasons if reason not in known]
    return [request.with_reasons(why) for request, why in reasons.items()]


async def seen_by(controller: Controller[Any], cluster: Cluster, event: Event[Any]) -> list[Seen]:
    """Return the events that the informers of a controller would deliver for an event.

    Raises:
        InvalidArgumentError: no informer is of its kind, or it is not an event of a KubeObject.

    Cancellation:
        Safe.
    """
    obj: object = _newest(event)
    if not isinstance(obj, KubeObject):
        reason = "write Added(world.kube_object({...})), or Updated or Deleted"
        raise InvalidArgumentError("event", reason)
    of_kind: list[SharedInformer[Any]] = []
    for informer in controller.engine.informers:
        if informer.cluster is cluster:
            found = await cluster.discovery.resource(informer.scope.resource)
            of_kind += [informer] if found.gvk == obj.gvk else []
    if not of_kind:
        reason = f"no informer of controller {controller.name} follows {obj.gvk} in this World"
        raise InvalidArgumentError("event", reason)
    told = [(informer, _as_delivered(informer, event)) for informer in of_kind]
    return [(informer, heard) for informer, heard in told if heard is not None]


def _newest(event: object) -> object:
    match event:
        case Added(obj):
            return obj
        case Updated(old, new):
            return new if isinstance(old, KubeObject) else old
        case Deleted(last):
            return last
    return None


def _as_delivered(informer: SharedInformer[Any], event: Event[Any]) -> Event[Any] | None:
    """Return the event as the informer delivers it; an object may enter or leave its selection."""
    match event:
        case Added(obj):
            new = _as_cached(informer, obj)
            return None if new is None else Added(new)
        case Deleted(last):
            old = _as_cached(informer, last)
            return None if old is None else structs.replace(event, last_known=old)
        case Updated(before, after):
            old, new = _as_cached(informer, before), _as_cached(informer, after)
            if new is None:
                return None if old is None else Deleted(old, may_still_exist=True)
            return Added(new) if old is None else structs.replace(event, old=old, new=new)


def _as_cached(informer: SharedInformer[Any], obj: KubeObject[Any]) -> KubeObject[Any] | None:
    """Return an object as the informer's cache holds it; None if it is not selected."""
    scope, settings = informer.scope, informer.settings
    is_there = scope.covers(obj.metadata.namespace)
    if not (is_there and scope.label_selector.matches(obj.metadata.labels)):
        return None
    codec: ObjectCodec[Any] = ObjectCodec(
        scope.resource,
        view=cast("Any", settings.model),
        strip_managed_fields=settings.memory != "raw",
        transform=settings.transform,
        metadata_only=settings.memory == "metadata",
    )
    return codec.decode(obj.raw, 0, len(obj.raw))
