"""Installs the definitions of an operator's models before its caches start.

Each replica does it, since its caches need the definitions whether it leads or not. Replicas of two
versions do no harm: each write is of the version that was read, and an older replica leaves what a
newer one has written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import anyio

from pyinformer._runtime.escaping_loggers import get_logger
from pyinformer._runtime.tasks import loop_time
from pyinformer.errors import (
    CacheSyncTimeoutError,
    ConfigurationError,
    ConflictError,
    ForbiddenError,
    InformerError,
    InvalidObjectError,
    NotFoundError,
    ProtocolError,
    ServerError,
    TooManyRequestsError,
    TransportError,
)
from pyinformer.objects import Access, ExponentialBackoff, GroupVersionResource
from pyinformer.operator._definition_merge import decide, marked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyinformer.client.cluster import Cluster
    from pyinformer.objects import JSONObject

_log = get_logger(__name__)

_DEFINITIONS: Final = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
_PASSING: Final = (
    ConflictError, InvalidObjectError, NotFoundError, ProtocolError, ServerError,
    TooManyRequestsError, TransportError,
)  # fmt: skip
"""What is tried again: another client was faster, or the server is not there yet."""


@final
class DefinitionInstaller:
    """Writes definitions that are missing or differ, and waits until they are served.

    Args:
        definitions: returns those of the models.
        operator: the operator's name, which is the field manager, too.
        version: the operator's version; None if it has none.
    """

    def __init__(
        self, definitions: Callable[[], list[JSONObject]], *, operator: str, version: str | None
    ) -> None:
        self._definitions = definitions
        self._operator = operator
        self._version = version
        self.pending: dict[str, str] = {}
        """The definitions that are not served yet, and why."""
        self.installed: frozenset[str] = frozenset()
        """The names of the definitions that have what the models need."""

    async def install(self, cluster: Cluster, *, timeout_seconds: float) -> None:
        """Install all definitions, side by side.

        Raises:
            CacheSyncTimeoutError: a definition was not served in time; names the reasons.
            ConfigurationError: the server does not accept the names of a definition.
            ForbiddenError: a right is missing.
            APIStatusError: the server refuses a definition.

        Cancellation:
            Safe; a write may or may not have been carried out.
        """
        definitions = self._definitions()
        self.pending = {one["metadata"]["name"]: "is not read yet" for one in definitions}
        failures: list[InformerError] = []

        async def install_one(definition: JSONObject) -> None:
            """Install one, and keep an error that no further attempt would end."""
            try:
                await self._install(cluster, definition)
            except InformerError as error:
                failures.append(error)
                group.cancel_scope.cancel()

        began_at = loop_time()
        with anyio.move_on_after(timeout_seconds):
            async with anyio.create_task_group() as group:
                for definition in definitions:
                    group.start_soon(install_one, definition)
        if failures:
            raise failures[0]
        if self.pending:
            raise CacheSyncTimeoutError(
                waited_seconds=loop_time() - began_at, pending=self.shown_pending()
            )

    def shown_pending(self) -> list[str]:
        """Return a line for each definition that is not served yet."""
        return [f"the definition {name} {why}" for name, why in self.pending.items()]

    async def _install(self, cluster: Cluster, definition: JSONObject) -> None:
        name = definition["metadata"]["name"]
        backoff = ExponentialBackoff(initial_seconds=0.1, max_seconds=5.0)
        is_written = False
        while name in self.pending:
            try:
                is_written = is_written or await self._write(cluster, name, definition)
                if is_written:
                    self.pending[name] = await self._lack(cluster, name, definition)
                if not self.pending[name]:
                    del self.pending[name]
            except ForbiddenError as error:
                raise error.with_hint("grant what `pyinformer rbac` prints") from error
            except _PASSING as error:
                is_written = False
                if str(error) != self.pending.get(name):
                    _log.warning("the definition %s is not installed yet: %s", name, error)
                self.pending[name] = str(error)
            if name in self.pending:
                await anyio.sleep(backoff.next(loop_time()))

    async def _write(self, cluster: Cluster, name: str, definition: JSONObject) -> bool:
        """Write a definition if it is missing or differs; return whether it is decided."""
        manager = self._operator
        try:
            found = await cluster.get(*_DEFINITIONS, name)
        except NotFoundError as error:
            if not error.names_object:
                raise
            body = marked(definition, self._operator, self._version)
            await cluster.create(body, field_manager=manager)
            self._has(name)
            _log.info("the definition %s was created", name)
            return True
        if found.metadata.deletion_timestamp:
            self.pending[name] = "is being deleted, with its objects"
            return False
        current = found.to_dict()
        decision = decide(current, definition, operator=self._operator, version=self._version)
        if decision.left_because:
            _log.warning("the definition %s is left as it is: %s", name, decision.left_because)
            return True
        if decision.edited is not None:
            await cluster.patch(found, decision.edited, check_version=True, field_manager=manager)
            _log.info("the definition %s was updated", name)
        if decision.kept:
            _log.warning(
                "the definition %s keeps %s, which no model has, since objects may be stored in"
                " it: `pyinformer migrate` stores them again",
                name,
                ", ".join(decision.kept),
            )
        self._has(name)
        return True

    def _has(self, name: str) -> None:
        self.installed |= {name}

    async def _lack(self, cluster: Cluster, name: str, definition: JSONObject) -> str:
        """Return what a definition lacks until it is served; empty if it is.

        Raises:
            ConfigurationError: the server does not accept its names.
        """
        found = await cluster.get(*_DEFINITIONS, name)
        status: dict[str, Any] = found.to_dict().get("status") or {}
        conditions = {one["type"]: one for one in status.get("conditions") or ()}
        accepted = conditions.get("NamesAccepted", {})
        if accepted.get("status") == "False":
            reason = f"the server does not accept its names: {accepted.get('message', '')}"
            raise ConfigurationError(f"the definition {name}", reason)
        if conditions.get("Established", {}).get("status") != "True":
            return "is not established yet"
        if name in self.installed:
            for resource in _served(definition):
                try:
                    await cluster.discovery.read_again(resource)
                except NotFoundError:
                    return f"is established, and {resource} is not served yet"
        return ""


def _served(definition: JSONObject) -> Iterable[GroupVersionResource]:
    spec = definition["spec"]
    for version in spec["versions"]:
        if version["served"]:
            api_version = f"{spec['group']}/{version['name']}"
            yield GroupVersionResource.of(api_version, spec["names"]["plural"])


def installer_accesses(names: Sequence[str]) -> list[Access]:
    """Return the rights to install definitions; one to create cannot be limited to a name."""
    if not names:
        return []
    group, plural = _DEFINITIONS[0].partition("/")[0], _DEFINITIONS[1]
    return [
        Access(group, plural, ("create",), None),
        *(Access(group, plural, ("get", "patch"), None, name) for name in names),
    ]
