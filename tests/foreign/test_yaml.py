"""YAML, read and written as Go does: by the parser of kubectl, Helm and the API server."""

from __future__ import annotations

import base64
import json
import subprocess
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings

from pyinformer.objects import YAMLError, dump_yaml, json_as_yaml, json_for_yaml, load_yaml
from tests import go_yaml
from tests.go_yaml import DOCUMENTS, KEYS, REFUSED, SCALARS, same
from tests.soak import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Go = Callable[[str | bytes], Any]

pytestmark = [pytest.mark.foreign, pytest.mark.timeout(300)]

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
    "contexts": [{"name": "none", "context": {"cluster": "none"}}],
    "current-context": "none",
}


class GoRefusesError(Exception):
    """Go does not read the text."""


@pytest.fixture(scope="module")
def go(client_go: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Go]:
    """What Go reads in a text."""
    kubeconfig = tmp_path_factory.mktemp("yaml") / "kubeconfig"
    kubeconfig.write_text(json.dumps(KUBECONFIG), encoding="utf-8")
    command = [str(client_go), "yaml", "-", str(kubeconfig), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        asked, answers = program.stdin, program.stdout
        assert asked is not None
        assert answers is not None

        def read(text: str | bytes) -> Any:
            raw = text.encode() if isinstance(text, str) else text
            asked.write(json.dumps(base64.b64encode(raw).decode()).encode() + b"\n")
            asked.flush()
            answer = json.loads(answers.readline())
            if "error" in answer:
                raise GoRefusesError(answer["error"])
            return answer["value"]

        yield read
        asked.close()


def test_go_reads_the_texts_of_the_other_tests_as_they_promise(go: Go) -> None:
    read = {
        **{text: go(f"a: {text}\n") for text in SCALARS},
        **{f"{key}: ": go(f"{key}: 1\n") for key in KEYS},
        **{text: go(text) for text in DOCUMENTS},
    }

    expected = {
        **{text: {"a": value} for text, value in SCALARS.items()},
        **{f"{key}: ": {name: 1} for key, name in KEYS.items()},
        **DOCUMENTS,
    }
    assert {text: value for text, value in read.items() if not same(value, expected[text])} == {}


@pytest.mark.parametrize("text", REFUSED)
def test_go_refuses_what_we_refuse(go: Go, text: str) -> None:
    with pytest.raises(GoRefusesError):
        go(text)


@settings(max_examples=examples(300), deadline=None)
@given(value=go_yaml.values)
def test_go_reads_what_is_printed_as_the_same_value(go: Go, value: Any) -> None:
    printed = dump_yaml(value)

    assert same(go(printed), value), printed


@settings(max_examples=examples(300), deadline=None)
@given(value=go_yaml.values)
def test_go_reads_the_json_of_an_apply_as_the_same_value(go: Go, value: Any) -> None:
    raw = msgspec.json.encode(value)

    assert same(go(json_for_yaml(raw)), value)
    assert same(go(json_as_yaml(raw)), value)


@settings(max_examples=examples(1000), deadline=None)
@given(text=go_yaml.documents)
def test_a_text_that_both_read_has_the_value_that_go_reads(go: Go, text: str) -> None:
    try:
        ours, theirs = load_yaml(text), go(text)
    except (YAMLError, GoRefusesError):
        return  # libyaml refuses a few texts that Go reads, such as `[a:, b]`

    assert same(ours, theirs)


@settings(max_examples=examples(300), deadline=None)
@given(value=go_yaml.values)
def test_json_is_read_as_go_reads_it_as_yaml(go: Go, value: Any) -> None:
    for raw in (msgspec.json.encode(value), json.dumps(value).encode()):
        try:
            theirs = go(raw)
        except GoRefusesError:
            with pytest.raises(YAMLError):
                load_yaml(raw)
        else:
            assert same(load_yaml(raw), theirs)
