"""What `pyinformer doctor` finds of a server: the same on both."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from tests.cli.command_line import here
from tests.integration.objects import CONFIG_MAPS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.servers import Server


async def test_the_doctor_tries_what_informers_need_and_names_the_missing_role(
    strict: Server, tmp_path: Path
) -> None:
    namespace = strict.namespace()
    strict.api.create(CONFIG_MAPS.make("one", namespace))
    token = strict.user(namespace, "configmaps", ["list", "watch"])
    path = strict.api.write_kubeconfig(tmp_path / "kubeconfig", token)
    options = ("-n", namespace, "-o", "json", "--timeout-seconds", "100")
    arguments = ("configmaps", "v1/secrets", "--kubeconfig", str(path), *options)
    done = await asyncio.to_thread(lambda: here("doctor", *arguments))

    report = json.loads(done.stdout)
    first, readable, refused = [
        {one["code"]: one for one in part["findings"]} for part in report["parts"]
    ]
    assert done.exit_code == 1
    assert {one["code"] for one in first.values() if one["severity"] == "trouble"} == set()
    assert first["version"]["severity"] == "ok"
    assert {code for code, one in readable.items() if one["severity"] == "ok"} >= {
        *("rights", "memory", "watch_list", "bookmarks"),
    }
    assert {code: one["severity"] for code, one in refused.items()} == {
        "rights": "trouble",
        "list": "trouble",
    }
    assert "- secrets" in refused["rights"]["manifest"]
