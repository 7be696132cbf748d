"""The request handler of the embedded server, and the methods by which a test changes its objects.

Nothing here knows how requests travel: `server` serves them over HTTP, `World` in the same process.
"""

from pyinformer.testing.apiserver.handler._direct_object_calls import ObjectTestAPI
from pyinformer.testing.apiserver.handler._handler import Backend, HandlerCall, RequestHandler

__all__ = [
    "Backend",
    "HandlerCall",
    "ObjectTestAPI",
    "RequestHandler",
]
