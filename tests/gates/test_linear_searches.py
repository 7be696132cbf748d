"""No foreign text is searched again from each of its characters: that would block the program.

Each text is made so that a search that begins again and again takes minutes or days; the timeout of
pytest ends the test then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

import pyinformer
from pyinformer.client.transport import status_error
from pyinformer.objects import fields_of, load_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

_MANY = 300_000


def _refusal(field: str) -> None:
    """Read a refusal, which a webhook has written."""
    body = msgspec.json.encode(
        {"details": {"causes": [{"reason": "FieldValueInvalid", "field": field}]}}
    )
    assert str(status_error(422, {}, body, request="PATCH /x").refusal_causes)


def _annotation(value: str) -> None:
    """Redact a Secret, whose annotations a tenant has written."""
    metadata = {"name": "a", "annotations": {"a.example.com/b": value}}
    shown = pyinformer.redacted({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    assert shown["metadata"]["annotations"]


def _kubeconfig(text: str) -> None:
    """Read a kubeconfig, which a tenant has written."""
    assert load_yaml(text, max_values=2_000_000)


def _deep(rest: str) -> None:
    """Read a line of a watch that is nested too deeply, and cut off."""
    with pytest.raises(msgspec.DecodeError):
        fields_of(f'{{"object":{"[" * 5_000}{rest}'.encode())


@pytest.mark.parametrize(
    ("read", "text"),
    [
        pytest.param(_refusal, "[=" * _MANY, id="cause"),
        pytest.param(_refusal, '["' * _MANY, id="cause-of-quotes"),
        pytest.param(_refusal, '["' + r"\"" * _MANY + "\\", id="cause-of-escapes"),
        pytest.param(_annotation, "\\" * _MANY, id="annotation"),
        pytest.param(_annotation, '"data' + "\\" * _MANY, id="annotation-of-a-copy"),
        pytest.param(_kubeconfig, "{" + "\n" * _MANY + '"a":1}', id="blank-lines"),
        pytest.param(_kubeconfig, '{"a":1' + " \n\t" * _MANY + "}", id="blank-end"),
        pytest.param(_deep, '"' + r"\"" * _MANY, id="string-without-end"),
        pytest.param(_deep, '"' + r"\"" * _MANY + "\\", id="string-cut-in-an-escape"),
    ],
)
def test_a_text_is_read_once(read: Callable[[str], None], text: str) -> None:
    read(text)


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ('spec.ports[name="a]b"].port', "spec.ports[].port"),
        ('spec.ports[name="a[b"].port', "spec.ports[].port"),
        ('spec.ports[name="hunter2', "spec.ports[]"),
        ("spec.ports[0].port", "spec.ports[0].port"),
        ('metadata.annotations["a"b"]', "metadata.annotations[]"),
        ("spec.ports[", "spec.ports["),
    ],
)
def test_what_selects_an_element_is_left_out(field: str, shown: str) -> None:
    body = msgspec.json.encode({"details": {"causes": [{"reason": "R", "field": field}]}})
    (cause,) = status_error(422, {}, body, request="PATCH /x").refusal_causes
    assert cause.field == shown
