"""Policies as documents that `kubectl apply` takes."""

# Pure: it knows no event loop.

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyinformer.errors import InvalidArgumentError, InvalidTypeError
from pyinformer.objects import JSONObject, check_iterable, dump_yaml_documents
from pyinformer.policies._policy import MutatingPolicy, Policy

if TYPE_CHECKING:
    from collections.abc import Iterable


def checked_policies(
    policies: Iterable[Policy | MutatingPolicy],
) -> tuple[Policy | MutatingPolicy, ...]:
    """Return policies as a tuple.

    Raises:
        InvalidArgumentError: two of one kind have the same name.
        InvalidTypeError: one of them is not a policy.
    """
    check_iterable("policies", policies, shown="Policy and MutatingPolicy")
    found = tuple(policies)
    for one in found:
        if not isinstance(one, Policy | MutatingPolicy):
            reason = f"must be Policy or MutatingPolicy, got {type(one).__name__}"
            raise InvalidTypeError("policies", reason)
    for (_, name), number in Counter((type(one), one.name) for one in found).items():
        if number > 1:
            raise InvalidArgumentError("policies", f"{number} are named {name!r}")
    return found


def policies_yaml(policies: Iterable[Policy | MutatingPolicy]) -> str:
    """Return policies with their bindings, as YAML for `kubectl apply`.

    Args:
        policies: the policies; none returns an empty text.

    Raises:
        InvalidArgumentError: two of one kind have the same name.
        InvalidTypeError: one of them is not a policy.
    """
    found: list[JSONObject] = [
        document for one in checked_policies(policies) for document in one.to_dicts()
    ]
    return dump_yaml_documents(found) if found else ""
