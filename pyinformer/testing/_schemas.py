"""Where clients ask for schemas: they are told that there are none, and check nothing themselves.

What enters is an Accept header, what leaves is an empty OpenAPI document in the form asked for;
kubectl takes no other than protobuf, and applies files without `--validate=false` then.
"""

from __future__ import annotations

from typing import Final

_JSON: Final = b'{"swagger":"2.0","info":{"title":"Kubernetes","version":"1.37"},"paths":{}}\n'
_INFO: Final = b"\x0a\x0aKubernetes\x12\x041.37"
# Fields 1 (swagger), 2 (info) and 8 (paths) of openapi.v2.Document.
_PROTOBUF: Final = b"\x0a\x032.0\x12%c%s\x42\x00" % (len(_INFO), _INFO)
_PROTOBUF_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def openapi_v2(accept: str) -> tuple[bytes, str]:
    """Return an OpenAPI document without definitions, and its content type."""
    if "proto-openapi.spec.v2" in accept:
        return _PROTOBUF, _PROTOBUF_TYPE
    return _JSON, "application/json"
