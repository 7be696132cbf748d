"""The bodies of an apply are YAML: what is sent is what is stored, on both servers."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

import pyinformer
from pyinformer.operator import custom_resource, custom_resource_definition
from tests.go_yaml import SCALARS, same
from tests.integration.definitions import is_created, served
from tests.integration.objects import CONFIG_MAPS
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.integration.servers import Server

_GROUP = "yaml.suite.example.com"
_MANAGER = [("fieldManager", "suite")]
_APPLY = "application/apply-patch+yaml"
# Line breaks of YAML, characters that it does not allow, and some that it does.
_ODD = (
    "".join(map(chr, range(0x7F, 0xA1)))
    + '\u2028\u2029\ufeff\ufffe\uffff\t\r\n\u00e9\U0001f600/\\"'
)


@custom_resource(f"{_GROUP}/v1", "settings", kind="Settings")
class Settings(msgspec.Struct):
    """Any values by any name."""

    spec: dict[str, Any]


@asynccontextmanager
async def served_settings(server: Server, namespace: str) -> AsyncIterator[None]:
    """Serve settings in the block."""
    async with served(server, custom_resource_definition(Settings)):
        metadata = {"namespace": namespace, "name": "first"}
        first = {"apiVersion": f"{_GROUP}/v1", "kind": "Settings", "metadata": metadata, "spec": {}}
        await until(lambda: is_created(server, first), timeout_seconds=100)
        yield


async def test_an_apply_stores_every_character_as_it_was_sent(server: Server) -> None:
    namespace = server.namespace()
    data = {"odd": f"caf\u0085e {_ODD} end", "next": "a \u2028 b", "plain": "1e3"}
    async with server.connect() as cluster:
        created = await cluster.create({**CONFIG_MAPS.make("a", namespace), "data": data})
        applied = await cluster.apply(
            {**CONFIG_MAPS.make("b", namespace), "data": data}, field_manager="suite"
        )
        sent = await cluster.request(
            "PATCH",
            f"/api/v1/namespaces/{namespace}/configmaps/c",
            query=_MANAGER,
            body={**CONFIG_MAPS.make("c", namespace), "data": data},
            content_type=_APPLY,
        )

    assert created.at("data", dict) == data
    assert applied.at("data", dict) == data
    assert msgspec.json.decode(sent)["data"] == data


async def test_an_apply_stores_names_of_any_length_and_numbers_as_they_were_sent(
    server: Server,
) -> None:
    namespace = server.namespace()
    spec = {
        "y": "n",
        "on": True,
        "08": "08",
        "k" * 1_023: 1,
        "\u00e9" * 1_500: {'"' * 700: ["x"]},
        "tiny": 1e-7,
        "time": "22:22",
        "large": 2**63 - 1,
        "day": "2026-01-01",
        "<<": {"=": 0},
    }
    body = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Settings",
        "metadata": {"namespace": namespace, "name": "a"},
        "spec": spec,
    }
    async with served_settings(server, namespace), server.connect() as cluster:
        applied = await cluster.apply(body, field_manager="suite")

    assert same(applied.at("spec", dict), spec)


async def test_an_apply_in_yaml_is_read_as_go_reads_it(server: Server) -> None:
    namespace = server.namespace()
    scalars = [(text, value) for text, value in SCALARS.items() if value is not None]
    listed = "".join(f"\n    - {text}" for text, _ in scalars)
    text = (
        f"apiVersion: {_GROUP}/v1\nkind: Settings\nmetadata: {{name: a}}\nspec:\n"
        f"  values:{listed}\n  y: 1\n  08: 1\n  1e6: 1\n---\nnothing: [\n"
    )
    path = f"/apis/{_GROUP}/v1/namespaces/{namespace}/settings/a"
    async with served_settings(server, namespace), server.connect() as cluster:
        found = await cluster.request(
            "PATCH", path, query=_MANAGER, body=text.encode(), content_type=_APPLY
        )
        refusals = []
        for body in (b"a: [", b"a: .nan", b'{"a": "\\/"}', b"[1]", b"? [a]\n: 1"):
            try:
                await cluster.request("PATCH", path, query=_MANAGER, body=body, content_type=_APPLY)
            except pyinformer.errors.BadRequestError as error:
                refusals.append(error.message)

    spec = msgspec.json.decode(found)["spec"]
    assert {key: value for key, value in spec.items() if key != "values"} == {
        "true": 1,
        "8": 1,
        "1e+06": 1,
    }
    wrong = {
        text: value
        for (text, expected), value in zip(scalars, spec["values"], strict=True)
        if not same(value, expected)
    }
    assert wrong == {}
    assert [message.partition(" patch: ")[0] for message in refusals] == [
        *("error encoding", "error encoding", "error decoding", "error decoding", "error encoding")
    ]
