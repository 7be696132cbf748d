"""The answer: one of three states, and the reason in one sentence."""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias, final, get_args

from pyinformer.objects import check_choice, check_text

State: TypeAlias = Literal["Ready", "InProgress", "Failed"]
"""`Ready`: the object is what its spec asks for. `InProgress`: its controller still works on it, or
has not begun. `Failed`: its controller has reported that it cannot get there as things are."""


@final
@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether an object is ready, and why."""

    state: State
    reason: str
    """Which part is missing, as one sentence without a subject or a period, such as `2 of 3
    replicas are available`. It may quote a message of the object's status, so that it is for people
    who may read the object."""

    def __post_init__(self) -> None:
        check_choice("state", self.state, get_args(State))
        check_text("reason", self.reason)


ready = partial(Readiness, "Ready")
in_progress = partial(Readiness, "InProgress")
failed = partial(Readiness, "Failed")
