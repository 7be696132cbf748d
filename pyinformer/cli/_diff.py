"""`pyinformer diff`: what the functions of an operator would change for one object.

The functions are called once, with synced caches, and every write that they make is a dry run: the
server checks it, with defaults and admission, and stores nothing.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO, final

import msgspec

from pyinformer._printable import printable
from pyinformer.cache.informer import SharedInformerFactory, wait_for_cache_sync
from pyinformer.cli._dry_run import IGNORED, DryRunConnection, Effect, folded
from pyinformer.cli._exit_status import CLOSED_PIPE, FAILED, OK, TOO_LATE, failure
from pyinformer.cli._shutdown import Shutdown, run
from pyinformer.cli.objects import CommandError
from pyinformer.cli.output import Output
from pyinformer.client.cluster import Cluster
from pyinformer.client.transport import NetworkConnection
from pyinformer.errors import CacheSyncTimeoutError, ConflictError, InformerError, NotFoundError
from pyinformer.objects import (
    REDACTED,
    JSONObject,
    JSONValue,
    decoder_of,
    dump_yaml,
    redacted,
    redacted_words,
)

if TYPE_CHECKING:
    from pyinformer.cli.objects import ServerAccess
    from pyinformer.controller import Controller, Outcome
    from pyinformer.operator import Operator

_ACTS_OUTSIDE: Final = (
    "its function has cleanup=, so that it acts outside of the cluster, where nothing is a dry run:"
    " add --outside to call it"
)
_decode: Final = decoder_of()
_CHANGED: Final = f"{REDACTED} (changed)"
_NOTHING: Final = "/dev/null"  # as in the patches of version control
_OF_SECRETS: Final = ("data", "stringData")
_BY_THE_SERVER: Final = ("managedFields", "resourceVersion", "generation")
_OF_A_NEW_ONE: Final = ("uid", "creationTimestamp")  # another one when it is really created


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One run of the command."""

    access: ServerAccess
    operator: Operator
    key: str
    """Of the object: `namespace/name`, or `name`."""
    namespaces: tuple[str, ...]
    """Those that the operator follows; empty for all."""
    timeout_seconds: float
    """How long its caches may take."""
    shows_secrets: bool
    outside: bool
    """Functions are called that act outside of the cluster, too."""
    check: bool
    """The exit status says whether anything would change."""

    def run(self, *, output: TextIO, errors: TextIO) -> int:
        """Print what would change. Call it in the main thread.

        Args:
            output: receives the differences.
            errors: receives how each function ended, and why the command failed.

        Returns:
            The exit status: `failure` if a function failed; with `check`, 1 if not all was as it
            shall be.
        """
        printed, notes = Output(output, os.environ), Output(errors, os.environ)

        async def command(_: Shutdown) -> int:
            """Connect, and call the functions."""
            try:
                async with self.access.connected() as real:
                    return await self._print(real, printed, notes)
            except BrokenPipeError:
                return CLOSED_PIPE
            except (InformerError, CommandError) as error:
                notes.line(f"pyinformer diff: {printable(str(error))}")
                is_late = isinstance(error, CacheSyncTimeoutError)
                return TOO_LATE if is_late else failure(check=self.check)

        return run(command, output)

    async def _print(self, real: Cluster, output: Output, errors: Output) -> int:
        network = real.connection
        if not isinstance(network, NetworkConnection):  # for its type
            raise CommandError("the server is not reached over a network")
        connection, status = DryRunConnection(real.connection, network), OK
        async with (
            Cluster(real.config, name=real.name, connection=connection) as cluster,
            self._synced(cluster) as controllers,
        ):
            for controller in controllers:
                title = f"{controller.name} {self.key}"
                if controller.engine.acts_outside and not self.outside:
                    errors.line(printable(f"{title}: {_ACTS_OUTSIDE}"))
                    status = failure(check=self.check)
                    continue
                connection.effects.clear()
                with redirect_stdout(sys.stderr):  # not what a function prints
                    for prepare in controller.engine.before_attach:
                        await prepare()
                    outcome = await controller.reconcile_once(self.key)
                texts = [text for text in map(self._text, folded(connection.effects)) if text]
                for text in texts:
                    output.write(text)
                errors.line(printable(f"{title}: {_end(outcome, len(texts))}"))
                waits = outcome.result is not None and outcome.result.waiting_for
                if outcome.error is not None:
                    status = failure(check=self.check)
                elif self.check and (texts or waits):
                    status = max(status, FAILED)
                if connection.stored_at:
                    raise CommandError(f"{connection.stored_at}: {IGNORED}")
        return status

    @asynccontextmanager
    async def _synced(self, cluster: Cluster) -> AsyncIterator[list[Controller[Any]]]:
        """Yield the controllers of the functions that reconcile the object, with synced caches."""
        factory = SharedInformerFactory(cluster)
        found = self.operator.controllers(
            cluster, factory, namespaces=list(self.namespaces) or None
        )
        reconciling = [
            one for one in found if one.engine.primaries and one.engine.object_tasks is None
        ]
        if not reconciling:
            raise CommandError("the operator has no reconcile function")
        try:
            informers = {each for one in reconciling for each in one.engine.informers}
            for informer in informers:
                await cluster.discovery.resource(informer.scope.resource)  # fails soon, with a cure
                await informer.start()
            await wait_for_cache_sync(
                *informers, timeout_seconds=self.timeout_seconds, fail_fast=True
            )
            yield self._concerned(reconciling)
        finally:
            await factory.aclose()

    def _concerned(self, controllers: Iterable[Controller[Any]]) -> list[Controller[Any]]:
        names: set[str] = set()
        concerned: list[Controller[Any]] = []
        for one in controllers:
            for primary in one.engine.primaries:
                names.add(str(primary.scope))
                namespace = self.key.rpartition("/")[0]
                is_covered = not namespace or primary.scope.covers(namespace)
                if is_covered and primary.lister.get(self.key) is not None:
                    concerned.append(one)
        if not concerned:
            among = ", ".join(sorted(names))
            hint = "" if "/" in self.key else "; one in a namespace is namespace/name"
            raise CommandError(f"found no object {self.key!r} among {among}{hint}")
        return concerned

    def _text(self, effect: Effect) -> str:
        """Return a unified diff of an object; nothing if only what the server sets differs."""
        before, after = effect
        named: JSONObject = after or before or {}
        metadata = named["metadata"]
        key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        title = f"{named.get('kind')}/{key}"
        new = _OF_A_NEW_ONE if before is None else ()
        lines = difflib.unified_diff(
            self._lines(before, before),
            self._lines(after, before or after, new),
            _NOTHING if before is None else f"now/{title}",
            _NOTHING if after is None else f"then/{title}",
            lineterm="",
        )
        return "".join(f"{printable(line)}\n" for line in lines)

    def _lines(
        self, obj: JSONObject | None, earlier: JSONObject | None, without: tuple[str, ...] = ()
    ) -> list[str]:
        """Return the YAML of an object, without what the server sets and what is secret.

        Args:
            obj: the object; None for no lines.
            earlier: what a secret value is compared with.
            without: further fields of its metadata that are left out.
        """
        if obj is None:
            return []
        left_out = (*_BY_THE_SERVER, *without)
        kept = {name: each for name, each in obj["metadata"].items() if name not in left_out}
        shown = obj | {"metadata": kept}
        if not self.shows_secrets:
            shown = redacted(shown)
            if obj.get("kind") == "Secret":
                fields = [field for field in _OF_SECRETS if obj.get(field)]
                shown |= {one: _compared(obj[one], (earlier or {}).get(one)) for one in fields}
        return dump_yaml(_sorted(shown)).splitlines()


def _end(outcome: Outcome, changes: int) -> str:
    """Return how a function ended."""
    error, result = outcome.error, outcome.result
    if error is not None:
        text = str(error)
        if not isinstance(error, InformerError):  # it may quote what it was about
            text = redacted_words(text, kind="Secret")
        elif changes and isinstance(error, NotFoundError | ConflictError):
            text += "; its own writes are dry runs, which its later requests do not see"
        return f"{type(error).__name__}: {text}"
    if result is not None and result.waiting_for:
        return f"waits for {result.waiting_for}; what comes then is not known"
    if not changes:
        return "nothing would change"
    return f"{changes} object{'s' if changes > 1 else ''} would change"


def _sorted(value: JSONValue) -> JSONValue:
    """Return a value with its keys in order: servers answer in any."""
    return _decode(msgspec.json.encode(value, order="sorted"))


def _compared(values: JSONValue, earlier: JSONValue) -> JSONValue:
    """Return secret values as whether they are as they were."""
    if not isinstance(values, dict):
        return REDACTED if values == earlier else _CHANGED
    known = earlier if isinstance(earlier, dict) else {}
    return {
        name: REDACTED if known.get(name, value) == value else _CHANGED
        for name, value in values.items()
    }
