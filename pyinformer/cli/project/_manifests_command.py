"""`pyinformer manifests`: write the manifests of an operator, or compare them with the files."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TextIO

from pyinformer.cli._exit_status import FAILED, OK, failure
from pyinformer.cli._target import load_operator
from pyinformer.cli.project._manifest_settings import read_settings
from pyinformer.cli.project._manifests import manifests_of
from pyinformer.errors import InformerError

_AT_URL: Final = (
    "the hooks are at {}, so there is no webhooks.yaml, and the definitions name that URL: for a"
    " cluster, pass Webhooks(service=), as a project of `pyinformer init` does without WEBHOOK_URL"
)


def update_manifests(
    target: str, *, check: bool, folder: Path, output: TextIO, errors: TextIO
) -> int:
    """Write the manifests that differ, or print how they differ.

    Everything is made before the first file is written.

    Args:
        target: `module:name` of the Operator.
        check: write nothing; print a unified diff.
        folder: the project.
        output: receives the diff, or the paths of the written files.
        errors: receives one line if something is invalid, or if no Service leads to the hooks.

    Returns:
        The exit status; with `check`, 1 if a file differs, and 2 for an error.
    """
    try:
        app = load_operator(target)
        files = manifests_of(app, *read_settings(folder))
        changes = dict(_changes(folder, files))
        if app.webhooks is not None and app.webhooks.url is not None:
            print(_AT_URL.format(app.webhooks.url), file=errors)
        for path, text in changes.items():
            if not check:
                replace(folder / path, text)
            print(_diff(folder, path, text) if check else path, file=output)
    except (InformerError, OSError) as error:
        print(f"cannot write manifests: {error}", file=errors)
        return failure(check=check)
    return FAILED if check and changes else OK


def _changes(folder: Path, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path, text in files.items():
        if _text(folder / path) != text:
            yield path, text


def _text(path: Path) -> str:
    """Return the text of a file; empty if it does not exist."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def _diff(folder: Path, path: str, text: str) -> str:
    old, new = _text(folder / path).splitlines(), text.splitlines()
    return "\n".join(difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm=""))


def replace(path: Path, text: str) -> None:
    """Write a file as a whole; remove it if the text is empty."""
    if not text:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
