"""Admission webhooks and conversion: an operator checks, completes and converts what is written.

Only the server, and the packages that it needs, are loaded later: when an operator with hooks runs.
"""

from typing import TYPE_CHECKING

from pyinformer._runtime.late_names import late_getattr
from pyinformer.admission._answers import Answer as Answer
from pyinformer.admission._answers import refused as refused
from pyinformer.admission._hook_set import HookSet as HookSet
from pyinformer.admission._hook_set import client_config as client_config
from pyinformer.admission._hook_set import configuration_name as configuration_name
from pyinformer.admission._hooks import Hook as Hook
from pyinformer.admission._hooks import HookKind as HookKind
from pyinformer.admission._hooks import HookOptions
from pyinformer.admission._review import Denied, HookOperation, Review, User
from pyinformer.admission._webhooks import Webhooks

if TYPE_CHECKING:
    from pyinformer.admission._reviews import Reviews as Reviews
    from pyinformer.admission._server import Route as Route
    from pyinformer.admission._server import WebhookServer as WebhookServer

_HOMES = {"Reviews": "_reviews", "Route": "_server", "WebhookServer": "_server"}

__all__ = ["Denied", "HookOperation", "HookOptions", "Review", "User", "Webhooks"]

if not TYPE_CHECKING:  # or type checkers would accept any name
    __getattr__ = late_getattr(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
