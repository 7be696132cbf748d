"""The page on the doctor: its output is that of the command, its tables are complete."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import fields
from pathlib import Path

import pyinformer
from pyinformer import Operator
from pyinformer.cli.doctor import report_of
from pyinformer.operator.diagnosis import THRESHOLDS
from pyinformer.testing import APIServer, Fault
from tests.cache.informer.clusters import pod
from tests.cli.command_line import here
from tests.docs import pages
from tests.waiting import until

_GROUP = "rbac.authorization.k8s.io"
_RULES = (
    {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Role",
        "metadata": {"name": "pods", "namespace": "shop"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}],
    },
    {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "pods", "namespace": "shop"},
        "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": "pods"},
        "subjects": [{"kind": "ServiceAccount", "name": "shop-operator", "namespace": "shop"}],
    },
)
_PAGE = "docs/howto/doctor.md"
_PATIENT = "--timeout-seconds=100"
_TRIES = 5  # a step, or a block of the loop, of a second is a finding, on a busy machine, too
_VARIES = re.compile(
    r"127\.0\.0\.1:\d+|/\S+\.py:\d+|KUBECONFIG=\S+|(?:pyinformer|Python) [\d.]+\w*|OU=.*"
    r"|[\d.]+ (?:s|ms|min|days|failed attempts?|failures? in a row|[KM]iB|B)\b"
    r"|object: [\d., ]+|\d+ wait|\d+/\d+ busy"
)


def _comparable(text: str) -> list[str]:
    return [_VARIES.sub("...", line) for line in text.splitlines()]


async def _about_a_program() -> list[list[str]]:
    """Return what `doctor` and `top` print about a program with two faults."""
    operator = Operator("pods")

    @operator.reconcile("v1", "pods")
    async def reconcile(_request: object, _obj: object, _cluster: object) -> None:
        raise ValueError

    with APIServer() as api:
        api.create(pod("a"))
        async with (
            pyinformer.connect(server=api.url) as cluster,
            operator.running(cluster, health_port=0) as run,
        ):
            url = run.health_url or ""
            await until(lambda: "1 fails" in run.health.overview())
            why = 'pods is forbidden: User "db-operator" cannot watch resource "pods"'
            api.faults.add(Fault(resource="pods", status=403, message=why, times=None))
            api.drop_connections()
            await until(lambda: "forbidden" in run.health.overview())
            return [
                _comparable((await asyncio.to_thread(here, name, url, _PATIENT)).stdout)
                for name in ("doctor", "top")
            ]


async def test_the_page_shows_what_the_commands_print_about_a_program() -> None:
    shown = [_comparable(block.text) for block in pages.blocks(_PAGE, "text")[1:]]
    for _ in range(_TRIES):
        found = await _about_a_program()
        if found == shown:
            break
    assert found == shown


def test_the_page_shows_what_the_command_prints_about_a_server(tmp_path: Path) -> None:
    with APIServer(tls=True, rbac=True, final_bookmark_lead_seconds=4.9) as api:
        api.ensure_namespace("shop")
        for number in range(3):
            api.create(pod(f"web-{number}", namespace="shop"))
        for rule in _RULES:
            api.create(rule)
        token = api.token_for_service_account("shop-operator", "shop")
        path = api.write_kubeconfig(tmp_path / "kubeconfig", token=token)
        arguments = ("doctor", "pods", "secrets", "-n", "shop", _PATIENT)
        shown = _comparable(pages.blocks(_PAGE, "text")[0].text)
        for _ in range(_TRIES):
            done = here(*arguments, KUBECONFIG=str(path))
            if _comparable(done.stdout) == shown:
                break

    assert _comparable(done.stdout) == shown
    assert done.exit_code == 1


def test_the_page_lists_every_limit_with_its_value() -> None:
    rows = re.findall(r"^\| `(\w+_\w+)` \| ([\d,]+) \|", pages.read(_PAGE), re.MULTILINE)
    listed = {name: float(value.replace(",", "")) for name, value in rows}
    assert listed == {one.name: float(getattr(THRESHOLDS, one.name)) for one in fields(THRESHOLDS)}


def test_the_page_describes_every_field_of_the_json() -> None:
    document = json.loads(report_of([("http://a", "", {})]).json())
    found = {*document, *(f"parts[].{name}" for name in document["parts"][0])}
    found |= {f"parts[].findings[].{name}" for name in document["parts"][0]["findings"][0]}
    text = pages.read(_PAGE).rpartition("## For programs")[2]
    assert {
        one
        for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
        for one in re.findall(r"`(.*?)`", row)
    } == found
