"""Authentication and authorization: tokens, RBAC, and the reviews that report them."""

from pyinformer.testing.apiserver.access._access import (
    Access,
    Caller,
    Token,
    attributes_of,
    user_info,
)
from pyinformer.testing.apiserver.access._rbac import MASTERS, default_objects
from pyinformer.testing.apiserver.access._reviews import account_token, read_objects, review

__all__ = [
    "MASTERS",
    "Access",
    "Caller",
    "Token",
    "account_token",
    "attributes_of",
    "default_objects",
    "read_objects",
    "review",
    "user_info",
]
