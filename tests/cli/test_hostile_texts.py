"""Names and messages of tenants do not steer a terminal or forge a line of the command."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cli.command_line import environment, here
from tests.hostile import FORGED, HOSTILE, STORABLE, assert_shown_safely

if TYPE_CHECKING:
    from pyinformer.objects import JSONObject
    from pyinformer.testing import APIServer

_ROLES = "rbac.authorization.k8s.io/v1/roles"
_LIBRARIES = ("pyinformer.cache.informer", "aiohttp.client", "asyncio")
_SOON = ("--timeout-seconds", "1.0")
# The basic plane without surrogates, and some of each later plane.
_CODE_POINTS = (*range(0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 0x101))


def _role(text: str) -> JSONObject:
    annotations = {"example.com/note": text}
    metadata = {"name": text, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata}


def _event(number: int, text: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"e{number}", "namespace": "default"},
        "involvedObject": {"kind": text, "name": text, "namespace": "default"},
        "reason": text,
        "message": text,
        "type": text,
    }


@pytest.mark.parametrize("form", ["table", "wide", "name", "json", "yaml"])
def test_names_and_messages_of_tenants_do_not_break_their_lines(
    apiserver: APIServer, form: str
) -> None:
    for number, text in enumerate(STORABLE):
        apiserver.create(_role(text))
        apiserver.create(_event(number, text))
    chosen = () if form == "table" else ("-o", form)
    for resource in (_ROLES, "v1/events"):
        done = here("get", resource, "--server", apiserver.url, *chosen)
        assert done.exit_code == 0, done.output
        for line in done.output.splitlines():
            assert line.isprintable()
            assert not line.startswith(FORGED)  # a YAML block keeps its lines, indented
            if form != "yaml":
                assert_shown_safely(line)
        if form in {"json", "yaml"}:
            items = (json.loads if form == "json" else yaml.safe_load)(done.stdout)["items"]
            assert len(items) == len(STORABLE)  # and as data they are what they are
            if resource == _ROLES:
                assert {one["metadata"]["name"] for one in items} == set(STORABLE)


def test_json_is_printable_and_means_the_same_for_every_character(apiserver: APIServer) -> None:
    text = "".join(one for one in map(chr, _CODE_POINTS) if not one.isprintable())
    metadata = {"name": "all", "namespace": "default"}
    body: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    apiserver.create({**body, "data": {"text": text}})
    one = here("get", "v1/configmaps", "all", "-o", "json", "--server", apiserver.url)
    several = here("get", "v1/configmaps", "-o", "json", "--server", apiserver.url)
    watched = here("watch", "v1/configmaps", "-o", "json", "--server", apiserver.url, *_SOON)
    for done in (one, several, watched):
        assert all(line.isprintable() for line in done.stdout.splitlines())
    assert json.loads(one.stdout)["data"] == {"text": text}
    assert json.loads(several.stdout)["items"][0]["data"] == {"text": text}
    assert json.loads(watched.stdout.splitlines()[0])["object"]["data"] == {"text": text}


@pytest.mark.parametrize("form", ["text", "wide", "json"])
def test_texts_shown_by_watch_do_not_break_their_lines(apiserver: APIServer, form: str) -> None:
    for text in STORABLE:
        apiserver.create(_role(text))
    chosen = () if form == "text" else ("-o", form)
    at = ("--server", apiserver.url, *_SOON)
    done = here("watch", _ROLES, *at, *chosen)
    shown = [line for line in done.output.splitlines() if line]
    assert len(shown) >= len(STORABLE)
    for line in shown:
        assert_shown_safely(line)


def test_log_lines_of_every_library_are_printable_on_a_terminal() -> None:
    """In a process of its own: in tests pytest has the handler of the root logger."""
    program = f"""
import logging, sys
from pyinformer.cli import main

sys.argv = ["pyinformer", "top", "http://127.0.0.1:1", "--verbose"]
try:
    main()
except SystemExit:
    pass
print("begin", file=sys.stderr)
for name in {_LIBRARIES!r}:
    for text in {HOSTILE!r}:
        logging.getLogger(name).error("it is %s", text)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, env=environment(), timeout=100)
    _, _, shown = done.stderr.decode().partition("begin\n")
    lines = shown.removesuffix("\n").split("\n")
    firsts = [line for line in lines if not line.startswith("    ")]
    names = [name for name in _LIBRARIES for _ in HOSTILE]
    for name, line in zip(names, firsts, strict=True):
        assert line.startswith(f"ERROR {name}: it is a")
        assert_shown_safely(line)
    for line in lines:
        assert line.isprintable()
