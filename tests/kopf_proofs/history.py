"""One scripted history of a server, and everything that kopf did because of it.

What is recorded is comparable between two runs: uids, resource versions and times are replaced by
the order in which they were first seen for an object.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import kopf
from pyinformer.errors import NotFoundError
from tests.integration.servers import WIDGETS
from tests.kopf_proofs.operators import LAST_HANDLED, PROGRESS, Operator
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.servers import Server

_WIDGETS = (*WIDGETS.split("/"), "widgets")
_TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:\+00:00|Z)?")
_SETTLE_SECONDS = 100.0


class History(logging.Handler):
    """The script, on one server, and its record.

    Attributes:
        record: for each object, in order: the calls of handlers and the patches.
    """

    def __init__(self, server: Server) -> None:
        super().__init__(logging.DEBUG)
        self.record: dict[str, list[str]] = defaultdict(list)
        self._server = server
        self._namespace = server.namespace()
        self._seen: dict[tuple[str, str], list[str]] = defaultdict(list)

    def play(self) -> dict[str, list[str]]:
        """Play the script, and return the record."""
        self._create("first", {})
        with self._operator() as operator:
            self._settle(operator, "first")  # what is created from here on is not listed
            self._create("a", {"size": 1, "items": ["x", "y"]})
            self._create("b", {"size": 1}, labels={"tier": "web"})
            self._create("c", {"size": 1, "failing": True})
            self._settle(operator, "a", "b", "c")
            self._patch("a", {"spec": {"size": 2}})
            self._settle(operator, "a")
            self._patch("a", {"metadata": {"labels": {"tier": "db"}}, "spec": {"items": None}})
            self._settle(operator, "a")
            self._patch("b", {"status": {"seen": "by another"}})
            self._settle(operator, "b")
            self._delete("c")
            self._gone("c")
            self._create("c", {"size": 3})
            self._settle(operator, "c")
        self._patch("a", {"spec": {"size": 4}})
        self._delete("b")
        self._create("d", {"size": 1})
        with self._operator() as operator:
            self._gone("b")
            self._settle(operator, "first", "a", "c", "d")
            for name in ("first", "a", "c", "d"):
                self._delete(name)
                self._gone(name)
        return dict(self.record)

    def emit(self, record: logging.LogRecord) -> None:
        """Record kopf's patches."""
        message = record.getMessage()
        if "-patching the " in message:
            self._add(record.k8s_ref["name"], self._plain(message))  # type: ignore[attr-defined]  # kopf's own

    @contextmanager
    def _operator(self) -> Iterator[Operator]:
        api = self._server.api
        operator = Operator(
            api, token=lambda: self._server.token, clusterwide=False, namespaces=[self._namespace]
        )
        for reason in ("create", "update", "resume", "delete"):
            getattr(kopf.on, reason)(*_WIDGETS, registry=operator.registry, id=reason)(
                self._changed
            )
        kopf.on.field(*_WIDGETS, field="spec.size", registry=operator.registry, id="size")(
            self._changed
        )
        kopf.on.event(*_WIDGETS, registry=operator.registry, id="event")(self._seen_event)
        operator.record_events(*_WIDGETS)
        logger = logging.getLogger("kopf.objects")
        level, propagates = logger.level, logger.propagate
        logger.setLevel(logging.DEBUG)
        logger.addHandler(self)
        try:
            with operator.running():
                yield operator
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)
            logger.propagate = propagates

    async def _changed(self, *, body: Any, retry: int, **given: Any) -> dict[str, int]:
        """Record a call; the first two calls for a failing object raise an error."""
        reason, diff = given["reason"], given["diff"]
        told = f"{reason} retry={retry} diff={diff!r} {_text(body)}"
        self._add(body["metadata"]["name"], self._normal(body, told))
        if body["spec"].get("failing") and reason == "create" and retry < 2:
            raise kopf.TemporaryError("try again", delay=0)
        return {"retry": retry}

    async def _seen_event(self, event: Any, body: Any, **_: Any) -> None:
        told = f"event {event['type']} {_text(body)}"
        self._add(body["metadata"]["name"], self._normal(body, told))

    def _add(self, name: str, line: str) -> None:
        self.record[name].append(line)

    def _normal(self, body: Any, text: str) -> str:
        metadata = body["metadata"]
        for field in ("uid", "resourceVersion"):
            seen = self._seen[metadata["name"], field]
            if metadata[field] not in seen:
                seen.append(metadata[field])
            text = text.replace(f'"{metadata[field]}"', f"<{field} {seen.index(metadata[field])}>")
        return self._plain(text)

    def _plain(self, text: str) -> str:
        text = re.sub(
            r"('path': '/metadata/resourceVersion', 'value': )'\d+'", r"\1<version>", text
        )
        return _TIMES.sub("<time>", text).replace(self._namespace, "<namespace>")

    def _create(
        self, name: str, spec: dict[str, Any], labels: dict[str, str] | None = None
    ) -> None:
        metadata = {"name": name, "namespace": self._namespace, "labels": labels or {}}
        body = {"apiVersion": WIDGETS, "kind": "Widget", "metadata": metadata, "spec": spec}
        self._server.api.create(body)

    def _patch(self, name: str, changes: dict[str, Any]) -> None:
        self._server.api.patch(WIDGETS, "widgets", name, changes, self._namespace)

    def _delete(self, name: str) -> None:
        self._server.api.delete(WIDGETS, "widgets", name, self._namespace)

    def _get(self, name: str) -> dict[str, Any]:
        return self._server.api.get(WIDGETS, "widgets", name, self._namespace)

    def _settle(self, operator: Operator, *names: str) -> None:
        """Wait until kopf has handled the objects as they are, and has seen its own last patch."""
        for name in names:
            _until(partial(self._is_settled, operator, name), name)

    def _is_settled(self, operator: Operator, name: str) -> bool:
        body = self._get(name)
        annotations = body["metadata"].get("annotations", {})
        handled = json.loads(annotations.get(LAST_HANDLED, "{}"))
        versions = {call.version for call in list(operator.calls)}
        return (
            handled.get("spec", {}) == body["spec"]
            and handled.get("metadata", {}).get("labels") == body["metadata"].get("labels")
            and not any(map(PROGRESS.match, annotations))
            and body["metadata"]["resourceVersion"] in versions
        )

    def _gone(self, name: str) -> None:
        """Wait until the object is gone, and kopf has seen it: it handles a successor beside it."""

        def is_gone() -> bool:
            try:
                self._get(name)
            except NotFoundError:
                events = [line for line in self.record[name] if line.startswith("event ")]
                return events[-1].startswith("event DELETED ")
            return False

        _until(is_gone, name)


def _text(body: Any) -> str:
    """Write a whole body; managedFields, which are sorted by whole seconds, in another order."""
    metadata = dict(body["metadata"])
    metadata["managedFields"] = sorted(metadata["managedFields"], key=repr)
    return json.dumps({**body, "metadata": metadata}, sort_keys=True)


def _until(condition: Callable[[], bool], what: str) -> None:
    assert poll(condition, timeout_seconds=_SETTLE_SECONDS), f"{what} did not settle"
