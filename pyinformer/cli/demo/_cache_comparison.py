"""The comparison of a cache or a mirror with what the server lists.

The list is read with http.client and json, so that the informers do not check themselves.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from urllib.parse import urlsplit

from pyinformer.objects import JSONObject, KubeObject, decoder_of, diff

_REQUEST_TIMEOUT_SECONDS = 10.0
_PATHS_NAMED = 3


def list_objects(server: str, api_version: str, plural: str) -> dict[str, JSONObject]:
    """List all objects of a resource, by key. Blocks.

    Returns:
        The bodies as the caches keep them: with apiVersion and kind, without managedFields.

    Raises:
        OSError: the server cannot be reached, or refuses the request.
        ValueError: the response is not JSON.
    """
    where = urlsplit(server)
    connection = http.client.HTTPConnection(
        where.hostname or "", where.port, timeout=_REQUEST_TIMEOUT_SECONDS
    )
    group_path = f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"
    try:
        connection.request("GET", f"/{group_path}/{plural}")
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise OSError(f"GET {plural}: {response.status} {response.reason}")
    return _by_key(decoder_of()(body))


def _by_key(answer: JSONObject) -> dict[str, JSONObject]:
    kind = str(answer["kind"]).removesuffix("List")
    found: dict[str, JSONObject] = {}
    for item in answer["items"] or []:
        metadata = item["metadata"]
        metadata.pop("managedFields", None)
        body = {"apiVersion": answer["apiVersion"], "kind": kind, **item}
        found["/".join(filter(None, (metadata.get("namespace"), metadata["name"])))] = body
    return found


def differences(
    holder: str, held: Mapping[str, KubeObject[object]], listed: Mapping[str, JSONObject]
) -> list[str]:
    """Return the differences between a holder of objects and the server.

    Args:
        holder: the name of the holder in the sentences, such as `the cache of pods`.
        held: the objects of the holder, by key.
        listed: the objects of the server, by key.

    Returns:
        A sentence for each object that differs; empty if all are equal.
    """
    found = [f"{holder} lacks {key}" for key in sorted(listed.keys() - held.keys())]
    found += [
        f"{holder} has {key}, which the server does not have"
        for key in sorted(held.keys() - listed.keys())
    ]
    for key in sorted(held.keys() & listed.keys()):
        wrong = _difference(held[key], listed[key])
        if wrong:
            found.append(f"{holder} has {key} with {wrong}")
    return found


def _difference(held: KubeObject[object], listed: JSONObject) -> str:
    metadata = listed["metadata"]
    ours, theirs = held.metadata, (metadata["uid"], metadata["resourceVersion"])
    if ours.uid != theirs[0]:
        return f"the uid {ours.uid}, not {theirs[0]}"
    if ours.resource_version != theirs[1]:
        return f"the resource version {ours.resource_version}, not {theirs[1]}"
    paths = [str(change) for change in diff(held.to_dict(), listed)]
    return f"another body at {', '.join(paths[:_PATHS_NAMED])}" if paths else ""
