"""A namespace of a server under test, and plain requests in it.

No client of ours stands between test and wire, so that a test says what a server answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server
    from tests.testing.wire import Answer, Stream, Wire

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Place:
    """One namespace of a server, and requests about named objects in it."""

    def __init__(self, server: Server, wire: Wire) -> None:
        self.server = server
        self.namespace = server.namespace()
        self._wire = wire

    def path(self, plural: str, name: str = "", api_version: str = "v1") -> str:
        """Return the path of a resource or of one object."""
        root = "apis" if "/" in api_version else "api"
        return f"/{root}/{api_version}/namespaces/{self.namespace}/{plural}/{name}".rstrip("/")

    def send(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Send any request."""
        return self._wire.request(method, path, body, **options)

    def get(self, path: str) -> Any:
        """Return what is there."""
        answer = self._wire.get(path)
        assert answer.status == 200, answer.json
        return answer.json

    def watch(self, path: str, **query: str) -> Stream:
        """Open a watch."""
        return self._wire.watch(path, **query)

    def created(self, path: str, body: JSONObject, **options: Any) -> Any:
        """Create, and return what is stored."""
        answer = self._wire.request("POST", path, body, **options)
        assert answer.status == 201, answer.json
        return answer.json

    def patch(self, path: str, body: Any, kind: str = MERGE, **options: Any) -> Answer:
        """Send a patch."""
        return self._wire.request("PATCH", path, body, content_type=kind, **options)

    def patched(self, path: str, body: Any, kind: str = MERGE, **options: Any) -> Any:
        """Patch, and return what is stored."""
        answer = self.patch(path, body, kind, **options)
        assert answer.status in (200, 201), answer.json
        return answer.json

    def apply(self, path: str, body: Any, manager: str, **options: Any) -> Answer:
        """Send a configuration."""
        return self.patch(path, body, APPLY, fieldManager=manager, **options)

    def applied(self, path: str, body: Any, manager: str, **options: Any) -> Any:
        """Apply, and return what is stored."""
        return self.patched(path, body, APPLY, fieldManager=manager, **options)
