"""The options of a write: field manager, force and dry run.

They are parsed from the query and the User-Agent; invalid ones are refused with 422, as in the
real server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pyinformer.testing.apiserver.requests.failures import invalid

if TYPE_CHECKING:
    import random

    from pyinformer.objects import JSONObject
    from pyinformer.testing.apiserver.resources import ResourceType

_KINDS = {
    "create": "CreateOptions",
    "update": "UpdateOptions",
    "patch": "PatchOptions",
    "delete": "DeleteOptions",
    "deletecollection": "DeleteOptions",
}
_PROPAGATIONS = ("", "Foreground", "Background", "Orphan")
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_LONGEST_MANAGER_BYTES = 128
KIT_MANAGER = "pyinformer-testing"
"""The field manager of writes by the kit itself; its HTTP client sends it as User-Agent, too."""


class Reviewer(Protocol):
    """Changes and refuses writes, as policies and webhooks want it."""

    @property
    def rng(self) -> random.Random:
        """What uids and generated names are made of; the same whenever a write begins again."""
        ...

    def mutated(
        self,
        resource: ResourceType,
        old: JSONObject | None,
        body: JSONObject,
        *,
        subresource: str,
        dry_run: bool,
    ) -> JSONObject:
        """Return what webhooks have made of a new state; the caller owns it.

        Args:
            resource: what is written.
            old: what is stored; None if it is new.
            body: the new state, as the client wants it.
            subresource: "", or the part that is written.
            dry_run: whether nothing will be stored.

        Raises:
            Failure: it is refused.
        """
        ...

    def check(
        self,
        resource: ResourceType,
        old: JSONObject | None,
        body: JSONObject | None,
        *,
        subresource: str,
        dry_run: bool,
    ) -> None:
        """Refuse a state that policies or webhooks refuse; None is the deletion of the old one.

        Raises:
            Failure: it is refused.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteParameters:
    """The options of one write.

    Attributes:
        manager: the field manager.
        force: take fields from other managers (server-side apply only).
        dry_run: check the write completely, and store nothing.
        whole: write spec and status together, which a client cannot do.
        reviewer: policies and webhooks, which may change or refuse it; None if it is not reviewed.
    """

    manager: str = KIT_MANAGER
    force: bool = False
    dry_run: bool = False
    whole: bool = False
    reviewer: Reviewer | None = None


def parse_write_parameters(
    verb: str,
    query: Mapping[str, str],
    *,
    user_agent: str,
    is_apply: bool = False,
    dry_run: Sequence[str] = (),
    propagation: str = "",
) -> WriteParameters:
    """Parse the options of a write.

    Args:
        verb: create, update, patch, delete or deletecollection.
        query: the query of the URL.
        user_agent: the User-Agent header; it names the manager if the query does not.
        is_apply: whether it is a server-side apply.
        dry_run: the `dryRun` of DeleteOptions in the body.
        propagation: the `propagationPolicy` of a deletion.

    Raises:
        Failure: 422.
    """
    manager, force = query.get("fieldManager", ""), query.get("force")
    causes = []
    if is_apply and not manager:
        sentence = "Required value: is required for apply patch"
        causes.append(("FieldValueRequired", "fieldManager", sentence))
    if verb == "patch" and not is_apply and force is not None:
        sentence = "Forbidden: may not be specified for non-apply patch"
        causes.append(("FieldValueForbidden", "force", sentence))
    if len(manager.encode()) > _LONGEST_MANAGER_BYTES:
        sentence = f"Too long: may not be more than {_LONGEST_MANAGER_BYTES} bytes"
        causes.append(("FieldValueTooLong", "fieldManager", sentence))
    odd = next((place for place, one in enumerate(manager) if not one.isprintable()), None)
    if odd is not None:
        shown = f"invalid character U+{ord(manager[odd]):04X} (at position {odd})"
        causes.append(("FieldValueInvalid", "fieldManager", f"Invalid value: {shown}"))
    asked = [*dry_run, *([query["dryRun"]] if "dryRun" in query else [])]
    if any(one != "All" for one in asked):
        sentence = f'Unsupported value: ["{asked[0]}"]: supported values: "All"'
        causes.append(("FieldValueNotSupported", "dryRun", sentence))
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        supported = ", ".join(f'"{one}"' for one in _VALIDATIONS)
        sentence = f'Unsupported value: "{validation}": supported values: {supported}'
        causes.append(("FieldValueNotSupported", "fieldValidation", sentence))
    if propagation not in _PROPAGATIONS:
        supported = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        sentence = f'Unsupported value: "{propagation}": {supported}'
        causes.append(("FieldValueNotSupported", "propagationPolicy", sentence))
    if causes:
        raise invalid(_KINDS[verb], "meta.k8s.io", "", causes)
    return WriteParameters(
        manager=manager or user_agent.partition("/")[0] or "unknown",
        force=force is not None and force.lower() not in ("false", "0"),
        dry_run=bool(asked),
    )
