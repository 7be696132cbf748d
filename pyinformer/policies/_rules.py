"""One rule of a policy."""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias, final, get_args

from pyinformer.errors import InvalidArgumentError
from pyinformer.objects import JSONObject, check_choice, check_text

RuleReason: TypeAlias = Literal["Unauthorized", "Forbidden", "Invalid", "RequestEntityTooLarge"]
"""The machine-readable reason of a refusal: status 401, 403, 422 or 413."""


@final
@dataclass(frozen=True, slots=True)
class Rule:
    """A condition in CEL that a request has to fulfil.

        Rule("object.spec.containers.all(c, !c.image.endsWith(':latest'))", "pin the image")

    It reads `object` (null for a deletion), `oldObject` (null for a creation), `request`, `params`,
    `namespaceObject`, `authorizer` and the policy's `variables`.

    Args:
        expression: true for a request that is allowed.
        message: what the client gets otherwise; required if the expression has several lines.
        message_expression: the same in CEL, for a text that depends on the request; where it fails,
            the message is sent.
        reason: None for Invalid.

    Raises:
        InvalidArgumentError: the server does not accept such a rule.

    Source:
        admissionregistration.k8s.io/v1, Validation.
    """

    expression: str
    message: str | None = None
    _: KW_ONLY
    message_expression: str | None = None
    reason: RuleReason | None = None

    def __post_init__(self) -> None:
        check_expression("expression", self.expression)
        if self.message is not None:
            check_text("message", self.message)
            if not self.message.strip() or "\n" in self.message.strip():
                raise InvalidArgumentError("message", f"must be one line, got {self.message!r}")
        elif "\n" in self.expression.strip():
            reason = "is required, because the expression has several lines"
            raise InvalidArgumentError("message", reason)
        if self.message_expression is not None:
            check_expression("message_expression", self.message_expression)
        if self.reason is not None:
            check_choice("reason", self.reason, get_args(RuleReason))

    def to_dict(self) -> JSONObject:
        """Return the entry of `validations`."""
        found: JSONObject = {"expression": self.expression.strip()}
        given = {
            "message": self.message,
            "messageExpression": self.message_expression,
            "reason": self.reason,
        }
        found.update({name: value.strip() for name, value in given.items() if value is not None})
        return found


def check_expression(argument: str, value: object) -> None:
    """Refuse what cannot be an expression; only a server can compile it.

    Raises:
        InvalidArgumentError: naming the argument.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgumentError(argument, f"must be an expression in CEL, got {value!r}")
