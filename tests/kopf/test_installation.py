"""Putting the hooks into kopf and taking them out: all or none, once, and before an operator."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.metadata import Distribution, version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from kopf._cogs.aiokits.aiotoggles import ToggleSet
from kopf._cogs.clients import auth, fetching, scanning, watching
from kopf._cogs.structs.credentials import Vault
from kopf._core.engines import peering
from kopf._core.reactor import orchestration

import pyinformer.kopf
from pyinformer.errors import ConfigurationError, InvalidArgumentError, LifecycleError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HOOKS = (
    (watching, "infinite_watch"),
    (ToggleSet, "make_toggle"),
    (ToggleSet, "drop_toggle"),
    (ToggleSet, "drop_toggles"),
    (orchestration, "orchestrator" if hasattr(orchestration, "orchestrator") else "ochestrator"),
    (peering, "keepalive"),
    (scanning, "scan_resources"),
    (fetching, "fetch_objs" if hasattr(fetching, "fetch_objs") else "list_objs"),
)


def hooked() -> list[object]:
    """Return what kopf has at the places of the hooks."""
    return [getattr(owner, name) for owner, name in HOOKS]


PLAIN = hooked()


@pytest.fixture(autouse=True)
def _uninstalled() -> Iterator[None]:
    yield
    pyinformer.kopf.uninstall()
    assert hooked() == PLAIN


def test_every_hook_is_replaced_and_restored() -> None:
    pyinformer.kopf.install()
    assert not set(hooked()) & set(PLAIN)
    pyinformer.kopf.uninstall()
    assert hooked() == PLAIN
    pyinformer.kopf.uninstall()
    assert hooked() == PLAIN


@pytest.mark.parametrize(
    ("switch", "message"),
    [
        ("on", f"the watch streams of kopf {version('kopf')} run on pyinformer"),
        ("off", "kopf runs unchanged, without pyinformer: the environment has PYINFORMER_KOPF=off"),
    ],
)
def test_the_log_names_what_kopf_runs_on(
    switch: str, message: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PYINFORMER_KOPF", switch)
    with caplog.at_level(logging.INFO, "pyinformer.kopf"):
        pyinformer.kopf.install()
    assert caplog.messages == [message]


def test_the_log_has_one_line_when_kopf_is_restored(caplog: pytest.LogCaptureFixture) -> None:
    pyinformer.kopf.install()
    with caplog.at_level(logging.INFO, "pyinformer.kopf"):
        pyinformer.kopf.uninstall()
        pyinformer.kopf.uninstall()
    assert caplog.messages == ["kopf is restored: streams that begin from now on are plain kopf"]


def test_a_second_installation_is_refused_and_names_the_first() -> None:
    pyinformer.kopf.install()
    with pytest.raises(LifecycleError, match=r"installed already, by .*test_installation\.py"):
        pyinformer.kopf.install()
    pyinformer.kopf.uninstall()
    pyinformer.kopf.install()


def test_an_installation_by_a_running_operator_is_refused() -> None:
    token = auth.vault_var.set(Vault())
    try:
        with pytest.raises(LifecycleError, match="at the top of the module"):
            pyinformer.kopf.install()
    finally:
        auth.vault_var.reset(token)
    assert hooked() == PLAIN


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"only": ["pods"], "exclude": ["pods"]}, "'pods' in both", id="both"),
        pytest.param({"only": "pods"}, "must be a list of resources", id="text"),
        pytest.param({"exclude": ["v1/pods"]}, "got 'v1/pods'", id="with-version"),
        pytest.param({"exclude": [""]}, "got ''", id="empty"),
        pytest.param({"bodies": 1}, "must be True or False, got 1", id="bodies"),
        pytest.param(
            {"bodies": False, "warm_while_paused": True}, "leave out bodies=False", id="warm"
        ),
    ],
)
def test_contradicting_arguments_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        pyinformer.kopf.install(**arguments)  # type: ignore[arg-type]  # wrong on purpose
    assert hooked() == PLAIN


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param("1.36.9", "version 1.36.9 is too old", id="old"),
        pytest.param("main", "version main is unknown", id="unknown"),
    ],
)
def test_an_unsupported_version_of_kopf_is_not_patched(
    found: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Distribution, "version", found)
    with caplog.at_level(logging.WARNING):
        pyinformer.kopf.install()
    assert words in caplog.text
    assert hooked() == PLAIN
    with pytest.raises(ConfigurationError, match=words):
        pyinformer.kopf.install(strict=True)


def test_a_kopf_without_one_of_the_hooks_is_not_patched(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(watching, "streaming_block")
    monkeypatch.setattr(peering, "touch", lambda name: name)
    with caplog.at_level(logging.WARNING):
        pyinformer.kopf.install()
    assert "has changed kopf._cogs.clients.watching.streaming_block" in caplog.text
    assert "kopf._core.engines.peering.touch" in caplog.text
    assert hooked() == PLAIN


@pytest.mark.parametrize("lost", ["_condition", "_fn", "_toggles"])
def test_a_kopf_with_other_sets_of_toggles_is_not_patched(
    lost: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = ToggleSet.__init__

    def changed(self: ToggleSet, fn: Callable[[Iterable[bool]], bool]) -> None:
        original(self, fn)
        delattr(self, lost)

    monkeypatch.setattr(ToggleSet, "__init__", changed)
    with caplog.at_level(logging.WARNING):
        pyinformer.kopf.install()
    assert "has changed ToggleSet" in caplog.text
    assert hooked() == PLAIN


def test_one_line_reports_the_installation(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        pyinformer.kopf.install()
    (line,) = caplog.messages
    page = (Path(__file__).parents[2] / "docs/howto/kopf-on-pyinformer.md").read_text()
    assert f"`{line}`".replace(version("kopf"), "1.45.2") in page


def test_only_its_own_probe_is_not_logged() -> None:
    pyinformer.kopf.install()
    probes = logging.getLogger("kopf.activities.probe")
    shown = [
        bool(probes.filter(probes.makeRecord("x", logging.INFO, "", 0, text, (), None)))
        for text in (
            "Activity 'pyinformer' succeeded.",
            "Activity 'pyinformer' failed permanently: forbidden",
            "Activity 'other' succeeded.",
        )
    ]
    assert shown == [False, True, True]


def test_a_lister_needs_an_operator() -> None:
    with pytest.raises(LifecycleError, match="call it in a handler"):
        pyinformer.kopf.lister("v1", "pods")


_PROGRAM = """
import logging
import sys
import kopf
from kopf._cogs.clients import auth, watching
del auth.authenticated  # as if kopf had renamed it
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
plain = watching.infinite_watch
import pyinformer.kopf
pyinformer.kopf.uninstall()
pyinformer.kopf.install()
print("plain" if watching.infinite_watch is plain else "changed")
try:
    pyinformer.kopf.install(strict=True)
except pyinformer.errors.ConfigurationError as error:
    print(error)
"""


def test_a_kopf_with_other_internals_is_not_patched() -> None:
    command = [sys.executable, "-c", _PROGRAM]
    output = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    warning, plain, error = output.splitlines()
    assert warning.startswith(
        "WARNING kopf runs unchanged, without pyinformer: its internal modules"
    )
    assert plain == "plain"
    assert "install a newer pyinformer" in error


def test_without_kopf_the_import_names_the_extra() -> None:
    program = "import sys; sys.modules['kopf'] = None; import pyinformer.kopf"

    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "ModuleNotFoundError: pyinformer.kopf needs the package kopf" in ended.stderr
    assert "pip install 'pyinformer[kopf]'" in ended.stderr
