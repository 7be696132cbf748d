"""One change that a policy makes to an object that is written."""

# Pure: it knows no event loop.

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Literal, TypeAlias, final, get_args

from pyinformer.objects import JSONObject, check_choice
from pyinformer.policies._rules import check_expression

PatchType: TypeAlias = Literal["apply", "json"]
"""How a change is expressed: as fields to apply, or as a list of JSON patches."""


@final
@dataclass(frozen=True, slots=True)
class Mutation:
    """A change in CEL, of an object that is created or updated.

        Mutation('Object{metadata: Object.metadata{labels: {"by": request.userInfo.username}}}')

    Args:
        expression: the fields to apply, an `Object{...}`; or, as `json`, a list of
            `JSONPatch{op: ..., path: ..., value: ...}`.
        patch_type: which of the two it is. Fields are merged as by server-side apply, so that they
            cannot remove anything.

    Raises:
        InvalidArgumentError: the server does not accept such a change.

    Source:
        admissionregistration.k8s.io/v1, Mutation.
    """

    expression: str
    _: KW_ONLY
    patch_type: PatchType = "apply"

    def __post_init__(self) -> None:
        check_expression("expression", self.expression)
        check_choice("patch_type", self.patch_type, get_args(PatchType))

    def to_dict(self) -> JSONObject:
        """Return the entry of `mutations`."""
        expression: JSONObject = {"expression": self.expression.strip()}
        if self.patch_type == "json":
            return {"patchType": "JSONPatch", "jsonPatch": expression}
        return {"patchType": "ApplyConfiguration", "applyConfiguration": expression}
