"""One operator that uses all of kopf, while its server fails in every way.

Webhooks, an index, a daemon, a timer, sub-handlers, retries, finalizers and peering. Between faults
objects are created, changed and deleted. When the faults pause, everything must be handled.
"""

from __future__ import annotations

import json
import random
import urllib.request
from typing import TYPE_CHECKING, Any

import kopf
from pyinformer.errors import ConflictError, NotFoundError
from pyinformer.testing import Fault
from tests.kopf_proofs.operators import LAST_HANDLED, PROGRESS, STOP_SECONDS, Operator
from tests.kopf_proofs.outages import DEFINITION, KEX, pause, resume, serve_peering
from tests.kopf_proofs.outcomes import Fact, Outcome, observe
from tests.kopf_proofs.stages import open_watches
from tests.waiting import poll

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pyinformer.testing import APIServer
    from tests.kopf_proofs.stages import Stage

_GROUP_VERSION = "kopf.dev/v1"
_PLURAL = "kopfexamples"
_QUALIFIED = "kopfexamples.kopf.dev"
_WRITES = 12
_NAMES = [f"one-{number}" for number in range(12)]
_ERROR = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500, "metadata": {}}


class Everything:
    """The operator and its server.

    Args:
        api: the server.
        seed: of the writes and of the faults.
    """

    def __init__(self, api: APIServer, *, seed: int) -> None:
        self._api = api
        self._rng = random.Random(seed)
        api.create(DEFINITION)
        serve_peering(api)
        self._operator = Operator(api, standalone=False, peering_name="default")
        self._accompanied: list[str] = []
        self._ticked: set[str] = set()
        self._deleted: set[str] = set()
        self._gone: set[str] = set()
        self._webhook = ""
        self._failed: set[tuple[str, int]] = set()
        self._add_handlers()

    def play(self, stage: Stage, *, rounds: int) -> Outcome:
        """Let the server fail in each round, and let the operator catch up after each."""
        outcome = Outcome(())
        with self._operator.running():
            for _ in range(rounds):
                self._write()
                self._rng.choice(self._faults())()
                self._write()
                self._api.faults.clear()
                self._api.faults.release()
                resume(self._api)
                outcome = observe((self._operator,), self._facts, stage.wait)
                if not outcome.is_right:
                    break
                assert self._review(size=1)
                assert not self._review(size=-1)
        return outcome

    def _add_handlers(self) -> None:
        operator, registry = self._operator, self._operator.registry
        operator.settings.admission.server = self._serve_webhooks
        operator.settings.networking.error_backoffs = (0.05, 0.05)
        operator.settings.background.cancellation_polling = 1.0
        operator.index_names(*KEX)
        kopf.on.create(*KEX, registry=registry, id="handle")(self._handle)
        kopf.on.update(*KEX, registry=registry, id="handle", field="spec.size")(self._handle)
        kopf.on.delete(*KEX, registry=registry, id="delete")(self._delete)
        kopf.daemon(*KEX, registry=registry, id="accompany")(self._accompany)
        kopf.timer(*KEX, registry=registry, id="tick", interval=0.2)(self._tick)
        kopf.on.validate(*KEX, registry=registry, id="validate")(self._validate)

    async def _serve_webhooks(self, fn: Any) -> AsyncIterator[Any]:
        server = kopf.WebhookServer(addr="127.0.0.1", insecure=True)
        async for config in server(fn):
            self._webhook = str(config["url"])
            yield config

    async def _handle(self, *, name: str, uid: str, spec: Any, **_: Any) -> None:
        async def halve(patch: Any, **_: Any) -> None:
            patch.status["half"] = spec["size"] // 2

        async def store(patch: Any, **_: Any) -> None:
            if (uid, spec["size"]) not in self._failed:
                self._failed.add((uid, spec["size"]))
                raise kopf.TemporaryError(f"{name} fails once", delay=0)
            patch.status["size"] = spec["size"]

        fns: Any = {"halve": halve, "store": store}
        await kopf.execute(fns=fns)

    async def _delete(self, *, uid: str, **_: Any) -> None:
        self._deleted.add(uid)

    async def _accompany(self, *, stopped: Any, uid: str, **_: Any) -> None:
        self._accompanied.append(uid)
        try:
            await stopped.wait()
        finally:
            self._accompanied.remove(uid)

    async def _tick(self, *, uid: str, **_: Any) -> None:
        self._ticked.add(uid)

    async def _validate(self, *, spec: Any, **_: Any) -> None:
        if spec["size"] < 0:
            raise kopf.AdmissionError("the size must not be negative")

    def _review(self, *, size: int) -> bool:
        """Ask the webhook as an API server does, and return whether it admits an object."""
        kind = {"group": KEX[0], "version": KEX[1], "kind": "KopfExample"}
        review = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "1",
                "kind": kind,
                "resource": {"group": KEX[0], "version": KEX[1], "resource": _PLURAL},
                "requestKind": kind,
                "requestResource": {"group": KEX[0], "version": KEX[1], "resource": _PLURAL},
                "userInfo": {"username": "a-user", "uid": "", "groups": []},
                "name": "one",
                "namespace": "default",
                "operation": "CREATE",
                "options": {},
                "dryRun": False,
                "object": _body("one", size),
                "oldObject": None,
            },
        }
        request = urllib.request.Request(  # noqa: S310 - a server of this test
            f"{self._webhook}/validate",
            json.dumps(review).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:  # noqa: S310 - as above
            return bool(json.load(response)["response"]["allowed"])

    def _write(self) -> None:
        for _ in range(_WRITES):
            name = self._rng.choice(_NAMES)
            write = self._rng.choice((self._create, self._change, self._change, self._remove))
            write(name)

    def _create(self, name: str) -> None:
        try:
            self._api.create(_body(name, self._rng.randrange(1000)))
        except ConflictError:
            return

    def _change(self, name: str) -> None:
        changes = {"spec": {"size": self._rng.randrange(1000)}}
        try:
            self._api.patch(_GROUP_VERSION, _PLURAL, name, changes)
        except NotFoundError:
            return

    def _remove(self, name: str) -> None:
        """Delete an object that kopf has seen; it never ends the daemon of another."""
        try:
            metadata = self._api.get(_GROUP_VERSION, _PLURAL, name)["metadata"]
        except NotFoundError:
            return
        if metadata.get("finalizers"):
            self._api.delete(_GROUP_VERSION, _PLURAL, name)
            self._gone.add(metadata["uid"])

    def _faults(self) -> tuple[Callable[[], object], ...]:
        api = self._api
        return (
            api.drop_connections,
            api.end_watches,
            self._expire,
            lambda: api.restart(keep_history=False),
            lambda: api.emit(_GROUP_VERSION, _PLURAL, "ERROR", _ERROR),
            self._pause,
            lambda: self._refuse(Fault(verb="watch", resource=_QUALIFIED, status=500, times=3)),
            lambda: self._refuse(Fault(verb="list", resource=_QUALIFIED, status=403, times=3)),
            lambda: self._refuse(_cut()),
        )

    def _pause(self) -> None:
        """Pause the operator; kopf, plain too, loses events in a pause of a few milliseconds."""
        pause(self._api)
        poll(lambda: not open_watches(self._api, _QUALIFIED), timeout_seconds=STOP_SECONDS)

    def _expire(self) -> None:
        self._api.drop_connections()
        self._api.compact()

    def _refuse(self, fault: Fault) -> None:
        self._api.faults.add(fault)
        self._expire()

    def _facts(self) -> tuple[Fact, ...]:
        objects = self._api.list(_GROUP_VERSION, _PLURAL)
        uids = {one["metadata"]["name"]: [one["metadata"]["uid"]] for one in objects}
        indexed = self._operator.indexed()
        live = {uid for (uid,) in uids.values()}
        wrong = sum(uids.get(name) != indexed.get(name) for name in uids.keys() | indexed.keys())
        unhandled = sum(not _is_handled(one) for one in objects)
        return (
            Fact("objects that are not handled", unhandled, 0),
            Fact("deletions that are not finished", len(self._gone & live), 0),
            Fact("wrong index entries", wrong, 0),
            Fact("objects with one daemon", len(set(self._accompanied) & live), len(live)),
            Fact("daemons", len(self._accompanied), len(live)),
            Fact("objects without a timer", len(live - self._ticked), 0),
        )


def _cut() -> Fault:
    return Fault(verb="watch", resource=_QUALIFIED, cut_after_bytes=700, times=4)


def _is_handled(body: dict[str, Any]) -> bool:
    """Whether kopf has handled an object as it is.

    It does not call a sub-handler again that has succeeded for an earlier state in the same cycle,
    so the status says nothing about that.
    """
    annotations = body["metadata"].get("annotations", {})
    handled = json.loads(annotations.get(LAST_HANDLED, "{}"))
    return handled.get("spec") == body["spec"] and not any(map(PROGRESS.match, annotations))


def _body(name: str, size: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": _GROUP_VERSION,
        "kind": "KopfExample",
        "metadata": metadata,
        "spec": {"size": size},
    }
