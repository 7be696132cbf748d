"""The five uses of kubectl in kopf's end-to-end tests, for machines without kubectl.

`apply -f`, `create -f`, `delete -f`, `delete customresourcedefinition NAME` and
`patch -f FILE --type merge -p PATCH`. As with kubectl, `apply` creates or changes, and `delete`
waits until the object has gone. The server is that of KUBECONFIG.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import ssl
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_FIELD_MANAGER = "?fieldManager=kubectl"
_MERGE = "application/merge-patch+json"
_POLL_SECONDS = 0.1
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Client:
    """The API server of a kubeconfig with one cluster and one token."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self._server = cluster["server"]
        self._token = config["users"][0]["user"]["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"])
        self._tls = ssl.create_default_context(cadata=authority.decode())

    def request(self, method: str, path: str, body: Any = None, content_type: str = "") -> Any:
        """Send one request; an absent object, at a GET or DELETE, is None."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._server + path, data, headers, method=method)  # noqa: S310 - a server under test
        try:
            with urllib.request.urlopen(request, context=self._tls) as response:  # noqa: S310 - as above
                return json.load(response)
        except urllib.error.HTTPError as error:
            if error.code == 404 and method in {"GET", "DELETE"}:
                return None
            raise SystemExit(f"{method} {path}: {error.code} {error.read().decode()}") from error

    def collection(self, body: Any) -> str:
        """Return the path of the objects of this kind, in the namespace of the object."""
        group_version = body["apiVersion"]
        prefix = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        served = self.request("GET", prefix)["resources"]
        [kind] = [one for one in served if one["kind"] == body["kind"] and "/" not in one["name"]]
        namespace = body["metadata"].get("namespace", "default")
        scope = f"/namespaces/{namespace}" if kind["namespaced"] else ""
        return f"{prefix}{scope}/{kind['name']}"

    def apply(self, body: Any) -> None:
        """Create an object, or change the one of this name."""
        path = f"{self.collection(body)}/{body['metadata']['name']}"
        if self.request("GET", path) is None:
            self.create(body)
        else:
            self.request("PATCH", path + _FIELD_MANAGER, body, _MERGE)

    def create(self, body: Any) -> None:
        """Create an object."""
        self.request("POST", self.collection(body) + _FIELD_MANAGER, body, "application/json")

    def delete(self, path: str) -> None:
        """Delete an object, and wait until its finalizers are gone."""
        if self.request("DELETE", path) is None:
            raise SystemExit(f"{path} not found")
        pause = threading.Event()
        while self.request("GET", path) is not None:
            pause.wait(_POLL_SECONDS)


def _bodies(filename: Path | None) -> Iterator[Any]:
    if filename is not None:
        yield from filter(None, yaml.safe_load_all(filename.read_text()))


def main(words: Iterable[str]) -> None:
    """Do what the words say, to each object of the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=("apply", "create", "delete", "patch"))
    parser.add_argument("named", nargs="*")
    parser.add_argument("-f", "--filename", type=Path)
    parser.add_argument("--type", choices=("merge",))
    parser.add_argument("-p", "--patch", type=json.loads)
    given = parser.parse_args(list(words))
    client = Client(Path(os.environ["KUBECONFIG"]))
    for name in given.named[1:]:
        client.delete(f"{_CRDS}/{name}")
    for body in _bodies(given.filename):
        if given.verb == "apply":
            client.apply(body)
        elif given.verb == "create":
            client.create(body)
        elif given.verb == "delete":
            client.delete(f"{client.collection(body)}/{body['metadata']['name']}")
        else:
            path = f"{client.collection(body)}/{body['metadata']['name']}"
            client.request("PATCH", path + _FIELD_MANAGER, given.patch, _MERGE)


if __name__ == "__main__":
    main(sys.argv[1:])
