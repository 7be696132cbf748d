"""A program that replaces kube-apiserver in tests of starting, stopping and killing it.

It takes the same flags, writes a certificate at the same place, and keeps objects by their path
while it runs. It does not implement the API; tests marked `real` check that.
"""

from __future__ import annotations

import json
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trustme

JSONObject = dict[str, Any]

FLAGS = dict(flag.removeprefix("--").split("=", 1) for flag in sys.argv[1:])
TOKENS = {line.split(",")[0] for line in Path(FLAGS["token-auth-file"]).read_text().splitlines()}
OBJECTS: dict[str, JSONObject] = {}
RESOURCES = [
    {"name": "namespaces", "kind": "Namespace", "namespaced": False},
    {"name": "configmaps", "kind": "ConfigMap", "namespaced": True},
    {"name": "configmaps/status", "kind": "ConfigMap", "namespaced": True},
]


class Handler(BaseHTTPRequestHandler):
    """Answers requests; an object lives at its collection's path and its name."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer readiness, discovery, an object or a collection."""
        path = self.path.split("?")[0]
        if path == "/readyz":
            self._answer(200, b"ok")
        elif path == "/api/v1":
            self._answer(200, {"resources": RESOURCES})
        elif path.startswith("/apis/"):
            self._answer(404, b"404 page not found\n")
        elif path in OBJECTS:
            self._answer(200, OBJECTS[path])
        elif path.endswith("s"):
            below = [one for name, one in OBJECTS.items() if name.rpartition("/")[0] == path]
            self._answer(200, {"kind": "ConfigMapList", "items": below})
        else:
            self._refuse(404, "NotFound")

    def do_POST(self) -> None:
        """Create an object unless its name is taken."""
        obj = self._body()
        path = f"{self.path}/{obj['metadata']['name']}"
        if path in OBJECTS:
            self._refuse(409, "AlreadyExists")
        else:
            OBJECTS[path] = obj
            self._answer(201, obj)

    def do_PUT(self) -> None:
        """Replace an object."""
        OBJECTS[self.path] = self._body()
        self._answer(200, OBJECTS[self.path])

    def do_PATCH(self) -> None:
        """Merge the top level of an object."""
        OBJECTS[self.path] |= self._body()
        self._answer(200, OBJECTS[self.path])

    def do_DELETE(self) -> None:
        """Remove an object."""
        self._body()
        self._answer(200, OBJECTS.pop(self.path))

    def _body(self) -> JSONObject:
        body: JSONObject = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _refuse(self, status: int, reason: str) -> None:
        causes = [{"reason": "SomeCause"}]
        body = {"kind": "Status", "reason": reason, "message": "no", "details": {"causes": causes}}
        self._answer(status, body)

    def _answer(self, status: int, body: JSONObject | bytes) -> None:
        authorized = self.headers.get("Authorization", "").removeprefix("Bearer ") in TOKENS
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status if authorized else 401)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


def main() -> None:
    """Serve until killed."""
    if "fail" in FLAGS:
        sys.exit(f"cannot run: {FLAGS['fail']}")
    folder = Path(FLAGS["cert-dir"])
    certificate, key = folder / "apiserver.crt", folder / "apiserver.key"
    if not certificate.exists():
        folder.mkdir()
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(str(key))
        chain = issued.cert_chain_pems[0].bytes() + authority.cert_pem.bytes()
        certificate.write_bytes(chain)
    server = ThreadingHTTPServer(("127.0.0.1", int(FLAGS["secure-port"])), Handler)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


main()
