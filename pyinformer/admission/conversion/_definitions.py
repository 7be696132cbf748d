"""CustomResourceDefinitions that have the objects of a resource converted by a webhook."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyinformer.admission._hook_set import client_config
from pyinformer.admission._webhooks import Webhooks
from pyinformer.admission.conversion._conversions import Conversions
from pyinformer.objects import JSONObject

CONVERSION_PATH: Final = "/convert"
"""Where the server posts ConversionReviews."""


def with_conversion(
    definitions: Iterable[JSONObject], conversions: Conversions, webhooks: Webhooks
) -> list[JSONObject]:
    """Return CustomResourceDefinitions that have their objects converted by webhooks.

    Args:
        definitions: those of resources without conversions are returned as they are.
        conversions: of the operator.
        webhooks: how it is reached. The authority of its certificate, `caBundle`, is not set.
    """
    resources = {one.name for one in conversions.versions}
    client = client_config(webhooks, CONVERSION_PATH, converts=True)
    found = []
    for definition in definitions:
        if definition["metadata"]["name"] in resources:
            webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            conversion = {"strategy": "Webhook", "webhook": webhook}
            found.append({**definition, "spec": {**definition["spec"], "conversion": conversion}})
        else:
            found.append(definition)
    return found
