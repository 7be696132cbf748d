"""The operators of docs/examples do what their pages say, on both servers, under their Roles."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import yaml
from docs.examples import backup_operator, configmap_replicator
from docs.examples.backup_operator import BACKUPS, JOBS
from docs.examples.configmap_replicator import COPY, MAPS, REPLICATIONS, SOURCE

import pyinformer
from tests.integration.accounts import ACCOUNT, apply, as_the_account
from tests.integration.definitions import DEFINITIONS, is_created, is_gone, served
from tests.integration.objects import CONFIG_MAPS, unique
from tests.integration.servers import RealServer
from tests.waiting import until

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from tests.integration.servers import Server


def _role(app: pyinformer.Operator, namespace: str, *, only: str | None) -> list[JSONObject]:
    """Return the rights that an operator prints, for the account of a namespace."""
    account = f"{namespace}/{ACCOUNT}"
    text = app.required_rbac(namespaces=only, name=unique("example"), service_account=account)
    return list(yaml.safe_load_all(text))


def _condition(server: Server, *of: str) -> tuple[str, str, str] | None:
    """Return status, reason and message of the only condition of an object."""
    (one,) = server.api.get(*of).get("status", {}).get("conditions") or [None]
    return one and (one["status"], one["reason"], one["message"])


def _events(server: Server, namespace: str) -> set[tuple[str, str, str]]:
    found = server.api.list("events.k8s.io/v1", "events", namespace)
    return {(one["regarding"]["name"], one["type"], one["reason"]) for one in found}


class _Copies:
    """A Replication of one namespace, its source, and the namespaces that it may select."""

    def __init__(self, server: Server) -> None:
        self.api = server.api
        self.server = server
        self.label = {"team": unique("team")}
        self.home, self.one, self.two = (server.namespace() for _ in range(3))
        self.replication = (*REPLICATIONS, "shared", self.home)

    def select(self, namespace: str, *, is_selected: bool = True) -> None:
        """Give a namespace the label, or take it away."""
        labels = self.label if is_selected else dict.fromkeys(self.label)
        self.api.patch("v1", "namespaces", namespace, {"metadata": {"labels": labels}})

    def make(self) -> bool:
        """Create the Replication; return False if it is not served yet."""
        metadata = {"namespace": self.home, "name": "shared"}
        body = {"apiVersion": REPLICATIONS[0], "kind": "Replication", "metadata": metadata}
        return is_created(self.server, {**body, "spec": {"namespaceLabels": self.label}})

    def label_source(self, name: str | None) -> None:
        """Name a Replication in the source, or none."""
        self.api.patch(*MAPS, "ca", {"metadata": {"labels": {SOURCE: name}}}, self.home)

    def found(self) -> dict[str, JSONObject]:
        """Return the data of all copies, by namespace."""
        return {
            each["metadata"]["namespace"]: each["data"]
            for namespace in (self.home, self.one, self.two)
            for each in self.api.list(*MAPS, namespace)
            if COPY in each["metadata"].get("labels", {})
        }

    async def become(self, **data: JSONObject) -> None:
        """Wait until the copies in the two namespaces are these."""
        wanted = {getattr(self, name): each for name, each in data.items()}
        await until(lambda: self.found() == wanted, what=wanted)


async def test_copies_follow_their_source_and_the_labels_of_namespaces(strict: Server) -> None:
    copies, app = _Copies(strict), configmap_replicator.app
    old, new = {"a": "1", "b": "2"}, {"a": "3"}
    strict.api.create(CONFIG_MAPS.make("ca", copies.home, labels={SOURCE: "shared"}, data=old))
    copies.select(copies.home)
    copies.select(copies.one)
    await apply(strict, *_role(app, copies.home, only=None))
    async with (
        served(strict, *app.custom_resource_definitions()),
        as_the_account(strict, copies.home) as cluster,
        app.running(cluster) as run,
    ):
        await until(copies.make)
        await copies.become(one=old)
        copies.select(copies.two)
        await copies.become(one=old, two=old)

        strict.api.patch(*MAPS, "ca", {"data": {**new, "b": None}}, copies.home)
        await copies.become(one=new, two=new)
        strict.api.delete(*MAPS, "ca", copies.one)
        strict.api.patch(*MAPS, "ca", {"data": {"c": "other"}}, copies.two)
        await copies.become(one=new, two=new)

        copies.select(copies.two, is_selected=False)
        await copies.become(one=new)
        copies.label_source(None)
        await copies.become()
        copies.label_source("shared")
        await copies.become(one=new)
        await until(lambda: (copies.api.get(*copies.replication)["status"]["copies"]) == 1)

        strict.api.delete(*copies.replication)
        await until(lambda: is_gone(strict, *copies.replication))
        assert copies.found() == {}
        assert "Forbidden" not in (run.controllers[0].status().last_error or "")
    assert ("shared", "Normal", "AllCopied") in _events(strict, copies.home)


async def test_a_foreign_object_under_the_name_of_a_copy_is_kept_and_reported(
    strict: Server,
) -> None:
    copies, app = _Copies(strict), configmap_replicator.app
    strict.api.create(CONFIG_MAPS.make("ca", copies.home, labels={SOURCE: "shared"}))
    strict.api.create(CONFIG_MAPS.make("ca", copies.one, data={"mine": "yes"}))
    copies.select(copies.one)
    async with (
        served(strict, *app.custom_resource_definitions()),
        strict.connect() as cluster,
        app.running(cluster),
    ):
        await until(copies.make)
        taken = ("False", "NameTaken", f"copies: 0; taken: {copies.one}/ca")
        await until(lambda: _condition(strict, *copies.replication) == taken)
        assert strict.api.get(*MAPS, "ca", copies.one)["data"] == {"mine": "yes"}
        await until(lambda: _events(strict, copies.home) == {("shared", "Warning", "NameTaken")})
        strict.api.delete(*copies.replication)
        await until(lambda: is_gone(strict, *copies.replication))
        assert strict.api.get(*MAPS, "ca", copies.one)["data"] == {"mine": "yes"}


def _backup(namespace: str, name: str, **spec: object) -> JSONObject:
    metadata = {"namespace": namespace, "name": name}
    return {"apiVersion": BACKUPS[0], "kind": "Backup", "metadata": metadata, "spec": spec}


def _without_checks(definition: JSONObject) -> JSONObject:
    """Return an earlier state of a definition, which accepts every spec."""
    earlier = copy.deepcopy(definition)
    schema = earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema["properties"]["spec"] = free
    return earlier


async def test_invalid_objects_are_reported_and_the_others_reconciled(strict: Server) -> None:
    namespace, app = strict.namespace(), backup_operator.app
    (definition,) = app.custom_resource_definitions()
    await apply(strict, *_role(app, namespace, only=namespace))

    def condition(name: str) -> tuple[str, str, str] | None:
        """Return the condition of a Backup."""
        return _condition(strict, *BACKUPS, name, namespace)

    def change(name: str, **spec: object) -> None:
        """Change the spec of a Backup."""
        strict.api.patch(*BACKUPS, name, {"spec": spec}, namespace)

    async with served(strict, _without_checks(definition)):
        good, wide, odd = (
            _backup(namespace, "good", database="a"),
            _backup(namespace, "wide", database="b", keepDaily=7, keepWeekly=9),
            _backup(namespace, "odd", database=5),
        )
        for each in (good, wide, odd):
            await until(lambda each=each: is_created(strict, each))  # type: ignore[misc]  # bound
        name, versions = definition["metadata"]["name"], definition["spec"]["versions"]
        strict.api.patch(*DEFINITIONS, name, {"spec": {"versions": versions}})
        if isinstance(strict, RealServer):
            await until(lambda: _is_refused(strict, _backup(namespace, "new", **wide["spec"])))

        async with (
            as_the_account(strict, namespace) as cluster,
            app.running(cluster, namespaces=namespace) as run,
        ):
            scheduled = ("True", "Scheduled", "0 3 * * *")
            exceeds = f"does not fit Backup: spec: Value error, {backup_operator.MESSAGE}"
            await until(lambda: condition("good") == scheduled)
            await until(lambda: condition("wide") == ("False", "Invalid", exceeds))
            await until(lambda: "spec.database" in (condition("odd") or ("", "", ""))[2])
            assert is_gone(strict, *JOBS, "wide", namespace)

            change("good", schedule="0 4 * * *")
            job = (*JOBS, "good", namespace)
            await until(lambda: strict.api.get(*job)["spec"]["schedule"] == "0 4 * * *")
            change("wide", keepWeekly=2)
            change("odd", database="c")
            await until(lambda: condition("wide") == condition("odd") == scheduled)
            assert not is_gone(strict, *JOBS, "odd", namespace)
            backups, _ = run.controllers
            assert "Forbidden" not in (backups.status().last_error or "")
        assert {("wide", "Warning", "Invalid"), ("wide", "Normal", "Scheduled")} <= _events(
            strict, namespace
        )


def _is_refused(server: Server, body: JSONObject) -> bool:
    """Return whether the server refuses an object by the rule of the definition."""
    try:
        server.api.create(body)
    except pyinformer.errors.APIStatusError as error:
        return backup_operator.MESSAGE in str(error)
    server.api.delete(*BACKUPS, body["metadata"]["name"], body["metadata"]["namespace"])
    return False
